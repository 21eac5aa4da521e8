/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/completeness_nodes.h"
#include "tests/unit/draw.h"
#include "tests/unit/unit.h"

/* Against a small world, judged by brute force. */

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

static void
world_make(struct world *w)
{
	uint32_t loss = draw(30), mode = draw(3);

	memset(w, 0, sizeof(*w));
	w->nodes = 1 + (int)draw(NODES);
	for (int l = 0; l < LINES; l++) {
		int64_t t = 1000;

		w->declared[l] = 1 + draw(SEQS);
		for (uint64_t s = 1; s <= w->declared[l]; s++) {
			w->otime[l][s] = t += draw(4) ? draw(5) : 0;
			if (draw(100) < loss)
				continue;
			w->held[mode ? draw((uint32_t)w->nodes) : s % (unsigned)w->nodes][l]
			       [s] = true;
			if (mode == 2) /* copies */
				w->held[draw((uint32_t)w->nodes)][l][s] = true;
		}
	}
	w->since = draw(2) ? INT64_MIN : 900 + draw(600);
	w->until = draw(2) ? INT64_MAX : 1000 + draw(900);
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
send_edge(struct prm_completeness *c, const struct world *w, int node, int l, bool upper)
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
	ck_assert_int_eq(prm_completeness_batch(c, node, &b, NULL), 0);
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
send_next(struct prm_completeness *c, const struct world *w, int node, uint64_t at[LINES])
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
	for (uint32_t want = 1 + draw(40); want && at[pick] <= w->declared[pick]; want--) {
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
send_end(struct prm_completeness *c, const struct world *w, int node)
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
	ck_assert_int_eq(prm_completeness_end(c, node, &end, NULL), 0);
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
tell_all(struct prm_completeness *c, const struct world *w)
{
	uint64_t at[NODES][LINES];
	bool live[NODES];

	for (int n = 0; n < w->nodes; n++) {
		prm_completeness_node(c, "n", NULL);
		for (int l = 0; l < LINES; l++) {
			send_edge(c, w, n, l, false);
			send_edge(c, w, n, l, true);
			at[n][l] = 1;
		}
		live[n] = true;
	}
	for (int left = w->nodes; left;) {
		int n = (int)draw((uint32_t)w->nodes);

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
	struct prm_completeness *c;

	for (uint32_t n = 1; n <= 3000; n++) {
		seed = n;
		world_make(&w);
		if (w.since > w.until)
			continue;
		c = make(w.since, w.until, 1 + draw(2000));
		tell_all(c, &w);
		expect(&w, &held, &missing, &doubles);
		ck_assert_int_eq(prm_completeness_finish(c, &out, NULL), 0);
		ck_assert_msg(out->held_packets == held &&
				      out->missing_packets == missing &&
				      prm_completeness_duplicates(c) == doubles,
			"seed %d: held %d (%d), missing %d (%d), doubles %d (%d)", (int)n,
			(int)out->held_packets, (int)held, (int)out->missing_packets,
			(int)missing, (int)prm_completeness_duplicates(c), (int)doubles);
		ck_assert_uint_eq(prm_completeness_bytes(c), 0);
		ck_assert(out->complete == !missing);
		prm_completeness_destroy(&c);
		out_free(out);
	}
}
END_TEST

/* A long answer with losses all over it, and nodes in step: memory stays small. */
START_TEST(test_memory)
{
	struct prm_completeness *c = make(INT64_MIN, INT64_MAX, 64 * 1024);
	Packrack__Completeness *out;
	size_t most = 0;

	prm_completeness_node(c, "a", NULL);
	prm_completeness_node(c, "b", NULL);
	for (uint64_t s = 1; s < 8000000; s += 800)
		for (int n = 0; n < 2; n++) {
			char bits[100];

			memset(bits, n ? 0x50 : 0x0f, sizeof(bits));
			bits[0] |= 1;
			bits[99] |= (char)0x80;
			batch_held(c, n, 0, s, s + 799, (int64_t)s, (int64_t)s + 799, bits,
				(int64_t)s + 800);
			if (prm_completeness_bytes(c) > most)
				most = prm_completeness_bytes(c);
		}
	end_with(c, 0, NULL, NULL, NULL);
	end_with(c, 1, NULL, NULL, NULL);
	out = finish(c);
	ck_assert_uint_lt(most, 128 * 1024);
	/* the same cycle again and again */
	ck_assert_uint_lt(out->n_missing, 1000);
	ck_assert_uint_eq(out->missing_packets + out->held_packets, 8000000);
	out_free(out);
}
END_TEST

static void
fill(TCase *tests)
{
	tcase_set_timeout(tests, 120);
	tcase_add_test(tests, test_model);
	tcase_add_test(tests, test_memory);
}

int
main(void)
{
	return unit_run("completeness model", fill);
}
