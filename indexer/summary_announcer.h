/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_SUMMARY_ANNOUNCER_H
#define PRI_SUMMARY_ANNOUNCER_H

#include "indexer/index_follower.h"
#include "indexer/query/volume.h"
#include "proto/base/error.h"
#include "proto/rpc/rpc.h"

/*
 * What a node tells mergers of its summaries (records of level 3 in its volume): which there are, and
 * of which data there are none. Each merger asks for those that are its duty. A node keeps no summary
 * in memory, only where it lies: 144 bytes each, of up to 10 s of traffic. One thread, the volume's.
 */
struct pri_summary_announcer;

/* What one merger was told. Zeroed: nothing; so it must be when the connection is new. */
struct pri_announced {
	uint64_t boot, sent; /* summaries numbered below sent */
	int64_t said, settled_until; /* monotonic; as told */
	uint64_t open; /* stands for what was told to be without summary */
	uint64_t bytes; /* sent, over all: for the node's own figures */
};

/* volume and feed must outlive it. cluster is borrowed; NULL: none. NULL: no memory. */
struct pri_summary_announcer *pri_announcer_create(
	struct pri_volume *volume, struct pri_index_follower *feed, const char *cluster);
void pri_announcer_destroy(struct pri_summary_announcer **offer);

/* Takes in summaries that the volume has meanwhile. */
void pri_announcer_tick(struct pri_summary_announcer *offer);
/* Sends what there is to tell, if there is anything. */
void pri_announcer_tell(struct pri_summary_announcer *offer, struct pri_announced *line,
	struct pr_rpc *rpc);
/* A merger asks for summaries. */
void pri_announcer_want(struct pri_summary_announcer *offer, struct pri_announced *line,
	struct pr_rpc *rpc, const Packrack__SummaryWant *want);

/* The span's fields; number, check and bytes are the caller's. */
void pri_announcer_info(Packrack__SummaryInfo *out, const struct pr_summary_span *s);

#endif
