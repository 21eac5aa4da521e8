/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "logger/streamfs/internal.h"

/*
 * A map is written when the frontier has come by its interval: of the interval where a writer ends there
 * is none yet. The root of a clean close says what it would, instead of up to 255 headers.
 */
int
sfs_listed_take(struct sfs *sfs, const struct sfs_map_entry *entries, uint32_t count,
	struct pr_error *err)
{
	if (sfs_entries_copy(&sfs->listed, entries, count, err) < 0)
		return -1;
	sfs->listed_count = count;
	return 0;
}

struct list {
	struct sfs *sfs;
	const struct sfs_root *root;
	struct sfs_map_entry *items;
	uint32_t count, room;
	bool full;
};

static void
put(struct list *l, uint32_t block)
{
	if (!sfs_entry_holds(&l->sfs->table.entry[block]))
		return;
	l->full |= l->count == l->room;
	if (l->full)
		return;
	l->items[l->count] = sfs_map_entry_of(l->sfs, block);
	l->items[l->count++].flags = 0;
}

static uint64_t
map_of(const struct sfs *sfs, uint64_t block)
{
	uint32_t interval = sfs->table.interval;
	return block - block % interval + interval - 1;
}

static void
put_unmapped(struct list *l)
{
	const struct sfs_table *t = &l->sfs->table;
	for (uint64_t first = 0; first < t->blocks; first += t->interval) {
		if (sfs_map_knows_all(l->sfs, l->root, map_of(l->sfs, first)))
			continue;
		for (uint64_t b = first; b < first + t->interval && b < t->blocks; b++)
			put(l, (uint32_t)b);
	}
}

/* What its map calls open, and no later map says how it ended. */
static void
put_open(struct list *l, uint32_t block)
{
	const struct sfs_entry *e = &l->sfs->table.entry[block];
	if ((e->flags & SFS_ENTRY_MAPPED_OPEN) &&
		sfs_map_knows_all(l->sfs, l->root, map_of(l->sfs, block)))
		put(l, block);
}

void
sfs_listed_make(struct sfs *sfs, struct sfs_root *root)
{
	const struct sfs_writer *w = sfs->w;
	struct list l = {.sfs = sfs, .root = root};
	root->listed = NULL;
	root->listed_count = 0;
	if (!(root->flags & SFS_ROOT_LISTED))
		return;
	l.room = (SFS_ROOT_BYTES - sfs_root_length(root)) / SFS_MAP_ENTRY;
	l.items = calloc(l.room + 1, sizeof(*l.items));
	if (l.items) {
		put_unmapped(&l);
		for (uint32_t i = 0; i < w->late_count; i++)
			put_open(&l, w->late[i]);
		for (uint32_t i = 0; i < sfs->table.streams; i++)
			if (sfs->table.stream[i].newest != SFS_NONE)
				put_open(&l, sfs->table.stream[i].newest);
	}
	free(sfs->listed);
	sfs->listed = l.items;
	sfs->listed_count = l.count;
	if (!l.items || l.full) {
		root->flags &= ~SFS_ROOT_LISTED;
		return;
	}
	root->listed = l.items;
	root->listed_count = l.count;
}
