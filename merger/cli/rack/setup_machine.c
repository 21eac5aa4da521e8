/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/timex.h>
#include <unistd.h>

#include "merger/cli/rack/setup.h"

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
			"the processor slows down in pauses, and the next burst overflows "
			"a ring");
	}
	if (seen == 0)
		setup_add(s, "governor", "", SETUP_UNKNOWN,
			"the processors' speed is not this system's to set (a virtual "
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

void
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
			? "not synchronised: time ranges of questions mean another time "
			  "than yours"
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
			"where a bridge is the switch, odd frames are dropped or trimmed");
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

void
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
