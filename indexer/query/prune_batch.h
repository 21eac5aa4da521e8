/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_PRUNE_BATCH_H
#define PRI_INDEXER_PRUNE_BATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "indexer/index/level1.h"
#include "indexer/filter/plan.h"
#include "indexer/query/prune.h"
#include "indexer/query/volume.h"

/* Level 1 for a query, of one stream: the record that it is at, its head and the pages that were asked for. */
struct pri_prune_batch;

/* figures: the query's. NULL: no memory. */
struct pri_prune_batch *pri_prune_batch_create(
	struct pri_volume *view, uint16_t link, struct pri_prune_stats *figures);
void pri_prune_batch_destroy(struct pri_prune_batch **batch);

/*
 * What level 1 says of the segment, and if the whole record is wanted, its series and held seqs too;
 * valid until the next find. false: nothing. *worked: something was read.
 */
bool pri_prune_batch_find(struct pri_prune_batch *batch,
	const struct pri_index_stream *known, const struct pri_segment_entry *entry,
	bool whole, struct pri_level1_segment *out, bool *worked);
const struct pri_level1 *pri_prune_batch_record(const struct pri_prune_batch *batch);

/* false: the segment, which was found last, cannot match. scratch: plan->count bytes. */
bool pri_prune_batch_may(struct pri_prune_batch *batch,
	const struct pri_level1_segment *segment, const struct pri_plan *plan,
	uint8_t *scratch);

#endif
