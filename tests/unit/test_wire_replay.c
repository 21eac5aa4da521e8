/* SPDX-License-Identifier: Apache-2.0 */
/* Old numbers are refused, whoever sends them again; nonces and epochs are new each time. */
#include <stdlib.h>
#include <string.h>

#include "proto/wire/frame.h"
#include "tests/unit/unit.h"

START_TEST(replay_window)
{
	struct pr_replay r = {0};

	ck_assert(pr_replay_accept(&r, 1, 5000));
	ck_assert(!pr_replay_accept(&r, 1, 5000));
	ck_assert(pr_replay_accept(
		&r, 1, 5000 - PR_REPLAY_WINDOW + 1)); /* overtaken, in time */
	ck_assert(!pr_replay_accept(&r, 1, 5000 - PR_REPLAY_WINDOW + 1));
	ck_assert(!pr_replay_accept(&r, 1, 5000 - PR_REPLAY_WINDOW)); /* too old */
	ck_assert(!pr_replay_accept(&r, 1, 0));
	ck_assert(pr_replay_accept(&r, 1, 5003));
	ck_assert(pr_replay_accept(&r, 1, 5001));
	ck_assert(pr_replay_accept(&r, 1, 5002));
	ck_assert(!pr_replay_accept(&r, 1, 5001));
	ck_assert(pr_replay_accept(&r, 1, 5003 + 10 * PR_REPLAY_WINDOW));
	ck_assert(!pr_replay_accept(&r, 1, 5003));
	ck_assert(pr_replay_accept(&r, 1, 5004 + 9 * PR_REPLAY_WINDOW));
	ck_assert(!pr_replay_accept(&r, 1, UINT64_MAX));
	ck_assert(pr_replay_accept(&r, 2, 0)); /* the sender has started anew */
	ck_assert(!pr_replay_accept(&r, 2, 0));
}
END_TEST

/* Against the plain definition: seen before, or older than the window. */
START_TEST(replay_property)
{
	struct pr_replay r = {0};
	static bool seen[20000];
	uint64_t highest = 0, at = 0;

	srand(7);
	memset(seen, 0, sizeof seen);
	for (int i = 0; i < 100000 && at < 18000; i++) {
		at += (uint64_t)(rand() % 50 == 0 ? rand() % 300 : rand() % 2);
		uint64_t back = (uint64_t)(rand() % 1500);
		uint64_t n = at > back ? at - back : 0;
		bool old = i > 0 && highest >= n + PR_REPLAY_WINDOW;
		ck_assert_int_eq(pr_replay_accept(&r, 9, n), !old && !seen[n]);
		seen[n] = true;
		highest = n > highest ? n : highest;
	}
}
END_TEST

START_TEST(nonces_and_epochs)
{
	int64_t now = INT64_C(1700000000123456789);
	uint64_t a = pr_epoch_make(now), b = pr_epoch_make(now);

	ck_assert_uint_eq(a >> 32, 1700000000);
	ck_assert_uint_ne(a, b);
	ck_assert_uint_ne(pr_nonce_make(), pr_nonce_make());
	ck_assert_uint_ne(pr_epoch_make(0), 0);
}
END_TEST

static void
fill(TCase *t)
{
	tcase_add_test(t, replay_window);
	tcase_add_test(t, replay_property);
	tcase_add_test(t, nonces_and_epochs);
}

int
main(void)
{
	return unit_run("wire_replay", fill);
}
