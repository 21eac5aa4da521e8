/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_FEED_H
#define PRI_INDEXER_FEED_H

#include "indexer/index/builder.h"
#include "indexer/query/volume.h"
#include "proto/base/error.h"

/*
 * Keeps a volume's index up with its data: follows each packet stream behind its writer, in shared memory as long as
 * it keeps up, builds records and gives them to a sink. It starts where the existing index ends. Segments that it
 * does not reach in time stay without index: queries read them. One thread, the volume's.
 */
struct pri_index_follower;

/* The volume must have been refreshed, with `all`, and must outlive it. composites: keys to make; copied, or NULL. */
struct pri_index_follower *pri_follower_create(struct pri_volume *volume,
	const struct pri_composites *composites, pri_index_sink sink, void *arg,
	struct pr_error *err);
void pri_follower_destroy(struct pri_index_follower **feed);

/*
 * Indexes what is new, until deadline (pr_now_mono). 1: there is more, call again; 0: up to date, or
 * the sink takes no more at present; -1: no memory, or the volume cannot be read.
 */
int pri_follower_step(
	struct pri_index_follower *feed, int64_t deadline, struct pr_error *err);
/*
 * Finishes the records that are being made of what there is; at the end (all) also groups. As a group is
 * better large, it is not for every pause. 1: all was taken; 0: the sink takes no more; -1.
 */
int pri_follower_finish(struct pri_index_follower *feed, bool all, struct pr_error *err);

#define PRI_FOLLOWER_SPANS 64
/*
 * Extents of segments without a summary in the volume's index, as far as the follower knows: those under way, and
 * what an earlier run left. Past PRI_FOLLOWER_SPANS neighbours are merged. *unknown: the time range of some is not
 * known. Returns how many.
 */
size_t pri_follower_unsummarized(const struct pri_index_follower *feed,
	struct pr_summary_span out[PRI_FOLLOWER_SPANS], bool *unknown);
/* The volume has a summary of these segments now. */
void pri_follower_summarized(struct pri_index_follower *feed, uint16_t link,
	uint64_t first_sequence, uint32_t segments);
/* Grows when sequences begin anew: the volume was reset. */
uint64_t pri_follower_restarts(const struct pri_index_follower *feed);

struct pri_follower_stats {
	/* of what was built, over all streams */
	uint64_t segments, packets, damaged, index_bytes; /* the index: levels 1 and 2 */
	uint64_t behind; /* segments that are stored and not indexed */
};
void pri_follower_stats(
	const struct pri_index_follower *feed, struct pri_follower_stats *out);

#endif
