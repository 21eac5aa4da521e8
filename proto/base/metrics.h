/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_BASE_METRICS_H
#define PR_BASE_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include "proto/base/error.h"

/*
 * What a program measures as Prometheus reads it: text exposition format 0.0.4. A counter has one name
 * in status messages and one here; metric_rows_*.h join them, packrack-metrics(7) describes them. A page
 * is one answer to a scrape: first values are put in (cheap: the packets' programs do that), then it is
 * written out (by the thread that answers).
 */
enum pr_metric_scope { /* where a value stands in a status, and so which labels it has */
	PR_METRIC_PROGRAM, /* every program: what its process takes */
	PR_METRIC_DISPATCHER,
	PR_METRIC_DISPATCHER_LINK, /* labels: link, number */
	PR_METRIC_DISPATCHER_NODE, /* labels: node, mac */
	PR_METRIC_LOGGER, /* label: node */
	PR_METRIC_INDEXER, /* label: node */
	PR_METRIC_MERGER,
	PR_METRIC_MERGER_NODE, /* label: node */
	PR_METRIC_SCOPES,
};

enum pr_metric_type { PR_METRIC_COUNTER, PR_METRIC_GAUGE };

/* What a value counts as status gives it; metrics have Prometheus' base units. */
enum pr_metric_unit {
	PR_METRIC_ONE, /* things, bytes, yes or no */
	PR_METRIC_KIB, /* shown as bytes */
	PR_METRIC_US, /* shown as seconds */
	PR_METRIC_NS, /* shown as seconds */
	PR_METRIC_PERCENT, /* shown as a ratio, 0 to 1 */
	PR_METRIC_PERMILLE, /* the same */
};

struct pr_metric {
	enum pr_metric_scope scope;
	const char
		*value; /* its name in status messages; "state=X": 1 in state X, else 0 */
	const char *name; /* rows of one name are one metric, and stand together */
	enum pr_metric_type type;
	enum pr_metric_unit unit;
	const char *labels; /* constant ones, as in place="kernel"; or "" */
	const char *help;
};

extern const struct pr_metric pr_metric_table[];
extern const size_t pr_metric_count;

struct pr_metrics_page;
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
/* name: kept, not copied. One that the table does not have in this scope is passed over. */
void pr_metrics_value(struct pr_metrics_page *page, enum pr_metric_scope scope,
	const char *name, uint64_t number);
/* state: kept until the page is written. */
void pr_metrics_state(
	struct pr_metrics_page *page, enum pr_metric_scope scope, const char *state);

/* The page as text, from malloc; NULL: no memory, also when it ran out while values were put in. */
char *pr_metrics_page_text(struct pr_metrics_page *page, size_t *len);

#endif
