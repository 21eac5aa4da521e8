/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/trace/pace.h"
#include "tests/unit/unit.h"

#include <check.h>
#include <stdlib.h>

START_TEST(paces_are_read)
{
	static const char *const bad[] = {"", "x", "x0", "x-1", "xinf", "fast", "10",
		"10 k", "-5pps", "0pps", "nanpps", "5kppss", "100Mx", "recordedx"};
	struct pr_error err;
	struct pace p;

	ck_assert_int_eq(pace_parse("recorded", &p, &err), 0);
	ck_assert(p.kind == PACE_RECORDED && p.scale == 1);
	ck_assert_int_eq(pace_parse("x2.5", &p, &err), 0);
	ck_assert(p.kind == PACE_RECORDED && p.scale == 2.5);
	ck_assert_int_eq(pace_parse("5kpps", &p, &err), 0);
	ck_assert(p.kind == PACE_PPS && p.rate == 5000);
	ck_assert_int_eq(pace_parse("100Mbit", &p, &err), 0);
	ck_assert(p.kind == PACE_BPS && p.rate == 1e8);
	ck_assert_int_eq(
		pace_parse("1.5 Gbps", &p, &err), -1); /* k, M, G stand at the number */
	ck_assert_int_eq(pace_parse("1.5G bps", &p, &err), 0);
	ck_assert_int_eq(pace_parse("100MB", &p, &err), 0);
	ck_assert(p.kind == PACE_BPS && p.rate == 8e8);
	ck_assert_int_eq(pace_parse("max", &p, &err), 0);
	ck_assert(p.kind == PACE_MAX);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		ck_assert_msg(pace_parse(bad[i], &p, &err) == -1, "'%s' is taken", bad[i]);
		ck_assert(err.text[0]);
	}
}
END_TEST

START_TEST(recorded_keeps_the_gaps)
{
	struct pr_error err;
	struct pace p;

	ck_assert_int_eq(pace_parse("recorded", &p, &err), 0);
	ck_assert_int_eq(pace_due(&p, 1000, 60), 0);
	ck_assert_int_eq(pace_due(&p, 1700, 60), 700);
	ck_assert_int_eq(
		pace_due(&p, 900, 60), 700); /* back: at once, and the next is not late */
	ck_assert_int_eq(pace_due(&p, 1800, 60), 800);
	ck_assert_int_eq(pace_parse("x0.5", &p, &err), 0);
	ck_assert_int_eq(pace_due(&p, -500, 60), 0);
	ck_assert_int_eq(pace_due(&p, 500, 60), 2000);
	ck_assert_int_eq(pace_parse("recorded", &p, &err), 0);
	ck_assert_int_eq(pace_due(&p, INT64_MIN, 60), 0);
	ck_assert_int_eq(pace_due(&p, INT64_MAX, 60), INT64_MAX);
}
END_TEST

START_TEST(rates_do_not_drift)
{
	struct pr_error err;
	struct pace p;

	ck_assert_int_eq(pace_parse("3pps", &p, &err), 0);
	for (int i = 0; i < 3000; i++)
		ck_assert_int_eq(pace_due(&p, 7, 60), (int64_t)((double)i * 1e9 / 3));
	ck_assert_int_eq(pace_parse("8kbit", &p, &err), 0);
	ck_assert_int_eq(pace_due(&p, 0, 1000), 0);
	ck_assert_int_eq(pace_due(&p, 0, 500), 1000000000);
	ck_assert_int_eq(pace_due(&p, 0, 500), 1500000000);
}
END_TEST

static void
fill(TCase *tc)
{
	tcase_add_test(tc, paces_are_read);
	tcase_add_test(tc, recorded_keeps_the_gaps);
	tcase_add_test(tc, rates_do_not_drift);
}

int
main(void)
{
	return unit_run("pace", fill);
}
