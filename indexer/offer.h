/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_OFFER_H
#define PRI_INDEXER_OFFER_H

#include <stdbool.h>
#include <stdint.h>

#include "indexer/feed.h"
#include "indexer/query/view.h"
#include "proto/base/error.h"
#include "proto/rpc/rpc.h"

/*
 * What a node tells mergers of its summaries (records of level 3 in its volume): which there are, and
 * of which data there are none. Each merger asks for those that are its duty. A node keeps no summary
 * in memory, only where it lies: 144 bytes each, of up to 10 s of traffic. One thread, the view's.
 */
struct pri_offer;

/* What one merger was told. Zeroed: nothing; so it must be when the connection is new. */
struct pri_offer_line {
	uint64_t boot, sent; /* summaries numbered below sent */
	int64_t said, settled_until; /* monotonic; as told */
	uint64_t open; /* stands for what was told to be without summary */
	uint64_t bytes; /* sent, over all: for the node's own figures */
};

/* view and feed must outlive it. cluster is borrowed; NULL: none. */
struct pri_offer *pri_offer_create(struct pri_view *view, struct pri_feed *feed,
	const char *cluster, struct pr_error *err);
void pri_offer_destroy(struct pri_offer **offer);

/* Takes in summaries that the volume has meanwhile. */
void pri_offer_tick(struct pri_offer *offer);
/* Sends what there is to tell, if there is anything. */
void pri_offer_tell(
	struct pri_offer *offer, struct pri_offer_line *line, struct pr_rpc *rpc);
/* A merger asks for summaries. */
void pri_offer_want(struct pri_offer *offer, struct pri_offer_line *line,
	struct pr_rpc *rpc, const Packrack__SummaryWant *want);

#endif
