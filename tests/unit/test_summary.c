/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "proto/wire/summary.h"
#include "tests/unit/unit.h"

#define KEYS 1000
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static struct pr_error err;

static const uint8_t bits[] = {0x05, 0x80, 0x01};
static const struct pr_summary_run runs[] = {
	{.first = 10, .last = 19, .first_otime = 1000, .last_otime = 1100},
	{.first = 30,
		.last = 46,
		.first_otime = 1100,
		.last_otime = 1900,
		.bits = bits,
		.bits_len = 3},
	/* late: behind the one before */
	{.first = 22, .last = 22, .first_otime = 1050, .last_otime = 1050},
};
static const struct pr_summary_span span = {.first_sequence = 7,
	.segments = 3,
	.link = 2,
	.epoch = UINT64_C(0x6500000000000001),
	.first_seq = 10,
	.last_seq = 46,
	.packets = 15,
	.first_otime = 1000,
	.last_otime = 1900,
	.min_time = -5,
	.max_time = 1900};

static uint64_t
hash_of(uint64_t i)
{
	i = (i + 1) * 0x9e3779b97f4a7c15u;
	return (i ^ i >> 29) * 0xbf58476d1ce4e5b9u;
}

static uint8_t *
make(size_t keys, size_t runs_max, size_t *len)
{
	uint64_t *hashes = calloc(keys + 1, sizeof(*hashes));
	size_t room = pr_summary_size(keys, runs, COUNT(runs));
	uint8_t *body = malloc(room);

	for (size_t i = 0; i < keys; i++)
		hashes[i] = hash_of(i);
	*len = pr_summary_write(&span, hashes, keys, runs, COUNT(runs), runs_max, body);
	ck_assert_uint_le(*len, room);
	free(hashes);
	return body;
}

START_TEST(what_was_written_is_read)
{
	struct pr_summary_walk walk;
	struct pr_summary_run run;
	struct pr_summary s, again;
	unsigned wrong = 0;
	uint8_t *body;
	size_t len;

	body = make(KEYS, 1000, &len);
	ck_assert_int_eq(pr_summary_open(&s, body, len, &err), 0);
	ck_assert_int_eq(pr_summary_open_unchecked(&again, body, len, NULL), 0);
	ck_assert(again.bits == s.bits && again.runs == s.runs && again.log2 == s.log2);
	ck_assert_uint_eq(s.span.first_sequence, 7);
	ck_assert_uint_eq(s.span.packets, 15);
	ck_assert_int_eq(s.span.min_time, -5);
	ck_assert_uint_eq(s.keys, KEYS);
	pr_summary_walk_begin(&walk, &s);
	for (size_t i = 0; i < COUNT(runs); i++) {
		ck_assert(pr_summary_walk_next(&walk, &run));
		ck_assert_uint_eq(run.first, runs[i].first);
		ck_assert_uint_eq(run.last, runs[i].last);
		ck_assert_int_eq(run.first_otime, runs[i].first_otime);
		ck_assert_int_eq(run.last_otime, runs[i].last_otime);
		if (runs[i].bits_len)
			ck_assert_mem_eq(run.bits, runs[i].bits, runs[i].bits_len);
	}
	ck_assert(!pr_summary_walk_next(&walk, &run));
	for (uint64_t i = 0; i < KEYS; i++)
		ck_assert(pr_summary_has(s.bits, s.log2, hash_of(i)));
	for (uint64_t i = KEYS; i < 101 * KEYS; i++)
		wrong += pr_summary_has(s.bits, s.log2, hash_of(i));
	ck_assert_uint_lt(
		wrong, 100 * KEYS / 25); /* of 8 to 16 bits a key: 2.2 % at most */
	free(body);
}
END_TEST

START_TEST(damage_is_seen)
{
	struct pr_summary s;
	uint8_t *body;
	size_t len;

	body = make(20, 1000, &len);
	for (size_t i = 0; i < len; i++) {
		uint8_t *part = malloc(i ? i : 1);

		memcpy(part, body, i);
		ck_assert_int_eq(pr_summary_open(&s, part, i, &err), -1);
		free(part);
	}
	for (size_t i = 0; i < 8 * len; i++) {
		body[i / 8] ^= (uint8_t)(1 << i % 8);
		ck_assert_int_eq(pr_summary_open(&s, body, len, &err), -1);
		body[i / 8] ^= (uint8_t)(1 << i % 8);
	}
	ck_assert_int_eq(pr_summary_open(&s, body, len, &err), 0);
	free(body);
}
END_TEST

START_TEST(too_many_seqs_are_left_out)
{
	struct pr_summary_walk walk;
	struct pr_summary_run run;
	struct pr_summary s;
	uint8_t *body;
	size_t len;

	body = make(20, 10, &len);
	ck_assert_int_eq(pr_summary_open(&s, body, len, &err), 0);
	ck_assert(s.flags & PR_SUMMARY_NO_RUNS);
	pr_summary_walk_begin(&walk, &s);
	ck_assert(!pr_summary_walk_next(&walk, &run));
	free(body);
}
END_TEST

/* Eight as slices say what each says by itself. */
START_TEST(slices_say_the_same)
{
	uint8_t *body[8], *slices = calloc(1, (size_t)1 << 11);
	struct pr_summary s[8];
	size_t len;

	for (unsigned i = 0; i < 8; i++) {
		body[i] = make(130 + 17 * i, 1000, &len);
		ck_assert_int_eq(pr_summary_open(&s[i], body[i], len, &err), 0);
		ck_assert_uint_eq(s[i].log2, 11);
		for (size_t j = 0; j < (size_t)1 << 11; j++)
			slices[j] |= (uint8_t)((s[i].bits[j / 8] >> j % 8 & 1) << i);
	}
	for (uint64_t j = 0; j < KEYS; j++) {
		uint8_t all = pr_summary_slices_have(slices, 11, hash_of(j));

		for (unsigned i = 0; i < 8; i++)
			ck_assert(pr_summary_has(s[i].bits, 11, hash_of(j)) ==
				  (all >> i & 1));
	}
	for (unsigned i = 0; i < 8; i++)
		free(body[i]);
	free(slices);
}
END_TEST

static void
fill(TCase *tc)
{
	tcase_add_test(tc, what_was_written_is_read);
	tcase_add_test(tc, damage_is_seen);
	tcase_add_test(tc, too_many_seqs_are_left_out);
	tcase_add_test(tc, slices_say_the_same);
}

int
main(void)
{
	return unit_run("summary", fill);
}
