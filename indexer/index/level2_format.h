/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_LEVEL2_FORMAT_H
#define PRI_INDEXER_LEVEL2_FORMAT_H

#include <xxhash.h>

#include "indexer/index/level2.h"

/* Between the two that know the bytes: level2.c reads, level2_write.c writes. */

#define HEADER 40
#define CHECKED 32
#define COLUMN 16
#define PAGE_HEADER 16
#define LEAD (PRI_SLICES_PAGE - SFS_RESERVED_HEADER)
#define LEAD_LONG (LEAD - 192) /* behind the block's header */
#define LONG_PAGES 128 /* half of a block: then the last one has seldom room for it */

_Static_assert(HEADER + COLUMN * PRI_LEVEL2_COLUMNS_MAX == PRI_LEVEL2_HEAD_MAX,
	"header and table");
_Static_assert(PRI_LEVEL2_HEAD_MAX <= LEAD_LONG, "room for the table");

static inline uint32_t
lead_of(uint32_t pages)
{
	return pages < LONG_PAGES ? LEAD : LEAD_LONG;
}

static inline uint16_t
slices_of(unsigned stride)
{
	return (uint16_t)((PRI_SLICES_PAGE - PAGE_HEADER) / stride);
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
	return XXH3_64bits_withSeed(bytes + 8, PRI_SLICES_PAGE - 8, head + page);
}

#endif
