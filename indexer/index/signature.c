/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/index/signature.h"

void
pri_slices_of(uint64_t hash, uint32_t pages, uint16_t slices_a_page, struct pri_slices *out)
{
	for (unsigned i = 0; i < PRI_SLICES_PAGES; i++) {
		struct pri_slice_walk walk = pri_slice_walk_begin(hash, i, pages);

		out->page[i] = walk.page;
		for (int j = 0; j < PRI_SLICES_PROBES; j++, walk.at += walk.step)
			out->slice[i][j] = (uint16_t)pri_reduce(walk.at, slices_a_page);
	}
}
