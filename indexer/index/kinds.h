/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_KINDS_H
#define PRI_INDEXER_KINDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "indexer/index/packet_fields.h"

/*
 * The packets of a segment, put together where they are equal in all that keys are made of, so that keys are
 * made once for each kind. Most are plain (one tag at most, IPv4 without options or IPv6, TCP, UDP or
 * SCTP; in IPv4 other protocols, too, but ICMP): what is known of a plain one are some words of its header, without looking at its fields. Memory is
 * kept from segment to segment. One thread.
 */
#define PRI_HEADER_LAYOUT_WORDS 4
#define PRI_HEADER_LAYOUT_MORE 3

struct pri_header_layout {
	/*
	 * Bytes as they lie in the packet: 0 the destination's MAC and 2 of the source's; 1 its other 4, the
	 * type, the tag; 2 version, protocol, ports or IPv4's source; 3 IPv4's destination and ports, or the first
	 * of IPv6's addresses, whose other words are in more. Of one that is not plain the version is 0, and
	 * word 0 its place in odd.
	 */
	uint64_t id[PRI_HEADER_LAYOUT_WORDS];
	uint64_t bytes;
	uint32_t packets;
	uint8_t unused[20]; /* a line of the cache */
};

struct pri_header_layouts {
	struct pri_header_layout *items;
	uint64_t (*more)
		[PRI_HEADER_LAYOUT_MORE]; /* of the item of that place, where it is IPv6 */
	size_t count, room;
	uint32_t *slots; /* 1 + index in items; 0 free */
	size_t slot_room, mask;
	struct pri_packet_fields *odd;
	size_t odd_count;
	uint64_t secret[4]; /* so that nobody can send packets that fill one slot */
};

/* Zeroed is ready. */
void pri_header_layouts_free(struct pri_header_layouts *kinds);
/* Forgets all; room for so many packets, all different: then nothing can fail on the way. -1: no memory. */
int pri_header_layouts_begin(struct pri_header_layouts *kinds, size_t packets);
/*
 * The kind of a packet, with that packet counted; its packets are 1 when it is new. This one is not plain, and does
 * not change; of plain ones see kinds_plain.h.
 */
struct pri_header_layout *pri_header_layouts_add_other(struct pri_header_layouts *kinds,
	const struct pri_linktype_layout *layout, const uint8_t *data, uint32_t caplen,
	uint32_t len);

/* Its IP version, 4 or 6; 0: not plain. */
static inline unsigned
pri_header_layout_version(const struct pri_header_layout *kind)
{
	return kind->id[2] & 0xff;
}

static inline bool
pri_header_layout_has_ports(uint8_t protocol)
{
	return protocol == 6 || protocol == 17 || protocol == 132;
}

/* Of one that is not plain. */
static inline const struct pri_packet_fields *
pri_header_layout_fields(
	const struct pri_header_layouts *kinds, const struct pri_header_layout *kind)
{
	return &kinds->odd[kind->id[0]];
}

#endif
