/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/heap.h"

#include "tests/unit/unit.h"

static bool
less(const void *a, const void *b)
{
	return *(const int *)a < *(const int *)b;
}

START_TEST(empty)
{
	struct pr_heap heap;

	pr_heap_init(&heap, less);
	ck_assert_ptr_null(pr_heap_top(&heap));
	ck_assert_ptr_null(pr_heap_pop(&heap));
	pr_heap_sift_top(&heap);
	pr_heap_free(&heap);
}
END_TEST

START_TEST(sorts)
{
	enum { COUNT = 1000 };
	struct pr_heap heap;
	int values[COUNT], last = -1;

	srandom((unsigned)_i);
	pr_heap_init(&heap, less);
	for (int i = 0; i < COUNT; i++) {
		values[i] = (int)(random() % (_i % 2 ? 10 : 100000));
		ck_assert_int_eq(pr_heap_push(&heap, &values[i]), 0);
	}
	for (int i = 0; i < COUNT; i++) {
		int *top = pr_heap_top(&heap);

		ck_assert_ptr_eq(pr_heap_pop(&heap), top);
		ck_assert_int_ge(*top, last);
		last = *top;
	}
	ck_assert_ptr_null(pr_heap_pop(&heap));
	pr_heap_free(&heap);
}
END_TEST

/* What a merge does: take the top, give it its next key, sift. */
START_TEST(sifts)
{
	int steps[5] = {7, 3, 11, 2, 5}, keys[5] = {0}, last = 0;
	struct pr_heap heap;

	pr_heap_init(&heap, less);
	for (int i = 0; i < 5; i++)
		pr_heap_push(&heap, &keys[i]);
	for (int i = 0; i < 10000; i++) {
		int *top = pr_heap_top(&heap);

		ck_assert_int_ge(*top, last);
		last = *top;
		*top += steps[top - keys];
		pr_heap_sift_top(&heap);
	}
	pr_heap_free(&heap);
}
END_TEST

static void
fill(TCase *tc)
{
	tcase_add_test(tc, empty);
	tcase_add_loop_test(tc, sorts, 0, 10);
	tcase_add_test(tc, sifts);
}

int
main(void)
{
	return unit_run("base heap", fill);
}
