/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/index/segment_tables.h"
#include "tests/unit/unit.h"

/* Keys that somebody chose so that a part of their hashes is the same take no longer than others. */

enum { KEYS = 8192 };

static uint64_t state = 1;

/* mask: of the bits that are not the same in all. */
static uint64_t
chosen(uint64_t mask)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (state ^ state >> 29) & mask;
}

static size_t
steps(const uint32_t *slots, size_t from, uint32_t item, size_t mask)
{
	size_t n = 1;

	for (; slots[from] != item; from = (from + 1) & mask)
		n++;
	return n;
}

static const uint64_t masks[] = {UINT64_MAX, ~UINT64_C(0xffffff), UINT64_C(0xffffffffff),
	UINT64_C(0xffffffff) << 16};

START_TEST(hashes_of_a_set)
{
	struct pri_hashset s = {0};
	size_t all = 0;

	for (unsigned i = 0; i < KEYS; i++) {
		unit_must(pri_hashset_prepare(&s, 1) == 0);
		pri_hashset_put(&s, chosen(masks[_i]));
	}
	ck_assert_uint_gt(s.count, KEYS - 100);
	for (size_t i = 0; i < s.count; i++)
		all += steps(s.slots, pri_seeded_hash_slot(&s.slot, s.items[i]),
			(uint32_t)i + 1, 2 * s.room - 1);
	ck_assert_uint_lt(all, 8 * s.count);
	pri_hashset_free(&s);
}
END_TEST

START_TEST(addresses)
{
	struct pri_hosts a = {0};
	static uint64_t hashes[KEYS];
	size_t all = 0;

	ck_assert_int_eq(pri_hosts_begin(&a, KEYS), 0);
	for (unsigned i = 0; i < KEYS; i++) {
		hashes[i] = chosen(masks[_i]);
		pri_hosts_find_or_add(&a, hashes[i], (const uint8_t *)&i, 4);
	}
	ck_assert_uint_eq(a.count, KEYS);
	for (unsigned i = 0; i < KEYS; i++)
		all += steps(a.slots.items, pri_seeded_hash_slot(&a.slot, hashes[i]), i + 1,
			a.slots.mask);
	ck_assert_uint_lt(all, 8 * KEYS);
	pri_hosts_free(&a);
}
END_TEST

/* Two tables have numbers of their own. */
START_TEST(nobody_knows_where)
{
	struct pri_seeded_hash a = {0}, b = {0};

	pri_seeded_hash_set(&a, 1024);
	pri_seeded_hash_set(&b, 1024);
	ck_assert_uint_ne(a.factor, b.factor);
	ck_assert_uint_eq(a.factor & 1, 1);
	for (uint64_t i = 0; i < 10000; i++)
		unit_must(pri_seeded_hash_slot(&a, i * 0x9e3779b97f4a7c15u) < 1024);
}
END_TEST

static void
fill(TCase *tc)
{
	tcase_add_loop_test(tc, hashes_of_a_set, 0, 4);
	tcase_add_loop_test(tc, addresses, 0, 4);
	tcase_add_test(tc, nobody_knows_where);
}

int
main(void)
{
	return unit_run("slots", fill);
}
