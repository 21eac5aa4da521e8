/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <xxhash.h>

#include "indexer/index/level1.h"

/* The pages of a record of level 1: its keys, and which segments have them. Shared with level1.c. */

enum { CHECKED = 48, PAGE_HEADER = 10 };
#define RESERVED_PAGE 8 /* bytes of the one behind the pages, which is its check */
#define PAGE 1024 /* bytes, about: usually within one sector */

/*
 * The check of a head: of its first CHECKED bytes, and of the items and lengths of pages
 * after them.
 */
static inline uint64_t
head_check(const uint8_t *head, size_t len)
{
	uint64_t seed = XXH3_64bits(head, CHECKED);

	return XXH3_64bits_withSeed(
		head + PRI_LEVEL1_HEADER, len - PRI_LEVEL1_HEADER, seed);
}

static inline uint64_t
page_check(uint64_t head, uint32_t page, const uint8_t *bytes, size_t len)
{
	return XXH3_64bits_withSeed(bytes + 8, len - 8, head + page);
}

static inline uint32_t
page_of(uint64_t signature, uint32_t pages)
{
	return (uint32_t)((signature >> PRI_SIGNATURE_HOME) * pages >> 16);
}

/* hash: bits 16 to 47 of a hash; the upper hash_bits of them (1 to 32) are used. */
static inline uint32_t
value_of(uint32_t hash, unsigned hash_bits, uint32_t keys, unsigned low_bits)
{
	return pri_reduce(hash & UINT32_MAX << (32 - hash_bits), keys << low_bits);
}

/* Bits that a number below count needs. */
static inline unsigned
index_bits(unsigned count)
{
	unsigned bits = 0;

	while (1u << bits < count)
		bits++;
	return bits;
}

/* The keys of a record of level 1, as its pages have them. */
struct pri_level1_keys {
	/* Of each distinct key, in order: page and value; set of its segments. */
	uint64_t *items, *sets;
	size_t distinct;
	size_t set_bits; /* bits that the sets of segments take */
	uint32_t pages;
	unsigned segments, index_bits, hash_bits, low_bits;
	uint32_t of_page[PRI_LEVEL1_PAGES_MAX], crowd; /* keys; at most */
};

/*
 * Upper bound of the bytes of the pages, with their lengths in the head. count: keys over
 * all segments.
 */
size_t pri_level1_keys_bound(size_t count, unsigned segments, unsigned low_bits);
/*
 * Sorts keys into pages. hashes: pri_key_signature of all keys, segment by segment;
 * ends[i]: where segment i ends. After them, hashes must have room for as many again.
 * hashes and this room are overwritten. room: bytes for the pages. If it is too small, or
 * if far more keys than usual belong to one page (a sender can cause this), there are no
 * pages (pages is 0).
 */
void pri_level1_keys_sort(struct pri_level1_keys *keys, uint64_t *hashes,
	const size_t *ends, unsigned segments, size_t room);
/*
 * Writes the pages without their checks, and the length of each to lens. Returns the bytes
 * of the pages; up to 7 bytes after them are overwritten.
 */
size_t pri_level1_keys_put(const struct pri_level1_keys *keys, uint8_t *out, uint8_t *lens);
