/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "logger/streamfs/internal.h"

/*
 * Zeros over deleted records whose blocks stay. Such a block has a header, and may have records that are
 * kept, in sectors with what goes: a torn write there would take what was durable. So the root that
 * speaks of the deletion has those sectors as they are to be; until they are written, reading a block puts
 * them over it, and so does the next opening after a crash.
 */
static struct sfs_redo *
find_redo(const struct sfs *sfs, uint64_t block, uint32_t offset)
{
	for (uint32_t i = 0; i < sfs->redos; i++)
		if (sfs->redo[i].block == block && sfs->redo[i].offset == offset)
			return &sfs->redo[i];
	return NULL;
}

static int
redo_room(struct sfs *sfs)
{
	if (!sfs->redo)
		sfs->redo = calloc(SFS_REDO_MAX, sizeof(*sfs->redo));
	return sfs->redo ? 0 : -1;
}

int
sfs_redos_take(
	struct sfs *sfs, const struct sfs_redo *redo, uint32_t count, struct pr_error *err)
{
	sfs->redos = 0;
	if (count > 0 && redo_room(sfs) < 0)
		return pr_error_set(err, "no memory for the root");
	for (uint32_t i = 0; i < count; i++)
		if (redo[i].offset % SFS_SECTOR == 0)
			sfs->redo[sfs->redos++] = redo[i];
	return 0;
}

void
sfs_redo_over(
	const struct sfs *sfs, uint64_t block, uint32_t from, uint32_t to, uint8_t *buf)
{
	for (uint32_t i = 0; i < sfs->redos && !sfs->live; i++) {
		const struct sfs_redo *r = &sfs->redo[i];
		uint32_t low = r->offset > from ? r->offset : from;
		uint32_t high = r->offset + SFS_SECTOR < to ? r->offset + SFS_SECTOR : to;
		if (r->block == block && low < high)
			memcpy(buf + (low - from), r->sector + (low - r->offset),
				high - low);
	}
}

/* ---- before ---- */

bool
sfs_root_has_room(const struct sfs *sfs, uint32_t redos)
{
	const struct sfs_root root = {.stream_count = sfs->table.streams + 1,
		.repair_count = SFS_REPAIRS_MAX,
		.redo_count = sfs->redos + redos};
	return sfs_root_length(&root) <= SFS_ROOT_BYTES;
}

static bool
put_redo(struct sfs *sfs, uint64_t block, uint32_t offset, const uint8_t *sector)
{
	struct sfs_redo *r = find_redo(sfs, block, offset);
	if (!r && sfs->redos == SFS_REDO_MAX)
		return false;
	if (!r)
		r = &sfs->redo[sfs->redos++];
	r->block = block;
	r->offset = offset;
	memcpy(r->sector, sector, SFS_SECTOR);
	return true;
}

bool
sfs_erase_prepare(
	struct sfs *sfs, uint32_t block, uint32_t from, uint32_t to, uint8_t *bytes)
{
	uint32_t head = from & ~(SFS_SECTOR - 1), tail = to & ~(SFS_SECTOR - 1);
	uint32_t split = from % SFS_SECTOR != 0, ends = to % SFS_SECTOR != 0;
	if (redo_room(sfs) < 0 || sfs->redos + split + ends > SFS_REDO_MAX)
		return false;
	if (split) {
		uint32_t end = to < head + SFS_SECTOR ? to : head + SFS_SECTOR;
		memset(bytes + from, 0, end - from);
		put_redo(sfs, block, head, bytes + head);
	}
	if (ends && tail >= from) {
		memset(bytes + tail, 0, to - tail);
		put_redo(sfs, block, tail, bytes + tail);
	}
	return true;
}

/* ---- erasing ---- */

/*
 * Where in the block, whose bytes are at buf, the records [first, last] lay: behind the good ones before, up
 * to the good ones after. Of their own some may be erased already.
 */
static void
place_of(const struct sfs *sfs, uint32_t block, const uint8_t *buf, uint64_t first,
	uint64_t last, uint32_t *from, uint32_t *to)
{
	const struct sfs_entry *e = &sfs->table.entry[block];
	struct sfs_scan scan = sfs_scan_of(sfs, buf, block, e);
	uint64_t sequence = e->first_sequence;
	struct sfs_record_header h;
	*from = SFS_BLOCK_HEADER;
	*to = (uint32_t)sfs_sector_up(e->end);
	while (sequence < first && sfs_scan_resync(&scan, *from, e->end, sequence, &h) &&
		h.sequence < first) {
		*from = h.offset + (uint32_t)sfs_record_span(h.size, h.length);
		sequence = h.sequence + 1;
	}
	if (last + 1 < e->first_sequence + e->records &&
		sfs_scan_resync(&scan, *from, e->end, last + 1, &h))
		*to = h.offset;
}

/* Sectors in which other bytes lie as well only as the root has them. */
static int
write_zeros(struct sfs *sfs, uint32_t block, uint32_t from, uint32_t to, uint8_t *zeros,
	struct pr_error *err)
{
	struct sfs_disk *disk;
	uint64_t offset;
	uint32_t low = from & ~(SFS_SECTOR - 1), high = (uint32_t)sfs_sector_up(to);
	if (low < from && !find_redo(sfs, block, low))
		low += SFS_SECTOR;
	if (high > to && high > low && !find_redo(sfs, block, high - SFS_SECTOR))
		high -= SFS_SECTOR;
	if (low >= high)
		return 0;
	sfs_redo_over(sfs, block, low, high, zeros + low);
	sfs_locate(sfs, block, &disk, &offset);
	int rc = sfs_disk_write(disk, zeros + low, high - low, offset + low);
	memset(zeros + low, 0, high - low);
	if (rc < 0 && !sfs_disk_fails(sfs, disk, errno))
		return pr_error_errno(
			err, "%s: cannot write over block %u", disk->path, block);
	return 0;
}

static void
erase_memory(struct sfs *sfs, const struct sfs_entry *e, uint32_t from, uint32_t to)
{
	if (e->slot != SFS_NONE)
		memset(sfs_shm_data(&sfs->shm, e->slot) + from, 0, to - from);
}

struct eraser {
	struct sfs *sfs;
	uint8_t *bytes, *zeros; /* of a block */
};

static int
erase_part(struct eraser *w, uint32_t block, const struct sfs_map_entry *hole,
	struct pr_error *err)
{
	struct sfs *sfs = w->sfs;
	const struct sfs_entry *e = &sfs->table.entry[block];
	uint64_t first = hole->first_sequence, last = first + hole->records - 1;
	uint64_t end = e->first_sequence + e->records;
	uint32_t from = SFS_BLOCK_HEADER, to = (uint32_t)sfs_sector_up(e->end);
	if (first > e->first_sequence || last + 1 < end) {
		if (sfs_fetch(sfs, block, e, 0, e->end, w->bytes, err) != SFS_OK)
			return -1;
		place_of(sfs, block, w->bytes, first, last < end ? last : end - 1, &from,
			&to);
	}
	erase_memory(sfs, e, from, to);
	return write_zeros(sfs, block, from, to, w->zeros, err);
}

static int
erase_hole(struct eraser *w, const struct sfs_map_entry *hole, struct pr_error *err)
{
	const struct sfs_table *t = &w->sfs->table;
	int rc = 0;
	if (hole->stream >= t->streams)
		return 0;
	for (uint32_t b = t->stream[hole->stream].oldest; rc == 0 && b != SFS_NONE;
		b = t->entry[b].next) {
		const struct sfs_entry *e = &t->entry[b];
		if (e->first_sequence >= hole->first_sequence + hole->records)
			break;
		if (e->first_sequence + e->records > hole->first_sequence &&
			sfs_block_there(w->sfs, b))
			rc = erase_part(w, b, hole, err);
	}
	return rc;
}

int
sfs_erase(struct sfs *sfs, struct pr_error *err)
{
	struct eraser w = {.sfs = sfs,
		.bytes = sfs_read_buffer(sfs->root.block_size),
		.zeros = sfs_buffer(sfs->root.block_size)};
	int rc = w.bytes && w.zeros ? 0 : pr_error_set(err, "no memory to delete");
	for (uint32_t i = 0; rc == 0 && i < sfs->holes; i++)
		if (sfs->hole[i].flags & SFS_REPAIR_WIPE)
			rc = erase_hole(&w, &sfs->hole[i], err);
	free(w.bytes);
	free(w.zeros);
	return rc;
}

int
sfs_root_clean(struct sfs *sfs, struct pr_error *err)
{
	int rc = 0;
	for (uint32_t n = sfs->w->root_full; rc == 0 && n > 0; n--)
		rc = sfs_root_store(sfs, 0, err);
	return rc;
}
