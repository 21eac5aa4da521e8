/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "indexer/index/level1.h"
#include "indexer/index/segment_keys.h"
#include "proto/base/array.h"
#include "tests/unit/unit.h"

/* Keys that are at home in one page, which who sends packets can bring about. */

#define RECORD_MAX (1024 * 1024 - 4096)
#define SEGMENTS 32
#define KEYS 2048 /* of a segment */

static struct pr_error err;
static uint64_t keys[SEGMENTS * KEYS];
static struct pri_segment_keys sketch;
static struct pri_level1_writer writer;

static void
make_keys(size_t crowd)
{
	uint64_t x = 1;

	for (size_t i = 0; i < SEGMENTS * KEYS; i++) {
		x = x * 6364136223846793005u + 1442695040888963407u;
		keys[i] = i % KEYS < crowd ? x >> (64 - PRI_SIGNATURE_HOME) : x;
	}
}

/* Has the segment the key? Each has its own, or those that a pattern of its number's bits gives it. */
static bool
has(unsigned segment, size_t key, bool patterns)
{
	return patterns ? (key * 0x9e3779b1u >> segment & 1) : key / KEYS == segment;
}

static void
add_segment(unsigned segment, bool patterns)
{
	static const uint8_t nothing[3];

	sketch.item.keyed = true;
	ck_assert_int_eq(
		PR_ARRAY_RESERVE(sketch.series, sketch.series_room, sizeof(nothing)), 0);
	memcpy(sketch.series, nothing, sizeof(nothing));
	sketch.item.series_len = sizeof(nothing);
	pri_hashset_clear(&sketch.keys);
	ck_assert_int_eq(pri_hashset_prepare(&sketch.keys, SEGMENTS * KEYS), 0);
	for (size_t i = 0; i < (patterns ? SEGMENTS * KEYS / 6 : SEGMENTS * KEYS); i++)
		if (has(segment, i, patterns))
			pri_hashset_push(&sketch.keys, keys[i]);
	ck_assert_int_eq(pri_level1_add(&writer, 1 + segment, 1, &sketch, RECORD_MAX), 1);
}

/* Each is there, or the segment may have any. */
static void
look_for_each(const struct pri_level1 *l, bool patterns)
{
	struct pri_level1_segment got;
	size_t at, len;

	for (unsigned s = 0; s < SEGMENTS; s++) {
		pri_level1_get(l, s, &got);
		for (size_t i = s; got.keyed && i < SEGMENTS * KEYS / 6; i += 997) {
			uint32_t page = pri_level1_page_of(l, keys[i]);

			if (!has(s, i, patterns))
				continue;
			at = pri_level1_page_at(l, page, &len);
			unit_must(pri_level1_page_valid(l, page, l->body + at, len));
			unit_must(pri_level1_find(l, keys[i], l->body + at, len) >> s & 1);
		}
	}
}

static void
write_and_look(size_t crowd, bool patterns, bool keyed)
{
	struct pr_tally *none = pr_tally_create(false, false, 1, &err);
	struct pri_level1_segment got;
	struct pri_level1 l;
	uint8_t *record;
	size_t len;

	make_keys(crowd);
	pri_level1_begin(&writer);
	for (unsigned s = 0; s < SEGMENTS; s++)
		add_segment(s, patterns);
	record = malloc(pri_level1_size(&writer));
	len = pri_level1_finish(&writer, 0, none, record);
	ck_assert_int_eq(pri_level1_open(&l, record, len, len, &err), 0);
	look_for_each(&l, patterns);
	pri_level1_get(&l, 0, &got);
	ck_assert_int_eq(got.keyed, keyed);
	free(record);
	pr_tally_destroy(&none);
	pri_level1_free(&writer);
	pri_segment_keys_free(&sketch);
}

START_TEST(as_they_come)
{
	write_and_look(0, false, true);
	write_and_look(0, true, true);
}
END_TEST

START_TEST(some_more_than_elsewhere)
{
	write_and_look(100, false, true);
}
END_TEST

/* More than a page can have: then the record says nothing of keys. */
START_TEST(many_more_than_elsewhere)
{
	write_and_look(KEYS, false, false);
}
END_TEST

START_TEST(many_of_several_segments)
{
	write_and_look(KEYS, true, false);
}
END_TEST

static void
tests(TCase *tc)
{
	tcase_add_test(tc, as_they_come);
	tcase_add_test(tc, some_more_than_elsewhere);
	tcase_add_test(tc, many_more_than_elsewhere);
	tcase_add_test(tc, many_of_several_segments);
}

int
main(void)
{
	return unit_run("crowded pages of level 1", tests);
}
