/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <xxhash.h>

#include "indexer/index/level1.h"

/*
 * Multiply-shift hashing with a random multiplier for each table (Dietzfelbinger and others, 1997). Key hashes
 * are the same on all machines, so senders could choose keys that collide in a table without it. Call
 * pri_seeded_hash_set before the first use.
 */
struct pri_seeded_hash {
	uint64_t factor; /* odd */
	unsigned shift;
};

/* slots: a power of two, at least 2. The multiplier is drawn at the first call and stays. */
void pri_seeded_hash_set(struct pri_seeded_hash *slot, size_t slots);

static inline size_t
pri_seeded_hash_slot(const struct pri_seeded_hash *slot, uint64_t hash)
{
	return (size_t)(hash * slot->factor >> slot->shift);
}

/* XXH3 is inlined: with a constant kind and length, only a few multiplications remain. */
#define XXH_INLINE_ALL

#define PRI_IN_PLACE static inline __attribute__((always_inline))

/*
 * The hash of a key, as pri_key_hash returns it. Kind and length are part of the hash, so
 * equal bytes of another kind are another key.
 */
PRI_IN_PLACE uint64_t
pri_key_hash_bytes(enum pri_key_kind kind, const void *bytes, size_t len)
{
	return XXH3_64bits_withSeed(bytes, len, (uint64_t)kind << 8 | len);
}

/*
 * A set of 64-bit hashes. Two keys with the same hash are one item. That does no harm: the
 * index stores only the hashes of keys. A zeroed set is empty.
 */
struct pri_hashset {
	uint64_t *items; /* in the order of insertion */
	uint32_t *slots; /* 1 + index in items; 0 free */
	size_t count, room; /* items: count used, room + 1 allocated; 2 * room slots */
	struct pri_seeded_hash slot;
};

static inline void
pri_hashset_free(struct pri_hashset *s)
{
	PR_FREE(s, items, slots);
	*s = (struct pri_hashset){0};
}

static inline void
pri_hashset_clear(struct pri_hashset *s)
{
	/* Few items in a large table: clear their slots one by one. */
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

	if (!items)
		return -1;
	s->items = items;
	uint32_t *slots = calloc(2 * room, sizeof(*slots));
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

/* Makes room for `more` hashes, so that put and push cannot fail. -1: no memory. */
static inline int
pri_hashset_prepare(struct pri_hashset *s, size_t more)
{
	while (s->room - s->count < more)
		if (pri_hashset_grow(s) < 0)
			return -1;
	return 0;
}

/* Adds a hash; there must be room (pri_hashset_prepare). True if it was not in the set. */
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
 * Adds the items of another set. Slots are prefetched, since the set of a batch is larger
 * than a CPU cache. -1: no memory.
 */
#define PRI_HASHSET_AHEAD 16
static inline int
pri_hashset_add_all(struct pri_hashset *s, const struct pri_hashset *other)
{
	const uint64_t *hashes = other->items;
	const size_t n = other->count;
	/* a local copy: stores through its pointers cannot change it */

	if (pri_hashset_prepare(s, n) < 0)
		return -1;
	struct pri_hashset to = *s;
	for (size_t i = 0; i < n; i++) {
		if (i + PRI_HASHSET_AHEAD < n)
			__builtin_prefetch(&to.slots[pri_seeded_hash_slot(&to.slot,
						   hashes[i + PRI_HASHSET_AHEAD])],
				1);
		pri_hashset_put(&to, hashes[i]);
	}
	s->count = to.count;
	return 0;
}

/* Adds a new hash that is never looked up later. There must be room. */
static inline void
pri_hashset_push(struct pri_hashset *s, uint64_t hash)
{
	s->items[s->count++] = hash;
}

/* Slots of a table whose items lie elsewhere; at most half of them are taken. Zeroed is empty. */
struct pri_slots {
	uint32_t *items; /* 1 + index in the table's items; 0: free */
	size_t room, mask;
};
/* Frees all slots, and makes room for `most` items. -1: no memory. */
int pri_slots_begin(struct pri_slots *slots, size_t most);

/*
 * The addresses of a segment, each once, with the packets and bytes that it sent and
 * received. Memory is kept from segment to segment. A zeroed table is empty. One thread.
 */
#define PRI_HOST_SRC 1u
#define PRI_HOST_DST 2u

struct pri_host_stats {
	uint8_t bytes[16];
	uint64_t traffic; /* bytes */
	uint32_t packets;
	uint8_t len; /* 4 or 16 */
	uint8_t sides; /* PRI_HOST_SRC and PRI_HOST_DST, as seen; 0: new */
};

struct pri_hosts {
	struct pri_host_stats *items;
	struct pri_slots slots;
	size_t count, room;
	struct pri_seeded_hash slot;
};

static inline void
pri_hosts_free(struct pri_hosts *a)
{
	PR_FREE(a, items, slots.items);
	*a = (struct pri_hosts){0};
}

/* Empties the table, and makes room for `most` addresses. -1: no memory. */
static inline int
pri_hosts_begin(struct pri_hosts *a, size_t most)
{
	if (PR_ARRAY_RESERVE(a->items, a->room, most) < 0 ||
		pri_slots_begin(&a->slots, most) < 0)
		return -1;
	a->count = 0;
	pri_seeded_hash_set(&a->slot, a->slots.mask + 1);
	return 0;
}

/*
 * Returns the index of the address, and adds it if it is new. There must be room. hash: of
 * the address.
 */
static inline uint32_t
pri_hosts_find_or_add(struct pri_hosts *a, uint64_t hash, const uint8_t *bytes, size_t len)
{
	size_t at = pri_seeded_hash_slot(&a->slot, hash);
	struct pri_host_stats *item;

	for (; a->slots.items[at]; at = (at + 1) & a->slots.mask) {
		item = &a->items[a->slots.items[at] - 1];
		if (item->len == len && !memcmp(item->bytes, bytes, len))
			return a->slots.items[at] - 1;
	}
	item = &a->items[a->count++];
	*item = (struct pri_host_stats){.len = (uint8_t)len};
	memcpy(item->bytes, bytes, len);
	a->slots.items[at] = (uint32_t)a->count;
	return a->slots.items[at] - 1;
}

/*
 * Groups a segment's packets by header layout (type, tag, addresses, protocol, ports), so that keys are made once
 * for each layout. Plain packets (at most one tag; IPv4 without options, or IPv6; TCP, UDP or SCTP, and in IPv4
 * other protocols but ICMP) are recognised by four words of their headers, without parsing; the others by their
 * packet fields. Memory is kept from segment to segment. One thread.
 */
enum { PRI_HEADER_LAYOUT_WORDS = 4, PRI_HEADER_LAYOUT_MORE = 3 };

struct pri_header_layout {
	/*
	 * Bytes as they are in the packet. id[0]: destination MAC, first 2 bytes of the
	 * source MAC. id[1]: its other 4 bytes, type, tag. id[2]: IP version, protocol;
	 * then IPv4's source address, or the ports of IPv6. id[3]: IPv4's destination and
	 * the ports, or the first 8 bytes of IPv6's addresses; the others are in `more`. If
	 * the packet is not plain, the version is 0, and id[0] is an index in `odd`.
	 */
	uint64_t id[PRI_HEADER_LAYOUT_WORDS];
	uint64_t bytes;
	uint32_t packets;
	uint8_t unused[20]; /* pads the struct to a cache line */
};

struct pri_header_layouts {
	struct pri_header_layout *items;
	/* For IPv6: the words of items[i] that are not in its id. */
	uint64_t (*more)[PRI_HEADER_LAYOUT_MORE];
	size_t count, room;
	struct pri_slots slots;
	struct pri_packet_fields *odd;
	size_t odd_count;
	uint64_t secret[4]; /* so that no sender can aim packets at one slot */
};

/* Zeroed is ready. */
void pri_header_layouts_free(struct pri_header_layouts *layouts);
/* Empties the table and makes room for so many packets, all different: nothing can fail after that. -1: no memory. */
int pri_header_layouts_begin(struct pri_header_layouts *layouts, size_t packets);
/*
 * Adds a packet to its header layout and returns that layout; creates it if it is new (then its packets are 1).
 * For packets that pri_header_layouts_add_plain cannot take. data must not change during the call (no shared
 * memory). Never fails: pri_header_layouts_begin has made room.
 */
struct pri_header_layout *pri_header_layouts_add_other(struct pri_header_layouts *layouts,
	const struct pri_linktype_layout *linktype, const uint8_t *data, uint32_t caplen,
	uint32_t len);

/* The IP version of a plain layout, 4 or 6; 0: not plain. */
static inline unsigned
pri_header_layout_version(const struct pri_header_layout *layout)
{
	return layout->id[2] & 0xff;
}

/* The packet fields of a layout that is not plain. */
static inline const struct pri_packet_fields *
pri_header_layout_fields(
	const struct pri_header_layouts *layouts, const struct pri_header_layout *layout)
{
	return &layouts->odd[layout->id[0]];
}

/* Finds a plain packet's layout. Inlined, since this runs for each packet. */
#define PRI_PLAIN_ICMP 1 /* IP protocol */

static inline struct pri_header_layout *
pri_header_layout_count(struct pri_header_layout *layout, uint32_t len)
{
	layout->packets++;
	layout->bytes += len;
	return layout;
}

static inline struct pri_header_layout *
pri_header_layouts_add(struct pri_header_layouts *k, size_t at)
{
	struct pri_header_layout *layout = &k->items[k->count++];

	k->slots.items[at] = (uint32_t)k->count;
	layout->bytes = 0;
	layout->packets = 0;
	return layout;
}

static inline uint64_t
pri_header_layouts_fold(uint64_t a, uint64_t b)
{
	__extension__ const unsigned __int128 product = (unsigned __int128)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* more: the further words of IPv6's addresses; NULL: not IPv6. */
PRI_IN_PLACE struct pri_header_layout *
pri_header_layouts_find_or_add(struct pri_header_layouts *k,
	const uint64_t id[PRI_HEADER_LAYOUT_WORDS], const uint64_t *more)
{
	const uint64_t *s = k->secret;
	uint64_t h = pri_header_layouts_fold(id[0] ^ s[0], id[1] ^ s[1]) +
		     pri_header_layouts_fold(id[2] ^ s[2], id[3] ^ s[3]);
	struct pri_header_layout *layout;
	size_t at;

	if (more)
		h += pri_header_layouts_fold(more[0] ^ s[1], more[1] ^ s[0]) +
		     pri_header_layouts_fold(more[2] ^ s[3], h ^ s[2]);
	for (at = (h ^ h >> 32) & k->slots.mask; k->slots.items[at];
		at = (at + 1) & k->slots.mask) {
		layout = &k->items[k->slots.items[at] - 1];
		if (!((layout->id[0] ^ id[0]) | (layout->id[1] ^ id[1]) |
			    (layout->id[2] ^ id[2]) | (layout->id[3] ^ id[3])) &&
			(!more || !memcmp(k->more[k->slots.items[at] - 1], more,
					  sizeof(*k->more))))
			return layout;
	}
	layout = pri_header_layouts_add(k, at);
	for (size_t i = 0; i < PRI_HEADER_LAYOUT_WORDS; i++)
		layout->id[i] = id[i];
	if (more)
		memcpy(k->more[k->count - 1], more, sizeof(*k->more));
	return layout;
}

/* NULL: the packet is not plain. Packets with equal words have equal packet fields. */
static inline struct pri_header_layout *
pri_header_layouts_plain_ip(struct pri_header_layouts *k,
	uint64_t id[PRI_HEADER_LAYOUT_WORDS], const uint8_t *net, size_t len)
{
	if (len < 24 || net[0] != 0x45 || pr_get_be16(net + 6) & 0x1fff)
		return NULL;
	uint8_t protocol = net[9];
	if (protocol == PRI_PLAIN_ICMP)
		return NULL;
	uint64_t addresses = pr_get_le64(net + 12);
	id[2] = 4 | (uint64_t)protocol << 8 | addresses << 32;
	id[3] = addresses >> 32;
	if (pri_has_ports(protocol))
		id[3] |= (uint64_t)pr_get_le32(net + 20) << 32;
	return pri_header_layouts_find_or_add(k, id, NULL);
}

static inline struct pri_header_layout *
pri_header_layouts_plain_ip6(struct pri_header_layouts *k,
	uint64_t id[PRI_HEADER_LAYOUT_WORDS], const uint8_t *net, size_t len)
{
	uint64_t more[PRI_HEADER_LAYOUT_MORE];

	if (len < 44 || !pri_has_ports(net[6]))
		return NULL;
	id[2] = 6 | (uint64_t)net[6] << 8 | (uint64_t)pr_get_le32(net + 40) << 32;
	id[3] = pr_get_le64(net + 8);
	for (size_t i = 0; i < PRI_HEADER_LAYOUT_MORE; i++)
		more[i] = pr_get_le64(net + 16 + 8 * i);
	return pri_header_layouts_find_or_add(k, id, more);
}

/*
 * Adds a plain packet of Ethernet to its header layout and returns that layout. NULL: the packet is not plain, or
 * too little of it was captured. Safe in shared memory: if the bytes change during the call, the layout is
 * arbitrary, and the caller discards the segment.
 */
static inline struct pri_header_layout *
pri_header_layouts_add_plain(
	struct pri_header_layouts *k, const uint8_t *data, uint32_t caplen, uint32_t len)
{
	uint64_t id[PRI_HEADER_LAYOUT_WORDS];
	struct pri_header_layout *layout = NULL;
	size_t net = 14;

	if (caplen < 18)
		return NULL;
	id[0] = pr_get_le64(data);
	id[1] = pr_get_le64(data + 6) >> 16;
	uint16_t type = __builtin_bswap16((uint16_t)(id[1] >> 32));
	if (type == PR_ETHERTYPE_VLAN) {
		id[1] |= (uint64_t)(pr_get_be16(data + 14) & 0xfff) << 48;
		type = pr_get_be16(data + 16);
		net = 18;
	}
	if (type == PR_ETHERTYPE_IP4)
		layout = pri_header_layouts_plain_ip(k, id, data + net, caplen - net);
	else if (type == PR_ETHERTYPE_IP6)
		layout = pri_header_layouts_plain_ip6(k, id, data + net, caplen - net);
	return layout ? pri_header_layout_count(layout, len) : NULL;
}
