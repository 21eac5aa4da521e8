/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "logger/streamfs/layout.h"

#define REGION_BYTES (64u << 20)
#define REGIONS_MIN 16 /* of each zone, or balancing is too coarse to be of use */

uint32_t
sfs_zone_region(uint64_t rows, uint32_t block_size)
{
	uint64_t region = REGION_BYTES / block_size, most = rows / (3 * REGIONS_MIN);
	if (region > most)
		region = most;
	return region ? (uint32_t)region : 1;
}

uint64_t
sfs_zone_row(uint64_t i, uint64_t rows, uint32_t region)
{
	uint64_t turn = 3 * (uint64_t)region;
	uint64_t n = region ? rows / turn : 0;
	if (n == 0)
		return i;
	uint64_t zone = n * region, t = i / turn, within = i % region;
	if (t == n)
		return i - 3 * zone + 2 * zone; /* the rest, in the middle */
	switch (i % turn / region) {
	case 0:
		return t * region + within;
	case 1:
		return zone + t * region + within;
	default:
		return rows - (t + 1) * region + within;
	}
}

struct maker {
	struct sfs_order *order;
	uint32_t interval;
	uint32_t *left; /* data blocks of each interval still to come */
	uint64_t position;
};

static void
put(struct maker *m, uint64_t block)
{
	m->order->block_at[m->position] = (uint32_t)block;
	m->order->position_of[block] = (uint32_t)m->position;
	m->position++;
}

/* A map does not come by itself, but with the last block that it tells of. */
static void
emit(struct maker *m, uint64_t block)
{
	uint64_t i = block / m->interval, map = (i + 1) * m->interval - 1;
	if (block == map)
		return;
	put(m, block);
	if (--m->left[i] == 0 && map < m->order->blocks)
		put(m, map);
}

static void
count_intervals(struct maker *m)
{
	uint64_t n = m->order->blocks, data = m->interval - 1;
	for (uint64_t i = 0; i * m->interval < n; i++) {
		uint64_t rest = n - i * m->interval;
		m->left[i] = (uint32_t)(rest < data ? rest : data);
	}
}

static uint64_t
block_of(const struct sfs_stripe *s, uint64_t i, uint32_t region)
{
	return s->first + sfs_zone_row(i / s->count, s->rows, region) * s->count +
	       i % s->count;
}

/* The set of the tier that is furthest behind its share. */
static uint32_t
next_set(const struct sfs_layout *l, uint32_t tier, const uint64_t *done)
{
	uint32_t best = l->sets;
	double least = 2;
	for (uint32_t k = 0; k < l->sets; k++) {
		if (l->set[k].tier != tier || done[k] == l->set[k].blocks)
			continue;
		double share = ((double)done[k] + 0.5) / (double)l->set[k].blocks;
		if (share < least) {
			least = share;
			best = k;
		}
	}
	return best;
}

static void
make_tier(struct maker *m, const struct sfs_layout *l, uint32_t tier, uint32_t region)
{
	uint64_t done[SFS_SETS_MAX] = {0};
	uint32_t k;
	while ((k = next_set(l, tier, done)) < l->sets)
		emit(m, block_of(&l->set[k], done[k]++, region));
}

int
sfs_order_make(struct sfs_order *o, const struct sfs_layout *l, uint64_t blocks,
	uint32_t interval, uint32_t zone_region, struct pr_error *err)
{
	sfs_order_free(o);
	*o = (struct sfs_order){.blocks = blocks};
	if (l->sets == 1 && zone_region == 0)
		return 0;
	struct maker m = {.order = o, .interval = interval};
	o->block_at = calloc(blocks, sizeof(*o->block_at));
	o->position_of = calloc(blocks, sizeof(*o->position_of));
	m.left = calloc(blocks / interval + 1, sizeof(*m.left));
	if (!o->block_at || !o->position_of || !m.left) {
		free(m.left);
		sfs_order_free(o);
		return pr_error_set(err, "no memory for the order of %llu blocks",
			(unsigned long long)blocks);
	}
	count_intervals(&m);
	for (uint32_t tier = 0; tier < SFS_SETS_MAX; tier++)
		make_tier(&m, l, tier, zone_region);
	free(m.left);
	return 0;
}

void
sfs_order_free(struct sfs_order *o)
{
	free(o->block_at);
	free(o->position_of);
	o->block_at = o->position_of = NULL;
}
