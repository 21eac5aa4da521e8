/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "logger/streamfs/check.h"

/* What a stream should have and no block holds. */
struct gap {
	const struct sfs_stream *s;
	uint64_t first, last; /* sequences */
	uint64_t block, generation; /* where they lay, as far as known */
};

static bool
in_gap(const struct gap *g, const struct sfs_record_header *h)
{
	return h->stream == g->s->id && h->sequence >= g->first && h->sequence <= g->last;
}

/* The good records of the gap in a life of the block that a wide header has told of. */
static bool
scan_life(struct sfs_check *c, const struct gap *g, const struct sfs_record_header *wide,
	struct sfs_record_header *first, uint64_t *last)
{
	uint32_t size = c->sfs->root.block_size;
	const struct sfs_entry life = {.generation = wide->generation,
		.first_sequence = wide->sequence - wide->index,
		.stream = (uint16_t)wide->stream};
	struct sfs_scan scan = sfs_scan_of(c->sfs, c->buf, wide->block, &life);
	struct sfs_record_header h;
	uint64_t sequence = g->first;
	uint32_t pos = SFS_BLOCK_HEADER;
	bool any = false;
	while (sfs_scan_resync(&scan, pos, size, sequence, &h) && in_gap(g, &h)) {
		if (!any)
			*first = h;
		any = true;
		*last = h.sequence;
		sequence = h.sequence + 1;
		pos = h.offset + (uint32_t)sfs_record_span(h.size, h.length);
	}
	return any;
}

/* The first good record of the gap in the block's bytes, wherever; also the last one. */
static bool
scan_orphan(struct sfs_check *c, const struct gap *g, uint32_t block,
	struct sfs_record_header *first, uint64_t *last)
{
	uint32_t size = c->sfs->root.block_size;
	struct sfs_record_header h;
	uint64_t tried = 0; /* generation */
	for (uint32_t pos = SFS_BLOCK_HEADER; pos + SFS_RECORD_WIDE <= size; pos += 8) {
		if (!sfs_record_identify(
			    &c->sfs->key, block, pos, c->buf + pos, size - pos, &h) ||
			!in_gap(g, &h) || h.generation == tried)
			continue;
		if (scan_life(c, g, &h, first, last))
			return true;
		tried = h.generation;
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

static void
orphan_found(struct sfs_check *c, const struct gap *g, uint32_t block,
	const struct sfs_record_header *first)
{
	struct sfs_finding f = sfs_check_at(c, SFS_FAULT_HEADER, block, 0,
		"the block header and the first record are damaged: no reader finds the "
		"others");
	f.fault.stream = g->s->name;
	f.stream = g->s->id;
	f.generation = first->generation;
	f.kept = (struct sfs_map_entry){
		.stream = g->s->id,
		.flags = SFS_REPAIR_KEPT,
		.block = block,
		.generation = first->generation,
		.first_sequence = first->sequence - first->index,
		.end = SFS_BLOCK_HEADER,
	};
	sfs_check_found(c, &f);
}

#define SEARCHES_MAX 64

/*
 * Blocks that nothing speaks for any more, but for records deep in them: looked for only when
 * something is missing. False: there are none.
 */
static bool
find_orphans(struct sfs_check *c, const struct gap *g)
{
	struct sfs_record_header first;
	uint64_t last = 0, from = g->first;
	bool any = false;
	/* by sequence, as the blocks' places need not be in order */
	/* where a whole device is gone, it is not worth a look for each of its blocks */
	while (c->searches++ < SEARCHES_MAX) {
		uint64_t best = UINT64_MAX, best_last = 0;
		struct sfs_record_header best_first;
		uint32_t block = SFS_NONE;
		struct gap rest = {g->s, from, g->last, 0, 0};
		for (uint32_t b = 0; b < c->sfs->root.blocks; b++) {
			if (!is_orphan(c, &rest, b, &first, &last) ||
				first.sequence >= best)
				continue;
			best = first.sequence;
			best_last = last;
			best_first = first;
			block = b;
		}
		if (block == SFS_NONE)
			return any;
		orphan_found(c, g, block, &best_first);
		any = true;
		from = best_last + 1;
		if (from > g->last)
			break;
	}
	return any;
}

/* What is known of the block that the gap's records lay in; false: it is another one, nobody knows which. */
static bool
why_missing(struct sfs_check *c, const struct gap *g, char *text, size_t size)
{
	struct sfs *sfs = c->sfs;
	const char *lost = sfs->lost > 0 ? ", on a device that was left out" : "";
	struct sfs_block_header h;
	char why[100];
	bool known = g->block < sfs->root.blocks;
	snprintf(text, size, "the records are lost with their block%s", lost);
	if (!known || !sfs_block_there(sfs, g->block) ||
		sfs_read_block(sfs, g->block, 0, SFS_SECTOR, c->buf) < 0)
		return known;
	bool good = sfs_block_decode(&sfs->key, c->buf, g->block, &h);
	/* the stream went on behind this one, without what lay on the device in between */
	if (good && h.generation == g->generation && sfs->lost > 0)
		return false;
	snprintf(text, size, "the records are lost with their block: %s",
		good ? "another one was written over it"
		     : sfs_check_header_text(sfs, c->buf, g->block, why, sizeof(why)));
	return true;
}

static void
missing(struct sfs_check *c, const struct gap *g)
{
	char text[200];
	struct sfs_finding f = {.stream = g->s->id, .generation = g->generation};
	if (sfs_repairs_cover(c->sfs, g->s->id, g->first, g->last) || find_orphans(c, g))
		return;
	bool known = why_missing(c, g, text, sizeof(text));
	f = sfs_check_at(c, SFS_FAULT_MISSING, known ? g->block : SFS_NO_BLOCK, 0, text);
	f.fault.stream = g->s->name;
	f.fault.first = g->first;
	f.fault.last = g->last;
	f.stream = g->s->id;
	f.generation = g->generation;
	f.to = c->sfs->root.block_size;
	sfs_check_found(c, &f);
}

/* The header of the block behind a gap names the one before it. */
static void
missing_before(struct sfs_check *c, const struct sfs_stream *s, uint32_t block,
	const struct sfs_entry *e, uint64_t first)
{
	struct gap g = {s, first, e->first_sequence - 1, SFS_NO_BLOCK, 0};
	struct sfs_block_header h;
	if (sfs_read_header(c->sfs, block, &h) && h.generation == e->generation &&
		h.prev_generation != 0) {
		g.block = h.prev_block;
		g.generation = h.prev_generation;
	}
	missing(c, &g);
}

static void
missing_last(struct sfs_check *c, const struct sfs_stream *s, uint64_t first)
{
	const struct sfs_stream_entry *root = &c->streams[s->id];
	struct gap g = {s, first, s->last_sequence, SFS_NO_BLOCK, 0};
	if (root->head_generation != 0) {
		g.block = root->head_block;
		g.generation = root->head_generation;
	}
	missing(c, &g);
}

/* The block that came after e by what its follower or the root says; false: nothing is known. */
static bool
follower(struct sfs_check *c, const struct sfs_stream *s, const struct sfs_entry *e,
	struct gap *g)
{
	const struct sfs_stream_entry *root = &c->streams[s->id];
	struct sfs_block_header h;
	if (e->next == SFS_NONE) {
		g->block = root->head_block;
		g->generation = root->head_generation;
		return root->head_generation != 0;
	}
	if (!sfs_read_header(c->sfs, e->next, &h) || h.prev_generation == 0)
		return false;
	g->block = h.prev_block;
	g->generation = h.prev_generation;
	return true;
}

bool
sfs_check_tail(struct sfs_check *c, const struct sfs_stream *s, const struct sfs_entry *e,
	uint64_t first, uint64_t last)
{
	struct gap g = {s, first, last, SFS_NO_BLOCK, 0};
	struct sfs_entry n = {.first_sequence = s->last_sequence + 1};
	if (c->sfs->live || c->sfs->writer || sfs_repairs_cover(c->sfs, s->id, first, last))
		return false;
	/* with a gap behind it, the block's own records are known, not guessed from what follows */
	if ((e->next != SFS_NONE && !sfs_view_entry(c->sfs, e->next, &n)) ||
		n.first_sequence != last + 1)
		return false;
	if (!follower(c, s, e, &g))
		return find_orphans(c, &g);
	if (g.generation <= e->generation)
		return false;
	missing(c, &g);
	return true;
}

void
sfs_check_stream(struct sfs_check *c, const struct sfs_stream *s)
{
	uint64_t generation = 0, expected = s->first_sequence;
	struct sfs_entry e;
	/* while a writer lives, the first block may be another by now */
	if (c->sfs->live || c->sfs->writer)
		return;
	for (uint32_t b = s->oldest; b != SFS_NONE; b = e.next) {
		if (!sfs_view_entry(c->sfs, b, &e) || e.stream != s->id ||
			e.generation <= generation)
			return;
		if (e.first_sequence > expected)
			missing_before(c, s, b, &e, expected);
		generation = e.generation;
		expected = e.first_sequence + e.records;
	}
	/* with its last block, a stream forgets what it held; the root does not */
	if (s->oldest == SFS_NONE && c->streams[s->id].id == s->id &&
		c->streams[s->id].first_sequence < expected)
		expected = c->streams[s->id].first_sequence;
	if (expected <= s->last_sequence)
		missing_last(c, s, expected);
}
