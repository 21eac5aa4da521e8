/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "logger/streamfs/tail.h"

/*
 * What a stream's open block holds goes to the device: its full sectors, or all of it, padded to so many
 * bytes. False: the device takes nothing, the records stay waiting.
 */
static bool
submit_tail(struct sfs *sfs, uint32_t stream, uint32_t pad)
{
	struct sfs_tail *tail = &sfs->w->tail[stream];
	if (tail->block == SFS_NONE || tail->waiting == 0 || tail->slot == SFS_NONE)
		return true;
	uint32_t from = tail->submitted, full = tail->fill & ~(SFS_SECTOR - 1);
	uint32_t end = pad ? (tail->fill + pad - 1) & ~(pad - 1) : full;
	if (end == from)
		return true;
	if (!sfs_request_free(sfs))
		return false;
	uint8_t *data = sfs_shm_data(&sfs->shm, tail->slot);
	if (pad) {
		memset(data + tail->fill, 0, end - tail->fill);
		tail->fill = end;
		tail->partial = 0;
	}
	tail->submitted = end;
	tail->waiting = tail->partial;
	sfs_write_submit(sfs, tail->block, from, end, data + from, tail->slot);
	return true;
}

bool
sfs_tail_submit(struct sfs *sfs, uint32_t stream)
{
	return submit_tail(sfs, stream, SFS_SECTOR);
}

/* Nothing comes behind it in the block: the device's own sector will do. */
bool
sfs_tail_submit_last(struct sfs *sfs, uint32_t stream)
{
	struct sfs_disk *disk;
	uint64_t offset;
	if (sfs->w->tail[stream].block == SFS_NONE)
		return true;
	sfs_locate(sfs, sfs->w->tail[stream].block, &disk, &offset);
	return submit_tail(sfs, stream, disk->sector ? disk->sector : SFS_SECTOR);
}

/* So the device has work between flushes, whatever a block's size. */
static uint32_t
worth_writing(const struct sfs *sfs)
{
	uint32_t half = sfs->root.block_size / 2;
	return half < SFS_BLOCK_DEFAULT ? half : SFS_BLOCK_DEFAULT;
}

void
sfs_tail_grown(struct sfs *sfs, uint32_t stream, uint32_t start, uint32_t end)
{
	struct sfs_tail *tail = &sfs->w->tail[stream];
	uint32_t full = end & ~(SFS_SECTOR - 1);
	tail->waiting++;
	if (full == end)
		tail->partial = 0;
	else
		tail->partial = full >= start ? 1 : tail->partial + 1;
	/* should no request be free, the next flush takes it */
	if (full >= tail->submitted + worth_writing(sfs))
		submit_tail(sfs, stream, 0);
}

/* By a flush: does the sector that is not full go along? */
static bool
to_be_padded(const struct sfs *sfs, uint32_t stream, enum sfs_flush_kind kind)
{
	const struct sfs_tail *tail = &sfs->w->tail[stream];
	uint64_t full = sfs->table.stream[stream].last_sequence - tail->partial;
	if (kind == SFS_FLUSH_AGED)
		return full < tail->aged;
	return kind == SFS_FLUSH_ALL || tail->submitted == 0;
}

void
sfs_tail_flush(struct sfs *sfs, uint32_t stream, enum sfs_flush_kind kind)
{
	struct sfs_tail *tail = &sfs->w->tail[stream];
	uint64_t last = sfs->table.stream[stream].last_sequence;
	bool good =
		submit_tail(sfs, stream, to_be_padded(sfs, stream, kind) ? SFS_SECTOR : 0);
	tail->target = good ? last - tail->waiting : 0;
	if (kind != SFS_FLUSH_FULL)
		tail->aged = last;
	sfs->w->dirty = sfs->w->dirty || tail->waiting > 0;
}
