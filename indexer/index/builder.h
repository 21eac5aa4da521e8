/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_BUILDER_H
#define PRI_INDEXER_BUILDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "indexer/index/index_key.h"
#include "proto/base/error.h"
#include "proto/wire/directory.h"
#include "proto/wire/summary.h"

/*
 * Makes the index of one stream from its segments, given in order: records of level 1 for each batch of
 * about PRI_BUILDER_BATCH bytes, of level 2 for each group of batches, and of level 3 (summaries). Pure: records go to a sink,
 * which may be slow; then segments must wait. One thread.
 */
#define PRI_BUILDER_BATCH (4 * 1024 * 1024)
#define PRI_BUILDER_KEYS 16384 /* of a batch, for level 2 */

/* 0: taken (copied); 1: not now, it will be offered again; -1: it never will be (let it go). */
typedef int (*pri_index_sink)(void *arg, const struct pr_index_record *record);

struct pri_builder;

/* record_max: longest body that the volume takes. */
struct pri_builder *pri_builder_create(uint16_t link, size_t record_max,
	pri_index_sink sink, void *arg, struct pr_error *err);
/* Composite keys from the next record on; before the first segment of any. */
void pri_builder_composites(struct pri_builder *b, const struct pri_composites *composites);
void pri_builder_destroy(struct pri_builder **builder);

/*
 * Level 1 is there already for what comes before the sequence level1, and level 2 for what comes before
 * level2, which is not greater: of that they are not made.
 */
void pri_builder_resume(struct pri_builder *b, uint64_t level1, uint64_t level2);

/*
 * 1: taken (a damaged one is left without index); 0: not now, a record waits for its sink; -1: no
 * memory. A sequence that is not the last one's successor begins a new record.
 *
 * A segment may lie in shared memory. When all was read of it that is needed, whole(arg) says whether it was
 * there all the while: if not, or if it seems damaged, 2 is returned, and it was not added.
 */
int pri_builder_add_shared(struct pri_builder *b, uint64_t sequence, uint64_t proof,
	const void *body, size_t len, bool (*whole)(void *arg), void *arg,
	struct pr_error *err);
/* Of one's own memory: never 2. */
static inline int
pri_builder_add(struct pri_builder *b, uint64_t sequence, uint64_t proof, const void *body,
	size_t len, struct pr_error *err)
{
	return pri_builder_add_shared(b, sequence, proof, body, len, NULL, NULL, err);
}
enum pri_builder_end {
	PRI_BUILDER_BATCH_ONLY,
	PRI_BUILDER_SUMMARY, /* the summary too */
	PRI_BUILDER_ALL, /* and, at the end of all, the group */
};
/*
 * Offers what waits, after finishing the batch that is being made, and more. 1: all is taken; 0:
 * something still waits; -1: no memory.
 */
int pri_builder_finish(
	struct pri_builder *b, enum pri_builder_end end, struct pr_error *err);
/* Offers what waits. true: nothing waits any more. */
bool pri_builder_offer(struct pri_builder *b);
/* What was added and of which no summary was taken yet; returns how many. */
size_t pri_builder_tail(const struct pri_builder *b, struct pr_summary_span out[2]);

struct pri_builder_figures {
	uint64_t segments, packets, bytes; /* indexed */
	uint64_t keys, wide_keys; /* distinct a segment, a batch; over all */
	uint64_t damaged, dropped; /* segments, records */
	uint64_t level1_bytes, level2_bytes, level3_bytes;
	uint32_t open; /* segments in the batch that is being made */
};
const struct pri_builder_figures *pri_builder_figures(const struct pri_builder *b);

#endif
