/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "merger/cli/rack/setup.h"
#include "proto/port/netdev.h"

/* The few questions of ethtool(8) that `packrack setup` has, asked of the kernel itself. -1: errno. */

static int
get_offload(const char *name, uint32_t command, uint32_t *out)
{
	struct ethtool_value value = {.cmd = command};

	if (pr_netdev_ethtool(name, &value) < 0)
		return -1;
	*out = value.data;
	return 0;
}

static int
get_ring(const char *name, uint32_t *now, uint32_t *most)
{
	struct ethtool_ringparam ring = {.cmd = ETHTOOL_GRINGPARAM};

	if (pr_netdev_ethtool(name, &ring) < 0)
		return -1;
	*now = ring.rx_pending;
	*most = ring.rx_max_pending;
	return 0;
}

/* A card has a place on a bus; a virtual interface has none. */
static bool
is_virtual(const char *name)
{
	struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO};

	return pr_netdev_ethtool(name, &info) < 0 || info.bus_info[0] == '\0';
}

/* 0: there is no such interface. */
static uint32_t
get_mtu(const char *name)
{
	struct ifreq ifr = {0};

	return pr_netdev_ioctl(name, SIOCGIFMTU, &ifr) < 0 ? 0 : (uint32_t)ifr.ifr_mtu;
}

/* Is it set up, and has it a carrier? */
static int
get_state(const char *name, bool *up, bool *running)
{
	struct ifreq ifr = {0};

	if (pr_netdev_ioctl(name, SIOCGIFFLAGS, &ifr) < 0)
		return -1;
	*up = ifr.ifr_flags & IFF_UP;
	*running = ifr.ifr_flags & IFF_RUNNING;
	return 0;
}

#define TAGS 8 /* what stacked VLAN tags add to a frame */
#define IRQS_MAX 256

static bool
read_of(const struct setup *s, const char *name, const char *what, char *out, size_t size)
{
	char path[256];

	snprintf(path, sizeof path, "/sys/class/net/%s/%s", name, what);
	return setup_read(s, path, out, size);
}

/* ---- offloads ---- */

static const struct offload {
	const char *name;
	uint32_t get, set, flag; /* flag: of a word that several share */
	const char *why;
	bool senders; /* matters only where frames go straight to another's receiver */
} offloads[] = {
	{"gro", ETHTOOL_GGRO, ETHTOOL_SGRO, 0,
		"merges received packets into ones that were never on the wire", false},
	{"lro", ETHTOOL_GFLAGS, ETHTOOL_SFLAGS, ETH_FLAG_LRO,
		"merges received packets into ones that were never on the wire", false},
	{"tso", ETHTOOL_GTSO, ETHTOOL_STSO, 0,
		"the other end of the veth pair receives packets that are not yet "
		"segmented",
		true},
	{"gso", ETHTOOL_GGSO, ETHTOOL_SGSO, 0,
		"the other end of the veth pair receives packets that are not yet "
		"segmented",
		true},
};

static void
check_offload(struct setup *s, const char *name, const struct offload *o)
{
	struct setup_finding *f;
	uint32_t word;

	if (get_offload(name, o->get, &word) < 0) {
		setup_add(s, "offloads", name, SETUP_UNKNOWN, "%s: %s", o->name,
			strerror(errno));
		return;
	}
	if (!(o->flag ? word & o->flag : word)) {
		setup_add(s, "offloads", name, SETUP_OK, "%s is off", o->name);
		return;
	}
	f = setup_add(s, "offloads", name, SETUP_CHANGE,
		"%s is on: %s (packrack's programs switch it off while they run)", o->name,
		o->why);
	snprintf(f->mend, sizeof f->mend, "ethtool -K %s %s off", name, o->name);
	snprintf(f->undo, sizeof f->undo, "ethtool -K %s %s on", name, o->name);
	f->fix = SETUP_FIX_OFFLOAD;
	f->command = o->set;
	f->number = o->flag ? word & ~o->flag : 0;
}

static void
check_offloads(struct setup *s, const char *name)
{
	bool virtual = is_virtual(name);

	for (size_t i = 0; i < sizeof offloads / sizeof offloads[0]; i++)
		if (virtual || !offloads[i].senders)
			check_offload(s, name, &offloads[i]);
}

static void
check_ring(struct setup *s, const char *name)
{
	struct setup_finding *f;
	uint32_t now, most;

	if (get_ring(name, &now, &most) < 0 || most == 0) {
		setup_add(s, "ring", name, SETUP_UNKNOWN,
			"the driver tells of no receive ring");
		return;
	}
	f = setup_add(s, "ring", name, now < most ? SETUP_CHANGE : SETUP_OK,
		"%" PRIu32 " of %" PRIu32 " receive descriptors%s", now, most,
		now < most ? ": a burst overflows it early" : "");
	if (now == most)
		return;
	snprintf(f->mend, sizeof f->mend, "ethtool -G %s rx %" PRIu32, name, most);
	snprintf(f->undo, sizeof f->undo, "ethtool -G %s rx %" PRIu32, name, now);
	f->fix = SETUP_FIX_RING;
	f->number = most;
}

/* ---- the line ---- */

/* Asked of the kernel, as a network namespace need not have a sysfs of its own. */
static bool
link_state(const struct setup *s, const char *name, char *state, size_t size)
{
	bool up, running;

	if (*s->root)
		return read_of(s, name, "operstate", state, size);
	if (get_state(name, &up, &running) < 0)
		return false;
	snprintf(state, size, "%s", up && running ? "up" : "down");
	return true;
}

static void
check_link(struct setup *s, const char *name)
{
	char state[32];
	struct setup_finding *f;

	if (!link_state(s, name, state, sizeof state)) {
		setup_add(s, "link", name, SETUP_UNKNOWN, "its state cannot be read");
		return;
	}
	f = setup_add(s, "link", name, strcmp(state, "down") ? SETUP_OK : SETUP_CHANGE,
		"is %s%s", state, strcmp(state, "down") ? "" : ": no cable, or not set up");
	if (f->verdict == SETUP_CHANGE)
		snprintf(f->mend, sizeof f->mend, "ip link set %s up", name);
}

/* A slot that is narrower than the card. */
static void
check_slot(struct setup *s, const char *name)
{
	char now[32], most[32];

	if (!read_of(s, name, "device/current_link_width", now, sizeof now) ||
		!read_of(s, name, "device/max_link_width", most, sizeof most))
		return;
	if (atoi(now) < atoi(most))
		setup_add(s, "slot", name, SETUP_CHANGE,
			"the card could use %s PCIe lanes and has %s: put it into another "
			"slot",
			most, now);
	else
		setup_add(s, "slot", name, SETUP_OK, "%s of %s PCIe lanes", now, most);
}

/* packrack's ports carry the rack's frames and nothing else. */
static void
check_addresses(struct setup *s, const char *name)
{
	struct ifaddrs *list, *at;
	struct setup_finding *f;
	int found = 0;

	if (getifaddrs(&list) < 0) {
		setup_add(s, "address", name, SETUP_UNKNOWN, "%s", strerror(errno));
		return;
	}
	for (at = list; at; at = at->ifa_next)
		found += at->ifa_addr && !strcmp(at->ifa_name, name) &&
			 (at->ifa_addr->sa_family == AF_INET ||
				 at->ifa_addr->sa_family == AF_INET6);
	freeifaddrs(list);
	f = setup_add(s, "address", name, found ? SETUP_CHANGE : SETUP_OK,
		found ? "has %d IP addresses: the kernel's own frames mix with the rack's"
		      : "has no IP address",
		found);
	if (found)
		snprintf(f->mend, sizeof f->mend, "ip address flush dev %s", name);
}

/* ---- interrupts ---- */

static int
by_number(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

static size_t
list_irqs(const struct setup *s, const char *name, int irqs[IRQS_MAX])
{
	char path[512];
	struct dirent *e;
	size_t count = 0;
	DIR *dir;

	snprintf(path, sizeof path, "%s/sys/class/net/%s/device/msi_irqs", s->root, name);
	dir = opendir(path);
	while (dir && count < IRQS_MAX && (e = readdir(dir)))
		if (atoi(e->d_name) > 0)
			irqs[count++] = atoi(e->d_name);
	if (dir)
		closedir(dir);
	qsort(irqs, count, sizeof *irqs, by_number);
	return count;
}

static long long
cpus(const struct setup *s)
{
	char text[64], *dash;

	if (!setup_read(s, "/sys/devices/system/cpu/online", text, sizeof text))
		return 1;
	dash = strrchr(text, '-');
	return dash ? atoll(dash + 1) + 1 : 1;
}

/* One finding for each interrupt that has to move, one for all when they are spread. */
static void
check_irqs(struct setup *s, const char *name)
{
	char path[96], text[64], first[64] = "", cpu[16];
	int irqs[IRQS_MAX];
	size_t count = list_irqs(s, name, irqs), same = 0, seen = 0;
	long long n = cpus(s);

	for (size_t i = 0; i < count; i++) {
		snprintf(path, sizeof path, "/proc/irq/%d/smp_affinity_list", irqs[i]);
		if (!setup_read(s, path, text, sizeof text))
			continue;
		if (!seen++)
			snprintf(first, sizeof first, "%s", text);
		same += !strcmp(text, first);
	}
	if (seen < 2 || n < 2) {
		setup_add(s, "interrupts", name, seen ? SETUP_OK : SETUP_UNKNOWN,
			seen ? "one interrupt, or one processor"
			     : "no interrupts of its own are to be seen");
		return;
	}
	if (same < seen || strpbrk(first, ",-")) {
		setup_add(s, "interrupts", name, SETUP_OK,
			"%zu interrupts, not all on one processor", seen);
		return;
	}
	for (size_t i = 1; i < count; i++) {
		snprintf(path, sizeof path, "/proc/irq/%d/smp_affinity_list", irqs[i]);
		snprintf(cpu, sizeof cpu, "%lld", (long long)i % n);
		if (setup_read(s, path, text, sizeof text) && strcmp(text, cpu))
			setup_add_file(s, "interrupts", path, text, cpu,
				"all of the card's interrupts are on that processor");
	}
}

/* ---- MTU ---- */

uint32_t
setup_mtu(const struct setup *s, const char *name)
{
	char text[32];

	if (!*s->root)
		return get_mtu(name);
	return read_of(s, name, "mtu", text, sizeof text)
		       ? (uint32_t)strtoul(text, NULL, 10)
		       : 0;
}

void
setup_check_mtu(struct setup *s, const char *name, uint32_t link_mtu)
{
	uint32_t mtu = setup_mtu(s, name), wanted = link_mtu + TAGS;
	struct setup_finding *f;

	if (mtu == 0 || link_mtu == 0) {
		setup_add(s, "mtu", name, SETUP_UNKNOWN, "it cannot be read");
		return;
	}
	f = setup_add(s, "mtu", name, mtu < wanted ? SETUP_CHANGE : SETUP_OK,
		mtu < wanted ? "is %" PRIu32 ", and packets of the link need %" PRIu32
			       ": they would be cut, or dropped by the switch"
			     : "is %" PRIu32 ", packets of the link need %" PRIu32,
		mtu, wanted);
	if (mtu >= wanted)
		return;
	snprintf(f->mend, sizeof f->mend, "ip link set %s mtu %" PRIu32, name, wanted);
	snprintf(f->undo, sizeof f->undo, "ip link set %s mtu %" PRIu32, name, mtu);
	f->fix = SETUP_FIX_MTU;
	f->number = wanted;
}

void
setup_check_interface(struct setup *s, const char *name, enum setup_role role)
{
	if (setup_mtu(s, name) == 0) {
		setup_add(s, "link", name, SETUP_CHANGE,
			"there is no such interface: 'ip link' shows which there are");
		return;
	}
	check_link(s, name);
	if (*s->root) {
		setup_add(s, "offloads", name, SETUP_UNKNOWN,
			"a copy of a machine tells nothing of them");
	} else {
		check_offloads(s, name);
		check_ring(s, name);
		check_addresses(s, name);
	}
	if (role == SETUP_IN || role == SETUP_RACK)
		check_irqs(s, name);
	check_slot(s, name);
}

static int
fix_ring(const char *name, uint32_t rx)
{
	struct ethtool_ringparam ring = {.cmd = ETHTOOL_GRINGPARAM};

	if (pr_netdev_ethtool(name, &ring) < 0)
		return -1;
	ring.cmd = ETHTOOL_SRINGPARAM;
	ring.rx_pending = rx;
	return pr_netdev_ethtool(name, &ring);
}

int
setup_fix_interface(const struct setup_finding *f)
{
	struct ethtool_value offload = {.cmd = f->command, .data = f->number};
	struct ifreq mtu = {.ifr_mtu = (int)f->number};

	switch (f->fix) {
	case SETUP_FIX_OFFLOAD:
		return pr_netdev_ethtool(f->where, &offload);
	case SETUP_FIX_RING:
		return fix_ring(f->where, f->number);
	case SETUP_FIX_MTU:
		return pr_netdev_ioctl(f->where, SIOCSIFMTU, &mtu);
	default:
		errno = ENOTSUP;
		return -1;
	}
}
