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

/* ---- heavy hitters ---- */

#define SLOTS (4 * PRI_HEAVY_HITTERS_MAX)

void
pri_heavy_hitters_clear(struct pri_heavy_hitters *t)
{
	memset(t->slots, 0, sizeof(t->slots));
	t->count = 0;
	t->packets_short = t->bytes_short = 0;
}

/* The slot of the address, or the free slot for it. */
static size_t
slot_of(const struct pri_heavy_hitters *t, const uint8_t *address, size_t len,
	uint16_t hash)
{
	size_t at = hash & (SLOTS - 1);

	for (; t->slots[at]; at = (at + 1) & (SLOTS - 1)) {
		const struct pri_level1_top *item = &t->items[t->slots[at] - 1];

		if (item->len == len && !memcmp(item->address, address, len))
			break;
	}
	return at;
}

/* ---- room ---- */

/*
 * A class that grows with the bytes: the position of the highest bit of bytes + 16, and the
 * four bits after it.
 */
#define CLASSES 1024
static unsigned
class_of(uint64_t bytes)
{
	uint64_t v = bytes < UINT64_MAX - 16 ? bytes + 16 : UINT64_MAX;
	unsigned last = 63 - __builtin_clzll(v);

	return last * 16 + (v >> (last - 4) & 15);
}

/*
 * The median of the byte counts, or up to a sixteenth more: counts are sorted by class
 * only.
 */
static uint64_t
middle(const struct pri_heavy_hitters *t)
{
	uint16_t counts[CLASSES] = {0};
	long wanted = (long)t->count / 2;
	unsigned class = CLASSES - 1;
	uint64_t most = 0;

	for (size_t i = 0; i < t->count; i++)
		counts[class_of(t->items[i].bytes)]++;
	for (; wanted >= counts[class]; class --)
		wanted -= counts[class];
	for (size_t i = 0; i < t->count; i++)
		if (t->items[i].bytes > most && class_of(t->items[i].bytes) == class)
			most = t->items[i].bytes;
	return most;
}

static void
make_room(struct pri_heavy_hitters *t)
{
	uint64_t bytes = middle(t), packets = 0;
	size_t kept = 0;

	for (size_t i = 0; i < t->count; i++) {
		struct pri_level1_top *item = &t->items[i];

		if (item->bytes > bytes) {
			item->bytes -= bytes;
			t->hashes[kept] = t->hashes[i];
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
		t->slots[slot_of(t, t->items[i].address, t->items[i].len, t->hashes[i])] =
			i + 1;
}

void
pri_heavy_hitters_add(struct pri_heavy_hitters *t, const uint8_t *address, size_t len,
	uint16_t hash, uint64_t packets, uint64_t bytes)
{
	size_t at = slot_of(t, address, len, hash);
	struct pri_level1_top *item;

	if (!t->slots[at] && t->count == PRI_HEAVY_HITTERS_MAX) {
		make_room(t);
		at = slot_of(t, address, len, hash);
	}
	if (!t->slots[at]) {
		t->hashes[t->count] = hash;
		item = &t->items[t->count++];
		*item = (struct pri_level1_top){.len = len};
		memcpy(item->address, address, len);
		t->slots[at] = t->count;
	}
	item = &t->items[t->slots[at] - 1];
	item->bytes += bytes;
	item->packets =
		packets < UINT32_MAX - item->packets ? item->packets + packets : UINT32_MAX;
}

size_t
pri_heavy_hitters_best(const struct pri_heavy_hitters *t, struct pri_level1_top *out)
{
	size_t n = 0;

	for (size_t i = 0; i < t->count; i++) {
		const struct pri_level1_top *item = &t->items[i];
		size_t at = n;

		if (n == PRI_LEVEL1_TOPS_MAX && item->bytes <= out[n - 1].bytes)
			continue;
		if (n == PRI_LEVEL1_TOPS_MAX)
			at--;
		else
			n++;
		for (; at > 0 && out[at - 1].bytes < item->bytes; at--)
			out[at] = out[at - 1];
		out[at] = *item;
	}
	return n;
}
