/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/timex.h>
#include <unistd.h>

#include "merger/cli/cli.h"
#include "proto/base/units.h"
#include "proto/port/netdev.h"

/*
 * Checks what makes a machine lose packets when it records. Each check adds findings of one
 * line: change something, all is well, or not visible here. A finding may carry the change
 * as a fix. Checking changes nothing.
 */
enum setup_verdict { SETUP_OK, SETUP_CHANGE, SETUP_UNKNOWN };

enum setup_fix_kind {
	SETUP_FIX_NONE, /* only a person can */
	SETUP_FIX_FILE, /* value into the file of sysfs or procfs at where */
	SETUP_FIX_OFFLOAD, /* number: which */
	SETUP_FIX_RING, /* number: receive descriptors */
	SETUP_FIX_MTU, /* number: bytes */
};

struct setup_finding {
	const char *topic; /* "offloads", "ring", ...: a constant */
	char where[128]; /* an interface, a file, or "" */
	enum setup_verdict verdict;
	char text[256]; /* what is so, and why it matters */
	char mend[160]; /* a command; "" when there is none */
	char undo[160]; /* the command that takes it back */
	enum setup_fix_kind fix;
	char value[64];
	uint32_t number;
	bool fixed;
	char failed[128]; /* why it could not be fixed; or "" */
};

struct setup {
	const char *root; /* before /sys and /proc: "", or a copy of another machine's */
	struct setup_finding *list;
	size_t count;
	bool failed; /* out of memory */
};

static struct setup_finding nowhere; /* where findings go when there is no memory */

/* Adds a finding with its text. Never NULL: without memory the finding is not listed. */
__attribute__((format(printf, 5, 6))) static struct setup_finding *
setup_add(struct setup *s, const char *topic, const char *where, enum setup_verdict verdict,
	const char *fmt, ...)
{
	struct setup_finding *grown = reallocarray(s->list, s->count + 1, sizeof *grown);
	struct setup_finding *f = grown ? &grown[s->count] : &nowhere;
	va_list ap;

	if (grown) {
		s->list = grown;
		s->count++;
	}
	s->failed |= !grown;
	*f = (struct setup_finding){.topic = topic, .verdict = verdict};
	PR_PRINT(f->where, "%s", where);
	va_start(ap, fmt);
	vsnprintf(f->text, sizeof f->text, fmt, ap);
	va_end(ap);
	return f;
}

/* Adds a finding whose fix writes value into the file at path, which holds old now. */
static void
setup_add_file(struct setup *s, const char *topic, const char *path, const char *old,
	const char *value, const char *why)
{
	struct setup_finding *f =
		setup_add(s, topic, path, SETUP_CHANGE, "is %s: %s", old, why);

	PR_PRINT(f->mend, "echo %s > %s", value, path);
	PR_PRINT(f->undo, "echo %s > %s", old, path);
	f->fix = SETUP_FIX_FILE;
	PR_PRINT(f->value, "%s", value);
}

#define LINE 128 /* bytes that are taken of a file */

/* The first line of a file below root, without its end; false: there is none that can be read. */
static bool
setup_read(const struct setup *s, const char *path, char out[LINE])
{
	char whole[512];
	int fd, saved = errno;

	if ((size_t)PR_PRINT(whole, "%s%s", s->root, path) >= sizeof whole)
		return false;
	fd = open(whole, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t n = fd < 0 ? -1 : read(fd, out, LINE - 1);
	pr_close(fd);
	errno = saved;
	if (n < 0)
		return false;
	out[n] = '\0';
	out[strcspn(out, "\n")] = '\0';
	/* it goes to the terminal: a copy of a machine may hold anything */
	pr_text_clean(out, "");
	return true;
}

/* A finding if the file does not hold this value. -1: it cannot be read; 1: it does not. */
static int
must_hold(struct setup *s, const char *topic, const char *path, const char *value,
	const char *why)
{
	char text[LINE];

	if (!setup_read(s, path, text))
		return -1;
	if (!strcmp(text, value))
		return 0;
	setup_add_file(s, topic, path, text, value, why);
	return 1;
}

/* ---- interfaces: a few questions of ethtool(8), asked of the kernel itself ---- */

#define TAGS 8 /* what stacked VLAN tags add to a frame */
#define IRQS_MAX 256

static bool
read_of(const struct setup *s, const char *name, const char *what, char out[LINE])
{
	char path[256];

	PR_PRINT(path, "/sys/class/net/%s/%s", name, what);
	return setup_read(s, path, out);
}

/* ---- offloads ---- */

static void
check_offload(struct setup *s, const char *name, unsigned i)
{
	const struct pr_netdev_offload *o = &pr_netdev_offloads[i];
	int on = pr_netdev_offload_get(name, i);

	if (on < 0) {
		setup_add(s, "offloads", name, SETUP_UNKNOWN, "%s: %s", o->name,
			strerror(errno));
	} else if (!on) {
		setup_add(s, "offloads", name, SETUP_OK, "%s is off", o->name);
	} else {
		struct setup_finding *f = setup_add(s, "offloads", name, SETUP_CHANGE,
			"%s is on: %s (packrack's programs switch it off while they run)",
			o->name,
			o->sends ? "the other end of the veth pair receives packets that "
				   "are not yet segmented"
				 : "merges received packets into ones that were never on "
				   "the wire");
		PR_PRINT(f->mend, "ethtool -K %s %s off", name, o->name);
		PR_PRINT(f->undo, "ethtool -K %s %s on", name, o->name);
		f->fix = SETUP_FIX_OFFLOAD;
		f->number = i;
	}
}

/*
 * Sets fix and undo: a command with the interface and a number, the wanted or the present
 * one.
 */
static void
mend_number(struct setup_finding *f, enum setup_fix_kind fix, const char *command,
	uint32_t wanted, uint32_t now)
{
	PR_PRINT(f->mend, command, f->where, wanted);
	PR_PRINT(f->undo, command, f->where, now);
	f->fix = fix;
	f->number = wanted;
}

static void
check_ring(struct setup *s, const char *name)
{
	struct ethtool_ringparam ring = {.cmd = ETHTOOL_GRINGPARAM};
	bool read = pr_netdev_ethtool(name, &ring) == 0;
	uint32_t now = ring.rx_pending, most = ring.rx_max_pending;
	struct setup_finding *f;

	if (!read || most == 0) {
		setup_add(s, "ring", name, SETUP_UNKNOWN,
			"the driver reports no receive ring");
		return;
	}
	f = setup_add(s, "ring", name, now < most ? SETUP_CHANGE : SETUP_OK,
		"%" PRIu32 " of %" PRIu32 " receive descriptors%s", now, most,
		now < most ? ": a burst overflows it early" : "");
	if (now != most)
		mend_number(f, SETUP_FIX_RING, "ethtool -G %s rx %u", most, now);
}

/* ---- the line ---- */

static void
check_link(struct setup *s, const char *name)
{
	const int on = IFF_UP | IFF_RUNNING;
	struct ifreq ifr = {0};
	char state[LINE];
	bool read, down;

	/* asked of the kernel, as a network namespace need not have a sysfs of its own */
	if (*s->root) {
		read = read_of(s, name, "operstate", state);
	} else {
		read = pr_netdev_ioctl(name, SIOCGIFFLAGS, &ifr) == 0;
		PR_PRINT(state, (ifr.ifr_flags & on) == on ? "up" : "down");
	}
	if (!read) {
		setup_add(s, "link", name, SETUP_UNKNOWN, "its state cannot be read");
		return;
	}
	down = !strcmp(state, "down");
	struct setup_finding *f = setup_add(s, "link", name, down ? SETUP_CHANGE : SETUP_OK,
		"is %s%s", state, down ? ": no cable, or not set up" : "");
	if (down)
		PR_PRINT(f->mend, "ip link set %s up", name);
}

/* A slot that is narrower than the card. */
static void
check_slot(struct setup *s, const char *name)
{
	char now[LINE], most[LINE];

	if (!read_of(s, name, "device/current_link_width", now) ||
		!read_of(s, name, "device/max_link_width", most))
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
		PR_PRINT(f->mend, "ip address flush dev %s", name);
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

	PR_PRINT(path, "%s/sys/class/net/%s/device/msi_irqs", s->root, name);
	DIR *dir = opendir(path);
	while (dir && count < IRQS_MAX && (e = readdir(dir)))
		if (atoi(e->d_name) > 0)
			irqs[count++] = atoi(e->d_name);
	if (dir)
		closedir(dir);
	qsort(irqs, count, sizeof *irqs, by_number);
	return count;
}

/* One finding for each interrupt that has to move, one for all when they are spread. */
static void
check_irqs(struct setup *s, const char *name)
{
	char path[96], text[LINE], first[LINE] = "", cpu[16], *dash = NULL;
	int irqs[IRQS_MAX];
	size_t count = list_irqs(s, name, irqs), same = 0, seen = 0;
	long long n;

	if (setup_read(s, "/sys/devices/system/cpu/online", text))
		dash = strrchr(text, '-');
	n = dash ? atoll(dash + 1) + 1 : 1;
	for (size_t i = 0; i < count; i++) {
		PR_PRINT(path, "/proc/irq/%d/smp_affinity_list", irqs[i]);
		if (!setup_read(s, path, text))
			continue;
		if (!seen++)
			PR_PRINT(first, "%s", text);
		same += !strcmp(text, first);
	}
	if (seen < 2 || n < 2) {
		setup_add(s, "interrupts", name, seen ? SETUP_OK : SETUP_UNKNOWN,
			seen ? "one interrupt, or one processor"
			     : "interrupts of its own cannot be seen here");
		return;
	}
	if (same < seen || strpbrk(first, ",-")) {
		setup_add(s, "interrupts", name, SETUP_OK,
			"%zu interrupts, not all on one processor", seen);
		return;
	}
	for (size_t i = 1; i < count; i++) {
		PR_PRINT(path, "/proc/irq/%d/smp_affinity_list", irqs[i]);
		PR_PRINT(cpu, "%lld", (long long)i % n);
		must_hold(s, "interrupts", path, cpu,
			"all of the card's interrupts are on that processor");
	}
}

/* ---- MTU ---- */

/* 0: there is no such interface, or it is not to be seen. */
static uint32_t
setup_mtu(const struct setup *s, const char *name)
{
	struct ifreq ifr = {0};
	char text[LINE];

	if (!*s->root)
		return pr_netdev_ioctl(name, SIOCGIFMTU, &ifr) < 0 ? 0 : ifr.ifr_mtu;
	return read_of(s, name, "mtu", text) ? strtoul(text, NULL, 10) : 0;
}

/* A rack interface carries the packets of the links, and 8 bytes of tags. */
static void
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
			       ": they would be truncated, or dropped by the switch"
			     : "is %" PRIu32 ", packets of the link need %" PRIu32,
		mtu, wanted);
	if (mtu < wanted)
		mend_number(f, SETUP_FIX_MTU, "ip link set %s mtu %u", wanted, mtu);
}

/* receives: its interrupts matter too */
static void
setup_check_interface(struct setup *s, const char *name, bool receives)
{
	struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO};
	bool virtual;

	if (setup_mtu(s, name) == 0) {
		setup_add(s, "link", name, SETUP_CHANGE,
			"there is no such interface: 'ip link' shows which there are");
		return;
	}
	check_link(s, name);
	if (*s->root) {
		setup_add(s, "offloads", name, SETUP_UNKNOWN,
			"cannot be read from a copy of a machine");
	} else {
		/* a card has a place on a bus; a virtual interface has none */
		virtual = pr_netdev_ethtool(name, &info) < 0 || info.bus_info[0] == '\0';
		/* what is sent matters on virtual interfaces only, whose peer gets it as it is */
		for (size_t i = 0; i < PR_NETDEV_OFFLOADS; i++)
			if (virtual || !pr_netdev_offloads[i].sends)
				check_offload(s, name, i);
		check_ring(s, name);
		check_addresses(s, name);
	}
	if (receives)
		check_irqs(s, name);
	check_slot(s, name);
}

/* ---- disks ---- */

#define PIECE (1 << 20) /* as StreamFS writes */
#define PIECES_MAX 256
#define TEST_NS (PR_NS_PER_S / 2)

static void
check_scheduler(struct setup *s, const char *path, dev_t device)
{
	static const char *const forms[] = {"/sys/dev/block/%u:%u/queue/scheduler",
		"/sys/dev/block/%u:%u/../queue/scheduler" /* of a partition's disk */};
	char file[128], text[LINE];

	for (size_t i = 0; i < PR_COUNT(forms); i++) {
		PR_PRINT(file, forms[i], major(device), minor(device));
		if (!setup_read(s, file, text))
			continue;
		if (strstr(text, "[bfq]"))
			setup_add_file(s, "disk", file, "bfq", "mq-deadline",
				"it favours fairness over latency, so writes can be late");
		else
			setup_add(s, "disk", path, SETUP_OK, "scheduler: %s", text);
		return;
	}
	setup_add(s, "disk", path, SETUP_UNKNOWN, "no I/O scheduler can be seen for it");
}

/* Bytes a second; 0: errno. Half a second, 256 MiB at most. A device or file is only read. */
static double
measure(int fd, bool writing, void *piece)
{
	int64_t begun = pr_now_mono(), now = begun;
	uint64_t done = 0;
	off_t at = 0;

	for (unsigned i = 0; i < PIECES_MAX && now - begun < TEST_NS; i++) {
		ssize_t n = writing ? pwrite(fd, piece, PIECE, at)
				    : pread(fd, piece, PIECE, at);

		if (n < 0 || (n == 0 && done == 0)) {
			errno = n < 0 ? errno : ENODATA;
			return 0;
		}
		at = n == PIECE ? at + n : 0; /* at its end: from the front */
		done += n;
		now = pr_now_mono();
	}
	if (writing && fdatasync(fd) < 0)
		return 0;
	now = pr_now_mono();
	return (double)done * 1e9 / (double)(now > begun ? now - begun : 1);
}

static void
check_speed(struct setup *s, const char *path, bool writing, uint64_t wanted)
{
	const char *what = writing ? "writes" : "reads";
	char file[4096];
	void *piece = NULL;
	double speed = 0;
	/* a file without a name: it is gone when it is closed, even after a kill */
	int fd = writing ? open(path, O_TMPFILE | O_RDWR | O_DIRECT | O_CLOEXEC, 0600)
			 : open(path, O_RDONLY | O_DIRECT | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0 && writing && (errno == EOPNOTSUPP || errno == EISDIR)) {
		PR_PRINT(file, "%s/.packrack-setup.XXXXXX", path);
		fd = mkostemp(file, O_DIRECT | O_CLOEXEC);
		if (fd >= 0)
			unlink(file);
	}
	if (fd >= 0 && posix_memalign(&piece, 4096, PIECE) == 0) {
		memset(piece, 0x5a, PIECE);
		speed = measure(fd, writing, piece);
	}
	if (speed <= 0)
		setup_add(s, "disk", path, SETUP_UNKNOWN,
			"its speed past the page cache cannot be measured: %s",
			strerror(errno));
	else if (speed < (double)wanted)
		setup_add(s, "disk", path, SETUP_CHANGE,
			"%s %.0f MB/s, less than the required %.0f: use a faster disk, "
			"several disks in one volume, or more nodes",
			what, speed / 1e6, (double)wanted / 1e6);
	else
		setup_add(s, "disk", path, SETUP_OK, "%s %.0f MB/s", what, speed / 1e6);
	free(piece);
	pr_close(fd);
}

/* Reads a device, or writes a file in a folder for a moment; wanted: bytes a second, 0: any. */
static void
setup_check_disk(struct setup *s, const char *path, uint64_t wanted)
{
	struct stat st;

	if (stat(path, &st) < 0) {
		setup_add(s, "disk", path, SETUP_CHANGE, "%s", strerror(errno));
	} else if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode)) {
		setup_add(s, "disk", path, SETUP_CHANGE,
			"is not a device, file or directory: give the path of the volume");
	} else {
		check_scheduler(s, path, S_ISBLK(st.st_mode) ? st.st_rdev : st.st_dev);
		check_speed(s, path, S_ISDIR(st.st_mode), wanted);
	}
}

#define CPUS_MAX 4096
#define RMEM_WANTED (4 << 20) /* what the dispatcher asks for its control socket */
#define BACKLOG_WANTED 10000
#define LOCKED_WANTED (UINT64_C(256) << 20) /* rings and io_uring's buffers */
#define CLOCK_ERROR_US 10000

/* ---- processors ---- */

static void
check_governors(struct setup *s)
{
	const char *form = "/sys/devices/system/cpu/cpu%d/cpufreq/scaling_governor";
	char path[128];
	int seen = 0, slow = 0, bad = 0;

	for (int cpu = 0; cpu < CPUS_MAX && bad >= 0; cpu++) {
		PR_PRINT(path, form, cpu);
		bad = must_hold(s, "governor", path, "performance",
			"in idle phases the CPU clock drops, and the next burst of packets "
			"can overflow a capture buffer");
		seen += bad >= 0;
		slow += bad > 0;
	}
	if (seen == 0)
		setup_add(s, "governor", "", SETUP_UNKNOWN,
			"CPU frequency is not controlled by this system (virtual "
			"machine?)");
	else if (slow == 0)
		setup_add(s, "governor", "", SETUP_OK, "performance on all %d processors",
			seen);
}

static void
check_clocksource(struct setup *s)
{
	const char *path =
		"/sys/devices/system/clocksource/clocksource0/current_clocksource";
	char text[LINE];

	if (!setup_read(s, path, text))
		setup_add(s, "clocksource", "", SETUP_UNKNOWN, "it cannot be read");
	else if (!strcmp(text, "hpet") || !strcmp(text, "acpi_pm") ||
		 !strcmp(text, "jiffies"))
		setup_add(s, "clocksource", path, SETUP_CHANGE,
			"is %s: each stamp costs a microsecond; see why the kernel "
			"distrusts tsc (dmesg)",
			text);
	else
		setup_add(s, "clocksource", "", SETUP_OK, "%s", text);
}

static void
check_clock(struct setup *s)
{
	struct timex now = {0};
	int state = *s->root ? -1 : adjtimex(&now);
	bool wild = state == TIME_ERROR || now.status & STA_UNSYNC;

	if (state < 0) {
		setup_add(s, "clock", "", SETUP_UNKNOWN,
			"the kernel does not tell whether it is synchronised");
	} else if (!wild && now.maxerror < CLOCK_ERROR_US) {
		setup_add(s, "clock", "", SETUP_OK, "synchronised, within %ld us",
			now.maxerror);
	} else {
		struct setup_finding *f = setup_add(s, "clock", "", SETUP_CHANGE,
			wild ? "not synchronised: packet times, and the time ranges of "
			       "queries, will be wrong"
			     : "off by up to %ld us",
			now.maxerror);
		PR_PRINT(f->mend, "apt install chrony");
	}
}

/* ---- the network ---- */

static void
check_bridge(struct setup *s)
{
	static const char *const files[] = {"/proc/sys/net/bridge/bridge-nf-call-iptables",
		"/proc/sys/net/bridge/bridge-nf-call-ip6tables",
		"/proc/sys/net/bridge/bridge-nf-call-arptables"};
	int seen = 0, on = 0;

	for (size_t i = 0; i < PR_COUNT(files); i++) {
		int bad = must_hold(s, "bridge", files[i], "0",
			"netfilter on bridges is on: if a Linux bridge is the rack's "
			"switch, it drops or trims unusual frames");

		seen += bad >= 0;
		on += bad > 0;
	}
	if (on == 0)
		setup_add(s, "bridge", "", SETUP_OK,
			seen ? "netfilter does not look at bridged frames"
			     : "no bridge netfilter is loaded");
}

static void
check_at_least(struct setup *s, const char *path, long long wanted, const char *why)
{
	char text[LINE], value[32], *end = text;
	long long now = 0;

	errno = 0;
	if (setup_read(s, path, text))
		now = strtoll(text, &end, 0);
	if (end == text || errno) {
		setup_add(s, "sockets", path, SETUP_UNKNOWN, "it cannot be read");
		return;
	}
	PR_PRINT(text, "%lld", now);
	PR_PRINT(value, "%lld", wanted);
	if (now >= wanted)
		setup_add(s, "sockets", path, SETUP_OK, "%s", text);
	else
		setup_add_file(s, "sockets", path, text, value, why);
}

/* ---- memory ---- */

static void
check_locked(struct setup *s)
{
	const char *topic = "locked memory";
	struct rlimit limit;

	if (*s->root || getrlimit(RLIMIT_MEMLOCK, &limit) < 0) {
		setup_add(s, topic, "", SETUP_UNKNOWN,
			"the limit of the programs cannot be read");
	} else if (geteuid() == 0) {
		setup_add(s, topic, "", SETUP_OK, "root has no limit");
	} else if (limit.rlim_cur >= LOCKED_WANTED) { /* RLIM_INFINITY is the highest */
		setup_add(s, topic, "", SETUP_OK, "the limit is high enough");
	} else {
		struct setup_finding *f = setup_add(s, topic, "", SETUP_CHANGE,
			"at most %llu KiB for this user: rings that are swapped lose "
			"packets (the systemd units lift it)",
			(unsigned long long)limit.rlim_cur / 1024);
		PR_PRINT(f->mend,
			"ulimit -l unlimited, or LimitMEMLOCK=infinity in the unit");
	}
}

/* "always defer [madvise] never": the one in brackets holds. */
static void
check_huge_pages(struct setup *s)
{
	const char *path = "/sys/kernel/mm/transparent_hugepage/defrag";
	char text[LINE], *open, *close;

	if (!setup_read(s, path, text) || !(open = strchr(text, '[')) ||
		!(close = strchr(open, ']'))) {
		setup_add(s, "huge pages", "", SETUP_UNKNOWN, "the setting cannot be read");
		return;
	}
	*close = '\0';
	if (strcmp(open + 1, "always") == 0)
		setup_add_file(s, "huge pages", path, "always", "madvise",
			"the kernel may stop any program to put a huge page together");
	else
		setup_add(s, "huge pages", "", SETUP_OK, "defrag is %s", open + 1);
}

/* ---- changes ---- */

/* Does what the finding says. -1: errno. */
static int
fix(const struct setup *s, const struct setup_finding *f)
{
	struct ethtool_ringparam ring = {.cmd = ETHTOOL_GRINGPARAM};
	struct ifreq mtu = {.ifr_mtu = f->number};
	size_t len = strlen(f->value);
	char whole[512];
	int fd, rc;

	switch (f->fix) {
	case SETUP_FIX_OFFLOAD:
		return pr_netdev_offload_set(f->where, f->number, false);
	case SETUP_FIX_RING:
		if (pr_netdev_ethtool(f->where, &ring) < 0)
			return -1;
		ring.cmd = ETHTOOL_SRINGPARAM;
		ring.rx_pending = f->number;
		return pr_netdev_ethtool(f->where, &ring);
	case SETUP_FIX_MTU:
		return pr_netdev_ioctl(f->where, SIOCSIFMTU, &mtu);
	default:
		PR_PRINT(whole, "%s%s", s->root, f->where);
		fd = open(whole, O_WRONLY | O_CLOEXEC | O_TRUNC);
		if (fd < 0)
			return -1;
		rc = write(fd, f->value, len) == (ssize_t)len ? 0 : -1;
		return close(fd) < 0 ? -1 : rc;
	}
}

/* Does what can be done; a finding then says whether it was. Returns how many failed. */
static size_t
fix_all(struct setup *s)
{
	size_t failed = 0;

	for (size_t i = 0; i < s->count; i++) {
		struct setup_finding *f = &s->list[i];

		if (f->verdict != SETUP_CHANGE || f->fix == SETUP_FIX_NONE)
			continue;
		if (*s->root && f->fix != SETUP_FIX_FILE)
			continue; /* the interface is another machine's */
		f->fixed = fix(s, f) == 0;
		if (f->fixed)
			continue;
		PR_PRINT(f->failed, "%s", strerror(errno));
		failed++;
	}
	return failed;
}

struct setup_args {
	struct pr_string_list in, disk;
	char *out, *rack, *rate;
	uint64_t link_mtu, disk_rate; /* bytes per second */
	bool fix, json, keyvalue;
};

#define PR_VALUES struct setup_args

static const struct pr_option options[] = {
	PR_OPT_LIST(in, "in", 'i', "IFACE", "capture interface (dispatcher, logger --tap)"),
	PR_OPT_STRING(out, "out", 'o', "IFACE", "rack interface of a dispatcher"),
	PR_OPT_STRING(rack, "rack-interface", 0, "IFACE", "rack interface of a node",
		.aliases = {"rack"}),
	PR_OPT_UINT(link_mtu, "link-mtu", 0, "BYTES", 68, 65535,
		"MTU of the links, if they are not on this machine", .def = "1500"),
	PR_OPT_LIST(disk, "disk", 0, "PATH",
		"measure the speed of PATH: devices and files are read; in a directory, a "
		"temporary file is written"),
	PR_OPT_STRING(
		rate, "disk-rate", 0, "RATE", "rate that each disk must reach: 100MB"),
	PR_OPT_FLAG(fix, "fix", 0,
		"make the changes until the next boot, and print how to undo them"),
	CLI_FORM_OPTIONS()};

static void
check_all(struct setup *s, const struct setup_args *a)
{
	uint32_t link_mtu = a->in.count ? 0 : a->link_mtu;

	for (size_t i = 0; i < a->in.count; i++) {
		uint32_t mtu = setup_mtu(s, a->in.items[i]);

		setup_check_interface(s, a->in.items[i], true);
		link_mtu = mtu > link_mtu ? mtu : link_mtu;
	}
	if (a->out) {
		setup_check_interface(s, a->out, false);
		setup_check_mtu(s, a->out, link_mtu);
	}
	if (a->rack) {
		setup_check_interface(s, a->rack, true);
		setup_check_mtu(s, a->rack, a->link_mtu);
	}
	check_governors(s);
	check_clocksource(s);
	check_clock(s);
	check_bridge(s);
	check_at_least(s, "/proc/sys/net/core/rmem_max", RMEM_WANTED,
		"the dispatcher needs more, because many nodes send at the same time");
	check_at_least(s, "/proc/sys/net/core/netdev_max_backlog", BACKLOG_WANTED,
		"bursts are dropped before any program sees them");
	check_locked(s);
	check_huge_pages(s);
	for (size_t i = 0; i < a->disk.count; i++)
		setup_check_disk(s, a->disk.items[i], a->disk_rate);
}

/* r NULL: as text, else as data. */
static void
print_finding(const struct setup_finding *f, struct render *r)
{
	static const char *const verdicts[] = {"ok", "change", "unknown"};
	const char *verdict = f->fixed ? "fixed" : verdicts[f->verdict];

	if (r) {
		render_object(r, NULL);
		render_string(r, "verdict", verdict);
		render_string(r, "topic", f->topic);
		render_string(r, "where", f->where);
		render_string(r, "text", f->text);
		render_string(r, "mend", f->mend);
		render_string(r, "undo", f->undo);
		render_bool(r, "can_fix", f->fix != SETUP_FIX_NONE);
		render_string(r, "failed", f->failed);
		render_close(r);
		return;
	}
	printf("%-10s  %-13s  %s%s%s", verdict, f->topic, f->where, f->where[0] ? " " : "",
		f->text);
	if (f->mend[0])
		printf(f->fixed ? " (%s)" : ": %s", f->mend);
	if (f->failed[0])
		printf(", which failed: %s", f->failed);
	if (f->fixed && f->undo[0])
		printf("; undo: %s", f->undo);
	putchar('\n');
}

static int
run(const struct cli_call *call, struct pr_error *err)
{
	struct setup_args *a = call->values;
	const char *root = getenv("PACKRACK_SYSROOT");
	struct setup s = {.root = root ? root : ""};
	size_t failed, left = 0;
	struct pr_rate rate;
	int rc = 0;

	/* a rate, or a size as in older versions (100M) */
	if (a->rate && pr_parse_rate(a->rate, &rate) == 0 && !rate.packets)
		a->disk_rate = rate.per_second / 8;
	else if (a->rate)
		rc = pr_parse_size(a->rate, &a->disk_rate);
	if (rc < 0)
		return pr_error_as(CLI_USAGE, err,
			"--disk-rate: '%s' is not a rate, like 100MB", a->rate);
	check_all(&s, a);
	failed = a->fix ? fix_all(&s) : 0;
	struct render *r = cli_render(a->json, a->keyvalue, "findings");
	for (size_t i = 0; i < s.count; i++) {
		print_finding(&s.list[i], r);
		left += s.list[i].verdict == SETUP_CHANGE && !s.list[i].fixed;
	}
	rc = render_end(&r);
	free(s.list);
	return failed || rc || s.failed ? CLI_FAILED : left ? CLI_PARTIAL : CLI_OK;
}

const struct cli_command setup_command = {"setup",
	"find what makes this machine lose packets, and what to change",
	.summary = "Looks for what makes this machine lose packets, and prints what to "
		   "change.",
	.usage = "[options]", PR_OPTIONS(options),
	.footer = "Exit status: 0 nothing is to be changed, 3 something is, 1 a change "
		  "failed, 2 bad\nusage.",
	.call = run, .values = &(struct setup_args){.fix = false}};
