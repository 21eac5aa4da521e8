/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "logger/streamfs/internal.h"

int
sfs_entries_copy(struct sfs_map_entry **own, const struct sfs_map_entry *entries,
	uint32_t count, struct pr_error *err)
{
	struct sfs_map_entry *copy = NULL;
	if (count > 0) {
		copy = malloc(count * sizeof(*copy));
		if (!copy)
			return pr_error_set(err, "no memory for the root");
		memcpy(copy, entries, count * sizeof(*copy));
	}
	free(*own);
	*own = copy;
	return 0;
}

int
sfs_repairs_take(struct sfs *sfs, const struct sfs_map_entry *entries, uint32_t count,
	struct pr_error *err)
{
	if (sfs_entries_copy(&sfs->repair, entries, count, err) < 0)
		return -1;
	sfs->repairs = sfs->wipes = 0;
	for (uint32_t i = 0; i < count; i++) {
		if (entries[i].flags & SFS_REPAIR_HOLE)
			continue;
		sfs->repair[sfs->repairs++] = entries[i];
		sfs->wipes += (entries[i].flags & SFS_REPAIR_WIPE) != 0;
	}
	return 0;
}

static bool
still_held(const struct sfs *sfs, const struct sfs_map_entry *r)
{
	const struct sfs_table *t = &sfs->table;
	if (r->flags & SFS_REPAIR_WIPE)
		return true;
	bool known = r->block < t->blocks && r->generation != 0;
	if (r->stream >= t->streams)
		return false;
	if (r->flags & SFS_REPAIR_KEPT || r->records == 0)
		return known && t->entry[r->block].generation == r->generation &&
		       t->entry[r->block].state != SFS_FREE;
	return r->first_sequence + r->records > t->stream[r->stream].first_sequence;
}

void
sfs_repairs_prune(struct sfs *sfs, struct sfs_root *root)
{
	uint32_t kept = 0;
	for (uint32_t i = 0; i < sfs->repairs; i++)
		if (still_held(sfs, &sfs->repair[i]))
			sfs->repair[kept++] = sfs->repair[i];
	sfs->repairs = kept;
	sfs_holes_prune(sfs);
	if (kept > 0)
		memcpy(sfs->w->root_notes, sfs->repair, kept * sizeof(*sfs->repair));
	if (sfs->holes > 0)
		memcpy(sfs->w->root_notes + kept, sfs->hole,
			sfs->holes * sizeof(*sfs->hole));
	root->repair_count = kept + sfs->holes;
	root->repairs = sfs->w->root_notes;
}

bool
sfs_repairs_cover(const struct sfs *sfs, uint32_t stream, uint64_t first, uint64_t last)
{
	for (uint32_t i = 0; i < sfs->repairs; i++) {
		const struct sfs_map_entry *r = &sfs->repair[i];
		if ((r->flags & SFS_REPAIR_GONE) && r->stream == stream &&
			r->first_sequence <= first && r->records > 0 &&
			last - r->first_sequence < r->records)
			return true;
	}
	return false;
}

bool
sfs_repairs_cover_at(const struct sfs *sfs, uint64_t block, uint64_t generation,
	uint32_t from, uint32_t to)
{
	for (uint32_t i = 0; i < sfs->repairs; i++) {
		const struct sfs_map_entry *r = &sfs->repair[i];
		if ((r->flags & SFS_REPAIR_GONE) && r->block == block &&
			r->generation == generation && generation != 0 &&
			r->ordinal <= from && r->end >= to)
			return true;
	}
	return false;
}

const struct sfs_map_entry *
sfs_repairs_kept(const struct sfs *sfs, uint64_t block)
{
	for (uint32_t i = 0; i < sfs->repairs; i++)
		if ((sfs->repair[i].flags & SFS_REPAIR_KEPT) &&
			sfs->repair[i].block == block)
			return &sfs->repair[i];
	return NULL;
}
