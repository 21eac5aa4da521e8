/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_ADDRESSES_H
#define PRI_INDEXER_ADDRESSES_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "indexer/index/slot.h"

/*
 * The addresses of a segment, each once, with what it has sent and got. Memory is kept from segment to
 * segment. Zeroed is empty; one thread.
 */
#define PRI_HOST_SRC 1u
#define PRI_HOST_DST 2u
#define PRI_HOST_NONE UINT32_MAX
#define PRI_HOST_SEVERAL UINT32_MAX /* peers, or one that is not known */

struct pri_host_stats {
	uint8_t bytes[16];
	uint64_t traffic; /* bytes */
	uint32_t packets;
	uint32_t
		peer; /* 1 + the place of the one that is at the other end of all its packets; 0: none yet */
	uint8_t len; /* 4 or 16 */
	uint8_t sides; /* on which it was seen; 0: it is new */
	uint16_t hash; /* for other tables: nobody knows it, and it stays the address's */
};

struct pri_hosts {
	struct pri_host_stats *items;
	uint32_t *slots; /* 1 + index in items; 0 free */
	size_t count, room, slot_room, mask;
	struct pri_seeded_hash slot;
};

static inline void
pri_hosts_free(struct pri_hosts *a)
{
	free(a->items);
	free(a->slots);
	*a = (struct pri_hosts){0};
}

/* Forgets all; room for so many. -1: no memory. */
static inline int
pri_hosts_begin(struct pri_hosts *a, size_t most)
{
	size_t slots = 64;

	while (slots < 2 * most)
		slots *= 2;
	if (most > a->room || slots > a->slot_room) {
		const struct pri_seeded_hash slot = a->slot;

		pri_hosts_free(a);
		a->slot = slot;
		a->items = malloc(most * sizeof(*a->items));
		a->slots = malloc(slots * sizeof(*a->slots));
		if (!a->items || !a->slots)
			return -1;
		a->room = most;
		a->slot_room = slots;
	}
	memset(a->slots, 0, slots * sizeof(*a->slots));
	a->mask = slots - 1;
	pri_seeded_hash_set(&a->slot, slots);
	a->count = 0;
	return 0;
}

/* Its place, where there is room. hash: of the address. */
static inline uint32_t
pri_hosts_find_or_add(struct pri_hosts *a, uint64_t hash, const uint8_t *bytes, size_t len)
{
	size_t at = pri_seeded_hash_slot(&a->slot, hash);
	struct pri_host_stats *item;

	for (; a->slots[at]; at = (at + 1) & a->mask) {
		item = &a->items[a->slots[at] - 1];
		if (item->len == len && !memcmp(item->bytes, bytes, len))
			return a->slots[at] - 1;
	}
	item = &a->items[a->count++];
	*item = (struct pri_host_stats){
		.len = (uint8_t)len, .hash = (uint16_t)(hash * a->slot.factor >> 48)};
	memcpy(item->bytes, bytes, len);
	a->slots[at] = (uint32_t)a->count;
	return a->slots[at] - 1;
}

#endif
