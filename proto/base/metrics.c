/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/metrics.h"

#include <dirent.h>
#include <inttypes.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/array.h"
#include "proto/base/clock.h"

#include "proto/base/text.h"
#include "proto/base/units.h"

#define METRIC_NAME_MAX 128
#define LABELS_MAX 1024 /* bytes of one set of labels */

struct sample {
	const char *prefix;
	const struct pr_counter_row *row;
	const char *state; /* NULL: it is no state */
	uint64_t number;
	uint32_t labels; /* of page->labels, plus 1; 0: none */
	uint32_t order;
};

struct pr_metrics_page {
	struct sample *samples;
	size_t count;
	char **labels;
	size_t label_count;
	bool failed;
};

struct pr_metrics_page *
pr_metrics_page_create(void)
{
	return calloc(1, sizeof(struct pr_metrics_page));
}

void
pr_metrics_page_destroy(struct pr_metrics_page **page)
{
	struct pr_metrics_page *p = PR_TAKE(page);

	if (!p)
		return;
	for (size_t i = 0; i < p->label_count; i++)
		free(p->labels[i]);
	PR_FREE(p, labels, samples);
	free(p);
}

/* ---- putting in ---- */

void
pr_metrics_labels(
	struct pr_metrics_page *page, size_t count, const struct pr_metric_label labels[])
{
	char room[LABELS_MAX], *copy = NULL;
	struct pr_text text = {.at = room, .room = sizeof room};

	for (size_t i = 0; i < count; i++) {
		size_t before = text.len;

		pr_text_puts(&text, i ? "," : "");
		pr_text_puts(&text, labels[i].name);
		pr_text_puts(&text, "=");
		/* a name from another machine may be long: the labels behind it are left out */
		pr_text_put_quoted(&text, labels[i].text);
		if (text.len > before && room[text.len - 1] != '"')
			text.len = before;
	}
	if (PR_ARRAY_GROW(page->labels, page->label_count) == 0)
		copy = strndup(room, text.len);
	if (copy)
		page->labels[page->label_count++] = copy;
	else
		page->failed = true;
}

static void
add(struct pr_metrics_page *p, struct sample sample)
{
	if (PR_ARRAY_GROW(p->samples, p->count) < 0) {
		p->failed = true;
		return;
	}
	sample.labels = p->label_count;
	sample.order = p->count;
	p->samples[p->count++] = sample;
}

void
pr_metrics_table(
	struct pr_metrics_page *page, const char *prefix, struct pr_counter_table table)
{
	for (size_t i = 0; i < table.count; i++) {
		const struct pr_counter_row *row = &table.rows[i];
		uint64_t number = pr_counter_read(row, table.base);

		if (row->unit != PR_NS || (int64_t)number > 0)
			add(page, (struct sample){
					  .prefix = prefix, .row = row, .number = number});
	}
}

void
pr_metrics_states(struct pr_metrics_page *page, const char *prefix,
	const struct pr_counter_row *row, const char *const states[], const char *state)
{
	for (; *states; states++)
		add(page, (struct sample){.prefix = prefix,
				  .row = row,
				  .state = *states,
				  .number = !strcmp(*states, state)});
}

/* ---- writing out ---- */

static const char *
metric_name(const struct sample *s, char name[METRIC_NAME_MAX])
{
	const struct pr_counter_row *row = s->row;

	snprintf(name, METRIC_NAME_MAX, "%s%s%s", s->prefix,
		row->metric ? row->metric : row->name,
		!row->metric && row->type == PR_COUNTER ? "_total" : "");
	return name;
}

/* By name; samples of one metric stay in their order. */
static int
compare(const void *a, const void *b)
{
	const struct sample *x = a, *y = b;
	char name[METRIC_NAME_MAX], other[METRIC_NAME_MAX];
	int order = strcmp(metric_name(x, name), metric_name(y, other));

	return order ? order : x->order < y->order ? -1 : 1;
}

static void
put_sample(
	FILE *to, const struct pr_metrics_page *p, const char *name, const struct sample *s)
{
	static const struct {
		uint64_t times, per;
		int digits;
	} units[] = {[PR_ONE] = {1, 1, 0},
		[PR_KIB] = {1024, 1, 0},
		[PR_US] = {1, 1000000, 6},
		[PR_NS] = {1, 1000000000, 9},
		[PR_PERCENT] = {1, 100, 2},
		[PR_PERMILLE] = {1, 1000, 3}};
	const char *labels = s->labels ? p->labels[s->labels - 1] : "";
	const char *constant = s->row->labels ? s->row->labels : "";
	uint64_t n = s->number * units[s->row->unit].times, per = units[s->row->unit].per;
	char state[64];

	if (s->state) {
		snprintf(state, sizeof state, "state=\"%s\"", s->state);
		constant = state;
	}
	fputs(name, to);
	if (*labels || *constant)
		fprintf(to, "{%s%s%s}", labels, *labels && *constant ? "," : "", constant);
	fprintf(to, " %" PRIu64, n / per);
	if (per > 1)
		fprintf(to, ".%0*" PRIu64, units[s->row->unit].digits, n % per);
	fputc('\n', to);
}

/* A metric's lines are one group: its head, then every sample of it. */
char *
pr_metrics_page_text(struct pr_metrics_page *page, size_t *len)
{
	char *text = NULL, names[2][METRIC_NAME_MAX] = {""};
	FILE *to = page->failed ? NULL : open_memstream(&text, len);

	if (!to)
		return NULL;
	PR_SORT(page->samples, page->count, compare);
	for (size_t i = 0; i < page->count; i++) {
		const struct sample *s = &page->samples[i];
		const char *name = metric_name(s, names[i % 2]);

		if (strcmp(name, names[(i + 1) % 2]) != 0)
			fprintf(to, "# HELP %s %s\n# TYPE %s %s\n", name, s->row->help,
				name, s->row->type == PR_COUNTER ? "counter" : "gauge");
		put_sample(to, page, name, s);
	}
	if (fclose(to) == 0)
		return text;
	free(text);
	return NULL;
}

/* ---- the process ---- */

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

struct process {
	uint64_t cpu_us, resident_kib, started_us, open_files;
};

#define PR_COUNTED struct process
static const struct pr_counter_row process_rows[] = {
	PR_METRIC(cpu_us, "cpu_us", PR_COUNTER, "cpu_seconds_total", PR_US, NULL,
		"Processor time of the program, user and system."),
	PR_METRIC(resident_kib, "resident_kib", PR_GAUGE, "resident_memory_bytes", PR_KIB,
		NULL, "Memory of the program that is in RAM."),
	PR_METRIC(started_us, "started_us", PR_GAUGE, "start_time_seconds", PR_US, NULL,
		"When the program was started, seconds since 1970."),
	PR_GAUGE_AS(open_files, "open_files", "open_fds",
		"Files and sockets that the program has open.")};
#undef PR_COUNTED

void
pr_metrics_process(struct pr_metrics_page *page)
{
	uint64_t pages = pr_number_in("/proc/self/statm", "%*u %llu");
	/* Field 22, ticks after boot; the name before it may hold anything. */
	uint64_t ticks = pr_number_in("/proc/self/stat",
		"%*d (%*[^)]%*[)] %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u "
		"%*d %*d %*d %*d %*d %*d %llu");
	struct process p = {.resident_kib = pages * (uint64_t)sysconf(_SC_PAGESIZE) / 1024,
		.open_files = open_files()};
	struct rusage used;
	struct timespec up;

	if (ticks) {
		clock_gettime(CLOCK_BOOTTIME, &up);
		p.started_us =
			(uint64_t)(pr_now_real() - up.tv_sec * PR_NS_PER_S - up.tv_nsec) /
				1000 +
			ticks * 1000000 / (uint64_t)sysconf(_SC_CLK_TCK);
	}
	if (getrusage(RUSAGE_SELF, &used) == 0)
		p.cpu_us = (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000 +
			   (used.ru_utime.tv_usec + used.ru_stime.tv_usec);
	pr_metrics_no_labels(page);
	pr_metrics_table(page, "process_", PR_COUNTER_TABLE(process_rows, &p));
}
