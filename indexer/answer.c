/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/answer.h"

#include <stdlib.h>

#include "indexer/answer_end.h"
#include "indexer/query.h"
#include "indexer/query_message.h"
#include "proto/base/clock.h"
#include "proto/wire/segment.h"

#define FLUSH_NS (20 * PR_NS_PER_MS)
#define FIRST_BATCH 4096
#define GROWTH 8
#define HELD_MAX (256 * 1024) /* bytes of stretches that a batch waits for */
#define PACKETS_A_LOOK 64 /* at the clock */

struct pr_answer {
	struct pr_view *view;
	struct pr_query *query;
	bool count_only;
	struct pr_segment_builder builder;
	uint8_t *buf;
	size_t room; /* of buf */
	size_t target; /* a batch of that many bytes goes out */
	struct pr_packet
		waiting; /* found no room; its data is valid until the next query step */
	bool has_waiting, searched, last_said;
	int64_t flushed; /* monotonic */
	struct pr_held_list held, edges;
	Packrack__Held *messages;
	Packrack__Held **pointers;
	Packrack__Batch batch;
	struct pr_answer_end *end;
};

struct pr_answer *
pr_answer_create(struct pr_view *view, const Packrack__Query *query, struct pr_error *err)
{
	struct pr_answer *a = calloc(1, sizeof(*a));
	struct pr_query_spec spec;

	if (!a) {
		pr_error_set(err, "no memory for an answer");
		return NULL;
	}
	a->view = view;
	a->count_only = query->count_only;
	a->target = FIRST_BATCH;
	a->room = PR_SEGMENT_TARGET + PR_SEGMENT_HEADER;
	a->flushed = pr_now_mono();
	a->buf = malloc(a->room);
	if (!a->buf)
		pr_error_set(err, "no memory for an answer");
	else if (pr_query_from_message(query, &spec, err) == 0)
		a->query = pr_query_create(view, &spec, err);
	if (!a->query) {
		pr_answer_destroy(&a);
		return NULL;
	}
	pr_segment_begin(&a->builder, a->buf, a->room, PR_SEGMENT_MIXED);
	return a;
}

static void
free_held(struct pr_answer *a)
{
	pr_held_list_free(&a->held);
	pr_held_list_free(&a->edges);
	free(a->messages);
	free(a->pointers);
	a->messages = NULL;
	a->pointers = NULL;
}

void
pr_answer_destroy(struct pr_answer **answer)
{
	struct pr_answer *a = *answer;

	if (!a)
		return;
	free_held(a);
	pr_answer_end_destroy(&a->end);
	pr_query_destroy(&a->query);
	free(a->buf);
	free(a);
	*answer = NULL;
}

/* ---- making a batch ---- */

static void
fill_held(Packrack__Held *out, const struct pr_held *held)
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
fill_lists(struct pr_answer *a, struct pr_error *err)
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

static enum pr_answer_state
make_batch(struct pr_answer *a, struct pr_error *err)
{
	int64_t frontier;

	packrack__batch__init(&a->batch);
	if (pr_query_take_held(a->query, &a->held, &frontier, err) < 0 ||
		pr_query_take_edges(a->query, &a->edges, err) < 0 || fill_lists(a, err) < 0)
		return PR_ANSWER_ERROR;
	/* a waiting packet is still to come; and 0 would say nothing */
	if (a->has_waiting && a->waiting.otime < frontier)
		frontier = a->waiting.otime;
	a->batch.frontier = frontier == 0 ? -1 : frontier;
	a->batch.packets.len = pr_segment_seal(&a->builder);
	a->batch.packets.data = a->batch.packets.len ? a->buf : NULL;
	a->target = a->target >= PR_SEGMENT_TARGET / GROWTH ? PR_SEGMENT_TARGET
							    : a->target * GROWTH;
	a->flushed = pr_now_mono();
	return PR_ANSWER_BATCH;
}

/* What the batch before used is free again. */
static void
begin_batch(struct pr_answer *a)
{
	free_held(a);
	if (a->batch.packets.len) {
		pr_segment_begin(&a->builder, a->buf, a->room, PR_SEGMENT_MIXED);
		a->batch.packets.len = 0;
	}
}

/* A packet longer than any batch gets a batch as large as it needs. */
static int
make_room(struct pr_answer *a, const struct pr_packet *p, struct pr_error *err)
{
	size_t need = PR_SEGMENT_HEADER + pr_segment_cost(p->caplen) + 64;
	uint8_t *buf;

	if (need > a->room) {
		buf = realloc(a->buf, need);
		if (!buf)
			return pr_error_set(
				err, "no memory for a packet of %u bytes", p->caplen);
		a->buf = buf;
		a->room = need;
	}
	pr_segment_begin(&a->builder, a->buf, a->room, PR_SEGMENT_MIXED);
	return pr_segment_add(&a->builder, p)
		       ? 0
		       : pr_error_set(err, "a packet of %u bytes fits no batch", p->caplen);
}

/* 1: added; 0: a batch must go out first; -1. */
static int
add_packet(struct pr_answer *a, const struct pr_packet *p, struct pr_error *err)
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
due(const struct pr_answer *a, int64_t now)
{
	return now - a->flushed >= FLUSH_NS || pr_query_held_bytes(a->query) >= HELD_MAX;
}

static enum pr_answer_state
add_waiting(struct pr_answer *a, struct pr_error *err)
{
	int rc;

	if (!a->has_waiting)
		return PR_ANSWER_MORE;
	rc = add_packet(a, &a->waiting, err);
	if (rc < 0)
		return PR_ANSWER_ERROR;
	a->has_waiting = rc == 0;
	return rc == 0 ? make_batch(a, err) : PR_ANSWER_MORE;
}

static enum pr_answer_state
search(struct pr_answer *a, int64_t deadline, struct pr_error *err)
{
	for (unsigned i = 1;; i++) {
		int rc = pr_query_next(a->query, &a->waiting, err);
		if (rc == PR_SOURCE_ERROR)
			return PR_ANSWER_ERROR;
		if (rc == PR_SOURCE_END) {
			a->searched = true;
			return make_batch(a, err);
		}
		a->has_waiting = rc == PR_SOURCE_PACKET;
		enum pr_answer_state state = add_waiting(a, err);
		if (state != PR_ANSWER_MORE)
			return state;
		if (rc == PR_SOURCE_PACKET && i % PACKETS_A_LOOK)
			continue;
		int64_t now = pr_now_mono();
		if (due(a, now))
			return make_batch(a, err);
		if (now >= deadline)
			return PR_ANSWER_MORE;
	}
}

enum pr_answer_state
pr_answer_step(struct pr_answer *a, int64_t deadline, struct pr_error *err)
{
	enum pr_answer_state state;

	begin_batch(a);
	if (a->searched) /* the last batch is out */
		return pr_answer_end(a, err) ? PR_ANSWER_END : PR_ANSWER_ERROR;
	state = add_waiting(a, err);
	return state == PR_ANSWER_MORE ? search(a, deadline, err) : state;
}

const Packrack__Batch *
pr_answer_batch(const struct pr_answer *a)
{
	return &a->batch;
}

const Packrack__End *
pr_answer_end(struct pr_answer *a, struct pr_error *err)
{
	if (!a->end)
		a->end = pr_answer_end_create(a->view, a->query, err);
	return a->end ? pr_answer_end_message(a->end) : NULL;
}
