/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "logger/streamfs/ahead.h"
#include "logger/streamfs/cursor.h"
#include "proto/base/clock.h"

#define PROBE 50000000 /* ns between looks whether the writer lives */

/* After a deleted record: what follows it in its block is still to come. */
static void
place_at_hole(struct sfs_cursor *c, const struct sfs_handle *after)
{
	struct sfs_map_entry hole;
	struct sfs_entry e;
	if (!sfs_view_entry(c->sfs, after->block, &e) ||
		e.generation != after->generation ||
		!sfs_deleted_handle(c->sfs, after, &e, &hole))
		return;
	c->sequence = hole.first_sequence + hole.records;
	c->offset = SFS_BLOCK_HEADER;
	c->seeking = true;
}

struct sfs_cursor *
sfs_cursor_open(
	struct sfs *sfs, int stream, const struct sfs_handle *after, struct pr_error *err)
{
	struct sfs_stream s;
	if (stream < 0 || !sfs_view_stream(sfs, (uint32_t)stream, &s)) {
		pr_error_set(err, "no stream %d in the volume", stream);
		return NULL;
	}
	struct sfs_cursor *c = calloc(1, sizeof(*c));
	if (!c || !(c->buf = sfs_read_buffer(sfs->root.block_size))) {
		free(c);
		pr_error_set(err, "no memory for a cursor");
		return NULL;
	}
	c->sfs = sfs;
	c->stream = (uint32_t)stream;
	c->sequence = 1;
	if (!after)
		return c;
	struct sfs_record record;
	int rc = sfs_look(sfs, after, &record, err);
	if (rc == SFS_FORGED || after->stream != c->stream) {
		pr_error_set(err, "the handle to go on from is not of stream %s", s.name);
		sfs_cursor_close(&c);
		return NULL;
	}
	c->block = (uint32_t)after->block;
	c->generation = after->generation;
	c->offset = after->offset + (uint32_t)sfs_record_span(after->header, after->length);
	c->sequence = rc == SFS_OK ? record.sequence + 1 : 0; /* 0: not known */
	c->placed = true;
	if (rc == SFS_DELETED)
		place_at_hole(c, after);
	return c;
}

void
sfs_cursor_close(struct sfs_cursor **cursor)
{
	if (!*cursor)
		return;
	sfs_ahead_destroy(&(*cursor)->ahead);
	free((*cursor)->buf);
	free(*cursor);
	*cursor = NULL;
}

void
sfs_cursor_place(struct sfs_cursor *c, uint32_t block, const struct sfs_entry *e)
{
	c->block = block;
	c->generation = e->generation;
	c->offset = SFS_BLOCK_HEADER;
	c->placed = true;
}

/* The stream's first block that is younger than the cursor's. */
static bool
younger_block(struct sfs_cursor *c, const struct sfs_stream *s, uint32_t *block,
	struct sfs_entry *out)
{
	struct sfs_entry e;
	bool found = false;
	uint64_t last = UINT64_MAX;
	if (s->oldest != SFS_NONE && sfs_view_entry(c->sfs, s->oldest, out) &&
		out->stream == c->stream && out->generation > c->generation) {
		*block = s->oldest;
		return true;
	}
	for (uint32_t b = s->newest; b != SFS_NONE; b = e.prev) {
		if (!sfs_view_entry(c->sfs, b, &e) || e.stream != c->stream ||
			e.generation <= c->generation || e.generation >= last)
			break;
		*block = b;
		*out = e;
		last = e.generation;
		found = true;
	}
	return found;
}

/*
 * The cursor's block is no more. 1: placed anew; 0: nothing there yet; SFS_EXPIRED when records that
 * it has not given are gone. A block that a crash has taken leaves nothing behind: the cursor goes
 * on with what has been appended since.
 */
static int
replace(struct sfs_cursor *c, const struct sfs_stream *s, struct pr_error *err)
{
	uint32_t block;
	struct sfs_entry e;
	if (!younger_block(c, s, &block, &e))
		return 0;
	bool lost = c->sequence == 0 || e.first_sequence > c->sequence;
	uint64_t from = c->sequence;
	sfs_cursor_place(c, block, &e);
	c->sequence = e.first_sequence;
	c->seeking = false;
	if (!lost)
		return 1;
	pr_error_set(err,
		"stream %s: records %llu to %llu were recycled before they were read",
		s->name, (unsigned long long)from,
		(unsigned long long)(e.first_sequence - 1));
	return SFS_EXPIRED;
}

/* Those records are not to be had: what a repair has dropped is as good as recycled. */
static int
records_lost(struct sfs_cursor *c, uint64_t from, uint64_t to)
{
	return from > 0 && sfs_repairs_cover(c->sfs, c->stream, from, to) ? SFS_EXPIRED
									  : SFS_CORRUPT;
}

/* 2: placed, or look again; 0: the stream holds nothing; SFS_CORRUPT: its first records are lost. */
static int
place_first(struct sfs_cursor *c, const struct sfs_stream *s, struct pr_error *err)
{
	struct sfs_stream now;
	struct sfs_entry e;
	if (s->oldest == SFS_NONE || !sfs_view_entry(c->sfs, s->oldest, &e) ||
		e.stream != c->stream)
		return 0;
	if (!sfs_view_stream(c->sfs, c->stream, &now) || now.oldest != s->oldest ||
		now.first_sequence != s->first_sequence)
		return 2; /* recycled between the two looks */
	sfs_cursor_place(c, s->oldest, &e);
	c->sequence = e.first_sequence;
	if (e.first_sequence <= s->first_sequence)
		return 2;
	pr_error_set(err, "records %llu to %llu of the stream are lost with their block",
		(unsigned long long)s->first_sequence,
		(unsigned long long)(e.first_sequence - 1));
	return records_lost(c, s->first_sequence, e.first_sequence - 1);
}

static enum sfs_record_state
look(struct sfs_cursor *c, const struct sfs_entry *e, struct sfs_record_header *h)
{
	struct sfs_scan scan = sfs_scan_of(c->sfs, c->buf, c->block, e);
	if (c->have_generation != c->generation || c->offset < c->have_from ||
		c->offset >= c->have)
		return SFS_RECORD_NONE;
	return sfs_scan_next(&scan, c->offset, c->have, c->sequence, h);
}

static int
fill(struct sfs_cursor *c, const struct sfs_entry *e, struct pr_error *err)
{
	c->have_generation = 0;
	if (c->offset >= e->end)
		return SFS_OK;
	if (!c->ahead || !sfs_ahead_take(c->ahead, c->block, e, &c->buf)) {
		int rc = sfs_fetch(c->sfs, c->block, e, c->offset, e->end, c->buf, err);
		if (rc != SFS_OK)
			return rc;
	}
	if (c->passed_block && !c->ahead)
		c->ahead = sfs_ahead_create(c->sfs);
	if (c->ahead)
		sfs_ahead_start(c->ahead, e);
	c->have_generation = e->generation;
	c->have_from = c->offset;
	c->have = e->end;
	return SFS_OK;
}

/* A record should be here and is not: passes it by. */
static int
skip_damage(struct sfs_cursor *c, const struct sfs_entry *e, struct pr_error *err)
{
	struct sfs_scan scan = sfs_scan_of(c->sfs, c->buf, c->block, e);
	struct sfs_map_entry hole;
	struct sfs_record_header h;
	uint64_t from = c->sequence, end = e->first_sequence + e->records;
	uint32_t at = c->offset;
	bool more = c->have_generation == c->generation &&
		    sfs_scan_resync(&scan, c->offset, c->have, c->sequence + 1, &h) &&
		    h.sequence < end;
	c->sequence = more ? h.sequence : end;
	c->offset = more ? h.offset : e->end;
	c->seeking = false;
	/* what was deleted behind it is told by itself */
	if ((e->flags & SFS_ENTRY_CUT) && sfs_hole_next(c->sfs, c->stream, from, &hole) &&
		hole.first_sequence > from && hole.first_sequence < c->sequence)
		c->sequence = hole.first_sequence;
	pr_error_set(err,
		"block %u is damaged at byte %u: records %llu to %llu of the stream are "
		"lost",
		c->block, at, (unsigned long long)from,
		(unsigned long long)(c->sequence - 1));
	return records_lost(c, from, c->sequence - 1);
}

static int
give(struct sfs_cursor *c, const struct sfs_record_header *h, struct sfs_record *out,
	struct pr_error *err)
{
	c->offset = h->offset + (uint32_t)sfs_record_span(h->size, h->length);
	c->sequence = h->sequence + 1;
	if (!sfs_permitted(c->sfs, h->permission))
		return pr_error_set(err, "the record's permission is %#x", h->permission),
		       SFS_DENIED;
	sfs_record_out(c->sfs, h, c->buf + h->offset + h->size, out);
	return 1;
}

/* The next record is deleted: it is passed by, with all that were along with it. 0: it is not. */
static int
pass_hole(struct sfs_cursor *c, const struct sfs_entry *e, struct pr_error *err)
{
	struct sfs_map_entry hole;
	uint64_t from = c->sequence;
	if (!(e->flags & SFS_ENTRY_CUT) || !sfs_hole_at(c->sfs, c->stream, from, &hole))
		return 0;
	c->sequence = hole.first_sequence + hole.records;
	c->seeking = true;
	pr_error_set(err, "records %llu to %llu of the stream were deleted",
		(unsigned long long)from, (unsigned long long)(c->sequence - 1));
	return SFS_DELETED;
}

/* Behind a hole, the place of the next record is known only by looking. */
static void
seek(struct sfs_cursor *c, const struct sfs_entry *e)
{
	struct sfs_scan scan = sfs_scan_of(c->sfs, c->buf, c->block, e);
	struct sfs_record_header h;
	if (c->have_generation == c->generation && c->offset >= c->have_from &&
		sfs_scan_resync(&scan, c->offset, c->have, c->sequence, &h)) {
		c->offset = h.offset;
		c->seeking = false;
	}
}

/* The next record of the cursor's block, which has one. */
static int
next_here(struct sfs_cursor *c, struct sfs_entry *e, struct sfs_record *out,
	struct pr_error *err)
{
	struct sfs_record_header h;
	if (!c->seeking && look(c, e, &h) == SFS_RECORD_GOOD)
		return give(c, &h, out, err);
	for (int tries = 0; tries < 2; tries++) {
		int rc = fill(c, e, err);
		if (rc != SFS_OK)
			return rc;
		if (c->seeking)
			seek(c, e);
		if (look(c, e, &h) == SFS_RECORD_GOOD)
			return give(c, &h, out, err);
		if (!sfs_view_entry(c->sfs, c->block, e) ||
			e->generation != c->generation ||
			sfs_block_gone(c->sfs, c->block, c->generation))
			return 2; /* recycled under our feet: look again */
	}
	return skip_damage(c, e, err);
}

/* Goes to the stream's next block. 2: went; 0: there is none; SFS_CORRUPT: one in between is lost. */
static int
next_block(struct sfs_cursor *c, const struct sfs_entry *e, struct pr_error *err)
{
	struct sfs_entry n = *e;
	uint32_t block;
	uint64_t from = c->sequence, generation, passed = 0;
	if (e->next == SFS_NONE)
		return 0;
	do { /* past those of which all is deleted, too */
		block = n.next;
		generation = n.generation;
		if (!sfs_view_entry(c->sfs, block, &n) || n.stream != c->stream ||
			n.generation <= generation)
			return 2;
	} while (c->seeking && n.next != SFS_NONE && n.first_sequence + n.records <= from &&
		 passed++ < c->sfs->root.blocks);
	sfs_cursor_place(c, block, &n);
	c->passed_block = true;
	c->seeking = c->seeking && n.first_sequence < from;
	if (!c->seeking)
		c->sequence = n.first_sequence;
	if (from == 0 || n.first_sequence <= from)
		return 2;
	pr_error_set(err, "records %llu to %llu of the stream are lost with their block",
		(unsigned long long)from, (unsigned long long)(n.first_sequence - 1));
	return records_lost(c, from, n.first_sequence - 1);
}

/* One step; 2: go on stepping. */
static int
step(struct sfs_cursor *c, struct sfs_record *out, struct pr_error *err)
{
	struct sfs *sfs = c->sfs;
	struct sfs_stream s;
	struct sfs_entry e;
	if (!sfs_view_stream(sfs, c->stream, &s))
		return 0;
	if (!c->placed)
		return place_first(c, &s, err);
	if (!sfs_view_entry(sfs, c->block, &e) || e.generation != c->generation ||
		e.stream != c->stream || c->sequence == 0) {
		int rc = replace(c, &s, err);
		return rc == 1 ? 2 : rc;
	}
	if (c->sequence < e.first_sequence + e.records) {
		int rc = pass_hole(c, &e, err);
		return rc ? rc : next_here(c, &e, out, err);
	}
	return next_block(c, &e, err);
}

int
sfs_cursor_next(struct sfs_cursor *c, struct sfs_record *out, struct pr_error *err)
{
	struct sfs *sfs = c->sfs;
	if (sfs->w)
		sfs_lose_blocks(sfs);
	for (int round = 0; round < 2; round++) {
		int rc = 2;
		/* a stream that is recycled faster than it is looked at must not hold us for ever */
		for (int i = 0; i < 1000 && rc == 2; i++)
			rc = sfs->live || sfs->table_valid ? step(c, out, err) : 0;
		if (rc != 0 && rc != 2)
			return rc;
		if (sfs->writer || pr_now_mono() - sfs->last_probe < PROBE)
			return 0;
		if (sfs_refresh(sfs, err) != SFS_OK)
			return SFS_ERROR;
	}
	return 0;
}
