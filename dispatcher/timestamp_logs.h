/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "dispatcher/nodes.h"
#include "proto/wire/source.h"
#include "proto/wire/tslog.h"

/*
 * Timestamp logs (CLog section 3.2): one is filled at a time for each node and link. It is
 * sent when it is full or old, and kept in a cyclic memory for RESEND. Of a log that is
 * dropped from the memory, seqs and times are kept for GONE. No I/O: sending is a call of
 * the owner; time is an argument, monotonic ns. Send thread only.
 */
#define PRD_LOG_ROOM_MAX 8192
#define PRD_RESEND_MAX 256 /* logs in answer to one RESEND */
#define PRD_RESEND_PER_S 5000 /* logs a second and node */

struct prd_log_meta {
	uint32_t nonce; /* of the node that it was made for */
	uint16_t node, link;
	uint16_t count;
	uint64_t number;
	uint64_t first_seq, last_seq;
	int64_t first_time, last_time; /* otime */
};

/* Gone logs remembered for each (node, link). */
#define PRD_GONE_LOGS_MAX 512

struct prd_node_log {
	struct pr_tslog_builder builder;
	uint8_t *buf;
	uint64_t last_log; /* last number sent; 0 none */
	uint64_t assigned; /* primaries logged since the node was admitted */
	int64_t began; /* monotonic, when the first entry came; 0: empty */
	struct prd_log_meta meta;
};

struct prd_logs {
	/* logs that were sent, kept for RESEND: a cyclic memory */
	uint8_t *mem;
	size_t size, kept; /* kept: bytes of logs in it */
	uint64_t head, tail;
	int64_t keep;
	struct prd_log_series *series; /* node * links + link */
	unsigned links;
	uint16_t flags; /* of all logs, besides INTERLEAVED */
	uint16_t *numbers; /* of the links; at first their indexes */
	void (*send)(void *arg, struct prd_node *node, enum pr_frame_type type,
		const struct pr_frame *frame);
	void *arg;
};

int prd_logs_init(struct prd_logs *logs, unsigned links, size_t memory, int64_t keep,
	struct pr_error *err);
void prd_logs_free(struct prd_logs *logs);

/* For a node that has just been admitted: its logs start at number 1 again. */
int prd_logs_admit(struct prd_logs *logs, struct prd_node *node, struct pr_error *err);
void prd_logs_forget(struct prd_node *node); /* frees node->logs */

/* Adds the entry of a frame that has been sent. Sends the log first if it is full. */
void prd_logs_add(struct prd_logs *logs, struct prd_node *node, uint16_t link,
	const struct pr_entry *e, int64_t now);

/* Sends the node's open logs that were begun at or before `then`; INT64_MAX: all. */
void prd_logs_flush(
	struct prd_logs *logs, struct prd_node *node, int64_t then, int64_t now);
/* Order time of the oldest entry not yet sent to node; PR_TIME_MAX: none. */
int64_t prd_logs_oldest(const struct prd_logs *logs, const struct prd_node *node);

/* Answers a RESEND by TSLOG and GONE frames, within the node's budget. */
void prd_logs_resend(struct prd_logs *logs, struct prd_node *node,
	const struct pr_resend *ask, int64_t now);
/* Refills the node's budget of resent logs; elapsed: ns since the last call. */
void prd_logs_refill(struct prd_node *node, int64_t elapsed);
