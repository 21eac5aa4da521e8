/* SPDX-License-Identifier: Apache-2.0 */
/* Long bodies are copied past the caches and hashed where they came from: to the same bytes as short ones. */
#include <check.h>
#include <string.h>

#include "logger/streamfs/format.h"
#include "tests/unit/unit.h"

#define MOST 70000

static struct sfs_key key;
static uint8_t from[MOST + 64], to[MOST + 256], joined[MOST + 256];

static void
setup(void)
{
	static const uint8_t secret[32] = {4, 7, 11};
	sfs_key_derive(&key, secret);
	for (size_t i = 0; i < sizeof(from); i++)
		from[i] = (uint8_t)(i * 31 + i / 251);
}

START_TEST(test_every_place_and_length)
{
	static const size_t lengths[] = {0, 1, 63, 64, 65, 127, 128, 200, 4096, 65537};
	for (size_t n = 0; n < sizeof(lengths) / sizeof(lengths[0]); n++)
		for (size_t at = 0; at < 128; at += 7) {
			size_t length = lengths[n], source = at % 64;
			memset(to, 0xee, sizeof(to));
			sfs_copy_past(to + at, from + source, length);
			ck_assert_mem_eq(to + at, from + source, length);
			ck_assert(at == 0 || to[at - 1] == 0xee);
			ck_assert_uint_eq(to[at + length], 0xee);
		}
}
END_TEST

/* Either way to make a record gives the same bytes, and they are good. */
START_TEST(test_records_are_alike)
{
	static const uint32_t sizes[] = {SFS_RECORD_HEADER, SFS_RECORD_WIDE};
	const struct sfs_record_location place = {9, 77, 1000, 3, 4096};
	for (uint32_t length = 0; length < MOST - SFS_RECORD_WIDE; length += 1021) {
		struct sfs_record_header h = {.stream = 3,
			.block = 9,
			.generation = 77,
			.sequence = 1007,
			.index = 7,
			.offset = 4096,
			.min_time = -5,
			.max_time = 7,
			.size = sizes[length % 2],
			.length = length};
		struct sfs_record_header again = h, read;
		memcpy(joined + h.size, from, length);
		sfs_record_put(&key, &h, NULL, joined);
		sfs_record_put(&key, &again, from, to);
		ck_assert_mem_eq(joined, to, h.size + length);
		ck_assert_int_eq(
			sfs_record_decode(&key, &place, to, h.size + length, &read),
			SFS_RECORD_GOOD);
		ck_assert_mem_eq(&h, &again, sizeof(h));
		ck_assert_mem_eq(&h, &read, sizeof(h));
	}
}
END_TEST

static void
fill(TCase *t)
{
	tcase_add_unchecked_fixture(t, setup, NULL);
	tcase_add_test(t, test_every_place_and_length);
	tcase_add_test(t, test_records_are_alike);
}

int
main(void)
{
	return unit_run("streamfs copy", fill);
}
