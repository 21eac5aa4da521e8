/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "logger/streamfs/internal.h"
#include "tests/unit/unit.h"

static struct sfs sfs;

static void
derive(void)
{
	uint8_t secret[32];

	memset(secret, 7, sizeof(secret));
	sfs_key_derive(&sfs.key, secret);
}

static struct sfs_handle
handle_of(uint64_t generation, uint64_t block, uint32_t offset, uint32_t length)
{
	struct sfs_handle h = {.generation = generation,
		.block = block,
		.offset = offset,
		.length = length,
		.stream = 3,
		.header = SFS_RECORD_WIDE,
		.proof = 0x0102030405060708};

	h.check = sfs_handle_check(&sfs.key, &h);
	return h;
}

static void
check_same(const struct sfs_handle *a, const struct sfs_handle *b)
{
	uint8_t x[SFS_HANDLE_BYTES], y[SFS_HANDLE_BYTES];

	sfs_handle_encode(a, x);
	sfs_handle_encode(b, y);
	ck_assert_mem_eq(x, y, sizeof(x));
}

/* Returns its length; each shorter text is refused. */
static size_t
check_packed(const struct sfs_handle *h, const struct sfs_handle *before)
{
	uint8_t text[SFS_HANDLE_PACKED_MAX];
	size_t len = sfs_handle_pack(h, before, text);
	struct sfs_handle back;

	ck_assert_uint_le(len, sizeof(text));
	for (size_t size = 0; size < len; size++)
		ck_assert_uint_eq(sfs_handle_unpack(&sfs, text, size, before, &back), 0);
	ck_assert_uint_eq(sfs_handle_unpack(&sfs, text, len, before, &back), len);
	check_same(h, &back);
	return len;
}

START_TEST(records_that_follow_take_few_bytes)
{
	struct sfs_handle none = {0}, first = handle_of(900, 70, SFS_BLOCK_HEADER, 250000);
	uint32_t behind =
		(uint32_t)(SFS_BLOCK_HEADER + sfs_record_size(SFS_RECORD_WIDE, 250000));
	struct sfs_handle second = handle_of(900, 70, behind, 250000);
	struct sfs_handle shorter = handle_of(900, 70, behind, 249900);
	struct sfs_handle next = handle_of(905, 75, SFS_BLOCK_HEADER, 250000);

	derive();
	first.check = sfs_handle_check(&sfs.key, &first);
	second.check = sfs_handle_check(&sfs.key, &second);
	shorter.check = sfs_handle_check(&sfs.key, &shorter);
	next.check = sfs_handle_check(&sfs.key, &next);
	check_packed(&first, &none);
	ck_assert_uint_eq(check_packed(&second, &first), 9);
	ck_assert_uint_eq(check_packed(&shorter, &first), 11);
	ck_assert_uint_eq(check_packed(&next, &second), 11);
}
END_TEST

/* Also where numbers are as large as can be, and steps go around. */
START_TEST(any_handle_comes_back)
{
	static const uint64_t wide[] = {0, 1, 127, 128, INT64_MAX, UINT64_MAX};
	static const uint32_t narrow[] = {0, 96, 256, 1 << 20, UINT32_MAX};
	struct sfs_handle before = {0}, h;

	derive();
	for (int i = 0; i < 20000; i++) {
		h = handle_of(wide[random() % 6], wide[random() % 6], narrow[random() % 5],
			narrow[random() % 5]);
		h.stream = (uint16_t)wide[random() % 6];
		h.header = (uint16_t)narrow[random() % 5];
		h.check = sfs_handle_check(&sfs.key, &h);
		check_packed(&h, &before);
		before = h;
	}
}
END_TEST

START_TEST(unknown_flags_are_refused)
{
	struct sfs_handle none = {0}, back;
	uint8_t text[SFS_HANDLE_PACKED_MAX] = {0x20};

	derive();
	ck_assert_uint_eq(sfs_handle_unpack(&sfs, text, sizeof(text), &none, &back), 0);
	memset(text, 0xff, sizeof(text));
	text[0] = 8; /* a step of more than 64 bits */
	ck_assert_uint_eq(sfs_handle_unpack(&sfs, text, sizeof(text), &none, &back), 0);
}
END_TEST

static void
fill(TCase *tc)
{
	tcase_add_test(tc, records_that_follow_take_few_bytes);
	tcase_add_test(tc, any_handle_comes_back);
	tcase_add_test(tc, unknown_flags_are_refused);
}

int
main(void)
{
	return unit_run("streamfs_pack", fill);
}
