/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_BASE_HEAP_H
#define PR_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>

/* A binary min-heap of pointers. less must be a strict weak order; not thread-safe. */
struct pr_heap {
	void **items;
	size_t count, room;
	bool (*less)(const void *a, const void *b);
};

void pr_heap_init(struct pr_heap *heap, bool (*less)(const void *a, const void *b));
void pr_heap_free(struct pr_heap *heap); /* not the items */
int pr_heap_push(struct pr_heap *heap, void *item); /* -1: no memory */
void *pr_heap_top(const struct pr_heap *heap);
void *pr_heap_second(const struct pr_heap *heap);
/* least but the top; NULL: none */ /* NULL: empty */
void *pr_heap_pop(struct pr_heap *heap);
void pr_heap_sift_top(struct pr_heap *heap); /* the top's key has grown */

#endif
