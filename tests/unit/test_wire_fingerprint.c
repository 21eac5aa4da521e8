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

/* A switch pads with zeros: the fingerprint tells by how many. */
START_TEST(padding_is_told)
{
	uint8_t frame[200] = {0};

	srand(2);
	for (size_t len = 13; len < 150; len++) {
		fill(frame, len);
		for (size_t more = 0; more < 50; more++)
			ck_assert_uint_eq(pr_fingerprint(frame, len + more, EPOCH) -
						  pr_fingerprint(frame, len, EPOCH),
				(uint32_t)more * PR_FINGERPRINT_STEP);
	}
}
END_TEST

/* The second kind: the numbers below are for ever, as nodes and dispatchers of several versions meet. */
START_TEST(whole)
{
	static const struct {
		uint32_t len, fingerprint;
	} golden[] = {{0, 0xc5e227e0}, {13, 0x528bfb8b}, {44, 0xd10d4169}, {45, 0x33ab2cc1},
		{60, 0x85659533}, {61, 0x19041173}, {75, 0x7ad109fd}, {76, 0xf70f3808},
		{77, 0x93c75e11}, {1514, 0x6bfd319e}};
	uint8_t frame[1514];

	for (size_t i = 0; i < sizeof frame; i++)
		frame[i] = (uint8_t)(i * i + 3);
	for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++)
		ck_assert_uint_eq(pr_fingerprint_whole(frame, golden[i].len, EPOCH),
			golden[i].fingerprint);
	/* each byte after the MACs counts, also a zero at the end; the MACs do not */
	for (size_t len = 60; len < 200; len++) {
		uint32_t before = pr_fingerprint_whole(frame, len, EPOCH);

		for (size_t at = 0; at < len; at++) {
			frame[at] ^= 0x10;
			ck_assert((pr_fingerprint_whole(frame, len, EPOCH) == before) ==
				  (at < 12));
			frame[at] ^= 0x10;
		}
		ck_assert_uint_ne(pr_fingerprint_whole(frame, len + 1, EPOCH), before);
		ck_assert_uint_ne(pr_fingerprint_whole(frame, len, EPOCH + 1), before);
	}
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
	tcase_add_test(t, padding_is_told);
	tcase_add_test(t, whole);
	tcase_add_test(t, ethertype_offset);
}

int
main(void)
{
	return unit_run("wire_fingerprint", add_tests);
}
