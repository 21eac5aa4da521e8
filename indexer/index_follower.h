/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "indexer/index/builder.h"
#include "indexer/query/volume.h"

/*
 * Keeps a volume's index up to date: follows the writer of each packet stream (in shared
 * memory, unless it falls behind), builds records, and gives them to a sink. It starts
 * where the existing index ends. Segments that are overwritten before it reads them stay
 * without index. One thread, the volume's.
 */

/*
 * The volume must have been refreshed with `all`, and must outlive the follower.
 * composites: keys to make; copied, or NULL.
 */
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
 * Finishes the open records of levels 1 and 3; with `all`, those of level 2 too. Level-2
 * records are better large, so use `all` at the end only, not at every pause. 1: the sink
 * took all; 0: the sink is full; -1: no memory.
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
/* The volume has a summary of these segments now; not readable: they are without one again. */
void pri_follower_summarized(struct pri_index_follower *feed, uint16_t link,
	uint64_t first_sequence, uint32_t segments, bool readable);
/* A counter that grows when sequences restart: the volume was reset. */
uint64_t pri_follower_restarts(const struct pri_index_follower *feed);

struct pri_follower_stats {
	/* sums of what was indexed, over all streams */
	uint64_t segments, packets, damaged, index_bytes; /* the index: levels 1 and 2 */
	uint64_t behind; /* segments that are stored and not indexed */
};
void pri_follower_stats(
	const struct pri_index_follower *feed, struct pri_follower_stats *out);
