/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "indexer/index/level1.h"
#include "indexer/index/segment_keys.h"
#include "proto/wire/cursor.h"
#include "proto/wire/segment.h"
#include "tests/unit/unit.h"

/* Addresses that have packets with one other only: who looks for others of theirs is told that there are none. */

#define RECORD_MAX (256 * 1024)
#define ME 0x0a000001u
#define YOU 0xc0000201u
#define THEY 0xc0000202u

static struct pr_error err;
static uint8_t body[256 * 1024];
static struct pr_segment_builder builder;
static struct pri_segment_keys sketch;
static struct pri_level1_writer writer;
static uint8_t record[RECORD_MAX];
static uint64_t seq;

/* type 0x0800 or 0x0806; len: what was captured of it */
static void
add(uint16_t type, uint32_t src, uint32_t dst, uint32_t len, unsigned times)
{
	uint8_t frame[64] = {[14] = type == 0x0800 ? 0x45 : 0, [23] = 17};
	size_t at = type == 0x0800 ? 26 : 28;

	pr_put_be16(frame + 12, type);
	pr_put_be32(frame + at, src);
	pr_put_be32(frame + (type == 0x0800 ? 30 : 38), dst);
	for (unsigned i = 0; i < times; i++) {
		struct pr_packet p = {
			.linktype = 1, .data = frame, .caplen = len, .len = 64};
		p.seq = ++seq;
		unit_must(pr_segment_add(&builder, &p));
	}
}

static void
begin(void)
{
	pr_segment_begin(&builder, body, sizeof(body), 0);
}

static void
finish(uint64_t sequence)
{
	unit_must(
		pri_segment_keys_take(&sketch, body, pr_segment_seal(&builder), &err) == 0);
	unit_must(pri_level1_add(&writer, sequence, 1, &sketch, RECORD_MAX) == 1);
}

static size_t
finish_record(struct pri_level1 *l)
{
	size_t len = pri_level1_finish(&writer, 1, NULL, 0, 0, 0, record);

	unit_must(len <= RECORD_MAX && pri_level1_open(l, record, len, len, &err) == 0);
	return len;
}

static bool
is_sole(const struct pri_level1 *l, unsigned index, uint32_t a, uint32_t other)
{
	size_t len, at = pri_level1_page_at(l, l->pages, &len);

	unit_must(pri_level1_page_valid(l, l->pages, l->body + at, len));
	return pri_level1_sole(index, a, other, l->body + at, len);
}

static void
done(void)
{
	pri_level1_free(&writer);
	pri_segment_keys_free(&sketch);
}

/* Of each segment: what it has, and is ME with YOU alone? */
static const struct {
	struct {
		uint16_t type;
		uint32_t src, dst, len;
		unsigned times;
	} packets[3];
	bool sole;
} cases[] = {
	{{{0x0800, ME, YOU, 64, 10}}, true},
	{{{0x0800, YOU, ME, 64, 10}}, true},
	{{{0x0800, ME, YOU, 64, 6}, {0x0800, YOU, ME, 64, 6}}, true},
	{{{0x0800, ME, YOU, 64, 6}, {0x0806, YOU, ME, 64, 6}}, true},
	{{{0x0800, ME, YOU, 64, 10}, {0x0800, THEY, YOU, 64, 10}}, true},
	{{{0x0800, ME, YOU, 64, 1}}, false}, /* few are not told */
	{{{0x0800, ME, YOU, 64, 100}, {0x0800, ME, THEY, 64, 1}}, false},
	{{{0x0800, ME, YOU, 64, 100}, {0x0800, THEY, ME, 64, 1}}, false},
	{{{0x0800, ME, THEY, 64, 1}, {0x0800, ME, YOU, 64, 100}}, false},
	{{{0x0800, ME, YOU, 64, 100}, {0x0806, ME, THEY, 64, 1}}, false},
	{{{0x0800, ME, YOU, 64, 100}, {0x0800, ME, ME, 64, 1}}, false},
	{{{0x0800, ME, YOU, 64, 100}, {0x0800, ME, THEY, 31, 1}}, false}, /* cut off */
	{{{0x0800, ME, THEY, 64, 100}}, false},
	{{{0x0800, THEY, YOU, 64, 100}}, false},
};
#define CASES (sizeof(cases) / sizeof(*cases))

START_TEST(tells_who_has_one_peer_alone)
{
	struct pri_level1 l;

	pri_level1_begin(&writer);
	for (size_t i = 0; i < CASES; i++) {
		begin();
		for (size_t j = 0; j < 3 && cases[i].packets[j].times; j++)
			add(cases[i].packets[j].type, cases[i].packets[j].src,
				cases[i].packets[j].dst, cases[i].packets[j].len,
				cases[i].packets[j].times);
		finish(1 + i);
	}
	finish_record(&l);
	ck_assert(is_sole(&l, 0, YOU, ME));
	ck_assert(!is_sole(&l, 4, YOU, ME));
	ck_assert(!is_sole(&l, 4, YOU, THEY));
	for (unsigned i = 0; i < CASES; i++)
		ck_assert_msg(is_sole(&l, i, ME, YOU) == cases[i].sole, "case %u", i);
	ck_assert(is_sole(&l, 12, ME, THEY));
	done();
}
END_TEST

/* More than a segment may tell of: those that are told are right. */
START_TEST(tells_no_more_than_it_may)
{
	struct pri_level1 l;
	unsigned told = 0;

	pri_level1_begin(&writer);
	begin();
	for (uint32_t i = 0; i < 3 * PRI_LEVEL1_SOLES; i++)
		add(0x0800, ME + i, i % 8 ? YOU : THEY, 42, i % 2 ? 8 : 7);
	finish(1);
	finish_record(&l);
	for (uint32_t i = 0; i < 3 * PRI_LEVEL1_SOLES; i++) {
		ck_assert(i % 2 || !is_sole(&l, 0, ME + i, i % 8 ? YOU : THEY));
		told += is_sole(&l, 0, ME + i, i % 8 ? YOU : THEY);
		ck_assert(!is_sole(&l, 0, ME + i, i % 8 ? THEY : YOU));
	}
	ck_assert_uint_eq(told, PRI_LEVEL1_SOLES);
	done();
}
END_TEST

/* What lies says nothing wrong that it does not say itself, and nothing is read behind its end. */
START_TEST(takes_lying_counts)
{
	struct pri_level1 l;
	uint8_t *copy;
	size_t at, len;

	pri_level1_begin(&writer);
	for (unsigned i = 0; i < 3; i++) {
		begin();
		add(0x0800, ME, YOU, 64, 10);
		finish(1 + i);
	}
	finish_record(&l);
	at = pri_level1_page_at(&l, l.pages, &len);
	for (unsigned round = 0; round < 1000; round++) {
		copy = malloc(len);
		memcpy(copy, l.body + at, len);
		copy[8 + (size_t)random() % (len - 8)] = (uint8_t)random();
		ck_assert(!memcmp(copy, l.body + at, len) ||
			  !pri_level1_page_valid(&l, l.pages, copy, len));
		for (unsigned i = 0; i < 3; i++)
			pri_level1_sole(i, ME, YOU, copy, len);
		free(copy);
	}
	done();
}
END_TEST

static void
tests(TCase *tc)
{
	tcase_add_test(tc, tells_who_has_one_peer_alone);
	tcase_add_test(tc, tells_no_more_than_it_may);
	tcase_add_test(tc, takes_lying_counts);
}

int
main(void)
{
	return unit_run("soles", tests);
}
