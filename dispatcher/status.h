/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_DISPATCHER_STATUS_H
#define PR_DISPATCHER_STATUS_H

#include "dispatcher/oport.h"
#include "dispatcher/send.h"
#include "proto/base/metrics.h"
#include "proto/rpc/packrack.pb-c.h"

/*
 * The dispatcher's figures as a message: CLog's "estimated input speed" and "capture goodness",
 * every counter, every link, every node.
 */
struct prd_status;

struct prd_status_from {
	const struct prd_inputs *inputs;
	struct prd_sender *sender;
	const struct prd_oport *oport;
	uint64_t epoch;
};

struct prd_status *prd_status_create(
	const struct prd_status_from *from, struct pr_error *err);
void prd_status_destroy(struct prd_status **status);

/* Every second, for the rates. */
void prd_status_tick(struct prd_status *status);

/* Valid until the next call. */
Packrack__Status *prd_status_make(struct prd_status *status);
/* The same figures, for a scrape. */
void prd_status_metrics(struct prd_status *status, struct pr_metrics_page *page);

#endif
