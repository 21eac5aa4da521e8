/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/signature.h"

/* Of a hash that went through level 1 already: stirred, so that errors of the two do not go together. */
static uint64_t
stir(uint64_t x)
{
	x ^= x >> 32;
	x *= 0x9fb21c651e98df25u; /* as in XXH3's avalanche for short keys */
	x ^= x >> 28;
	x *= 0xd6e8feb86659fd93u;
	return x ^ x >> 32;
}

void
pr_slices_of(uint64_t hash, uint32_t pages, uint16_t slices_a_page, struct pr_slices *out)
{
	for (int i = 0; i < PR_SLICES_PAGES; i++) {
		uint64_t x = stir(hash + (uint64_t)i * 0x9e3779b97f4a7c15u);
		uint32_t at = (uint32_t)(x >> 32);
		/* not from the bits that choose the page: there all keys would step alike */
		uint32_t step = (uint32_t)(x * 0x9e3779b97f4a7c15u >> 32) | 1;

		out->page[i] = pr_reduce((uint32_t)x, pages);
		for (int j = 0; j < PR_SLICES_PROBES; j++, at += step)
			out->slice[i][j] = (uint16_t)pr_reduce(at, slices_a_page);
	}
}
