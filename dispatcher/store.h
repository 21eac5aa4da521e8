/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_DISPATCHER_STORE_H
#define PR_DISPATCHER_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/error.h"
#include "proto/wire/frame.h"

/*
 * Timestamp logs kept for RESEND: a cyclic memory of fixed size, oldest out first. What has gone
 * leaves a line (its seqs and times) for GONE. Pure; time is monotonic ns; one thread.
 */
struct prd_store;

struct prd_log_meta {
	uint32_t nonce; /* of the node that it was made for */
	uint16_t node, link;
	uint16_t count;
	uint64_t number;
	uint64_t first_seq, last_seq;
	int64_t first_time, last_time; /* otime */
};

/* Lines of gone logs remembered for each (node, link). */
#define PRD_STORE_LINES 512

/* size: bytes, all in all for bodies; keep: ns after which a log counts as gone. */
struct prd_store *prd_store_create(
	size_t size, int64_t keep, unsigned links, struct pr_error *err);
void prd_store_destroy(struct prd_store **store);

void prd_store_put(struct prd_store *store, const struct prd_log_meta *meta,
	const void *body, size_t len, int64_t now);

/*
 * Finds logs first..last of (node, link), made for nonce, oldest first: at most max of them into
 * found (valid until the next put). Returns how many; *lowest is the smallest number still kept
 * (last + 1 when none is).
 */
struct prd_stored {
	const struct prd_log_meta *meta;
	const uint8_t *body;
	size_t len;
};
size_t prd_store_find(struct prd_store *store, const struct prd_log_meta *which,
	uint64_t last, int64_t now, struct prd_stored *found, size_t max, uint64_t *lowest);

/* What is remembered of gone logs first..last; seqs, times and count 0 when not all are known. */
void prd_store_gone(const struct prd_store *store, const struct prd_log_meta *which,
	uint64_t last, struct pr_gone *out);

size_t prd_store_used(const struct prd_store *store);

#endif
