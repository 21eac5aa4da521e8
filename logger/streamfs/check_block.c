/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "logger/streamfs/bytes.h"
#include "logger/streamfs/check.h"

const char *
sfs_check_header_text(
	const struct sfs *sfs, const uint8_t *buf, uint64_t block, char *text, size_t size)
{
	struct sfs_block_header h;
	const uint8_t *p = buf + 40;
	uint64_t says = sfs_get64(&p);
	bool zero = true;
	for (uint32_t i = 0; i < SFS_BLOCK_HEADER; i++)
		zero = zero && buf[i] == 0;
	if (zero)
		snprintf(text, size, "there are zeros in the header's place");
	else if (sfs_block_decode(&sfs->key, buf, block, &h))
		snprintf(text, size, "the header is good, what it covers is not");
	else if (says != block && sfs_block_decode(&sfs->key, buf, says, &h))
		snprintf(text, size, "block %llu lies in its place",
			(unsigned long long)says);
	else
		snprintf(text, size, "the header is damaged, or of another volume");
	return text;
}

/* A sector that cannot be read is as good as zeros: the rest of the block still counts. */
static void
read_what_there_is(struct sfs_check *c, uint32_t block, uint32_t to)
{
	uint32_t high = (uint32_t)sfs_sector_up(to);
	if (sfs_read_block(c->sfs, block, 0, high, c->buf) == 0)
		return;
	for (uint32_t at = 0; at < high; at += SFS_SECTOR)
		if (sfs_read_block(c->sfs, block, at, at + SFS_SECTOR, c->buf + at) < 0)
			memset(c->buf + at, 0, SFS_SECTOR);
}

bool
sfs_check_gone(struct sfs_check *c, uint32_t block, uint64_t generation)
{
	struct sfs *sfs = c->sfs;
	return (sfs->live || sfs->writer || sfs_writer_alive(sfs)) &&
	       sfs_block_gone(sfs, block, generation);
}

/* NULL: it is as the table has it. buf: its bytes. */
static const char *
header_fault(const struct sfs *sfs, const uint8_t *buf, uint32_t block,
	const struct sfs_entry *e, char *text, size_t size)
{
	struct sfs_block_header h;
	char why[100];
	if (!sfs_block_decode(&sfs->key, buf, block, &h)) {
		snprintf(text, size, "the block header is damaged: %s",
			sfs_check_header_text(sfs, buf, block, why, sizeof(why)));
		return text;
	}
	if (h.kind != SFS_KIND_DATA || h.generation != e->generation ||
		h.stream != e->stream || h.first_sequence != e->first_sequence) {
		snprintf(text, size,
			"the block is of generation %llu, by the map it should be %llu",
			(unsigned long long)h.generation,
			(unsigned long long)e->generation);
		return text;
	}
	return buf[6] || buf[7] ? "the block header: reserved bytes are not zero" : NULL;
}

static void
check_header(struct sfs_check *c, const struct sfs_stream *s, uint32_t block,
	const struct sfs_entry *e)
{
	char text[200];
	const char *why = header_fault(c->sfs, c->buf, block, e, text, sizeof(text));
	if (!why)
		return;
	struct sfs_finding f = sfs_check_at(c, SFS_FAULT_HEADER, block, 0, why);
	f.fault.stream = s->name;
	f.stream = s->id;
	f.generation = e->generation;
	f.kept = sfs_map_entry_make(e, block, SFS_REPAIR_KEPT);
	sfs_check_found(c, &f);
}

struct place {
	const struct sfs_stream *s;
	uint32_t block;
	uint64_t generation;
};

static void
found(struct sfs_check *c, const struct place *p, enum sfs_fault_kind kind, uint32_t from,
	uint32_t to, const char *why)
{
	struct sfs_finding f = sfs_check_at(c, kind, p->block, from, why);
	f.fault.stream = p->s->name;
	f.stream = p->s->id;
	f.generation = p->generation;
	f.to = to;
	sfs_check_found(c, &f);
}

static void
records_found(struct sfs_check *c, const struct place *p, uint32_t from, uint32_t to,
	uint64_t first, uint64_t last, const char *why)
{
	struct sfs_finding f = sfs_check_at(c, SFS_FAULT_RECORD, p->block, from, why);
	f.fault.stream = p->s->name;
	f.fault.first = first;
	f.fault.last = last;
	f.stream = p->s->id;
	f.generation = p->generation;
	f.to = to;
	sfs_check_found(c, &f);
}

/* What lies between the record before, that ended at pos, and this one; and behind its body. */
static void
check_padding(struct sfs_check *c, const struct place *p, uint32_t pos,
	const struct sfs_record_header *h)
{
	uint32_t body_end = h->offset + h->size + h->length;
	uint32_t end = h->offset + (uint32_t)sfs_record_span(h->size, h->length);
	if (!sfs_check_zero(c->buf, pos, h->offset))
		found(c, p, SFS_FAULT_PADDING, pos, h->offset,
			"the bytes before the record are not zero");
	for (uint32_t i = body_end; i < end; i++) {
		if (c->buf[i] == 0)
			continue;
		found(c, p, SFS_FAULT_PADDING, body_end, end,
			"the bytes behind the record are not zero");
		return;
	}
}

/* Beside a writer, something may have been deleted since the block was looked at. */
static bool
was_cut(struct sfs_check *c, const struct place *p)
{
	struct sfs_entry now;
	return sfs_view_entry(c->sfs, p->block, &now) && now.generation == p->generation &&
	       (now.flags & SFS_ENTRY_CUT);
}

/* Where the record begins that follows deleted ones; 0: none does. Some may still be there, to be erased. */
static uint32_t
behind_hole(const struct sfs_scan *scan, uint32_t pos, const struct sfs_entry *e,
	uint64_t sequence)
{
	struct sfs_record_header h;
	if (sequence >= e->first_sequence + e->records)
		return 0;
	return sfs_scan_resync(scan, pos, e->end, sequence, &h) ? h.offset : pos;
}

/* Goes through the records that the entry speaks of; buf has the block. Returns where they end. */
static uint32_t
check_records(struct sfs_check *c, const struct place *p, const struct sfs_entry *e)
{
	struct sfs_scan scan = sfs_scan_of(c->sfs, c->buf, p->block, e);
	uint64_t sequence = e->first_sequence, end = sequence + e->records;
	uint32_t pos = SFS_BLOCK_HEADER;
	bool cut = e->flags & SFS_ENTRY_CUT;
	struct sfs_map_entry hole;
	struct sfs_record_header h;
	while (sequence < end) {
		if (cut && sfs_hole_at(c->sfs, p->s->id, sequence, &hole)) {
			sequence = hole.first_sequence + hole.records;
			pos = behind_hole(&scan, pos, e, sequence);
			continue;
		}
		enum sfs_record_state state =
			sfs_scan_next(&scan, pos, e->end, sequence, &h);
		if (state == SFS_RECORD_GOOD) {
			check_padding(c, p, pos, &h);
			c->records++;
			sequence++;
			pos = h.offset + (uint32_t)sfs_record_span(h.size, h.length);
			continue;
		}
		if (sfs_check_gone(c, p->block, e->generation))
			return 0;
		if (!cut && (cut = was_cut(c, p)))
			continue;
		uint32_t from = state == SFS_RECORD_BAD ? h.offset : pos;
		bool more = sfs_scan_resync(&scan, pos, e->end, sequence + 1, &h) &&
			    h.sequence < end;
		if (!more && sfs_check_tail(c, p->s, e, sequence, end - 1))
			return 0;
		uint32_t to = more ? h.offset : e->end;
		records_found(c, p, from, to, sequence, more ? h.sequence - 1 : end - 1,
			state == SFS_RECORD_BAD ? "the record's body is damaged"
						: "the record's header is damaged");
		if (!more)
			return to;
		sequence = h.sequence;
		pos = h.offset;
	}
	return pos;
}

/* Beside a writer: what is in shared memory need not be on the device, and blocks come and go. */
static void
check_live(struct sfs_check *c, const struct place *p, const struct sfs_entry *e)
{
	struct sfs_entry again;
	struct pr_error err;
	bool flying = e->state == SFS_OPEN;
	if (!flying) {
		read_what_there_is(c, p->block, SFS_SECTOR);
		flying = !sfs_view_entry(c->sfs, p->block, &again) ||
			 again.slot != SFS_NONE || again.generation != e->generation;
	}
	if (!flying && !sfs_block_gone(c->sfs, p->block, e->generation))
		check_header(c, p->s, p->block, e);
	if (e->end <= SFS_BLOCK_HEADER)
		return;
	if (sfs_fetch(c->sfs, p->block, e, SFS_BLOCK_HEADER, e->end, c->buf, &err) ==
		SFS_OK)
		check_records(c, p, e);
	else if (!sfs_block_gone(c->sfs, p->block, e->generation))
		records_found(c, p, SFS_BLOCK_HEADER, e->end, e->first_sequence,
			e->first_sequence + e->records - 1, err.text);
}

/* What a crash has left of a record that was written together with the one before it. */
static bool
cut_off(const struct sfs_check *c, uint32_t pos)
{
	return pos + 8 <= c->sfs->root.block_size && sfs_record_begins(c->buf + pos);
}

void
sfs_check_block(struct sfs_check *c, uint32_t block)
{
	struct sfs_stream s;
	struct sfs_entry e;
	if (!sfs_check_there(c, block) || !sfs_view_entry(c->sfs, block, &e) ||
		!sfs_view_stream(c->sfs, e.stream, &s))
		return;
	struct place p = {&s, block, e.generation};
	if (c->sfs->live || c->sfs->writer) {
		check_live(c, &p, &e);
		return;
	}
	read_what_there_is(c, block, e.end);
	if (sfs_check_gone(c, block, e.generation))
		return;
	check_header(c, &s, block, &e);
	uint32_t pos = check_records(c, &p, &e);
	uint32_t sector = (uint32_t)sfs_sector_up(pos);
	if (pos > 0 && !cut_off(c, pos) && !sfs_check_zero(c->buf, pos, sector))
		found(c, &p, SFS_FAULT_PADDING, pos, sector,
			"the bytes behind the last record are not zero");
}
