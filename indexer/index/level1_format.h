/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_LEVEL1_FORMAT_H
#define PRI_INDEXER_LEVEL1_FORMAT_H

#include <xxhash.h>

#include "indexer/index/level1.h"

/* Between those that know the bytes: level1.c and level1_find.c read, level1_write.c and level1_keys.c write. */

#define CHECKED 48
#define PAGE_HEADER 10
#define SOLES_HEADER 8
#define SOLE 10
#define SOLE_BOTH 0x80 /* of its first segment */
#define PAGE 1024 /* about: a sector has it, as a rule */

/* The rest: items and the bytes of pages. */
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

/* hash: its bits 16 to 47, of which so many count, 1 to 32. */
static inline uint32_t
value_of(uint32_t hash, unsigned hash_bits, uint32_t keys, unsigned low_bits)
{
	return pri_reduce(hash & UINT32_MAX << (32 - hash_bits), keys << low_bits);
}

/* Bits for the number of one of so many segments. */
static inline unsigned
index_bits(unsigned segments)
{
	unsigned bits = 0;

	while (1u << bits < segments)
		bits++;
	return bits;
}

#endif
