/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "logger/streamfs/internal.h"

/*
 * Deleting records from anywhere in a stream. Whole blocks at its old end go as in trim.c; of all else
 * the records go and the blocks stay: first a root that has them as holes, then zeros (erase.c). A crash
 * in between leaves the notes in the root, and the next opening erases.
 */
#define NOTES_KEPT                                                                         \
	64u /* of the root's, for trims: else nothing could be deleted any more */

struct deletion {
	struct sfs *sfs;
	uint32_t stream, most;
	struct sfs_delete_range what;
	uint8_t *bytes; /* of a block */
	struct sfs_trimmed *out;
	bool full; /* the root has no room for more */
};

/* Records of one block that follow each other, and where they lie. */
struct stretch {
	uint64_t first, records, bytes;
	uint32_t from, to;
	int64_t min_time, max_time;
};

static bool
within(const struct deletion *d, int64_t min_time, int64_t max_time)
{
	return min_time >= d->what.since && max_time <= d->what.until;
}

/* False: no more can be taken by this call. */
static bool
take_stretch(struct deletion *d, uint32_t block, const struct stretch *s)
{
	struct sfs *sfs = d->sfs;
	const struct sfs_map_entry hole = {.stream = d->stream,
		.flags = SFS_REPAIR_HOLE | SFS_REPAIR_WIPE,
		.first_sequence = s->first,
		.records = (uint32_t)s->records,
		.ordinal = s->bytes,
		.min_time = s->min_time,
		.max_time = s->max_time};
	if (s->records == 0)
		return true;
	if (sfs->redos + 2 > SFS_REDO_MAX || !sfs_root_has_room(sfs, 2)) {
		d->out->more = sfs->redos > 0;
		d->full = !d->out->more;
		return false;
	}
	if (!sfs_hole_add(sfs, &hole, SFS_REPAIRS_MAX - NOTES_KEPT)) {
		d->full = true;
		return false;
	}
	sfs_erase_prepare(sfs, block, s->from, s->to, d->bytes);
	sfs->table.entry[block].flags |= SFS_ENTRY_CUT;
	sfs_holes_publish(sfs);
	sfs_table_notify(&sfs->table, block);
	d->out->records += s->records;
	d->out->bytes += s->bytes;
	sfs_trimmed_times(d->out, s->min_time, s->max_time);
	return true;
}

/* What lies behind the block's last record in its sector is as it was written: zeros. */
static int
fetch(struct deletion *d, uint32_t block, uint32_t to, struct pr_error *err)
{
	const struct sfs_entry *e = &d->sfs->table.entry[block];
	uint32_t end = e->end < to ? e->end : to;
	memset(d->bytes + end, 0, sfs_sector_up(end) - end);
	return sfs_fetch(d->sfs, block, e, 0, end, d->bytes, err);
}

static bool
take_whole(struct deletion *d, uint32_t block, struct pr_error *err, int *rc)
{
	const struct sfs_entry *e = &d->sfs->table.entry[block];
	struct stretch s = {.first = e->first_sequence,
		.records = e->records,
		.bytes = e->end - SFS_BLOCK_HEADER,
		.from = SFS_BLOCK_HEADER,
		.to = (uint32_t)sfs_sector_up(e->end),
		.min_time = e->min_time,
		.max_time = e->max_time};
	*rc = fetch(d, block, SFS_SECTOR, err);
	return *rc == SFS_OK && take_stretch(d, block, &s);
}

static void
extend(struct stretch *s, const struct sfs_record_header *h)
{
	uint32_t end = h->offset + (uint32_t)sfs_record_span(h->size, h->length);
	if (s->records == 0)
		*s = (struct stretch){.first = h->sequence,
			.from = h->offset,
			.min_time = h->min_time,
			.max_time = h->max_time};
	s->records++;
	s->to = end;
	s->bytes += end - h->offset;
	s->min_time = h->min_time < s->min_time ? h->min_time : s->min_time;
	s->max_time = h->max_time > s->max_time ? h->max_time : s->max_time;
}

static bool
wanted(const struct deletion *d, const struct sfs_record_header *h)
{
	struct sfs_map_entry hole;
	return within(d, h->min_time, h->max_time) && h->sequence <= d->what.last &&
	       !sfs_hole_at(d->sfs, d->stream, h->sequence, &hole);
}

/* Some of the block's records: each that can be read is looked at. */
static bool
take_some(struct deletion *d, uint32_t block, struct pr_error *err, int *rc)
{
	const struct sfs_entry *e = &d->sfs->table.entry[block];
	struct sfs_scan scan = sfs_scan_of(d->sfs, d->bytes, block, e);
	uint64_t sequence = e->first_sequence, end = sequence + e->records;
	uint32_t pos = SFS_BLOCK_HEADER;
	struct stretch s = {0};
	struct sfs_record_header h;
	*rc = fetch(d, block, e->end, err);
	while (*rc == SFS_OK && sequence < end &&
		sfs_scan_resync(&scan, pos, e->end, sequence, &h) && h.sequence < end) {
		bool take = wanted(d, &h);
		if (s.records > 0 && (!take || h.sequence != sequence)) {
			if (!take_stretch(d, block, &s))
				return false;
			s.records = 0;
		}
		if (take)
			extend(&s, &h);
		sequence = h.sequence + 1;
		pos = h.offset + (uint32_t)sfs_record_span(h.size, h.length);
	}
	return *rc == SFS_OK && take_stretch(d, block, &s);
}

static bool
take_block(struct deletion *d, uint32_t block, struct pr_error *err, int *rc)
{
	const struct sfs_entry *e = &d->sfs->table.entry[block];
	bool whole = within(d, e->min_time, e->max_time) &&
		     e->first_sequence + e->records - 1 <= d->what.last &&
		     !(e->flags & SFS_ENTRY_CUT);
	return whole ? take_whole(d, block, err, rc) : take_some(d, block, err, rc);
}

static int
take_midst(struct deletion *d, struct pr_error *err)
{
	const struct sfs_table *t = &d->sfs->table;
	uint32_t blocks = 0;
	int rc = SFS_OK;
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
		if (d->out->more || !take_block(d, b, err, &rc))
			break;
		blocks += d->out->records > before;
	}
	return rc;
}

static int
no_room(const struct deletion *d, struct pr_error *err)
{
	const struct sfs *sfs = d->sfs;
	if (sfs->holes == 0)
		return pr_error_set(err, "the root has no room for notes of what is to be "
					 "deleted: the volume has too many streams");
	return pr_error_set(err,
		"%u stretches in the midst of the volume's streams are deleted, and the "
		"root "
		"has room for no more before some are recycled: delete one stretch that "
		"spans several of them, or all up to a time",
		sfs->holes);
}

/* What was taken is durable, then gone; at the end from the root's redo sectors, too. */
static int
finish(struct sfs *sfs, bool more, struct pr_error *err)
{
	if (sfs->wipes + sfs->erasing > 0 &&
		(sfs_root_store(sfs, 0, err) < 0 || sfs_wipe(sfs, err) < 0))
		return -1;
	return more ? 0 : sfs_root_clean(sfs, err);
}

int
sfs_delete(struct sfs *sfs, int stream, const struct sfs_delete_range *range, uint32_t most,
	struct sfs_trimmed *out, struct pr_error *err)
{
	struct deletion d = {
		.sfs = sfs, .stream = (uint32_t)stream, .what = *range, .out = out};
	int rc = SFS_OK;
	*out = (struct sfs_trimmed)SFS_TRIMMED_NONE;
	if (sfs_trim_begin(sfs, stream, &most, err) < 0)
		return SFS_ERROR;
	d.most = most;
	d.bytes = sfs_read_buffer(sfs->root.block_size);
	if (!d.bytes)
		return pr_error_set(err, "no memory to delete"), SFS_ERROR;
	sfs_take_oldest(sfs, d.stream, range, most, out);
	if (!out->more)
		rc = take_midst(&d, err);
	free(d.bytes);
	out->more = out->more || (d.full && out->records > 0);
	if (finish(sfs, out->more, rc == SFS_OK ? err : NULL) < 0)
		return SFS_ERROR;
	if (rc == SFS_OK && d.full && !out->more)
		return no_room(&d, err), SFS_ERROR;
	return rc;
}
