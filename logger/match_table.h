/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRL_LOGGER_MATCH_TABLE_H
#define PRL_LOGGER_MATCH_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/*
 * A hash table of items that live in a ring: buckets of doubly linked chains, first in first out, linked by
 * the items' numbers so that a ring may grow under it.
 */
#define MATCH_NONE UINT64_MAX
#define MATCH_BUCKETS 8192u

struct match_hook {
	uint64_t prev, next;
};

struct match_bucket {
	uint64_t head, tail;
};

struct match_table {
	struct match_bucket *buckets;
	uint8_t *items; /* the ring; each item begins with its hook */
	size_t size;
	uint64_t mask;
};

static inline struct match_hook *
match_hook_at(const struct match_table *t, uint64_t number)
{
	return (struct match_hook *)(void *)(t->items + (number & t->mask) * t->size);
}

static inline struct match_bucket *
match_bucket_of(const struct match_table *t, uint32_t fingerprint)
{
	return &t->buckets[(fingerprint ^ fingerprint >> 15) & (MATCH_BUCKETS - 1)];
}

static inline bool
match_table_init(struct match_table *t, size_t size)
{
	t->size = size;
	t->buckets = malloc(MATCH_BUCKETS * sizeof(*t->buckets));
	if (!t->buckets)
		return false;
	for (uint32_t i = 0; i < MATCH_BUCKETS; i++)
		t->buckets[i] = (struct match_bucket){MATCH_NONE, MATCH_NONE};
	return true;
}

static inline void
match_table_add(struct match_table *t, uint32_t fingerprint, uint64_t number)
{
	struct match_bucket *b = match_bucket_of(t, fingerprint);
	struct match_hook *h = match_hook_at(t, number);

	h->prev = b->tail;
	h->next = MATCH_NONE;
	if (b->tail == MATCH_NONE)
		b->head = number;
	else
		match_hook_at(t, b->tail)->next = number;
	b->tail = number;
}

static inline void
match_table_remove(struct match_table *t, uint32_t fingerprint, uint64_t number)
{
	struct match_bucket *b = match_bucket_of(t, fingerprint);
	struct match_hook *h = match_hook_at(t, number);

	if (h->prev == MATCH_NONE)
		b->head = h->next;
	else
		match_hook_at(t, h->prev)->next = h->next;
	if (h->next == MATCH_NONE)
		b->tail = h->prev;
	else
		match_hook_at(t, h->next)->prev = h->prev;
}

#endif
