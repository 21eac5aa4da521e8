/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "logger/streamfs/internal.h"
#include "proto/base/array.h"

/* What recovery knows while it works. */
struct sfs_late {
	uint64_t map_generation;
	bool stable; /* the map, and so all that was sealed before it, was on the device at the root */
	struct sfs_map_entry entry;
};
struct sfs_recovery {
	struct sfs *sfs;
	struct sfs_stream *streams; /* of the root */
	uint8_t *buf; /* a block */
	uint64_t newest_generation, newest_block;
	struct sfs_late *late;
	size_t late_count;
	bool listed; /* the root's list says what no map does */
	uint32_t *open; /* blocks that their maps say are open */
	size_t open_count;
};

/* ---- maps and headers ---- */

static void
saw(struct sfs_recovery *r, uint64_t block, uint64_t generation)
{
	if (generation <= r->newest_generation)
		return;
	r->newest_generation = generation;
	r->newest_block = block;
}

/* Written since the root, perhaps. */
static bool
in_window_of(const struct sfs *sfs, const struct sfs_root *root, uint64_t block)
{
	return sfs_order_ahead(&sfs->table.order, block, root->frontier) < root->window;
}

static bool
in_window(const struct sfs *sfs, uint64_t block)
{
	return in_window_of(sfs, &sfs->root, block);
}

static bool
ever_written(const struct sfs *sfs, const struct sfs_root *root, uint64_t block)
{
	return sfs_order_position(&sfs->table.order, block) < root->high_water;
}

bool
sfs_map_knows_all(const struct sfs *sfs, const struct sfs_root *root, uint64_t block)
{
	uint64_t map = sfs_table_map_of(&sfs->table, block);
	const struct sfs_order *order = &sfs->table.order;
	if (map >= root->blocks || !ever_written(sfs, root, map))
		return false;
	uint64_t ahead = sfs_order_ahead(order, map, root->frontier);
	for (uint64_t b = map - (root->map_interval - 1); b <= map; b++)
		if (in_window_of(sfs, root, b) ||
			sfs_order_ahead(order, b, root->frontier) > ahead)
			return false;
	return true;
}

static bool
entry_plausible(const struct sfs *sfs, const struct sfs_map_entry *m)
{
	const struct sfs_root *root = &sfs->root;
	return m->block < root->blocks && !sfs_table_is_map(&sfs->table, m->block) &&
	       m->stream < root->stream_count && m->generation != 0 &&
	       m->generation <= root->generation_limit && m->first_sequence != 0 &&
	       m->first_sequence < UINT64_MAX / 2 && m->block_number < UINT64_MAX / 2 &&
	       m->end >= SFS_BLOCK_HEADER && m->end <= root->block_size &&
	       m->records <= root->block_size / SFS_RECORD_HEADER;
}

static void
set_entry(struct sfs_recovery *r, const struct sfs_map_entry *m)
{
	struct sfs_entry *e = &r->sfs->table.entry[m->block];
	if (e->state == SFS_LOST)
		return;
	*e = (struct sfs_entry){
		.generation = m->generation,
		.first_sequence = m->first_sequence,
		.block_number = m->block_number,
		.min_time = m->min_time,
		.max_time = m->max_time,
		.records = m->records,
		.end = m->end,
		.prev = SFS_NONE,
		.next = SFS_NONE,
		.stream = (uint16_t)m->stream,
		.state = SFS_SEALED,
		.flags = m->flags & SFS_MAP_OPEN ? SFS_ENTRY_UNSURE | SFS_ENTRY_MAPPED_OPEN
						 : 0,
		.slot = SFS_NONE,
	};
	saw(r, m->block, m->generation);
}

/* 1: the interval's entries are from its map; 0: there is no good one; -1: no memory. */
static int
load_map(struct sfs_recovery *r, uint64_t pos)
{
	const struct sfs_root *root = &r->sfs->root;
	struct sfs_block_header h;
	const uint8_t *p = r->buf + SFS_BLOCK_HEADER;
	if (!sfs_map_read(r->sfs, pos, r->buf, &h))
		return 0;
	saw(r, pos, h.generation);
	r->sfs->table.entry[pos].generation = h.generation;
	r->sfs->table.entry[pos].state = SFS_MAP;
	for (uint32_t i = 0; i < h.entries + h.late; i++, p += SFS_MAP_ENTRY) {
		struct sfs_map_entry m;
		sfs_map_entry_decode(p, &m);
		if (!entry_plausible(r->sfs, &m))
			continue;
		if (i >= h.entries) {
			if (PR_ARRAY_GROW(r->late, r->late_count) < 0)
				return -1;
			r->late[r->late_count++] =
				(struct sfs_late){.map_generation = h.generation,
					.stable = !in_window(r->sfs, pos),
					.entry = m};
		} else if (m.block / root->map_interval == pos / root->map_interval) {
			set_entry(r, &m);
		}
	}
	return 1;
}

/*
 * What was evicted, the root says: a block is written over only under a root that has its eviction.
 * A header may speak of the next batch's, whose root a crash has taken.
 */
static void
note_header(struct sfs_recovery *r, const struct sfs_block_header *h)
{
	struct sfs_stream *s = &r->streams[h->stream];
	if (h->generation <= r->sfs->root.reset_generation)
		return;
	if (h->durable_sequence > s->durable_sequence &&
		h->durable_sequence < UINT64_MAX / 2)
		s->durable_sequence = h->durable_sequence;
}

/*
 * The map lists a block whose header cannot be read. Had it durable records, then its header was
 * written, and is damaged now: the block stays, and reading it says what is lost.
 */
static bool
was_durable(const struct sfs_recovery *r, const struct sfs_entry *e)
{
	const struct sfs_stream *s = &r->streams[e->stream];
	return e->first_sequence <= s->durable_sequence &&
	       e->generation >= s->oldest_generation;
}

/* A block whose interval has no map newer than it: its own header says what it is. */
static void
load_header(struct sfs_recovery *r, uint64_t block)
{
	struct sfs *sfs = r->sfs;
	struct sfs_entry *e = &sfs->table.entry[block];
	struct sfs_block_header h;
	if (e->state == SFS_LOST)
		return;
	bool good = sfs_read_identity(sfs, block, &h) && h.kind == SFS_KIND_DATA;
	struct sfs_map_entry m = {
		.stream = h.stream,
		.flags = SFS_MAP_OPEN,
		.block = block,
		.generation = h.generation,
		.first_sequence = h.first_sequence,
		.block_number = h.block_number,
		.end = SFS_BLOCK_HEADER,
	};
	if (!good || !entry_plausible(sfs, &m)) {
		if (e->state == SFS_SEALED && in_window(sfs, block) &&
			(good || !was_durable(r, e)))
			e->state = SFS_FREE;
		return;
	}
	note_header(r, &h);
	if (e->state == SFS_SEALED && e->generation == h.generation)
		return;
	set_entry(r, &m);
	e->flags = SFS_ENTRY_UNSURE;
}

/* The map says "open": whether the block was ever begun on the device, its header knows. */
static void
confirm_open(struct sfs_recovery *r, uint64_t block)
{
	struct sfs_entry *e = &r->sfs->table.entry[block];
	struct sfs_block_header h;
	bool good = sfs_read_identity(r->sfs, block, &h) && h.kind == SFS_KIND_DATA;
	if (good && h.generation == e->generation && h.stream == e->stream)
		note_header(r, &h);
	else if (good || !was_durable(r, e))
		e->state = SFS_FREE;
}

/*
 * Of what lies a block or more apart the kernel's read-ahead knows nothing; asked for at once it
 * comes together.
 */
static void
announce(struct sfs *sfs, uint64_t block, uint32_t len)
{
	struct sfs_disk *disk;
	uint64_t offset;
	if (block >= sfs->root.blocks || !ever_written(sfs, &sfs->root, block))
		return;
	sfs_locate(sfs, block, &disk, &offset);
	if (disk->fd >= 0 && !disk->direct)
		posix_fadvise(disk->fd, (off_t)offset, len, POSIX_FADV_WILLNEED);
}

static int
load_interval(struct sfs_recovery *r, uint64_t first)
{
	struct sfs *sfs = r->sfs;
	uint64_t map = first + sfs->root.map_interval - 1;
	uint64_t end = map < sfs->root.blocks ? map : sfs->root.blocks;
	bool known = sfs_map_knows_all(sfs, &sfs->root, map), headers = !known;
	if (map < sfs->root.blocks && ever_written(sfs, &sfs->root, map)) {
		int rc = load_map(r, map);
		if (rc < 0)
			return -1;
		headers = headers || rc == 0;
	}
	if (!known && r->listed)
		headers = false;
	for (uint32_t i = 0; i < sfs->repairs && !headers; i++)
		if ((sfs->repair[i].flags & SFS_REPAIR_KEPT) &&
			sfs->repair[i].block >= first && sfs->repair[i].block < end &&
			sfs->table.entry[sfs->repair[i].block].state != SFS_SEALED)
			load_header(r, sfs->repair[i].block);
	for (uint64_t b = first; headers && b < end; b++)
		announce(sfs, b, SFS_SECTOR);
	for (uint64_t b = first; b < end; b++) {
		if (headers && ever_written(sfs, &sfs->root, b)) {
			load_header(r, b);
		} else if (sfs->table.entry[b].flags & SFS_ENTRY_UNSURE) {
			if (PR_ARRAY_GROW(r->open, r->open_count) < 0)
				return -1;
			r->open[r->open_count++] = (uint32_t)b;
		}
	}
	return 0;
}

static int
by_map_generation(const void *a, const void *b)
{
	const struct sfs_late *x = a, *y = b;
	return (x->map_generation > y->map_generation) -
	       (x->map_generation < y->map_generation);
}

/* Blocks that were sealed after their interval's map: a later map tells how they ended. */
static void
apply_late(struct sfs_recovery *r, bool stable)
{
	for (size_t i = 0; i < r->late_count; i++) {
		if (stable && !r->late[i].stable)
			continue;
		const struct sfs_map_entry *m = &r->late[i].entry;
		const struct sfs_entry *e = &r->sfs->table.entry[m->block];
		if (e->state == SFS_SEALED && e->generation == m->generation &&
			e->stream == m->stream)
			set_entry(r, m);
	}
}

/*
 * Under a clean root nothing was written since: a younger writer's blocks are over its generation
 * limit.
 */
static bool
list_holds(const struct sfs_root *root)
{
	const uint32_t both = SFS_ROOT_CLEAN | SFS_ROOT_LISTED;
	return (root->flags & both) == both;
}

/* In the place of headers: what is not listed, and no map knows, is not there. */
static void
apply_listed(struct sfs_recovery *r)
{
	struct sfs *sfs = r->sfs;
	const uint32_t interval = sfs->root.map_interval;
	for (uint64_t b = 0; b < sfs->root.blocks; b++) {
		if (b % interval == 0 && sfs_map_knows_all(sfs, &sfs->root, b))
			b += interval - 1;
		else if (sfs->table.entry[b].state == SFS_SEALED)
			sfs->table.entry[b].state = SFS_FREE;
	}
	for (uint32_t i = 0; i < sfs->listed_count; i++) {
		const struct sfs_map_entry *m = &sfs->listed[i];
		if (!entry_plausible(sfs, m))
			continue;
		struct sfs_entry *e = &sfs->table.entry[m->block];
		uint8_t flags = e->generation == m->generation ? e->flags : 0;
		set_entry(r, m);
		e->flags |= flags & SFS_ENTRY_MAPPED_OPEN;
	}
}

static int
load_blocks(struct sfs_recovery *r, struct pr_error *err)
{
	const struct sfs_root *root = &r->sfs->root;
	r->listed = list_holds(root);
	for (uint64_t map = root->map_interval - 1; map < root->blocks;
		map += root->map_interval)
		announce(r->sfs, map, SFS_MAP_FIRST);
	for (uint64_t first = 0; first < root->blocks; first += root->map_interval)
		if (load_interval(r, first) < 0)
			return pr_error_set(err, "no memory to open the volume");
	if (r->late_count)
		qsort(r->late, r->late_count, sizeof(*r->late), by_map_generation);
	/*
	 * With many streams each map has many open blocks. What a stable map says of them later
	 * needs no look at each: 13,000 reads in a volume of 100 GB and 32 streams.
	 */
	apply_late(r, true);
	if (r->listed)
		apply_listed(r);
	for (size_t i = 0; i < r->open_count; i++)
		if (r->sfs->table.entry[r->open[i]].flags & SFS_ENTRY_UNSURE)
			confirm_open(r, r->open[i]);
	apply_late(r, false);
	if (r->listed)
		apply_listed(r);
	return 0;
}

/* ---- one chain of blocks a stream ---- */

/*
 * Opening: maps and headers tell which blocks there are; here each stream's blocks become one
 * chain, without gaps, cut behind the last record that a crash has left in order. Records known
 * durable are never cut: where they cannot be read, reading says so.
 */
struct run {
	uint32_t *block;
	size_t count;
	const struct sfs_stream *root;
	uint64_t durable;
};

static int
by_stream(const void *a, const void *b, void *arg)
{
	const struct sfs_table *t = arg;
	const struct sfs_entry *x = &t->entry[*(const uint32_t *)a];
	const struct sfs_entry *y = &t->entry[*(const uint32_t *)b];
	if (x->stream != y->stream)
		return x->stream < y->stream ? -1 : 1;
	return (x->generation > y->generation) - (x->generation < y->generation);
}

static void
drop(struct sfs *sfs, uint32_t block)
{
	sfs->table.entry[block].state = SFS_FREE;
}

/* Evicted blocks go, and those that a younger block has replaced after an earlier crash. */
static void
drop_gone(struct sfs *sfs, struct run *run)
{
	uint64_t limit = UINT64_MAX;
	size_t keep = run->count;
	for (size_t i = run->count; i-- > 0;) {
		uint32_t block = run->block[i];
		const struct sfs_entry *e = &sfs->table.entry[block];
		if (e->generation < run->root->oldest_generation ||
			e->generation <= sfs->root.reset_generation ||
			e->first_sequence >= limit) {
			drop(sfs, block);
			continue;
		}
		limit = e->first_sequence;
		run->block[--keep] = block;
	}
	run->block += keep;
	run->count -= keep;
}

static bool
devices_missing(const struct sfs *sfs)
{
	return sfs->missing + sfs->lost > 0;
}

/*
 * The stream's next block tells how a block ended; but where the next one that is there may not be
 * the next one that there was, the block is asked itself (it stays unsure).
 */
static void
ask_next(struct sfs *sfs, uint32_t block, uint32_t next)
{
	struct sfs_entry *e = &sfs->table.entry[block];
	const struct sfs_entry *n = &sfs->table.entry[next];
	struct sfs_block_header h;
	if (!sfs_read_header(sfs, next, &h) || h.generation != n->generation ||
		h.prev_block != block || h.prev_generation != e->generation ||
		h.prev_end > sfs->root.block_size)
		return;
	e->flags &= (uint8_t)~SFS_ENTRY_UNSURE;
	e->records = h.prev_records;
	e->end = h.prev_end;
	e->min_time = h.prev_min;
	e->max_time = h.prev_max;
}

/* Nobody can say, but all up to the next block were there: reading will say which are lost. */
static void
guess_end(struct sfs *sfs, uint32_t block, uint32_t next)
{
	struct sfs_entry *e = &sfs->table.entry[block];
	const struct sfs_entry *n = &sfs->table.entry[next];
	uint64_t records = n->first_sequence - e->first_sequence;
	uint64_t most = sfs->root.block_size / SFS_RECORD_HEADER;
	e->records = (uint32_t)(records > most ? most : records);
	e->end = sfs->root.block_size;
	e->min_time = INT64_MIN;
	e->max_time = INT64_MAX;
}

static bool
head_of_clean_root(struct sfs *sfs, const struct run *run, uint32_t block)
{
	struct sfs_entry *e = &sfs->table.entry[block];
	const struct sfs_stream *s = run->root;
	if (!(sfs->root.flags & SFS_ROOT_CLEAN) || s->head.block != block ||
		s->head.generation != e->generation || s->head.end > sfs->root.block_size ||
		s->head.records > sfs->root.block_size / SFS_RECORD_HEADER)
		return false;
	e->records = s->head.records;
	e->end = s->head.end;
	e->min_time = s->head.min_time;
	e->max_time = s->head.max_time;
	e->flags &= (uint8_t)~SFS_ENTRY_UNSURE;
	return true;
}

/*
 * Reads a block and sets its entry to the records found in order; damaged durable ones are passed.
 */
static void
count_records(struct sfs_recovery *r, const struct run *run, uint32_t block)
{
	struct sfs *sfs = r->sfs;
	struct sfs_entry *e = &sfs->table.entry[block];
	struct sfs_scan scan = sfs_scan_of(sfs, r->buf, block, e);
	struct sfs_map_entry hole;
	struct sfs_record_header h;
	e->min_time = INT64_MAX;
	e->max_time = INT64_MIN;
	e->end = SFS_BLOCK_HEADER;
	scan.end = sfs->root.block_size;
	bool readable = sfs_read_block(sfs, block, 0, scan.end, r->buf) == 0;
	while (readable) {
		bool good = sfs_scan_next(&scan, &h) == SFS_RECORD_GOOD;
		if (!good && sfs_hole_at(sfs, e->stream, scan.sequence, &hole)) {
			/*
			 * deleted ones were there, nobody knows up to where; the next may lie
			 * behind
			 */
			scan.sequence = hole.first_sequence + hole.records;
			e->end = scan.end;
			good = sfs_scan_resync(&scan, scan.sequence + 1, &h);
		}
		if (!good && !sfs_scan_resync(&scan, run->durable + 1, &h))
			break;
		e->end = scan.pos;
		e->min_time = h.min_time < e->min_time ? h.min_time : e->min_time;
		e->max_time = h.max_time > e->max_time ? h.max_time : e->max_time;
	}
	e->records = (uint32_t)(scan.sequence - e->first_sequence);
	e->flags &= (uint8_t)~SFS_ENTRY_UNSURE;
}

/* Records that were durable and cannot be found in the tail are counted: reading will say so. */
static void
keep_durable(const struct sfs *sfs, const struct run *run, uint32_t block)
{
	struct sfs_entry *e = &sfs->table.entry[block];
	if (e->first_sequence + e->records > run->durable)
		return;
	uint64_t records = run->durable + 1 - e->first_sequence;
	uint64_t most = sfs->root.block_size / SFS_RECORD_HEADER;
	e->records = (uint32_t)(records > most ? most : records);
	e->end = sfs->root.block_size;
}

/* Fixes how block i of the run ends; false: the stream ends with it, later blocks do not count. */
static bool
settle(struct sfs_recovery *r, const struct run *run, size_t i)
{
	struct sfs *sfs = r->sfs;
	uint32_t block = run->block[i];
	struct sfs_entry *e = &sfs->table.entry[block];
	bool tail = i + 1 == run->count;
	if (tail && head_of_clean_root(sfs, run, block))
		return true;
	uint64_t next =
		tail ? UINT64_MAX : sfs->table.entry[run->block[i + 1]].first_sequence;
	/* a map that was written before a crash may tell of records that the crash has taken */
	if (!tail &&
		((e->flags & SFS_ENTRY_UNSURE) || e->first_sequence + e->records != next))
		ask_next(sfs, block, run->block[i + 1]);
	if (!tail && (e->flags & SFS_ENTRY_UNSURE)) {
		count_records(r, run, block);
		if (e->first_sequence + e->records != next && !devices_missing(sfs))
			guess_end(sfs, block, run->block[i + 1]);
	}
	if (tail ? (e->flags & SFS_ENTRY_UNSURE) != 0 || !(sfs->root.flags & SFS_ROOT_CLEAN)
		 : next - 1 > run->durable) {
		count_records(r, run, block);
		uint64_t after = e->first_sequence + e->records;
		if (after > run->durable + 1)
			sfs->recovered_records +=
				after - 1 -
				(run->durable >= e->first_sequence ? run->durable
								   : e->first_sequence - 1);
		if (tail && !devices_missing(sfs))
			keep_durable(sfs, run, block);
		return tail || after == next || devices_missing(sfs);
	}
	return true;
}

static void
lose(struct sfs_recovery *r, const struct run *run, uint32_t block)
{
	count_records(r, run, block);
	r->sfs->lost_tail_bytes += r->sfs->table.entry[block].end;
	drop(r->sfs, block);
}

static void
link_block(struct sfs *sfs, uint32_t block)
{
	struct sfs_entry *e = &sfs->table.entry[block];
	struct sfs_stream *s = &sfs->table.stream[e->stream];
	/* without holes, so that differences of ordinals count blocks */
	if (s->newest != SFS_NONE)
		e->block_number = sfs->table.entry[s->newest].block_number + 1;
	sfs_table_link(&sfs->table, block);
}

static void
chain_stream(struct sfs_recovery *r, struct run *run)
{
	struct sfs *sfs = r->sfs;
	drop_gone(sfs, run);
	bool going = true;
	uint64_t expected = run->root->first_sequence;
	for (size_t i = 0; i < run->count; i++) {
		uint32_t block = run->block[i];
		const struct sfs_entry *e = &sfs->table.entry[block];
		/*
		 * what is missing before it was never durable: then the block was not either;
		 * unless it may lie on a device that is missing
		 */
		going = going && (e->first_sequence <= expected ||
					 e->first_sequence - 1 <= run->durable ||
					 devices_missing(sfs));
		if (!going) {
			lose(r, run, block);
			continue;
		}
		going = settle(r, run, i);
		expected = e->first_sequence + e->records;
		if (e->records == 0)
			drop(sfs, block);
		else
			link_block(sfs, block);
	}
}

static void
finish_stream(const struct sfs_stream *root, struct sfs_stream *s)
{
	if (root->evicted_until > s->evicted_until)
		s->evicted_until = root->evicted_until;
	if (s->oldest == SFS_NONE) {
		s->last_sequence = s->first_sequence - 1;
		if (root->durable_sequence > s->last_sequence)
			s->last_sequence = root->durable_sequence;
		s->first_sequence = s->last_sequence + 1;
	} else {
		/* records that were durable and are gone are missed, not forgotten */
		if (root->first_sequence < s->first_sequence)
			s->first_sequence = root->first_sequence;
		if (root->durable_sequence > s->last_sequence)
			s->last_sequence = root->durable_sequence; /* never given twice */
	}
	s->durable_sequence = s->last_sequence;
}

static int
chain_all(struct sfs_recovery *r, struct pr_error *err)
{
	struct sfs_table *t = &r->sfs->table;
	size_t count = 0, at = 0;
	for (uint64_t b = 0; b < t->blocks; b++)
		count += t->entry[b].state == SFS_SEALED;
	uint32_t *all = malloc((count + 1) * sizeof(*all));
	if (!all)
		return pr_error_set(err, "no memory to open the volume");
	for (uint32_t b = 0; b < t->blocks; b++)
		if (t->entry[b].state == SFS_SEALED)
			all[at++] = b;
	qsort_r(all, count, sizeof(*all), by_stream, t);
	for (size_t from = 0, to; from < count; from = to) {
		uint16_t stream = t->entry[all[from]].stream;
		for (to = from; to < count && t->entry[all[to]].stream == stream; to++)
			;
		struct run run = {all + from, to - from, &r->streams[stream],
			r->streams[stream].durable_sequence};
		chain_stream(r, &run);
	}
	free(all);
	for (uint32_t i = 0; i < t->streams; i++)
		finish_stream(&r->streams[i], &t->stream[i]);
	sfs_holes_mark(r->sfs);
	return 0;
}

static int
prepare_table(struct sfs_recovery *r, struct pr_error *err)
{
	struct sfs *sfs = r->sfs;
	const struct sfs_root *root = &sfs->root;
	sfs_table_free(&sfs->table);
	sfs->recovered_records = sfs->lost_tail_bytes = sfs->passed = 0;
	if (sfs_table_init(&sfs->table, root->blocks, root->block_size, root->map_interval,
		    err) < 0 ||
		sfs_order_make(&sfs->table.order, &sfs->layout, root->blocks,
			root->map_interval, root->zone_region, err) < 0)
		return -1;
	for (uint64_t b = 0; sfs->missing + sfs->lost > 0 && b < root->blocks; b++)
		if (!sfs_block_there(sfs, b))
			sfs->table.entry[b].state = SFS_LOST;
	sfs->table.streams = root->stream_count;
	for (uint32_t i = 0; i < root->stream_count; i++) {
		struct sfs_stream *s = &sfs->table.stream[i];
		*s = r->streams[i];
		s->oldest = s->newest = SFS_NONE;
		s->last_sequence = s->first_sequence - 1;
	}
	return 0;
}

/* The frontier goes on behind the newest block, if any was written since the root. */
static void
advance_frontier(struct sfs_recovery *r)
{
	struct sfs_root *root = &r->sfs->root;
	const struct sfs_order *order = &r->sfs->table.order;
	uint64_t ahead = sfs_order_ahead(order, r->newest_block, root->frontier);
	if (r->newest_generation == 0 || ahead >= root->window)
		return;
	r->sfs->passed = ahead + 1;
	root->frontier = (root->frontier + ahead + 1) % root->blocks;
	root->window -= ahead + 1;
}

int
sfs_recover(struct sfs *sfs, struct sfs_stream *streams, struct pr_error *err)
{
	struct sfs_recovery r = {.sfs = sfs, .streams = streams};
	int rc = 0;
	sfs->table_valid = false;
	if (!streams) {
		r.streams = calloc(SFS_STREAMS_MAX, sizeof(*r.streams));
		rc = r.streams ? sfs_root_load(sfs, r.streams, err)
			       : pr_error_set(err, "no memory to open the volume");
	}
	if (rc == 0 && !(r.buf = sfs_read_buffer(sfs->root.block_size)))
		rc = pr_error_set(err, "no memory to open the volume");
	if (rc == 0 && (prepare_table(&r, err) < 0 || load_blocks(&r, err) < 0 ||
			       chain_all(&r, err) < 0))
		rc = -1;
	if (rc == 0) {
		advance_frontier(&r);
		sfs->table_valid = true;
	}
	free(r.late);
	free(r.open);
	free(r.buf);
	if (!streams)
		free(r.streams);
	return rc;
}
