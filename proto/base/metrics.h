/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "proto/base/counter.h"

/*
 * What a program measures as Prometheus reads it: text exposition format 0.0.4, made from
 * the program's tables of counters; packrack-metrics(7) describes each metric. A page is
 * one answer to a scrape. First the program puts its values in, which is cheap; then the
 * page is written out.
 */
struct pr_metrics_page *pr_metrics_page_create(void); /* NULL: no memory */
void pr_metrics_page_destroy(struct pr_metrics_page **page);

/* Labels of the values that follow. Copied. */
struct pr_metric_label {
	const char *name, *text;
};
void pr_metrics_labels(
	struct pr_metrics_page *page, size_t count, const struct pr_metric_label labels[]);
#define pr_metrics_no_labels(page) pr_metrics_labels(page, 0, NULL)
#define pr_metrics_label(page, ...)                                                        \
	pr_metrics_labels(page,                                                            \
		sizeof((const struct pr_metric_label[]){__VA_ARGS__}) /                    \
			sizeof(struct pr_metric_label),                                    \
		(const struct pr_metric_label[]){__VA_ARGS__})

/* The table's numbers. prefix: what its metrics' names begin with. prefix and rows: kept, not copied. */
void pr_metrics_table(
	struct pr_metrics_page *page, const char *prefix, struct pr_counter_table table);
/*
 * A sample for each of `states`: 1 if it is `state`, else 0. states: kept, ends with NULL.
 */
void pr_metrics_states(struct pr_metrics_page *page, const char *prefix,
	const struct pr_counter_row *row, const char *const states[], const char *state);
/*
 * The metrics of the process: processor time, memory, open files, start time. Any thread.
 */
void pr_metrics_process(struct pr_metrics_page *page);

/* The page as text, from malloc; NULL: no memory, also when it ran out while values were put in. */
char *pr_metrics_page_text(struct pr_metrics_page *page, size_t *len);
