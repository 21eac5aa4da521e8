/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_HEAVY_HITTERS_H
#define PRI_INDEXER_HEAVY_HITTERS_H

#include <stddef.h>
#include <stdint.h>

#include "indexer/index/level1.h"

/*
 * Heavy hitters: which addresses have the most bytes, in bounded memory. Counters for PRI_HEAVY_HITTERS_MAX
 * addresses; when they are all taken, what the middle one has is taken off all, and those with nothing
 * left go (Misra and Gries, in its mergeable form). So each is short by at most what was taken off.
 */
#define PRI_HEAVY_HITTERS_MAX 512

struct pri_heavy_hitters {
	struct pri_level1_top items[PRI_HEAVY_HITTERS_MAX];
	uint16_t hashes[PRI_HEAVY_HITTERS_MAX];
	uint16_t slots[4 * PRI_HEAVY_HITTERS_MAX]; /* 1 + index; 0 free */
	size_t count;
	uint64_t packets_short, bytes_short;
};

void pri_heavy_hitters_clear(struct pri_heavy_hitters *tops);
/* len: 4 or 16. hash: of it, the same each time. */
void pri_heavy_hitters_add(struct pri_heavy_hitters *tops, const uint8_t *address,
	size_t len, uint16_t hash, uint64_t packets, uint64_t bytes);
/* The largest by bytes, at most PRI_LEVEL1_TOPS_MAX; returns how many. */
size_t pri_heavy_hitters_best(
	const struct pri_heavy_hitters *tops, struct pri_level1_top *out);

#endif
