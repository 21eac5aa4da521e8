/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>

#include "logger/streamfs/internal.h"
#include "proto/base/cursor.h"

struct sfs_check {
	struct sfs *sfs;
	sfs_fault_call call;
	void *arg;
	bool settled; /* no writer is at work */
	uint8_t *buf; /* of a block */
	struct sfs_stream *streams; /* of the newest root */
	uint64_t uuid_faults; /* root copies of another volume */
	int64_t faults;
	uint64_t records;
	unsigned searches; /* searches through all blocks for missing records */
	char why[640], header_why[64];
};

/*
 * True if bytes [from, to) are zero; looks no further than the end of the 512 bytes that
 * contain `from`.
 */
static bool
is_zero(const uint8_t *bytes, uint32_t from, uint32_t to)
{
	/* a disk writes 512 bytes whole; bytes behind may come from a torn write */
	uint32_t whole = (from + 511) & ~511u;
	for (uint32_t i = from; i < to && i < whole; i++)
		if (bytes[i] != 0)
			return false;
	return true;
}

static bool
noted(const struct sfs *sfs, const struct sfs_finding *f)
{
	const struct sfs_map_entry *kept =
		sfs_repair_of(sfs, f->fault.block, SFS_REPAIR_KEPT);
	enum sfs_fault_kind kind = f->fault.kind;
	if (kind == SFS_FAULT_RECORD || kind == SFS_FAULT_MISSING)
		return sfs_repairs_cover(sfs, f->stream, f->fault.first, f->fault.last);
	if (kind == SFS_FAULT_PADDING)
		return sfs_repairs_cover_at(
			sfs, f->fault.block, f->generation, f->fault.offset, f->to);
	return kind == SFS_FAULT_HEADER && kept && kept->generation == f->kept.generation;
}

/* Reports, and says why, unless a repair has noted it. */
__attribute__((format(printf, 3, 4))) static void
report(struct sfs_check *c, struct sfs_finding *f, const char *fmt, ...)
{
	va_list args;
	if (noted(c->sfs, f))
		return;
	va_start(args, fmt);
	vsnprintf(c->why, sizeof(c->why), fmt, args);
	va_end(args);
	f->fault.why = c->why;
	c->faults++;
	if (c->call)
		c->call(c->arg, &f->fault);
}

/* Where a fault lies; the rest is 0 where it is not known. */
struct place {
	const struct sfs_stream *s;
	uint64_t block, generation; /* block: SFS_NO_BLOCK */
};

static struct sfs_finding
fault_at(struct sfs_check *c, enum sfs_fault_kind kind, const struct place *p,
	uint32_t from, uint32_t to)
{
	struct sfs_finding f = {.fault = {.kind = kind, .block = p->block, .offset = from},
		.generation = p->generation,
		.to = to};
	if (p->s) {
		f.fault.stream = p->s->name;
		f.stream = p->s->id;
	}
	if (p->block == SFS_NO_BLOCK)
		return f;
	struct sfs_spot at = sfs_locate(c->sfs, p->block);
	f.fault.position = at.offset + from;
	f.fault.device = at.disk->path[0] ? at.disk->path : NULL;
	return f;
}

/*
 * Reports that the bytes [from, to) have changed, with the records first..last in them; 0,
 * 0: no records.
 */
static void
found(struct sfs_check *c, const struct place *p, enum sfs_fault_kind kind, uint32_t from,
	uint32_t to, uint64_t first, uint64_t last, const char *why)
{
	struct sfs_finding f = fault_at(c, kind, p, from, to);
	f.fault.first = first;
	f.fault.last = last;
	report(c, &f, "%s", why);
}

/* Why a header does not decode, of which c->buf has the sector. */
static const char *
header_text(struct sfs_check *c, uint64_t block)
{
	struct sfs_block_header h;
	uint64_t says = pr_get_le64(c->buf + 40);
	bool zero = true;
	for (uint32_t i = 0; i < SFS_BLOCK_HEADER; i++)
		zero = zero && c->buf[i] == 0;
	if (zero)
		return "the header is all zeros";
	if (sfs_block_decode(&c->sfs->key, c->buf, block, &h))
		return "the header is good, the data behind it is not";
	if (says == block || !sfs_block_decode(&c->sfs->key, c->buf, says, &h))
		return "the header is damaged, or of another volume";
	PR_PRINT(c->header_why, "found block %" PRIu64 " there instead", says);
	return c->header_why;
}

/* ---- what is missing between blocks ---- */

/* Records that a stream should have, and that are in no block. */
struct gap {
	const struct sfs_stream *s;
	uint64_t first, last; /* sequences */
	struct sfs_head at; /* where they lay, as far as known */
};

/*
 * Finds in the block's bytes the first good record of the gap, and the sequence of the
 * last. A wide record header there gives the block's generation.
 */
static bool
scan_orphan(struct sfs_check *c, const struct gap *g, uint32_t block,
	struct sfs_record_header *first, uint64_t *last)
{
	const uint32_t size = c->sfs->root.block_size;
	struct sfs_record_header h;
	uint64_t tried = 0; /* generation */
	for (uint32_t pos = SFS_BLOCK_HEADER; pos + SFS_RECORD_WIDE <= size; pos += 8) {
		if (!sfs_record_identify(
			    &c->sfs->key, block, pos, c->buf + pos, size - pos, &h) ||
			h.stream != g->s->id || h.sequence < g->first ||
			h.sequence > g->last || h.generation == tried)
			continue;
		tried = h.generation;
		const struct sfs_entry life = {.generation = h.generation,
			.first_sequence = h.sequence - h.index,
			.end = size,
			.stream = h.stream};
		struct sfs_scan scan = sfs_scan_of(c->sfs, c->buf, block, &life);
		scan.sequence = g->first;
		if (!sfs_scan_resync(&scan, g->last + 1, first))
			continue;
		while (sfs_scan_resync(&scan, g->last + 1, &h))
			;
		*last = scan.sequence - 1;
		return true;
	}
	return false;
}

static bool
is_orphan(struct sfs_check *c, const struct gap *g, uint32_t block,
	struct sfs_record_header *first, uint64_t *last)
{
	const struct sfs_root *root = &c->sfs->root;
	struct sfs_block_header h;
	struct sfs_entry e;
	if (sfs_order_position(&c->sfs->table.order, block) >= root->high_water ||
		sfs_table_is_map(&c->sfs->table, block) ||
		sfs_view_entry(c->sfs, block, &e) ||
		sfs_read_block(c->sfs, block, 0, root->block_size, c->buf) < 0 ||
		sfs_block_decode(&c->sfs->key, c->buf, block, &h) ||
		!scan_orphan(c, g, block, first, last))
		return false;
	return first->generation > root->reset_generation &&
	       first->generation <= root->generation_limit &&
	       first->generation >= g->s->oldest_generation;
}

#define SEARCHES_MAX 64

/*
 * Finds blocks that have good records of the gap, but whose header and first record are
 * damaged. Used only when something is missing. False: there are none.
 */
static bool
find_orphans(struct sfs_check *c, const struct gap *g)
{
	struct gap rest = *g;
	bool any = false;
	/* by sequence: the order of the blocks on the devices does not help */
	/* limited: with a lost device, a search for each block would cost too much */
	while (rest.first <= g->last && c->searches++ < SEARCHES_MAX) {
		struct sfs_record_header first, best = {.sequence = UINT64_MAX};
		uint64_t last = 0, best_last = 0;
		for (uint32_t b = 0; b < c->sfs->root.blocks; b++) {
			if (!is_orphan(c, &rest, b, &first, &last) ||
				first.sequence >= best.sequence)
				continue;
			best = first;
			best_last = last;
		}
		if (best.generation == 0)
			break;
		const struct place p = {g->s, best.block, best.generation};
		struct sfs_finding f = fault_at(c, SFS_FAULT_HEADER, &p, 0, 0);
		f.kept = (struct sfs_map_entry){.stream = g->s->id,
			.flags = SFS_REPAIR_KEPT,
			.block = best.block,
			.generation = best.generation,
			.first_sequence = best.sequence - best.index,
			.end = SFS_BLOCK_HEADER};
		report(c, &f,
			"the block header and the first record are damaged: no reader "
			"finds the others");
		any = true;
		rest.first = best_last + 1;
	}
	return any;
}

static void
missing(struct sfs_check *c, const struct gap *g)
{
	struct sfs *sfs = c->sfs;
	struct place p = {g->s, g->at.block, g->at.generation};
	const char *why = sfs->lost > 0 ? ", on a device that was left out" : "";
	const char *more = "";
	struct sfs_block_header h;
	if (sfs_repairs_cover(sfs, g->s->id, g->first, g->last) || find_orphans(c, g))
		return;
	if (p.block >= sfs->root.blocks) {
		p.block = SFS_NO_BLOCK;
	} else if (sfs_block_there(sfs, p.block) &&
		   sfs_read_block(sfs, p.block, 0, SFS_SECTOR, c->buf) == 0) {
		bool good = sfs_block_decode(&sfs->key, c->buf, p.block, &h);
		/*
		 * the stream continued behind this block, without the blocks on the lost
		 * device: the records were in one of those, not known which
		 */
		if (good && h.generation == p.generation && sfs->lost > 0) {
			p.block = SFS_NO_BLOCK;
		} else {
			why = ": ";
			more = good ? "another one was written over it"
				    : header_text(c, p.block);
		}
	}
	struct sfs_finding f = fault_at(c, SFS_FAULT_MISSING, &p, 0, sfs->root.block_size);
	PR_COPY(&f.fault, g, first, last);
	report(c, &f, "the records are lost with their block%s%s", why, more);
}

/*
 * Finds the block that contained a gap's records: from the header of the block behind the
 * gap, or from the root if there is none (SFS_NONE). False: not known.
 */
static bool
find_place(struct sfs_check *c, struct gap *g, uint32_t behind)
{
	struct sfs_block_header h = {.prev = c->streams[g->s->id].head};
	struct sfs_entry e;
	if (behind != SFS_NONE && (!sfs_view_entry(c->sfs, behind, &e) ||
					  !sfs_read_header(c->sfs, behind, &h) ||
					  h.generation != e.generation))
		return false;
	if (h.prev.generation != 0)
		g->at = h.prev;
	return h.prev.generation != 0;
}

/*
 * For block e, which lacks the last records that it should have. If these were in a lost
 * block behind it, reports that and returns true. Uses c->buf.
 */
static bool
check_tail(struct sfs_check *c, const struct sfs_stream *s, const struct sfs_entry *e,
	uint64_t first, uint64_t last)
{
	struct gap g = {s, first, last, {.block = SFS_NO_BLOCK}};
	struct sfs_entry n = {.first_sequence = s->last_sequence + 1};
	if (!c->settled || sfs_repairs_cover(c->sfs, s->id, first, last))
		return false;
	/*
	 * with a gap behind it, the block's number of records is known, not derived from
	 * the next
	 */
	if ((e->next != SFS_NONE && !sfs_view_entry(c->sfs, e->next, &n)) ||
		n.first_sequence != last + 1)
		return false;
	if (!find_place(c, &g, e->next))
		return find_orphans(c, &g);
	if (g.at.generation <= e->generation)
		return false;
	missing(c, &g);
	return true;
}

static void
missing_before(struct sfs_check *c, const struct sfs_stream *s, uint32_t block,
	uint64_t first, uint64_t last)
{
	struct gap g = {s, first, last, {.block = SFS_NO_BLOCK}};
	find_place(c, &g, block);
	missing(c, &g);
}

static void
check_stream(struct sfs_check *c, const struct sfs_stream *s)
{
	uint64_t generation = 0, expected = s->first_sequence;
	struct sfs_entry e;
	/* while a writer lives, the first block may have changed */
	if (!c->settled)
		return;
	for (uint32_t b = s->oldest; b != SFS_NONE; b = e.next) {
		if (!sfs_view_entry(c->sfs, b, &e) || e.stream != s->id ||
			e.generation <= generation)
			return;
		if (e.first_sequence > expected)
			missing_before(c, s, b, expected, e.first_sequence - 1);
		generation = e.generation;
		expected = sfs_entry_end(&e);
	}
	/* a stream without blocks has no first_sequence; the root still has it */
	if (s->oldest == SFS_NONE && c->streams[s->id].id == s->id &&
		c->streams[s->id].first_sequence < expected)
		expected = c->streams[s->id].first_sequence;
	if (expected <= s->last_sequence)
		missing_before(c, s, SFS_NONE, expected, s->last_sequence);
}

/* ---- blocks and their records ---- */

/*
 * Reads what it can: an unreadable sector counts as zeros, and the rest of the block is
 * still checked.
 */
static void
read_what_there_is(struct sfs_check *c, uint32_t block, uint32_t to)
{
	uint32_t high = sfs_sector_up(to);
	if (sfs_read_block(c->sfs, block, 0, high, c->buf) == 0)
		return;
	for (uint32_t at = 0; at < high; at += SFS_SECTOR)
		if (sfs_read_block(c->sfs, block, at, at + SFS_SECTOR, c->buf + at) < 0)
			memset(c->buf + at, 0, SFS_SECTOR);
}

/* True if the block has been overwritten. Without a writer the table is still right. */
static bool
block_gone(struct sfs_check *c, uint32_t block, uint64_t generation)
{
	struct sfs *sfs = c->sfs;
	return (sfs->live || sfs->writer || sfs_writer_alive(sfs)) &&
	       sfs_block_gone(sfs, block, generation);
}

static void
check_header(struct sfs_check *c, const struct place *p, const struct sfs_entry *e)
{
	struct sfs_finding f = fault_at(c, SFS_FAULT_HEADER, p, 0, 0);
	struct sfs_block_header h;
	f.kept = sfs_map_entry_make(e, p->block, SFS_REPAIR_KEPT);
	if (!sfs_block_decode(&c->sfs->key, c->buf, p->block, &h))
		report(c, &f, "the block header is damaged: %s", header_text(c, p->block));
	else if (h.kind != SFS_KIND_DATA || h.generation != e->generation ||
		 h.stream != e->stream || h.first_sequence != e->first_sequence)
		report(c, &f,
			"the block is of generation %" PRIu64
			", by the map it should be %" PRIu64,
			h.generation, e->generation);
	else if (c->buf[6] || c->buf[7])
		report(c, &f, "the block header: reserved bytes are not zero");
}

/*
 * Checks the padding from pos, the end of the record before, to this record, and the
 * padding behind its body.
 */
static void
check_padding(struct sfs_check *c, const struct place *p, uint32_t pos,
	const struct sfs_record_header *h)
{
	uint32_t body_end = h->offset + h->size + h->length;
	uint32_t end = sfs_record_end(h);
	if (!is_zero(c->buf, pos, h->offset))
		found(c, p, SFS_FAULT_PADDING, pos, h->offset, 0, 0,
			"the bytes before the record are not zero");
	for (uint32_t i = body_end; i < end; i++) {
		if (c->buf[i] == 0)
			continue;
		found(c, p, SFS_FAULT_PADDING, body_end, end, 0, 0,
			"the bytes behind the record are not zero");
		return;
	}
}

/* Checks the records of the entry; buf has the block. Returns their end; 0: it ends with deleted ones. */
static uint32_t
check_records(struct sfs_check *c, const struct place *p, const struct sfs_entry *e)
{
	struct sfs_scan scan = sfs_scan_of(c->sfs, c->buf, p->block, e);
	uint64_t end = sfs_entry_end(e);
	bool cut = e->flags & SFS_ENTRY_CUT;
	struct sfs_map_entry hole;
	struct sfs_record_header h;
	struct sfs_entry now;
	while (scan.sequence < end) {
		if (cut && sfs_hole_at(c->sfs, p->s->id, scan.sequence, &hole)) {
			scan.sequence = hole.first_sequence + hole.records;
			/* some deleted ones may not be erased yet */
			struct sfs_scan behind = scan;
			if (scan.sequence >= end)
				return 0;
			scan.pos = sfs_scan_resync(&behind, UINT64_MAX, &h) ? h.offset
									    : behind.pos;
			continue;
		}
		uint32_t from = scan.pos;
		uint64_t first = scan.sequence;
		enum sfs_record_state state = sfs_scan_next(&scan, &h);
		if (state == SFS_RECORD_GOOD) {
			check_padding(c, p, from, &h);
			c->records++;
			continue;
		}
		if (block_gone(c, p->block, e->generation))
			return 0;
		/* a live writer may have deleted records since the entry was read */
		if (!cut && sfs_view_entry(c->sfs, p->block, &now) &&
			now.generation == p->generation && (now.flags & SFS_ENTRY_CUT)) {
			cut = true;
			continue;
		}
		if (state == SFS_RECORD_BAD)
			from = h.offset;
		scan.sequence++;
		bool more = sfs_scan_resync(&scan, end, &h);
		if (!more && check_tail(c, p->s, e, first, end - 1))
			return 0;
		scan.pos = more ? h.offset : e->end;
		scan.sequence = more ? h.sequence : end;
		found(c, p, SFS_FAULT_RECORD, from, scan.pos, first, scan.sequence - 1,
			state == SFS_RECORD_BAD ? "the record's body is damaged"
						: "the record's header is damaged");
	}
	return scan.pos;
}

/*
 * Beside a writer: blocks in shared memory need not be on the device, and any block may be
 * overwritten.
 */
static void
check_live(struct sfs_check *c, const struct place *p, const struct sfs_entry *e)
{
	struct sfs_entry again;
	struct pr_error err;
	bool in_flight = e->state == SFS_OPEN;
	if (!in_flight) {
		read_what_there_is(c, p->block, SFS_SECTOR);
		in_flight = !sfs_view_entry(c->sfs, p->block, &again) ||
			    again.slot != SFS_NONE || again.generation != e->generation;
	}
	if (!in_flight && !sfs_block_gone(c->sfs, p->block, e->generation))
		check_header(c, p, e);
	if (e->end <= SFS_BLOCK_HEADER)
		return;
	if (sfs_fetch(c->sfs, p->block, e, SFS_BLOCK_HEADER, e->end, c->buf, &err) ==
		SFS_OK)
		check_records(c, p, e);
	else if (!sfs_block_gone(c->sfs, p->block, e->generation))
		found(c, p, SFS_FAULT_RECORD, SFS_BLOCK_HEADER, e->end, e->first_sequence,
			sfs_entry_end(e) - 1, err.text);
}

static void
check_block(struct sfs_check *c, uint32_t block)
{
	struct sfs_stream s;
	struct sfs_entry e;
	if (!sfs_block_there(c->sfs, block) || !sfs_view_entry(c->sfs, block, &e) ||
		!sfs_view_stream(c->sfs, e.stream, &s))
		return;
	struct place p = {&s, block, e.generation};
	if (!c->settled) {
		check_live(c, &p, &e);
		return;
	}
	read_what_there_is(c, block, e.end);
	if (block_gone(c, block, e.generation))
		return;
	check_header(c, &p, &e);
	uint32_t pos = check_records(c, &p, &e);
	uint32_t sector = sfs_sector_up(pos);
	/* start of a record that was written with the one before, cut off by a crash */
	bool cut_off =
		pos + 8 <= c->sfs->root.block_size && sfs_record_begins(c->buf + pos);
	if (pos > 0 && !cut_off && !is_zero(c->buf, pos, sector))
		found(c, &p, SFS_FAULT_PADDING, pos, sector, 0, 0,
			"the bytes behind the last record are not zero");
}

/* ---- roots, maps, all of it ---- */

const char *
sfs_fault_text(enum sfs_fault_kind kind)
{
	static const char *const text[] = {
		"root", "map", "header", "record", "padding", "missing", "device"};
	return kind < PR_COUNT(text) ? text[kind] : "unknown";
}

static const struct place nowhere = {.block = SFS_NO_BLOCK};

/* Why the root copy is bad; NULL: it is good. */
static const char *
root_fault(struct sfs_check *c, const uint8_t *buf, uint16_t disk, struct pr_error *why)
{
	struct sfs *sfs = c->sfs;
	struct sfs_stream *streams = calloc(SFS_STREAMS_MAX, sizeof(*streams));
	struct sfs_root root;
	if (!streams)
		return "cannot be checked: no memory";
	int rc = sfs_root_decode(buf, &root, streams, why);
	if (rc == 0 && root.generation == sfs->root.generation)
		memcpy(c->streams, streams, SFS_STREAMS_MAX * sizeof(*streams));
	free(streams);
	if (rc < 0)
		return why->text;
	uint32_t length = sfs_root_length(&root);
	if (memcmp(root.uuid, sfs->root.uuid, 16) != 0) {
		c->uuid_faults++;
		return "it is of another volume";
	}
	if (root.device_index != disk || root.device_count != sfs->root.device_count)
		return "it is of another device";
	if (buf[12] != 0 || buf[13] != SFS_ROOT_HEADER >> 8 || buf[14] || buf[15])
		return "the root is damaged (header length)";
	if (!is_zero(buf, length, SFS_ROOT_BYTES))
		return "the bytes behind it are not zero";
	return NULL;
}

/* A missing device is one fault; a device that was given up for good is none. */
static void
check_devices(struct sfs_check *c)
{
	for (uint16_t i = 0; i < c->sfs->disks; i++) {
		const struct sfs_disk *disk = &c->sfs->disk[i];
		struct sfs_finding f = fault_at(c, SFS_FAULT_DEVICE, &nowhere, 0, 0);
		f.fault.device = disk->path[0] ? disk->path : NULL;
		if (disk->missing && !disk->lost)
			report(c, &f, "device %u of the volume is missing: %.300s", i,
				disk->why);
	}
}

static void
check_roots(struct sfs_check *c)
{
	struct sfs *sfs = c->sfs;
	uint8_t *buf = sfs_buffer(SFS_ROOT_BYTES);
	/* not beside a writer: it keeps replacing the older copy */
	for (uint32_t i = 0; buf && i < sfs->disks * 2u && !sfs_writer_alive(sfs); i++) {
		struct sfs_disk *disk = &sfs->disk[i / 2];
		struct sfs_finding f = fault_at(c, SFS_FAULT_ROOT, &nowhere, 0, 0);
		struct pr_error why = {""};
		const char *what = "it cannot be read";
		if (disk->missing || disk->lost)
			continue;
		f.fault.device = disk->path;
		f.fault.position = i % 2 ? SFS_ROOT_BYTES : 0;
		if (sfs_disk_read(disk, buf, SFS_ROOT_BYTES, f.fault.position) == 0)
			what = root_fault(c, buf, i / 2, &why);
		if (what && !sfs_writer_alive(sfs))
			report(c, &f, "root copy %c: %s", i % 2 ? 'B' : 'A', what);
	}
	free(buf);
}

static void
check_map(struct sfs_check *c, uint64_t pos)
{
	const uint32_t size = c->sfs->root.block_size;
	const struct place p = {.block = pos};
	struct sfs_finding f = fault_at(c, SFS_FAULT_MAP, &p, 0, 0);
	struct sfs_block_header h, b;
	if (!sfs_map_read(c->sfs, pos, c->buf, &h)) {
		report(c, &f, "the block map is damaged: %s", header_text(c, pos));
		return;
	}
	uint32_t end = SFS_BLOCK_HEADER + (h.entries + h.late) * SFS_MAP_ENTRY;
	bool reserved = c->buf[6] || c->buf[7];
	if (reserved || !is_zero(c->buf, end, size))
		found(c, &p, SFS_FAULT_MAP, reserved ? 6 : end, 0, 0, 0,
			"the block map: bytes that must be zero are not");
	/* the newest block of the interval: does the map know of it? */
	uint64_t newest = h.generation;
	for (uint64_t at = pos - (c->sfs->root.map_interval - 1); at < pos; at++)
		if (sfs_read_header(c->sfs, at, &b) && b.generation > newest)
			newest = b.generation;
	f.stale = newest > h.generation;
	if (f.stale)
		report(c, &f,
			"the block map is of generation %" PRIu64
			", a block it should list is of generation %" PRIu64,
			h.generation, newest);
}

int64_t
sfs_check_all(struct sfs *sfs, sfs_fault_call call, void *arg, uint64_t *records,
	uint64_t *uuid_faults, struct pr_error *err)
{
	struct sfs_check c = {.sfs = sfs,
		.call = call,
		.arg = arg,
		.settled = !sfs->live && !sfs->writer};
	const uint32_t step = sfs->root.map_interval;
	struct sfs_stream s;
	if (!sfs->live && !sfs->table_valid)
		return pr_error_set(err, "the volume cannot be read at present");
	c.buf = sfs_buffer(sfs->root.block_size);
	c.streams = calloc(SFS_STREAMS_MAX, sizeof(*c.streams));
	if (c.buf && c.streams) {
		check_devices(&c);
		check_roots(&c);
		for (uint64_t map = step - 1; c.settled && map < sfs->root.blocks;
			map += step)
			if (sfs_map_knows_all(sfs, &sfs->root, map) &&
				sfs_block_there(sfs, map))
				check_map(&c, map);
		for (uint32_t b = 0; b < sfs->root.blocks; b++) {
			check_block(&c, b);
			if (sfs->progress)
				sfs->progress(sfs->progress_arg, b + 1);
		}
		for (uint32_t i = 0; i < sfs_view_streams(sfs); i++)
			if (sfs_view_stream(sfs, i, &s))
				check_stream(&c, &s);
	} else {
		c.faults = pr_error_set(err, "no memory for a block");
	}
	PR_FREE(&c, buf, streams);
	if (records)
		*records = c.records;
	if (uuid_faults)
		*uuid_faults = c.uuid_faults;
	return c.faults;
}

void
sfs_on_progress(struct sfs *sfs, void (*progress)(void *arg, uint64_t blocks), void *arg)
{
	sfs->progress = progress;
	sfs->progress_arg = arg;
}

int64_t
sfs_check(struct sfs *sfs, sfs_fault_call call, void *arg, uint64_t *records,
	struct pr_error *err)
{
	return sfs_check_all(sfs, call, arg, records, NULL, err);
}
