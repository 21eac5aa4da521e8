/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/setup_ethtool.h"

#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static int
ask(const char *name, unsigned long request, struct ifreq *ifr)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), rc, saved;

	if (fd < 0)
		return -1;
	if (strlen(name) >= IFNAMSIZ) {
		close(fd);
		errno = ENODEV;
		return -1;
	}
	memcpy(ifr->ifr_name, name, strlen(name) + 1);
	rc = ioctl(fd, request, ifr);
	saved = errno;
	close(fd);
	errno = saved;
	return rc;
}

static int
ethtool(const char *name, void *command)
{
	struct ifreq ifr = {.ifr_data = command};

	return ask(name, SIOCETHTOOL, &ifr);
}

int
setup_ethtool_get(const char *name, uint32_t command, uint32_t *out)
{
	struct ethtool_value value = {.cmd = command};

	if (ethtool(name, &value) < 0)
		return -1;
	*out = value.data;
	return 0;
}

int
setup_ethtool_set(const char *name, uint32_t command, uint32_t number)
{
	struct ethtool_value value = {.cmd = command, .data = number};

	return ethtool(name, &value);
}

int
setup_ethtool_ring(const char *name, uint32_t *now, uint32_t *most)
{
	struct ethtool_ringparam ring = {.cmd = ETHTOOL_GRINGPARAM};

	if (ethtool(name, &ring) < 0)
		return -1;
	*now = ring.rx_pending;
	*most = ring.rx_max_pending;
	return 0;
}

int
setup_ethtool_set_ring(const char *name, uint32_t rx)
{
	struct ethtool_ringparam ring = {.cmd = ETHTOOL_GRINGPARAM};

	if (ethtool(name, &ring) < 0)
		return -1;
	ring.cmd = ETHTOOL_SRINGPARAM;
	ring.rx_pending = rx;
	return ethtool(name, &ring);
}

bool
setup_ethtool_virtual(const char *name)
{
	struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO};

	return ethtool(name, &info) < 0 || info.bus_info[0] == '\0';
}

uint32_t
setup_get_mtu(const char *name)
{
	struct ifreq ifr = {0};

	return ask(name, SIOCGIFMTU, &ifr) < 0 ? 0 : (uint32_t)ifr.ifr_mtu;
}

int
setup_get_state(const char *name, bool *up, bool *running)
{
	struct ifreq ifr = {0};

	if (ask(name, SIOCGIFFLAGS, &ifr) < 0)
		return -1;
	*up = ifr.ifr_flags & IFF_UP;
	*running = ifr.ifr_flags & IFF_RUNNING;
	return 0;
}

int
setup_set_mtu(const char *name, uint32_t mtu)
{
	struct ifreq ifr = {.ifr_mtu = (int)mtu};

	return ask(name, SIOCSIFMTU, &ifr);
}
