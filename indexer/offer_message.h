/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_OFFER_MESSAGE_H
#define PRI_INDEXER_OFFER_MESSAGE_H

#include "indexer/index_follower.h"
#include "indexer/query/volume.h"
#include "proto/rpc/rpc.h"

/* Between offer.c, which knows what is to be told, and the message that tells it. */

/* A summary in the volume. */
struct pri_announced_summary {
	struct sfs_handle handle;
	uint64_t check;
	struct pr_summary_span span;
};

struct pri_announcer_input {
	uint64_t boot;
	const char *cluster, *text; /* or NULL */
	int64_t settled_until;
	struct pr_summary_span spans[PRI_FOLLOWER_SPANS]; /* without summary */
	size_t span_count;
	const struct pri_announced_summary *items; /* the first is numbered first_number */
	size_t item_count;
	uint64_t first_number, total;
};

/* The span's fields; number, check and bytes are the caller's. */
void pri_announcer_info(Packrack__SummaryInfo *out, const struct pr_summary_span *s);

/* With what the volume itself says of evictions, losses and ledgers. -1: it could not be sent. */
int pri_announcer_send(struct pri_volume *view, const struct pri_announcer_input *facts,
	struct pr_rpc *rpc, uint64_t *bytes);

#endif
