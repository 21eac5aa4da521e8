/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <unistd.h>

#include "proto/base/array.h"
#include "proto/base/thread.h"
#include "tests/unit/unit.h"

/*
 * Sanitizers end a program that asks for too much memory, unless an option makes them return
 * NULL, as malloc does.
 */
const char *__asan_default_options(void);
const char *__tsan_default_options(void);
const char *
__asan_default_options(void)
{
	return "allocator_may_return_null=1";
}
const char *
__tsan_default_options(void)
{
	return __asan_default_options();
}

START_TEST(grows_one_by_one)
{
	uint16_t *items = NULL;
	size_t count = 0;

	for (; count < 1000; count++) {
		ck_assert_int_eq(PR_ARRAY_GROW(items, count), 0);
		items[count] = (uint16_t)count;
	}
	for (size_t i = 0; i < count; i++)
		ck_assert_uint_eq(items[i], i);
	free(items);
}
END_TEST

START_TEST(reserves)
{
	size_t capacity = 0;
	uint64_t *items = NULL;

	ck_assert_int_eq(PR_ARRAY_RESERVE(items, capacity, 3), 0);
	ck_assert_uint_eq(capacity, 3);
	ck_assert_int_eq(PR_ARRAY_RESERVE(items, capacity, 2), 0);
	ck_assert_uint_eq(capacity, 3);
	ck_assert_int_eq(PR_ARRAY_RESERVE(items, capacity, 4), 0);
	ck_assert_uint_eq(capacity, 6);
	ck_assert_int_eq(PR_ARRAY_RESERVE(items, capacity, SIZE_MAX / 64), -1);
	ck_assert_uint_eq(capacity, 6);
	free(items);
}
END_TEST

/* ---- the queue ---- */

enum { SLOTS = 3, ITEMS = 10000 };
static struct pr_queue queue;
static int slots[SLOTS];

static void *
produce(void *arg)
{
	int slot;

	(void)arg;
	for (int i = 0; i < ITEMS && (slot = pr_queue_reserve(&queue)) >= 0; i++) {
		slots[slot] = i;
		pr_queue_put(&queue);
	}
	pr_queue_end(&queue);
	return NULL;
}

START_TEST(queue_keeps_order)
{
	pthread_t thread;
	struct pr_error err;
	int slot, n = 0;

	pr_queue_init(&queue, SLOTS);
	ck_assert_int_eq(pr_thread_start(&thread, produce, NULL, "a thread", &err), 0);
	for (unsigned used = 0; used < SLOTS; usleep(1000)) {
		pthread_mutex_lock(&queue.lock);
		used = queue.used;
		pthread_mutex_unlock(&queue.lock);
		ck_assert_uint_le(used, SLOTS);
	}
	for (; (slot = pr_queue_take(&queue)) >= 0; n++)
		ck_assert_int_eq(slots[slot], n);
	ck_assert_int_eq(n, ITEMS);
	ck_assert_int_eq(pr_queue_take(&queue), -1);
	pr_queue_wait_empty(&queue);
	pthread_join(thread, NULL);
	pr_queue_destroy(&queue);
}
END_TEST

START_TEST(queue_stops)
{
	pthread_t thread;
	struct pr_error err;

	pr_queue_init(&queue, SLOTS);
	ck_assert_int_eq(pr_thread_start(&thread, produce, NULL, "a thread", &err), 0);
	ck_assert_int_ge(pr_queue_take(&queue), 0);
	pr_queue_stop(&queue); /* the producer waits for a slot, or is about to */
	pthread_join(thread, NULL);
	ck_assert(pr_queue_stopped(&queue));
	ck_assert_int_eq(pr_queue_take(&queue), -1);
	pr_queue_destroy(&queue);
}
END_TEST

static void
fill(TCase *tc)
{
	tcase_add_test(tc, grows_one_by_one);
	tcase_add_test(tc, reserves);
	tcase_add_test(tc, queue_keeps_order);
	tcase_add_test(tc, queue_stops);
}

int
main(void)
{
	return unit_run("base array, queue", fill);
}
