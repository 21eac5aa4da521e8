/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/index/kinds.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <xxhash.h>

#include "indexer/index/kinds_plain.h"

void
pri_header_layouts_free(struct pri_header_layouts *k)
{
	free(k->items);
	free(k->more);
	free(k->slots);
	free(k->odd);
	*k = (struct pri_header_layouts){0};
}

static int
make_room(struct pri_header_layouts *k, size_t packets, size_t slots)
{
	if (packets > k->room) {
		free(k->items);
		free(k->more);
		free(k->odd);
		k->room = 0;
		k->items = aligned_alloc(sizeof(*k->items), packets * sizeof(*k->items));
		k->more = malloc(packets * sizeof(*k->more));
		k->odd = malloc(packets * sizeof(*k->odd));
		if (!k->items || !k->more || !k->odd)
			return -1;
		k->room = packets;
	}
	if (slots > k->slot_room) {
		free(k->slots);
		k->slot_room = 0;
		k->slots = malloc(slots * sizeof(*k->slots));
		if (!k->slots)
			return -1;
		k->slot_room = slots;
	}
	return 0;
}

/* Without the kernel's random bytes it is as good, but for who knows the address. */
static void
make_secret(struct pri_header_layouts *k)
{
	for (size_t i = 0; i < 4; i++)
		k->secret[i] = XXH3_64bits_withSeed(&k, sizeof(k), i);
	if (getrandom(k->secret, sizeof(k->secret), GRND_NONBLOCK) < 0)
		k->secret[0] |= 1;
}

int
pri_header_layouts_begin(struct pri_header_layouts *k, size_t packets)
{
	size_t slots = 64;

	while (slots < 2 * packets)
		slots *= 2;
	if (make_room(k, packets, slots) < 0)
		return -1;
	if (!k->secret[0])
		make_secret(k);
	memset(k->slots, 0, slots * sizeof(*k->slots));
	k->mask = slots - 1;
	k->count = k->odd_count = 0;
	return 0;
}

static struct pri_header_layout *
find_or_add_other(struct pri_header_layouts *k, const struct pri_packet_fields *f)
{
	size_t bytes = pri_packet_fields_bytes(f);
	size_t at = XXH3_64bits_withSeed(f, bytes, k->secret[0]) & k->mask;
	struct pri_header_layout *kind;

	for (; k->slots[at]; at = (at + 1) & k->mask) {
		kind = &k->items[k->slots[at] - 1];
		if (pri_header_layout_version(kind) == 0 &&
			!memcmp(pri_header_layout_fields(k, kind), f, bytes))
			return kind;
	}
	kind = pri_header_layouts_add(k, at);
	memset(kind->id, 0, sizeof(kind->id));
	kind->id[0] = k->odd_count;
	k->odd[k->odd_count++] = *f;
	return kind;
}

struct pri_header_layout *
pri_header_layouts_add_other(struct pri_header_layouts *k,
	const struct pri_linktype_layout *layout, const uint8_t *data, uint32_t caplen,
	uint32_t len)
{
	struct pri_packet_fields fields;

	pri_packet_fields_parse(layout, data, caplen, &fields);
	return pri_header_layout_count(find_or_add_other(k, &fields), len);
}
