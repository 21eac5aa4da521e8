/* SPDX-License-Identifier: Apache-2.0 */
#include <time.h>

#include "logger/streamfs/internal.h"

/*
 * A walk along a stream: block by block, with one read (or one copy from shared memory) for
 * each block, not for each record. Its position is (block, generation, offset) and the
 * sequence that comes next.
 */
struct sfs_cursor {
	struct sfs *sfs;
	uint32_t stream;
	bool placed;
	bool seeking; /* search for `sequence` from offset on: records before are deleted */
	uint32_t block, offset;
	uint64_t generation, sequence;
	uint8_t *buf; /* of a block; bytes [have_from, have) are valid */
	uint32_t have_from, have;
	uint64_t have_generation;
	bool passed_block; /* has passed a whole block: worth reading ahead */
	uint32_t ahead; /* blocks that may be read ahead; 0: not so far, or not to be had */
	struct ahead_block {
		struct sfs_request r; /* first member: the queue returns it */
		uint32_t block;
		uint64_t generation; /* 0: no valid content */
		bool busy;
		uint8_t *buf; /* of a block, made when first needed */
	} at[SFS_AHEAD_BLOCKS];
};

/* ---- read-ahead ---- */

/*
 * Read-ahead (Hyperion has none, section 7.3): while the caller is busy with the records of
 * a block, the blocks behind it are read, at most SFS_AHEAD_BYTES. The cursor verifies
 * these bytes like those that it reads itself. Read-ahead starts when a cursor has passed a
 * whole block, and pauses while the volume's writer is behind.
 *
 * The writer is behind while more than half of its memory is on the way to the devices.
 * Reads from these devices then wait; but not without limit, because this may last for
 * hours. At worst a read starts about every 0.3 ms.
 */
enum { BEHIND = 500, WAITS = 2, WAIT_NS = 100000 };

static bool
writer_behind(const struct sfs *sfs)
{
	return sfs->live && atomic_load_explicit(&sfs->shm.header->backlog,
				    memory_order_relaxed) > BEHIND;
}

void
sfs_give_way(const struct sfs *sfs)
{
	const struct timespec wait = {.tv_nsec = WAIT_NS};
	for (int i = 0; i < WAITS && writer_behind(sfs); i++)
		nanosleep(&wait, NULL);
}

/* All cursors of a volume share its queue. */
static void
reap(struct sfs *sfs, bool wait)
{
	struct sfs_request *list = sfs_queue_reap(&sfs->reads, wait);
	while (list) {
		struct ahead_block *b = (struct ahead_block *)list;
		list = list->next;
		b->busy = false;
		if (b->r.error)
			b->generation = 0;
	}
}

void
sfs_reads_settle(struct sfs *sfs)
{
	while (sfs->reads.ops && sfs->reads.in_flight > 0)
		reap(sfs, true);
}

static struct ahead_block *
find(struct sfs_cursor *c, uint32_t block, uint64_t generation)
{
	for (uint32_t i = 0; i < c->ahead; i++)
		if (c->at[i].generation == generation && c->at[i].block == block)
			return &c->at[i];
	return NULL;
}

/* A buffer that is empty, or whose block the cursor has passed. */
static struct ahead_block *
unused(struct sfs_cursor *c, uint64_t passed)
{
	for (uint32_t i = 0; i < c->ahead; i++)
		if (!c->at[i].busy && c->at[i].generation <= passed)
			return &c->at[i];
	return NULL;
}

/* e: entry of the block that the cursor is in. Starts reading the blocks behind it. */
static void
ahead_start(struct sfs_cursor *c, const struct sfs_entry *e)
{
	struct sfs *sfs = c->sfs;
	struct sfs_entry at = *e, n;
	reap(sfs, false);
	for (uint32_t i = 0; i < c->ahead && !writer_behind(sfs); i++) {
		uint32_t block = at.next;
		if (block == SFS_NONE || !sfs_view_entry(sfs, block, &n) ||
			n.stream != e->stream || n.generation <= at.generation)
			break;
		at = n;
		/* blocks in shared memory are copied from there, and the open one grows */
		if (n.state != SFS_SEALED || n.slot != SFS_NONE ||
			(n.flags & SFS_ENTRY_CUT) || find(c, block, n.generation))
			continue;
		struct ahead_block *b = unused(c, e->generation);
		if (b && !b->buf)
			b->buf = sfs_read_buffer(sfs->root.block_size);
		if (!b || !b->buf)
			break;
		struct sfs_spot spot = sfs_locate(sfs, block);
		b->generation = 0;
		if (spot.disk->missing)
			break;
		b->r = (struct sfs_request){.disk = spot.disk,
			.into = b->buf,
			.len = sfs_sector_up(n.end),
			.offset = spot.offset};
		b->block = block;
		b->generation = n.generation;
		b->busy = true;
		sfs_queue_submit(&sfs->reads, &b->r);
	}
}

/*
 * Exchanges the cursor's buffer for its block's bytes, when they were read ahead; waits for a read
 * under way.
 */
static bool
ahead_take(struct sfs_cursor *c, const struct sfs_entry *e)
{
	struct ahead_block *b = find(c, c->block, e->generation);
	if (!b)
		return false;
	while (b->busy)
		reap(c->sfs, true);
	if (b->generation == 0 || b->r.len < e->end)
		return false;
	uint8_t *mine = b->buf;
	b->buf = c->buf;
	c->buf = mine;
	b->generation = 0;
	return true;
}

/* ---- walking a stream ---- */

#define PROBE 50000000 /* ns between checks whether a writer lives */

struct sfs_cursor *
sfs_cursor_open(
	struct sfs *sfs, int stream, const struct sfs_handle *after, struct pr_error *err)
{
	struct sfs_map_entry hole;
	struct sfs_stream s;
	struct sfs_entry e;
	if (!sfs_view_stream(sfs, stream, &s))
		return pr_error_null(err, "no stream %d in the volume", stream);
	struct sfs_cursor *c = calloc(1, sizeof(*c));
	if (!c || !(c->buf = sfs_read_buffer(sfs->root.block_size))) {
		free(c);
		return pr_error_null(err, "no memory for a cursor");
	}
	c->sfs = sfs;
	c->stream = stream;
	c->sequence = 1;
	if (!after)
		return c;
	struct sfs_record record;
	int rc = sfs_read_header_of(sfs, after, &record, err);
	if (rc == SFS_FORGED || after->stream != c->stream) {
		pr_error_set(
			err, "the handle to continue after is not of stream %s", s.name);
		sfs_cursor_close(&c);
		return NULL;
	}
	PR_COPY(c, after, block, generation);
	c->offset = after->offset + sfs_handle_size(after);
	c->sequence = rc == SFS_OK ? record.sequence + 1 : 0; /* 0: not known */
	c->placed = true;
	/* after a deleted record: what follows it in its block is still to come */
	if (rc == SFS_DELETED && sfs_view_entry(sfs, after->block, &e) &&
		e.generation == after->generation &&
		sfs_deleted_handle(sfs, after, &e, &hole)) {
		c->sequence = hole.first_sequence + hole.records;
		c->offset = SFS_BLOCK_HEADER;
		c->seeking = true;
	}
	return c;
}

/* Waits for what is read ahead. */
void
sfs_cursor_close(struct sfs_cursor **cursor)
{
	struct sfs_cursor *c = PR_TAKE(cursor);
	for (uint32_t i = 0; c && i < c->ahead; i++) {
		while (c->at[i].busy)
			reap(c->sfs, true);
		free(c->at[i].buf);
	}
	if (c)
		free(c->buf);
	free(c);
}

/* Goes to the first record of a block. */
static void
place_cursor(struct sfs_cursor *c, uint32_t block, const struct sfs_entry *e)
{
	c->block = block;
	c->generation = e->generation;
	c->offset = SFS_BLOCK_HEADER;
	c->placed = true;
}

/*
 * The cursor's block is no more: on with the stream's first that is younger. 2: placed anew; 0:
 * nothing there yet; SFS_EXPIRED when records that it has not given are gone. A block that a crash
 * has taken leaves nothing behind: the cursor goes on with what has been appended since.
 */
static int
replace(struct sfs_cursor *c, const struct sfs_stream *s, struct pr_error *err)
{
	struct sfs_entry at, e;
	struct sfs_stream now;
	uint32_t block = SFS_NONE;
	uint64_t last = UINT64_MAX, from = c->sequence;
	if (s->oldest != SFS_NONE && sfs_view_entry(c->sfs, s->oldest, &at) &&
		at.stream == c->stream && at.generation > c->generation)
		block = s->oldest;
	for (uint32_t b = block == SFS_NONE ? s->newest : SFS_NONE; b != SFS_NONE;
		b = e.prev) {
		if (!sfs_view_entry(c->sfs, b, &e) || e.stream != c->stream ||
			e.generation <= c->generation || e.generation >= last)
			break;
		block = b;
		at = e;
		last = e.generation;
	}
	if (block == SFS_NONE)
		return 0;
	/* or it is the same block in a later lap, and there are others before it */
	if (block == s->oldest &&
		(!sfs_view_stream(c->sfs, c->stream, &now) || now.oldest != block))
		return 2;
	place_cursor(c, block, &at);
	c->sequence = at.first_sequence;
	c->seeking = false;
	if (from > 0 && at.first_sequence <= from)
		return 2;
	return pr_error_as(SFS_EXPIRED, err,
		"stream %s: records %" PRIu64 " to %" PRIu64
		" were overwritten before they were read",
		s->name, from, at.first_sequence - 1);
}

/* Result for lost records: SFS_EXPIRED if a repair has dropped them, else SFS_CORRUPT. */
static int
records_lost(struct sfs_cursor *c, uint64_t from, uint64_t to)
{
	return from > 0 && sfs_repairs_cover(c->sfs, c->stream, from, to) ? SFS_EXPIRED
									  : SFS_CORRUPT;
}

static int
block_lost(struct sfs_cursor *c, uint64_t from, uint64_t to, struct pr_error *err)
{
	pr_error_set(err,
		"records %" PRIu64 " to %" PRIu64
		" of the stream are lost with their block",
		from, to);
	return records_lost(c, from, to);
}

/*
 * 2: placed, or look again; 0: the stream holds nothing; SFS_CORRUPT: its first records are lost.
 */
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
		return 2; /* overwritten between the two calls */
	place_cursor(c, s->oldest, &e);
	c->sequence = e.first_sequence;
	if (e.first_sequence <= s->first_sequence)
		return 2;
	return block_lost(c, s->first_sequence, e.first_sequence - 1, err);
}

/* Iterates over the bytes in the cursor's buffer, from its position on. */
static struct sfs_scan
scan_from_here(const struct sfs_cursor *c, const struct sfs_entry *e)
{
	struct sfs_scan scan = sfs_scan_of(c->sfs, c->buf, c->block, e);
	bool have = c->have_generation == c->generation && c->offset >= c->have_from;
	scan.pos = c->offset;
	scan.end = have ? c->have : 0;
	scan.sequence = c->sequence;
	return scan;
}

static enum sfs_record_state
look(const struct sfs_cursor *c, const struct sfs_entry *e, struct sfs_record_header *h)
{
	struct sfs_scan scan = scan_from_here(c, e);
	return sfs_scan_next(&scan, h);
}

static int
fill(struct sfs_cursor *c, const struct sfs_entry *e, struct pr_error *err)
{
	struct sfs *sfs = c->sfs;
	c->have_generation = 0;
	if (c->offset >= e->end)
		return SFS_OK;
	if (!ahead_take(c, e)) {
		int rc = sfs_fetch(sfs, c->block, e, c->offset, e->end, c->buf, err);
		if (rc != SFS_OK)
			return rc;
	}
	/* without a way to read ahead, the cursor goes on by itself */
	if (c->passed_block && c->ahead == 0 &&
		(sfs->reads.ops ||
			sfs_open_queue(sfs, &sfs->reads, SFS_QUEUE_ANY, NULL) == 0)) {
		uint32_t fit = SFS_AHEAD_BYTES / sfs->root.block_size;
		c->ahead = PR_MAX(PR_MIN(fit, SFS_AHEAD_BLOCKS), 1);
	}
	if (c->ahead > 0)
		ahead_start(c, e);
	c->have_generation = e->generation;
	c->have_from = c->offset;
	c->have = e->end;
	return SFS_OK;
}

/* There should be a record here, and there is none: skips to the next good one. */
static int
skip_damage(struct sfs_cursor *c, const struct sfs_entry *e, struct pr_error *err)
{
	struct sfs_scan scan = scan_from_here(c, e);
	struct sfs_map_entry hole;
	struct sfs_record_header h;
	uint64_t from = scan.sequence++, end = sfs_entry_end(e);
	uint32_t at = c->offset;
	bool more = sfs_scan_resync(&scan, end, &h);
	c->sequence = more ? h.sequence : end;
	c->offset = more ? h.offset : e->end;
	c->seeking = false;
	/* deleted records behind it are reported separately */
	if ((e->flags & SFS_ENTRY_CUT) && sfs_hole_next(c->sfs, c->stream, from, &hole) &&
		hole.first_sequence > from && hole.first_sequence < c->sequence)
		c->sequence = hole.first_sequence;
	pr_error_set(err,
		"block %u is damaged at byte %u: records %" PRIu64 " to %" PRIu64
		" of the stream are lost",
		c->block, at, from, c->sequence - 1);
	return records_lost(c, from, c->sequence - 1);
}

static int
give(struct sfs_cursor *c, const struct sfs_record_header *h, struct sfs_record *out,
	struct pr_error *err)
{
	c->offset = sfs_record_end(h);
	c->sequence = h->sequence + 1;
	if (!sfs_permitted(c->sfs, h->permission))
		return pr_error_as(
			SFS_DENIED, err, "the record's permission is %#x", h->permission);
	sfs_record_out(&c->sfs->key, h, c->buf + h->offset + h->size, out);
	return 1;
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
		/* behind a hole, the next record must be searched for */
		struct sfs_scan scan = scan_from_here(c, e);
		if (c->seeking && sfs_scan_resync(&scan, UINT64_MAX, &h)) {
			c->offset = h.offset;
			c->seeking = false;
		}
		if (look(c, e, &h) == SFS_RECORD_GOOD)
			return give(c, &h, out, err);
		if (!sfs_view_entry(c->sfs, c->block, e) ||
			e->generation != c->generation ||
			sfs_block_gone(c->sfs, c->block, c->generation))
			return 2; /* overwritten in the meantime: look again */
	}
	return skip_damage(c, e, err);
}

/*
 * Goes to the stream's next block. 2: done; 0: there is none; SFS_CORRUPT: a block in
 * between is lost.
 */
static int
next_block(struct sfs_cursor *c, const struct sfs_entry *e, struct pr_error *err)
{
	struct sfs_entry n = *e, now;
	uint32_t block;
	uint64_t from = c->sequence, generation, passed = 0;
	/* at the stream's end the buffers go: a cursor that follows needs them after a backlog only */
	for (uint32_t i = 0; i < c->ahead && e->next == SFS_NONE; i++)
		if (!c->at[i].busy) {
			free(c->at[i].buf);
			c->at[i] = (struct ahead_block){0};
		}
	if (e->next == SFS_NONE)
		return 0;
	do { /* also skips blocks of which all records are deleted */
		block = n.next;
		generation = n.generation;
		if (!sfs_view_entry(c->sfs, block, &n) || n.stream != c->stream ||
			n.generation <= generation)
			return 2;
	} while (c->seeking && n.next != SFS_NONE && sfs_entry_end(&n) <= from &&
		 passed++ < c->sfs->root.blocks);
	/* blocks go in their order: while this one is there, those behind it are not others of a later lap */
	if (!sfs_view_entry(c->sfs, c->block, &now) || now.generation != e->generation)
		return 2;
	place_cursor(c, block, &n);
	c->passed_block = true;
	c->seeking = c->seeking && n.first_sequence < from;
	if (!c->seeking)
		c->sequence = n.first_sequence;
	if (from == 0 || n.first_sequence <= from)
		return 2;
	return block_lost(c, from, n.first_sequence - 1, err);
}

/* One step; 2: go on stepping. */
static int
step(struct sfs_cursor *c, struct sfs_record *out, struct pr_error *err)
{
	struct sfs *sfs = c->sfs;
	struct sfs_map_entry hole;
	struct sfs_stream s;
	struct sfs_entry e;
	if (!sfs_view_stream(sfs, c->stream, &s))
		return 0;
	if (!c->placed)
		return place_first(c, &s, err);
	if (!sfs_view_entry(sfs, c->block, &e) || e.generation != c->generation ||
		e.stream != c->stream || c->sequence == 0)
		return replace(c, &s, err);
	if (c->sequence >= sfs_entry_end(&e))
		return next_block(c, &e, err);
	if (!(e.flags & SFS_ENTRY_CUT) || !sfs_hole_at(sfs, c->stream, c->sequence, &hole))
		return next_here(c, &e, out, err);
	/* the next record is deleted: skips the whole hole */
	uint64_t from = c->sequence;
	c->sequence = hole.first_sequence + hole.records;
	c->seeking = true;
	return pr_error_as(SFS_DELETED, err,
		"records %" PRIu64 " to %" PRIu64 " of the stream were deleted", from,
		c->sequence - 1);
}

int
sfs_cursor_next(struct sfs_cursor *c, struct sfs_record *out, struct pr_error *err)
{
	struct sfs *sfs = c->sfs;
	if (sfs->w)
		sfs_drop_lost_blocks(sfs);
	for (int round = 0; round < 2; round++) {
		int rc = 2;
		/*
		 * a stream that is overwritten faster than it is read must not loop for
		 * ever
		 */
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

/* ---- records in shared memory, without a copy ---- */

/*
 * Records used in place, in the writer's shared memory. Before a slot is taken for another
 * block, its generation is cleared; before anything in a block is erased, the block is
 * marked. So a record was intact all the time if its block and slot are the same after its
 * use as before. The header is copied and verified, as always. The body is not hashed: the
 * writer computed the hash of the very bytes in this memory.
 */

static bool
header_at(struct sfs_cursor *c, const struct sfs_entry *e, uint32_t at,
	struct sfs_record_header *h)
{
	struct sfs_scan scan = sfs_scan_of(c->sfs, NULL, c->block, e);
	uint8_t bytes[SFS_RECORD_WIDE];

	if (at >= e->end)
		return false;
	scan.place.offset = at;
	uint32_t end = e->end - at < sizeof(bytes) ? e->end : at + sizeof(bytes);
	return sfs_shm_copy(
		       &c->sfs->shm, e->slot, c->block, e->generation, at, end, bytes) &&
	       sfs_record_peek(scan.key, &scan.place, bytes, end - at, h) &&
	       h->sequence == c->sequence && h->length <= e->end - at - h->size;
}

int
sfs_cursor_peek_shared(struct sfs_cursor *c, struct sfs_record *out)
{
	struct sfs *sfs = c->sfs;
	struct sfs_record_header h;
	struct sfs_entry e, n;

	if (sfs->w)
		sfs_drop_lost_blocks(sfs);
	if (!sfs->shm.header || !c->placed || c->seeking || c->sequence == 0 ||
		!sfs_view_entry(sfs, c->block, &e) || e.generation != c->generation ||
		e.stream != c->stream)
		return 0;
	/* the next record is in the cursor's block, or in the block behind it */
	if (c->sequence >= sfs_entry_end(&e)) {
		if (e.next == SFS_NONE || !sfs_view_entry(sfs, e.next, &n) ||
			n.stream != c->stream || n.generation <= e.generation ||
			n.first_sequence != c->sequence || n.records == 0)
			return 0;
		place_cursor(c, e.next, &n);
		e = n;
	}
	if (e.slot == SFS_NONE || (e.flags & SFS_ENTRY_CUT) ||
		(!header_at(c, &e, c->offset, &h) &&
			!header_at(c, &e, sfs_sector_up(c->offset), &h)) ||
		!sfs_permitted(sfs, h.permission))
		return 0;
	sfs_record_out(
		&sfs->key, &h, sfs_shm_data(&sfs->shm, e.slot) + h.offset + h.size, out);
	return 1;
}

bool
sfs_cursor_confirm(struct sfs_cursor *c, const struct sfs_record *there)
{
	struct sfs_entry e;
	uint8_t none;

	atomic_thread_fence(memory_order_acquire);
	if (there->sequence != c->sequence || there->handle.block != c->block ||
		!sfs_view_entry(c->sfs, c->block, &e) ||
		e.generation != there->handle.generation || e.slot == SFS_NONE ||
		(e.flags & SFS_ENTRY_CUT) ||
		!sfs_shm_copy(&c->sfs->shm, e.slot, c->block, e.generation,
			there->handle.offset, there->handle.offset, &none))
		return false;
	c->offset = there->handle.offset + sfs_handle_size(&there->handle);
	c->sequence++;
	return true;
}
