/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/clock.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/unit/unit.h"

#define NOW (INT64_C(1700000000) * PR_NS_PER_S)

static const struct {
	const char *text;
	int64_t t;
} good[] = {
	{"1970-01-01T00:00:00Z", 0},
	{"1970-01-01T00:00:00.000000001Z", 1},
	{"1969-12-31T23:59:59.999999999Z", -1},
	{"2023-11-14T22:13:20Z", NOW},
	{"2023-11-14 22:13:20.5Z", NOW + PR_NS_PER_S / 2},
	{"2023-11-15T00:13:20+02:00", NOW},
	{"2023-11-14T12:43:20-09:30", NOW},
	{"2023-11-14t22:13z", NOW - 20 * PR_NS_PER_S},
	{"2023-11-14T23:13:20", NOW}, /* the test's zone is an hour east */
	{"2023-11-14", NOW - (23 * 3600 + 13 * 60 + 20) * PR_NS_PER_S},
	{"2024-02-29T00:00:00Z", INT64_C(1709164800) * PR_NS_PER_S},
	{"2016-12-31T23:59:60Z", INT64_C(1483228800) * PR_NS_PER_S},
	{"@1700000000", NOW},
	{"@1700000000.5", NOW + PR_NS_PER_S / 2},
	{"@-1.25", -1250 * PR_NS_PER_MS},
	{"@99999999999999", PR_TIME_MAX},
	{"now", NOW},
	{"90s ago", NOW - 90 * PR_NS_PER_S},
	{"1.5m ago", NOW - 90 * PR_NS_PER_S},
	{"3h ago", NOW - 3 * 3600 * PR_NS_PER_S},
	{"2d ago", NOW - 2 * 86400 * PR_NS_PER_S},
	{"-90s", NOW - 90 * PR_NS_PER_S},
	{"90s", NOW - 90 * PR_NS_PER_S},
	{"5m", NOW - 300 * PR_NS_PER_S},
	{"5 min", NOW - 300 * PR_NS_PER_S},
	{"5 min ago", NOW - 300 * PR_NS_PER_S},
	{"5 minutes ago", NOW - 300 * PR_NS_PER_S},
	{"1 hour ago", NOW - 3600 * PR_NS_PER_S},
	{"2 days ago", NOW - 2 * 86400 * PR_NS_PER_S},
	{"9:13", NOW - (14 * 3600 + 20) * PR_NS_PER_S},
	{"23:13:20.25", NOW + PR_NS_PER_S / 4},
	{"22:13:20Z", NOW},
	{"12:43:20-09:30", NOW},
	{"today 23:13", NOW - 20 * PR_NS_PER_S},
	{"yesterday 10:30", NOW - (36 * 3600 + 43 * 60 + 20) * PR_NS_PER_S},
	{"tomorrow 00:00:01", NOW + (46 * 60 + 41) * PR_NS_PER_S},
	{"+1h", NOW + 3600 * PR_NS_PER_S},
	{"23:13", NOW - 20 * PR_NS_PER_S},
	{"23:13:25", NOW + 5 * PR_NS_PER_S},
	{"today", NOW - (23 * 3600 + 13 * 60 + 20) * PR_NS_PER_S},
	{"yesterday", NOW - (47 * 3600 + 13 * 60 + 20) * PR_NS_PER_S},
	{"tomorrow", NOW + (46 * 60 + 40) * PR_NS_PER_S},
	{"1700-01-01T00:00:00Z", INT64_C(-8520336000) * PR_NS_PER_S},
	{"0001-01-01T00:00:00Z", PR_TIME_MIN},
	{"9999-01-01T00:00:00Z", PR_TIME_MAX},
};

static const char *const bad[] = {"", " ", "@", "@x", "@1.", "@1.0123456789", "@1 ", "@--1",
	"@99999999999999999999", "the day", "90", "2026", "5 minutess", "5 m in", "m",
	"yesterday10:30", "yesterday ", "yesterday 10", "yesterday 25:00", "24:00",
	"today 2023-11-14", "10:3", "10:30-", "12-30:10", " ago", "ago", "-5s ago",
	"90x ago", "2023-11-14T22:13:20ZZ", "2023-11-14T22:13:20.Z", "2023-13-01",
	"2023-02-29", "2023-02-30T00:00:00Z", "2023-00-01", "2023-01-00", "2023-1-1",
	"23-11-14", "2023-11-14T24:00:00Z", "2023-11-14T22:60:00Z", "2023-11-14T22:13:61Z",
	"2023-11-14T22:13:20+2", "2023-11-14T22:13:20+24:00", "2023-11-14T22:13:20+02:60",
	"2023-11-14T", "2023-11-14T22",
	"100000000000000000000000000000000000000000000000000s ago"};

START_TEST(parses)
{
	struct pr_error err = {""};
	int64_t t = 42;

	ck_assert_msg(pr_time_parse(good[_i].text, NOW, &t, &err) == 0, "%s", err.text);
	ck_assert_msg(t == good[_i].t, "%s: %lld, not %lld", good[_i].text, (long long)t,
		(long long)good[_i].t);
}
END_TEST

START_TEST(refuses)
{
	struct pr_error err = {""};
	int64_t t;

	ck_assert_msg(pr_time_parse(bad[_i], NOW, &t, &err) == -1, "took '%s'", bad[_i]);
	ck_assert_ptr_nonnull(strstr(err.text, "is not a time"));
}
END_TEST

START_TEST(formats_what_it_parses)
{
	static const int64_t times[] = {
		0, 1, -1, NOW, NOW + 123456789, PR_TIME_MAX, PR_TIME_MIN, -PR_NS_PER_S};
	char buf[PR_TIME_TEXT];

	for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
		int64_t t;

		pr_time_format(times[i], buf, sizeof buf);
		ck_assert_int_eq(pr_time_parse(buf, 0, &t, NULL), 0);
		ck_assert_msg(t == times[i], "%s", buf);
	}
	ck_assert_str_eq(
		pr_time_format(NOW + 5, buf, sizeof buf), "2023-11-14T22:13:20.000000005Z");
	ck_assert_str_eq(
		pr_time_format(-1, buf, sizeof buf), "1969-12-31T23:59:59.999999999Z");
}
END_TEST

START_TEST(shows_the_zone)
{
	char buf[PR_TIME_TEXT];
	int64_t t;

	ck_assert_str_eq(pr_time_local(NOW + 5, buf, sizeof buf),
		"2023-11-14T23:13:20.000000005+01:00");
	ck_assert_int_eq(pr_time_parse(buf, 0, &t, NULL), 0);
	ck_assert_int_eq(t, NOW + 5);
	setenv("TZ", "<-0930>9:30", 1);
	tzset();
	ck_assert_str_eq(
		pr_time_local(NOW, buf, sizeof buf), "2023-11-14T12:43:20.000000000-09:30");
	setenv("TZ", "UTC", 1);
	tzset();
	ck_assert_str_eq(
		pr_time_local(NOW, buf, sizeof buf), "2023-11-14T22:13:20.000000000Z");
}
END_TEST

START_TEST(makes)
{
	ck_assert_int_eq(pr_time_make(1, 2), PR_NS_PER_S + 2);
	ck_assert_int_eq(pr_time_make(1, 2 * PR_NS_PER_S), 3 * PR_NS_PER_S);
	ck_assert_int_eq(pr_time_make(-1, 1), 1 - PR_NS_PER_S);
	ck_assert_int_eq(pr_time_make(0, -1), -1);
	ck_assert_int_eq(pr_time_make(9223372036, 854775807), PR_TIME_MAX);
	ck_assert_int_eq(pr_time_make(9223372036, 854775806), PR_TIME_MAX - 1);
	ck_assert_int_eq(pr_time_make(9223372036, 854775808), PR_TIME_MAX);
	ck_assert_int_eq(pr_time_make(-9223372037, 145224192), PR_TIME_MIN);
	ck_assert_int_eq(pr_time_make(-9223372037, 145224193), PR_TIME_MIN + 1);
	ck_assert_int_eq(pr_time_make(-9223372037, 145224191), PR_TIME_MIN);
	ck_assert_int_eq(pr_time_make(INT64_MAX, INT64_MAX), PR_TIME_MAX);
	ck_assert_int_eq(pr_time_make(INT64_MIN, INT64_MIN), PR_TIME_MIN);
	ck_assert_int_eq(pr_time_make(INT64_MAX, -1), PR_TIME_MAX);
}
END_TEST

START_TEST(clocks_run)
{
	int64_t mono = pr_now_mono();

	ck_assert_int_gt(pr_now_real(), INT64_C(1500000000) * PR_NS_PER_S);
	ck_assert_int_ge(pr_now_mono(), mono);
}
END_TEST

static void
fill(TCase *tc)
{
	tcase_add_loop_test(tc, parses, 0, sizeof good / sizeof *good);
	tcase_add_loop_test(tc, refuses, 0, sizeof bad / sizeof *bad);
	tcase_add_test(tc, formats_what_it_parses);
	tcase_add_test(tc, shows_the_zone);
	tcase_add_test(tc, makes);
	tcase_add_test(tc, clocks_run);
}

int
main(void)
{
	setenv("TZ", "TST-1", 1);
	tzset();
	return unit_run("base clock", fill);
}
