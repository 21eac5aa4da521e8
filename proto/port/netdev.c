/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/port/netdev.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if_arp.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/base/array.h"
#include "proto/base/log.h"
#include "proto/base/privilege.h"
#include "proto/base/units.h"

/* ---- looking at an interface ---- */

/* -1: errno */
static int
ioctl_of(const char *name, unsigned long request, struct ifreq *ifr)
{
	if (strlen(name) >= IFNAMSIZ) {
		errno = ENODEV;
		return -1;
	}
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	memcpy(ifr->ifr_name, name, strlen(name) + 1);
	int rc = ioctl(fd, request, ifr);
	pr_close(fd);
	return rc;
}

/* A command of linux/ethtool.h. -1: errno */
static int
ethtool(const char *name, void *command)
{
	struct ifreq ifr = {.ifr_data = command};

	return ioctl_of(name, SIOCETHTOOL, &ifr);
}

int
pr_netdev_open(struct pr_netdev *dev, const char *name, struct pr_error *err)
{
	struct ethtool_cmd cmd = {.cmd = ETHTOOL_GSET};
	struct ifreq ifr = {0};

	memset(dev, 0, sizeof *dev);
	if (name[0] == '\0' || strlen(name) >= sizeof dev->name || strchr(name, '/'))
		return pr_error_set(err, "'%s' cannot be the name of an interface", name);
	memcpy(dev->name, name, strlen(name) + 1);
	dev->index = if_nametoindex(name);
	if (dev->index == 0)
		return pr_error_set(err,
			"%s: no such interface ('ip link' shows which there are)", name);
	if (ioctl_of(name, SIOCGIFHWADDR, &ifr) < 0)
		return pr_error_errno(err, "%s: cannot read its address", name);
	dev->ethernet = ifr.ifr_hwaddr.sa_family == ARPHRD_ETHER;
	memcpy(dev->mac, ifr.ifr_hwaddr.sa_data, sizeof dev->mac);
	if (ioctl_of(name, SIOCGIFMTU, &ifr) < 0)
		return pr_error_errno(err, "%s: cannot read its MTU", name);
	dev->mtu = ifr.ifr_mtu;
	if (ioctl_of(name, SIOCGIFFLAGS, &ifr) < 0)
		return pr_error_errno(err, "%s: cannot read its flags", name);
	dev->up = ifr.ifr_flags & IFF_UP;
	if (ethtool(name, &cmd) == 0 && ethtool_cmd_speed(&cmd) != (uint32_t)SPEED_UNKNOWN)
		dev->speed = (uint64_t)ethtool_cmd_speed(&cmd) * 1000000;
	return 0;
}

int
pr_netdev_check(const struct pr_netdev *dev, struct pr_error *err)
{
	if (!dev->ethernet)
		return pr_error_set(
			err, "%s is not an Ethernet interface: choose another", dev->name);
	if (!dev->up)
		return pr_error_set(
			err, "%s is down: 'ip link set %s up' first", dev->name, dev->name);
	return 0;
}

/* ---- tc(8): everything that comes in is dropped behind the packet sockets ---- */

/* A high priority number: filters of others run first, and ours can be found and removed. */
#define PRIO "49152"
/* return TC_ACT_SHOT, as a direct action */
#define DROP "1,6 0 0 2,"

/* The daemon's own environment may hold anything, so tc gets this one only. */
static char *const tc_env[] = {"PATH=/usr/sbin:/sbin:/usr/bin:/bin", NULL};

/* Exit status of tc, or -1 when it could not be run. */
static int
run_tc(const char *const argv[])
{
	static const char *const paths[] = {
		"/usr/sbin/tc", "/sbin/tc", "/usr/bin/tc", "/bin/tc"};
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none;
	pid_t pid;
	int status = 0;

	sigemptyset(&none);
	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
	for (int fd = 0; fd <= 2; fd++)
		posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
	errno = ENOENT;
	for (unsigned i = 0; errno == ENOENT && i < PR_COUNT(paths); i++)
		errno = posix_spawn(&pid, paths[i], &actions, &attr,
			(char *const *)(uintptr_t)argv, tc_env);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&actions);
	if (errno != 0)
		return -1;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static int
filter_delete(const char *name)
{
	const char *const argv[] = {
		"tc", "filter", "del", "dev", name, "ingress", "prio", PRIO, NULL};

	return run_tc(argv);
}

static int
tc_drop(struct pr_netdev *dev, struct pr_error *err)
{
	const char *const qdisc[] = {
		"tc", "qdisc", "add", "dev", dev->name, "clsact", NULL};
	const char *const filter[] = {"tc", "filter", "add", "dev", dev->name, "ingress",
		"protocol", "all", "prio", PRIO, "bpf", "da", "bytecode", DROP, NULL};
	int rc = run_tc(qdisc);

	if (rc < 0)
		return pr_error_errno(err,
			"cannot run tc (install iproute2): the kernel also "
			"processes captured frames and may answer them");
	dev->added_clsact = rc == 0; /* else one exists, or adding the filter fails too */
	filter_delete(dev->name); /* a killed run may have left its own */
	if (run_tc(filter) != 0)
		return pr_error_set(err, "cannot install the ingress filter with tc (needs "
					 "root and cls_bpf): the kernel also processes "
					 "captured frames and may answer them");
	dev->added_filter = true;
	return 0;
}

/* ---- preparing, and putting back ---- */

static const struct {
	const char *name;
	uint32_t get, set; /* commands of ethtool */
	uint32_t flag; /* bit of the offload in the word */
} offloads[PR_NETDEV_OFFLOADS] = {{"gro", ETHTOOL_GGRO, ETHTOOL_SGRO, 1},
	{"lro", ETHTOOL_GFLAGS, ETHTOOL_SFLAGS, ETH_FLAG_LRO},
	{"tso", ETHTOOL_GTSO, ETHTOOL_STSO, 1}, {"gso", ETHTOOL_GGSO, ETHTOOL_SGSO, 1}};

/* Not if the device has no such thing. */
static bool
offload_is_on(const char *name, unsigned i)
{
	struct ethtool_value value = {.cmd = offloads[i].get};

	return ethtool(name, &value) == 0 && value.data & offloads[i].flag;
}

static void
offload_set(const char *name, unsigned i, bool on)
{
	uint32_t flag = offloads[i].flag;
	struct ethtool_value value = {.cmd = offloads[i].get};

	if (ethtool(name, &value) < 0)
		return;
	value.cmd = offloads[i].set;
	value.data = on ? value.data | flag : value.data & ~flag;
	ethtool(name, &value);
}

bool
pr_netdev_is_veth(const char *name)
{
	struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO};

	return ethtool(name, &info) == 0 && strcmp(info.driver, "veth") == 0;
}

bool
pr_netdev_strips_tags(const char *name)
{
	struct ethtool_value flags = {.cmd = ETHTOOL_GFLAGS};

	/* a veth says so too, and does not: its peer may keep tags beside the frame ('txvlan') */
	return ethtool(name, &flags) == 0 && flags.data & ETH_FLAG_RXVLAN &&
	       !pr_netdev_is_veth(name);
}

/* Returns the old value ('0', '1'), or -1 when there is no IPv6 here, or it cannot be set. */
static int
ipv6_disable(const char *name, char value)
{
	char path[96];

	snprintf(path, sizeof path, "/proc/sys/net/ipv6/conf/%s/disable_ipv6", name);
	FILE *f = fopen(path, "r+");
	if (!f)
		return errno == ENOENT ? '1' : -1;
	int old = fgetc(f);
	rewind(f);
	if (old != value && (fputc(value, f) == EOF || fflush(f) != 0))
		old = -1;
	fclose(f);
	return old;
}

/* Failures are logged: the recorder works without these settings, only less well. */
void
pr_netdev_prepare(struct pr_netdev *dev)
{
	bool merges = false;
	struct pr_error err;
	char text[160];
	int used = pr_privilege_ask(PR_REQUEST_PREPARE, dev->name, 0, 0, -1, &err);

	if (used == -1)
		pr_log_warning("%s: not prepared for capture: %s", dev->name, err.text);
	if (used != -2)
		return;
	int ipv6 = ipv6_disable(dev->name, '1');
	dev->changed_ipv6 = ipv6 == '0';
	if (tc_drop(dev, &err) < 0)
		pr_log_warning("%s: %s", dev->name, err.text);
	if (ipv6 < 0)
		pr_log_warning("%s: cannot switch IPv6 off: the kernel may send frames of "
			       "its own",
			dev->name);
	used = snprintf(text, sizeof text, "kernel network stack %s%s",
		dev->added_filter ? "detached" : "attached",
		dev->changed_ipv6 ? ", IPv6 disabled" : "");
	for (unsigned i = 0; i < PR_NETDEV_OFFLOADS; i++) {
		if (!offload_is_on(dev->name, i))
			continue;
		offload_set(dev->name, i, false);
		dev->changed_offload[i] = true;
		merges |= offload_is_on(dev->name, i);
		used += snprintf(
			text + used, sizeof text - used, ", %s off", offloads[i].name);
	}
	if (merges)
		pr_log_warning("%s: an offload that merges frames stays on: packets may be "
			       "recorded joined ('ethtool -K' may help)",
			dev->name);
	pr_log_with(PR_LOG_INFO, PR_LOG_FIELDS({"interface", dev->name}),
		"%s: prepared for capture (%s); restored at exit", dev->name, text);
}

void
pr_netdev_restore(struct pr_netdev *dev)
{
	const char *const qdisc[] = {
		"tc", "qdisc", "del", "dev", dev->name, "clsact", NULL};

	if (pr_privilege_ask(PR_REQUEST_RESTORE, dev->name, 0, 0, -1, NULL) != -2)
		return;
	if (dev->index == 0 || if_nametoindex(dev->name) != dev->index)
		return;
	if (dev->added_filter)
		filter_delete(dev->name);
	if (dev->added_clsact)
		run_tc(qdisc);
	if (dev->changed_ipv6)
		ipv6_disable(dev->name, '0');
	dev->added_filter = dev->added_clsact = dev->changed_ipv6 = false;
	for (unsigned i = PR_NETDEV_OFFLOADS; i-- > 0;) {
		if (!dev->changed_offload[i])
			continue;
		offload_set(dev->name, i, true);
		dev->changed_offload[i] = false;
	}
}

struct pr_carrier
pr_carrier_read(const char *name)
{
	char path[64 + IFNAMSIZ];
	struct ifreq ifr;

	snprintf(path, sizeof path, "/sys/class/net/%s/carrier_changes", name);
	struct pr_carrier is = {.changes = pr_number_in(path, "%llu")};
	/* read after the count: a change in between shows at the next look */
	is.observing = ioctl_of(name, SIOCGIFFLAGS, &ifr) == 0 &&
		       (ifr.ifr_flags & (IFF_UP | IFF_RUNNING)) == (IFF_UP | IFF_RUNNING);
	return is;
}

bool
pr_carrier_look(struct pr_carrier *w, struct pr_carrier is, bool open, int64_t now,
	struct pr_observation *o, const char *by)
{
	bool was = w->observing;

	w->observing = open && is.observing;
	bool steady = w->observing && is.changes == w->changes;
	if (was && !steady)
		pr_observation_lost(o, PR_UNOBSERVED_NO_CARRIER, w->checked, "");
	if (w->observing && !(was && steady)) {
		if (w->begun)
			pr_observation_again(o, now);
		else
			pr_observation_begin(o, PR_UNOBSERVED_BEGIN, now, by);
		w->begun = true;
	}
	w->changes = is.changes;
	w->checked = now;
	return was != w->observing || (was && !steady);
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

/* ---- the port's LED ---- */

enum { SECONDS_DEFAULT = 10, SECONDS_MAX = 3600 };

struct blink {
	struct ethtool_value value;
	char name[IFNAMSIZ];
};

static atomic_bool blinking;

/* The call lasts as long as the LED blinks. */
static void *
blink_run(void *arg)
{
	struct blink *b = arg;

	if (ethtool(b->name, &b->value) < 0)
		pr_log_warning("%s: cannot blink its LED: %m", b->name);
	free(b);
	atomic_store(&blinking, false);
	return NULL;
}

int
pr_netdev_blink(const char *name, uint32_t seconds, struct pr_error *err)
{
	struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO};
	pthread_t thread;
	int asked = pr_privilege_ask(PR_REQUEST_BLINK, name, seconds, 0, -1, err);

	if (asked != -2)
		return asked;
	/*
	 * Checks the driver's name: virtual interfaces have no LED, but some accept the
	 * command.
	 */
	if (ethtool(name, &info) < 0 || !strcmp(info.driver, "veth") ||
		!strcmp(info.driver, "bridge") || !strcmp(info.driver, "tun"))
		return pr_error_set(err, "%s: the card has no LED to blink", name);
	if (atomic_exchange(&blinking, true))
		return pr_error_set(err, "%s: its LED blinks already", name);
	struct blink *b = calloc(1, sizeof *b);
	if (b) {
		b->value.cmd = ETHTOOL_PHYS_ID;
		b->value.data = seconds ? PR_MIN(seconds, SECONDS_MAX) : SECONDS_DEFAULT;
		snprintf(b->name, sizeof b->name, "%s", name);
	}
	if (!b || pthread_create(&thread, NULL, blink_run, b) != 0) {
		free(b);
		atomic_store(&blinking, false);
		return pr_error_set(
			err, "%s: cannot start a thread to blink its LED", name);
	}
	pthread_detach(thread);
	return 0;
}
