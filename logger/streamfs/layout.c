/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/streamfs/layout.h"

void
sfs_layout_make(struct sfs_layout *l, const struct sfs_root *root)
{
	uint64_t first = 0;
	*l = (struct sfs_layout){.sets = root->set_count};
	for (uint32_t i = 0; i < root->set_count; i++) {
		const struct sfs_set *in = &root->set[i];
		struct sfs_stripe *s = &l->set[i];
		*s = (struct sfs_stripe){
			.first = first, .blocks = in->blocks, .tier = in->tier};
		for (uint8_t d = 0; d < SFS_DEVICES_MAX; d++)
			if (in->devices & (1u << d))
				s->device[s->count++] = d;
		s->rows = s->blocks / s->count;
		for (uint16_t n = 0; n < s->count; n++) {
			s->base[n] = l->rows[s->device[n]];
			l->rows[s->device[n]] += s->rows;
		}
		first += s->blocks;
	}
}

void
sfs_layout_place(
	const struct sfs_layout *l, uint64_t block, uint16_t *device, uint64_t *row)
{
	uint32_t i = l->sets - 1;
	while (i > 0 && block < l->set[i].first)
		i--;
	const struct sfs_stripe *s = &l->set[i];
	uint64_t at = block - s->first;
	*device = s->device[at % s->count];
	*row = s->base[at % s->count] + at / s->count;
}
