/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/heap.h"

#include <stdint.h>
#include <stdlib.h>

void
pr_heap_init(struct pr_heap *heap, bool (*less)(const void *a, const void *b))
{
	*heap = (struct pr_heap){.less = less};
}

void
pr_heap_free(struct pr_heap *heap)
{
	free(heap->items);
	*heap = (struct pr_heap){.less = heap->less};
}

static int
grow(struct pr_heap *heap)
{
	size_t room = heap->room ? heap->room * 2 : 16;
	void **items;

	if (room > SIZE_MAX / sizeof *items)
		return -1;
	items = realloc(heap->items, room * sizeof *items);
	if (!items)
		return -1;
	heap->items = items;
	heap->room = room;
	return 0;
}

int
pr_heap_push(struct pr_heap *heap, void *item)
{
	size_t i = heap->count;

	if (heap->count == heap->room && grow(heap) < 0)
		return -1;
	heap->count++;
	while (i > 0 && heap->less(item, heap->items[(i - 1) / 2])) {
		heap->items[i] = heap->items[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	heap->items[i] = item;
	return 0;
}

void *
pr_heap_top(const struct pr_heap *heap)
{
	return heap->count ? heap->items[0] : NULL;
}

void *
pr_heap_second(const struct pr_heap *heap)
{
	if (heap->count < 2)
		return NULL;
	if (heap->count > 2 && heap->less(heap->items[2], heap->items[1]))
		return heap->items[2];
	return heap->items[1];
}

void
pr_heap_sift_top(struct pr_heap *heap)
{
	size_t i = 0, child;
	void *item;

	if (heap->count < 2)
		return;
	item = heap->items[0];
	while ((child = 2 * i + 1) < heap->count) {
		if (child + 1 < heap->count &&
			heap->less(heap->items[child + 1], heap->items[child]))
			child++;
		if (!heap->less(heap->items[child], item))
			break;
		heap->items[i] = heap->items[child];
		i = child;
	}
	heap->items[i] = item;
}

void *
pr_heap_pop(struct pr_heap *heap)
{
	void *top = pr_heap_top(heap);

	if (!top)
		return NULL;
	heap->items[0] = heap->items[--heap->count];
	pr_heap_sift_top(heap);
	return top;
}
