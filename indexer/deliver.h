/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_INDEXER_DELIVER_H
#define PR_INDEXER_DELIVER_H

#include <stdbool.h>
#include <stdint.h>

#include "indexer/builder.h"
#include "proto/base/error.h"
#include "proto/base/loop.h"
#include "proto/rpc/rpc.h"

/*
 * Takes finished records of the index to the logger, the only writer of the volume, over its local
 * socket, some at once. When many wait or are on their way the sink says "not now". No logger, no delivery: then
 * building waits, and what is recycled meanwhile has no index. Loop's thread.
 */
struct pr_deliver;

/* uuid: of the volume. The logger need not be there yet. */
struct pr_deliver *pr_deliver_create(
	struct pr_loop *loop, const char *uuid, struct pr_error *err);
void pr_deliver_destroy(struct pr_deliver **deliver);

/* A pr_index_sink; arg is the struct pr_deliver. */
int pr_deliver_sink(void *arg, const struct pr_index_record *record);
/* Every 100 ms or so: sends what has gathered, and again what was put off. */
void pr_deliver_tick(struct pr_deliver *deliver);
/* All that waits, now. */
void pr_deliver_send(struct pr_deliver *deliver);
/* Nothing waits or is on its way. */
bool pr_deliver_idle(const struct pr_deliver *deliver);
/* It takes no more until the logger has answered. */
bool pr_deliver_full(const struct pr_deliver *deliver);

/*
 * Hands a command on to the logger, and what it answers to who gave it, over its connection `from`, which
 * must outlive d. One at a time; d NULL: there is no volume yet. Answers by itself what cannot be done.
 */
void pr_deliver_order(
	struct pr_deliver *d, struct pr_rpc *from, const Packrack__Envelope *order);

struct pr_deliver_figures {
	uint64_t records, bytes; /* stored */
	uint64_t refused;
};
const struct pr_deliver_figures *pr_deliver_figures(const struct pr_deliver *deliver);

#endif
