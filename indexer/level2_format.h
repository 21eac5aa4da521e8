/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_INDEXER_LEVEL2_FORMAT_H
#define PR_INDEXER_LEVEL2_FORMAT_H

#include <xxhash.h>

#include "indexer/level2.h"

/* Between the two that know the bytes: level2.c reads, level2_write.c writes. */

#define HEADER 40
#define CHECKED 32
#define COLUMN 16
#define PAGE_HEADER 16
#define FIRST_LEAD (4096 - SFS_RESERVED_HEADER)

static inline uint32_t
lead_of(unsigned columns)
{
	return HEADER + COLUMN * columns <= FIRST_LEAD ? FIRST_LEAD : PR_LEVEL2_HEAD_MAX;
}

static inline uint16_t
slices_of(unsigned stride)
{
	return (uint16_t)((PR_SLICES_PAGE - PAGE_HEADER) / stride);
}

static inline uint64_t
head_check(const uint8_t *head, unsigned columns)
{
	uint64_t seed = XXH3_64bits(head, CHECKED);

	return XXH3_64bits_withSeed(head + HEADER, (size_t)columns * COLUMN, seed);
}

static inline uint64_t
page_check(uint64_t head, uint32_t page, const uint8_t *bytes)
{
	return XXH3_64bits_withSeed(bytes + 8, PR_SLICES_PAGE - 8, head + page);
}

#endif
