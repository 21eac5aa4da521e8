/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "indexer/index/level1.h"
#include "indexer/index/level2.h"
#include "tests/unit/index_keys.h"
#include "tests/unit/index_records.h"
#include "tests/unit/index_seal.h"
#include "tests/unit/unit.h"

static struct pri_level2 group;
static unsigned opened; /* of the damaged records */

/* ---- bytes that stand in volumes ---- */

static void
golden_record(struct records *r, unsigned columns)
{
	static struct segment s;
	struct pr_segment_builder sb;
	struct pri_builder *b = pri_builder_create(2, RECORD_MAX, take, r, &err);
	uint8_t frame[64] = {0};
	struct pr_packet p = {.time = 1500000000, /* 1.5 s */
		.otime = 1500000000,
		.epoch = 1,
		.seq = 1,
		.linktype = 1,
		.data = frame,
		.caplen = 42,
		.len = 60};

	pr_put_be16(frame + 12, 0x0800);
	frame[14] = 0x45;
	frame[23] = 17;
	pr_put_be32(frame + 26, 0x0a010203);
	pr_put_be32(frame + 30, 0xc000024d);
	pr_put_be16(frame + 34, 4000);
	pr_put_be16(frame + 36, 53);
	pr_segment_begin(&sb, s.body, sizeof(s.body), 0);
	pr_segment_add(&sb, &p);
	p.seq = 4;
	pr_segment_add(&sb, &p);
	s.len = pr_segment_seal(&sb);
	for (unsigned i = 0; i < columns; i++) {
		pri_builder_add(b, 5 + i, 0x0807060504030201, s.body, s.len, &err);
		pri_builder_finish(b, PRI_BUILDER_BATCH_ONLY, &err);
	}
	pri_builder_finish(b, PRI_BUILDER_ALL, &err);
	pri_builder_destroy(&b);
}

/* clang-format off */
static const uint8_t golden_level1[] = {
#include "tests/unit/golden_level1.h"
};
static const uint8_t old_level1[] = {
#include "tests/unit/golden_level1_cc04060.h"
};
/* clang-format on */

START_TEST(level1_golden_bytes)
{
	struct records r = {0};

	golden_record(&r, 1);
	ck_assert_uint_eq(r.items[0].len, sizeof(golden_level1));
	ck_assert_mem_eq(r.items[0].body, golden_level1, sizeof(golden_level1));
	free_records(&r);
}
END_TEST

/* What is no longer made is passed over in a record that has it. */
START_TEST(old_level1_is_read)
{
	static const struct {
		uint16_t port;
		bool source, has;
	} t[] = {{4000, true, true}, {53, false, true}, {4000, false, false},
		{53, true, false}};
	struct pri_level1_top tops[PRI_LEVEL1_TOPS_MAX];
	struct pri_level1_segment s;
	struct pri_series_bucket bucket;
	struct pri_held_walk walk;
	struct pri_level1 l;
	uint64_t seq;
	size_t at = 0, len, page;

	ck_assert_int_eq(pri_level1_open(&l, old_level1, sizeof(old_level1),
				 sizeof(old_level1), &err),
		0);
	pri_level1_get(&l, 0, &s);
	page = pri_level1_page_at(&l, 0, &len);
	ck_assert(pri_level1_page_valid(&l, 0, old_level1 + page, len));
	for (size_t i = 0; i < COUNT(t); i++) {
		struct pri_key key = pri_key_number(
			t[i].source ? PRI_KEY_SPORT : PRI_KEY_DPORT, t[i].port);
		ck_assert(level1_has_key(&l, &s, &key) == t[i].has);
	}
	ck_assert_uint_eq(pri_level1_tops(&l, tops), 2);
	ck_assert_uint_eq(tops[1].bytes, 120);
	ck_assert(pri_level1_series(&s, &at, &bucket) && bucket.packets == 2);
	pri_held_walk_begin(&walk, &s, 3);
	ck_assert(pri_held_walk_next(&walk, &seq) && seq == 0);
	ck_assert(pri_held_walk_next(&walk, &seq) && seq == 3);
	ck_assert(!pri_held_walk_next(&walk, &seq));
}
END_TEST

static uint64_t
sum(const uint8_t *bytes, size_t len)
{
	uint64_t h = 14695981039346656037u; /* FNV-1a */

	for (size_t i = 0; i < len; i++)
		h = (h ^ bytes[i]) * 1099511628211u;
	return h;
}

START_TEST(level2_golden_bytes)
{
	static const uint8_t head[] = {'P', 'I', 'X', '2', 4, 0, 2, 0, /* version, link */
		5, 0, 0, 0, 0, 0, 0, 0, /* first sequence */
		16, 0, 0, 0, 16, 0, 2, 0, /* segments, columns, stride */
		2, 0, 0, 0, 0, 0, 0, 0}; /* pages */
	struct records r = {0};
	const struct pr_index_record *g;

	golden_record(&r, 16);
	g = &r.items[16];
	ck_assert_uint_eq(g->level, 2);
	ck_assert_uint_eq(g->len, 4032 + 2 * 4096);
	ck_assert_mem_eq(g->body, head, sizeof(head));
	ck_assert_uint_eq(sum(g->body, g->len), 10779242097617726963u);
	free_records(&r);
}
END_TEST

/* ---- hostile bytes ---- */

static void
use_segment(const struct pri_level1 *l, unsigned index)
{
	struct pri_series_bucket bucket;
	struct pri_level1_segment s;
	struct pri_held_walk walk;
	uint64_t seq;
	size_t at = 0;

	pri_level1_get(l, index, &s);
	for (uint16_t port = 0; l->whole && port < 64; port++) {
		struct pri_key key = pri_key_number(PRI_KEY_SPORT, port);

		level1_has_key(l, &s, &key);
	}
	pri_level1_has_range(&s, PRI_NUMBER_SPORT, 0, 1000);
	pri_held_walk_begin(&walk, &s, 2000);
	while (pri_held_walk_next(&walk, &seq))
		unit_must(seq <= 2000);
	while (pri_level1_series(&s, &at, &bucket))
		;
}

static void
use_level1(const uint8_t *body, size_t len, size_t total)
{
	struct pri_level1_top tops[PRI_LEVEL1_TOPS_MAX];
	struct pri_level1 l;

	if (pri_level1_open(&l, body, len, total, &err) < 0)
		return;
	opened++;
	if (l.whole)
		pri_level1_tops(&l, tops);
	for (unsigned i = 0; i < l.segments; i++)
		use_segment(&l, i);
}

static void
use_level2(const uint8_t *body, size_t len)
{
	uint8_t vector[PRI_LEVEL2_VECTOR] = {0};

	if (pri_level2_open(&group, body, len, len, &err) < 0)
		return;
	opened++;
	for (unsigned i = 0; i < PRI_SLICES_PAGES; i++) {
		struct pri_slice_walk walk = pri_slice_walk_begin(12345, i, group.pages);

		pri_level2_apply(
			&group, walk, body + pri_level2_page_at(&group, walk.page), vector);
	}
}

/* A copy of exactly its length, so that sanitizers see what reads beyond. */
static void
use_copy(const uint8_t *body, size_t len)
{
	uint8_t *copy = malloc(len ? len : 1);

	memcpy(copy, body, len);
	use_level1(copy, len, len);
	use_level1(copy, len, len + 4096);
	use_level2(copy, len);
	if (index_seal(copy, len)) {
		use_level1(copy, len, len);
		use_level1(copy, len, len + 4096);
		use_level2(copy, len);
	}
	free(copy);
}

START_TEST(damaged_records_do_no_harm)
{
	struct records r = {0};
	uint8_t *bytes;
	size_t len;

	golden_record(&r, 16);
	opened = 0;
	srandom(5);
	for (size_t i = 0; i < r.count; i += 16) {
		len = r.items[i].len;
		bytes = (uint8_t *)(uintptr_t)r.items[i].body;
		for (size_t cut = 0; cut < len && cut < 600; cut++)
			use_copy(bytes, cut);
		for (unsigned j = 0; j < 3000; j++) {
			size_t at = pick(len < 400 ? (uint32_t)len : 400);
			uint8_t was = bytes[at];

			bytes[at] = (uint8_t)random();
			use_copy(bytes, len);
			bytes[at] = was;
		}
		ck_assert_uint_gt(opened, 1000);
		opened = 0;
	}
	free_records(&r);
}
END_TEST

START_TEST(level1_sees_any_flipped_bit)
{
	struct records r = {0};
	struct pri_level1 l;
	uint8_t *bytes;
	size_t head, len, at, page;

	golden_record(&r, 1);
	bytes = (uint8_t *)(uintptr_t)r.items[0].body;
	len = r.items[0].len;
	head = pri_level1_head_of(bytes);
	for (size_t bit = 0; bit < head * 8; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		ck_assert_int_lt(pri_level1_open(&l, bytes, head, len, &err), 0);
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	ck_assert_int_eq(pri_level1_open(&l, bytes, head, len, &err), 0);
	ck_assert(!l.whole);
	at = pri_level1_page_at(&l, 0, &page);
	ck_assert_uint_eq(at, head);
	ck_assert(pri_level1_page_valid(&l, 0, bytes + at, page));
	for (size_t bit = 0; bit < page * 8; bit++) {
		bytes[at + bit / 8] ^= (uint8_t)(1u << bit % 8);
		ck_assert(!pri_level1_page_valid(&l, 0, bytes + at, page));
		bytes[at + bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	free_records(&r);
}
END_TEST

START_TEST(an_older_version_is_refused)
{
	struct records r = {0};
	struct pri_level1 l;

	golden_record(&r, 1);
	((uint8_t *)(uintptr_t)r.items[0].body)[4] = 4;
	ck_assert_int_lt(
		pri_level1_open(&l, r.items[0].body, r.items[0].len, r.items[0].len, &err),
		0);
	ck_assert_str_eq(err.text, "index: version 4, this program reads version 5");
	free_records(&r);
}
END_TEST

START_TEST(level2_sees_any_flipped_bit)
{
	struct records r = {0};
	uint8_t *bytes;

	golden_record(&r, 16);
	bytes = (uint8_t *)(uintptr_t)r.items[16].body;
	for (size_t bit = 0; bit < (40 + 16 * 16) * 8; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		ck_assert_int_lt(pri_level2_open(&group, bytes, r.items[16].len,
					 r.items[16].len, &err),
			0);
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	ck_assert_int_eq(
		pri_level2_open(&group, bytes, r.items[16].len, r.items[16].len, &err), 0);
	bytes += pri_level2_page_at(&group, 1);
	ck_assert(pri_level2_page_valid(&group, 1, bytes));
	ck_assert(!pri_level2_page_valid(&group, 0, bytes));
	bytes[2000] ^= 4;
	ck_assert(!pri_level2_page_valid(&group, 1, bytes));
	free_records(&r);
}
END_TEST

static void
tests(TCase *tc)
{
	tcase_add_test(tc, level1_golden_bytes);
	tcase_add_test(tc, old_level1_is_read);
	tcase_add_test(tc, level2_golden_bytes);
	tcase_add_test(tc, damaged_records_do_no_harm);
	tcase_add_test(tc, level1_sees_any_flipped_bit);
	tcase_add_test(tc, an_older_version_is_refused);
	tcase_add_test(tc, level2_sees_any_flipped_bit);
}

int
main(void)
{
	return unit_run("bytes of the index", tests);
}
