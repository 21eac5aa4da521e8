/* SPDX-License-Identifier: Apache-2.0 */
/* At which times of a range a link was observed, as the ledgers of its epochs tell. */
#include <stdio.h>

#include "tests/unit/completeness_nodes.h"
#include "tests/unit/unit.h"

#define S INT64_C(1000000000)
#define EPOCHS_MAX 3
#define FACTS_MAX 4
#define BEGAN PR_UNOBSERVED_BEGIN
#define OF_FILE PR_UNOBSERVED_FILE
#define CARRIER PR_UNOBSERVED_NO_CARRIER
#define HALT PR_UNOBSERVED_STOPPED
#define EVER INT64_MIN
#define STILL INT64_MAX

/* Times are s before NOW. until of a case: 0 is now. */
struct fact {
	unsigned reason;
	int64_t since, until;
	const char *by;
};
static const struct observed {
	int64_t since, until; /* EVER, STILL: not given */
	bool settled;
	struct {
		int64_t said;
		bool ended;
		const char *name;
		struct fact facts[FACTS_MAX];
	} epochs[EPOCHS_MAX];
	const char *expected; /* "NAME SINCE UNTIL REASON BY;", ends rounded down */
} cases[] = {
	/* live, and confirmed to the end */
	{20, 5, true, {{-1, false, "a", {{BEGAN, EVER, 100, ""}}}}, ""},
	{20, STILL, true, {{-1, false, "a", {{BEGAN, EVER, 100, ""}}}}, ""},
	/* not confirmed yet; or never, as nothing was heard for long enough */
	{20, STILL, false, {{1, false, "a", {{BEGAN, EVER, 100, ""}}}}, "a 1 0 unknown ;"},
	{20, STILL, true, {{1, false, "a", {{BEGAN, EVER, 100, ""}}}}, "a 1 0 gone ;"},
	{20, STILL, false, {{9, false, "a", {{BEGAN, EVER, 100, ""}}}}, "a 9 0 gone ;"},
	/* a range that lies wholly within an outage, and one over the restart */
	{8, 7, true,
		{{9, false, "a", {{BEGAN, EVER, 100, ""}}},
			{-1, false, "a", {{BEGAN, EVER, 6, ""}}}},
		"a 8 7 gone ;"},
	{20, 1, true,
		{{9, false, "a", {{BEGAN, EVER, 100, ""}}},
			{-1, false, "a", {{BEGAN, EVER, 6, ""}}}},
		"a 9 7 gone ;"},
	/* stopped by somebody, and started again */
	{20, 1, true, {{-1, false, "a", {{BEGAN, EVER, 100, ""}, {HALT, 9, 6, "ann"}}}},
		"a 9 6 stopped ann;"},
	{8, 7, true, {{-1, false, "a", {{BEGAN, EVER, 100, ""}, {HALT, 9, 6, "ann"}}}},
		"a 8 7 stopped ann;"},
	{20, STILL, true,
		{{1, true, "a", {{BEGAN, EVER, 100, ""}, {HALT, 9, STILL, "ann"}}}},
		"a 9 0 stopped ann;"},
	{EVER, STILL, true,
		{{1, true, "a", {{BEGAN, EVER, 100, ""}, {HALT, 9, STILL, "ann"}}}}, ""},
	/* it may have been started again since it was heard: then the stop is in the midst of what was recorded */
	{EVER, STILL, false,
		{{1, true, "a", {{BEGAN, EVER, 100, ""}, {HALT, 9, STILL, "ann"}}}},
		"a 9 2 stopped ann;a 1 0 unknown ;"},
	{EVER, STILL, false,
		{{5, true, "a", {{BEGAN, EVER, 100, ""}, {HALT, 9, STILL, "ann"}}}}, ""},
	{EVER, 70, true,
		{{1, true, "a", {{BEGAN, EVER, 100, ""}, {HALT, 90, STILL, "ann"}}}},
		"a 90 70 stopped ann;"},
	/* no carrier, also at the end of an epoch */
	{20, 1, true,
		{{-1, false, "a",
			{{BEGAN, EVER, 100, ""}, {CARRIER, 9, 6, ""},
				{CARRIER, 4, 3, ""}}}},
		"a 9 6 no_carrier ;a 4 3 no_carrier ;"},
	{20, 1, true,
		{{8, false, "a", {{BEGAN, EVER, 100, ""}, {CARRIER, 9, STILL, ""}}},
			{-1, false, "a", {{BEGAN, EVER, 6, ""}}}},
		"a 9 9 no_carrier ;a 8 7 gone ;"},
	{20, STILL, true,
		{{8, false, "a", {{BEGAN, EVER, 100, ""}, {CARRIER, 9, STILL, ""}}}},
		"a 9 9 no_carrier ;a 8 0 gone ;"},
	{20, 1, true, {{9, false, "a", {{BEGAN, EVER, 100, ""}, {CARRIER, 7, STILL, ""}}}},
		"a 9 8 gone ;a 7 1 no_carrier ;"},
	/* before the first capture: only where somebody asks for it */
	{200, 1, true, {{-1, false, "a", {{BEGAN, EVER, 100, ""}}}}, "a 200 101 before ;"},
	{EVER, 1, true, {{-1, false, "a", {{BEGAN, EVER, 100, ""}}}}, ""},
	{20, 1, true, {{-1, false, "a", {{BEGAN, EVER, STILL, ""}}}}, "a 20 1 before ;"},
	/* a trace file, alone and asked for beyond its ends */
	{EVER, STILL, true, {{1, true, "f", {{OF_FILE, EVER, 100, ""}}}}, ""},
	{50, STILL, true, {{1, true, "f", {{OF_FILE, EVER, 100, ""}}}}, ""},
	{200, 1, true, {{1, true, "f", {{OF_FILE, EVER, 100, ""}}}},
		"f 200 101 before ;f 9 1 file ;"},
	/* links are told apart by name, and by the node that records them itself */
	{20, 1, true,
		{{-1, false, "a", {{BEGAN, EVER, 100, ""}}},
			{9, false, "b", {{BEGAN, EVER, 100, ""}}}},
		"b 9 1 gone ;"},
	{20, 1, true,
		{{-1, false, "a", {{BEGAN, EVER, 100, "n1"}}},
			{9, false, "a", {{BEGAN, EVER, 100, "n2"}}}},
		"a 9 1 gone ;"},
	/* an older version tells nothing: from its first MARK on */
	{20, 1, true, {{-1, false, "a", {{0}}}}, ""},
	{5000, 1, true, {{-1, false, "a", {{0}}}}, "a 5000 1001 before ;"},
};

static int64_t
at(int64_t before)
{
	return before == EVER || before == STILL ? before : NOW - before * S;
}

static void
take_epochs(struct prm_completeness *c, const struct observed *o)
{
	for (int i = 0; i < EPOCHS_MAX && o->epochs[i].name; i++) {
		Packrack__Ledger l =
			ledger(10, NOW - 10 * S, at(o->epochs[i].said), o->epochs[i].ended);
		uint32_t reason[FACTS_MAX];
		int64_t since[FACTS_MAX], until[FACTS_MAX];
		char *by[FACTS_MAX];
		size_t n = 0;

		for (; n < FACTS_MAX && o->epochs[i].facts[n].reason; n++) {
			const struct fact *f = &o->epochs[i].facts[n];

			reason[n] = f->reason;
			since[n] = at(f->since);
			until[n] = at(f->until);
			by[n] = (char *)f->by;
		}
		l.epoch = 7 + i;
		l.first_said = NOW - 1000 * S;
		l.name = (char *)o->epochs[i].name;
		l.last_seq = 0;
		l.unobserved_reason = reason;
		l.unobserved_since = since;
		l.unobserved_until = until;
		l.unobserved_by = by;
		l.n_unobserved_reason = l.n_unobserved_since = l.n_unobserved_until =
			l.n_unobserved_by = n;
		end_with(c, 0, NULL, &l, NULL);
	}
}

START_TEST(unobserved_is_named)
{
	const struct observed *o = &cases[_i];
	struct prm_completeness_options options = {.since = at(o->since),
		.until = at(o->until),
		.now = NOW,
		.settled = o->settled};
	struct prm_completeness *c = prm_completeness_create(&options, NULL);
	Packrack__Completeness *out;
	char text[1000] = "";

	prm_completeness_node(c, "a", NULL);
	take_epochs(c, o);
	out = finish(c);
	for (size_t i = 0; i < out->n_unobserved; i++) {
		const Packrack__Unobserved *u = out->unobserved[i];

		snprintf(text + strlen(text), sizeof(text) - strlen(text),
			"%s %lld %lld %s %s;", u->name, (long long)((NOW - u->since) / S),
			(long long)((NOW - u->until + S - 1) / S), u->reason, u->by);
	}
	ck_assert_msg(!strcmp(text, o->expected), "case %d: %s, expected %s", _i, text,
		o->expected);
	ck_assert_int_eq(out->complete, !o->expected[0]);
	out_free(out);
}
END_TEST

/* Two nodes: one has heard more than the other. */
START_TEST(newest_mark_counts)
{
	struct prm_completeness *c = make(NOW - 20 * S, NOW - S, 0);
	Packrack__Completeness *out;

	for (int i = 0; i < 2; i++) {
		Packrack__Ledger l = ledger(0, 0, NOW - (i ? 0 : 9 * S), false);

		l.first_said = NOW - 100 * S;
		prm_completeness_node(c, i ? "b" : "a", NULL);
		end_with(c, i, NULL, &l, NULL);
	}
	out = finish(c);
	ck_assert(out->complete);
	out_free(out);
}
END_TEST

static void
fill(TCase *tests)
{
	tcase_add_loop_test(
		tests, unobserved_is_named, 0, sizeof(cases) / sizeof(cases[0]));
	tcase_add_test(tests, newest_mark_counts);
}

int
main(void)
{
	return unit_run("completeness observed", fill);
}
