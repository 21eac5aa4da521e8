/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_SLOT_H
#define PRI_INDEXER_SLOT_H

#include <stddef.h>
#include <stdint.h>

/*
 * Where a hash of a key has its slot in a table. These hashes are the same everywhere, so who sends packets could
 * choose keys that all have one slot: a table's own number, which nobody knows, decides where they go (multiply
 * and shift: Dietzfelbinger and others, 1997). Zeroed is to be set first.
 */
struct pri_seeded_hash {
	uint64_t factor; /* odd */
	unsigned shift;
};

/* For a table of so many slots, a power of two from 2 on; the factor is drawn once. */
void pri_seeded_hash_set(struct pri_seeded_hash *slot, size_t slots);

static inline size_t
pri_seeded_hash_slot(const struct pri_seeded_hash *slot, uint64_t hash)
{
	return (size_t)(hash * slot->factor >> slot->shift);
}

#endif
