/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "merger/cli/query/query_args.h"
#include "proto/base/clock.h"
#include "tests/unit/unit.h"

#define S PR_NS_PER_S
#define NOW (100000 * S)
#define COUNT(array) ((int)(sizeof(array) / sizeof(*(array))))

static struct pr_error err;

/* What is left, its spaces put together. */
static const char *
squeeze(char *text)
{
	char *to = text;

	for (const char *from = text; *from; from++)
		if (*from != ' ' || (to > text && to[-1] != ' '))
			*to++ = *from;
	if (to > text && to[-1] == ' ')
		to--;
	*to = 0;
	return text;
}

static const struct {
	const char *filter, *rest;
	int64_t since, until;
} kept[] = {
	{"tcp port 80", "tcp port 80", PR_TIME_MIN, PR_TIME_MAX},
	{"", "", PR_TIME_MIN, PR_TIME_MAX},
	{"after 3h ago", "", NOW - 10800 * S, PR_TIME_MAX},
	{"after 3h ago and tcp", "tcp", NOW - 10800 * S, PR_TIME_MAX},
	{"tcp and before @5", "tcp", PR_TIME_MIN, 5 * S},
	{"tcp && before @5&&udp", "tcp &&udp", PR_TIME_MIN, 5 * S},
	{"after @3 and before @5 and ip", "ip", 3 * S, 5 * S},
	{"ip and after @3 and before @5", "ip", 3 * S, 5 * S},
	{"ip and after @3 and tcp and before @5", "ip and tcp", 3 * S, 5 * S},
	{"after @3 and after @4 and before @6 and before @5", "", 4 * S, 5 * S},
	{"tcp or udp and after @3", "tcp or udp", 3 * S, PR_TIME_MAX},
	{"after @3 and (tcp or udp)", "(tcp or udp)", 3 * S, PR_TIME_MAX},
	{"(tcp or udp) and after 1970-01-01T00:00:07Z", "(tcp or udp)", 7 * S, PR_TIME_MAX},
	{"after 1970-01-01 00:00:07Z and tcp[13] & 2 != 0", "tcp[13] & 2 != 0", 7 * S,
		PR_TIME_MAX},
	{"host after and port before", "host after and port before", PR_TIME_MIN,
		PR_TIME_MAX},
	{"not tcp and after @3 and not udp", "not tcp and not udp", 3 * S, PR_TIME_MAX},
	/* what stays, and when it can hold at all */
	{"tcp or after @3", "tcp or after @3.000000000", PR_TIME_MIN, PR_TIME_MAX},
	{"not after @3", "not after @3.000000000", PR_TIME_MIN, 3 * S - 1},
	{"! before @-1.5", "! before @-1.500000000", -S - S / 2 + 1, PR_TIME_MAX},
	{"not(after @3 or udp)and tcp", "not(after @3.000000000 or udp)and tcp",
		PR_TIME_MIN, 3 * S - 1},
	{"(after 10s ago) and tcp", "(after @99990.000000000) and tcp", NOW - 10 * S,
		PR_TIME_MAX},
	{"(after @3 and before @5) or (after @8 and before @9 and tcp)",
		"(after @3.000000000 and before @5.000000000) or (after "
		"@8.000000000 and "
		"before @9.000000000 and tcp)",
		3 * S, 9 * S},
	{"tcp or after @3 and before @9", "tcp or after @3.000000000", PR_TIME_MIN, 9 * S},
	{"after @3 and (tcp or before @5)", "(tcp or before @5.000000000)", 3 * S,
		PR_TIME_MAX},
	{"after @3 and tcp or udp", "after @3.000000000 and tcp or udp", PR_TIME_MIN,
		PR_TIME_MAX},
	{"tcp and not (udp and before @3)", "tcp and not (udp and before @3.000000000)",
		PR_TIME_MIN, PR_TIME_MAX},
	{"(ip[0] & 3) * 2 = 4 and (before @3)",
		"(ip[0] & 3) * 2 = 4 and (before @3.000000000)", PR_TIME_MIN, 3 * S},
	{"host (a or b) and not not (after @3)",
		"host (a or b) and not not (after @3.000000000)", 3 * S, PR_TIME_MAX},
	/* not understood: libpcap says what is wrong with it */
	{"tcp or (before @3", "tcp or (before @3.000000000", PR_TIME_MIN, PR_TIME_MAX},
};

START_TEST(taken)
{
	int64_t since = PR_TIME_MIN, until = PR_TIME_MAX;
	char *text = time_terms_take(kept[_i].filter, NOW, &since, &until, &err);

	ck_assert_msg(text != NULL, "%s", err.text);
	ck_assert_str_eq(squeeze(text), kept[_i].rest);
	ck_assert_int_eq(since, kept[_i].since);
	ck_assert_int_eq(until, kept[_i].until);
	free(text);
}
END_TEST

static const char *const wrong[] = {"after", "after and tcp", "tcp or (after)",
	"after the day and tcp", "after @3 tcp", "not before (tcp)", "after @3 and before"};

START_TEST(refused)
{
	int64_t since = PR_TIME_MIN, until = PR_TIME_MAX;

	err.text[0] = 0;
	ck_assert_msg(
		!time_terms_take(wrong[_i], NOW, &since, &until, &err), "%s", wrong[_i]);
	ck_assert(err.text[0]);
}
END_TEST

START_TEST(narrower_than_flags)
{
	int64_t since = 4 * S, until = 10 * S;
	char *text = time_terms_take("after @3 and before @9", NOW, &since, &until, &err);

	ck_assert_str_eq(text, "");
	free(text);
	ck_assert_int_eq(since, 4 * S);
	ck_assert_int_eq(until, 9 * S);
}
END_TEST

static void
fill(TCase *tc)
{
	tcase_add_loop_test(tc, taken, 0, COUNT(kept));
	tcase_add_loop_test(tc, refused, 0, COUNT(wrong));
	tcase_add_test(tc, narrower_than_flags);
}

int
main(void)
{
	return unit_run("time terms", fill);
}
