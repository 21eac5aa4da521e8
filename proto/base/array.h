/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/error.h"

/* Items of an array that is not a pointer. */
#define PR_COUNT(array) (sizeof(array) / sizeof *(array))

/*
 * Growing arrays: a pointer and a count, both 0 or NULL at the beginning; free(3) the pointer.
 *
 *	if (PR_ARRAY_ADD(list->items, list->count, item) < 0)
 *		return pr_error_set(err, "no memory for ...");
 *
 * The memory doubles whenever count is a power of two, so no capacity is stored: grow by one, and
 * always before an item is added. All return -1 when there is no memory; nothing has changed then.
 */
#define PR_ARRAY_GROW(items, count) pr_array_grow(&(items), (count), sizeof *(items))
/* Grows, and adds the item: 0, or -1. */
#define PR_ARRAY_ADD(items, count, ...)                                                    \
	(PR_ARRAY_GROW(items, count) < 0 ? -1 : ((items)[(count)++] = (__VA_ARGS__), 0))

/*
 * The same with a capacity, a size_t: memory for `want` items, doubled when it grows. For buffers,
 * and where several items come at once.
 */
#define PR_ARRAY_RESERVE(items, capacity, want)                                            \
	pr_array_reserve(&(items), &(capacity), (want), sizeof *(items))

/*
 * Binary search: the first place of 0..count - 1 at which `before` is not true, or count. `before`
 * is an expression about the place `mid`, true up to some place, and false from there on.
 *
 *	size_t at = PR_ARRAY_SEARCH(count, items[mid].key < key);
 */
#define PR_ARRAY_SEARCH(count, before)                                                     \
	({                                                                                 \
		size_t low_ = 0, high_ = (count);                                          \
		while (low_ < high_) {                                                     \
			size_t mid = low_ + (high_ - low_) / 2;                            \
			if (before)                                                        \
				low_ = mid + 1;                                            \
			else                                                               \
				high_ = mid;                                               \
		}                                                                          \
		low_;                                                                      \
	})

/* Sorts; of no items the pointer may be NULL. */
#define PR_SORT(items, count, compare)                                                     \
	((count) ? qsort(items, count, sizeof *(items), compare) : (void)0)
/* Defines a static function that compares items by these members, the first ones first. */
#define PR_ORDER(name, type, ...)                                                          \
	static int name(const void *one_, const void *other_)                              \
	{                                                                                  \
		const type *a_ = one_, *b_ = other_;                                       \
		int order_ = 0;                                                            \
		PR_EACH(PR_ORDER_ONE, a_, b_, __VA_ARGS__);                                \
		return order_;                                                             \
	}
#define PR_ORDER_ONE(a, b, member)                                                         \
	(order_ = order_ ? order_                                                          \
			 : ((a)->member > (b)->member) - ((a)->member < (b)->member))

/* array: address of the pointer, of any type. */
static inline int
pr_array_resize(void *array, size_t count, size_t size)
{
	void *items, *resized;

	memcpy(&items, array, sizeof items);
	resized = reallocarray(items, count, size);
	if (!resized)
		return -1;
	memcpy(array, &resized, sizeof resized);
	/* cppcheck-suppress memleak; it is in *array now */
	return 0;
}

static inline int
pr_array_grow(void *array, size_t count, size_t size)
{
	if (count & (count - 1)) /* no power of two, and not 0 */
		return 0;
	return pr_array_resize(array, count ? 2 * count : 1, size);
}

static inline int
pr_array_reserve(void *array, size_t *capacity, size_t want, size_t size)
{
	size_t more = 2 * *capacity > want ? 2 * *capacity : want;

	if (want <= *capacity)
		return 0;
	if (pr_array_resize(array, more, size) < 0)
		return -1;
	*capacity = more;
	return 0;
}
