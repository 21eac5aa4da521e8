/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_FEED_H
#define PRI_INDEXER_FEED_H

#include <stdbool.h>
#include <stdint.h>

#include "indexer/index/builder.h"
#include "indexer/query/volume.h"
#include "proto/base/error.h"

/*
 * Keeps a volume's index up with its data: follows each data stream behind its writer, out of shared
 * memory as long as it keeps up, builds records and gives them to a sink. It starts where the index
 * that is there ends. What it does not get to in time stays without index: queries read it. One
 * thread, the view's.
 */
struct pri_index_follower;

/* The view must have been refreshed, with `all`, and must outlive it. */
struct pri_index_follower *pri_follower_create(
	struct pri_volume *view, pri_index_sink sink, void *arg, struct pr_error *err);
/* Composite keys to make; before the first step. Copied. */
void pri_follower_composites(
	struct pri_index_follower *feed, const struct pri_composites *composites);
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
 * Of which segments no summary is in the volume's index, as far as the feed can tell: those under way,
 * and what an earlier run left. They may be fewer than that many and then larger than need be.
 * *unknown: there are more, of which it is not known what they hold. Returns how many.
 */
size_t pri_follower_unsummarized(const struct pri_index_follower *feed,
	struct pr_summary_span out[PRI_FOLLOWER_SPANS], bool *unknown);
/* A summary is there, of the segments from first_sequence on. */
void pri_follower_summarized(struct pri_index_follower *feed, uint16_t link,
	uint64_t first_sequence, uint32_t segments);
/* Grows when sequences begin anew: the volume was reset. */
uint64_t pri_follower_restarts(const struct pri_index_follower *feed);

struct pri_follower_stats {
	struct pri_builder_figures built; /* over all streams */
	uint64_t behind; /* segments that are stored and not indexed */
	uint64_t lost; /* segments that were recycled or damaged before they were */
};
void pri_follower_stats(
	const struct pri_index_follower *feed, struct pri_follower_stats *out);

#endif
