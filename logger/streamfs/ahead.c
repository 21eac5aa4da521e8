/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/streamfs/ahead.h"

#include <stdlib.h>
#include <time.h>

struct ahead_block {
	struct sfs_request r; /* first: what the queue gives back is this */
	uint32_t block;
	uint64_t generation; /* 0: nothing of use in here */
	bool busy;
	uint8_t *buf; /* of a block, made when first needed */
};

struct sfs_ahead {
	struct sfs *sfs;
	struct ahead_block at[SFS_AHEAD_BLOCKS];
	uint32_t count;
};

/*
 * Above half of its memory under way, the writer is behind: reads from its devices wait, but not for ever,
 * as it may be so for hours. A read comes through every 0.3 ms or so at the worst.
 */
#define BEHIND 500
#define WAITS 2
#define WAIT_NS 100000

static bool
writer_behind(const struct sfs *sfs)
{
	return sfs->live && atomic_load_explicit(&sfs->shm.header->backlog,
				    memory_order_relaxed) > BEHIND;
}

void
sfs_give_way(const struct sfs *sfs)
{
	const struct timespec wait = {.tv_nsec = WAIT_NS};
	for (int i = 0; i < WAITS && writer_behind(sfs); i++)
		nanosleep(&wait, NULL);
}

static bool
open_queue(struct sfs *sfs)
{
	bool descriptors = true;
	if (sfs->reads.ops)
		return true;
	for (uint16_t i = 0; i < sfs->disks; i++)
		descriptors = descriptors && (sfs->disk[i].missing || sfs->disk[i].fd >= 0);
	return sfs_queue_open(&sfs->reads, descriptors, SFS_QUEUE_ANY, NULL) == 0;
}

/* All cursors of a volume share its queue. */
static void
reap(struct sfs *sfs, bool wait)
{
	struct sfs_request *list = sfs_queue_reap(&sfs->reads, wait);
	while (list) {
		struct ahead_block *b = (struct ahead_block *)list;
		list = list->next;
		b->busy = false;
		if (b->r.error)
			b->generation = 0;
	}
}

void
sfs_reads_settle(struct sfs *sfs)
{
	while (sfs->reads.ops && sfs->reads.flying > 0)
		reap(sfs, true);
}

struct sfs_ahead *
sfs_ahead_create(struct sfs *sfs)
{
	struct sfs_ahead *a = calloc(1, sizeof(*a));
	if (!a || !open_queue(sfs)) {
		free(a);
		return NULL;
	}
	a->sfs = sfs;
	a->count = SFS_AHEAD_BYTES / sfs->root.block_size;
	a->count = a->count < 1                  ? 1
		   : a->count > SFS_AHEAD_BLOCKS ? SFS_AHEAD_BLOCKS
						 : a->count;
	return a;
}

void
sfs_ahead_destroy(struct sfs_ahead **ahead)
{
	struct sfs_ahead *a = *ahead;
	*ahead = NULL;
	if (!a)
		return;
	for (uint32_t i = 0; i < a->count; i++) {
		while (a->at[i].busy)
			reap(a->sfs, true);
		free(a->at[i].buf);
	}
	free(a);
}

static struct ahead_block *
find(struct sfs_ahead *a, uint32_t block, uint64_t generation)
{
	for (uint32_t i = 0; i < a->count; i++)
		if (a->at[i].generation == generation && a->at[i].block == block)
			return &a->at[i];
	return NULL;
}

/* One that holds nothing, or what the cursor has passed. */
static struct ahead_block *
unused(struct sfs_ahead *a, uint64_t passed)
{
	for (uint32_t i = 0; i < a->count; i++)
		if (!a->at[i].busy && a->at[i].generation <= passed)
			return &a->at[i];
	return NULL;
}

static bool
read_block(struct sfs_ahead *a, struct ahead_block *b, uint32_t block,
	const struct sfs_entry *e)
{
	if (!b->buf)
		b->buf = sfs_read_buffer(a->sfs->root.block_size);
	if (!b->buf)
		return false;
	b->r = (struct sfs_request){.into = b->buf, .len = sfs_sector_up(e->end)};
	sfs_locate(a->sfs, block, &b->r.disk, &b->r.offset);
	b->generation = 0;
	if (b->r.disk->missing)
		return false;
	b->block = block;
	b->generation = e->generation;
	b->busy = true;
	sfs_queue_submit(&a->sfs->reads, &b->r);
	return true;
}

/* Blocks in shared memory are copied from there, and the open one grows. */
static bool
worth_it(const struct sfs_entry *e)
{
	return e->state == SFS_SEALED && e->slot == SFS_NONE && !(e->flags & SFS_ENTRY_CUT);
}

void
sfs_ahead_start(struct sfs_ahead *a, const struct sfs_entry *e)
{
	struct sfs_entry at = *e, n;
	reap(a->sfs, false);
	for (uint32_t i = 0; i < a->count && !writer_behind(a->sfs); i++) {
		uint32_t block = at.next;
		if (block == SFS_NONE || !sfs_view_entry(a->sfs, block, &n) ||
			n.stream != e->stream || n.generation <= at.generation)
			break;
		at = n;
		if (!worth_it(&n) || find(a, block, n.generation))
			continue;
		struct ahead_block *b = unused(a, e->generation);
		if (!b || !read_block(a, b, block, &n))
			break;
	}
}

bool
sfs_ahead_take(
	struct sfs_ahead *a, uint32_t block, const struct sfs_entry *e, uint8_t **buf)
{
	struct ahead_block *b = find(a, block, e->generation);
	if (!b)
		return false;
	while (b->busy)
		reap(a->sfs, true);
	if (b->generation == 0 || b->r.len < e->end)
		return false;
	uint8_t *mine = b->buf;
	b->buf = *buf;
	*buf = mine;
	b->generation = 0;
	return true;
}
