/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "indexer/index/index_key.h"
#include "proto/wire/directory.h"
#include "proto/wire/summary.h"

/*
 * Makes the index of one stream from its segments, given in order: a record of level 1 for each batch of about
 * PRI_BUILDER_BATCH bytes, a record of level 2 for each set of columns (a column is a batch), and records of
 * level 3 (summaries). Records go to a sink. While the sink is full, no segment is added. One thread.
 */
#define PRI_BUILDER_BATCH (4 * 1024 * 1024)
#define PRI_BUILDER_KEYS 16384 /* of a batch, for level 2 */

/*
 * Takes a record. 0: taken (copied); 1: no room now, the builder offers it again; -1:
 * refused for good, the builder drops it.
 */
typedef int (*pri_index_sink)(void *arg, const struct pr_index_record *record);

/* record_max: longest body that the volume takes. */
struct pri_builder *pri_builder_create(uint16_t link, size_t record_max,
	pri_index_sink sink, void *arg, struct pr_error *err);
/* Composite keys from the next record on; before the first segment of any. */
void pri_builder_composites(struct pri_builder *b, const struct pri_composites *composites);
void pri_builder_destroy(struct pri_builder **builder);

/*
 * Resume point: level-1 records exist for sequences below level1, level-2 records for those below level2
 * (level2 <= level1). These are not built again.
 */
void pri_builder_resume(struct pri_builder *b, uint64_t level1, uint64_t level2);

/*
 * Adds a segment that may lie in shared memory. After reading it, calls still_valid(arg),
 * which returns true if the segment did not change during the read; NULL: it is in own memory.
 * Returns:
 *    1  added (a damaged segment in own memory is added without index)
 *    0  the sink is full: call again later
 *    2  not added: overwritten while it was read, or damaged
 *   -1  no memory
 * A sequence that does not follow the previous one begins new records.
 */
int pri_builder_add_shared(struct pri_builder *b, uint64_t sequence, uint64_t proof,
	const void *body, size_t len, bool (*still_valid)(void *arg), void *arg,
	struct pr_error *err);
enum pri_builder_end {
	PRI_BUILDER_BATCH_ONLY,
	PRI_BUILDER_SUMMARY, /* the summary too */
	PRI_BUILDER_ALL, /* and, at the end of all, the group */
};
/*
 * Finishes the batch and the further records that `end` names, and offers all to the sink.
 * 1: the sink took all; 0: some still wait; -1: no memory.
 */
int pri_builder_finish(
	struct pri_builder *b, enum pri_builder_end end, struct pr_error *err);
/* Offers the waiting records to the sink. True: none waits any more. */
bool pri_builder_offer(struct pri_builder *b);
/*
 * Extents of segments that were added and have no summary in the sink yet; returns how
 * many.
 */
size_t pri_builder_tail(const struct pri_builder *b, struct pr_summary_span out[2]);

struct pri_builder_figures {
	uint64_t segments, packets, bytes; /* indexed */
	uint64_t keys; /* distinct a segment, over all */
	uint64_t damaged; /* segments */
	uint64_t index_bytes; /* records of levels 1 and 2 */
	uint32_t open; /* segments in the batch that is being made */
};
const struct pri_builder_figures *pri_builder_figures(const struct pri_builder *b);
