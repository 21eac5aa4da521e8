/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_DISPATCHER_LOGS_H
#define PR_DISPATCHER_LOGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dispatcher/nodes.h"
#include "dispatcher/store.h"
#include "proto/wire/tslog.h"

/*
 * Timestamp logs (CLog section 3.2): one being filled for each node and link; sent when full or
 * old, and kept for RESEND. Pure: sending is a call given by the owner. Send thread only.
 */
#define PRD_LOG_ROOM_MAX 8192
#define PRD_RESEND_MAX 256 /* logs in answer to one frame */
#define PRD_RESEND_PER_S 5000 /* logs a second and node */

struct prd_node_log {
	struct pr_tslog_builder builder;
	uint8_t *buf;
	uint64_t last_log; /* last number sent; 0 none */
	uint64_t assigned; /* primaries logged since the node was admitted */
	int64_t began; /* monotonic, when the first entry came; 0: empty */
	struct prd_log_meta meta;
};

struct prd_logs {
	struct prd_store *store;
	unsigned links;
	void (*send)(void *arg, struct prd_node *node, enum pr_frame_type type,
		const struct pr_frame *frame);
	void *arg;
	struct prd_stored found[PRD_RESEND_MAX];
};

int prd_logs_init(struct prd_logs *logs, unsigned links, size_t memory, int64_t keep,
	struct pr_error *err);
void prd_logs_free(struct prd_logs *logs);

/* For a node that has just been admitted: all its logs start afresh at number 1. */
int prd_logs_admit(struct prd_logs *logs, struct prd_node *node, struct pr_error *err);
void prd_logs_forget(struct prd_node *node); /* frees node->logs */

/* e: complete, its frame has gone out. May send a log that is full. now: monotonic. */
void prd_logs_add(struct prd_logs *logs, struct prd_node *node, uint16_t link,
	const struct pr_entry *e, int64_t now);

/* Sends the logs of a node that began before then; INT64_MAX: all. */
void prd_logs_flush(
	struct prd_logs *logs, struct prd_node *node, int64_t then, int64_t now);
/* Order time of the oldest entry not yet sent to node; PR_TIME_MAX: none. */
int64_t prd_logs_oldest(const struct prd_logs *logs, const struct prd_node *node);

/* Answers a RESEND by TSLOG and GONE frames, within the node's rate. */
void prd_logs_resend(struct prd_logs *logs, struct prd_node *node,
	const struct pr_resend *ask, int64_t now);
/* Gives each node its rate again; elapsed: ns since the last call. */
void prd_logs_refill(struct prd_node *node, int64_t elapsed);

#endif
