/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/rack/setup_ethtool.h"

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <string.h>

#include "proto/port/netdev.h"

int
setup_ethtool_get(const char *name, uint32_t command, uint32_t *out)
{
	struct ethtool_value value = {.cmd = command};

	if (pr_netdev_ethtool(name, &value) < 0)
		return -1;
	*out = value.data;
	return 0;
}

int
setup_ethtool_set(const char *name, uint32_t command, uint32_t number)
{
	struct ethtool_value value = {.cmd = command, .data = number};

	return pr_netdev_ethtool(name, &value);
}

int
setup_ethtool_ring(const char *name, uint32_t *now, uint32_t *most)
{
	struct ethtool_ringparam ring = {.cmd = ETHTOOL_GRINGPARAM};

	if (pr_netdev_ethtool(name, &ring) < 0)
		return -1;
	*now = ring.rx_pending;
	*most = ring.rx_max_pending;
	return 0;
}

int
setup_ethtool_set_ring(const char *name, uint32_t rx)
{
	struct ethtool_ringparam ring = {.cmd = ETHTOOL_GRINGPARAM};

	if (pr_netdev_ethtool(name, &ring) < 0)
		return -1;
	ring.cmd = ETHTOOL_SRINGPARAM;
	ring.rx_pending = rx;
	return pr_netdev_ethtool(name, &ring);
}

bool
setup_ethtool_virtual(const char *name)
{
	struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO};

	return pr_netdev_ethtool(name, &info) < 0 || info.bus_info[0] == '\0';
}

uint32_t
setup_get_mtu(const char *name)
{
	struct ifreq ifr = {0};

	return pr_netdev_ioctl(name, SIOCGIFMTU, &ifr) < 0 ? 0 : (uint32_t)ifr.ifr_mtu;
}

int
setup_get_state(const char *name, bool *up, bool *running)
{
	struct ifreq ifr = {0};

	if (pr_netdev_ioctl(name, SIOCGIFFLAGS, &ifr) < 0)
		return -1;
	*up = ifr.ifr_flags & IFF_UP;
	*running = ifr.ifr_flags & IFF_RUNNING;
	return 0;
}

int
setup_set_mtu(const char *name, uint32_t mtu)
{
	struct ifreq ifr = {.ifr_mtu = (int)mtu};

	return pr_netdev_ioctl(name, SIOCSIFMTU, &ifr);
}
