/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_DELIVER_H
#define PRI_INDEXER_DELIVER_H

#include <stdbool.h>
#include <stdint.h>

#include "indexer/index/builder.h"
#include "proto/base/error.h"
#include "proto/base/loop.h"
#include "proto/rpc/rpc.h"

/*
 * Takes finished records of the index to the logger, the only writer of the volume, over its local
 * socket, some at once. When many wait or are on their way the sink says "not now". No logger, no delivery: then
 * building waits, and what is recycled meanwhile has no index. Loop's thread.
 */
struct pri_record_sender;

/* uuid: of the volume. The logger need not be there yet. */
struct pri_record_sender *pri_sender_create(
	struct pr_loop *loop, const char *uuid, struct pr_error *err);
void pri_sender_destroy(struct pri_record_sender **deliver);

/* A pri_index_sink; arg is the struct pri_record_sender. */
int pri_sender_sink(void *arg, const struct pr_index_record *record);
/* Every 100 ms or so: sends what has gathered, and again what was put off. */
void pri_sender_tick(struct pri_record_sender *deliver);
/* All that waits, now. */
void pri_sender_send(struct pri_record_sender *deliver);
/* Nothing waits or is on its way. */
bool pri_sender_idle(const struct pri_record_sender *deliver);
/* It takes no more until the logger has answered. */
bool pri_sender_full(const struct pri_record_sender *deliver);

/*
 * Hands a command on to the logger, and what it answers to who gave it, over its connection `from`, which
 * must outlive d. One at a time; d NULL: there is no volume yet. Answers by itself what cannot be done.
 */
void pri_sender_command(
	struct pri_record_sender *d, struct pr_rpc *from, const Packrack__Envelope *order);

struct pri_sender_stats {
	uint64_t records, bytes; /* stored */
	uint64_t refused;
};
const struct pri_sender_stats *pri_sender_stats(const struct pri_record_sender *deliver);

#endif
