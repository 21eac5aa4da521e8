/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/tops.h"

#include <stdbool.h>
#include <string.h>

#include "indexer/key_hash.h"

#define SLOTS (4 * PR_TOPS_ROOM)

void
pr_tops_clear(struct pr_tops *t)
{
	memset(t->slots, 0, sizeof(t->slots));
	t->count = 0;
	t->packets_short = t->bytes_short = 0;
}

static size_t
slot_of(const struct pr_tops *t, const uint8_t *address, size_t len)
{
	size_t at =
		pr_key_hash_bytes(PR_KEY_ADDRESS, address, len == 4 ? 4 : 16) & (SLOTS - 1);

	for (; t->slots[at]; at = (at + 1) & (SLOTS - 1)) {
		const struct pr_level1_top *item = &t->items[t->slots[at] - 1];

		if (item->len == len && !memcmp(item->address, address, len))
			break;
	}
	return at;
}

/* The bytes that half of them have at least (Hoare's selection). */
static uint64_t
middle(const struct pr_tops *t)
{
	uint64_t bytes[PR_TOPS_ROOM];
	long low = 0, high = (long)t->count - 1, wanted = (long)t->count / 2;

	for (size_t i = 0; i < t->count; i++)
		bytes[i] = t->items[i].bytes;
	while (low < high) {
		uint64_t pivot = bytes[low + (high - low) / 2], swap;
		long i = low, j = high;

		while (i <= j) {
			while (bytes[i] > pivot)
				i++;
			while (bytes[j] < pivot)
				j--;
			if (i > j)
				break;
			swap = bytes[i];
			bytes[i++] = bytes[j];
			bytes[j--] = swap;
		}
		if (wanted > j && wanted < i)
			break;
		if (wanted <= j)
			high = j;
		else
			low = i;
	}
	return bytes[wanted];
}

static void
make_room(struct pr_tops *t)
{
	uint64_t bytes = middle(t), packets = 0;
	size_t kept = 0;

	for (size_t i = 0; i < t->count; i++) {
		struct pr_level1_top *item = &t->items[i];

		if (item->bytes > bytes) {
			item->bytes -= bytes;
			t->items[kept++] = *item;
		} else if (item->packets > packets) {
			packets = item->packets;
		}
	}
	t->count = kept;
	t->bytes_short += bytes;
	t->packets_short += packets;
	memset(t->slots, 0, sizeof(t->slots));
	for (size_t i = 0; i < kept; i++)
		t->slots[slot_of(t, t->items[i].address, t->items[i].len)] =
			(uint16_t)(i + 1);
}

void
pr_tops_add(struct pr_tops *t, const uint8_t *address, size_t len, uint64_t packets,
	uint64_t bytes)
{
	size_t at = slot_of(t, address, len);
	struct pr_level1_top *item;

	if (!t->slots[at] && t->count == PR_TOPS_ROOM) {
		make_room(t);
		at = slot_of(t, address, len);
	}
	if (!t->slots[at]) {
		item = &t->items[t->count++];
		*item = (struct pr_level1_top){.len = (uint8_t)len};
		memcpy(item->address, address, len);
		t->slots[at] = (uint16_t)t->count;
	}
	item = &t->items[t->slots[at] - 1];
	item->bytes += bytes;
	item->packets = packets < UINT32_MAX - item->packets
				? item->packets + (uint32_t)packets
				: UINT32_MAX;
}

size_t
pr_tops_best(const struct pr_tops *t, struct pr_level1_top *out)
{
	size_t n = 0;

	for (size_t i = 0; i < t->count; i++) {
		const struct pr_level1_top *item = &t->items[i];
		size_t at = n;

		if (n == PR_LEVEL1_TOPS_MAX && item->bytes <= out[n - 1].bytes)
			continue;
		if (n == PR_LEVEL1_TOPS_MAX)
			at--;
		else
			n++;
		for (; at > 0 && out[at - 1].bytes < item->bytes; at--)
			out[at] = out[at - 1];
		out[at] = *item;
	}
	return n;
}
