/* SPDX-License-Identifier: Apache-2.0 */
/* What lies on the devices, byte by byte: format.h says what each of them means. */
#include <check.h>
#include <string.h>

#include "logger/streamfs/format.h"
#include "tests/unit/unit.h"

#define BODY 5

static const uint8_t golden_narrow[SFS_RECORD_HEADER + BODY] = {
	0x5f, 0x97, 0xd9, 0x2a, /* check */
	0x05, 0x00, 0x00, 'R', /* body length, mark */
	0x6e, 0x04, 0x93, 0xea, 0x3d, 0x76, 0x86, 0xe1, /* hash */
	0x07, 0x00, 0x00, 0x00, /* index in the block */
	0x04, 0x03, 0x02, 0x01, /* span of times */
	0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, /* min time */
	'h', 'e', 'l', 'l', 'o', /* body */
};
static const uint8_t golden_wide[SFS_RECORD_WIDE + BODY] = {
	0x73, 0x2c, 0xac, 0xdd, /* check */
	0x05, 0x00, 0x00, 'W', /* body length, mark */
	0x56, 0xf8, 0x11, 0x47, 0xd1, 0xf6, 0x91, 0x3a, /* hash */
	0x07, 0x00, 0x00, 0x00, /* index in the block */
	0x00, 0x00, 0x00, 0x00, /* span: not in a wide one */
	0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, /* min time */
	0x4d, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, /* generation */
	0xe8, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, /* the block's first sequence */
	0x8c, 0x7a, 0x68, 0x56, 0x44, 0x33, 0x22, 0x11, /* max time */
	0x03, 0x00, 0x00, 0x00, /* stream */
	0xa5, 0x00, 0x00, 0x00, /* permission */
	'h', 'e', 'l', 'l', 'o', /* body */
};
static const uint8_t golden_block[SFS_BLOCK_HEADER] = {
	'S', 'F', 'S', 'B', 0x02, 0x00, 0x00, 0x00, /* magic, version, reserved */
	0x00, 0xe0, 0x15, 0xb0, 0xa4, 0x17, 0x1c, 0xff, /* hash */
	0x9f, 0x90, 0xbc, 0x66, 0xe8, 0x29, 0xe2, 0xd3, /* .. */
	0x01, 0x00, 0x00, 0x00, 0x03, 0x00, 0x00, 0x00, /* kind: data, stream */
	0xa5, 0x00, 0x00, 0x00, 0xc0, 0x00, 0x00, 0x00, /* permission, header bytes */
	0x09, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, /* block */
	0x4d, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, /* generation */
	0x0c, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, /* ordinal */
	0xe8, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, /* first sequence */
	0xde, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, /* durable sequence */
	0x05, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, /* previous block */
	0x47, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, /* its generation */
	0x10, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, /* its min time */
	0x20, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, /* its max time */
	0x1e, 0x00, 0x00, 0x00, 0x28, 0x00, 0x00, 0x00, /* its records, its end */
	'p', 'a', 'c', 'k', 'e', 't', 's', '.',
	'0', /* stream name; no map: the rest is 0 */
};

static struct sfs_key key;
static const struct sfs_record_location place = {
	.block = 9, .generation = 77, .first_sequence = 1000, .stream = 3, .offset = 4096};

static void
setup(void)
{
	static const uint8_t secret[32] = {4, 7, 11};
	sfs_key_derive(&key, secret);
}

static struct sfs_record_header
record(bool wide)
{
	return (struct sfs_record_header){.block = 9,
		.generation = 77,
		.sequence = 1007,
		.min_time = 0x1122334455667788,
		.max_time = 0x1122334455667788 + 0x01020304,
		.stream = 3,
		.permission = wide ? 0xa5 : 0,
		.length = BODY,
		.offset = 4096,
		.index = 7,
		.size = wide ? SFS_RECORD_WIDE : SFS_RECORD_HEADER};
}

START_TEST(test_record)
{
	struct sfs_record_header want = record(_i), got;
	const uint8_t *golden = _i ? golden_wide : golden_narrow;
	uint8_t bytes[SFS_RECORD_WIDE + BODY];
	size_t len = want.size + BODY;
	sfs_record_put(&key, &want, "hello", bytes);
	ck_assert_mem_eq(bytes, golden, len);
	ck_assert_int_eq(
		sfs_record_decode(&key, &place, golden, len, &got), SFS_RECORD_GOOD);
	ck_assert_mem_eq(&got, &want, sizeof(got));
	for (size_t room = 0; room < len; room++)
		ck_assert_int_ne(sfs_record_decode(&key, &place, golden, room, &got),
			SFS_RECORD_GOOD);
	for (size_t bit = 0; bit < len * 8; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		enum sfs_record_state state =
			sfs_record_decode(&key, &place, bytes, len, &got);
		ck_assert_int_eq(
			state, bit / 8 < want.size ? SFS_RECORD_NONE : SFS_RECORD_BAD);
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
}
END_TEST

/* What is not written counts as what is: the same bytes anywhere else are no record. */
START_TEST(test_record_elsewhere)
{
	const uint8_t *golden = _i ? golden_wide : golden_narrow;
	struct sfs_record_location other[] = {place, place, place, place, place};
	struct sfs_record_header got;
	other[0].block++;
	other[1].generation++;
	other[2].first_sequence++;
	other[3].stream++;
	other[4].offset += 8;
	for (int i = 0; i < 5; i++)
		ck_assert(!sfs_record_peek(&key, &other[i], golden, SFS_RECORD_WIDE, &got));
}
END_TEST

/* A wide one says whose it is, where no block header does; not in another place. */
START_TEST(test_wide_identifies)
{
	struct sfs_record_header got, want = record(true);
	memcpy(want.hash, golden_wide + 8, sizeof(want.hash));
	ck_assert(sfs_record_identify(&key, 9, 4096, golden_wide, SFS_RECORD_WIDE, &got));
	ck_assert_mem_eq(&got, &want, sizeof(got));
	ck_assert(!sfs_record_identify(&key, 10, 4096, golden_wide, SFS_RECORD_WIDE, &got));
	ck_assert(!sfs_record_identify(&key, 9, 4104, golden_wide, SFS_RECORD_WIDE, &got));
	ck_assert(!sfs_record_identify(
		&key, 9, 4096, golden_wide, SFS_RECORD_WIDE - 1, &got));
	ck_assert(!sfs_record_identify(
		&key, 9, 4096, golden_narrow, sizeof(golden_narrow), &got));
}
END_TEST

START_TEST(test_block_header)
{
	const struct sfs_block_header want = {.kind = SFS_KIND_DATA,
		.stream = 3,
		.permission = 0xa5,
		.block = 9,
		.generation = 77,
		.block_number = 12,
		.first_sequence = 1000,
		.durable_sequence = 990,
		.prev = {5, 71, 40, 30, 0x10, 0x20},
		.header_bytes = SFS_BLOCK_HEADER,
		.name = "packets.0"};
	struct sfs_block_header got = {0};
	uint8_t bytes[SFS_BLOCK_HEADER];
	sfs_block_encode(&key, &want, bytes);
	ck_assert_mem_eq(bytes, golden_block, sizeof(bytes));
	ck_assert(sfs_block_decode(&key, golden_block, 9, &got));
	ck_assert_mem_eq(&got, &want, sizeof(got));
	ck_assert(!sfs_block_decode(&key, golden_block, 10, &got));
	for (size_t bit = 0; bit < sizeof(bytes) * 8; bit++) {
		if (bit / 8 == 6 || bit / 8 == 7)
			continue; /* reserved: the check looks at them */
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		ck_assert(!sfs_block_decode(&key, bytes, 9, &got));
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
}
END_TEST

static void
fill(TCase *t)
{
	tcase_add_checked_fixture(t, setup, NULL);
	tcase_add_loop_test(t, test_record, 0, 2);
	tcase_add_loop_test(t, test_record_elsewhere, 0, 2);
	tcase_add_test(t, test_wide_identifies);
	tcase_add_test(t, test_block_header);
}

int
main(void)
{
	return unit_run("streamfs format", fill);
}
