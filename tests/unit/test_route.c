/* SPDX-License-Identifier: Apache-2.0 */
/* Who is asked: whoever may have a match, by what they told, in bounded memory. */
#include "tests/unit/route_model.h"

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
		prm_summaries_destroy(&m.summaries);
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
		ask(&m, HOUR + PRM_SUMMARIES_LATE_NS + 1, &left_out);
	ck_assert_uint_eq(left_out, 0);
	prm_summaries_destroy(&m.summaries);
}
END_TEST

START_TEST(another_boot_begins_anew)
{
	struct prm_summaries_figures f;
	unsigned left_out = 0;
	struct model m;

	seed = 4;
	begin(&m, 0);
	prm_summaries_figures(m.summaries, &f);
	ck_assert_uint_eq(f.bodies, PACKETS / SPAN);
	m.said.boot = 78;
	ck_assert_int_eq(prm_summaries_coverage(m.summaries, "n", &m.said, HOUR, &err), 0);
	prm_summaries_figures(m.summaries, &f);
	ck_assert_uint_eq(f.bodies, 0);
	ck_assert_uint_eq(f.bytes, 0);
	ck_assert_uint_eq(f.listed, PACKETS / SPAN);
	for (int i = 0; i < 50; i++)
		ask(&m, HOUR, &left_out);
	ck_assert_uint_lt(left_out, 25); /* only those before or behind all that it has */
	prm_summaries_forget(m.summaries, "n");
	ck_assert_ptr_null(prm_summaries_find(m.summaries, "n"));
	prm_summaries_destroy(&m.summaries);
}
END_TEST

/* The oldest go first, and are not asked for again while there is no room. */
START_TEST(memory_is_bounded)
{
	struct prm_summaries_figures f;
	uint64_t boot, wanted[PRM_SUMMARIES_WANT_MAX];
	struct model m = {.duty = {.count = 1}};

	seed = 5;
	m.summaries = prm_summaries_create(500, &m.duty, &err);
	make_packets(&m);
	tell(&m, 0);
	prm_summaries_figures(m.summaries, &f);
	ck_assert_uint_le(f.bytes, 500);
	ck_assert_uint_gt(f.bodies, 1);
	ck_assert_uint_eq(f.bodies + f.evicted, PACKETS / SPAN);
	ck_assert_ptr_null(prm_summaries_find(m.summaries, "n")->items[0].body);
	ck_assert_ptr_nonnull(
		prm_summaries_find(m.summaries, "n")->items[PACKETS / SPAN - 1].body);
	ck_assert_uint_eq(prm_summaries_want(m.summaries, "n", HOUR, &boot, wanted), 0);
	prm_summaries_destroy(&m.summaries);
}
END_TEST

/* Duty: all agree, the load is even, and the loss of one moves only its own. */
START_TEST(duty_rotates)
{
	struct prm_ownership d = {
		.mergers = {{"a", true}, {"b", true}, {"c", true}}, .count = 3, .self = 0};
	unsigned load[3] = {0}, moved = 0;

	for (int64_t i = -1000; i < 2000; i++) {
		int64_t time = i * PRM_OWNERSHIP_INTERVAL_NS;
		size_t owner = prm_owner_of(&d, time), other;

		d.self = 1;
		ck_assert_uint_eq(prm_owner_of(&d, time), owner);
		ck_assert_uint_eq(
			prm_owner_of(&d, time + PRM_OWNERSHIP_INTERVAL_NS - 1), owner);
		d.self = 0;
		load[owner]++;
		d.mergers[2].alive = false;
		other = prm_owner_of(&d, time);
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
	struct prm_summaries_figures f;
	char other[16] = "";
	struct model m;

	seed = 8;
	begin(&m, 0);
	m.duty =
		(struct prm_ownership){.mergers = {{"a", true}, {other, true}}, .count = 2};
	for (int i = 0; prm_owner_of(&m.duty, 0) == 0; i++)
		snprintf(other, sizeof(other), "b%d", i);
	for (int64_t s = 0; s < 10; s++) {
		m.duty.mergers[1].alive = s != 4; /* it was late once */
		prm_summaries_coverage(m.summaries, "n", &m.said, HOUR + s * second, &err);
		prm_summaries_figures(m.summaries, &f);
		ck_assert_uint_eq(f.bodies, PACKETS / SPAN);
	}
	prm_summaries_coverage(m.summaries, "n", &m.said, HOUR + 11 * second, &err);
	prm_summaries_figures(m.summaries, &f);
	ck_assert_uint_eq(f.bodies, 0);
	ck_assert_uint_eq(f.bytes, 0);
	ck_assert_uint_eq(f.listed, PACKETS / SPAN);
	m.duty.mergers[1].alive = false;
	tell(&m, 0); /* and is asked for again */
	prm_summaries_figures(m.summaries, &f);
	ck_assert_uint_eq(f.bodies, PACKETS / SPAN);
	prm_summaries_destroy(&m.summaries);
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
