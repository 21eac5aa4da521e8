/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_PRUNE_SLICES_H
#define PRI_INDEXER_PRUNE_SLICES_H

#include "indexer/query/catalog.h"
#include "indexer/index/level2.h"
#include "indexer/query/prune_read.h"

/* A record of level 2: its head, and its pages as they are asked for. Zeroed is none. */
struct pri_prune_slices {
	uint16_t link; /* the caller's to set, as what reads */
	struct pri_prune_reader read;
	struct pri_level2 head;
	struct pri_read_buffer part; /* what was read last */
	struct pri_read_buffer pages; /* of the record, where they were read */
	uint8_t *have; /* of each page, what is known of it */
	size_t have_room;
};

void pri_prune_slices_free(struct pri_prune_slices *s);
/* false: the record cannot be used. */
bool pri_prune_slices_take(struct pri_prune_slices *s, const struct pri_index_ref *ref);
/* Reads all pages in one go: for so many keys that nearly all would be asked for. */
void pri_prune_slices_all(struct pri_prune_slices *s);
/* vector: of PRI_LEVEL2_VECTOR bytes, a bit a column; those without the key of this hash are cleared. */
void pri_prune_slices_apply(struct pri_prune_slices *s, uint64_t hash, uint8_t *vector);

#endif
