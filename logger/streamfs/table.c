/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>
#include "logger/streamfs/shm.h"

/* ---- layout: block -> device and row ---- */

void
sfs_layout_make(struct sfs_layout *l, const struct sfs_root *root)
{
	uint64_t first = 0;
	*l = (struct sfs_layout){.sets = root->set_count};
	for (uint32_t i = 0; i < root->set_count; i++) {
		const struct sfs_set *in = &root->set[i];
		struct sfs_stripe *s = &l->set[i];
		*s = (struct sfs_stripe){
			.first = first, .blocks = in->blocks, .tier = in->tier};
		for (uint8_t d = 0; d < SFS_DEVICES_MAX; d++)
			if (in->devices & (1u << d))
				s->device[s->count++] = d;
		s->rows = s->blocks / s->count;
		for (uint16_t n = 0; n < s->count; n++) {
			s->base[n] = l->rows[s->device[n]];
			l->rows[s->device[n]] += s->rows;
		}
		first += s->blocks;
	}
}

void
sfs_layout_place(
	const struct sfs_layout *l, uint64_t block, uint16_t *device, uint64_t *row)
{
	uint32_t i = l->sets - 1;
	while (i > 0 && block < l->set[i].first)
		i--;
	const struct sfs_stripe *s = &l->set[i];
	uint64_t at = block - s->first;
	*device = s->device[at % s->count];
	*row = s->base[at % s->count] + at / s->count;
}

/* ---- order: position -> block ---- */

#define REGION_BYTES (64u << 20)
#define REGIONS_MIN 16 /* of each zone, or balancing is too coarse to be of use */

uint32_t
sfs_zone_region(uint64_t rows, uint32_t block_size)
{
	uint64_t most = rows / (3 * REGIONS_MIN);
	return PR_MAX(PR_MIN(REGION_BYTES / block_size, most), 1);
}

uint64_t
sfs_zone_row(uint64_t i, uint64_t rows, uint32_t region)
{
	uint64_t turn = 3 * (uint64_t)region;
	uint64_t n = region ? rows / turn : 0;
	if (n == 0)
		return i;
	uint64_t zone = n * region, t = i / turn, within = i % region;
	if (t == n)
		return i - zone; /* the rest, in the middle */
	uint64_t part = i % turn / region;
	return part == 2 ? rows - (t + 1) * region + within
			 : part * zone + t * region + within;
}

static void
put(struct sfs_order *o, uint64_t *position, uint64_t block)
{
	o->block_at[*position] = block;
	o->position_of[block] = (*position)++;
}

/* The set of the tier that is furthest behind its share. */
static uint32_t
next_set(const struct sfs_layout *l, uint32_t tier, const uint64_t *done)
{
	uint32_t best = l->sets;
	double least = 2;
	for (uint32_t k = 0; k < l->sets; k++) {
		if (l->set[k].tier != tier || done[k] == l->set[k].blocks)
			continue;
		double share = ((double)done[k] + 0.5) / (double)l->set[k].blocks;
		if (share < least) {
			least = share;
			best = k;
		}
	}
	return best;
}

int
sfs_order_make(struct sfs_order *o, const struct sfs_layout *l, uint64_t blocks,
	uint32_t interval, uint32_t zone_region, struct pr_error *err)
{
	uint64_t position = 0;
	sfs_order_free(o);
	*o = (struct sfs_order){.blocks = blocks};
	if (l->sets == 1 && zone_region == 0)
		return 0;
	/* data blocks of each interval still to come */
	uint32_t *left = calloc(blocks / interval + 1, sizeof(*left));
	o->block_at = calloc(blocks, sizeof(*o->block_at));
	o->position_of = calloc(blocks, sizeof(*o->position_of));
	if (!o->block_at || !o->position_of || !left) {
		free(left);
		sfs_order_free(o);
		return pr_error_set(
			err, "no memory for the order of %" PRIu64 " blocks", blocks);
	}
	for (uint64_t first = 0; first < blocks; first += interval)
		left[first / interval] =
			blocks - first < interval ? blocks - first : interval - 1;
	for (uint32_t tier = 0, k; tier < SFS_SETS_MAX; tier++) {
		uint64_t done[SFS_SETS_MAX] = {0};
		while ((k = next_set(l, tier, done)) < l->sets) {
			const struct sfs_stripe *s = &l->set[k];
			uint64_t i = done[k]++, n = s->count;
			uint64_t row = sfs_zone_row(i / n, s->rows, zone_region);
			uint64_t block = s->first + row * n + i % n;
			uint64_t map = block - block % interval + interval - 1;
			/* a map does not come by itself, but with the last block that it tells of */
			if (block != map)
				put(o, &position, block);
			if (block != map && --left[block / interval] == 0 && map < blocks)
				put(o, &position, map);
		}
	}
	free(left);
	return 0;
}

void
sfs_order_free(struct sfs_order *o)
{
	PR_FREE(o, block_at, position_of);
	o->block_at = o->position_of = NULL;
}

/* ---- table ---- */

int
sfs_table_init(struct sfs_table *t, uint64_t blocks, uint32_t block_size, uint32_t interval,
	struct pr_error *err)
{
	*t = (struct sfs_table){
		.blocks = blocks, .block_size = block_size, .interval = interval};
	t->order.blocks = blocks;
	t->entry = calloc(blocks, sizeof(*t->entry));
	t->stream = calloc(SFS_STREAMS_MAX, sizeof(*t->stream));
	if (!t->entry || !t->stream) {
		sfs_table_free(t);
		return pr_error_set(
			err, "no memory for a table of %" PRIu64 " blocks", blocks);
	}
	for (uint64_t i = 0; i < blocks; i++)
		t->entry[i] = (struct sfs_entry){SFS_ALONE};
	return 0;
}

void
sfs_table_free(struct sfs_table *t)
{
	sfs_order_free(&t->order);
	PR_FREE(t, entry, stream);
	t->entry = NULL;
	t->stream = NULL;
}

void
sfs_table_notify(struct sfs_table *t, uint32_t block)
{
	if (t->shm)
		sfs_seq_write(t->shm->entry[block].word, &t->entry[block], SFS_ENTRY_WORDS);
}

void
sfs_table_notify_stream(struct sfs_table *t, uint32_t stream)
{
	if (t->shm)
		sfs_seq_write(
			t->shm->stream[stream].word, &t->stream[stream], SFS_STREAM_WORDS);
}

static void
chain(struct sfs_table *t, struct sfs_stream *s, uint32_t block)
{
	struct sfs_entry *e = &t->entry[block];
	e->prev = s->newest;
	e->next = SFS_NONE;
	if (s->newest == SFS_NONE) {
		s->oldest = block;
		s->first_sequence = e->first_sequence;
	} else {
		t->entry[s->newest].next = block;
	}
	s->newest = block;
	s->blocks++;
	t->used++;
}

struct sfs_head
sfs_table_head(const struct sfs_table *t, uint32_t block)
{
	if (block == SFS_NONE)
		return (struct sfs_head){0};
	const struct sfs_entry *e = &t->entry[block];
	return (struct sfs_head){
		block, e->generation, e->end, e->records, e->min_time, e->max_time};
}

void
sfs_table_begin(struct sfs_table *t, uint32_t stream, uint32_t block, uint64_t generation)
{
	struct sfs_stream *s = &t->stream[stream];
	struct sfs_entry *e = &t->entry[block];
	uint32_t before = s->newest;
	*e = (struct sfs_entry){.generation = generation,
		.first_sequence = s->last_sequence + 1,
		.block_number = s->next_block_number++,
		.min_time = INT64_MAX,
		.max_time = INT64_MIN,
		.end = SFS_BLOCK_HEADER,
		.stream = stream,
		.state = SFS_OPEN,
		.slot = SFS_NONE};
	chain(t, s, block);
	/* the block before comes last: who follows the chain finds a finished block */
	sfs_table_notify(t, block);
	if (before != SFS_NONE)
		sfs_table_notify(t, before);
	sfs_table_notify_stream(t, stream);
}

void
sfs_table_link(struct sfs_table *t, uint32_t block)
{
	struct sfs_entry *e = &t->entry[block];
	struct sfs_stream *s = &t->stream[e->stream];
	/* block_number without gaps: its differences count blocks */
	if (s->newest != SFS_NONE)
		e->block_number = t->entry[s->newest].block_number + 1;
	chain(t, s, block);
	s->bytes += e->end;
	s->last_sequence = sfs_entry_end(e) - 1;
	s->next_block_number = e->block_number + 1;
}

void
sfs_table_seal(struct sfs_table *t, uint32_t block)
{
	t->entry[block].state = SFS_SEALED;
	sfs_table_notify(t, block);
}

void
sfs_table_record(struct sfs_table *t, uint32_t block, uint32_t end, int64_t min_time,
	int64_t max_time)
{
	struct sfs_entry *e = &t->entry[block];
	struct sfs_stream *s = &t->stream[e->stream];
	s->bytes += end - (e->records ? e->end : 0);
	e->records++;
	e->end = end;
	pr_time_widen(&e->min_time, &e->max_time, min_time, max_time);
	s->last_sequence++;
	sfs_table_notify(t, block);
	sfs_table_notify_stream(t, e->stream);
}

void
sfs_table_evict(struct sfs_table *t, uint32_t block)
{
	uint32_t stream = t->entry[block].stream;
	struct sfs_stream *s = &t->stream[stream];
	uint32_t gone = s->oldest, end = t->entry[block].next;
	for (uint32_t b = gone; b != end; b = t->entry[b].next) {
		const struct sfs_entry *e = &t->entry[b];
		if (e->records)
			s->bytes -= e->end;
		if (e->records && e->max_time > s->evicted_until)
			s->evicted_until = e->max_time;
		s->oldest_generation = e->generation + 1;
		s->blocks--;
		t->used--;
	}
	s->oldest = end;
	if (end == SFS_NONE)
		s->newest = SFS_NONE;
	else
		t->entry[end].prev = SFS_NONE;
	s->first_sequence =
		end == SFS_NONE ? s->last_sequence + 1 : t->entry[end].first_sequence;
	/* the stream first: a record that a reader finds gone then lies before its oldest one */
	sfs_table_notify_stream(t, stream);
	while (gone != end) {
		struct sfs_entry *e = &t->entry[gone];
		uint32_t next = e->next;
		e->state = SFS_FREE;
		e->prev = e->next = SFS_NONE;
		sfs_table_notify(t, gone);
		gone = next;
	}
}

static void
unlink_block(struct sfs_table *t, struct sfs_stream *s, uint32_t block)
{
	struct sfs_entry *e = &t->entry[block];
	if (e->prev != SFS_NONE)
		t->entry[e->prev].next = e->next;
	else
		s->oldest = e->next;
	if (e->next != SFS_NONE)
		t->entry[e->next].prev = e->prev;
	else
		s->newest = e->prev;
	if (e->prev != SFS_NONE)
		sfs_table_notify(t, e->prev);
	/* block_number without gaps: its differences count blocks */
	for (uint32_t b = e->next; b != SFS_NONE; b = t->entry[b].next) {
		struct sfs_entry *n = &t->entry[b];
		if (n->prev != SFS_NONE)
			n->block_number = t->entry[n->prev].block_number + 1;
		sfs_table_notify(t, b);
	}
	if (s->newest != SFS_NONE)
		s->next_block_number = t->entry[s->newest].block_number + 1;
	s->blocks--;
	t->used--;
	if (e->records)
		s->bytes -= e->end;
}

uint64_t
sfs_table_lose(struct sfs_table *t, uint32_t block)
{
	struct sfs_entry *e = &t->entry[block];
	bool holds = sfs_entry_holds(e);
	if (holds) {
		struct sfs_stream *s = &t->stream[e->stream];
		unlink_block(t, s, block);
		if (s->oldest == SFS_NONE)
			s->first_sequence = s->last_sequence + 1;
		sfs_table_notify_stream(t, e->stream);
	}
	e->state = SFS_LOST;
	e->prev = e->next = SFS_NONE;
	sfs_table_notify(t, block);
	return holds ? e->records : 0;
}

/* ---- frontier ---- */

/*
 * A batch costs one root (some KiB and a sync), and evicts up to two batches of the oldest
 * data early. 256 blocks of 1 MiB mean four roots a second at 1 GB/s. While a root is made
 * durable, the buffer may be written out twice. Unless the volume is too small, a batch has
 * blocks for that; else the frontier would run out of blocks each time.
 */
int
sfs_frontier_init(struct sfs_frontier *f, uint64_t blocks, uint32_t buffered,
	uint64_t position, uint64_t next_generation, uint64_t high_water,
	struct pr_error *err)
{
	uint64_t n = blocks / 64, want = (uint64_t)buffered * 2;
	if (n < want)
		n = want < blocks / 32 ? want : blocks / 32;
	n = PR_MIN(n, 256);
	*f = (struct sfs_frontier){.batch = PR_MAX(n, 2),
		.clear = position,
		.stable = position,
		.high_water = high_water,
		.next_generation = next_generation};
	f->room = f->batch * 3;
	f->ring = calloc(f->room, sizeof(*f->ring));
	return f->ring ? 0 : pr_error_set(err, "no memory for the write frontier");
}

void
sfs_frontier_free(struct sfs_frontier *f)
{
	free(f->ring);
	f->ring = NULL;
}

/*
 * True if the block, with `after` newer ones in its stream, is older than a stream without guarantee. Streams with
 * a guarantee thus age with the others at least, as the ledger must, however much is written to them: to half of
 * what is not guaranteed, in equal parts.
 */
static bool
outlived(const struct sfs_table *t, const struct sfs_entry *e, uint64_t after)
{
	uint64_t oldest = UINT64_MAX, rest = t->blocks, streams = 0;
	for (const struct sfs_stream *s = t->stream; s < t->stream + t->streams; s++) {
		uint64_t need = sfs_table_blocks_for(t, s->guarantee) + 1;
		if (s->guarantee) {
			rest -= PR_MIN(need, rest);
			streams++;
		} else if (s->oldest != SFS_NONE &&
			   t->entry[s->oldest].generation < oldest) {
			oldest = t->entry[s->oldest].generation;
		}
	}
	/* what is in the block was written until the next one began */
	return t->entry[e->next].generation <= oldest ||
	       after > sfs_table_blocks_for(t, t->stream[e->stream].guarantee) +
			       rest / 2 / streams;
}

/* True if the block at the clearing position can be used; evicts it if needed, and if it may (not keep). */
static bool
clear_block(struct sfs_table *t, uint32_t block, bool keep, sfs_release_block_fn release,
	void *arg)
{
	const struct sfs_entry *e = &t->entry[block];
	if (!sfs_entry_holds(e))
		return (e->state == SFS_FREE || e->state == SFS_MAP) && release(arg, block);
	/*
	 * a stream's guarantee: that many bytes, rounded up to whole blocks, stay. The newest block may have just
	 * begun, so it does not count.
	 */
	const struct sfs_stream *s = &t->stream[e->stream];
	uint64_t after = t->entry[s->newest].block_number - e->block_number;
	uint64_t need = sfs_table_blocks_for(t, s->guarantee);
	if (keep || (need && (after <= need || !outlived(t, e, after))) ||
		!release(arg, block))
		return false;
	sfs_table_evict(t, block);
	return true;
}

void
sfs_frontier_clear(struct sfs_frontier *f, struct sfs_table *t,
	sfs_release_block_fn release, void *arg)
{
	uint32_t before = f->pending;
	while (f->pending - before < f->batch && f->ready + f->pending < f->room &&
		f->window < t->blocks) {
		uint32_t block = sfs_order_block(&t->order, f->clear);
		if (clear_block(t, block, f->keep, release, arg)) {
			t->entry[block].state = SFS_RESERVED;
			f->ring[(f->head + f->ready + f->pending++) % f->room] = f->clear;
		}
		f->high_water = PR_MAX(f->high_water, f->clear + 1);
		f->clear = (f->clear + 1) % t->blocks;
		f->window++;
	}
}

void
sfs_frontier_release_pending(struct sfs_frontier *f, uint32_t count)
{
	f->ready += count;
	f->pending -= count;
}

uint32_t
sfs_frontier_take(struct sfs_frontier *f, const struct sfs_table *t, uint64_t *generation)
{
	if (f->ready == 0)
		return SFS_NONE;
	uint32_t block = sfs_order_block(&t->order, f->ring[f->head]);
	f->head = (f->head + 1) % f->room;
	f->ready--;
	*generation = f->next_generation++;
	return block;
}

uint64_t
sfs_frontier_position(const struct sfs_frontier *f)
{
	return f->ready + f->pending ? f->ring[f->head] : f->clear;
}

void
sfs_frontier_set_durable(
	struct sfs_frontier *f, const struct sfs_table *t, uint64_t position)
{
	f->stable = position;
	f->window = (f->clear + t->blocks - position) % t->blocks;
	if (f->window == 0 && f->ready + f->pending)
		f->window = t->blocks;
}

uint64_t
sfs_frontier_limit(const struct sfs_frontier *f)
{
	return f->next_generation - 1 + f->ready + f->pending;
}
