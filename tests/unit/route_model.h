/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "indexer/summary_announcer.h"
#include "merger/route.h"
#include "tests/unit/draw.h"
#include "tests/unit/unit.h"

/*
 * Nodes of a model, whose packets are (time, key), in summaries or not, told of or not. Whatever the
 * node told, in whatever state the merger is: a node that has a packet which matches is asked, unless
 * that packet came after it had told last.
 */
#define PACKETS 60
#define SPAN 12 /* packets of a summary */
#define KEYS 40
#define TIMES 1000
#define HOUR INT64_C(3600000000000)

static struct pr_error err;

struct packet {
	int64_t time, otime;
	unsigned key;
};

struct model {
	struct packet packets[PACKETS];
	struct prm_ownership duty;
	struct prm_summaries *summaries;
	Packrack__SummaryInfo infos[PACKETS], open[PACKETS];
	Packrack__SummaryInfo *info_list[PACKETS], *open_list[PACKETS];
	Packrack__TimeRange loss, *loss_list[1];
	Packrack__Coverage said;
};

static inline void
make_packets(struct model *m)
{
	int64_t otime = 0;

	for (unsigned i = 0; i < PACKETS; i++) {
		struct packet *p = &m->packets[i];

		p->time = (int64_t)i * TIMES / PACKETS;
		if (draw(10) == 0)
			p->time -= draw(200); /* a stamp that steps back keeps its place */
		if (p->time > otime)
			otime = p->time;
		p->otime = otime;
		p->key = draw(KEYS);
	}
}

static inline void
describe(const struct model *m, unsigned from, unsigned to, struct pr_summary_span *s)
{
	*s = (struct pr_summary_span){.first_sequence = from + 1,
		.segments = to - from,
		.link = 1,
		.epoch = 5,
		.first_seq = from + 1,
		.last_seq = to,
		.packets = to - from,
		.first_otime = m->packets[from].otime,
		.last_otime = m->packets[to - 1].otime,
		.min_time = INT64_MAX,
		.max_time = INT64_MIN};
	for (unsigned i = from; i < to; i++) {
		if (m->packets[i].time < s->min_time)
			s->min_time = m->packets[i].time;
		if (m->packets[i].time > s->max_time)
			s->max_time = m->packets[i].time;
	}
}

static inline void
send_body(
	struct model *m, unsigned number, const struct pr_summary_span *span, bool damaged)
{
	const struct pr_summary_run run = {.first = span->first_seq,
		.last = span->last_seq,
		.first_otime = span->first_otime,
		.last_otime = span->last_otime};
	Packrack__Summary body = PACKRACK__SUMMARY__INIT;
	uint64_t hashes[PACKETS];
	size_t count = 0;

	for (uint64_t i = span->first_seq; i <= span->last_seq; i++)
		hashes[count++] = hash_of(m->packets[i - 1].key);
	body.boot = m->said.boot;
	body.number = number;
	body.body.data = malloc(pr_summary_size(count, &run, 1));
	body.body.len =
		pr_summary_write(span, hashes, count, &run, 1, 1000, body.body.data);
	if (damaged)
		body.body.data[draw((unsigned)body.body.len)] ^= 0x10;
	prm_summaries_body(m->summaries, "n", &body);
	free(body.body.data);
}

/* Tells of all packets, in summaries up to some point; the bodies come, or not. */
static inline void
tell(struct model *m, unsigned flaw)
{
	Packrack__Coverage *c = &m->said;
	struct pr_summary_span spans[PACKETS];
	uint64_t boot, wanted[PRM_SUMMARIES_WANT_MAX];
	unsigned from = 0, end = flaw == 1 ? SPAN * (1 + draw(4)) : PACKETS, n = 0;
	size_t count;

	packrack__coverage__init(c);
	c->boot = 77;
	c->settled_until = flaw == 2 ? draw(TIMES) : INT64_MAX;
	c->evicted_until = flaw == 3 ? draw(TIMES) : INT64_MIN;
	c->ledgers_until = flaw == 4 ? draw(TIMES) : INT64_MIN;
	c->cluster = (char *)(draw(2) ? "rack" : "");
	c->text = (char *)(flaw == 5 ? "it does not know" : "");
	for (; from < end; from += SPAN, n++) {
		describe(m, from, from + SPAN, &spans[n]);
		pri_announcer_info(&m->infos[n], &spans[n]);
		m->infos[n].number = n;
		m->infos[n].linktype = flaw == 1 ? draw(2) * 2 : 2;
		m->info_list[n] = &m->infos[n];
	}
	c->summaries = m->info_list;
	c->n_summaries = flaw == 6 && n > 1 ? n - 1 : n; /* the last one is told of later */
	c->total = n;
	for (; from < PACKETS; from += SPAN) {
		struct pr_summary_span span;

		describe(m, from, from + SPAN, &span);
		pri_announcer_info(&m->open[c->n_open], &span);
		m->open_list[c->n_open] = &m->open[c->n_open];
		c->n_open++;
	}
	c->open = m->open_list;
	if (flaw == 7) {
		packrack__time_range__init(&m->loss);
		m->loss.since = draw(TIMES);
		m->loss.until = m->loss.since + draw(100);
		m->loss_list[0] = &m->loss;
		/* lost or deleted: no summary tells */
		if (draw(2)) {
			c->losses = m->loss_list;
			c->n_losses = 1;
		} else {
			c->deleted = m->loss_list;
			c->n_deleted = 1;
		}
	}
	ck_assert_int_eq(prm_summaries_coverage(m->summaries, "n", c, HOUR, &err), 0);
	count = prm_summaries_want(m->summaries, "n", HOUR, &boot, wanted);
	ck_assert(flaw == 3 || count == c->n_summaries); /* 3: some are recycled */
	ck_assert_uint_eq(boot, 77);
	for (size_t i = 0; i < count; i++)
		if (flaw != 8 || draw(2))
			send_body(m, (unsigned)wanted[i], &spans[wanted[i]],
				flaw == 9 && draw(2));
}

static inline void
begin(struct model *m, unsigned flaw)
{
	*m = (struct model){.duty = {.count = 1}};
	m->summaries = prm_summaries_create(0, &m->duty, &err);
	ck_assert_ptr_nonnull(m->summaries);
	make_packets(m);
	tell(m, flaw);
}

static inline bool
has_match(const struct model *m, const Packrack__Query *q, unsigned a, unsigned b)
{
	for (unsigned i = 0; i < PACKETS; i++)
		if (m->packets[i].time >= q->since && m->packets[i].time <= q->until &&
			(m->packets[i].key == a || m->packets[i].key == b))
			return true;
	return false;
}

/* What is left out holds, by its own word, each packet of the range. */
static inline void
check_told(struct model *m, struct prm_route *route, const Packrack__Query *q)
{
	const struct prm_completeness_options o = {
		.since = q->since, .until = q->until, .now = HOUR};
	struct prm_completeness *c = prm_completeness_create(&o, &err);
	Packrack__Completeness *out;
	uint64_t inside = 0;
	int index = prm_completeness_node(c, "n", &err);

	ck_assert_int_eq(prm_route_tell(route, "n", c, index, &err), 0);
	ck_assert_int_eq(prm_completeness_finish(c, &out, &err), 0);
	for (unsigned i = 0; i < PACKETS; i++)
		inside +=
			m->packets[i].otime >= q->since && m->packets[i].otime <= q->until;
	ck_assert_uint_ge(out->held_packets, inside);
	ck_assert_uint_eq(out->missing_packets, 0);
	ck_assert_uint_eq(out->pending_packets, 0);
	/* no ledger says more */
	ck_assert(!out->n_missing && !out->n_evicted);
	packrack__completeness__free_unpacked(out, NULL);
	prm_completeness_destroy(&c);
}

static inline void
ask(struct model *m, int64_t mono, unsigned *left_out)
{
	unsigned keys[2] = {draw(KEYS + 20), draw(KEYS + 20)}; /* some that nobody has */
	uint64_t hashes[2] = {hash_of(keys[0]), hash_of(keys[1])};
	uint32_t op[] = {2, 2, 4}, left[] = {0, 1, 0}, right[] = {0, 0, 1};
	uint32_t anything = 1, none = 0;
	Packrack__Lookups lookups = PACKRACK__LOOKUPS__INIT, wlan = PACKRACK__LOOKUPS__INIT,
			  *lookup_list[] = {&wlan, &lookups};
	Packrack__Program program = PACKRACK__PROGRAM__INIT,
			  *programs[] = {&program, &program};
	Packrack__Query q = PACKRACK__QUERY__INIT;
	char why[PRM_ROUTE_WHY_MAX];
	struct prm_route route;

	wlan.linktype = 105; /* of another node: there anything may match */
	wlan.n_op = wlan.n_left = wlan.n_right = 1;
	wlan.op = &anything;
	wlan.left = wlan.right = &none;
	lookups.linktype = 1;
	lookups.n_op = lookups.n_left = lookups.n_right = 3;
	lookups.op = op;
	lookups.left = left;
	lookups.right = right;
	lookups.hash = hashes;
	lookups.n_hash = 2;
	q.since = (int64_t)draw(TIMES) - 100;
	q.until = q.since + draw(TIMES / 2);
	q.programs = programs;
	q.n_programs = 2;
	q.lookups = lookup_list;
	q.n_lookups = 2;
	ck_assert_int_eq(prm_route_begin(&route, m->summaries, &q, mono), 0);
	if (prm_route_decide(&route, "n", why)) {
		++*left_out;
		ck_assert_msg(!has_match(m, &q, keys[0], keys[1]),
			"left out, and has a match: %s", why);
		if (m->said.n_losses + m->said.n_deleted > 0)
			ck_assert(m->loss.since > q.until || m->loss.until < q.since);
		check_told(m, &route, &q);
	}
	ck_assert(!prm_route_decide(&route, "another", why));
	prm_route_end(&route);
}
