/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "logger/streamfs/internal.h"

/*
 * Deleting a stream's oldest blocks, and what lay in them: first a root that says that they are gone
 * and are being wiped, then zeros over them. A crash in between leaves the notes in the root, and the
 * next opening wipes; until then the frontier passes such a block by (sfs_block_clearable).
 */
#define BATCH 64u /* blocks under one root */

bool
sfs_wipe_noted(const struct sfs *sfs, uint32_t block)
{
	for (uint32_t i = 0; sfs->wipes && i < sfs->repairs; i++)
		if ((sfs->repair[i].flags & SFS_REPAIR_WIPE) &&
			sfs->repair[i].block == block)
			return true;
	return false;
}

static int
make_room(struct sfs *sfs, uint32_t *most, struct pr_error *err)
{
	uint32_t room = SFS_REPAIRS_MAX - sfs->repairs - sfs->holes;
	if (room == 0)
		return pr_error_set(err, "the root is full of notes of repairs: it has no "
					 "room for what is to be deleted");
	if (*most == 0 || *most > BATCH)
		*most = BATCH;
	if (*most > room)
		*most = room;
	struct sfs_map_entry *more =
		realloc(sfs->repair, (sfs->repairs + *most) * sizeof(*more));
	if (!more)
		return pr_error_set(err, "no memory to delete");
	sfs->repair = more;
	return 0;
}

static void
note(struct sfs *sfs, uint32_t block)
{
	const struct sfs_entry *e = &sfs->table.entry[block];
	sfs->repair[sfs->repairs++] = (struct sfs_map_entry){
		.stream = e->stream,
		.flags = SFS_REPAIR_WIPE,
		.block = block,
		.generation = e->generation,
	};
	sfs->wipes++;
}

/* Also from memory. False: its stream has a reservation in it. */
static bool
let_go(struct sfs *sfs, uint32_t block)
{
	uint32_t slot = sfs->table.entry[block].slot;
	if (!sfs_block_clearable(sfs, block))
		return false;
	if (slot != SFS_NONE)
		memset(sfs_shm_data(&sfs->shm, slot), 0, sfs->root.block_size);
	return true;
}

static bool
may_go(const struct sfs_entry *e, const struct sfs_delete_range *what)
{
	return e->max_time <= what->until &&
	       e->first_sequence + e->records - 1 <= what->last &&
	       (e->min_time >= what->since || e->records == 0);
}

void
sfs_trimmed_times(struct sfs_trimmed *out, int64_t min_time, int64_t max_time)
{
	out->min_time = min_time < out->min_time ? min_time : out->min_time;
	out->max_time = max_time > out->max_time ? max_time : out->max_time;
}

void
sfs_take_oldest(struct sfs *sfs, uint32_t stream, const struct sfs_delete_range *what,
	uint32_t most, struct sfs_trimmed *out)
{
	const struct sfs_stream *s = &sfs->table.stream[stream];
	uint32_t last = SFS_NONE;
	for (uint32_t b = s->oldest; b != SFS_NONE; b = sfs->table.entry[b].next) {
		const struct sfs_entry *e = &sfs->table.entry[b];
		uint64_t end = e->first_sequence + e->records;
		if (!may_go(e, what))
			break;
		out->more = out->blocks == most;
		if (out->more || !let_go(sfs, b))
			break;
		note(sfs, b);
		out->blocks++;
		out->records +=
			e->records - sfs_holes_records(sfs, stream, e->first_sequence, end);
		out->bytes += e->records ? e->end : 0;
		sfs_trimmed_times(out, e->min_time, e->max_time);
		last = b;
	}
	if (last != SFS_NONE)
		sfs_table_evict(&sfs->table, last);
}

/* What has a new life since needs no wiping. */
static bool
idle(const struct sfs *sfs, const struct sfs_map_entry *r)
{
	return r->block < sfs->table.blocks && sfs_block_there(sfs, r->block) &&
	       (sfs->table.entry[r->block].state == SFS_FREE ||
		       sfs->table.entry[r->block].state == SFS_RESERVED);
}

static void
forget_notes(struct sfs *sfs)
{
	uint32_t kept = 0;
	for (uint32_t i = 0; i < sfs->repairs; i++)
		if (!(sfs->repair[i].flags & SFS_REPAIR_WIPE))
			sfs->repair[kept++] = sfs->repair[i];
	sfs->repairs = kept;
	sfs->wipes = 0;
}

/* The next root is without the notes: no block is taken again before it. */
int
sfs_wipe(struct sfs *sfs, struct pr_error *err)
{
	if (sfs->erasing == 0)
		sfs->redos = 0;
	if (sfs->wipes == 0 && sfs->erasing == 0)
		return 0;
	uint8_t *zeros = sfs_buffer(sfs->root.block_size);
	if (!zeros)
		return pr_error_set(err, "no memory to delete");
	int rc = 0;
	for (uint32_t i = 0; rc == 0 && i < sfs->repairs; i++) {
		const struct sfs_map_entry *r = &sfs->repair[i];
		struct sfs_disk *disk;
		uint64_t offset;
		if (!(r->flags & SFS_REPAIR_WIPE) || !idle(sfs, r))
			continue;
		sfs_locate(sfs, r->block, &disk, &offset);
		if (sfs_disk_write(disk, zeros, sfs->root.block_size, offset) < 0 &&
			!sfs_disk_fails(sfs, disk, errno))
			rc = pr_error_errno(err, "%s: cannot write over block %llu",
				disk->path, (unsigned long long)r->block);
	}
	free(zeros);
	if (rc == 0 && sfs->erasing > 0)
		rc = sfs_erase(sfs, err);
	if (rc == 0)
		rc = sfs_sync_disks(sfs, err);
	if (rc == 0) {
		forget_notes(sfs);
		sfs_holes_erased(sfs);
		sfs_holes_publish(sfs);
	}
	return rc;
}

int
sfs_trim_begin(struct sfs *sfs, int stream, uint32_t *most, struct pr_error *err)
{
	if (!sfs->w)
		return pr_error_set(err, "the volume is open for reading only");
	if (stream < 0 || (uint32_t)stream >= sfs->table.streams)
		return pr_error_set(err, "no stream %d in the volume", stream);
	if (sfs_flush(sfs, err) != SFS_OK)
		return -1;
	/* what an error has left of the last one: a root of now speaks of it */
	if (sfs->wipes + sfs->erasing > 0 &&
		(sfs_root_store(sfs, 0, err) < 0 || sfs_wipe(sfs, err) < 0))
		return -1;
	return make_room(sfs, most, err);
}

int
sfs_trim(struct sfs *sfs, int stream, int64_t until, uint32_t most, struct sfs_trimmed *out,
	struct pr_error *err)
{
	const struct sfs_delete_range what = {INT64_MIN, until, UINT64_MAX};
	*out = (struct sfs_trimmed)SFS_TRIMMED_NONE;
	if (sfs_trim_begin(sfs, stream, &most, err) < 0)
		return SFS_ERROR;
	sfs_take_oldest(sfs, (uint32_t)stream, &what, most, out);
	if (out->blocks == 0)
		return SFS_OK;
	if (sfs_root_store(sfs, 0, err) < 0 || sfs_wipe(sfs, err) < 0)
		return SFS_ERROR;
	return SFS_OK;
}
