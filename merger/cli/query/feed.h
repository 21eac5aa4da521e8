/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_CLI_FEED_H
#define PR_CLI_FEED_H

#include <stddef.h>
#include <stdint.h>

#include "indexer/query/answer.h"

/*
 * A volume's answer in a thread of its own: volumes are read, checked and filtered side by side
 * while their packets are merged. A few batches are made ahead.
 */
struct feed;

struct feed_batch {
	const uint8_t *packets; /* a segment; len 0: none */
	size_t len;
	Packrack__Batch *told; /* held, edges, frontier */
};

/* The answer (and its view) is the thread's until feed_stop. */
struct feed *feed_start(struct pri_answer *answer, struct pr_error *err);
/* PRI_ANSWER_BATCH: *out is valid until the next call; END; ERROR. Waits. */
enum pri_answer_state feed_next(
	struct feed *feed, struct feed_batch *out, struct pr_error *err);
void feed_stop(struct feed **feed);

#endif
