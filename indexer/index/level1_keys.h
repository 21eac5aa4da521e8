/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_LEVEL1_KEYS_H
#define PRI_INDEXER_LEVEL1_KEYS_H

#include <stddef.h>
#include <stdint.h>

#include "indexer/index/level1.h"

/* The keys of a record of level 1, as its pages have them. For level1_write.c. */
struct pri_level1_keys {
	uint64_t *items,
		*sets; /* of each distinct key, in order: page and value, segments */
	size_t distinct;
	size_t set_bits; /* what it takes to say which segments have them */
	uint32_t pages;
	unsigned segments, index_bits, hash_bits, low_bits;
	uint32_t of_page[PRI_LEVEL1_PAGES_MAX]; /* keys */
};

/*
 * What pages may take at most, with their lengths in the head: of so many keys over all segments, each
 * with so many low bits.
 */
size_t pri_level1_keys_bound(size_t count, unsigned segments, unsigned low_bits);
/*
 * hashes: pri_key_signature of them all, segment by segment, ends[] where each ends; and behind them room
 * for as many. Both are used up. room: bytes for the pages; if too little, or if far more keys than usual
 * are at home in one page, as somebody may bring about, there are none (pages is 0).
 */
void pri_level1_keys_sort(struct pri_level1_keys *keys, uint64_t *hashes,
	const size_t *ends, unsigned segments, size_t room);
/*
 * Writes the pages, without their checks, and the length of each to lens. Returns bytes; up to 7 behind them are
 * written over.
 */
size_t pri_level1_keys_put(const struct pri_level1_keys *keys, uint8_t *out, uint8_t *lens);

#endif
