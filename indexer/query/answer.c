/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/query/answer.h"

#include <stdlib.h>

#include "indexer/query/answer_end.h"
#include "indexer/query/query.h"
#include "indexer/query/query_message.h"
#include "proto/base/clock.h"
#include "proto/wire/segment.h"

#define FLUSH_NS (20 * PR_NS_PER_MS)
#define FIRST_BATCH 4096
#define BATCH_ROOM (PR_SEGMENT_TARGET + PR_SEGMENT_HEADER)
#define GROWTH 8
#define HELD_MAX (256 * 1024) /* bytes of stretches that a batch waits for */
#define PACKETS_A_LOOK 64 /* at the clock */

struct pri_answer {
	struct pri_volume *view;
	struct pri_query *query;
	bool count_only;
	struct pr_segment_builder builder;
	struct pri_read_buffer buffer; /* builder's */
	struct pri_read_buffer
		*used; /* where the batch's packets are: buffer, or the query's */
	size_t target; /* a batch of that many bytes goes out */
	struct pr_packet
		waiting; /* found no room; its data is valid until the next query step */
	bool has_waiting, searched, last_said;
	int64_t flushed; /* monotonic */
	struct pri_range_list held, edges;
	Packrack__Held *messages;
	Packrack__Held **pointers;
	Packrack__Batch batch;
	struct pri_answer_end *end;
	struct pr_tally *tally; /* or NULL */
	size_t tally_at; /* how much of it was given */
	struct pr_tally_part part;
};

static void
begin_segment(struct pri_answer *a)
{
	pr_segment_begin(&a->builder, a->buffer.bytes, a->buffer.room, PR_SEGMENT_MIXED);
}

/* What is counted goes out instead of packets. */
static int
begin_tally(struct pri_answer *a, const Packrack__TallySpec *tally,
	struct pri_query_spec *spec, struct pr_error *err)
{
	if (!tally)
		return 0;
	a->count_only = true;
	a->tally = pri_tally_key_tally(tally, err);
	if (!a->tally)
		return -1;
	spec->tally = a->tally;
	spec->group = (enum pri_tally_key)tally->group;
	spec->step = tally->step;
	spec->exact = tally->exact;
	return 0;
}

struct pri_answer *
pri_answer_create(
	struct pri_volume *view, const Packrack__Query *query, struct pr_error *err)
{
	struct pri_answer *a = calloc(1, sizeof(*a));
	struct pri_query_spec spec;

	if (!a) {
		pr_error_set(err, "no memory for an answer");
		return NULL;
	}
	a->view = view;
	a->count_only = query->count_only;
	a->target = FIRST_BATCH;
	a->flushed = pr_now_mono();
	if (pri_read_buffer_grow(&a->buffer, BATCH_ROOM) < 0)
		pr_error_set(err, "no memory for an answer");
	else if (pri_query_from_message(query, &spec, err) == 0) {
		if (begin_tally(a, query->tally, &spec, err) == 0)
			a->query = pri_query_create(view, &spec, err);
		else
			pri_query_spec_free(&spec);
	}
	if (a->query)
		a->end = pri_answer_end_create(view, a->query, err);
	if (!a->end) {
		pri_answer_destroy(&a);
		return NULL;
	}
	begin_segment(a);
	return a;
}

static void
free_held(struct pri_answer *a)
{
	pri_range_list_free(&a->held);
	pri_range_list_free(&a->edges);
	free(a->messages);
	free(a->pointers);
	a->messages = NULL;
	a->pointers = NULL;
}

void
pri_answer_destroy(struct pri_answer **answer)
{
	struct pri_answer *a = *answer;

	if (!a)
		return;
	free_held(a);
	pri_answer_end_destroy(&a->end);
	pri_query_destroy(&a->query);
	pr_tally_destroy(&a->tally);
	pr_tally_part_free(&a->part);
	free(a->buffer.bytes);
	free(a);
	*answer = NULL;
}

/* ---- making a batch ---- */

static void
fill_held(Packrack__Held *out, const struct pri_range *held)
{
	packrack__held__init(out);
	out->epoch = held->epoch;
	out->link = held->link;
	out->first = held->first;
	out->last = held->last;
	out->bits.data = held->bits;
	out->bits.len = held->bits_len;
	out->first_otime = held->first_otime;
	out->last_otime = held->last_otime;
}

static int
fill_lists(struct pri_answer *a, struct pr_error *err)
{
	size_t count = a->held.count + a->edges.count;

	a->messages = calloc(count + 1, sizeof(*a->messages));
	a->pointers = calloc(count + 1, sizeof(*a->pointers));
	if (!a->messages || !a->pointers)
		return pr_error_set(err, "no memory for what is held");
	for (size_t i = 0; i < count; i++) {
		fill_held(&a->messages[i], i < a->held.count
						   ? &a->held.items[i]
						   : &a->edges.items[i - a->held.count]);
		a->pointers[i] = &a->messages[i];
	}
	a->batch.held = a->pointers;
	a->batch.n_held = a->held.count;
	a->batch.edge = a->pointers + a->held.count;
	a->batch.n_edge = a->edges.count;
	return 0;
}

static enum pri_answer_state
make_batch(struct pri_answer *a, struct pr_error *err)
{
	int64_t frontier;

	packrack__batch__init(&a->batch);
	if (pri_query_take_held(a->query, &a->held, &frontier, err) < 0 ||
		pri_query_take_edges(a->query, &a->edges, err) < 0 ||
		fill_lists(a, err) < 0)
		return PRI_ANSWER_ERROR;
	/* a waiting packet is still to come; and 0 would say nothing */
	if (a->has_waiting && a->waiting.otime < frontier)
		frontier = a->waiting.otime;
	a->batch.frontier = frontier == 0 ? -1 : frontier;
	a->batch.packets.len = pr_segment_seal(&a->builder);
	a->batch.packets.data = a->batch.packets.len ? a->buffer.bytes : NULL;
	a->used = &a->buffer;
	a->target = a->target >= PR_SEGMENT_TARGET / GROWTH ? PR_SEGMENT_TARGET
							    : a->target * GROWTH;
	a->flushed = pr_now_mono();
	return PRI_ANSWER_BATCH;
}

/* What the batch before used is free again. */
static int
begin_batch(struct pri_answer *a, struct pr_error *err)
{
	free_held(a);
	if (!a->batch.packets.len)
		return 0;
	a->batch.packets.len = 0;
	if (pri_read_buffer_grow(&a->buffer, BATCH_ROOM) < 0)
		return pr_error_set(err, "no memory for a batch");
	begin_segment(a);
	return 0;
}

/* A packet longer than any batch gets a batch as large as it needs. */
static int
make_room(struct pri_answer *a, const struct pr_packet *p, struct pr_error *err)
{
	size_t need = PR_SEGMENT_HEADER + pr_segment_cost(p->caplen) + 64;

	if (pri_read_buffer_grow(&a->buffer, need) < 0)
		return pr_error_set(err, "no memory for a packet of %u bytes", p->caplen);
	begin_segment(a);
	return pr_segment_add(&a->builder, p)
		       ? 0
		       : pr_error_set(err, "a packet of %u bytes fits no batch", p->caplen);
}

/* 1: added; 0: a batch must go out first; -1. */
static int
add_packet(struct pri_answer *a, const struct pr_packet *p, struct pr_error *err)
{
	if (a->count_only)
		return 1;
	if (a->builder.used < a->target && pr_segment_add(&a->builder, p))
		return 1;
	if (a->builder.used > PR_SEGMENT_HEADER)
		return 0;
	return make_room(a, p, err) < 0 ? -1 : 1;
}

/* ---- working ---- */

static bool
due(const struct pri_answer *a, int64_t now)
{
	return now - a->flushed >= FLUSH_NS || pri_query_held_bytes(a->query) >= HELD_MAX;
}

static enum pri_answer_state
add_waiting(struct pri_answer *a, struct pr_error *err)
{
	int rc;

	if (!a->has_waiting)
		return PRI_ANSWER_MORE;
	rc = add_packet(a, &a->waiting, err);
	if (rc < 0)
		return PRI_ANSWER_ERROR;
	a->has_waiting = rc == 0;
	return rc == 0 ? make_batch(a, err) : PRI_ANSWER_MORE;
}

/* Not among the first, small batches. */
static bool
may_hand_on(const struct pri_answer *a)
{
	return !a->count_only && a->target == PR_SEGMENT_TARGET;
}

/* BATCH: of a segment that goes out as it is, or of what must go before it. MORE: there is none. */
static enum pri_answer_state
hand_on(struct pri_answer *a, struct pr_error *err)
{
	struct pri_read_buffer *buffer;
	const uint8_t *body;
	size_t len;
	int rc;

	if (a->builder.used > PR_SEGMENT_HEADER)
		return make_batch(a, err);
	rc = pri_query_take_whole(a->query, &body, &len, &buffer, err);
	if (rc <= 0)
		return rc < 0 ? PRI_ANSWER_ERROR : PRI_ANSWER_MORE;
	if (make_batch(a, err) != PRI_ANSWER_BATCH)
		return PRI_ANSWER_ERROR;
	a->batch.packets.data = (uint8_t *)body;
	a->batch.packets.len = len;
	a->used = buffer;
	return PRI_ANSWER_BATCH;
}

static enum pri_answer_state
search(struct pri_answer *a, int64_t deadline, struct pr_error *err)
{
	for (unsigned i = 1;; i++) {
		if (may_hand_on(a) && pri_query_whole(a->query)) {
			enum pri_answer_state got = hand_on(a, err);
			if (got != PRI_ANSWER_MORE)
				return got;
		}
		int rc = pri_query_next(a->query, &a->waiting, err);
		if (rc == PR_SOURCE_ERROR)
			return PRI_ANSWER_ERROR;
		if (rc == PR_SOURCE_END) {
			a->searched = true;
			return make_batch(a, err);
		}
		a->has_waiting = rc == PR_SOURCE_PACKET;
		enum pri_answer_state state = add_waiting(a, err);
		if (state != PRI_ANSWER_MORE)
			return state;
		if (rc == PR_SOURCE_PACKET && i % PACKETS_A_LOOK)
			continue;
		int64_t now = pr_now_mono();
		if (due(a, now))
			return make_batch(a, err);
		if (now >= deadline)
			return PRI_ANSWER_MORE;
	}
}

/* What was counted, part by part. END: all of it, or there was nothing to count. */
static enum pri_answer_state
give_tally(struct pri_answer *a, struct pr_error *err)
{
	int rc = a->tally ? pr_tally_next_part(a->tally, &a->tally_at, &a->part, err) : 0;

	if (rc <= 0)
		return rc < 0 ? PRI_ANSWER_ERROR : PRI_ANSWER_END;
	packrack__batch__init(&a->batch);
	a->batch.tally = &a->part.message;
	return PRI_ANSWER_BATCH;
}

static enum pri_answer_state
give_end(struct pri_answer *a, struct pr_error *err)
{
	enum pri_answer_state state = give_tally(a, err);

	if (state != PRI_ANSWER_END)
		return state;
	return pri_answer_end(a, err) ? PRI_ANSWER_END : PRI_ANSWER_ERROR;
}

enum pri_answer_state
pri_answer_step(struct pri_answer *a, int64_t deadline, struct pr_error *err)
{
	enum pri_answer_state state;

	if (begin_batch(a, err) < 0)
		return PRI_ANSWER_ERROR;
	if (a->searched) /* the last batch is out */
		return give_end(a, err);
	state = add_waiting(a, err);
	return state == PRI_ANSWER_MORE ? search(a, deadline, err) : state;
}

const Packrack__Batch *
pri_answer_batch(const struct pri_answer *a)
{
	return &a->batch;
}

void
pri_answer_exchange(struct pri_answer *a, struct pri_read_buffer *buffer)
{
	struct pri_read_buffer mine = *a->used;

	*a->used = *buffer;
	*buffer = mine;
}

const Packrack__End *
pri_answer_end(struct pri_answer *a, struct pr_error *err)
{
	return pri_answer_end_fill(a->end, a->view, a->query, err) == 0
		       ? pri_answer_end_message(a->end)
		       : NULL;
}
