/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "proto/wire/segment.h"
#include "proto/wire/segment_inline.h"
#include "tests/unit/unit.h"
#include "tests/unit/wire_whole.h"

/* clang-format off */
static const uint8_t golden_link[] = {
	'P', 'S', 'E', 'G', 1, 0, 1, 0,             /* magic, version, link type */
	0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01, /* epoch */
	0x03, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, /* link, flags, count */
	0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, /* first seq 2^32 */
	0xfb, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, /* min time -5 */
	0xe8, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, /* max time 1000 */
	0xe8, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, /* first otime 1000 */
	0xe8, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, /* last otime 1000 */
	/* time 1000, seq + 0, caplen 3 of 1500, second copy and cut */
	0xe8, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x03, 0x00, 0x00, 0x00, 0xdc, 0x05, 0x00, 0x00,
	0x03, 0x00, 0x00, 0x00,
	0xaa, 0xbb, 0xcc, 0x00, 0x00, 0x00, 0x00, 0x00,
	/* time -5, seq + 2, no bytes, an otime of its own */
	0xfb, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
	0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x80, 0x00, 0x00,
	0xe8, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
};

static const uint8_t golden_mixed[] = {
	'P', 'S', 'E', 'G', 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
	0x00, 0x00, 0x01, 0x00, 0x01, 0x00, 0x00, 0x00, 0, 0, 0, 0, 0, 0, 0, 0, /* MIXED */
	0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x08, 0x00, 0x00, 0x00, 0x08, 0x00, 0x00, 0x00,
	0x08, 0x80, 0x00, 0x00,
	0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, /* otime */
	0x09, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x80, /* epoch */
	0x07, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x40, /* seq */
	0x05, 0x00, 0x71, 0x00, 0x00, 0x00, 0x00, 0x00, /* link, link type */
	1, 2, 3, 4, 5, 6, 7, 8,
};
/* clang-format on */

static const struct {
	const uint8_t *data;
	size_t len;
} goldens[] = {{golden_link, sizeof golden_link}, {golden_mixed, sizeof golden_mixed}};

/* Who goes step by step finds the same, and the same damage. */
static void
step_beside(struct pr_segment_reader r)
{
	struct pr_segment_walk walk;
	struct pr_segment_step step;
	struct pr_packet p;
	int got;

	pr_segment_walk_begin(&walk, &r);
	do {
		got = pr_segment_next(&r, &p, NULL);
		ck_assert_int_eq(pr_segment_walk_next(&walk, &step), got);
		if (got < 1)
			continue;
		ck_assert_int_eq(step.time, p.time);
		ck_assert_int_eq(step.otime, p.otime);
		ck_assert_uint_eq(r.header.first_seq + step.seq, p.seq);
		ck_assert_uint_eq(step.caplen, p.caplen);
		ck_assert_uint_eq(step.len, p.len);
		ck_assert_ptr_eq(step.data, p.data);
	} while (got == 1);
}

/* Reads a copy of exactly len bytes: the number of packets, or -1. */
static int
read_all(const uint8_t *data, size_t len)
{
	struct pr_segment_reader r;
	struct pr_packet p;
	struct pr_error err = {""};
	int n = 0, got = -1;
	volatile unsigned sum = 0; /* reads the data, for the sanitizers */
	uint8_t *copy = malloc(len ? len : 1);

	memcpy(copy, data, len);
	if (pr_segment_open(&r, copy, len, &err) == 0) {
		if (!(r.header.flags & PR_SEGMENT_MIXED))
			step_beside(r);
		while ((got = pr_segment_next(&r, &p, &err)) == 1) {
			for (uint32_t i = 0; i < p.caplen; i++)
				sum = sum + p.data[i];
			n++;
		}
		ck_assert_int_eq(pr_segment_next(&r, &p, NULL), got);
	}
	ck_assert_int_eq(got < 0, err.text[0] != '\0');
	free(copy);
	return got == 0 ? n : -1;
}

START_TEST(golden_round_trip)
{
	struct pr_segment_reader r;
	struct pr_segment_builder b;
	struct pr_packet p;
	size_t len = goldens[_i].len;
	uint8_t *buf = malloc(len);

	memset(buf, 0xee, len);
	ck_assert_int_eq(pr_segment_open(&r, goldens[_i].data, len, NULL), 0);
	pr_segment_begin(&b, buf, len, r.header.flags);
	while (pr_segment_next(&r, &p, NULL) == 1)
		ck_assert(pr_segment_add(&b, &p));
	ck_assert_uint_eq(pr_segment_seal(&b), len);
	ck_assert_mem_eq(buf, goldens[_i].data, len);
	free(buf);
}
END_TEST

START_TEST(golden_values)
{
	struct pr_segment_reader r;
	struct pr_packet p;

	ck_assert_int_eq(pr_segment_open(&r, golden_link, sizeof golden_link, NULL), 0);
	ck_assert_int_eq(r.header.min_time, -5);
	ck_assert_int_eq(pr_segment_next(&r, &p, NULL), 1);
	ck_assert_uint_eq(p.seq, UINT64_C(1) << 32);
	ck_assert_uint_eq(p.epoch, 0x0102030405060708);
	ck_assert_uint_eq(p.len, 1500);
	ck_assert_uint_eq(p.flags, PR_PACKET_SECOND | PR_PACKET_CUT);
	ck_assert_int_eq(p.otime, 1000);
	ck_assert_uint_eq(p.data[2], 0xcc);
	ck_assert_int_eq(pr_segment_next(&r, &p, NULL), 1);
	ck_assert_int_eq(p.time, -5);
	ck_assert_int_eq(p.otime, 1000);
	ck_assert_uint_eq(p.flags, 0);
	ck_assert_uint_eq(p.link, 3);
	ck_assert_int_eq(pr_segment_next(&r, &p, NULL), 0);
	ck_assert_int_eq(pr_segment_open(&r, golden_mixed, sizeof golden_mixed, NULL), 0);
	ck_assert_int_eq(pr_segment_next(&r, &p, NULL), 1);
	ck_assert_uint_eq(p.seq, 0x4000000000000007);
	ck_assert_uint_eq(p.epoch, 0x8000000000000009);
	ck_assert_uint_eq(p.link, 5);
	ck_assert_uint_eq(p.linktype, 113);
	ck_assert_uint_eq(p.flags, PR_PACKET_MATCH_UNSURE);
}
END_TEST

START_TEST(golden_truncated_or_longer)
{
	uint8_t buf[512] = {0};
	size_t len = goldens[_i].len;

	for (size_t n = 0; n < len; n++)
		ck_assert_int_lt(read_all(goldens[_i].data, n), 0);
	memcpy(buf, goldens[_i].data, len);
	for (size_t more = 1; more < 64; more++)
		ck_assert_int_lt(read_all(buf, len + more), 0);
}
END_TEST

/* Records are hashed as a whole; flips must not hurt all the same. */
START_TEST(golden_bit_flips)
{
	uint8_t buf[512];
	size_t len = goldens[_i].len;

	for (size_t bit = 0; bit < len * 8; bit++) {
		memcpy(buf, goldens[_i].data, len);
		buf[bit / 8] ^= (uint8_t)(1 << bit % 8);
		int got = read_all(buf, len);
		if (bit < 6 * 8) /* magic, version */
			ck_assert_int_lt(got, 0);
	}
}
END_TEST

START_TEST(odd_segments)
{
	static const struct {
		size_t at;
		uint8_t value;
	} cases[] = {
		{18, 2}, {18, 1}, {20, 0}, {20, 1}, {20, 3}, {23, 0x80}, {32, 0xff},
		{39, 0x7f}, /* min time after max */
		{72, 1}, /* first packet is not first seq */
		{76, 9}, /* caplen into the next */
		{79, 0xff}, /* caplen of 4 GiB */
		{86, 1}, {87, 0x80}, /* reserved */
		{104, 0}, /* the same seq twice */
		{117, 0}, /* an otime that is not said */
	};
	uint8_t buf[sizeof golden_link];

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		memcpy(buf, golden_link, sizeof buf);
		buf[cases[i].at] = cases[i].value;
		bool harmless = cases[i].at == 32; /* another min time, below max */
		ck_assert_msg((read_all(buf, sizeof buf) < 0) == !harmless,
			"byte %zu := %u", cases[i].at, cases[i].value);
	}
	memcpy(buf, golden_link, sizeof buf);
	memset(buf + 24, 0xff, 8); /* a first seq that none can follow */
	ck_assert_int_lt(read_all(buf, sizeof buf), 0);
}
END_TEST

START_TEST(builder_refuses)
{
	static uint8_t buf[1024], data[2000];
	struct pr_segment_builder b;
	struct pr_packet p = {.epoch = 1,
				 .seq = 10,
				 .link = 2,
				 .linktype = 1,
				 .data = data},
			 q;

	pr_segment_begin(&b, buf, sizeof buf, 0);
	ck_assert_uint_eq(pr_segment_seal(&b), 0);
	ck_assert(pr_segment_add(&b, &p));
	ck_assert(!pr_segment_add(&b, &p)); /* the same seq */
	p.seq++;
	q = p, q.epoch++;
	ck_assert(!pr_segment_add(&b, &q));
	q = p, q.link++;
	ck_assert(!pr_segment_add(&b, &q));
	q = p, q.linktype++;
	ck_assert(!pr_segment_add(&b, &q));
	q = p, q.seq = 9;
	ck_assert(!pr_segment_add(&b, &q));
	q = p, q.seq = 10 + (UINT64_C(1) << 32);
	ck_assert(!pr_segment_add(&b, &q));
	q = p, q.caplen = sizeof data;
	ck_assert(!pr_segment_add(&b, &q));
	q = p, q.caplen = UINT32_MAX;
	ck_assert(!pr_segment_add(&b, &q));
	q = p, q.flags = PR_SEGMENT_OTIME;
	ck_assert(!pr_segment_add(&b, &q));
	size_t used = b.used;
	q = p, q.seq = UINT64_C(10) + UINT32_MAX;
	ck_assert(pr_segment_add(&b, &q));
	ck_assert_uint_eq(b.used, used + PR_SEGMENT_PACKET);
	ck_assert_int_eq(read_all(buf, pr_segment_seal(&b)), 2);
	pr_segment_begin(&b, buf, sizeof buf, PR_SEGMENT_MIXED);
	ck_assert(pr_segment_add(&b, &p));
	ck_assert(pr_segment_add(&b, &p));
	p.epoch++, p.seq = 1, p.link = 9;
	ck_assert(pr_segment_add(&b, &p));
	ck_assert_int_eq(read_all(buf, pr_segment_seal(&b)), 3);
}
END_TEST

static void
random_packet(struct pr_packet *p, uint8_t *data, uint64_t *seq)
{
	*seq += 1 + (uint64_t)(rand() % 5);
	p->seq = *seq;
	p->time = rand() - RAND_MAX / 2;
	p->otime = rand() % 3 ? p->time : p->time + rand() % 1000;
	p->caplen = (uint32_t)(rand() % 300);
	p->len = p->caplen + (uint32_t)(rand() % 2000);
	p->flags = (uint16_t)rand() & 0xf;
	for (uint32_t i = 0; i < p->caplen; i++)
		data[i] = (uint8_t)rand();
}

/* Random packets, into rooms of random size; each segment begins anew where the last was full. */
START_TEST(property_round_trip)
{
	static struct pr_packet want[10000];
	static uint8_t data[10000][300];
	struct pr_error err;

	srand(3 + (unsigned)_i);
	for (int round = 0; round < 30; round++) {
		size_t room = PR_SEGMENT_HEADER + 64 + (size_t)(rand() % 20000);
		uint16_t flags = rand() % 2 ? PR_SEGMENT_MIXED : 0;
		uint64_t seq = (uint64_t)rand() << 31;
		uint8_t *buf = malloc(room);
		struct pr_segment_builder b;
		int n = 0;

		pr_segment_begin(&b, buf, room, flags);
		for (;; n++) {
			struct pr_packet *p = &want[n];
			*p = (struct pr_packet){.epoch = 77, .linktype = 1, .link = 4};
			if (flags)
				p->link = (uint16_t)rand(), p->epoch = (uint64_t)rand();
			random_packet(p, data[n], &seq);
			p->data = data[n];
			size_t before = b.used;
			if (!pr_segment_add(&b, p))
				break;
			ck_assert_uint_le(b.used - before, pr_segment_cost(p->caplen));
		}
		ck_assert_uint_gt(b.used + pr_segment_cost(want[n].caplen), room);
		size_t len = pr_segment_seal(&b);
		ck_assert_uint_le(len, room);
		if (n == 0) {
			ck_assert_uint_eq(len, 0);
			free(buf);
			continue;
		}
		struct pr_source *s = segment_source(buf, len, &err);
		ck_assert_ptr_nonnull(s);
		struct pr_packet got;
		for (int i = 0; i < n; i++) {
			ck_assert_int_eq(pr_source_next(s, &got, &err), PR_SOURCE_PACKET);
			ck_assert_uint_eq((uintptr_t)(got.data - buf) % 8, 0);
			ck_assert_mem_eq(got.data, data[i], got.caplen);
			got.data = want[i].data;
			ck_assert_mem_eq(
				&got, &want[i], offsetof(struct pr_packet, flags) + 2);
		}
		ck_assert_int_eq(pr_source_next(s, &got, &err), PR_SOURCE_END);
		pr_source_destroy(&s);
		ck_assert_ptr_null(s);
		free(buf);
	}
}
END_TEST

START_TEST(reserve_in_place)
{
	static uint8_t buf[256];
	struct pr_segment_builder b;
	struct pr_packet p = {.epoch = 1, .seq = 10, .caplen = 13};

	memset(buf, 0xee, sizeof buf);
	pr_segment_begin(&b, buf, sizeof buf, 0);
	uint8_t *data = pr_segment_take_room(&b, &p);
	ck_assert_ptr_eq(data, buf + PR_SEGMENT_HEADER + PR_SEGMENT_PACKET);
	memset(data, 7, p.caplen);
	ck_assert_uint_eq(pr_segment_seal(&b), PR_SEGMENT_HEADER + PR_SEGMENT_PACKET + 16);
	ck_assert_mem_eq(data + 13, "\0\0\0", 3);
	ck_assert_uint_eq(data[16], 0xee);
	size_t len = PR_SEGMENT_HEADER + PR_SEGMENT_PACKET + 16;
	ck_assert_int_eq(read_all(buf, len), 1);
	for (size_t less = 1; less <= len; less++) /* the padding belongs to it */
		ck_assert_int_eq(read_all(buf, len - less), -1);
}
END_TEST

START_TEST(errors_name_the_thing)
{
	struct pr_error err;
	struct pr_segment_header h;
	uint8_t buf[sizeof golden_link];

	memcpy(buf, golden_link, sizeof buf);
	buf[4] = 9;
	ck_assert_int_eq(pr_segment_peek(buf, sizeof buf, &h, &err), -1);
	ck_assert_ptr_nonnull(strstr(err.text, "version 9"));
	ck_assert_ptr_null(segment_source(buf, sizeof buf, &err));
	ck_assert_int_eq(pr_segment_peek(golden_link, 64, &h, &err), 0);
	ck_assert_uint_eq(h.count, 2);
	ck_assert_int_eq(pr_segment_peek(golden_link, 63, &h, &err), -1);
}
END_TEST

static void
fill(TCase *t)
{
	tcase_add_loop_test(t, golden_round_trip, 0, 2);
	tcase_add_loop_test(t, golden_truncated_or_longer, 0, 2);
	tcase_add_loop_test(t, golden_bit_flips, 0, 2);
	tcase_add_test(t, golden_values);
	tcase_add_test(t, odd_segments);
	tcase_add_test(t, builder_refuses);
	tcase_add_loop_test(t, property_round_trip, 0, 4);
	tcase_add_test(t, reserve_in_place);
	tcase_add_test(t, errors_name_the_thing);
}

int
main(void)
{
	return unit_run("wire_segment", fill);
}
