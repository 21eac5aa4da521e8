/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "merger/completeness.h"

#define NOW INT64_C(1000000000000000000)

static struct pr_completeness *
make(int64_t since, int64_t until, size_t sweep)
{
	struct pr_completeness_options o = {
		.since = since, .until = until, .now = NOW, .sweep_bytes = sweep};
	struct pr_completeness *c = pr_completeness_create(&o, NULL);

	ck_assert_ptr_nonnull(c);
	return c;
}

static void
batch_held(struct pr_completeness *c, int node, uint32_t link, uint64_t first,
	uint64_t last, int64_t t0, int64_t t1, const char *bits, int64_t frontier)
{
	Packrack__Held h = PACKRACK__HELD__INIT, *list = &h;
	Packrack__Batch b = PACKRACK__BATCH__INIT;
	struct pr_error err = {""};

	h.epoch = 7;
	h.link = link;
	h.first = first;
	h.last = last;
	h.first_otime = t0;
	h.last_otime = t1;
	if (bits) {
		h.bits.data = (uint8_t *)bits;
		h.bits.len = (size_t)(last - first) / 8 + 1;
	}
	b.held = &list;
	b.n_held = 1;
	b.frontier = frontier;
	ck_assert_msg(pr_completeness_batch(c, node, &b, &err) == 0, "%s", err.text);
}

static void
end_with(struct pr_completeness *c, int node, Packrack__Loss *loss,
	Packrack__Ledger *ledger, Packrack__Evicted *evicted)
{
	Packrack__End end = PACKRACK__END__INIT;
	struct pr_error err = {""};

	end.losses = &loss;
	end.n_losses = loss ? 1 : 0;
	end.ledgers = &ledger;
	end.n_ledgers = ledger ? 1 : 0;
	end.evicted = &evicted;
	end.n_evicted = evicted ? 1 : 0;
	ck_assert_msg(pr_completeness_end(c, node, &end, &err) == 0, "%s", err.text);
}

static Packrack__Completeness *
finish(struct pr_completeness *c)
{
	Packrack__Completeness *out;
	struct pr_error err = {""};

	ck_assert_msg(pr_completeness_finish(c, &out, &err) == 0, "%s", err.text);
	pr_completeness_destroy(&c);
	return out;
}

static void
out_free(Packrack__Completeness *out)
{
	packrack__completeness__free_unpacked(out, NULL);
}

static Packrack__Ledger
ledger(uint64_t last_seq, int64_t last_otime, int64_t said_until, bool ended)
{
	Packrack__Ledger l = PACKRACK__LEDGER__INIT;

	l.epoch = 7;
	l.last_seq = last_seq;
	l.last_otime = last_otime;
	l.said_until = said_until;
	l.ended = ended;
	return l;
}

static Packrack__Loss
loss_of(uint64_t first, uint64_t last, uint64_t count, int64_t t0, int64_t t1)
{
	Packrack__Loss l = PACKRACK__LOSS__INIT;

	l.epoch = 7;
	l.first_seq = first;
	l.last_seq = last;
	l.count = count;
	l.first_time = t0;
	l.last_time = t1;
	l.reason = (char *)"switch";
	return l;
}

START_TEST(test_whole)
{
	Packrack__Ledger l = ledger(20, 200, 0, true);
	struct pr_completeness *c = make(INT64_MIN, INT64_MAX, 0);
	Packrack__Completeness *out;

	pr_completeness_node(c, "a", NULL);
	pr_completeness_node(c, "b", NULL);
	batch_held(c, 0, 0, 1, 19, 10, 190, "\x55\x55\x05", 0);
	batch_held(c, 1, 0, 2, 20, 20, 200, "\x55\x55\x05", 0);
	end_with(c, 0, NULL, &l, NULL);
	end_with(c, 1, NULL, &l, NULL);
	out = finish(c);
	ck_assert(out->complete);
	ck_assert_uint_eq(out->held_packets, 20);
	ck_assert_uint_eq(out->missing_packets, 0);
	ck_assert_uint_eq(out->n_nodes, 2);
	out_free(out);
}
END_TEST

START_TEST(test_loss_explains)
{
	Packrack__Ledger l = ledger(10, 100, 0, true);
	Packrack__Loss loss = loss_of(4, 5, 2, 41, 51);
	struct pr_completeness *c = make(INT64_MIN, INT64_MAX, 0);
	Packrack__Completeness *out;

	pr_completeness_node(c, "a", NULL);
	batch_held(c, 0, 0, 1, 10, 10, 100, "\xe7\x02", 0);
	end_with(c, 0, &loss, &l, NULL);
	out = finish(c);
	ck_assert(!out->complete);
	ck_assert_uint_eq(out->missing_packets, 3);
	ck_assert_uint_eq(out->n_missing, 2);
	ck_assert_str_eq(out->missing[1]->reason, "switch");
	ck_assert_str_eq(out->missing[1]->node, "a");
	ck_assert_uint_eq(out->missing[1]->first_seq, 4);
	ck_assert_int_eq(out->missing[1]->first_time, 41);
	ck_assert_str_eq(out->missing[0]->reason, PR_MISSING_UNKNOWN);
	ck_assert_uint_eq(out->missing[0]->first_seq, 9);
	ck_assert_int_eq(out->missing[0]->first_time, 10);
	ck_assert_int_eq(out->missing[0]->last_time, 100);
	out_free(out);
}
END_TEST

/* Identical frames: 2 of 3..8 are missing, whichever the node called so. */
START_TEST(test_loss_without_choice)
{
	Packrack__Ledger l = ledger(10, 100, 0, true);
	Packrack__Loss loss = loss_of(3, 8, 2, 30, 80);
	struct pr_completeness *c = make(INT64_MIN, INT64_MAX, 0);
	Packrack__Completeness *out;

	pr_completeness_node(c, "a", NULL);
	batch_held(c, 0, 0, 1, 10, 10, 100, "\x6f\x03", 0); /* not 5, 8 */
	end_with(c, 0, &loss, &l, NULL);
	out = finish(c);
	ck_assert_uint_eq(out->missing_packets, 2);
	ck_assert_uint_eq(out->n_missing, 2);
	ck_assert_uint_eq(out->missing[0]->first_seq, 5);
	ck_assert_uint_eq(out->missing[1]->first_seq, 8);
	ck_assert_uint_eq(out->missing[1]->last_seq, 8);
	ck_assert_uint_eq(out->missing[1]->among_first, 3);
	ck_assert_uint_eq(out->missing[1]->among_last, 8);
	out_free(out);
}
END_TEST

/* Lost before the range, as its time tells: nothing is missing from the answer. */
START_TEST(test_loss_outside)
{
	Packrack__Ledger l = ledger(10, 100, 0, true);
	Packrack__Loss loss = loss_of(3, 3, 1, 30, 30);
	struct pr_completeness *c = make(40, INT64_MAX, 0);
	Packrack__Held h = PACKRACK__HELD__INIT, *list = &h;
	Packrack__Batch b = PACKRACK__BATCH__INIT;
	Packrack__Completeness *out;

	pr_completeness_node(c, "a", NULL);
	h.epoch = 7;
	h.first = h.last = 2;
	h.first_otime = h.last_otime = 20;
	b.edge = &list;
	b.n_edge = 1;
	ck_assert_int_eq(pr_completeness_batch(c, 0, &b, NULL), 0);
	batch_held(c, 0, 0, 4, 10, 40, 100, NULL, 0);
	end_with(c, 0, &loss, &l, NULL);
	out = finish(c);
	ck_assert(out->complete);
	ck_assert_uint_eq(out->held_packets, 7);
	out_free(out);
}
END_TEST

static void
batch_edge(struct pr_completeness *c, int node, uint64_t seq, int64_t time)
{
	Packrack__Held h = PACKRACK__HELD__INIT, *list = &h;
	Packrack__Batch b = PACKRACK__BATCH__INIT;
	struct pr_error err = {""};

	h.epoch = 7;
	h.first = h.last = seq;
	h.first_otime = h.last_otime = time;
	b.edge = &list;
	b.n_edge = 1;
	ck_assert_msg(pr_completeness_batch(c, node, &b, &err) == 0, "%s", err.text);
}

/* A stretch that reaches beyond the range says of a hole in it no more than where it is. */
START_TEST(test_edges_bound_what_is_missing)
{
	struct pr_completeness *c = make(1000, 2000, 0);
	/* 5..25 without 7, 9..12, 18..21, 23 */
	const char bits[] = {0x0b, 0x1f, 0x1a};
	Packrack__Completeness *out;

	ck_assert_int_eq(pr_completeness_node(c, "a", NULL), 0);
	ck_assert_int_eq(pr_completeness_node(c, "b", NULL), 1);
	batch_edge(c, 1, 10, 999);
	batch_edge(c, 1, 20, 2001);
	batch_edge(c, 1, 3, 100);
	batch_held(c, 0, 0, 5, 25, 900, 2100, bits, INT64_MAX);
	pr_completeness_loose(c);
	end_with(c, 0, NULL, NULL, NULL);
	end_with(c, 1, NULL, NULL, NULL);
	out = finish(c);
	ck_assert_uint_eq(out->missing_packets, 4);
	ck_assert_uint_eq(out->n_missing, 2);
	ck_assert_uint_eq(out->missing[0]->first_seq, 11);
	ck_assert_uint_eq(out->missing[0]->last_seq, 12);
	ck_assert_uint_eq(out->missing[1]->first_seq, 18);
	ck_assert_uint_eq(out->missing[1]->last_seq, 19);
	ck_assert_uint_eq(out->held_packets, 5);
	ck_assert(out->held_at_most);
	out_free(out);
}
END_TEST

START_TEST(test_tail)
{
	Packrack__Ledger dead = ledger(10, 100, NOW - INT64_C(60000000000), false);
	Packrack__Ledger live = ledger(10, 100, NOW - 1, false);
	Packrack__Ledger behind = ledger(8, 80, NOW - 2, false);

	for (int i = 0; i < 2; i++) {
		struct pr_completeness *c = make(INT64_MIN, INT64_MAX, 0);
		Packrack__Completeness *out;

		pr_completeness_node(c, "a", NULL);
		pr_completeness_node(c, "b", NULL);
		batch_held(c, 0, 0, 1, 8, 10, 80, NULL, 0);
		end_with(c, 0, NULL, i ? &live : &dead, NULL);
		end_with(c, 1, NULL, i ? &behind : &dead, NULL);
		out = finish(c);
		ck_assert(!out->complete);
		ck_assert_uint_eq(out->missing_packets, i ? 0 : 2);
		ck_assert_uint_eq(out->pending_packets, i ? 2 : 0);
		if (!i)
			ck_assert_str_eq(out->missing[0]->reason, PR_MISSING_UNDELIVERED);
		out_free(out);
	}
}
END_TEST

/* A node may know of a loss before any MARK declares its packets, and the dispatcher die then. */
START_TEST(test_loss_beyond_ledger)
{
	for (int with_ledger = 0; with_ledger < 2; with_ledger++) {
		Packrack__Ledger l = ledger(10, 100, 0, false);
		Packrack__Loss loss = loss_of(11, 12, 2, 110, 120);
		struct pr_completeness *c = make(0, INT64_MAX, 0);
		Packrack__Completeness *out;

		pr_completeness_node(c, "a", NULL);
		batch_held(c, 0, 0, 1, 10, 10, 100, NULL, 0);
		end_with(c, 0, &loss, with_ledger ? &l : NULL, NULL);
		out = finish(c);
		ck_assert(!out->complete);
		ck_assert_uint_eq(out->missing_packets, 2);
		ck_assert_str_eq(out->missing[0]->reason, "switch");
		out_free(out);
	}
}
END_TEST

/* The same of a link of which nothing else is known, and one after the range's end. */
START_TEST(test_loss_alone)
{
	Packrack__Loss loss = loss_of(1, 2, 2, 110, 120);
	struct pr_completeness *c = make(100, 200, 0);
	Packrack__Completeness *out;

	pr_completeness_node(c, "a", NULL);
	end_with(c, 0, &loss, NULL, NULL);
	out = finish(c);
	ck_assert(!out->complete);
	ck_assert_uint_eq(out->missing_packets, 2);
	out_free(out);
	c = make(0, 100, 0);
	pr_completeness_node(c, "a", NULL);
	end_with(c, 0, &loss, NULL, NULL);
	out = finish(c);
	ck_assert(out->complete);
	out_free(out);
}
END_TEST

/* What was moved leaves an answer complete where the other place has it, and is said where it has not. */
START_TEST(test_moved)
{
	for (int gone = 0; gone < 3; gone++) {
		Packrack__Deleted d = PACKRACK__DELETED__INIT;
		Packrack__Evicted e = PACKRACK__EVICTED__INIT;
		Packrack__Ledger l = ledger(10, 100, 0, true);
		struct pr_completeness *c = make(0, INT64_MAX, 0);
		Packrack__Completeness *out;

		d.by = (char *)"ann";
		d.until = 60;
		d.moved_to = (char *)(gone == 2 ? "" : "b");
		e.epoch = 7;
		e.last_seq = 6;
		e.until = 60;
		e.deleted = &d;
		pr_completeness_node(c, "a", NULL);
		pr_completeness_node(c, "b", NULL);
		batch_held(c, 1, 0, gone == 1 ? 2 : 1, 6, gone == 1 ? 20 : 10, 60, NULL, 0);
		batch_held(c, 0, 0, 7, 10, 70, 100, NULL, 0);
		end_with(c, 1, NULL, NULL, NULL);
		end_with(c, 0, NULL, &l, &e);
		out = finish(c);
		ck_assert_int_eq(out->complete, gone == 0);
		ck_assert_uint_eq(out->missing_packets, 0);
		ck_assert_uint_eq(out->n_evicted, gone ? 1 : 0);
		if (gone)
			ck_assert_str_eq(out->evicted[0]->deleted->by, "ann");
		out_free(out);
	}
}
END_TEST

/* Of some nodes: what none of them knows of lies on others; what they lost is missing. */
START_TEST(test_part)
{
	for (int part = 0; part < 2; part++) {
		struct pr_completeness_options o = {.until = INT64_MAX, .part = part > 0};
		Packrack__Ledger l = ledger(10, 100, 0, true);
		Packrack__Loss loss = loss_of(4, 4, 1, 40, 40);
		struct pr_completeness *c = pr_completeness_create(&o, NULL);
		Packrack__Completeness *out;

		pr_completeness_node(c, "a", NULL);
		batch_held(c, 0, 0, 1, 2, 10, 20, NULL, 0);
		batch_held(c, 0, 0, 8, 10, 80, 100, NULL, 0);
		end_with(c, 0, &loss, &l, NULL);
		out = finish(c);
		ck_assert_uint_eq(out->missing_packets, part ? 1 : 5);
		out_free(out);
	}
}
END_TEST

START_TEST(test_evicted)
{
	Packrack__Evicted e = PACKRACK__EVICTED__INIT;
	Packrack__Ledger l = ledger(10, 100, 0, true);

	e.epoch = 7;
	e.last_seq = 6;
	e.until = 60;
	for (int i = 0; i < 2; i++) {
		struct pr_completeness *c = make(i ? 80 : 0, INT64_MAX, 0);
		Packrack__Completeness *out;

		pr_completeness_node(c, "a", NULL);
		batch_held(c, 0, 0, 8, 10, 80, 100, NULL, 0);
		end_with(c, 0, NULL, &l, &e);
		out = finish(c);
		ck_assert(!out->complete);
		ck_assert_uint_eq(out->n_evicted, i ? 0 : 1);
		ck_assert_uint_eq(
			out->missing_packets, 1); /* 7: neither evicted nor there */
		out_free(out);
	}
}
END_TEST

START_TEST(test_dead_node)
{
	Packrack__Ledger l = ledger(10, 100, 0, true);
	struct pr_completeness *c = make(INT64_MIN, INT64_MAX, 0);
	Packrack__Completeness *out;

	pr_completeness_node(c, "a", NULL);
	pr_completeness_node(c, "b", NULL);
	batch_held(c, 0, 0, 1, 9, 10, 90, "\x55\x01", 0);
	pr_completeness_failed(c, 1, "went away");
	end_with(c, 0, NULL, &l, NULL);
	out = finish(c);
	ck_assert(!out->complete);
	ck_assert(!out->nodes[1]->answered);
	ck_assert_str_eq(out->nodes[1]->error, "went away");
	ck_assert_uint_eq(out->missing_packets, 5);
	ck_assert_str_eq(out->missing[0]->reason, PR_MISSING_NO_ANSWER);
	ck_assert_str_eq(out->missing[0]->node, "b");
	out_free(out);
}
END_TEST

START_TEST(test_drops)
{
	Packrack__Ledger l = ledger(10, 100, 0, true);
	struct pr_completeness *c = make(INT64_MIN, INT64_MAX, 0);
	Packrack__Completeness *out;

	l.dropped_kernel = 5;
	l.dropped_ring = 1;
	pr_completeness_node(c, "a", NULL);
	batch_held(c, 0, 0, 1, 10, 10, 90, NULL, 0);
	end_with(c, 0, NULL, &l, NULL);
	out = finish(c);
	ck_assert(!out->complete);
	ck_assert_uint_eq(out->missing_packets, 0);
	ck_assert_uint_eq(out->dropped_packets, 6);
	out_free(out);
}
END_TEST

START_TEST(test_hostile)
{
	static const struct {
		uint64_t first, last;
		size_t bits;
		int64_t t0, t1;
	} bad[] = {{0, 5, 0, 0, 0}, {5, 4, 0, 0, 0}, {1, UINT64_MAX, 0, 0, 0},
		{1, 16, 1, 0, 0}, {1, 16, 3, 0, 0}, {1, 2, 0, 5, 4}};
	struct pr_completeness *c = make(INT64_MIN, INT64_MAX, 0);
	uint8_t bits[8] = {1};

	pr_completeness_node(c, "a", NULL);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		Packrack__Held h = PACKRACK__HELD__INIT, *list = &h;
		Packrack__Batch b = PACKRACK__BATCH__INIT;
		struct pr_error err = {""};

		h.first = bad[i].first;
		h.last = bad[i].last;
		h.bits.data = bits;
		h.bits.len = bad[i].bits;
		h.first_otime = bad[i].t0;
		h.last_otime = bad[i].t1;
		b.held = &list;
		b.n_held = 1;
		ck_assert_int_eq(pr_completeness_batch(c, 0, &b, &err), -1);
		ck_assert_str_ne(err.text, "");
	}
	/* absurd, and yet no work */
	batch_held(c, 0, 0, 1, UINT64_MAX - 1, 0, 1, NULL, 0);
	batch_held(c, 0, 1, UINT64_MAX - 1, UINT64_MAX - 1, 0, 1, NULL, 0);
	end_with(c, 0, NULL, NULL, NULL);
	out_free(finish(c));
}
END_TEST

/* ---- against a small world, judged by brute force ---- */

#define SEQS 400
#define NODES 4
#define LINES 2

struct world {
	int64_t otime[LINES][SEQS + 1];
	bool held[NODES][LINES][SEQS + 1];
	uint64_t declared[LINES];
	int64_t since, until;
	int nodes;
};

static uint64_t state;

static uint32_t
rnd(uint32_t below)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(state >> 33) % below;
}

static void
world_make(struct world *w)
{
	uint32_t loss = rnd(30), mode = rnd(3);

	memset(w, 0, sizeof(*w));
	w->nodes = 1 + (int)rnd(NODES);
	for (int l = 0; l < LINES; l++) {
		int64_t t = 1000;

		w->declared[l] = 1 + rnd(SEQS);
		for (uint64_t s = 1; s <= w->declared[l]; s++) {
			w->otime[l][s] = t += rnd(4) ? rnd(5) : 0;
			if (rnd(100) < loss)
				continue;
			w->held[mode ? rnd((uint32_t)w->nodes) : s % (unsigned)w->nodes][l]
			       [s] = true;
			if (mode == 2) /* copies */
				w->held[rnd((uint32_t)w->nodes)][l][s] = true;
		}
	}
	w->since = rnd(2) ? INT64_MIN : 900 + rnd(600);
	w->until = rnd(2) ? INT64_MAX : 1000 + rnd(900);
}

static bool
tells(const struct world *w, int node, int l, uint64_t s)
{
	return w->held[node][l][s] && w->otime[l][s] >= w->since &&
	       w->otime[l][s] <= w->until;
}

static int
holders(const struct world *w, int l, uint64_t s)
{
	int count = 0;

	for (int n = 0; n < w->nodes; n++)
		count += w->held[n][l][s];
	return count;
}

static void
send_edge(struct pr_completeness *c, const struct world *w, int node, int l, bool upper)
{
	Packrack__Held h = PACKRACK__HELD__INIT, *list = &h;
	Packrack__Batch b = PACKRACK__BATCH__INIT;
	uint64_t found = 0;

	for (uint64_t s = 1; s <= w->declared[l]; s++)
		if (w->held[node][l][s] && (upper ? !found && w->otime[l][s] > w->until
						  : w->otime[l][s] < w->since))
			found = s;
	if (!found)
		return;
	h.epoch = 7;
	h.link = (uint32_t)l;
	h.first = h.last = found;
	h.first_otime = h.last_otime = w->otime[l][found];
	b.edge = &list;
	b.n_edge = 1;
	ck_assert_int_eq(pr_completeness_batch(c, node, &b, NULL), 0);
}

static uint64_t
next_told(const struct world *w, int node, int l, uint64_t s)
{
	while (s <= w->declared[l] && !tells(w, node, l, s))
		s++;
	return s;
}

/* The node's next stretch in order of time over its lines; false: it has told all. */
static bool
send_next(struct pr_completeness *c, const struct world *w, int node, uint64_t at[LINES])
{
	int64_t frontier = INT64_MAX;
	uint64_t first, last = 0;
	uint8_t bits[SEQS / 8 + 1] = {0};
	int pick = -1;

	for (int l = 0; l < LINES; l++) {
		at[l] = next_told(w, node, l, at[l]);
		if (at[l] <= w->declared[l] &&
			(pick < 0 || w->otime[l][at[l]] < w->otime[pick][at[pick]]))
			pick = l;
	}
	if (pick < 0)
		return false;
	first = at[pick];
	for (uint32_t want = 1 + rnd(40); want && at[pick] <= w->declared[pick]; want--) {
		last = at[pick];
		bits[(last - first) / 8] |= (uint8_t)(1 << (last - first) % 8);
		at[pick] = next_told(w, node, pick, last + 1);
	}
	for (int l = 0; l < LINES; l++) {
		uint64_t head = next_told(w, node, l, at[l]);

		if (head <= w->declared[l] && w->otime[l][head] < frontier)
			frontier = w->otime[l][head];
	}
	batch_held(c, node, (uint32_t)pick, first, last, w->otime[pick][first],
		w->otime[pick][last], (const char *)bits,
		frontier == INT64_MAX ? 0 : frontier);
	return true;
}

static void
send_end(struct pr_completeness *c, const struct world *w, int node)
{
	Packrack__Ledger l[LINES], *list[LINES];
	Packrack__End end = PACKRACK__END__INIT;

	for (int i = 0; i < LINES; i++) {
		l[i] = ledger(w->declared[i], w->otime[i][w->declared[i]], 0, true);
		l[i].link = (uint32_t)i;
		list[i] = &l[i];
	}
	end.ledgers = list;
	end.n_ledgers = LINES;
	ck_assert_int_eq(pr_completeness_end(c, node, &end, NULL), 0);
}

/* What lies between the edges and is held by nobody. */
static void
expect(const struct world *w, uint64_t *held, uint64_t *missing, uint64_t *doubles)
{
	*held = *missing = *doubles = 0;
	for (int l = 0; l < LINES; l++) {
		uint64_t below = 0, above = 0, in_range = 0;

		for (uint64_t s = 1; s <= w->declared[l]; s++) {
			int count = holders(w, l, s);

			if (!count)
				continue;
			if (w->otime[l][s] < w->since)
				below = s;
			else if (w->otime[l][s] > w->until)
				above = above ? above : s;
			else {
				in_range++;
				*doubles += (unsigned)count - 1;
			}
		}
		*held += in_range;
		if (!above && w->otime[l][w->declared[l]] >= w->since)
			above = w->declared[l] + 1;
		if (above)
			*missing += above - below - 1 - in_range;
	}
}

static void
tell_all(struct pr_completeness *c, const struct world *w)
{
	uint64_t at[NODES][LINES];
	bool live[NODES];

	for (int n = 0; n < w->nodes; n++) {
		pr_completeness_node(c, "n", NULL);
		for (int l = 0; l < LINES; l++) {
			send_edge(c, w, n, l, false);
			send_edge(c, w, n, l, true);
			at[n][l] = 1;
		}
		live[n] = true;
	}
	for (int left = w->nodes; left;) {
		int n = (int)rnd((uint32_t)w->nodes);

		if (!live[n] || send_next(c, w, n, at[n]))
			continue;
		send_end(c, w, n);
		live[n] = false;
		left--;
	}
}

START_TEST(test_model)
{
	static struct world w;
	uint64_t held, missing, doubles;
	Packrack__Completeness *out;
	struct pr_completeness *c;

	for (uint64_t seed = 1; seed <= 3000; seed++) {
		state = seed;
		world_make(&w);
		if (w.since > w.until)
			continue;
		c = make(w.since, w.until, 1 + rnd(2000));
		tell_all(c, &w);
		expect(&w, &held, &missing, &doubles);
		ck_assert_int_eq(pr_completeness_finish(c, &out, NULL), 0);
		ck_assert_msg(out->held_packets == held &&
				      out->missing_packets == missing &&
				      pr_completeness_doubles(c) == doubles,
			"seed %d: held %d (%d), missing %d (%d), doubles %d (%d)",
			(int)seed, (int)out->held_packets, (int)held,
			(int)out->missing_packets, (int)missing,
			(int)pr_completeness_doubles(c), (int)doubles);
		ck_assert_uint_eq(pr_completeness_bytes(c), 0);
		ck_assert(out->complete == !missing);
		pr_completeness_destroy(&c);
		out_free(out);
	}
}
END_TEST

/* A long answer with losses all over it, and nodes in step: memory stays small. */
START_TEST(test_memory)
{
	struct pr_completeness *c = make(INT64_MIN, INT64_MAX, 64 * 1024);
	Packrack__Completeness *out;
	size_t most = 0;

	pr_completeness_node(c, "a", NULL);
	pr_completeness_node(c, "b", NULL);
	for (uint64_t s = 1; s < 8000000; s += 800)
		for (int n = 0; n < 2; n++) {
			char bits[100];

			memset(bits, n ? 0x50 : 0x0f, sizeof(bits));
			bits[0] |= 1;
			bits[99] |= (char)0x80;
			batch_held(c, n, 0, s, s + 799, (int64_t)s, (int64_t)s + 799, bits,
				(int64_t)s + 800);
			if (pr_completeness_bytes(c) > most)
				most = pr_completeness_bytes(c);
		}
	end_with(c, 0, NULL, NULL, NULL);
	end_with(c, 1, NULL, NULL, NULL);
	out = finish(c);
	ck_assert_uint_lt(most, 128 * 1024);
	ck_assert_uint_eq(out->n_missing, PR_COMPLETENESS_LIST_MAX);
	ck_assert_uint_eq(out->missing_packets + out->held_packets, 8000000);
	out_free(out);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("completeness");
	TCase *t = tcase_create("all");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_test(t, test_whole);
	tcase_add_test(t, test_loss_explains);
	tcase_add_test(t, test_loss_without_choice);
	tcase_add_test(t, test_loss_outside);
	tcase_add_test(t, test_edges_bound_what_is_missing);
	tcase_add_test(t, test_tail);
	tcase_add_test(t, test_loss_beyond_ledger);
	tcase_add_test(t, test_loss_alone);
	tcase_add_test(t, test_evicted);
	tcase_add_test(t, test_moved);
	tcase_add_test(t, test_part);
	tcase_add_test(t, test_dead_node);
	tcase_add_test(t, test_drops);
	tcase_add_test(t, test_hostile);
	tcase_add_test(t, test_model);
	tcase_add_test(t, test_memory);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
