/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "indexer/offer_message.h"
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
	struct pr_duty duty;
	struct pr_summaries *summaries;
	Packrack__SummaryInfo infos[PACKETS], open[PACKETS];
	Packrack__SummaryInfo *info_list[PACKETS], *open_list[PACKETS];
	Packrack__TimeRange loss, *loss_list[1];
	Packrack__Coverage said;
};

static void
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

static void
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

static void
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
	pr_summaries_body(m->summaries, "n", &body);
	free(body.body.data);
}

/* Tells of all packets, in summaries up to some point; the bodies come, or not. */
static void
tell(struct model *m, unsigned flaw)
{
	Packrack__Coverage *c = &m->said;
	struct pr_summary_span spans[PACKETS];
	uint64_t boot, wanted[PR_SUMMARIES_WANT_MAX];
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
		pr_offer_info(&m->infos[n], &spans[n]);
		m->infos[n].number = n;
		m->info_list[n] = &m->infos[n];
	}
	c->summaries = m->info_list;
	c->n_summaries = flaw == 6 && n > 1 ? n - 1 : n; /* the last one is told of later */
	c->total = n;
	for (; from < PACKETS; from += SPAN) {
		struct pr_summary_span span;

		describe(m, from, from + SPAN, &span);
		pr_offer_info(&m->open[c->n_open], &span);
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
	ck_assert_int_eq(pr_summaries_coverage(m->summaries, "n", c, HOUR, &err), 0);
	count = pr_summaries_want(m->summaries, "n", HOUR, &boot, wanted);
	ck_assert(flaw == 3 || count == c->n_summaries); /* 3: some are recycled */
	ck_assert_uint_eq(boot, 77);
	for (size_t i = 0; i < count; i++)
		if (flaw != 8 || draw(2))
			send_body(m, (unsigned)wanted[i], &spans[wanted[i]],
				flaw == 9 && draw(2));
}

static void
begin(struct model *m, unsigned flaw)
{
	*m = (struct model){.duty = {.count = 1}};
	m->summaries = pr_summaries_create(0, &m->duty, &err);
	ck_assert_ptr_nonnull(m->summaries);
	make_packets(m);
	tell(m, flaw);
}

static bool
has_match(const struct model *m, const Packrack__Query *q, unsigned a, unsigned b)
{
	for (unsigned i = 0; i < PACKETS; i++)
		if (m->packets[i].time >= q->since && m->packets[i].time <= q->until &&
			(m->packets[i].key == a || m->packets[i].key == b))
			return true;
	return false;
}

/* What is left out holds, by its own word, each packet of the range. */
static void
check_told(struct model *m, struct pr_route *route, const Packrack__Query *q)
{
	const struct pr_completeness_options o = {
		.since = q->since, .until = q->until, .now = HOUR};
	struct pr_completeness *c = pr_completeness_create(&o, &err);
	Packrack__Completeness *out;
	uint64_t inside = 0;
	int index = pr_completeness_node(c, "n", &err);

	ck_assert_int_eq(pr_route_tell(route, "n", c, index, &err), 0);
	ck_assert_int_eq(pr_completeness_finish(c, &out, &err), 0);
	for (unsigned i = 0; i < PACKETS; i++)
		inside +=
			m->packets[i].otime >= q->since && m->packets[i].otime <= q->until;
	ck_assert_uint_ge(out->held_packets, inside);
	ck_assert_uint_eq(out->missing_packets, 0);
	ck_assert_uint_eq(out->pending_packets, 0);
	ck_assert(out->complete);
	packrack__completeness__free_unpacked(out, NULL);
	pr_completeness_destroy(&c);
}

static void
ask(struct model *m, int64_t mono, unsigned *left_out)
{
	unsigned keys[2] = {draw(KEYS + 20), draw(KEYS + 20)}; /* some that nobody has */
	uint64_t hashes[2] = {hash_of(keys[0]), hash_of(keys[1])};
	uint32_t op[] = {2, 2, 4}, left[] = {0, 1, 0}, right[] = {0, 0, 1};
	Packrack__Lookups lookups = PACKRACK__LOOKUPS__INIT, *lookup_list[] = {&lookups};
	Packrack__Program program = PACKRACK__PROGRAM__INIT, *programs[] = {&program};
	Packrack__Query q = PACKRACK__QUERY__INIT;
	char why[PR_ROUTE_WHY_MAX];
	struct pr_route route;

	lookups.n_op = lookups.n_left = lookups.n_right = 3;
	lookups.op = op;
	lookups.left = left;
	lookups.right = right;
	lookups.hash = hashes;
	lookups.n_hash = 2;
	q.since = (int64_t)draw(TIMES) - 100;
	q.until = q.since + draw(TIMES / 2);
	q.programs = programs;
	q.n_programs = 1;
	q.lookups = lookup_list;
	q.n_lookups = 1;
	ck_assert_int_eq(pr_route_begin(&route, m->summaries, &q, mono), 0);
	if (pr_route_decide(&route, "n", why)) {
		++*left_out;
		ck_assert_msg(!has_match(m, &q, keys[0], keys[1]),
			"left out, and has a match: %s", why);
		if (m->said.n_losses + m->said.n_deleted > 0)
			ck_assert(m->loss.since > q.until || m->loss.until < q.since);
		check_told(m, &route, &q);
	}
	ck_assert(!pr_route_decide(&route, "another", why));
	pr_route_end(&route);
}

START_TEST(who_has_a_match_is_asked)
{
	unsigned left_out[10] = {0};

	for (seed = 1; seed < 400; seed++) {
		uint32_t was = seed;
		unsigned flaw = seed % 10;
		struct model m;

		begin(&m, flaw);
		for (int i = 0; i < 25; i++)
			ask(&m, HOUR + 1000, &left_out[flaw]);
		pr_summaries_destroy(&m.summaries);
		seed = was;
	}
	/* 1000 each: it pays, where there is no flaw, and less where there is one */
	ck_assert_uint_gt(left_out[0], 400);
	for (unsigned i = 1; i < 10; i++)
		ck_assert_uint_lt(left_out[i], left_out[0]);
	ck_assert_uint_eq(left_out[5], 0);
	ck_assert_uint_eq(left_out[6], 0);
}
END_TEST

START_TEST(what_is_late_counts_for_nothing)
{
	unsigned left_out = 0;
	struct model m;

	seed = 3;
	begin(&m, 0);
	for (int i = 0; i < 50; i++)
		ask(&m, HOUR + PR_SUMMARIES_LATE_NS + 1, &left_out);
	ck_assert_uint_eq(left_out, 0);
	pr_summaries_destroy(&m.summaries);
}
END_TEST

START_TEST(another_boot_begins_anew)
{
	struct pr_summaries_figures f;
	unsigned left_out = 0;
	struct model m;

	seed = 4;
	begin(&m, 0);
	pr_summaries_figures(m.summaries, &f);
	ck_assert_uint_eq(f.held, PACKETS / SPAN);
	m.said.boot = 78;
	ck_assert_int_eq(pr_summaries_coverage(m.summaries, "n", &m.said, HOUR, &err), 0);
	pr_summaries_figures(m.summaries, &f);
	ck_assert_uint_eq(f.held, 0);
	ck_assert_uint_eq(f.bytes, 0);
	ck_assert_uint_eq(f.listed, PACKETS / SPAN);
	for (int i = 0; i < 50; i++)
		ask(&m, HOUR, &left_out);
	ck_assert_uint_lt(left_out, 25); /* only those before or behind all that it has */
	pr_summaries_forget(m.summaries, "n");
	ck_assert_ptr_null(pr_summaries_find(m.summaries, "n"));
	pr_summaries_destroy(&m.summaries);
}
END_TEST

/* The oldest go first, and are not asked for again while there is no room. */
START_TEST(memory_is_bounded)
{
	struct pr_summaries_figures f;
	uint64_t boot, wanted[PR_SUMMARIES_WANT_MAX];
	struct model m = {.duty = {.count = 1}};

	seed = 5;
	m.summaries = pr_summaries_create(500, &m.duty, &err);
	make_packets(&m);
	tell(&m, 0);
	pr_summaries_figures(m.summaries, &f);
	ck_assert_uint_le(f.bytes, 500);
	ck_assert_uint_gt(f.held, 1);
	ck_assert_uint_eq(f.held + f.evicted, PACKETS / SPAN);
	ck_assert_ptr_null(pr_summaries_find(m.summaries, "n")->items[0].body);
	ck_assert_ptr_nonnull(
		pr_summaries_find(m.summaries, "n")->items[PACKETS / SPAN - 1].body);
	ck_assert_uint_eq(pr_summaries_want(m.summaries, "n", HOUR, &boot, wanted), 0);
	pr_summaries_destroy(&m.summaries);
}
END_TEST

/* Duty: all agree, the load is even, and the loss of one moves only its own. */
START_TEST(duty_rotates)
{
	struct pr_duty d = {
		.mergers = {{"a", true}, {"b", true}, {"c", true}}, .count = 3, .self = 0};
	unsigned load[3] = {0}, moved = 0;

	for (int64_t i = -1000; i < 2000; i++) {
		int64_t time = i * PR_DUTY_INTERVAL_NS;
		size_t owner = pr_duty_of(&d, time), other;

		d.self = 1;
		ck_assert_uint_eq(pr_duty_of(&d, time), owner);
		ck_assert_uint_eq(pr_duty_of(&d, time + PR_DUTY_INTERVAL_NS - 1), owner);
		d.self = 0;
		load[owner]++;
		d.mergers[2].alive = false;
		other = pr_duty_of(&d, time);
		ck_assert_uint_ne(other, 2);
		moved += other != owner;
		ck_assert(other == owner || owner == 2);
		d.mergers[2].alive = true;
	}
	for (int i = 0; i < 3; i++)
		ck_assert_uint_gt(load[i], 850);
	ck_assert_uint_eq(moved, load[2]);
}
END_TEST

/* A merger that met the nodes first has all of them, until another has had their duty for a while. */
START_TEST(what_became_anothers_goes)
{
	const int64_t second = 1000000000;
	struct pr_summaries_figures f;
	char other[16] = "";
	struct model m;

	seed = 8;
	begin(&m, 0);
	m.duty = (struct pr_duty){.mergers = {{"a", true}, {other, true}}, .count = 2};
	for (int i = 0; pr_duty_of(&m.duty, 0) == 0; i++)
		snprintf(other, sizeof(other), "b%d", i);
	for (int64_t s = 0; s < 10; s++) {
		m.duty.mergers[1].alive = s != 4; /* it was late once */
		pr_summaries_coverage(m.summaries, "n", &m.said, HOUR + s * second, &err);
		pr_summaries_figures(m.summaries, &f);
		ck_assert_uint_eq(f.held, PACKETS / SPAN);
	}
	pr_summaries_coverage(m.summaries, "n", &m.said, HOUR + 11 * second, &err);
	pr_summaries_figures(m.summaries, &f);
	ck_assert_uint_eq(f.held, 0);
	ck_assert_uint_eq(f.bytes, 0);
	ck_assert_uint_eq(f.listed, PACKETS / SPAN);
	m.duty.mergers[1].alive = false;
	tell(&m, 0); /* and is asked for again */
	pr_summaries_figures(m.summaries, &f);
	ck_assert_uint_eq(f.held, PACKETS / SPAN);
	pr_summaries_destroy(&m.summaries);
}
END_TEST

static void
fill(TCase *tc)
{
	tcase_add_test(tc, who_has_a_match_is_asked);
	tcase_add_test(tc, what_is_late_counts_for_nothing);
	tcase_add_test(tc, another_boot_begins_anew);
	tcase_add_test(tc, memory_is_bounded);
	tcase_add_test(tc, duty_rotates);
	tcase_add_test(tc, what_became_anothers_goes);
}

int
main(void)
{
	return unit_run("route", fill);
}
