/* SPDX-License-Identifier: Apache-2.0 */
/* What a ring holds: sizes, wrapping, and what is given back. */
#include "tests/unit/ring_put.h"

static bool
put_number(struct pr_ring *ring, unsigned number)
{
	unsigned char bytes[1000] = {0};

	memcpy(bytes, &number, sizeof number);
	return put(ring, bytes, sizeof bytes);
}

START_TEST(sizes)
{
	struct pr_ring *ring = make(0);
	struct pr_error err;

	ck_assert_uint_eq(pr_ring_size(ring), 64 << 10);
	ck_assert_ptr_null(pr_ring_reserve(ring, (16 << 10) + 1));
	ck_assert_ptr_nonnull(pr_ring_reserve(ring, 16 << 10));
	ck_assert_ptr_nonnull(pr_ring_reserve(ring, 0));
	pr_ring_destroy(&ring);
	ck_assert_ptr_null(ring);
	pr_ring_destroy(&ring);
	ring = make((64 << 10) + 1);
	ck_assert_uint_eq(pr_ring_size(ring), 128 << 10);
	pr_ring_destroy(&ring);
	ck_assert_ptr_null(pr_ring_create(SIZE_MAX, &err));
	ck_assert_ptr_nonnull(strstr(err.text, "too large"));
}
END_TEST

START_TEST(unpublished_is_unseen)
{
	struct pr_ring *ring = make(0);
	size_t len;

	put(ring, "abc", 3);
	ck_assert_ptr_null(pr_ring_next(ring, &len));
	pr_ring_publish(ring);
	ck_assert_mem_eq(pr_ring_next(ring, &len), "abc", 3);
	ck_assert_uint_eq(len, 3);
	ck_assert_ptr_null(pr_ring_next(ring, &len));
	ck_assert_uint_eq(pr_ring_used(ring), 16);
	pr_ring_release(ring);
	ck_assert_uint_eq(pr_ring_used(ring), 0);
	pr_ring_destroy(&ring);
}
END_TEST

/* A record reserved large and committed small, or not at all, takes no more than it needs. */
START_TEST(commit_less)
{
	struct pr_ring *ring = make(0);
	size_t len;

	ck_assert_ptr_nonnull(pr_ring_reserve(ring, 10000));
	memcpy(pr_ring_reserve(ring, 9000), "xy", 2);
	pr_ring_commit(ring, 2);
	put(ring, "z", 1);
	pr_ring_publish(ring);
	ck_assert_uint_eq(pr_ring_used(ring), 32);
	ck_assert_mem_eq(pr_ring_next(ring, &len), "xy", 2);
	ck_assert_mem_eq(pr_ring_next(ring, &len), "z", 1);
	pr_ring_destroy(&ring);
}
END_TEST

static size_t
fill_up(struct pr_ring *ring, size_t len, unsigned char *next)
{
	unsigned char bytes[4096];
	size_t count = 0;

	for (; memset(bytes, *next, len), put(ring, bytes, len); count++)
		++*next;
	pr_ring_publish(ring);
	return count;
}

/* Fill, free a part, fill again: for many lengths, so that the wrap falls everywhere. */
START_TEST(full_and_wrapping)
{
	struct pr_ring *ring = make(0);
	unsigned char in = 0, out = 0;
	size_t len, want = (size_t)_i;

	for (int lap = 0; lap < 20; lap++) {
		ck_assert_uint_gt(fill_up(ring, want, &in), 0);
		ck_assert_uint_le(pr_ring_used(ring), pr_ring_size(ring));
		for (int i = 0; i < 5 + lap; i++) {
			unsigned char *rec = pr_ring_next(ring, &len);

			ck_assert_ptr_nonnull(rec);
			ck_assert_uint_eq(len, want);
			for (size_t k = 0; k < len; k++)
				if (rec[k] != out)
					ck_abort_msg("byte %zu of lap %d", k, lap);
			out++;
		}
		pr_ring_release(ring);
	}
	while (pr_ring_next(ring, &len))
		out++;
	ck_assert_uint_eq(out, in);
	pr_ring_release(ring);
	ck_assert_uint_eq(pr_ring_used(ring), 0);
	pr_ring_destroy(&ring);
}
END_TEST

START_TEST(release_before_keeps_the_rest)
{
	struct pr_ring *ring = make(0);
	unsigned char in = 0;
	unsigned char *held[1000];
	size_t len, total, count = 0;

	/* begin near the end, so that the held records span the wrap */
	total = fill_up(ring, 1000, &in);
	for (size_t i = 0; i < total - 3; i++)
		pr_ring_next(ring, &len);
	pr_ring_release(ring);
	total = 3 + fill_up(ring, 1000, &in);
	while (count < total)
		held[count++] = pr_ring_next(ring, &len);
	ck_assert_ptr_null(pr_ring_next(ring, &len));
	for (size_t i = 0; i < count; i++) {
		size_t left;

		pr_ring_release_before(ring, held[i]);
		left = pr_ring_used(ring);
		ck_assert_uint_ge(left, (count - i) * 1008);
		ck_assert_uint_lt(left, (count - i + 1) * 1008);
		ck_assert_uint_eq(held[i][0], (unsigned char)(in - (count - i)));
		if (i > 2) { /* freed room is filled, and the held ones stay as they are */
			unsigned char other = 0xee;

			put(ring, &other, 1);
		}
	}
	pr_ring_destroy(&ring);
}
END_TEST

/* A consumer that keeps up meets the same memory again and again; one that holds a record does not. */
START_TEST(begins_again_when_empty)
{
	static unsigned char bytes[1000];
	struct pr_ring *ring = make(4 << 20);
	const unsigned char *held = NULL, *end = memory;
	size_t len;

	for (unsigned i = 0; i < 20000; i++) {
		const unsigned char *rec;

		ck_assert(put(ring, bytes, sizeof bytes));
		ck_assert_uint_eq(pr_ring_used(ring), 0); /* not published */
		pr_ring_publish(ring);
		ck_assert_uint_eq(pr_ring_used(ring), 1008);
		rec = pr_ring_next(ring, &len);
		ck_assert_uint_eq(len, sizeof bytes);
		if (rec > end)
			end = rec;
		pr_ring_release(ring);
		ck_assert_uint_eq(pr_ring_used(ring), 0);
	}
	ck_assert_uint_lt((size_t)(end - memory), 520 << 10);
	for (unsigned i = 0; i < 4000; i++) {
		ck_assert(put(ring, bytes, sizeof bytes));
		pr_ring_publish(ring);
		held = pr_ring_next(ring, &len);
		pr_ring_release_before(ring, held);
		ck_assert_uint_eq(pr_ring_used(ring), 1008);
		if (held > end)
			end = held;
	}
	ck_assert_uint_gt((size_t)(end - memory), 3 << 20);
	pr_ring_release(ring);
	/* behind what is left out there is room for all that the ring takes, also where it began */
	do {
		ck_assert(put(ring, bytes, sizeof bytes));
		pr_ring_publish(ring);
		held = pr_ring_next(ring, &len);
		pr_ring_release(ring);
	} while (held - memory < 523600 || held - memory > 530000);
	ck_assert(put_number(ring, 0));
	pr_ring_publish(ring);
	for (unsigned i = 1; i < (4 << 20) / 1008; i++)
		ck_assert_msg(put_number(ring, i), "no room for %u", i);
	ck_assert(!put(ring, bytes, sizeof bytes));
	pr_ring_publish(ring);
	ck_assert_ptr_eq(pr_ring_next(ring, &len), memory + 8);
	for (unsigned i = 1; i < (4 << 20) / 1008; i++) {
		unsigned seen;

		held = pr_ring_next(ring, &len);
		memcpy(&seen, held, sizeof seen);
		ck_assert_uint_eq(seen, i);
		pr_ring_release_before(ring, held);
		ck_assert_uint_eq(pr_ring_used(ring), ((4 << 20) / 1008 - i) * 1008);
	}
	pr_ring_destroy(&ring);
}
END_TEST

/* Of a ring of 4 MiB, over its end and over what it leaves out: each record is peeked at before it is read, or never. */
START_TEST(peeks_at_what_comes)
{
	static unsigned char bytes[1000];
	struct pr_ring *ring = make(4 << 20);
	const unsigned char *rec, *seen[64];
	unsigned put_count = 0, read_count = 0, peeked = 0;
	uint64_t random = 1, laps = 0;
	size_t len;

	while (put_count < 110000) {
		random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
		unsigned n = (unsigned)(random >> 40) % 50,
			 ahead = (unsigned)(random >> 50) % 20;

		for (; n && put(ring, bytes, 500 + n * 10); n--)
			put_count++;
		pr_ring_publish(ring);
		/* now and then it lags behind */
		if (put_count % 20000 < 1500)
			continue;
		while ((rec = pr_ring_next(ring, &len))) {
			if (peeked > read_count)
				ck_assert_ptr_eq(rec, seen[read_count % 64]);
			read_count++;
			peeked = PR_MAX(peeked, read_count);
			while (peeked < read_count + ahead && (rec = pr_ring_peek(ring)))
				seen[peeked++ % 64] = rec;
			laps += peeked == read_count + ahead;
		}
		pr_ring_release(ring);
	}
	ck_assert_uint_eq(read_count, put_count);
	ck_assert_uint_gt(laps, 10000);
	ck_assert_ptr_null(pr_ring_peek(ring));
	pr_ring_destroy(&ring);
}
END_TEST

static void
fill(TCase *tc)
{
	tcase_add_test(tc, sizes);
	tcase_add_test(tc, unpublished_is_unseen);
	tcase_add_test(tc, commit_less);
	tcase_add_loop_test(tc, full_and_wrapping, 990, 1070);
	tcase_add_test(tc, release_before_keeps_the_rest);
	tcase_add_test(tc, begins_again_when_empty);
	tcase_add_test(tc, peeks_at_what_comes);
}

int
main(void)
{
	return unit_run("base ring", fill);
}
