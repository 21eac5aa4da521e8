/* SPDX-License-Identifier: Apache-2.0 */
/* Who sleeps on a ring is woken, and in time: one thread at a time, then two. */
#include <poll.h>
#include <pthread.h>

#include "proto/base/clock.h"
#include "tests/unit/ring_put.h"

/* Sleeps as a consumer does. false: time-out. */
static bool
ring_wait(struct pr_ring *ring, int timeout_ms)
{
	struct pollfd pfd = {.fd = pr_ring_fd(ring), .events = POLLIN};

	while (!pr_ring_arm(ring))
		if (poll(&pfd, 1, timeout_ms) <= 0)
			return false;
	return true;
}

START_TEST(wait_times_out_and_wakes)
{
	struct pr_ring *ring = make(0);
	int64_t start = pr_now_mono();
	size_t len;

	ck_assert(!ring_wait(ring, 20));
	ck_assert_int_ge(pr_now_mono() - start, 20 * PR_NS_PER_MS);
	put(ring, "a", 1);
	pr_ring_publish(ring);
	ck_assert(ring_wait(ring, 10000));
	ck_assert_ptr_nonnull(pr_ring_next(ring, &len));
	ck_assert(!ring_wait(ring, 0));
	pr_ring_destroy(&ring);
}
END_TEST

static bool
readable(const struct pr_ring *ring)
{
	struct pollfd pfd = {.fd = pr_ring_fd(ring), .events = POLLIN};

	return poll(&pfd, 1, 0) == 1;
}

static void
holds_one(struct pr_ring *ring)
{
	size_t len;

	ck_assert_ptr_nonnull(pr_ring_next(ring, &len));
	ck_assert_ptr_null(pr_ring_next(ring, &len));
}

/* Two rings, one descriptor: emptying it for one ring must not lose the other's wake. */
START_TEST(shared_fd)
{
	struct pr_ring *a = make(0), *b = make(0);
	size_t len;

	pr_ring_share_fd(b, a);
	put(a, "x", 1);
	pr_ring_publish(a);
	ck_assert(!readable(a)); /* nobody sleeps: no system call */
	ck_assert(pr_ring_arm(a));
	pr_ring_next(a, &len);
	ck_assert(!pr_ring_arm(a));
	ck_assert(!pr_ring_arm(b));
	put(a, "y", 1);
	pr_ring_publish(a);
	ck_assert(readable(b));
	put(b, "z", 1);
	pr_ring_publish(b);
	holds_one(a);
	holds_one(b);
	ck_assert(!pr_ring_arm(a));
	ck_assert(!pr_ring_arm(b));
	ck_assert(!readable(a));
	pr_ring_destroy(&a); /* the descriptor lives on */
	put(b, "z", 1);
	pr_ring_publish(b);
	ck_assert(readable(b));
	pr_ring_destroy(&b);
}
END_TEST

/* What the header says of a look between arming and sleeping: it must be followed by arming. */
START_TEST(looking_disarms)
{
	struct pr_ring *ring = make(0);
	size_t len;

	ck_assert(!pr_ring_arm(ring));
	ck_assert_ptr_null(pr_ring_next(ring, &len));
	put(ring, "a", 1);
	pr_ring_publish(ring);
	ck_assert(!readable(ring));
	ck_assert(pr_ring_arm(ring)); /* does not let it sleep */
	ck_assert_ptr_nonnull(pr_ring_next(ring, &len));
	ck_assert(!pr_ring_arm(ring));
	put(ring, "b", 1);
	pr_ring_publish(ring);
	ck_assert(readable(ring));
	pr_ring_destroy(&ring);
}
END_TEST

START_TEST(wakes_for_enough)
{
	static unsigned char bytes[1000];
	struct pr_ring *ring = make(4 << 20);
	size_t len;

	pr_ring_wake_above(ring, 100 * 1008);
	for (unsigned round = 0; round < 100; round++) {
		ck_assert(!pr_ring_arm(ring));
		for (unsigned i = 1; i < 100; i++) {
			put(ring, bytes, sizeof bytes);
			pr_ring_publish(ring);
			ck_assert_msg(!readable(ring), "woken by %u", i);
		}
		put(ring, bytes, sizeof bytes);
		pr_ring_publish(ring);
		ck_assert(readable(ring));
		for (unsigned i = 0; i < 100; i++)
			ck_assert_ptr_nonnull(pr_ring_next(ring, &len));
		ck_assert(!readable(ring));
		pr_ring_release(ring);
	}
	pr_ring_destroy(&ring);
}
END_TEST

enum { RECORDS = 300000 };

static size_t
length_of(uint32_t n)
{
	return 4 + (n * 2654435761u >> 16) % 700;
}

/* Publishes now and then, and pauses now and then so that the consumer falls asleep. */
static void *
produce(void *arg)
{
	struct pr_ring *ring = arg;

	for (uint32_t n = 0; n < RECORDS;) {
		size_t len = length_of(n);
		unsigned char *rec = pr_ring_reserve(ring, len);

		if (rec) {
			check_inside(ring, rec, len);
			memcpy(rec, &n, sizeof n);
			memset(rec + 4, (int)(n & 0xff), len - 4);
			pr_ring_commit(ring, len);
			n++;
		}
		if (!rec || n % 64 == 0)
			pr_ring_publish(ring);
		if (n % 20000 == 0)
			poll(NULL, 0, 1);
	}
	pr_ring_publish(ring);
	return NULL;
}

START_TEST(two_threads)
{
	struct pr_ring *ring =
		make(_i ? 2 << 20 : 0); /* the larger one begins again when empty */
	pthread_t thread;
	uint32_t n = 0;

	ck_assert_int_eq(pthread_create(&thread, NULL, produce, ring), 0);
	while (n < RECORDS) {
		unsigned char *rec;
		size_t len;

		ck_assert_msg(ring_wait(ring, 10000), "a wake was lost at %u", n);
		while ((rec = pr_ring_next(ring, &len))) {
			uint32_t seen;

			memcpy(&seen, rec, sizeof seen);
			/* Check's asserts write to a file: too slow for each record */
			if (seen != n || len != length_of(n) ||
				(len > 4 && (rec[4] != (n & 0xff) ||
						    rec[len - 1] != (n & 0xff))))
				ck_abort_msg("record %u is %u, %zu bytes", n, seen, len);
			memset(rec, 0, len); /* the consumer may change what it holds */
			if (++n % 3 == 0)
				pr_ring_release_before(ring, rec);
			if (n % 50 == 0)
				pr_ring_release(ring);
		}
		pr_ring_release(ring);
	}
	pthread_join(thread, NULL);
	ck_assert_uint_eq(pr_ring_used(ring), 0);
	pr_ring_destroy(&ring);
}
END_TEST

static void
fill(TCase *tc)
{
	tcase_add_test(tc, wait_times_out_and_wakes);
	tcase_add_test(tc, shared_fd);
	tcase_add_test(tc, looking_disarms);
	tcase_add_test(tc, wakes_for_enough);
	tcase_add_loop_test(tc, two_threads, 0, 2);
}

int
main(void)
{
	return unit_run("base ring wake", fill);
}
