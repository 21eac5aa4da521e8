/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "indexer/index/level1.h"
#include "indexer/index/level2.h"
#include "indexer/index/segment_keys.h"
#include "indexer/index/segment_tables.h"
#include "tests/unit/index_records.h"
#include "tests/unit/unit.h"
#include "tests/unit/index_keys.h"

/* ---- level 1 ---- */

static int
open_record(struct pri_level1 *l, const struct pr_index_record *r)
{
	return pri_level1_open(l, r->body, r->len, r->len, &err);
}

static void
check_packets(const struct pri_level1 *record, const struct pri_level1_segment *l,
	const struct segment *s)
{
	struct pr_segment_reader r;
	struct pr_packet p;
	struct pri_key keys[PRI_KEYS_MAX];

	ck_assert_int_eq(pr_segment_open(&r, s->body, s->len, &err), 0);
	while (pr_segment_next(&r, &p, &err) == 1) {
		size_t count = keys_of_packet(&p, keys);

		for (size_t i = 0; i < count; i++)
			ck_assert(level1_has_key(record, l, &keys[i]));
		ck_assert(pri_level1_has_range(l, PRI_NUMBER_LENGTH, p.len, p.len));
		ck_assert(pri_level1_has_range(l, PRI_NUMBER_SPORT,
			pr_get_be16(p.data + 34), pr_get_be16(p.data + 34)));
		ck_assert(pri_level1_has_range(
			l, PRI_NUMBER_DPORT, 0, pr_get_be16(p.data + 36)));
		ck_assert(pri_level1_has_range(l, PRI_NUMBER_SRC4, pr_get_be32(p.data + 26),
			pr_get_be32(p.data + 26)));
		ck_assert(pri_level1_has_range(
			l, PRI_NUMBER_DST4, pr_get_be32(p.data + 30), INT64_MAX));
	}
}

static void
check_held(const struct pri_level1_segment *l, const struct segment *s)
{
	struct pri_held_walk walk;
	uint64_t seq, span = s->seqs[s->count - 1] - s->seqs[0];

	pri_held_walk_begin(&walk, l, span);
	for (uint32_t i = 0; i < s->count; i++) {
		ck_assert(pri_held_walk_next(&walk, &seq));
		ck_assert_uint_eq(s->seqs[0] + seq, s->seqs[i]);
	}
	ck_assert(!pri_held_walk_next(&walk, &seq));
}

static void
check_series(const struct pri_level1_segment *l, const struct segment *s)
{
	struct pr_segment_reader r;
	struct pr_packet p;
	struct pri_series_bucket bucket;
	uint64_t packets = 0, bytes = 0, wanted = 0;
	size_t at = 0;
	int64_t first;

	ck_assert_int_eq(pr_segment_open(&r, s->body, s->len, &err), 0);
	first = r.header.min_time / PR_NS_PER_S;
	while (pri_level1_series(l, &at, &bucket)) {
		packets += bucket.packets;
		bytes += bucket.bytes;
		ck_assert_uint_le((uint64_t)first + (bucket.interval << l->series_width),
			(uint64_t)(r.header.max_time / PR_NS_PER_S));
	}
	while (pr_segment_next(&r, &p, &err) == 1)
		wanted += p.len;
	ck_assert_uint_eq(packets, s->count);
	ck_assert_uint_eq(bytes, wanted);
}

START_TEST(level1_knows_all_that_is_there)
{
	static const uint32_t steps[] = {1, 4, 0, 1, 0};
	static struct segment s[COUNT(steps)];
	struct records r = {0};
	struct pri_builder *b = pri_builder_create(3, RECORD_MAX, take, &r, &err);
	struct pri_level1_segment got;
	struct pri_level1 l;

	srandom(1);
	for (size_t i = 0; i < COUNT(steps); i++) {
		make_segment(&s[i], 1 + i * 10000, i == 3 ? 1 : 300, 50, steps[i]);
		ck_assert_int_eq(
			pri_builder_add(b, 7 + i, i * 11, s[i].body, s[i].len, &err), 1);
	}
	ck_assert_int_eq(pri_builder_finish(b, PRI_BUILDER_ALL, &err), 1);
	ck_assert_uint_eq(r.count, 1);
	ck_assert_int_eq(open_record(&l, &r.items[0]), 0);
	ck_assert_uint_eq(l.segments, COUNT(steps));
	ck_assert_uint_eq(l.first_sequence, 7);
	ck_assert_uint_eq(l.link, 3);
	for (unsigned i = 0; i < COUNT(steps); i++) {
		pri_level1_get(&l, i, &got);
		ck_assert_uint_eq(got.proof, i * 11);
		check_packets(&l, &got, &s[i]);
		check_held(&got, &s[i]);
		check_series(&got, &s[i]);
		ck_assert(!pri_level1_has_range(
			&got, PRI_NUMBER_SRC4, 0x30000000, 0x30ffffff));
	}
	free_records(&r);
	pri_builder_destroy(&b);
}
END_TEST

/* One in 2^low bits, of as many values as there are keys. */
START_TEST(level1_false_positives_are_few)
{
	static struct segment s;
	struct records r = {0};
	struct pri_builder *b = pri_builder_create(0, RECORD_MAX, take, &r, &err);
	struct pri_level1_segment got;
	struct pri_level1 l;
	unsigned hits = 0;

	srandom(2);
	make_segment(&s, 1, 400, 100000, 1);
	ck_assert_int_eq(pri_builder_add(b, 1, 1, s.body, s.len, &err), 1);
	ck_assert_int_eq(pri_builder_finish(b, PRI_BUILDER_ALL, &err), 1);
	ck_assert_int_eq(open_record(&l, &r.items[0]), 0);
	pri_level1_get(&l, 0, &got);
	for (unsigned i = 0; i < 100000; i++) {
		uint8_t address[4];
		struct pri_key key;

		pr_put_be32(address, 0x20000000 + i * 977);
		key = pri_key_bytes(PRI_KEY_SRC, address, 4);
		hits += level1_has_key(&l, &got, &key);
	}
	ck_assert_uint_ge(l.low_bits, 5);
	ck_assert_msg(hits > 50000u >> l.low_bits && hits < 110000u >> l.low_bits,
		"%u of 100000, %u bits", hits, l.low_bits);
	ck_assert(!pri_level1_has_range(&got, PRI_NUMBER_LENGTH, 1100, 2000));
	ck_assert(!pri_level1_has_range(&got, PRI_NUMBER_DPORT, 112, 1000));
	ck_assert(!pri_level1_has_range(&got, PRI_NUMBER_DPORT, 5000, 70000));
	ck_assert(pri_level1_has_range(&got, PRI_NUMBER_TIME, 5, 5));
	free_records(&r);
	pri_builder_destroy(&b);
}
END_TEST

/* ---- level 2 ---- */

static struct pri_level2 group;

static void
look_up(const uint8_t *body, const struct pri_key *key, uint8_t *vector)
{
	memset(vector, 0xff, PRI_LEVEL2_VECTOR);
	for (unsigned i = 0; i < PRI_SLICES_PAGES; i++) {
		struct pri_slice_walk walk =
			pri_slice_walk_begin(pri_key_hash(key), i, group.pages);
		const uint8_t *page = body + pri_level2_page_at(&group, walk.page);

		ck_assert(pri_level2_page_valid(&group, walk.page, page));
		pri_level2_apply(&group, walk, page, vector);
	}
}

static bool
has_column(const uint8_t *vector, unsigned column)
{
	return vector[column / 8] & 1u << column % 8;
}

static void
check_column(const struct pr_index_record *record, const struct segment *s, unsigned column)
{
	struct pr_segment_reader r;
	struct pr_packet p;
	struct pri_key keys[PRI_KEYS_MAX];
	uint8_t vector[PRI_LEVEL2_VECTOR];

	ck_assert_int_eq(pr_segment_open(&r, s->body, s->len, &err), 0);
	while (pr_segment_next(&r, &p, &err) == 1) {
		size_t count = keys_of_packet(&p, keys);

		for (size_t i = 0; i < count; i++) {
			struct pri_key key = pri_key_either(&keys[i]);

			look_up(record->body, &key, vector);
			ck_assert(has_column(vector, column));
		}
	}
}

#define COLUMNS 30
START_TEST(level2_knows_all_that_is_there)
{
	static struct segment s[COLUMNS];
	struct records r = {0};
	struct pri_builder *b = pri_builder_create(9, RECORD_MAX, take, &r, &err);
	const struct pr_index_record *g;
	unsigned hits = 0;
	uint8_t vector[PRI_LEVEL2_VECTOR];

	srandom(3);
	for (unsigned i = 0; i < COLUMNS; i++) {
		make_segment(&s[i], 1 + i * 1000, 300, 2000, 1);
		ck_assert_int_eq(
			pri_builder_add(b, 5 + i, i, s[i].body, s[i].len, &err), 1);
		ck_assert_int_eq(pri_builder_finish(b, PRI_BUILDER_BATCH_ONLY, &err), 1);
	}
	ck_assert_int_eq(pri_builder_finish(b, PRI_BUILDER_ALL, &err), 1);
	ck_assert_uint_eq(r.count, COLUMNS + 1);
	g = &r.items[COLUMNS];
	ck_assert_uint_eq(g->level, 2);
	ck_assert_uint_eq(g->segments, COLUMNS);
	ck_assert_int_eq(pri_level2_open(&group, g->body, g->len, g->len, &err), 0);
	ck_assert_uint_eq(group.columns, COLUMNS);
	ck_assert_uint_eq(group.first_sequence, 5);
	for (unsigned i = 0; i < COLUMNS; i++) {
		ck_assert_uint_eq(
			group.column[i].check, pri_segments_digest_add(0, 5 + i, i));
		check_column(g, &s[i], i);
	}
	for (unsigned i = 0; i < 10000; i++) {
		uint8_t address[4];
		struct pri_key key;

		pr_put_be32(address, 0x20000000 + i * 977);
		key = pri_key_bytes(PRI_KEY_ADDRESS, address, 4);
		look_up(g->body, &key, vector);
		for (unsigned j = 0; j < COLUMNS; j++)
			hits += has_column(vector, j);
	}
	/* six bits of ten a key, in two pages: 0.85 to 1.5 % */
	ck_assert_msg(hits < 10000 * COLUMNS / 50, "%u of %u", hits, 10000 * COLUMNS);
	free_records(&r);
	pri_builder_destroy(&b);
}
END_TEST

/* ---- the builder ---- */

START_TEST(a_slow_sink_loses_nothing)
{
	static struct segment s;
	struct records r = {.refuse = 3};
	struct pri_builder *b = pri_builder_create(0, RECORD_MAX, take, &r, &err);
	uint64_t sequence = 1;
	int waits = 0, rc;

	make_segment(&s, 1, 20, 10, 1);
	while (sequence <= 3 * PRI_LEVEL1_SEGMENTS_MAX) {
		rc = pri_builder_add(b, sequence, sequence, s.body, s.len, &err);
		ck_assert_int_ge(rc, 0);
		sequence += rc;
		waits += !rc;
		if (sequence == 100)
			r.refuse = 200;
	}
	while ((rc = pri_builder_finish(b, PRI_BUILDER_ALL, &err)) == 0)
		waits++;
	ck_assert_int_eq(rc, 1);
	ck_assert_int_gt(waits, 100);
	sequence = 1;
	for (size_t i = 0; i < r.count; i++) {
		ck_assert_uint_eq(r.items[i].first_sequence, sequence);
		sequence += r.items[i].segments;
	}
	ck_assert_uint_eq(sequence, 3 * PRI_LEVEL1_SEGMENTS_MAX + 1);
	free_records(&r);
	pri_builder_destroy(&b);
}
END_TEST

START_TEST(gaps_and_damage_begin_anew)
{
	static struct segment s;
	struct records r = {0};
	struct pri_builder *b = pri_builder_create(0, RECORD_MAX, take, &r, &err);

	make_segment(&s, 1, 20, 10, 1);
	ck_assert_int_eq(pri_builder_add(b, 1, 1, s.body, s.len, &err), 1);
	ck_assert_int_eq(pri_builder_add(b, 2, 1, s.body, s.len - 1, &err), 1);
	ck_assert_int_eq(pri_builder_add(b, 3, 1, s.body, s.len, &err), 1);
	ck_assert_int_eq(pri_builder_add(b, 4, 1, s.body, s.len, &err), 1);
	ck_assert_int_eq(pri_builder_add(b, 10, 1, s.body, s.len, &err), 1);
	ck_assert_int_eq(pri_builder_finish(b, PRI_BUILDER_ALL, &err), 1);
	ck_assert_uint_eq(pri_builder_figures(b)->damaged, 1);
	ck_assert_uint_eq(r.count, 3);
	ck_assert_uint_eq(r.items[1].first_sequence, 3);
	ck_assert_uint_eq(r.items[1].segments, 2);
	ck_assert_uint_eq(r.items[2].first_sequence, 10);
	free_records(&r);
	pri_builder_destroy(&b);
}
END_TEST

/* A volume of small blocks: the record is bounded, the signature pays for it. */
START_TEST(records_keep_to_their_size)
{
	static struct segment s;
	struct records r = {0};
	struct pri_builder *b = pri_builder_create(0, 20000, take, &r, &err);
	struct pri_level1_segment got;
	struct pri_level1 l;

	make_segment(&s, 1, 400, 100000, 0);
	for (uint64_t i = 1; i <= 40; i++)
		ck_assert_int_eq(pri_builder_add(b, i, 1, s.body, s.len, &err), 1);
	ck_assert_int_eq(pri_builder_finish(b, PRI_BUILDER_ALL, &err), 1);
	for (size_t i = 0; i < r.count; i++) {
		ck_assert_uint_le(r.items[i].len, 20000);
		if (r.items[i].level == 2)
			continue;
		ck_assert_int_eq(open_record(&l, &r.items[i]), 0);
		pri_level1_get(&l, 0, &got);
		check_packets(&l, &got, &s);
	}
	free_records(&r);
	pri_builder_destroy(&b);
	b = pri_builder_create(0, 2000, take, &r, &err);
	ck_assert_int_eq(pri_builder_add(b, 1, 1, s.body, s.len, &err), 1);
	ck_assert_int_eq(pri_builder_finish(b, PRI_BUILDER_ALL, &err), 1);
	ck_assert_int_eq(open_record(&l, &r.items[0]), 0);
	pri_level1_get(&l, 0, &got);
	check_packets(&l, &got, &s);
	free_records(&r);
	pri_builder_destroy(&b);
}
END_TEST

/* ---- heavy hitters ---- */

#define HOSTS 20000
START_TEST(tops_are_short_by_no_more_than_they_say)
{
	static uint64_t bytes[HOSTS];
	struct pr_tally *tops = pr_tally_create(false, false, PRI_LEVEL1_HITTERS, &err);
	size_t count;

	srandom(4);
	for (unsigned i = 0; i < 200000; i++) {
		uint32_t host = pick(4) ? pick(HOSTS) : pick(8);
		uint64_t n = 1 + pick(1500);
		uint8_t address[4];

		pr_put_be32(address, host);
		bytes[host] += n;
		ck_assert_int_eq(pr_tally_add(tops, address, 4, 1, n, &err), 0);
	}
	pr_tally_cut(tops, PRI_LEVEL1_TOPS_MAX);
	const struct pr_tally_item *best = pr_tally_items(tops, &count);
	uint64_t slack = pr_tally_total(tops)->slack_bytes;
	ck_assert_uint_eq(count, PRI_LEVEL1_TOPS_MAX);
	for (size_t i = 0; i < count; i++) {
		uint32_t host = pr_get_be32(best[i].key);

		if (i < 8)
			ck_assert_uint_lt(host, 8);
		ck_assert_uint_le(best[i].bytes, bytes[host]);
		ck_assert_uint_le(bytes[host], best[i].bytes + slack);
		ck_assert(i == 0 || best[i].bytes <= best[i - 1].bytes);
	}
	ck_assert_uint_lt(slack, 150u * 1000 * 1000 / (PRI_LEVEL1_HITTERS / 2));
	pr_tally_destroy(&tops);
}
END_TEST

static void
tests(TCase *tc)
{
	tcase_add_test(tc, level1_knows_all_that_is_there);
	tcase_add_test(tc, level1_false_positives_are_few);
	tcase_add_test(tc, level2_knows_all_that_is_there);
	tcase_add_test(tc, a_slow_sink_loses_nothing);
	tcase_add_test(tc, gaps_and_damage_begin_anew);
	tcase_add_test(tc, records_keep_to_their_size);
	tcase_add_test(tc, tops_are_short_by_no_more_than_they_say);
}

int
main(void)
{
	return unit_run("index", tests);
}
