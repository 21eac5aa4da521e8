/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRL_LOGGER_MANAGE_H
#define PRL_LOGGER_MANAGE_H

#include <stdbool.h>

#include "proto/base/loop.h"
#include "proto/base/metrics.h"

/*
 * The logger's figures: shown in the volume's note as JSON, in answers to status requests, and in metrics.
 * What tables point at must live as long as the report.
 */
#define PRL_REPORT_TABLES 5

struct prl_report {
	const char *mode; /* "rack", "tap", "read" */
	const char *name, *state, *trouble; /* trouble: NULL or why it is suspended */
	uint64_t epoch;
	struct pr_counter_table tables[PRL_REPORT_TABLES];
	size_t table_count;
};

/* As JSON; false: it does not fit. */
bool prl_report_text(const struct prl_report *r, char *buf, size_t size);
void prl_report_scrape(const struct prl_report *report, struct pr_metrics_page *page);

/* Answers status requests. Only reading: a node takes its commands from the dispatcher. Loop's thread. */
struct prl_manage;

typedef void (*prl_manage_call)(void *arg, struct prl_report *report);

/* keys: a key directory, kept; or NULL. */
struct prl_manage *prl_manage_create(struct pr_loop *loop, const char *endpoint,
	const char *keys, prl_manage_call call, void *arg, struct pr_error *err);
void prl_manage_destroy(struct prl_manage **manage);

#endif
