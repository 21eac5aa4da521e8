/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_INDEXER_PRUNE_BATCH_H
#define PR_INDEXER_PRUNE_BATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "indexer/level1.h"
#include "indexer/plan.h"
#include "indexer/prune.h"
#include "indexer/view.h"

/* Level 1 for a query, of one stream: the record that it is at, its head and the pages that were asked for. */
struct pr_prune_batch;

/* figures: the query's. NULL: no memory. */
struct pr_prune_batch *pr_prune_batch_create(
	struct pr_view *view, uint16_t link, struct pr_prune_figures *figures);
void pr_prune_batch_destroy(struct pr_prune_batch **batch);

/*
 * What level 1 says of the segment, and if the whole record is wanted, its series and held seqs too;
 * valid until the next find. false: nothing. *worked: something was read.
 */
bool pr_prune_batch_find(struct pr_prune_batch *batch, const struct pr_index_stream *known,
	const struct pr_segment_entry *entry, bool whole, struct pr_level1_segment *out,
	bool *worked);
const struct pr_level1 *pr_prune_batch_record(const struct pr_prune_batch *batch);

/* false: the segment, which was found last, cannot match. scratch: plan->count bytes. */
bool pr_prune_batch_may(struct pr_prune_batch *batch,
	const struct pr_level1_segment *segment, const struct pr_plan *plan,
	uint8_t *scratch);

#endif
