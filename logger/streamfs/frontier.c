/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "logger/streamfs/frontier.h"

/*
 * A batch costs one root (some KiB and a sync) and that much of the oldest data early, at most twice
 * over. 256 blocks of 1 MiB mean four roots a second at 1 GB/s. While a root is made, the buffer is
 * written out up to twice: a batch lasts that long where the volume is not too small for it, or the
 * frontier would run dry each time.
 */
static uint32_t
batch_for(uint64_t blocks, uint32_t buffered)
{
	uint64_t n = blocks / 64, want = (uint64_t)buffered * 2;
	if (n < want)
		n = want < blocks / 32 ? want : blocks / 32;
	return n < 2 ? 2 : n > 256 ? 256 : (uint32_t)n;
}

int
sfs_frontier_init(struct sfs_frontier *f, uint64_t blocks, uint32_t buffered,
	uint64_t position, uint64_t next_generation, uint64_t high_water,
	struct pr_error *err)
{
	*f = (struct sfs_frontier){
		.batch = batch_for(blocks, buffered),
		.clear = position,
		.stable = position,
		.high_water = high_water,
		.next_generation = next_generation,
	};
	f->room = f->batch * 3;
	f->ring = calloc(f->room, sizeof(*f->ring));
	return f->ring ? 0 : pr_error_set(err, "no memory for the write frontier");
}

void
sfs_frontier_free(struct sfs_frontier *f)
{
	free(f->ring);
	f->ring = NULL;
}

static void
push(struct sfs_frontier *f, struct sfs_table *t, uint32_t block)
{
	struct sfs_entry *e = &t->entry[block];
	e->state = SFS_RESERVED;
	f->ring[(f->head + f->ready + f->pending) % f->room] = (uint32_t)f->clear;
	f->pending++;
}

/* Whether the block at the clearing position can be had; evicts it if need be. */
static bool
clear_block(struct sfs_table *t, uint32_t block, sfs_may_clear may_clear, void *arg)
{
	struct sfs_entry *e = &t->entry[block];
	switch (e->state) {
	case SFS_FREE:
	case SFS_MAP:
		return may_clear(arg, block);
	case SFS_SEALED:
	case SFS_OPEN:
		if (!sfs_table_surplus(t, block) || !may_clear(arg, block))
			return false;
		sfs_table_evict(t, block);
		return true;
	default:
		return false;
	}
}

bool
sfs_frontier_clear(
	struct sfs_frontier *f, struct sfs_table *t, sfs_may_clear may_clear, void *arg)
{
	uint32_t before = f->pending;
	while (f->pending - before < f->batch && f->ready + f->pending < f->room &&
		f->window < t->blocks) {
		uint32_t block = sfs_order_block(&t->order, f->clear);
		if (clear_block(t, block, may_clear, arg))
			push(f, t, block);
		if (f->clear + 1 > f->high_water)
			f->high_water = f->clear + 1;
		f->clear = (f->clear + 1) % t->blocks;
		f->window++;
	}
	return f->pending != before;
}

void
sfs_frontier_ready(struct sfs_frontier *f, uint32_t count)
{
	f->ready += count;
	f->pending -= count;
}

uint32_t
sfs_frontier_take(struct sfs_frontier *f, const struct sfs_table *t, uint64_t *generation)
{
	if (f->ready == 0)
		return SFS_NONE;
	uint32_t block = sfs_order_block(&t->order, f->ring[f->head]);
	f->head = (f->head + 1) % f->room;
	f->ready--;
	*generation = f->next_generation++;
	return block;
}

uint64_t
sfs_frontier_position(const struct sfs_frontier *f)
{
	return f->ready + f->pending ? f->ring[f->head] : f->clear;
}

void
sfs_frontier_stable(struct sfs_frontier *f, const struct sfs_table *t, uint64_t position)
{
	f->stable = position;
	f->window = (f->clear + t->blocks - position) % t->blocks;
	if (f->window == 0 && f->ready + f->pending)
		f->window = t->blocks;
}

uint64_t
sfs_frontier_limit(const struct sfs_frontier *f)
{
	return f->next_generation - 1 + f->ready + f->pending;
}
