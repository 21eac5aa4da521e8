/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/streamfs/internal.h"

/* ---- erasing deleted records ---- */

/*
 * Writes zeros over deleted records in blocks that stay. A sector with deleted bytes may
 * also contain the block's header or records that are kept, and a torn write would destroy
 * these. So the root with the deletion has a copy of each such sector as it will be (redo
 * sector). Until the sector is written, reads take the copy instead; after a crash the next
 * opening writes it.
 */
static struct sfs_redo *
find_redo(struct sfs *sfs, uint64_t block, uint32_t offset)
{
	for (uint32_t i = 0; i < sfs->redos; i++)
		if (sfs->redo[i].block == block && sfs->redo[i].offset == offset)
			return &sfs->redo[i];
	return NULL;
}

void
sfs_redo_over(
	const struct sfs *sfs, uint64_t block, uint32_t from, uint32_t to, uint8_t *buf)
{
	for (uint32_t i = 0; i < sfs->redos && !sfs->live; i++) {
		const struct sfs_redo *r = &sfs->redo[i];
		uint32_t low = PR_MAX(r->offset, from);
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

/* Makes a redo sector in the root, which has room: the sector at offset, as it will be. */
static void
put_redo(struct sfs *sfs, uint64_t block, uint32_t offset, const uint8_t *bytes)
{
	struct sfs_redo *r = find_redo(sfs, block, offset);
	if (!r)
		r = &sfs->redo[sfs->redos++];
	r->block = block;
	r->offset = offset;
	memcpy(r->sector, bytes + offset, SFS_SECTOR);
}

/*
 * Prepares to erase [from, to) of a block, whose content is at bytes (its first sector is
 * enough if all records go). Clears the range at bytes where it shares a sector with other
 * data, and makes redo sectors of these, two at most.
 */
static void
prepare_erase(struct sfs *sfs, uint32_t block, uint32_t from, uint32_t to, uint8_t *bytes)
{
	uint32_t head = from & ~(SFS_SECTOR - 1), tail = to & ~(SFS_SECTOR - 1);
	if (head != from) {
		uint32_t end = to < head + SFS_SECTOR ? to : head + SFS_SECTOR;
		memset(bytes + from, 0, end - from);
		put_redo(sfs, block, head, bytes);
	}
	if (tail != to && tail >= from) {
		memset(bytes + tail, 0, to - tail);
		put_redo(sfs, block, tail, bytes);
	}
}

/* ---- erasing ---- */

/*
 * Finds the range of the records [first, last] in the block, whose bytes are at buf: from
 * the end of the good records before to the good records after. Some of the records
 * themselves may be erased already.
 */
static void
place_of(const struct sfs *sfs, uint32_t block, const uint8_t *buf, uint64_t first,
	uint64_t last, uint32_t *from, uint32_t *to)
{
	const struct sfs_entry *e = &sfs->table.entry[block];
	struct sfs_scan scan = sfs_scan_of(sfs, buf, block, e);
	struct sfs_record_header h;
	*to = sfs_sector_up(e->end);
	while (sfs_scan_resync(&scan, first, &h))
		;
	*from = scan.pos;
	scan.sequence = last + 1;
	if (last + 1 < sfs_entry_end(e) && sfs_scan_resync(&scan, UINT64_MAX, &h))
		*to = h.offset;
}

/* Writes zeros to whole sectors, and redo sectors where other bytes share the sector. */
static int
write_zeros(struct sfs *sfs, uint32_t block, uint32_t from, uint32_t to, uint8_t *zeros,
	struct pr_error *err)
{
	uint32_t low = from & ~(SFS_SECTOR - 1), high = sfs_sector_up(to);
	if (low < from && !find_redo(sfs, block, low))
		low += SFS_SECTOR;
	if (high > to && high > low && !find_redo(sfs, block, high - SFS_SECTOR))
		high -= SFS_SECTOR;
	if (low >= high)
		return 0;
	sfs_redo_over(sfs, block, low, high, zeros + low);
	int rc = sfs_write_block(sfs, block, low, zeros + low, high - low, err);
	memset(zeros + low, 0, high - low);
	return rc;
}

/*
 * Erases the part of the hole in one block. bytes: room for a block; zeros: a block of
 * them.
 */
static int
erase_part(struct sfs *sfs, uint32_t block, const struct sfs_map_entry *hole,
	uint8_t *bytes, uint8_t *zeros, struct pr_error *err)
{
	const struct sfs_entry *e = &sfs->table.entry[block];
	uint64_t first = hole->first_sequence, last = first + hole->records - 1;
	uint64_t end = sfs_entry_end(e);
	uint32_t from = SFS_BLOCK_HEADER, to = sfs_sector_up(e->end);
	if (first > e->first_sequence || last + 1 < end) {
		if (sfs_fetch(sfs, block, e, 0, e->end, bytes, err) != SFS_OK)
			return -1;
		place_of(sfs, block, bytes, first, PR_MIN(last, end - 1), &from, &to);
	}
	if (e->slot != SFS_NONE)
		memset(sfs_shm_data(&sfs->shm, e->slot) + from, 0, to - from);
	return write_zeros(sfs, block, from, to, zeros, err);
}

/*
 * Writer: erases all holes on the devices and in memory. A root with the holes and the redo
 * sectors must be durable.
 */
static int
erase_holes(struct sfs *sfs, struct pr_error *err)
{
	const struct sfs_table *t = &sfs->table;
	uint8_t *bytes = sfs_read_buffer(sfs->root.block_size);
	uint8_t *zeros = sfs_buffer(sfs->root.block_size);
	int rc = bytes && zeros ? 0 : pr_error_set(err, "no memory to delete");
	for (uint32_t i = 0; i < sfs->holes; i++) {
		const struct sfs_map_entry *h = &sfs->hole[i];
		uint64_t end = h->first_sequence + h->records;
		if (!(h->flags & SFS_REPAIR_WIPE) || h->stream >= t->streams)
			continue;
		for (uint32_t b = t->stream[h->stream].oldest;
			rc == 0 && b != SFS_NONE && t->entry[b].first_sequence < end;
			b = t->entry[b].next) {
			const struct sfs_entry *e = &t->entry[b];
			if (sfs_entry_end(e) > h->first_sequence && sfs_block_there(sfs, b))
				rc = erase_part(sfs, b, h, bytes, zeros, err);
		}
	}
	free(bytes);
	free(zeros);
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

/* ---- whole blocks at the old end ---- */

/*
 * Deletes a stream's oldest blocks and their content: first stores a root that notes them
 * as gone and to be wiped, then writes zeros over them. After a crash in between, the notes
 * are still in the root, and the next opening writes the zeros. Until then the frontier
 * skips such a block (sfs_block_release).
 */
#define BATCH 64u /* blocks under one root */

/*
 * Notes the stream's oldest blocks that lie whole in the range as deleted; writes nothing.
 */
static void
note_oldest_deleted(struct sfs *sfs, uint32_t stream, const struct sfs_delete_range *what,
	uint32_t most, struct sfs_trimmed *out)
{
	const struct sfs_table *t = &sfs->table;
	uint32_t last = SFS_NONE;
	for (uint32_t b = t->stream[stream].oldest; b != SFS_NONE; b = t->entry[b].next) {
		const struct sfs_entry *e = &t->entry[b];
		uint64_t end = sfs_entry_end(e);
		uint32_t slot = e->slot;
		if (e->max_time > what->until || end - 1 > what->last ||
			(e->min_time < what->since && e->records))
			break;
		out->more = out->blocks == most;
		/*
		 * a block cannot be released while a write to it is in flight, its stream
		 * has unwritten or reserved records, or records in it are still to be
		 * erased
		 */
		if (out->more || !sfs_block_release(sfs, b))
			break;
		if (slot != SFS_NONE)
			memset(sfs_shm_data(&sfs->shm, slot), 0, t->block_size);
		sfs->repair[sfs->repairs++] = (struct sfs_map_entry){.stream = stream,
			.flags = SFS_REPAIR_WIPE,
			.block = b,
			.generation = e->generation};
		sfs->wipes++;
		out->blocks++;
		out->records +=
			e->records - sfs_holes_records(sfs, stream, e->first_sequence, end);
		out->bytes += e->records ? e->end : 0;
		pr_time_widen(&out->min_time, &out->max_time, e->min_time, e->max_time);
		last = b;
	}
	if (last != SFS_NONE)
		sfs_table_evict(&sfs->table, last);
}

/* The next root no longer has the notes; no block is taken before that root. */
int
sfs_wipe(struct sfs *sfs, struct pr_error *err)
{
	uint32_t kept = 0;
	if (sfs->erasing == 0)
		sfs->redos = 0;
	if (sfs->wipes == 0 && sfs->erasing == 0)
		return 0;
	uint8_t *zeros = sfs_buffer(sfs->root.block_size);
	int rc = zeros ? 0 : pr_error_set(err, "no memory to delete");
	for (uint32_t i = 0; rc == 0 && i < sfs->repairs; i++) {
		const struct sfs_map_entry *r = &sfs->repair[i];
		if (!(r->flags & SFS_REPAIR_WIPE) || r->block >= sfs->table.blocks ||
			!sfs_block_there(sfs, r->block))
			continue;
		/* a block that is in use again needs no wiping */
		uint8_t state = sfs->table.entry[r->block].state;
		if (state == SFS_FREE || state == SFS_RESERVED)
			rc = sfs_write_block(
				sfs, r->block, 0, zeros, sfs->root.block_size, err);
	}
	free(zeros);
	if (rc == 0 && sfs->erasing > 0)
		rc = erase_holes(sfs, err);
	if (rc == 0)
		rc = sfs_sync_disks(sfs, err);
	if (rc == 0) {
		for (uint32_t i = 0; i < sfs->repairs; i++)
			if (!(sfs->repair[i].flags & SFS_REPAIR_WIPE))
				sfs->repair[kept++] = sfs->repair[i];
		sfs->repairs = kept;
		sfs->wipes = 0;
		sfs_holes_erased(sfs);
		sfs_holes_publish(sfs);
	}
	return rc;
}

/* Stores a root with what is deleted, then writes zeros. */
static int
store_and_wipe(struct sfs *sfs, struct pr_error *err)
{
	if (sfs->wipes + sfs->erasing == 0)
		return 0;
	return sfs_root_store(sfs, 0, err) < 0 ? -1 : sfs_wipe(sfs, err);
}

/*
 * Before a deletion: flushes, completes an earlier deletion, and limits *most to what the
 * root has room for.
 */
static int
begin_deletion(struct sfs *sfs, int stream, uint32_t *most, struct pr_error *err)
{
	if (sfs_check_stream(sfs, stream, err) != SFS_OK)
		return -1;
	/* an error may have left an earlier deletion unfinished */
	if (sfs_flush(sfs, err) != SFS_OK || store_and_wipe(sfs, err) < 0)
		return -1;
	uint32_t room = SFS_REPAIRS_MAX - sfs->repairs - sfs->holes;
	if (room == 0)
		return pr_error_set(err, "the root is full of notes of repairs: it has no "
					 "room for what is to be deleted");
	if (*most == 0 || *most > BATCH)
		*most = BATCH;
	*most = PR_MIN(*most, room);
	return 0;
}

int
sfs_trim(struct sfs *sfs, int stream, int64_t until, uint32_t most, struct sfs_trimmed *out,
	struct pr_error *err)
{
	const struct sfs_delete_range what = {INT64_MIN, until, UINT64_MAX};
	*out = (struct sfs_trimmed)SFS_TRIMMED_NONE;
	if (begin_deletion(sfs, stream, &most, err) < 0)
		return SFS_ERROR;
	note_oldest_deleted(sfs, stream, &what, most, out);
	return store_and_wipe(sfs, err) < 0 ? SFS_ERROR : SFS_OK;
}

/* ---- records from anywhere ---- */

/*
 * Deletes records from anywhere in a stream. Its oldest blocks are deleted whole, as above.
 * In all other blocks the records are erased and the block stays: first stores a root with
 * the records as holes, then writes zeros. After a crash in between, the next opening
 * erases them.
 */
#define NOTES_KEPT 64u /* kept free for whole blocks: else a full root allows no deletion */

struct deletion {
	struct sfs *sfs;
	uint32_t stream, most;
	struct sfs_delete_range what;
	uint8_t *bytes; /* of a block */
	struct sfs_trimmed *out;
	struct pr_error *err;
	int rc; /* of the last read */
	bool full; /* the root has no room for more */
};

/* Consecutive records of one block as a hole, and their bytes [from, to). */
struct stretch {
	struct sfs_map_entry hole;
	uint32_t from, to;
};

static bool
within(const struct deletion *d, int64_t min_time, int64_t max_time)
{
	return min_time >= d->what.since && max_time <= d->what.until;
}

/* False: no more can be taken by this call. */
static bool
take_stretch(struct deletion *d, uint32_t block, struct stretch *s)
{
	struct sfs *sfs = d->sfs;
	struct sfs_map_entry *h = &s->hole;
	if (h->records == 0)
		return true;
	if (sfs->redos + 2 > SFS_REDO_MAX || !sfs_root_has_room(sfs, 2)) {
		d->out->more = sfs->redos > 0;
		d->full = !d->out->more;
		return false;
	}
	h->stream = d->stream;
	h->flags = SFS_REPAIR_HOLE | SFS_REPAIR_WIPE;
	if (!sfs_hole_add(sfs, h, SFS_REPAIRS_MAX - NOTES_KEPT)) {
		d->full = true;
		return false;
	}
	prepare_erase(sfs, block, s->from, s->to, d->bytes);
	sfs->table.entry[block].flags |= SFS_ENTRY_CUT;
	sfs_holes_publish(sfs);
	sfs_table_notify(&sfs->table, block);
	d->out->records += h->records;
	d->out->bytes += h->block_number;
	pr_time_widen(&d->out->min_time, &d->out->max_time, h->min_time, h->max_time);
	return true;
}

/*
 * Reads the block's bytes before `to`; behind its last record come zeros, as on the device.
 */
static bool
fetch(struct deletion *d, uint32_t block, uint32_t to)
{
	const struct sfs_entry *e = &d->sfs->table.entry[block];
	uint32_t end = PR_MIN(e->end, to);
	memset(d->bytes + end, 0, sfs_sector_up(end) - end);
	d->rc = sfs_fetch(d->sfs, block, e, 0, end, d->bytes, d->err);
	return d->rc == SFS_OK;
}

/* Takes the records of the block that are in the range; looks at each that can be read. */
static bool
take_some(struct deletion *d, uint32_t block)
{
	const struct sfs_entry *e = &d->sfs->table.entry[block];
	struct sfs_scan scan = sfs_scan_of(d->sfs, d->bytes, block, e);
	uint64_t end = sfs_entry_end(e);
	struct stretch s = {0};
	struct sfs_map_entry hole;
	struct sfs_record_header h;
	if (!fetch(d, block, e->end))
		return false;
	while (sfs_scan_resync(&scan, end, &h)) {
		bool take = within(d, h.min_time, h.max_time) &&
			    h.sequence <= d->what.last &&
			    !sfs_hole_at(d->sfs, d->stream, h.sequence, &hole);
		if (!take || h.sequence != s.hole.first_sequence + s.hole.records) {
			if (!take_stretch(d, block, &s))
				return false;
			s = (struct stretch){.from = h.offset,
				.hole = {.first_sequence = h.sequence,
					.min_time = h.min_time,
					.max_time = h.max_time}};
		}
		if (!take)
			continue;
		s.to = scan.pos;
		s.hole.records++;
		s.hole.block_number += s.to - h.offset;
		pr_time_widen(&s.hole.min_time, &s.hole.max_time, h.min_time, h.max_time);
	}
	return take_stretch(d, block, &s);
}

/* False: no more can be taken by this call. */
static bool
take_block(struct deletion *d, uint32_t block)
{
	const struct sfs_entry *e = &d->sfs->table.entry[block];
	struct stretch all = {.from = SFS_BLOCK_HEADER,
		.to = sfs_sector_up(e->end),
		.hole = {.first_sequence = e->first_sequence,
			.records = e->records,
			.block_number = e->end - SFS_BLOCK_HEADER,
			.min_time = e->min_time,
			.max_time = e->max_time}};
	if (!within(d, e->min_time, e->max_time) || (e->flags & SFS_ENTRY_CUT) ||
		sfs_entry_end(e) - 1 > d->what.last)
		return take_some(d, block);
	return fetch(d, block, SFS_SECTOR) && take_stretch(d, block, &all);
}

static void
take_from_middle(struct deletion *d)
{
	struct sfs_table *t = &d->sfs->table;
	uint32_t blocks = 0;
	for (uint32_t b = t->stream[d->stream].oldest; b != SFS_NONE;
		b = t->entry[b].next) {
		const struct sfs_entry *e = &t->entry[b];
		uint64_t before = d->out->records;
		if (e->first_sequence > d->what.last)
			break;
		if (e->records == 0 || e->max_time < d->what.since ||
			e->min_time > d->what.until || sfs_hole_covers(d->sfs, e))
			continue;
		d->out->more = blocks == d->most;
		if (d->out->more || !take_block(d, b))
			break;
		blocks += d->out->records > before;
	}
}

int
sfs_delete(struct sfs *sfs, int stream, const struct sfs_delete_range *range, uint32_t most,
	struct sfs_trimmed *out, struct pr_error *err)
{
	struct deletion d = {
		.sfs = sfs, .stream = stream, .what = *range, .out = out, .err = err};
	*out = (struct sfs_trimmed)SFS_TRIMMED_NONE;
	if (begin_deletion(sfs, stream, &most, err) < 0)
		return SFS_ERROR;
	d.most = most;
	d.bytes = sfs_read_buffer(sfs->root.block_size);
	if (!d.bytes)
		return pr_error_set(err, "no memory to delete");
	note_oldest_deleted(sfs, d.stream, range, most, out);
	if (!out->more)
		take_from_middle(&d);
	free(d.bytes);
	out->more = out->more || (d.full && out->records > 0);
	if (d.rc != SFS_OK)
		err = NULL; /* err already has the reason */
	/* makes the deletion durable, then erases; last also the root's redo sectors */
	if (store_and_wipe(sfs, err) < 0 || (!out->more && sfs_root_clean(sfs, err) < 0))
		return SFS_ERROR;
	if (d.rc != SFS_OK || !d.full || out->more)
		return d.rc;
	if (sfs->holes == 0)
		return pr_error_set(err, "the root has no room for notes of what is to be "
					 "deleted: the volume has too many streams");
	return pr_error_set(err,
		"the volume already has %u deleted ranges and can record no more until "
		"some are overwritten: delete one range that spans several of them, or "
		"everything up to a time",
		sfs->holes);
}
