/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_HASHSET_H
#define PRI_INDEXER_HASHSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "indexer/index/slot.h"

/*
 * A set of hashes of 64 bits, each of which is in it once. Two keys of one hash are one here, which
 * does no harm: what is made of it knows keys by their hashes only. Zeroed is empty and ready.
 */
struct pri_hashset {
	uint64_t *items; /* in the order of coming */
	uint32_t *slots; /* 1 + index in items; 0 free */
	size_t count, room; /* of items, and one more; there are twice as many slots */
	struct pri_seeded_hash slot;
};

static inline void
pri_hashset_free(struct pri_hashset *s)
{
	free(s->items);
	free(s->slots);
	*s = (struct pri_hashset){0};
}

static inline void
pri_hashset_clear(struct pri_hashset *s)
{
	/* One by one where it was much larger once than it is now. */
	if (s->count < s->room / 16)
		for (size_t i = 0; i < s->count; i++) {
			size_t at = pri_seeded_hash_slot(&s->slot, s->items[i]);
			while (s->slots[at]) {
				s->slots[at] = 0;
				at = (at + 1) & (2 * s->room - 1);
			}
		}
	else if (s->slots)
		memset(s->slots, 0, 2 * s->room * sizeof(*s->slots));
	s->count = 0;
}

static inline size_t
pri_hashset_slot(const struct pri_hashset *s, uint64_t hash)
{
	size_t mask = 2 * s->room - 1, at = pri_seeded_hash_slot(&s->slot, hash);

	while (s->slots[at] && s->items[s->slots[at] - 1] != hash)
		at = (at + 1) & mask;
	return at;
}

static inline int
pri_hashset_grow(struct pri_hashset *s)
{
	size_t room = s->room ? s->room * 2 : 256;
	uint64_t *items = realloc(s->items, (room + 1) * sizeof(*items));
	uint32_t *slots;

	if (!items)
		return -1;
	s->items = items;
	slots = calloc(2 * room, sizeof(*slots));
	if (!slots)
		return -1;
	free(s->slots);
	s->slots = slots;
	s->room = room;
	pri_seeded_hash_set(&s->slot, 2 * room);
	for (size_t i = 0; i < s->count; i++)
		s->slots[pri_hashset_slot(s, s->items[i])] = (uint32_t)i + 1;
	return 0;
}

/* 1: it is new; 0: it was there; -1: no memory. */
static inline int
pri_hashset_add(struct pri_hashset *s, uint64_t hash)
{
	size_t at;

	if (s->count == s->room && pri_hashset_grow(s) < 0)
		return -1;
	at = pri_hashset_slot(s, hash);
	if (s->slots[at])
		return 0;
	s->items[s->count++] = hash;
	s->slots[at] = (uint32_t)s->count;
	return 1;
}

/* Room for that many more, so that put and push cannot fail. -1: no memory. */
static inline int
pri_hashset_prepare(struct pri_hashset *s, size_t more)
{
	while (s->room - s->count < more)
		if (pri_hashset_grow(s) < 0)
			return -1;
	return 0;
}

/* As pri_hashset_add, where there is room. true: it is new. */
static inline bool
pri_hashset_put(struct pri_hashset *s, uint64_t hash)
{
	size_t at = pri_hashset_slot(s, hash);

	if (s->slots[at])
		return false;
	s->items[s->count++] = hash;
	s->slots[at] = (uint32_t)s->count;
	return true;
}

/*
 * All of these. What they will look at is called for in time, and where the first slot tells, which is nearly always,
 * there is no branch: which are new cannot be foreseen. -1: no memory.
 */
#define PRI_HASHSET_FAR 20
#define PRI_HASHSET_NEAR 10
static inline int
pri_hashset_add_all(struct pri_hashset *s, const uint64_t *hashes, size_t n)
{
	struct pri_seeded_hash to;
	size_t mask, count, at;
	uint64_t *items;
	uint32_t *slots, slot;

	if (pri_hashset_prepare(s, n) < 0)
		return -1;
	to = s->slot;
	mask = 2 * s->room - 1;
	count = s->count;
	items = s->items;
	slots = s->slots;
	for (size_t i = 0; i < n; i++) {
		uint64_t hash = hashes[i];
		bool new;

		if (i + PRI_HASHSET_FAR < n) {
			__builtin_prefetch(&slots[pri_seeded_hash_slot(
						   &to, hashes[i + PRI_HASHSET_FAR])],
				1);
			slot = slots[pri_seeded_hash_slot(
				&to, hashes[i + PRI_HASHSET_NEAR])];
			__builtin_prefetch(&items[slot - (slot != 0)]);
		}
		at = pri_seeded_hash_slot(&to, hash);
		slot = slots[at];
		if (__builtin_expect(
			    (slot != 0) & (items[slot - (slot != 0)] != hash), 0)) {
			do {
				at = (at + 1) & mask;
				slot = slots[at];
			} while (slot && items[slot - 1] != hash);
		}
		new = slot == 0;
		items[count] = hash;
		count += new;
		slots[at] = new ? (uint32_t)count : slot;
	}
	s->count = count;
	return 0;
}

/* One that is new and never looked for again, where there is room. */
static inline void
pri_hashset_push(struct pri_hashset *s, uint64_t hash)
{
	s->items[s->count++] = hash;
}

#endif
