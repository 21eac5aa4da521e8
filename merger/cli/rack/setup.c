/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/rack/setup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/timex.h>
#include <unistd.h>

#include "merger/cli/cli.h"
#include "merger/cli/render.h"
#include "proto/base/clock.h"
#include "proto/base/units.h"

extern const char *const setup_verdicts[]; /* "ok", "change", "unknown" */

const char *const setup_verdicts[] = {"ok", "change", "unknown"};

static struct setup_finding nowhere; /* where findings go when there is no memory */

struct setup_finding *
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
	snprintf(f->where, sizeof f->where, "%s", where);
	va_start(ap, fmt);
	vsnprintf(f->text, sizeof f->text, fmt, ap);
	va_end(ap);
	return f;
}

void
setup_add_file(struct setup *s, const char *topic, const char *path, const char *old,
	const char *value, const char *why)
{
	struct setup_finding *f =
		setup_add(s, topic, path, SETUP_CHANGE, "is %s: %s", old, why);

	snprintf(f->mend, sizeof f->mend, "echo %s > %s", value, path);
	snprintf(f->undo, sizeof f->undo, "echo %s > %s", old, path);
	f->fix = SETUP_FIX_FILE;
	snprintf(f->path, sizeof f->path, "%s", path);
	snprintf(f->value, sizeof f->value, "%s", value);
}

bool
setup_read(const struct setup *s, const char *path, char *out, size_t size)
{
	char whole[512];
	int fd, saved = errno;
	ssize_t n;

	if ((size_t)snprintf(whole, sizeof whole, "%s%s", s->root, path) >= sizeof whole)
		return false;
	fd = open(whole, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	n = fd < 0 ? -1 : read(fd, out, size - 1);
	if (fd >= 0)
		close(fd);
	errno = saved;
	if (n < 0)
		return false;
	out[n] = '\0';
	out[strcspn(out, "\n")] = '\0';
	/* it goes to the terminal: a copy of a machine may hold anything */
	for (char *c = out; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	return true;
}

/* The same as a number. */
static bool
setup_read_number(const struct setup *s, const char *path, long long *out)
{
	char text[64], *end;

	if (!setup_read(s, path, text, sizeof text))
		return false;
	errno = 0;
	*out = strtoll(text, &end, 0);
	return end != text && errno == 0;
}

#define PIECE (1 << 20) /* as StreamFS writes */
#define PIECES_MAX 256
#define TEST_NS (PR_NS_PER_S / 2)

static void
check_scheduler(struct setup *s, const char *path, dev_t device)
{
	static const char *const forms[] = {"/sys/dev/block/%u:%u/queue/scheduler",
		"/sys/dev/block/%u:%u/../queue/scheduler" /* of a partition's disk */};
	char file[128], text[128];

	for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
		snprintf(file, sizeof file, forms[i], major(device), minor(device));
		if (!setup_read(s, file, text, sizeof text))
			continue;
		if (strstr(text, "[bfq]"))
			setup_add_file(s, "disk", file, "bfq", "mq-deadline",
				"it favours fairness over latency, so writes can be late");
		else
			setup_add(s, "disk", path, SETUP_OK, "scheduler: %s", text);
		return;
	}
	setup_add(s, "disk", path, SETUP_UNKNOWN, "no scheduler of its own is to be seen");
}

/* A file that is nowhere: gone when it is closed, whatever happens. */
static int
open_nameless(const char *folder)
{
	int fd = open(folder, O_TMPFILE | O_RDWR | O_DIRECT | O_CLOEXEC, 0600);
	char path[4096];

	if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR))
		return fd;
	snprintf(path, sizeof path, "%s/.packrack-setup.XXXXXX", folder);
	fd = mkostemp(path, O_DIRECT | O_CLOEXEC);
	if (fd >= 0)
		unlink(path);
	return fd;
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
		done += (uint64_t)n;
		now = pr_now_mono();
	}
	if (writing && fdatasync(fd) < 0)
		return 0;
	now = pr_now_mono();
	return (double)done * 1e9 / (double)(now > begun ? now - begun : 1);
}

static void
judge_speed(struct setup *s, const char *path, bool writing, double speed, uint64_t wanted)
{
	const char *what = writing ? "writes" : "reads";

	if (speed < (double)wanted)
		setup_add(s, "disk", path, SETUP_CHANGE,
			"%s %.0f MB/s, less than the %.0f that are wanted: a faster disk, "
			"several of them in one volume, or more nodes",
			what, speed / 1e6, (double)wanted / 1e6);
	else
		setup_add(s, "disk", path, SETUP_OK, "%s %.0f MB/s", what, speed / 1e6);
}

static void
check_speed(struct setup *s, const char *path, bool writing, uint64_t wanted)
{
	int fd = writing ? open_nameless(path)
			 : open(path, O_RDONLY | O_DIRECT | O_CLOEXEC | O_NONBLOCK);
	void *piece = NULL;
	double speed = 0;

	if (fd >= 0 && posix_memalign(&piece, 4096, PIECE) == 0) {
		memset(piece, 0x5a, PIECE);
		speed = measure(fd, writing, piece);
	}
	if (speed > 0)
		judge_speed(s, path, writing, speed, wanted);
	else
		setup_add(s, "disk", path, SETUP_UNKNOWN,
			"its speed past the page cache cannot be measured: %s",
			strerror(errno));
	free(piece);
	if (fd >= 0)
		close(fd);
}

/* Reads a device, or writes a file in a folder for a moment; wanted: bytes a second, 0: any. */
static void
setup_check_disk(struct setup *s, const char *path, uint64_t wanted)
{
	struct stat st;

	if (stat(path, &st) < 0) {
		setup_add(s, "disk", path, SETUP_CHANGE, "%s", strerror(errno));
		return;
	}
	if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode)) {
		setup_add(s, "disk", path, SETUP_CHANGE,
			"is no device, file or folder: name where the volume is to be");
		return;
	}
	check_scheduler(s, path, S_ISBLK(st.st_mode) ? st.st_rdev : st.st_dev);
	check_speed(s, path, S_ISDIR(st.st_mode), wanted);
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
	char path[128], text[64];
	int seen = 0, slow = 0;

	for (int cpu = 0; cpu < CPUS_MAX; cpu++) {
		snprintf(path, sizeof path, form, cpu);
		if (!setup_read(s, path, text, sizeof text))
			break;
		seen++;
		if (strcmp(text, "performance") == 0)
			continue;
		slow++;
		setup_add_file(s, "governor", path, text, "performance",
			"in idle phases the CPU clock drops, and the next burst of packets "
			"can overflow a capture buffer");
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
	char text[64];

	if (!setup_read(s, path, text, sizeof text))
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

/* status, maxerror: of adjtimex(2). */
static void
setup_judge_clock(struct setup *s, int state, int status, long maxerror_us)
{
	struct setup_finding *f;

	if (state != TIME_ERROR && !(status & STA_UNSYNC) && maxerror_us < CLOCK_ERROR_US) {
		setup_add(s, "clock", "", SETUP_OK, "synchronised, within %ld us",
			maxerror_us);
		return;
	}
	f = setup_add(s, "clock", "", SETUP_CHANGE,
		state == TIME_ERROR || status & STA_UNSYNC
			? "not synchronised: packet times, and the time ranges of "
			  "queries, will be wrong"
			: "off by up to %ld us",
		maxerror_us);
	snprintf(f->mend, sizeof f->mend, "apt install chrony");
}

static void
check_clock(struct setup *s)
{
	struct timex now = {0};
	int state = *s->root ? -1 : adjtimex(&now);

	if (state < 0)
		setup_add(s, "clock", "", SETUP_UNKNOWN,
			"the kernel does not tell whether it is synchronised");
	else
		setup_judge_clock(s, state, now.status, now.maxerror);
}

/* ---- the network ---- */

static const char *const bridge_files[] = {"/proc/sys/net/bridge/bridge-nf-call-iptables",
	"/proc/sys/net/bridge/bridge-nf-call-ip6tables",
	"/proc/sys/net/bridge/bridge-nf-call-arptables"};

static void
check_bridge(struct setup *s)
{
	int seen = 0, on = 0;
	char text[16];

	for (size_t i = 0; i < sizeof bridge_files / sizeof bridge_files[0]; i++) {
		if (!setup_read(s, bridge_files[i], text, sizeof text))
			continue;
		seen++;
		if (strcmp(text, "0") == 0)
			continue;
		on++;
		setup_add_file(s, "bridge", bridge_files[i], text, "0",
			"netfilter on bridges is on: if a Linux bridge is the rack's "
			"switch, "
			"it drops or trims unusual frames");
	}
	if (on == 0)
		setup_add(s, "bridge", "", SETUP_OK,
			seen ? "netfilter does not look at bridged frames"
			     : "no bridge netfilter is loaded");
}

static void
check_at_least(struct setup *s, const char *topic, const char *path, long long wanted,
	const char *why)
{
	char old[32], value[32];
	long long now;

	if (!setup_read_number(s, path, &now)) {
		setup_add(s, topic, path, SETUP_UNKNOWN, "it cannot be read");
		return;
	}
	snprintf(old, sizeof old, "%lld", now);
	snprintf(value, sizeof value, "%lld", wanted);
	if (now >= wanted)
		setup_add(s, topic, path, SETUP_OK, "%s", old);
	else
		setup_add_file(s, topic, path, old, value, why);
}

/* ---- memory ---- */

static void
check_locked(struct setup *s)
{
	struct rlimit limit;

	if (*s->root || getrlimit(RLIMIT_MEMLOCK, &limit) < 0) {
		setup_add(s, "locked memory", "", SETUP_UNKNOWN,
			"the limit of the programs is not to be seen");
		return;
	}
	if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= LOCKED_WANTED ||
		geteuid() == 0) {
		setup_add(s, "locked memory", "", SETUP_OK,
			geteuid() == 0 ? "root has no limit" : "the limit is high enough");
		return;
	}
	snprintf(setup_add(s, "locked memory", "", SETUP_CHANGE,
			 "at most %llu KiB for this user: rings that are swapped lose "
			 "packets (the systemd units lift it)",
			 (unsigned long long)limit.rlim_cur / 1024)
			 ->mend,
		sizeof((struct setup_finding *)0)->mend,
		"ulimit -l unlimited, or LimitMEMLOCK=infinity in the unit");
}

/* "always defer [madvise] never": the one in brackets holds. */
static void
check_huge_pages(struct setup *s)
{
	const char *path = "/sys/kernel/mm/transparent_hugepage/defrag";
	char text[128], *open, *close;

	if (!setup_read(s, path, text, sizeof text) || !(open = strchr(text, '[')) ||
		!(close = strchr(open, ']'))) {
		setup_add(s, "huge pages", "", SETUP_UNKNOWN,
			"how they are made cannot be read");
		return;
	}
	*close = '\0';
	if (strcmp(open + 1, "always") == 0)
		setup_add_file(s, "huge pages", path, "always", "madvise",
			"any program may stop for a huge page to be put together");
	else
		setup_add(s, "huge pages", "", SETUP_OK, "defrag is %s", open + 1);
}

static void
setup_check_machine(struct setup *s)
{
	check_governors(s);
	check_clocksource(s);
	check_clock(s);
	check_bridge(s);
	check_at_least(s, "sockets", "/proc/sys/net/core/rmem_max", RMEM_WANTED,
		"the dispatcher asks for more, to hold what many nodes say at once");
	check_at_least(s, "sockets", "/proc/sys/net/core/netdev_max_backlog",
		BACKLOG_WANTED, "bursts are dropped before any program sees them");
	check_locked(s);
	check_huge_pages(s);
}

static int
write_file(const struct setup *s, const struct setup_finding *f)
{
	size_t len = strlen(f->value);
	char whole[512];
	int fd, rc;

	snprintf(whole, sizeof whole, "%s%s", s->root, f->path);
	fd = open(whole, O_WRONLY | O_CLOEXEC | O_TRUNC);
	if (fd < 0)
		return -1;
	rc = write(fd, f->value, len) == (ssize_t)len ? 0 : -1;
	if (close(fd) < 0)
		rc = -1;
	return rc;
}

/* Does what can be done; a finding then says whether it was. Returns how many failed. */
static size_t
setup_fix_all(struct setup *s)
{
	size_t failed = 0;

	for (size_t i = 0; i < s->count; i++) {
		struct setup_finding *f = &s->list[i];

		if (f->verdict != SETUP_CHANGE || f->fix == SETUP_FIX_NONE)
			continue;
		if (*s->root && f->fix != SETUP_FIX_FILE)
			continue; /* the interface is another machine's */
		f->fixed = (f->fix == SETUP_FIX_FILE ? write_file(s, f)
						     : setup_fix_interface(f)) == 0;
		if (f->fixed)
			continue;
		snprintf(f->failed, sizeof f->failed, "%s", strerror(errno));
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
	PR_OPT_LIST(in, "in", 'i', "IFACE", "a dispatcher's or tap's port on the link"),
	PR_OPT_STRING(out, "out", 'o', "IFACE", "a dispatcher's port to the rack's switch"),
	PR_OPT_STRING(rack, "rack-interface", 0, "IFACE",
		"a node's port to the rack's switch", .aliases = {"rack"}),
	PR_OPT_UINT(link_mtu, "link-mtu", 0, "BYTES", 68, 65535,
		"MTU of the links, if they are not on this machine", .def = "1500"),
	PR_OPT_LIST(disk, "disk", 0, "PATH",
		"measure the speed of PATH: devices and files are read; in a directory, a "
		"temporary file is written"),
	PR_OPT_STRING(
		rate, "disk-rate", 0, "RATE", "rate that each disk must reach: 100MB"),
	PR_OPT_FLAG(fix, "fix", 0,
		"make the changes until the next boot, and print how to undo them"),
	CLI_FORM_OPTIONS(),
};

static const struct pr_cmdline program = {.name = "packrack setup",
	.summary = "Looks for what makes this machine lose packets, and prints what to "
		   "change.",
	.usage = "[options]",
	PR_OPTIONS(options),
	.footer = "Exit status: 0 nothing is to be changed, 3 something is, 1 a change "
		  "failed, 2 bad\nusage."};

static void
check_all(struct setup *s, const struct setup_args *a)
{
	uint32_t link_mtu = a->in.count ? 0 : (uint32_t)a->link_mtu;

	for (size_t i = 0; i < a->in.count; i++) {
		uint32_t mtu = setup_mtu(s, a->in.items[i]);

		setup_check_interface(s, a->in.items[i], SETUP_IN);
		link_mtu = mtu > link_mtu ? mtu : link_mtu;
	}
	if (a->out) {
		setup_check_interface(s, a->out, SETUP_OUT);
		setup_check_mtu(s, a->out, link_mtu);
	}
	if (a->rack) {
		setup_check_interface(s, a->rack, SETUP_RACK);
		setup_check_mtu(s, a->rack, (uint32_t)a->link_mtu);
	}
	setup_check_machine(s);
	for (size_t i = 0; i < a->disk.count; i++)
		setup_check_disk(s, a->disk.items[i], a->disk_rate);
}

/* ---- what is printed ---- */

static const char *
verdict(const struct setup_finding *f)
{
	return f->fixed ? "fixed" : setup_verdicts[f->verdict];
}

static void
print_text(const struct setup_finding *f)
{
	printf("%-10s  %-13s  %s%s%s", verdict(f), f->topic, f->where,
		f->where[0] ? " " : "", f->text);
	if (f->mend[0])
		printf(f->fixed ? " (%s)" : ": %s", f->mend);
	if (f->failed[0])
		printf(", which failed: %s", f->failed);
	if (f->fixed && f->undo[0])
		printf("; undo: %s", f->undo);
	putchar('\n');
}

static void
render_finding(struct render *r, const struct setup_finding *f)
{
	render_object(r, NULL);
	render_string(r, "verdict", verdict(f));
	render_string(r, "topic", f->topic);
	render_string(r, "where", f->where);
	render_string(r, "text", f->text);
	render_string(r, "mend", f->mend);
	render_string(r, "undo", f->undo);
	render_bool(r, "can_fix", f->fix != SETUP_FIX_NONE);
	render_string(r, "failed", f->failed);
	render_close(r);
}

static int
print_all(const struct setup *s, const struct setup_args *a)
{
	struct render *r;

	if (!a->json && !a->keyvalue) {
		for (size_t i = 0; i < s->count; i++)
			print_text(&s->list[i]);
		return fflush(stdout) ? -1 : 0;
	}
	r = render_begin(stdout, cli_form(a->json, a->keyvalue));
	render_list(r, "findings");
	for (size_t i = 0; i < s->count; i++)
		render_finding(r, &s->list[i]);
	render_close(r);
	return render_end(&r);
}

/* Bytes per second: a rate, or a size as of old (100M). */
static int
parse_disk_rate(const char *text, uint64_t *out)
{
	struct pr_rate rate;

	if (pr_parse_rate(text, &rate) < 0 || rate.packets)
		return pr_parse_size(text, out);
	*out = (uint64_t)(rate.per_second / 8);
	return 0;
}

static int
run(const struct cli_call *call, struct pr_error *err)
{
	struct setup_args *a = call->values;
	const char *root = getenv("PACKRACK_SYSROOT");
	struct setup s = {.root = root ? root : ""};
	size_t failed, left = 0;
	int status;

	if (a->rate && parse_disk_rate(a->rate, &a->disk_rate) < 0) {
		pr_error_set(err, "--disk-rate: '%s' is not a rate, like 100MB", a->rate);
		return CLI_USAGE;
	}
	check_all(&s, a);
	failed = a->fix ? setup_fix_all(&s) : 0;
	for (size_t i = 0; i < s.count; i++)
		left += s.list[i].verdict == SETUP_CHANGE && !s.list[i].fixed;
	status = failed ? CLI_FAILED : left ? CLI_PARTIAL : CLI_OK;
	if (print_all(&s, a) < 0 || s.failed)
		status = CLI_FAILED;
	free(s.list);
	return status;
}

int
cmd_setup(int argc, char **argv)
{
	struct setup_args a = {0};

	return cli_run(&program, &a, 0, argc, argv, run);
}
