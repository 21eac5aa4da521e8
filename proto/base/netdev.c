/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/netdev.h"

#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if_arp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/base/netdev_tc.h"

int
pr_netdev_ioctl(const char *name, unsigned long request, struct ifreq *ifr)
{
	int fd, rc, saved;

	if (strlen(name) >= IFNAMSIZ) {
		errno = ENODEV;
		return -1;
	}
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	memcpy(ifr->ifr_name, name, strlen(name) + 1);
	rc = ioctl(fd, request, ifr);
	saved = errno;
	close(fd);
	errno = saved;
	return rc;
}

int
pr_netdev_ethtool(const char *name, void *command)
{
	struct ifreq ifr = {.ifr_data = command};

	return pr_netdev_ioctl(name, SIOCETHTOOL, &ifr);
}

static uint64_t
netdev_speed(const char *name)
{
	struct ethtool_cmd cmd = {.cmd = ETHTOOL_GSET};
	uint32_t mbits;

	if (pr_netdev_ethtool(name, &cmd) < 0)
		return 0;
	mbits = ethtool_cmd_speed(&cmd);
	return mbits == (uint32_t)SPEED_UNKNOWN ? 0 : (uint64_t)mbits * 1000000;
}

int
pr_netdev_open(struct pr_netdev *dev, const char *name, struct pr_error *err)
{
	struct ifreq ifr = {0};

	memset(dev, 0, sizeof *dev);
	if (name[0] == '\0' || strlen(name) >= sizeof dev->name || strchr(name, '/'))
		return pr_error_set(err, "'%s' cannot be the name of an interface", name);
	memcpy(dev->name, name, strlen(name) + 1);
	dev->index = if_nametoindex(name);
	if (dev->index == 0)
		return pr_error_set(err,
			"%s: no such interface ('ip link' shows which there are)", name);
	if (pr_netdev_ioctl(name, SIOCGIFHWADDR, &ifr) < 0)
		return pr_error_errno(err, "%s: cannot read its address", name);
	dev->ethernet = ifr.ifr_hwaddr.sa_family == ARPHRD_ETHER;
	memcpy(dev->mac, ifr.ifr_hwaddr.sa_data, sizeof dev->mac);
	if (pr_netdev_ioctl(name, SIOCGIFMTU, &ifr) < 0)
		return pr_error_errno(err, "%s: cannot read its MTU", name);
	dev->mtu = (uint32_t)ifr.ifr_mtu;
	if (pr_netdev_ioctl(name, SIOCGIFFLAGS, &ifr) < 0)
		return pr_error_errno(err, "%s: cannot read its flags", name);
	dev->up = ifr.ifr_flags & IFF_UP;
	dev->speed = netdev_speed(name);
	return 0;
}

int
pr_netdev_check(const struct pr_netdev *dev, struct pr_error *err)
{
	if (!dev->ethernet)
		return pr_error_set(
			err, "%s is no Ethernet interface: choose another", dev->name);
	if (!dev->up)
		return pr_error_set(
			err, "%s is down: 'ip link set %s up' first", dev->name, dev->name);
	return 0;
}

static const struct {
	const char *name;
	uint32_t get, set;
	uint32_t flag; /* for those that share one word */
} offloads[PR_NETDEV_OFFLOADS] = {
	{"gro", ETHTOOL_GGRO, ETHTOOL_SGRO, 0},
	{"lro", ETHTOOL_GFLAGS, ETHTOOL_SFLAGS, ETH_FLAG_LRO},
	{"tso", ETHTOOL_GTSO, ETHTOOL_STSO, 0},
	{"gso", ETHTOOL_GGSO, ETHTOOL_SGSO, 0},
};

/* 1 on, 0 off, -1 the device has no such thing */
static int
offload_get(const char *name, unsigned i, uint32_t *word)
{
	struct ethtool_value value = {.cmd = offloads[i].get};

	if (pr_netdev_ethtool(name, &value) < 0)
		return -1;
	*word = value.data;
	return offloads[i].flag ? (value.data & offloads[i].flag) != 0 : value.data != 0;
}

static void
offload_set(const char *name, unsigned i, bool on, uint32_t word)
{
	struct ethtool_value value = {.cmd = offloads[i].set, .data = on};

	if (offloads[i].flag)
		value.data = on ? word | offloads[i].flag : word & ~offloads[i].flag;
	pr_netdev_ethtool(name, &value);
}

/* Believes only what the device says afterwards. */
static bool
offloads_off(struct pr_netdev *dev)
{
	bool good = true;
	uint32_t word;

	for (unsigned i = 0; i < PR_NETDEV_OFFLOADS; i++) {
		if (offload_get(dev->name, i, &word) != 1)
			continue;
		offload_set(dev->name, i, false, word);
		dev->changed_offload[i] = true;
		good = good && offload_get(dev->name, i, &word) != 1;
	}
	return good;
}

/* Returns the old value ('0', '1'), or -1 when there is no IPv6 here, or it cannot be set. */
static int
ipv6_disable(const char *name, char value)
{
	char path[96];
	int old = -1;
	FILE *f;

	snprintf(path, sizeof path, "/proc/sys/net/ipv6/conf/%s/disable_ipv6", name);
	f = fopen(path, "r+");
	if (!f)
		return errno == ENOENT ? '1' : -1;
	old = fgetc(f);
	rewind(f);
	if (old != value && (fputc(value, f) == EOF || fflush(f) != 0))
		old = -1;
	fclose(f);
	return old;
}

static unsigned
failed(struct pr_error *err, unsigned what, const char *name, const char *text)
{
	size_t used = strlen(err->text);

	snprintf(err->text + used, sizeof err->text - used, "%s%s: %s", used ? "; " : "",
		name, text);
	return what;
}

unsigned
pr_netdev_prepare(struct pr_netdev *dev, unsigned want, struct pr_error *err)
{
	struct pr_error why;
	unsigned left = 0;
	int old;

	err->text[0] = '\0';
	if ((want & PR_NETDEV_DROP_INGRESS) && pr_tc_drop(dev, &why) < 0)
		left |= failed(err, PR_NETDEV_DROP_INGRESS, dev->name, why.text);
	if (want & PR_NETDEV_NO_IPV6) {
		old = ipv6_disable(dev->name, '1');
		dev->changed_ipv6 = old == '0';
		if (old < 0)
			left |= failed(err, PR_NETDEV_NO_IPV6, dev->name,
				"cannot switch IPv6 off: the kernel may send frames of its "
				"own");
	}
	if ((want & PR_NETDEV_NO_MERGE) && !offloads_off(dev))
		left |= failed(err, PR_NETDEV_NO_MERGE, dev->name,
			"an offload that merges frames stays on: packets may be recorded "
			"joined ('ethtool -K' may help)");
	return left;
}

const char *
pr_netdev_describe(const struct pr_netdev *dev, char *buf, size_t size)
{
	size_t used;

	snprintf(buf, size, "the kernel's own receive %s%s",
		dev->added_filter ? "off" : "on", dev->changed_ipv6 ? ", IPv6 off" : "");
	for (unsigned i = 0; i < PR_NETDEV_OFFLOADS; i++) {
		used = strlen(buf);
		if (dev->changed_offload[i])
			snprintf(buf + used, size - used, ", %s off", offloads[i].name);
	}
	return buf;
}

void
pr_netdev_restore(struct pr_netdev *dev)
{
	uint32_t word = 0;

	if (dev->index == 0 || if_nametoindex(dev->name) != dev->index)
		return;
	pr_tc_undo(dev);
	if (dev->changed_ipv6)
		ipv6_disable(dev->name, '0');
	dev->changed_ipv6 = false;
	for (unsigned i = PR_NETDEV_OFFLOADS; i-- > 0;) {
		if (!dev->changed_offload[i])
			continue;
		offload_get(dev->name, i, &word);
		offload_set(dev->name, i, true, word);
		dev->changed_offload[i] = false;
	}
}

uint64_t
pr_netdev_receive_drops(const char *name)
{
	unsigned long long drop = 0, fifo = 0;
	char line[512], found[64];
	FILE *f = fopen("/proc/net/dev", "re");

	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, " %63[^:]: %*u %*u %*u %llu %llu", found, &drop, &fifo) ==
				3 &&
			strcmp(found, name) == 0) {
			fclose(f);
			return drop + fifo;
		}
	if (f)
		fclose(f);
	return 0;
}
