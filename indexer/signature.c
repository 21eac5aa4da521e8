/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/signature.h"

void
pr_slices_of(uint64_t hash, uint32_t pages, uint16_t slices_a_page, struct pr_slices *out)
{
	for (unsigned i = 0; i < PR_SLICES_PAGES; i++) {
		struct pr_slice_walk walk = pr_slice_walk_begin(hash, i, pages);

		out->page[i] = walk.page;
		for (int j = 0; j < PR_SLICES_PROBES; j++, walk.at += walk.step)
			out->slice[i][j] = (uint16_t)pr_reduce(walk.at, slices_a_page);
	}
}
