/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "logger/streamfs/table.h"

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
		return pr_error_set(err, "no memory for a table of %llu blocks",
			(unsigned long long)blocks);
	}
	for (uint64_t i = 0; i < blocks; i++)
		t->entry[i].prev = t->entry[i].next = t->entry[i].slot = SFS_NONE;
	return 0;
}

void
sfs_table_free(struct sfs_table *t)
{
	sfs_order_free(&t->order);
	free(t->entry);
	free(t->stream);
	t->entry = NULL;
	t->stream = NULL;
}

void
sfs_table_notify(struct sfs_table *t, uint32_t block)
{
	if (t->entry_changed)
		t->entry_changed(t->arg, block);
}

void
sfs_table_notify_stream(struct sfs_table *t, uint32_t stream)
{
	if (t->stream_changed)
		t->stream_changed(t->arg, stream);
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

void
sfs_table_begin(struct sfs_table *t, uint32_t stream, uint32_t block, uint64_t generation)
{
	struct sfs_stream *s = &t->stream[stream];
	struct sfs_entry *e = &t->entry[block];
	uint32_t before = s->newest;
	*e = (struct sfs_entry){
		.generation = generation,
		.first_sequence = s->last_sequence + 1,
		.ordinal = s->next_ordinal++,
		.min_time = INT64_MAX,
		.max_time = INT64_MIN,
		.end = SFS_BLOCK_HEADER,
		.stream = (uint16_t)stream,
		.state = SFS_OPEN,
		.slot = SFS_NONE,
	};
	chain(t, s, block);
	/* the block before last, so that whoever follows the chain finds a finished one */
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
	chain(t, s, block);
	s->bytes += e->end;
	s->last_sequence = e->first_sequence + e->records - 1;
	s->next_ordinal = e->ordinal + 1;
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
	if (min_time < e->min_time)
		e->min_time = min_time;
	if (max_time > e->max_time)
		e->max_time = max_time;
	s->last_sequence++;
	sfs_table_notify(t, block);
	sfs_table_notify_stream(t, e->stream);
}

/* Frees one block, the oldest of its stream. */
static void
drop_oldest(struct sfs_table *t, struct sfs_stream *s)
{
	uint32_t block = s->oldest;
	struct sfs_entry *e = &t->entry[block];
	if (e->records) {
		s->bytes -= e->end;
		if (e->max_time > s->evicted_until)
			s->evicted_until = e->max_time;
	}
	s->first_sequence = e->first_sequence + e->records;
	s->oldest_generation = e->generation + 1;
	s->oldest = e->next;
	s->blocks--;
	t->used--;
	if (s->oldest == SFS_NONE)
		s->newest = SFS_NONE;
	else
		t->entry[s->oldest].prev = SFS_NONE;
	e->state = SFS_FREE;
	e->prev = e->next = SFS_NONE;
}

void
sfs_table_evict(struct sfs_table *t, uint32_t block)
{
	uint32_t stream = t->entry[block].stream;
	struct sfs_stream *s = &t->stream[stream];
	uint32_t dropped = SFS_NONE;
	while (s->oldest != SFS_NONE && dropped != block) {
		dropped = s->oldest;
		drop_oldest(t, s);
		sfs_table_notify(t, dropped);
	}
	if (s->oldest == SFS_NONE)
		s->first_sequence = s->last_sequence + 1;
	else
		s->first_sequence = t->entry[s->oldest].first_sequence;
	sfs_table_notify_stream(t, stream);
}

/* Without holes, so that differences of ordinals count blocks. */
static void
number_from(struct sfs_table *t, uint32_t block)
{
	for (; block != SFS_NONE; block = t->entry[block].next) {
		struct sfs_entry *e = &t->entry[block];
		if (e->prev != SFS_NONE)
			e->ordinal = t->entry[e->prev].ordinal + 1;
		sfs_table_notify(t, block);
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
	number_from(t, e->next);
	if (s->newest != SFS_NONE)
		s->next_ordinal = t->entry[s->newest].ordinal + 1;
	s->blocks--;
	t->used--;
	if (e->records)
		s->bytes -= e->end;
}

uint64_t
sfs_table_lose(struct sfs_table *t, uint32_t block)
{
	struct sfs_entry *e = &t->entry[block];
	uint64_t records = 0;
	if (e->state == SFS_OPEN || e->state == SFS_SEALED) {
		struct sfs_stream *s = &t->stream[e->stream];
		unlink_block(t, s, block);
		records = e->records;
		if (s->oldest == SFS_NONE)
			s->first_sequence = s->last_sequence + 1;
		sfs_table_notify_stream(t, e->stream);
	}
	e->state = SFS_LOST;
	e->prev = e->next = SFS_NONE;
	sfs_table_notify(t, block);
	return records;
}

bool
sfs_table_surplus(const struct sfs_table *t, uint32_t block)
{
	const struct sfs_entry *e = &t->entry[block];
	const struct sfs_stream *s = &t->stream[e->stream];
	uint64_t after = t->entry[s->newest].ordinal - e->ordinal;
	uint64_t need = sfs_table_blocks_for(t, s->guarantee);
	return need == 0 || after > need;
}

void
sfs_stream_from_root(const struct sfs_stream_entry *in, struct sfs_stream *out)
{
	*out = (struct sfs_stream){
		.id = in->id,
		.permission = in->permission,
		.guarantee = in->guarantee,
		.created = in->created,
		.oldest = SFS_NONE,
		.newest = SFS_NONE,
		.first_sequence = in->first_sequence,
		.last_sequence = in->first_sequence - 1,
		.durable_sequence = in->durable_sequence,
		.oldest_generation = in->oldest_generation,
		.next_ordinal = in->next_ordinal,
		.evicted_until = in->evicted_until,
		.flags = in->flags,
	};
	memcpy(out->name, in->name, sizeof(out->name));
}

void
sfs_stream_to_root(const struct sfs_stream *in, const struct sfs_entry *head,
	struct sfs_stream_entry *out)
{
	*out = (struct sfs_stream_entry){
		.id = in->id,
		.permission = in->permission,
		.guarantee = in->guarantee,
		.created = in->created,
		.oldest_generation = in->oldest_generation,
		.first_sequence = in->first_sequence,
		.evicted_until = in->evicted_until,
		.durable_sequence = in->durable_sequence,
		.next_ordinal = in->next_ordinal,
		.flags = (uint32_t)in->flags,
	};
	memcpy(out->name, in->name, sizeof(out->name));
	if (!head)
		return;
	out->head_block = in->newest;
	out->head_generation = head->generation;
	out->head_end = head->end;
	out->head_records = head->records;
	out->head_min = head->min_time;
	out->head_max = head->max_time;
}
