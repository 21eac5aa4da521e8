/* SPDX-License-Identifier: Apache-2.0 */
/* Timestamp logs, byte by byte: what they say, and what is refused. */
#include "tests/unit/tslog_read.h"

#define T0 INT64_C(1700000000123456789)

/* clang-format off */
/* One link: pairs by lead and by number, all extras, steps of each size. */
static const uint8_t golden_all[] = {
	0x00, 0x03,                                     /* link 3 */
	0x00, 0x00,                                     /* flags */
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x09, /* log number 9 */
	0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, /* first seq 2^32 */
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x00, /* first ordinal 512 */
	0x17, 0x97, 0x9c, 0xfe, 0x3d, 0x85, 0xcd, 0x15, /* base time */
	0x00, 0x08,                                     /* count */
	0x03,                                           /* pairs */
	0x02, 0x00, 0x00, 0x00, 0x00, 0x01, 0x02, 0x00, 0x00, 0x00, 0x00, 0x02,
	0x02, 0x00, 0x00, 0x00, 0x00, 0x02, 0x02, 0x00, 0x00, 0x00, 0x00, 0x01,
	0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02, 0x00, 0x00, 0x00, 0x00, 0x01,
	/* first: step 1, time step 0, pair 0 */
	0x01, 0x00, 0xde, 0xad, 0xbe, 0xef,
	/* step 63, time +8191 (zig-zag 16382), other pair */
	0x7f, 0xfe, 0x7f, 0x00, 0x00, 0x00, 0x01,
	/* step 64 by varint, time -1, third pair by number */
	0x80, 0x02, 0x40, 0x01, 0x00, 0x00, 0x00, 0x02, 0x02,
	/* other pair again: 1; captured 54 of 1514 */
	0xc4, 0x0c, 0x02, 0x00, 0x00, 0x00, 0x03, 0x36, 0xea, 0x0b,
	/* original length 2000 of a frame as sent; second copy; cut */
	0x84, 0x89, 0x02, 0x00, 0x00, 0x00, 0x04, 0xd0, 0x0f,
	/* our Ethertype, escaped */
	0x84, 0x10, 0x02, 0x00, 0x00, 0x00, 0x05, 0x88, 0xb5,
	/* time -1000 (zig-zag 1999), otime 1000 later */
	0x84, 0x20, 0xcf, 0x0f, 0x00, 0x00, 0x00, 0x06, 0xe8, 0x07,
	/* a runt of three bytes, which has no pair */
	0x81, 0x40, 0x02, 0x00, 0x00, 0x00, 0x07, 0x03, 0xaa, 0xbb, 0xcc,
};

/* A node with several links: ordinal steps. Only a runt of no bytes, so no pair. */
static const uint8_t golden_interleaved[] = {
	0xff, 0xfe, 0x00, 0x01,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, /* base time -1 */
	0x00, 0x02, 0x00,
	0x81, 0x40, 0x00, 0x00, 0x12, 0x34, 0x56, 0x78, 0x00,
	0x81, 0x40, 0x05, 0x03, 0x12, 0x34, 0x56, 0x78, 0x00, /* ordinal 6, time -3 */
};

/* Connections have classes: each entry tells its own, before what else it has. */
static const uint8_t golden_classes[] = {
	0x00, 0x03, 0x00, 0x02,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x05, /* base time 5 */
	0x00, 0x03, 0x01,
	0x02, 0x00, 0x00, 0x00, 0x00, 0x01, 0x02, 0x00, 0x00, 0x00, 0x00, 0x02,
	0x01, 0x00, 0xde, 0xad, 0xbe, 0xef, 0x05,       /* class 5 */
	0x82, 0x0c, 0x02, 0x00, 0x00, 0x00, 0x03, 0x3f, 0x36, 0xea, 0x0b, /* class 63; 54 of 1514 */
	0x01, 0x02, 0x00, 0x00, 0x00, 0x04, 0x00,       /* none */
};

/* Fingerprints of the second kind. */
static const uint8_t golden_whole[] = {
	0x00, 0x01, 0x00, 0x04,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x05, /* base time 5 */
	0x00, 0x01, 0x01,
	0x02, 0x00, 0x00, 0x00, 0x00, 0x01, 0x02, 0x00, 0x00, 0x00, 0x00, 0x02,
	0x01, 0x00, 0xde, 0xad, 0xbe, 0xef,
};
/* clang-format on */

static const struct {
	const uint8_t *data;
	size_t len;
} goldens[] = {{golden_all, sizeof golden_all},
	{golden_interleaved, sizeof golden_interleaved},
	{golden_classes, sizeof golden_classes}, {golden_whole, sizeof golden_whole}};
#define GOLDENS (int)(sizeof goldens / sizeof goldens[0])

static size_t
build_again(const uint8_t *data, size_t len, uint8_t *buf, size_t room)
{
	struct pr_tslog_reader r;
	struct pr_tslog_builder b;
	struct pr_entry e;
	const uint8_t *body;

	ck_assert_int_eq(pr_tslog_open(&r, data, len), 0);
	pr_tslog_begin(&b, r.header.link, r.header.flags, r.header.number, buf, room);
	while (pr_tslog_next(&r, &e) == 1)
		if (!pr_tslog_add(&b, &e))
			return 0;
	size_t built = pr_tslog_finish(&b, &body);
	ck_assert_ptr_eq(body, buf);
	return built;
}

START_TEST(golden_round_trip)
{
	size_t len = goldens[_i].len;
	uint8_t *buf = malloc(len);

	ck_assert_uint_eq(build_again(goldens[_i].data, len, buf, len), len);
	ck_assert_mem_eq(buf, goldens[_i].data, len);
	free(buf);
}
END_TEST

START_TEST(golden_values)
{
	struct pr_entry e[8];

	ck_assert_int_eq(read_all(golden_all, sizeof golden_all, e, 8), 8);
	ck_assert_uint_eq(e[0].seq, UINT64_C(1) << 32);
	ck_assert_uint_eq(e[0].ordinal, 512);
	ck_assert_uint_eq(e[0].fingerprint, 0xdeadbeef);
	ck_assert_int_eq(e[0].time, T0);
	ck_assert_int_eq(e[0].otime, T0);
	ck_assert_int_eq(e[1].time, T0 + 8191);
	ck_assert_uint_eq(e[1].seq - e[0].seq, 63);
	ck_assert_uint_eq(e[1].macs[5], 2);
	ck_assert_uint_eq(e[2].seq - e[1].seq, 64);
	ck_assert_int_eq(e[2].time, T0 + 8190);
	ck_assert_uint_eq(e[2].macs[0], 0xff);
	ck_assert_uint_eq(e[2].flags, 0);
	ck_assert_uint_eq(e[3].macs[5], 2);
	ck_assert_uint_eq(e[3].caplen, 54);
	ck_assert_uint_eq(e[3].len, 1514);
	ck_assert_uint_eq(e[4].flags, PR_ENTRY_SECOND | PR_ENTRY_LEN | PR_ENTRY_CUT);
	ck_assert_uint_eq(e[4].caplen, 0);
	ck_assert_uint_eq(e[4].len, 2000);
	ck_assert_uint_eq(e[5].ethertype, 0x88b5);
	ck_assert_int_eq(e[6].otime - e[6].time, 1000);
	ck_assert_uint_eq(e[7].runt_len, 3);
	ck_assert_uint_eq(e[7].runt[2], 0xcc);
	ck_assert_uint_eq(e[7].ordinal, 519);
	ck_assert_int_eq(read_all(golden_interleaved, sizeof golden_interleaved, e, 8), 2);
	ck_assert_uint_eq(e[0].ordinal, 0);
	ck_assert_uint_eq(e[1].ordinal, 6);
	ck_assert_int_eq(e[1].time, -3);
	ck_assert_uint_eq(e[1].class, 0);
	ck_assert_int_eq(read_all(golden_classes, sizeof golden_classes, e, 8), 3);
	ck_assert_uint_eq(e[0].class, 5);
	ck_assert_uint_eq(e[1].class, 63);
	ck_assert_uint_eq(e[1].caplen, 54);
	ck_assert_uint_eq(e[1].len, 1514);
	ck_assert_uint_eq(e[2].class, 0);
	ck_assert_uint_eq(e[2].seq, 4);
}
END_TEST

START_TEST(golden_truncated)
{
	for (size_t len = 0; len < goldens[_i].len; len++)
		ck_assert_int_eq(read_all(goldens[_i].data, len, NULL, 0), -1);
}
END_TEST

START_TEST(golden_trailing)
{
	uint8_t buf[512] = {0};

	memcpy(buf, goldens[_i].data, goldens[_i].len);
	ck_assert_int_eq(read_all(buf, goldens[_i].len + 1, NULL, 0), -1);
}
END_TEST

/* A log whose check is right is what was sent; yet no bytes whatever may hurt the reader. */
START_TEST(golden_bit_flips)
{
	struct pr_entry whole[8], e[8];
	size_t len = goldens[_i].len;
	int n = read_all(goldens[_i].data, len, whole, 8);
	uint8_t buf[512], again[512];

	for (size_t bit = 32; bit < len * 8; bit++) {
		memcpy(buf, goldens[_i].data, len);
		buf[bit / 8] ^= (uint8_t)(1 << bit % 8);
		int got = read_all(buf, len, e, 8);
		if (got < 0)
			continue;
		/* It reads as another log, never as the same one. */
		size_t built = build_again(buf, len, again, sizeof again);
		ck_assert(got != n || built != len ||
			  memcmp(again, goldens[_i].data, len) != 0);
	}
}
END_TEST

/* Header fields that no builder writes, each in an else good log. */
START_TEST(odd_headers)
{
	static const struct {
		size_t at;
		uint8_t value;
	} cases[] = {
		{2, 1}, {3, 2}, {3, 8}, {3, 16}, /* flags */
		{11, 0}, /* log number 0 */
		{15, 0}, /* first seq 0 */
		{36, 0x20}, {37, 0}, /* count over the most, and none */
		{37, 7}, {37, 9}, /* count that is not so */
		{38, 0}, {38, 2}, {38, 33}, {75, 0x02}, {75, 0x00}, /* first seq step */
		{76, 0xff}, /* a time step that swallows what follows */
		{90, 0x3f}, /* a varint for what the lead can say */
		{96, 3}, {96, 255}, /* MAC pair out of the table */
	};
	uint8_t buf[sizeof golden_all];

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		memcpy(buf, golden_all, sizeof buf);
		ck_assert_uint_ne(buf[cases[i].at], cases[i].value);
		buf[cases[i].at] = cases[i].value;
		ck_assert_msg(read_all(buf, sizeof buf, NULL, 0) == -1, "byte %zu := %u",
			cases[i].at, cases[i].value);
	}
}
END_TEST

START_TEST(overflows)
{
	/* Interleaved, so that varints of ordinals and seqs can overflow. */
	uint8_t buf[100];
	const uint8_t steps[] = {0x80, 0x40, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
		0xff, 0x01, 0x00, 0x00, 1, 2, 3, 4, 0};
	size_t len = sizeof golden_interleaved - 9;

	memcpy(buf, golden_interleaved, len);
	memcpy(buf + len, steps, sizeof steps); /* seq step 2^64 - 1 */
	ck_assert_int_eq(read_all(buf, len + sizeof steps, NULL, 0), -1);
	buf[len] = 0x81; /* the same number as ordinal step: step 1, then it */
	ck_assert_int_eq(read_all(buf, len + sizeof steps - 1, NULL, 0), -1);
	memset(buf + 20, 0xff, 8); /* first ordinal */
	ck_assert_int_eq(read_all(buf, sizeof golden_interleaved, NULL, 0), -1);
}
END_TEST

START_TEST(property_garbage)
{
	uint8_t buf[300];

	srand(5);
	for (int i = 0; i < 20000; i++) {
		size_t len = (size_t)(rand() % (int)sizeof buf);
		memcpy(buf, golden_all, sizeof golden_all);
		for (size_t k = 39; k < len; k++)
			if (rand() % 3 == 0)
				buf[k] = (uint8_t)rand();
		(void)read_all(buf, len, NULL, 0);
	}
}
END_TEST

static void
fill(TCase *t)
{
	tcase_add_loop_test(t, golden_round_trip, 0, GOLDENS);
	tcase_add_loop_test(t, golden_truncated, 0, GOLDENS);
	tcase_add_loop_test(t, golden_trailing, 0, GOLDENS);
	tcase_add_loop_test(t, golden_bit_flips, 0, GOLDENS);
	tcase_add_test(t, golden_values);
	tcase_add_test(t, odd_headers);
	tcase_add_test(t, overflows);
	tcase_add_test(t, property_garbage);
}

int
main(void)
{
	return unit_run("wire_tslog", fill);
}
