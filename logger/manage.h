/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRL_LOGGER_MANAGE_H
#define PRL_LOGGER_MANAGE_H

#include "logger/report.h"
#include "proto/base/loop.h"
#include "proto/base/metrics.h"

/* Answers status requests. Only reading: a node takes its commands from the dispatcher. Loop's thread. */
struct prl_manage;

typedef void (*prl_manage_call)(void *arg, struct prl_report *report);

/* keys: a key directory, kept; or NULL. */
struct prl_manage *prl_manage_create(struct pr_loop *loop, const char *endpoint,
	const char *keys, prl_manage_call call, void *arg, struct pr_error *err);
void prl_manage_destroy(struct prl_manage **manage);

/* The same figures, for a scrape. */
void prl_manage_scrape(const struct prl_report *report, struct pr_metrics_page *page);

#endif
