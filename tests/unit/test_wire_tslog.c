/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "proto/wire/tslog.h"
#include "tests/unit/unit.h"

#define ROOM (1508 - PR_FRAME_HEADER - PR_FRAME_TAG)
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
/* clang-format on */

static const struct {
	const uint8_t *data;
	size_t len;
} goldens[] = {
	{golden_all, sizeof golden_all}, {golden_interleaved, sizeof golden_interleaved}};

/* Reads a copy of exactly len bytes to its end: the number of entries, or -1. */
static int
read_all(const uint8_t *data, size_t len, struct pr_entry *out, int room)
{
	struct pr_tslog_reader r;
	struct pr_entry e;
	int n = 0, got = -1;
	uint8_t *copy = malloc(len ? len : 1);

	memcpy(copy, data, len);
	if (pr_tslog_open(&r, copy, len) == 0) {
		while ((got = pr_tslog_next(&r, &e)) == 1) {
			if (n < room)
				out[n] = e;
			n++;
		}
		ck_assert_int_eq(pr_tslog_next(&r, &e), got);
	}
	free(copy);
	return got == 0 ? n : -1;
}

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
		{2, 1}, {3, 2}, /* flags */
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

static void
macs_of(struct pr_entry *e, unsigned n)
{
	memset(e->macs, 0, sizeof e->macs);
	e->macs[5] = (uint8_t)n;
	e->macs[11] = (uint8_t)(n >> 8);
}

static uint64_t
rand64(void)
{
	return (uint64_t)rand() << 42 ^ (uint64_t)rand() << 21 ^ (uint64_t)rand();
}

static void
random_entry(
	struct pr_entry *e, const struct pr_entry *before, bool interleaved, unsigned pairs)
{
	memset(e, 0, sizeof *e);
	e->seq = before->seq + 1 + (rand() % 10 == 0 ? rand64() >> (20 + rand() % 44) : 0);
	e->ordinal = before->ordinal + 1 + (interleaved ? (uint64_t)(rand() % 200) : 0);
	/* any step at all, also over the end of int64_t */
	e->time = (int64_t)((uint64_t)before->time + (rand64() >> (2 + rand() % 62)) -
			    (rand() % 10 == 0 ? 100000 : 0));
	e->otime = e->time > INT64_MAX / 2 || rand() % 10 ? e->time : e->time + rand();
	e->fingerprint = (uint32_t)rand64();
	e->flags = rand() % 3 == 0 ? (uint8_t)rand64() : 0;
	e->flags &= (uint8_t) ~(PR_ENTRY_PAIR | PR_ENTRY_OTIME);
	if (e->otime > e->time)
		e->flags |= PR_ENTRY_OTIME;
	if (e->flags & PR_ENTRY_CAPLEN)
		e->len = e->caplen = (uint32_t)rand64();
	if (e->flags & PR_ENTRY_LEN)
		e->len = (uint32_t)(rand64() >> rand() % 64);
	if (e->flags & PR_ENTRY_ETHERTYPE)
		e->ethertype = (uint16_t)rand();
	if (e->flags & PR_ENTRY_RUNT) {
		e->runt_len = (uint8_t)(rand() % 14);
		for (int i = 0; i < e->runt_len; i++)
			e->runt[i] = (uint8_t)rand();
	} else {
		macs_of(e, (unsigned)rand() % pairs);
	}
}

static void
check_log(struct pr_tslog_builder *b, const struct pr_entry *entries, int n)
{
	static struct pr_entry got[PR_TSLOG_ENTRIES_MAX];
	const uint8_t *body;
	size_t len = pr_tslog_finish(b, &body);

	ck_assert_uint_le(len, b->room);
	ck_assert_int_eq(read_all(body, len, got, PR_TSLOG_ENTRIES_MAX), n);
	for (int i = 0; i < n; i++)
		ck_assert_mem_eq(&got[i], &entries[i], sizeof got[i]);
}

/* Any entries come back as they were, from logs of any size, each alone. */
START_TEST(property_round_trip)
{
	static struct pr_entry in_log[PR_TSLOG_ENTRIES_MAX];
	struct pr_tslog_builder b;

	srand(11 + (unsigned)_i);
	for (int round = 0; round < 40; round++) {
		size_t room = 256 + (size_t)(rand() % (round % 10 == 0 ? 60000 : 1500));
		uint8_t *buf = malloc(room);
		bool interleaved = rand() % 2;
		unsigned pairs = 1 + (unsigned)rand() % (rand() % 4 ? 3 : 60);
		struct pr_entry e,
			before = {.time = (int64_t)rand64(), .seq = (uint64_t)rand()};
		int n = 0, refused = 0;

		before.ordinal = (uint64_t)rand();
		pr_tslog_begin(&b, 5, interleaved ? PR_TSLOG_INTERLEAVED : 0, 1, buf, room);
		for (int i = 0; i < 2000; i++) {
			random_entry(&e, &before, interleaved, pairs);
			if (e.seq <= before.seq)
				break; /* over the end of 64 bits */
			if (!pr_tslog_add(&b, &e)) {
				ck_assert_int_gt(n, 0);
				check_log(&b, in_log, n);
				pr_tslog_begin(&b, 5, b.header.flags, 2, buf, room);
				ck_assert(pr_tslog_add(&b, &e));
				n = 0;
				refused++;
			}
			in_log[n++] = before = e;
		}
		if (n)
			check_log(&b, in_log, n);
		free(buf);
	}
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

START_TEST(pair_table_is_full)
{
	static uint8_t buf[4000];
	struct pr_tslog_builder b;
	struct pr_entry e = {.seq = 0, .ordinal = 9};

	pr_tslog_begin(&b, 0, 0, 1, buf, sizeof buf);
	for (unsigned i = 0; i < PR_TSLOG_PAIRS_MAX; i++) {
		e.seq++, e.ordinal++;
		macs_of(&e, i);
		ck_assert(pr_tslog_add(&b, &e));
	}
	e.seq++, e.ordinal++;
	macs_of(&e, 1000);
	ck_assert(!pr_tslog_add(&b, &e));
	macs_of(&e, 7);
	ck_assert(pr_tslog_add(&b, &e)); /* a pair of the table still goes in */
	const uint8_t *body;
	size_t len = pr_tslog_finish(&b, &body);
	ck_assert_int_eq(read_all(body, len, NULL, 0), PR_TSLOG_PAIRS_MAX + 1);
}
END_TEST

START_TEST(builder_refuses)
{
	static uint8_t buf[70000];
	struct pr_tslog_builder b;
	struct pr_entry e = {.seq = 0, .ordinal = 9};
	const uint8_t *body;

	pr_tslog_begin(&b, 0, 0, 1, buf, sizeof buf);
	ck_assert_uint_eq(pr_tslog_finish(&b, &body), 0);
	ck_assert(!pr_tslog_add(&b, &e)); /* seq 0 */
	e.seq = 5;
	ck_assert(pr_tslog_add(&b, &e));
	e.ordinal++;
	ck_assert(!pr_tslog_add(&b, &e)); /* the same seq */
	e.seq++;
	e.ordinal++;
	ck_assert(!pr_tslog_add(&b, &e)); /* an ordinal left out */
	e.ordinal--;
	ck_assert(pr_tslog_add(&b, &e));
	while (b.header.count < PR_TSLOG_ENTRIES_MAX) {
		e.seq++, e.ordinal++;
		ck_assert(pr_tslog_add(&b, &e));
	}
	e.seq++, e.ordinal++;
	ck_assert(!pr_tslog_add(&b, &e));
	pr_tslog_begin(&b, 0, PR_TSLOG_INTERLEAVED, 2, buf, sizeof buf);
	ck_assert(pr_tslog_add(&b, &e));
	e.seq++;
	ck_assert(!pr_tslog_add(&b, &e)); /* the same ordinal */
	e.ordinal += 1000;
	ck_assert(pr_tslog_add(&b, &e));
}
END_TEST

/* Exponential gaps, without libm's log: the sum of coin tosses of a geometric. */
static int64_t
gap(double mean)
{
	double u = (rand() + 1.0) / (RAND_MAX + 2.0), sum = 0;
	/* -ln u = 2 artanh((1 - u) / (1 + u)), by its series */
	double z = (1 - u) / (1 + u), zz = z * z;
	for (int k = 1; k < 400; k += 2, z *= zz)
		sum += z / k;
	return (int64_t)(2 * sum * mean);
}

/* Bytes an entry with all headers, one node of four, 150,000 packets/s on the link. */
static double
bytes_per_entry(int short_percent)
{
	static uint8_t buf[ROOM];
	struct pr_tslog_builder b;
	struct pr_entry e = {.time = T0, .ordinal = 0};
	const uint8_t *body;
	size_t bytes = 0;
	uint64_t number = 1;
	int entries = 100000;

	pr_tslog_begin(&b, 0, 0, number, buf, sizeof buf);
	for (int i = 0; i < entries; i++) {
		e.seq = 4 * (uint64_t)i + 1;
		e.ordinal = (uint64_t)i;
		for (int k = 0; k < 4; k++)
			e.time += gap(1e9 / 150000);
		e.otime = e.time;
		e.fingerprint = (uint32_t)rand();
		e.flags = rand() % 100 < short_percent ? PR_ENTRY_CAPLEN : 0;
		e.caplen = e.flags ? 54 : 0;
		macs_of(&e, (unsigned)rand() % 2);
		if (!pr_tslog_add(&b, &e)) {
			bytes += pr_tslog_finish(&b, &body) + PR_FRAME_OVERHEAD;
			pr_tslog_begin(&b, 0, 0, ++number, buf, sizeof buf);
			ck_assert(pr_tslog_add(&b, &e));
		}
	}
	return (double)(bytes + pr_tslog_finish(&b, &body) + PR_FRAME_OVERHEAD) / entries;
}

START_TEST(under_two_percent)
{
	double plain = bytes_per_entry(0), mixed = bytes_per_entry(30);

	ck_assert_msg(plain < 9.0, "%.2f bytes an entry", plain);
	ck_assert_msg(mixed < 9.7, "%.2f bytes an entry", mixed);
	/* of a mean of 450 bytes a packet (CLog's mix) */
	ck_assert(plain < 0.02 * 450);
}
END_TEST

static void
fill(TCase *t)
{
	tcase_add_loop_test(t, golden_round_trip, 0, 2);
	tcase_add_loop_test(t, golden_truncated, 0, 2);
	tcase_add_loop_test(t, golden_trailing, 0, 2);
	tcase_add_loop_test(t, golden_bit_flips, 0, 2);
	tcase_add_test(t, golden_values);
	tcase_add_test(t, odd_headers);
	tcase_add_test(t, overflows);
	tcase_add_loop_test(t, property_round_trip, 0, 4);
	tcase_add_test(t, property_garbage);
	tcase_add_test(t, pair_table_is_full);
	tcase_add_test(t, builder_refuses);
	tcase_add_test(t, under_two_percent);
}

int
main(void)
{
	return unit_run("wire_tslog", fill);
}
