/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "proto/wire/directory.h"
#include "tests/unit/unit.h"

/* clang-format off */
static const uint8_t golden[] = {
	0x01,                                           /* version */
	0x0e,                                           /* a segment: line, apart, holes */
	0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01, /* epoch */
	0x02, 0x01,                                     /* link, link type */
	0x12,                                           /* first seq: 9 more than 1 */
	0x14, 0x0a,                                     /* seqs less one, packets */
	0xd0, 0x0f, 0xc8, 0x01,                         /* least time 1000, 200 to the most */
	0x02, 'h', '1',                                 /* handle */
	0x00,                                           /* the next one, right behind */
	0x05, 0x14, 0x01,                               /* packets, 10 after the most, 1 */
	0x00,                                           /* no handle */
	0x10,                                           /* one with otimes of its own */
	0x07, 0x02, 0x05, 0x03, 0x13,                   /* first -1, last +1; packets, -2, 19 */
	0x01, 'h',
	0x0b,                                           /* an index: level 1, link */
	0x02, 0x0e, 0x10,                               /* link, first sequence 7, segments */
	0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01, /* check */
	0x01, 'i',
	0x05,                                           /* one of level 2 */
	0x1f, 0x10,                                     /* from 16 before, segments */
	0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, /* check */
	0x00,
};
/* clang-format on */

static const struct pr_directory_entry entries[] = {
	{.u.segment = {0x0102030405060708, 10, 30, 1000, 1200, 1000, 1200, 10, 2, 1},
		.handle_len = 2,
		.handle = "h1"},
	{.u.segment = {0x0102030405060708, 31, 35, 1210, 1211, 1210, 1211, 5, 2, 1}},
	{.u.segment = {0x0102030405060708, 36, 40, 1209, 1228, 1205, 1229, 5, 2, 1},
		.handle_len = 1,
		.handle = "h"},
	{.kind = PR_DIRECTORY_INDEX,
		.u.index = {7, 0x0102030405060708, 16, 2, 1},
		.handle_len = 1,
		.handle = "i"},
	{.kind = PR_DIRECTORY_INDEX, .u.index = {7, 1, 16, 2, 2}},
};
#define ENTRIES (sizeof entries / sizeof entries[0])

static void
check_same(const struct pr_directory_entry *a, const struct pr_directory_entry *b)
{
	ck_assert_int_eq(a->kind, b->kind);
	if (a->kind == PR_DIRECTORY_INDEX) {
		ck_assert_uint_eq(a->u.index.first_sequence, b->u.index.first_sequence);
		ck_assert_uint_eq(a->u.index.check, b->u.index.check);
		ck_assert_uint_eq(a->u.index.segments, b->u.index.segments);
		ck_assert_uint_eq(a->u.index.link, b->u.index.link);
		ck_assert_uint_eq(a->u.index.level, b->u.index.level);
	} else {
		ck_assert_uint_eq(a->u.segment.epoch, b->u.segment.epoch);
		ck_assert_uint_eq(a->u.segment.first_seq, b->u.segment.first_seq);
		ck_assert_uint_eq(a->u.segment.last_seq, b->u.segment.last_seq);
		ck_assert_int_eq(a->u.segment.min_time, b->u.segment.min_time);
		ck_assert_int_eq(a->u.segment.max_time, b->u.segment.max_time);
		ck_assert_int_eq(a->u.segment.first_otime, b->u.segment.first_otime);
		ck_assert_int_eq(a->u.segment.last_otime, b->u.segment.last_otime);
		ck_assert_uint_eq(a->u.segment.count, b->u.segment.count);
		ck_assert_uint_eq(a->u.segment.link, b->u.segment.link);
		ck_assert_uint_eq(a->u.segment.linktype, b->u.segment.linktype);
	}
	ck_assert_uint_eq(a->handle_len, b->handle_len);
	ck_assert_mem_eq(a->handle, b->handle, a->handle_len);
}

/* Of a copy of exactly len bytes: how many entries, or -1. The first of them are those expected. */
static int
load_all(const uint8_t *data, size_t len, const struct pr_directory_entry *expected)
{
	uint8_t *copy = malloc(len ? len : 1);
	struct pr_cursor c = pr_cursor_make(copy, len);
	struct pr_directory_coder coder;
	struct pr_directory_entry e;
	int n = 0, got = -1;

	memcpy(copy, data, len);
	if (pr_directory_open(&coder, &c))
		for (; (got = pr_directory_load(&coder, &c, &e)) == 1; n++)
			if (expected)
				check_same(&e, &expected[n]);
	if (got < 0)
		ck_assert_int_eq(pr_directory_load(&coder, &c, &e), len ? -1 : 0);
	free(copy);
	return got < 0 ? -1 : n;
}

START_TEST(golden_bytes_are_written_and_read)
{
	struct pr_directory_coder coder;
	uint8_t bytes[256];
	struct pr_writer w = pr_writer_make(bytes, sizeof bytes);

	ck_assert(pr_directory_begin(&coder, &w));
	for (size_t i = 0; i < ENTRIES; i++)
		ck_assert(pr_directory_store(&coder, &w, &entries[i]));
	ck_assert_uint_eq(pr_writer_len(&w), sizeof golden);
	ck_assert_mem_eq(bytes, golden, sizeof golden);
	ck_assert_int_eq(load_all(golden, sizeof golden, entries), ENTRIES);
}
END_TEST

/* Cut between two entries it has the first ones; anywhere else it is corrupt. */
START_TEST(each_truncation_is_seen)
{
	int whole = 0;

	for (size_t len = 0; len < sizeof golden; len++) {
		int got = load_all(golden, len, entries);

		if (got >= 0)
			ck_assert_int_eq(got, whole++);
	}
	ck_assert_int_eq(whole, ENTRIES);
}
END_TEST

START_TEST(what_contradicts_itself_is_refused)
{
	static const struct pr_directory_entry bad[] = {
		{.u.segment = {.first_seq = 2, .last_seq = 1}},
		{.u.segment = {.min_time = 2, .max_time = 1}},
		{.kind = PR_DIRECTORY_INDEX, .u.index = {.segments = 0}},
		{.kind = PR_DIRECTORY_INDEX, .u.index = {.segments = 1, .level = 4}},
		{.kind = PR_DIRECTORY_INDEX,
			.u.index = {.segments = 2, .first_sequence = UINT64_MAX - 1}},
		{.u.segment = {.count = 1}, .handle_len = PR_DIRECTORY_HANDLE_MAX + 1},
	};
	static const uint8_t flags[] = {1, 0x20}, version[] = {2, 0x00};
	static const uint8_t no_packets[] = {1, 0x04, 0x01, 0x00, 0x00, 0x00, 0x00};
	struct pr_directory_coder coder;
	uint8_t bytes[256];
	struct pr_writer w = pr_writer_make(bytes, sizeof bytes);

	ck_assert(pr_directory_begin(&coder, &w));
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		ck_assert(!pr_directory_store(&coder, &w, &bad[i]));
	ck_assert_uint_eq(pr_writer_len(&w), 1);
	ck_assert_int_eq(load_all(flags, sizeof flags, NULL), -1);
	ck_assert_int_eq(load_all(no_packets, sizeof no_packets, NULL), -1);
	ck_assert(!pr_directory_open(
		&coder, &(struct pr_cursor){version, version + sizeof version}));
}
END_TEST

static uint64_t
any_number(void)
{
	static const uint64_t ends[] = {
		0, 1, UINT64_MAX, INT64_MAX, (uint64_t)INT64_MAX + 1, UINT64_MAX - 1};
	uint64_t v =
		(uint64_t)random() << 42 ^ (uint64_t)random() << 21 ^ (uint64_t)random();

	return random() % 4 ? v >> random() % 64 : ends[random() % 6];
}

static struct pr_directory_entry
any_entry(void)
{
	struct pr_directory_entry e = {
		.kind = random() % 2 ? PR_DIRECTORY_SEGMENT : PR_DIRECTORY_INDEX};

	if (e.kind == PR_DIRECTORY_INDEX)
		e.u.index = (struct pr_directory_index){any_number(), any_number(),
			(uint32_t)any_number(), (uint16_t)(random() % 3),
			(uint8_t)(random() % 5)};
	else
		e.u.segment = (struct pr_directory_segment){any_number(), any_number(),
			any_number(), (int64_t)any_number(), (int64_t)any_number(),
			(int64_t)any_number(), (int64_t)any_number(),
			(uint32_t)any_number(), (uint16_t)(random() % 3),
			(uint16_t)any_number()};
	e.handle_len = (uint8_t)(random() % (PR_DIRECTORY_HANDLE_MAX + 1));
	memset(e.handle, random() % 256, e.handle_len);
	return e;
}

/* Extremes too: differences are taken modulo 2^64. */
START_TEST(what_is_taken_comes_back)
{
	struct pr_directory_entry all[64];
	struct pr_directory_coder coder;
	uint8_t bytes[64 * PR_DIRECTORY_ENTRY_MAX];
	size_t count = 0;

	srandom((unsigned)_i + 1);
	for (int round = 0; round < 200; round++, count = 0) {
		struct pr_writer w = pr_writer_make(bytes, sizeof bytes);

		ck_assert(pr_directory_begin(&coder, &w));
		for (int i = 0; i < 300 && count < 64; i++) {
			size_t before = pr_writer_len(&w);

			all[count] = any_entry();
			count += pr_directory_store(&coder, &w, &all[count]);
			ck_assert_uint_le(
				pr_writer_len(&w) - before, PR_DIRECTORY_ENTRY_MAX);
		}
		ck_assert_uint_gt(count, 10);
		ck_assert_int_eq(load_all(bytes, pr_writer_len(&w), all), (int)count);
	}
}
END_TEST

static void
fill(TCase *tc)
{
	tcase_add_test(tc, golden_bytes_are_written_and_read);
	tcase_add_test(tc, each_truncation_is_seen);
	tcase_add_test(tc, what_contradicts_itself_is_refused);
	tcase_add_loop_test(tc, what_is_taken_comes_back, 0, 4);
}

int
main(void)
{
	return unit_run("wire_directory", fill);
}
