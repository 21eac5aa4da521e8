/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_KINDS_PLAIN_H
#define PRI_INDEXER_KINDS_PLAIN_H

#include "indexer/index/kinds.h"
#include "proto/wire/cursor.h"

/* Finding a plain packet's kind, in place: it is done for each packet. */
#define PRI_PLAIN_TAG 0x8100
#define PRI_PLAIN_IP 0x0800
#define PRI_PLAIN_IP6 0x86dd
#define PRI_PLAIN_ICMP 1

static inline struct pri_header_layout *
pri_header_layout_count(struct pri_header_layout *kind, uint32_t len)
{
	kind->packets++;
	kind->bytes += len;
	return kind;
}

static inline struct pri_header_layout *
pri_header_layouts_add(struct pri_header_layouts *k, size_t at)
{
	struct pri_header_layout *kind = &k->items[k->count++];

	k->slots[at] = (uint32_t)k->count;
	kind->bytes = 0;
	kind->packets = 0;
	return kind;
}

static inline uint64_t
pri_header_layouts_fold(uint64_t a, uint64_t b)
{
	__extension__ const unsigned __int128 product = (unsigned __int128)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t
pri_header_layouts_hash(
	const struct pri_header_layouts *k, const uint64_t id[PRI_HEADER_LAYOUT_WORDS])
{
	const uint64_t *s = k->secret;

	return pri_header_layouts_fold(id[0] ^ s[0], id[1] ^ s[1]) +
	       pri_header_layouts_fold(id[2] ^ s[2], id[3] ^ s[3]);
}

static inline bool
pri_header_layout_is(
	const struct pri_header_layout *kind, const uint64_t id[PRI_HEADER_LAYOUT_WORDS])
{
	return !((kind->id[0] ^ id[0]) | (kind->id[1] ^ id[1]) | (kind->id[2] ^ id[2]) |
		 (kind->id[3] ^ id[3]));
}

static inline struct pri_header_layout *
pri_header_layouts_find_or_add_ip(
	struct pri_header_layouts *k, const uint64_t id[PRI_HEADER_LAYOUT_WORDS])
{
	uint64_t h = pri_header_layouts_hash(k, id);
	size_t at = (h ^ h >> 32) & k->mask;
	struct pri_header_layout *kind;

	for (; k->slots[at]; at = (at + 1) & k->mask) {
		kind = &k->items[k->slots[at] - 1];
		if (pri_header_layout_is(kind, id))
			return kind;
	}
	kind = pri_header_layouts_add(k, at);
	for (size_t i = 0; i < PRI_HEADER_LAYOUT_WORDS; i++)
		kind->id[i] = id[i];
	return kind;
}

static inline struct pri_header_layout *
pri_header_layouts_find_or_add_ip6(struct pri_header_layouts *k,
	const uint64_t id[PRI_HEADER_LAYOUT_WORDS],
	const uint64_t more[PRI_HEADER_LAYOUT_MORE])
{
	const uint64_t *s = k->secret;
	uint64_t h = pri_header_layouts_hash(k, id);
	struct pri_header_layout *kind;
	size_t at;

	h += pri_header_layouts_fold(more[0] ^ s[1], more[1] ^ s[0]) +
	     pri_header_layouts_fold(more[2] ^ s[3], h ^ s[2]);
	for (at = (h ^ h >> 32) & k->mask; k->slots[at]; at = (at + 1) & k->mask) {
		kind = &k->items[k->slots[at] - 1];
		if (pri_header_layout_is(kind, id) &&
			!memcmp(k->more[k->slots[at] - 1], more, sizeof(*k->more)))
			return kind;
	}
	kind = pri_header_layouts_add(k, at);
	for (size_t i = 0; i < PRI_HEADER_LAYOUT_WORDS; i++)
		kind->id[i] = id[i];
	memcpy(k->more[k->count - 1], more, sizeof(*k->more));
	return kind;
}

/* NULL: it is not plain. Equal words are equal fields. */
static inline struct pri_header_layout *
pri_header_layouts_plain_ip(struct pri_header_layouts *k,
	uint64_t id[PRI_HEADER_LAYOUT_WORDS], const uint8_t *net, size_t len)
{
	uint8_t protocol;
	uint64_t addresses;

	if (len < 24 || net[0] != 0x45 || pr_get_be16(net + 6) & 0x1fff)
		return NULL;
	protocol = net[9];
	if (protocol == PRI_PLAIN_ICMP)
		return NULL;
	addresses = pr_get_le64(net + 12);
	id[2] = 4 | (uint64_t)protocol << 8 | addresses << 32;
	id[3] = addresses >> 32;
	if (pri_header_layout_has_ports(protocol))
		id[3] |= (uint64_t)pr_get_le32(net + 20) << 32;
	return pri_header_layouts_find_or_add_ip(k, id);
}

static inline struct pri_header_layout *
pri_header_layouts_plain_ip6(struct pri_header_layouts *k,
	uint64_t id[PRI_HEADER_LAYOUT_WORDS], const uint8_t *net, size_t len)
{
	uint64_t more[PRI_HEADER_LAYOUT_MORE];

	if (len < 44 || !pri_header_layout_has_ports(net[6]))
		return NULL;
	id[2] = 6 | (uint64_t)net[6] << 8 | (uint64_t)pr_get_le32(net + 40) << 32;
	id[3] = pr_get_le64(net + 8);
	for (size_t i = 0; i < PRI_HEADER_LAYOUT_MORE; i++)
		more[i] = pr_get_le64(net + 16 + 8 * i);
	return pri_header_layouts_find_or_add_ip6(k, id, more);
}

/*
 * The kind of a packet of Ethernet, with that packet counted; its packets are 1 when it is new. NULL: it is not
 * plain, or not captured so far. The packet may change meanwhile: then it is of some kind.
 */
static inline struct pri_header_layout *
pri_header_layouts_add_plain(
	struct pri_header_layouts *k, const uint8_t *data, uint32_t caplen, uint32_t len)
{
	uint64_t id[PRI_HEADER_LAYOUT_WORDS];
	struct pri_header_layout *kind = NULL;
	size_t net = 14;
	uint16_t type;

	if (caplen < 18)
		return NULL;
	id[0] = pr_get_le64(data);
	id[1] = pr_get_le64(data + 6) >> 16;
	type = __builtin_bswap16((uint16_t)(id[1] >> 32));
	if (type == PRI_PLAIN_TAG) {
		id[1] |= (uint64_t)(pr_get_be16(data + 14) & 0xfff) << 48;
		type = pr_get_be16(data + 16);
		net = 18;
	}
	if (type == PRI_PLAIN_IP)
		kind = pri_header_layouts_plain_ip(k, id, data + net, caplen - net);
	else if (type == PRI_PLAIN_IP6)
		kind = pri_header_layouts_plain_ip6(k, id, data + net, caplen - net);
	return kind ? pri_header_layout_count(kind, len) : NULL;
}

#endif
