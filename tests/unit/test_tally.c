/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "indexer/query/tally_key.h"
#include "merger/cli/query/rate.h"
#include "proto/base/clock.h"
#include "proto/rpc/tally.h"
#include "tests/unit/unit.h"

#define KEYS 300

static struct pr_error err;

static uint64_t
next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return *state >> 33;
}

struct truth {
	uint64_t packets[KEYS], bytes[KEYS];
};

/* Few keys get most, as hosts do. */
static void
count(struct pr_tally *t, struct truth *truth, uint64_t seed, int n)
{
	for (int i = 0; i < n; i++) {
		uint64_t len = 60 + next_random(&seed) % 1400;
		uint16_t key =
			(uint16_t)(next_random(&seed) % (1 + next_random(&seed) % KEYS));
		const Packrack__Tally one = {.packets = 1, .bytes = len};

		truth->packets[key]++;
		truth->bytes[key] += len;
		pr_tally_sum(t, &one);
		ck_assert_int_eq(pr_tally_add(t, &key, sizeof(key), 1, len, &err), 0);
	}
}

/* Part by part through messages, as from a node to a merger. */
static void
hand_over(const struct pr_tally *from, struct pr_tally *to)
{
	struct pr_tally_part part = {.groups = NULL};
	size_t at = 0;
	int rc;

	while ((rc = pr_tally_next_part(from, &at, &part, &err)) == 1)
		ck_assert_int_eq(pr_tally_take(to, &part.message, &err), 0);
	ck_assert_int_eq(rc, 0);
	pr_tally_part_free(&part);
}

static void
check_bounds(struct pr_tally *t, const struct truth *truth, size_t best)
{
	const Packrack__Tally *sums;
	const struct pr_tally_item *items;
	bool listed[KEYS] = {false};
	size_t n;

	pr_tally_cut(t, best);
	sums = pr_tally_total(t);
	items = pr_tally_items(t, &n);
	ck_assert_uint_le(n, best);
	for (size_t i = 0; i < n; i++) {
		uint16_t key;

		memcpy(&key, items[i].key, sizeof(key));
		listed[key] = true;
		ck_assert_uint_le(items[i].packets, truth->packets[key]);
		ck_assert_uint_ge(pr_tally_most_packets(t, &items[i]), truth->packets[key]);
		ck_assert_uint_le(items[i].bytes, truth->bytes[key]);
		ck_assert_uint_ge(pr_tally_most_bytes(t, &items[i]), truth->bytes[key]);
	}
	for (size_t i = 0; i < KEYS; i++) {
		uint64_t most = sums->most_bytes > sums->slack_bytes ? sums->most_bytes
								     : sums->slack_bytes;
		if (!listed[i])
			ck_assert_uint_le(truth->bytes[i], most);
	}
}

START_TEST(bounded)
{
	size_t room = _i % 3 == 0 ? 0 : _i % 3 == 1 ? 32 : 100;
	struct pr_tally *sum = pr_tally_create(false, _i & 1, room, &err);
	struct truth truth = {{0}, {0}};
	uint64_t packets = 0;

	for (int node = 0; node < 3; node++) {
		struct pr_tally *t = pr_tally_create(false, _i & 1, room, &err);

		count(t, &truth, (uint64_t)(_i * 10 + node), 2000);
		hand_over(t, sum);
		pr_tally_destroy(&t);
	}
	for (size_t i = 0; i < KEYS; i++)
		packets += truth.packets[i];
	ck_assert_uint_eq(pr_tally_total(sum)->packets, packets);
	if (!room)
		ck_assert_uint_eq(pr_tally_total(sum)->slack_bytes, 0);
	else
		ck_assert_uint_gt(pr_tally_total(sum)->slack_bytes, 0);
	check_bounds(sum, &truth, 20);
	pr_tally_destroy(&sum);
}
END_TEST

START_TEST(too_many_intervals)
{
	struct pr_tally *t = pr_tally_create(true, false, 10, &err);
	uint8_t key[PRI_TALLY_KEY_TIME_LEN];

	for (int64_t i = 0; i < 10; i++) {
		pri_tally_key_interval_key(-i, key);
		ck_assert_int_eq(pr_tally_add(t, key, sizeof(key), 1, 1, &err), 0);
	}
	pri_tally_key_interval_key(0, key);
	ck_assert_int_eq(pr_tally_add(t, key, sizeof(key), 1, 1, &err), 0);
	pri_tally_key_interval_key(1, key);
	ck_assert_int_eq(pr_tally_add(t, key, sizeof(key), 1, 1, &err), -1);
	ck_assert_ptr_nonnull(strstr(err.text, "--step"));
	pr_tally_destroy(&t);
}
END_TEST

START_TEST(limits)
{
	static const struct {
		const char *text;
		bool packets;
		uint64_t per_second;
	} good[] = {{"100Mbit", false, 100000000}, {"1.5Gbit/s", false, 1500000000},
		{"10kB", false, 80000}, {"5kpps", true, 5000}, {"0pps", true, 0},
		{"12.5MB/s", false, 100000000}, {"7bps", false, 7}};
	static const char *const bad[] = {"", "100", "Mbit", "-1pps", "1e30bit", "5 kpps",
		"3Mfoo", "nanpps", "infbit"};
	struct rate_limit limit;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		ck_assert_msg(rate_limit_parse(good[i].text, &limit, &err) == 0, "%s",
			good[i].text);
		ck_assert_uint_eq(limit.per_second, good[i].per_second);
		ck_assert_int_eq(limit.packets, good[i].packets);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ck_assert_msg(rate_limit_parse(bad[i], &limit, &err) < 0, "%s", bad[i]);
	limit = (struct rate_limit){.packets = true, .per_second = 10};
	ck_assert(!rate_limit_exceeded(&limit, 1, 0, PR_NS_PER_S / 10));
	ck_assert(rate_limit_exceeded(&limit, 2, 0, PR_NS_PER_S / 10));
}
END_TEST

/* Steps of 1 s, before and after 1970: packets as the string's digits. */
START_TEST(stretches)
{
	static const char counts[] = "0330550005990";
	struct pr_tally *t = pr_tally_create(true, false, 0, &err);
	struct rate_limit limit = {.packets = true, .per_second = 4};
	struct rate_walk w = {
		.tally = t, .step = PR_NS_PER_S, .at_least = PR_NS_PER_S, .limit = &limit};
	struct rate_stretch s;
	uint8_t key[PRI_TALLY_KEY_TIME_LEN];

	for (int i = (int)sizeof(counts) - 2; i >= 0; i--) {
		pri_tally_key_interval_key(i - 5, key);
		if (counts[i] != '0')
			pr_tally_add(
				t, key, sizeof(key), (uint64_t)(counts[i] - '0'), 1, &err);
	}
	pr_tally_cut(t, SIZE_MAX);
	ck_assert(rate_next(&w, &s));
	ck_assert_int_eq(s.first, -1 * PR_NS_PER_S + 0);
	ck_assert_int_eq(s.last, PR_NS_PER_S - 1);
	ck_assert_uint_eq(s.packets, 10);
	ck_assert(rate_next(&w, &s));
	ck_assert_int_eq(s.first, 4 * PR_NS_PER_S);
	ck_assert_uint_eq(s.steps, 3);
	ck_assert_uint_eq(s.peak_packets, 9);
	ck_assert_int_eq(s.peak_first, 5 * PR_NS_PER_S);
	ck_assert(!rate_next(&w, &s));
	w.at = 0;
	w.at_least = 3 * PR_NS_PER_S;
	ck_assert(rate_next(&w, &s));
	ck_assert_int_eq(s.first, 4 * PR_NS_PER_S);
	ck_assert(!rate_next(&w, &s));
	pr_tally_destroy(&t);
}
END_TEST

static void
fill(TCase *tc)
{
	tcase_add_loop_test(tc, bounded, 0, 12);
	tcase_add_test(tc, too_many_intervals);
	tcase_add_test(tc, limits);
	tcase_add_test(tc, stretches);
}

int
main(void)
{
	return unit_run("tally", fill);
}
