/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_LOGGER_MANAGE_H
#define PR_LOGGER_MANAGE_H

#include "logger/report.h"
#include "proto/base/loop.h"
#include "proto/base/metrics.h"

/* Answers status requests. Only reading: a node takes its commands from the dispatcher. Loop's thread. */
struct pr_manage;

typedef void (*pr_manage_call)(void *arg, struct pr_report *report);

/* keys: a key directory, kept; or NULL. */
struct pr_manage *pr_manage_create(struct pr_loop *loop, const char *endpoint,
	const char *keys, pr_manage_call call, void *arg, struct pr_error *err);
void pr_manage_destroy(struct pr_manage **manage);

/* The same figures, for a scrape. */
void pr_manage_scrape(const struct pr_report *report, struct pr_metrics_page *page);

#endif
