/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "indexer/query/answer.h"
#include "indexer/filter/filter.h"
#include "indexer/flows/flow_parts.h"
#include "proto/base/clock.h"
#include "tests/unit/query_volume.h"
#include "tests/unit/unit.h"

/* Questions, and their answers held against the model: packets, what is told to be held, edges, counts. */

struct question {
	int64_t since, until;
	const char *filter, *link;
	uint64_t limit;
	bool parts; /* of flows; without a limit */
};

static bool
expected(const struct question *q, const struct pr_bpf_set *programs,
	const struct pr_packet *p)
{
	if (p->time < q->since || p->time > q->until || !pr_bpf_set_match(programs, p))
		return false;
	return !q->link ||
	       (p->link == 0) == (!strcmp(q->link, "0") || !strcmp(q->link, "tap0"));
}

static bool
holds(const Packrack__Held *h, const struct pr_packet *p)
{
	uint64_t at = p->seq - h->first;

	if (h->epoch != p->epoch || h->link != p->link || p->seq < h->first ||
		p->seq > h->last)
		return false;
	return !h->bits.len || h->bits.data[at / 8] >> at % 8 & 1;
}

struct result {
	uint64_t packets, held, lower[EPOCHS + 1][LINKS], upper[EPOCHS + 1][LINKS];
	size_t next; /* in the model */
	int64_t frontier;
	struct pri_flow_table *flows; /* of parts */
	uint64_t flow_sum; /* of all flows that have ended */
	int64_t last; /* otime of the last frame of parts */
	uint64_t batches, whole; /* whole: segments as they lie in the volume */
};

static uint64_t
count_held(const Packrack__Held *h)
{
	uint64_t count = 0;

	if (!h->bits.len)
		return h->last - h->first + 1;
	for (size_t i = 0; i < h->bits.len; i++)
		count += (uint64_t)__builtin_popcount(h->bits.data[i]);
	return count;
}

static bool
told_rightly(const struct question *q, const Packrack__Held *h, const struct pr_packet *p,
	int64_t frontier)
{
	return p->otime >= q->since && p->otime <= q->until && p->otime >= h->first_otime &&
	       p->otime <= h->last_otime && p->otime >= frontier;
}

/* Bits are right if each seq of the model is held, and as many are held as the model has. */
static void
check_held(const struct question *q, struct result *r, const Packrack__Batch *batch)
{
	for (size_t i = 0; i < batch->n_held; i++) {
		const Packrack__Held *h = batch->held[i];
		uint64_t found = 0;
		for (size_t j = 0; j < model_count; j++)
			if (holds(h, &model[j].p)) {
				unit_must(told_rightly(q, h, &model[j].p, r->frontier));
				found++;
			}
		ck_assert_uint_eq(found, count_held(h));
		r->held += found;
	}
	for (size_t i = 0; i < batch->n_edge; i++) {
		const Packrack__Held *e = batch->edge[i];
		uint64_t *at = e->first_otime < q->since ? &r->lower[e->epoch][e->link]
							 : &r->upper[e->epoch][e->link];
		ck_assert_uint_eq(e->first, e->last);
		ck_assert_uint_eq(*at, 0);
		*at = e->first;
	}
}

static bool
same(const struct pr_packet *p, const struct pr_packet *sought)
{
	return pr_packet_compare(p, sought) == 0 && p->time == sought->time &&
	       p->len == sought->len && p->caplen == sought->caplen &&
	       memcmp(p->data, sought->data, p->caplen) == 0;
}

static uint64_t
hash_of(uint64_t hash, const void *from, size_t len)
{
	for (size_t i = 0; i < len; i++)
		hash = (hash ^ ((const uint8_t *)from)[i]) * 1099511628211u;
	return hash;
}

/* The order in which flows end does not matter. */
static int
add_flow(void *arg, const struct pri_flow *flow, struct pr_error *e)
{
	uint64_t hash = hash_of(14695981039346656037u, &flow->key, sizeof(flow->key));

	(void)e;
	for (int i = 0; i < 2; i++)
		hash = hash_of(hash, &flow->side[i],
			offsetof(struct pri_flow_side, icmp_code) + 1);
	hash = hash_of(hash, &flow->last_syn, sizeof(flow->last_syn));
	*(uint64_t *)arg += 2 * hash + flow->originator;
	return 0;
}

/* Frames come in order, behind the watermark. */
static void
check_parts(struct result *r, const struct pr_packet *p)
{
	unit_must(p->flags & PR_PACKET_PARTS);
	unit_must(p->otime >= r->frontier && p->otime >= r->last);
	r->last = p->otime;
	unit_must(pri_flow_table_packet(r->flows, p, &err) == 0);
	r->packets = pri_flow_table_figures(r->flows)->packets;
}

/* The flows are those of the packets that match. */
static void
check_flows(const struct question *q, const struct pr_bpf_set *programs, struct result *r)
{
	const struct pri_flow_limits limits = {.flows = 0};
	uint64_t sum = 0;
	struct pri_flow_table *one = pri_flow_table_create(&limits, add_flow, &sum, &err);

	for (size_t i = 0; i < model_count; i++)
		if (expected(q, programs, &model[i].p))
			unit_must(pri_flow_table_packet(one, &model[i].p, &err) == 0);
	unit_must(pri_flow_table_advance(one, PRI_FLOW_NEVER, &err) == 0);
	unit_must(pri_flow_table_advance(r->flows, PRI_FLOW_NEVER, &err) == 0);
	ck_assert_uint_eq(r->flow_sum, sum);
	ck_assert_uint_eq(pri_flow_table_figures(r->flows)->not_ip,
		pri_flow_table_figures(one)->not_ip);
	pri_flow_table_destroy(&one);
	pri_flow_table_destroy(&r->flows);
}

static void
check_packets(const struct question *q, const struct pr_bpf_set *programs, struct result *r,
	const Packrack__Batch *batch)
{
	struct pr_segment_reader reader;
	struct pr_packet p;
	int rc;

	if (!batch->packets.len)
		return;
	ck_assert_msg(pr_segment_open(
			      &reader, batch->packets.data, batch->packets.len, &err) == 0,
		"%s", err.text);
	r->whole += !(reader.header.flags & PR_SEGMENT_MIXED);
	while ((rc = pr_segment_next(&reader, &p, &err)) == 1) {
		if (q->parts) {
			check_parts(r, &p);
			continue;
		}
		while (r->next < model_count && !expected(q, programs, &model[r->next].p))
			r->next++;
		unit_must(r->next < model_count && same(&p, &model[r->next].p));
		unit_must(p.otime >= r->frontier);
		r->next++;
		r->packets++;
	}
	ck_assert_int_eq(rc, 0);
}

static void
check_edges(const struct question *q, const struct result *r)
{
	uint64_t lower[EPOCHS + 1][LINKS] = {{0}}, upper[EPOCHS + 1][LINKS] = {{0}};

	for (size_t i = 0; i < model_count; i++) {
		const struct pr_packet *p = &model[i].p;
		uint64_t *low = &lower[p->epoch][p->link], *up = &upper[p->epoch][p->link];
		if (p->otime < q->since && p->seq > *low)
			*low = p->seq;
		if (p->otime > q->until && (!*up || p->seq < *up))
			*up = p->seq;
	}
	if (q->link)
		return;
	ck_assert_mem_eq(lower, r->lower, sizeof(lower));
	ck_assert_mem_eq(upper, r->upper, sizeof(upper));
}

static uint64_t
expected_count(const struct question *q, const struct pr_bpf_set *programs, bool held)
{
	uint64_t count = 0;

	for (size_t i = 0; i < model_count; i++) {
		const struct pr_packet *p = &model[i].p;
		count += held ? p->otime >= q->since && p->otime <= q->until &&
					 (!q->link ||
						 expected(&(struct question){PR_TIME_MIN,
								  PR_TIME_MAX, "", q->link,
								  0, false},
							 &(struct pr_bpf_set){0}, p))
			      : expected(q, programs, p);
	}
	return count;
}

static uint64_t
ask(struct pri_volume *view, const struct question *q)
{
	static const uint16_t types[] = {1};
	Packrack__Query query = PACKRACK__QUERY__INIT;
	struct pr_bpf_set programs = {0};
	struct result r = {.frontier = PR_TIME_MIN, .last = PR_TIME_MIN};
	struct pri_answer *a;
	const Packrack__End *end;
	enum pri_answer_state state;

	ck_assert_int_eq(
		pri_filter_compile_all(types, 1, q->filter, false, &programs, &err), 0);
	ck_assert_int_eq(pri_query_set_programs(&query, &programs, &err), 0);
	query.since = q->since;
	query.until = q->until;
	query.limit = q->limit;
	query.link = (char *)(q->link ? q->link : "");
	query.fold_flows = q->parts;
	r.flows = pri_flow_table_create(
		&(struct pri_flow_limits){.flows = 0}, add_flow, &r.flow_sum, &err);
	a = pri_answer_create(view, &query, &err);
	ck_assert_msg(a != NULL, "%s", err.text);
	while ((state = pri_answer_step(a, pr_now_mono() + PR_NS_PER_MS, &err)) !=
		PRI_ANSWER_END) {
		ck_assert_msg(state != PRI_ANSWER_ERROR, "%s", err.text);
		if (state != PRI_ANSWER_BATCH)
			continue;
		check_packets(q, &programs, &r, pri_answer_batch(a));
		check_held(q, &r, pri_answer_batch(a));
		r.frontier = pri_answer_batch(a)->frontier;
		r.batches++;
	}
	end = pri_answer_end(a, &err);
	ck_assert_uint_eq(end->matched, r.packets);
	ck_assert_uint_eq(end->corrupt_records, 0);
	if (q->limit && q->limit <= expected_count(q, &programs, false)) {
		ck_assert_uint_eq(r.packets, q->limit);
		ck_assert(end->limit_reached);
	} else {
		ck_assert_uint_eq(r.packets, expected_count(q, &programs, false));
		ck_assert_uint_eq(r.held, expected_count(q, &programs, true));
		ck_assert_int_eq(r.frontier, PR_TIME_MAX);
		check_edges(q, &r);
	}
	if (q->parts)
		check_flows(q, &programs, &r);
	pri_flow_table_destroy(&r.flows);
	pri_answer_destroy(&a);
	pri_query_message_free(&query);
	pr_bpf_set_free(&programs);
	return r.whole;
}
