/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "proto/wire/frame.h"
#include "tests/unit/unit.h"

#define EPOCH UINT64_C(0x65537f00deadbeef)

static void
fill(uint8_t *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		p[i] = (uint8_t)rand();
}

/* The definition, read from the header word by word. */
static uint32_t
defined(const uint8_t *frame, size_t len, uint64_t epoch)
{
	size_t end = len;
	while (end > 12 && frame[end - 1] == 0)
		end--;
	return (uint32_t)XXH3_64bits_withSeed(frame + 12, end - 12, epoch) +
	       0x9E3779B1u * (uint32_t)len;
}

START_TEST(as_defined)
{
	srand(1);
	for (size_t len = 12; len < 400; len++) {
		for (size_t zeros = 0; zeros <= len - 12; zeros += 1 + len / 20) {
			uint8_t *frame = malloc(len);
			fill(frame, len);
			memset(frame + len - zeros, 0, zeros);
			ck_assert_uint_eq(pr_fingerprint(frame, len, EPOCH),
				defined(frame, len, EPOCH));
			free(frame);
		}
	}
}
END_TEST

START_TEST(macs_do_not_count)
{
	uint8_t a[100];

	fill(a, sizeof a);
	uint32_t fp = pr_fingerprint(a, sizeof a, EPOCH);
	a[0] ^= 1, a[11] ^= 1;
	ck_assert_uint_eq(pr_fingerprint(a, sizeof a, EPOCH), fp);
	a[12] ^= 1;
	ck_assert_uint_ne(pr_fingerprint(a, sizeof a, EPOCH), fp);
	a[12] ^= 1;
	ck_assert_uint_ne(pr_fingerprint(a, sizeof a, EPOCH + 1), fp);
	ck_assert_uint_eq(pr_fingerprint(a, 3, EPOCH), pr_fingerprint(a + 1, 3, EPOCH));
}
END_TEST

/* A switch pads 60..n with zeros: the length it was sent with is found again. */
START_TEST(length_behind_padding)
{
	uint8_t frame[200];

	srand(2);
	for (size_t len = 13; len < 150; len++) {
		memset(frame, 0, sizeof frame);
		fill(frame, len);
		for (size_t zeros = 0; zeros < 20 && zeros + 13 < len; zeros++) {
			frame[len - 1 - zeros] = 1;
			uint32_t fp = pr_fingerprint(frame, len, EPOCH);
			for (size_t got = len; got <= len + 50; got++)
				ck_assert_uint_eq(
					pr_fingerprint_length(frame, got, EPOCH, fp), len);
			ck_assert_uint_eq(
				pr_fingerprint_length(frame, len - 1, EPOCH, fp), 0);
			frame[len - 1 - zeros] = 0;
		}
	}
}
END_TEST

START_TEST(other_frames_have_no_length)
{
	uint8_t frame[64];
	unsigned found = 0;

	srand(3);
	for (int i = 0; i < 100000; i++) {
		fill(frame, sizeof frame);
		found += pr_fingerprint_length(
				 frame, sizeof frame, EPOCH, (uint32_t)rand()) != 0;
	}
	ck_assert_uint_eq(found, 0);
	ck_assert_uint_eq(pr_fingerprint_length(frame, 5, EPOCH, 0), 0);
	memset(frame, 0, sizeof frame);
	uint32_t fp = pr_fingerprint(frame, 60, EPOCH);
	ck_assert_uint_eq(pr_fingerprint_length(frame, 64, EPOCH, fp), 60);
	/* the same bytes and a length that would cut them */
	frame[40] = 1;
	fp = pr_fingerprint(frame, 60, EPOCH);
	ck_assert_uint_eq(
		pr_fingerprint_length(frame, 64, EPOCH, fp - 19 * PR_FINGERPRINT_STEP), 41);
	ck_assert_uint_eq(
		pr_fingerprint_length(frame, 64, EPOCH, fp - 20 * PR_FINGERPRINT_STEP), 0);
	ck_assert_uint_eq(
		pr_fingerprint_length(frame, 64, EPOCH, fp + 4 * PR_FINGERPRINT_STEP), 64);
	ck_assert_uint_eq(
		pr_fingerprint_length(frame, 64, EPOCH, fp + 5 * PR_FINGERPRINT_STEP), 0);
}
END_TEST

START_TEST(ethertype_offset)
{
	uint8_t f[30] = {0};
	f[12] = 0x81, f[16] = 0x88, f[17] = 0xa8, f[20] = 0x91, f[24] = 8;

	ck_assert_uint_eq(pr_ethertype_offset(f, sizeof f), 24);
	for (size_t len = 0; len < 26; len++) {
		uint8_t *copy = malloc(len ? len : 1);
		memcpy(copy, f, len);
		ck_assert_uint_eq(pr_ethertype_offset(copy, len), 0);
		free(copy);
	}
	ck_assert_uint_eq(pr_ethertype_offset(f, 26), 24);
	f[13] = 1;
	ck_assert_uint_eq(pr_ethertype_offset(f, sizeof f), 12);
	ck_assert_uint_eq(pr_ethertype_offset(f, 14), 12);
	ck_assert_uint_eq(pr_ethertype_offset(f, 13), 0);
}
END_TEST

static void
add_tests(TCase *t)
{
	tcase_add_test(t, as_defined);
	tcase_add_test(t, macs_do_not_count);
	tcase_add_test(t, length_behind_padding);
	tcase_add_test(t, other_frames_have_no_length);
	tcase_add_test(t, ethertype_offset);
}

int
main(void)
{
	return unit_run("wire_fingerprint", add_tests);
}
