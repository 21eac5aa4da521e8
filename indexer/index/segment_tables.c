/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/index/segment_tables.h"

#include <sys/random.h>

/*
 * A random odd multiplier. Without random bytes of the kernel it is a hash of an address in
 * memory, which only somebody who knows that address can predict.
 */
static uint64_t
draw(const void *at)
{
	uint64_t drawn;

	if (getrandom(&drawn, sizeof(drawn), GRND_NONBLOCK) != sizeof(drawn))
		drawn = XXH3_64bits(&at, sizeof(at));
	return drawn | 1;
}

void
pri_seeded_hash_set(struct pri_seeded_hash *slot, size_t slots)
{
	if (!slot->factor)
		slot->factor = draw(slot);
	slot->shift = 64 - __builtin_ctzll(slots);
}

/* ---- header layouts ---- */

void
pri_header_layouts_free(struct pri_header_layouts *k)
{
	PR_FREE(k, items, more, slots.items, odd);
	*k = (struct pri_header_layouts){0};
}

int
pri_slots_begin(struct pri_slots *s, size_t most)
{
	size_t count = 64;

	while (count < 2 * most)
		count *= 2;
	if (PR_ARRAY_RESERVE(s->items, s->room, count) < 0)
		return -1;
	memset(s->items, 0, count * sizeof(*s->items));
	s->mask = count - 1;
	return 0;
}

int
pri_header_layouts_begin(struct pri_header_layouts *k, size_t packets)
{
	if (packets > k->room) {
		PR_FREE(k, items, more, odd);
		k->room = 0;
		k->items = aligned_alloc(sizeof(*k->items), packets * sizeof(*k->items));
		k->more = malloc(packets * sizeof(*k->more));
		k->odd = malloc(packets * sizeof(*k->odd));
		if (!k->items || !k->more || !k->odd)
			return -1;
		k->room = packets;
	}
	for (size_t i = 0; i < 4 && !k->secret[3]; i++)
		k->secret[i] = draw(&k->secret[i]);
	k->count = k->odd_count = 0;
	return pri_slots_begin(&k->slots, packets);
}

struct pri_header_layout *
pri_header_layouts_add_other(struct pri_header_layouts *k,
	const struct pri_linktype_layout *linktype, const uint8_t *data, uint32_t caplen,
	uint32_t len)
{
	struct pri_packet_fields fields;
	struct pri_header_layout *layout;

	pri_packet_fields_parse(linktype, data, caplen, &fields);
	size_t bytes = pri_packet_fields_bytes(&fields);
	size_t at = XXH3_64bits_withSeed(&fields, bytes, k->secret[0]) & k->slots.mask;
	for (; k->slots.items[at]; at = (at + 1) & k->slots.mask) {
		layout = &k->items[k->slots.items[at] - 1];
		if (pri_header_layout_version(layout) == 0 &&
			!memcmp(pri_header_layout_fields(k, layout), &fields, bytes))
			return pri_header_layout_count(layout, len);
	}
	layout = pri_header_layouts_add(k, at);
	memset(layout->id, 0, sizeof(layout->id));
	layout->id[0] = k->odd_count;
	k->odd[k->odd_count++] = fields;
	return pri_header_layout_count(layout, len);
}
