/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "proto/base/metrics_internal.h"

static uint64_t
open_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	uint64_t count = 0;

	if (!dir)
		return 0;
	while (readdir(dir))
		count++;
	closedir(dir);
	return count > 3 ? count - 3 : 0; /* ., .. and this directory */
}

static uint64_t
resident_kib(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	unsigned long long pages = 0;

	if (!file)
		return 0;
	if (fscanf(file, "%*u %llu", &pages) != 1)
		pages = 0;
	fclose(file);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
}

/* Field 22 of /proc/self/stat, ticks after boot; the name before it may hold anything. */
static uint64_t
started_us(void)
{
	FILE *file = fopen("/proc/self/stat", "re");
	unsigned long long ticks = 0;
	struct timespec up;
	int64_t age;

	if (!file)
		return 0;
	if (fscanf(file,
		    "%*d (%*[^)]%*[)] %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u "
		    "%*d %*d %*d %*d %*d %*d %llu",
		    &ticks) != 1)
		ticks = 0;
	fclose(file);
	clock_gettime(CLOCK_BOOTTIME, &up);
	age = (int64_t)up.tv_sec * PR_NS_PER_S + up.tv_nsec -
	      (int64_t)(ticks * (uint64_t)PR_NS_PER_S / (uint64_t)sysconf(_SC_CLK_TCK));
	return (uint64_t)(pr_now_real() - age) / 1000;
}

static uint64_t
micros(struct timeval t)
{
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_usec;
}

struct process {
	uint64_t cpu_us, resident_kib, started_us, open_files;
};

static const struct pr_counter_row process_rows[] = {
	{PR_AT(struct process, cpu_us),
		PR_METRIC("cpu_us", PR_COUNTER, "cpu_seconds_total", PR_US, NULL,
			"Processor time of the program, user and system.")},
	{PR_AT(struct process, resident_kib),
		PR_METRIC("resident_kib", PR_GAUGE, "resident_memory_bytes", PR_KIB, NULL,
			"Memory of the program that is in RAM.")},
	{PR_AT(struct process, started_us),
		PR_METRIC("started_us", PR_GAUGE, "start_time_seconds", PR_US, NULL,
			"When the program was started, seconds since 1970.")},
	{PR_AT(struct process, open_files),
		PR_METRIC("open_files", PR_GAUGE, "open_fds", PR_ONE, NULL,
			"Files and sockets that the program has open.")},
};

void
pr_metrics_process(struct pr_metrics_page *page)
{
	struct process p = {.resident_kib = resident_kib(),
		.started_us = started_us(),
		.open_files = open_files()};
	struct rusage used;

	if (getrusage(RUSAGE_SELF, &used) == 0)
		p.cpu_us = micros(used.ru_utime) + micros(used.ru_stime);
	pr_metrics_no_labels(page);
	pr_metrics_table(page, "process_", PR_COUNTER_TABLE(process_rows, &p));
}
