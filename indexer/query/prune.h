/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_PRUNE_H
#define PRI_INDEXER_PRUNE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "indexer/query/catalog.h"
#include "indexer/index/level1.h"
#include "indexer/filter/plan.h"
#include "indexer/query/volume.h"

/*
 * Which segments a query need not read: asks the index what the filter's plan wants, level 2 first, then
 * level 1, each record when the query gets to its segments and only the parts that are asked for. What
 * has no index, or one that cannot be read or is about another segment, is read. One thread, the view's.
 */
struct pri_prune;

enum pri_prune_verdict {
	PRI_PRUNE_READ, /* it may match, or nobody knows */
	PRI_PRUNE_LEVEL2, /* it cannot, says level 2 */
	PRI_PRUNE_LEVEL1,
	PRI_PRUNE_LINKTYPE, /* there is no program for its link type */
	PRI_PRUNE_TIME, /* the filter's own times leave it out */
};

/* plans: the caller's, must outlive it. */
struct pri_prune *pri_prune_create(
	struct pri_volume *view, const struct pri_plans *plans, struct pr_error *err);
void pri_prune_destroy(struct pri_prune **prune);

/*
 * link: whose stream "packets.N" the entry is of. *worked: something was read for it. When the verdict
 * is not to read it, *held says which seqs it holds, relative to its first (valid until the next ask).
 */
enum pri_prune_verdict pri_prune_ask(struct pri_prune *prune, uint16_t link,
	const struct pri_segment_entry *entry, struct pri_held_walk *held, bool *worked);

/*
 * What level 1 says of a segment, and in *batch (which may be NULL) the record that says it; valid until
 * the next ask. false: nothing.
 */
bool pri_prune_segment(struct pri_prune *prune, uint16_t link,
	const struct pri_segment_entry *entry, struct pri_level1_segment *out,
	const struct pri_level1 **batch, bool *worked);

struct pri_prune_stats {
	uint64_t reads,
		bytes; /* of the index: calls that may each seek, and what they read */
	uint64_t damaged; /* records or pages that were not what they should be */
};
const struct pri_prune_stats *pri_prune_stats(const struct pri_prune *prune);

#endif
