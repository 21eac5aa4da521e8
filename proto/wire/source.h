/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "proto/base/clock.h"

/* Link types as in pcap files (https://www.tcpdump.org/linktypes.html). */
enum {
	PR_LINKTYPE_NULL = 0,
	PR_LINKTYPE_ETHERNET = 1,
	PR_LINKTYPE_RAW = 101,
	PR_LINKTYPE_LOOP = 108,
	PR_LINKTYPE_SLL = 113,
	PR_LINKTYPE_IP4 = 228,
	PR_LINKTYPE_IP6 = 229,
	PR_LINKTYPE_SLL2 = 276,
};

/*
 * One packet, wherever it comes from. (epoch, link, seq) names it for ever; packets are ordered by
 * (otime, link, epoch, seq) everywhere. Times are ns since 1970 UTC.
 */
enum pr_packet_flag {
	PR_PACKET_SECOND = 1 << 0, /* second copy */
	PR_PACKET_CUT = 1 << 1, /* truncated by the dispatcher, not by the snap length */
	PR_PACKET_STRAY = 1 << 2, /* never matched: node's own clock, MACs unknown */
	/* One of several identical frames: its timestamp may be that of another. */
	PR_PACKET_MATCH_UNSURE = 1 << 3,
	/* in answers only, of packets that the filter does not match (relation.h) */
	PR_PACKET_FRAGMENT_OF = 1 << 4,
	PR_PACKET_ERROR_ABOUT = 1 << 5,
	PR_PACKET_COPY_OF = 1 << 6,
	/* in answers only: no packet, but sums of packets of a slice (indexer/flows/flow_parts.h) */
	PR_PACKET_PARTS = 1 << 7,
	/* a copy of a shorter degree, as far as its class keeps it longer (PR_CLASS_MAX); of several, the longest counts */
	PR_PACKET_FROM_CUT = 1 << 8,
	PR_PACKET_FROM_HEADERS = 1 << 9,
};
#define PR_PACKET_DEGREES (PR_PACKET_FROM_CUT | PR_PACKET_FROM_HEADERS)

#define PR_PACKET_RELATED                                                                  \
	(PR_PACKET_FRAGMENT_OF | PR_PACKET_ERROR_ABOUT | PR_PACKET_COPY_OF)

struct pr_packet {
	int64_t time, otime;
	uint64_t epoch, seq;
	uint32_t caplen, len;
	uint16_t link, linktype;
	uint16_t flags;
	uint8_t class; /* where a logger stores it; else 0 */
	const uint8_t *data; /* valid until the source's next call */
};

/*
 * The link of the rack's test of itself: the dispatcher makes its packets, the merger asks for them.
 * Answers and sums have them only if the link is named.
 */
#define PR_LINK_CANARY 0xfffe
#define PR_LINK_CANARY_NAME "canary"

/*
 * Link PR_LINK_BEYOND + N has sums of what a cutoff kept back of link N (beyond.h). It has N's name; answers that ask for N
 * have it, too, and take the sums out.
 */
enum { PR_LINK_BEYOND = 0xd000, PR_LINK_BEYOND_MAX = 0x1000 };

static inline bool
pr_link_is_beyond(uint32_t link)
{
	return link - PR_LINK_BEYOND < PR_LINK_BEYOND_MAX;
}

/* The link whose packets it is about. */
static inline uint16_t
pr_link_base(uint16_t link)
{
	return pr_link_is_beyond(link) ? (uint16_t)(link - PR_LINK_BEYOND) : link;
}

/* No link of users: their sums do not have it. */
static inline bool
pr_link_is_internal(uint32_t link)
{
	return link == PR_LINK_CANARY || pr_link_is_beyond(link);
}

/*
 * Packets of link N that were copied from other nodes (packrack node rebuild) are older than what is stored beside
 * them, so they have a stream of their own, packets.M with M = PR_STREAM_COPIES + N. Links of higher numbers have none.
 */
enum { PR_STREAM_COPIES = 0xe000, PR_STREAM_COPIES_MAX = 0x1000 };

/*
 * Packets of a class C of link N have a stream of their own, so that they can be kept longer or shorter: packets.M with M =
 * PR_STREAM_CLASSES + 64 * C + N. Links of higher numbers have none.
 */
enum { PR_STREAM_CLASSES = 0xc000, PR_STREAM_CLASS_LINKS = 64 };

static inline uint16_t
pr_stream_of_class(uint16_t link, unsigned class)
{
	return class && link < PR_STREAM_CLASS_LINKS
		       ? (uint16_t)(PR_STREAM_CLASSES + PR_STREAM_CLASS_LINKS * class +
				    link)
		       : link;
}

/* The class of stream packets.STREAM; 0: none. */
static inline unsigned
pr_stream_class(uint16_t stream)
{
	return stream >= PR_STREAM_CLASSES && stream < PR_LINK_BEYOND
		       ? (stream - PR_STREAM_CLASSES) / PR_STREAM_CLASS_LINKS
		       : 0;
}

/* The link of stream packets.STREAM. */
static inline uint16_t
pr_stream_link(uint16_t stream)
{
	uint16_t link = (uint16_t)(stream - PR_STREAM_COPIES);

	if (pr_stream_class(stream))
		return stream % PR_STREAM_CLASS_LINKS;
	return link < PR_STREAM_COPIES_MAX ? link : stream;
}

/* <0, 0, >0 in the total order. */
int pr_packet_compare(const struct pr_packet *a, const struct pr_packet *b);

/*
 * The iterator of everything that can be queried: a sorted run of segments, a node, a file, a merge of others.
 * One thread. Embed struct pr_source as the first member of your own struct.
 */
enum { PR_SOURCE_ERROR = -1, PR_SOURCE_END = 0, PR_SOURCE_PACKET = 1, PR_SOURCE_WAIT = 2 };

struct pr_source {
	/* PR_SOURCE_PACKET and *out; END; WAIT (ask again later, never from files); ERROR and err. */
	int (*next)(struct pr_source *source, struct pr_packet *out, struct pr_error *err);
	/* frees source itself; NULL: its owner does */
	void (*destroy)(struct pr_source *source);
};

static inline int
pr_source_next(struct pr_source *s, struct pr_packet *out, struct pr_error *err)
{
	return s->next(s, out, err);
}

/* NULL-safe; nulls the pointer. */
void pr_source_destroy(struct pr_source **source);

/*
 * k-way merge in the total order; itself a source. Owns its inputs, and destroys each at its end.
 * It returns WAIT while any live input returns WAIT, as that input's next packet may come before all others.
 * Packets that are the same (epoch, link, seq) are given once, the primary copy before the second;
 * both have the stamp of the same log, so they stand next to each other. Strays have no such name
 * (each node counts its own) and are all given, as parts of flows are. An input may be added while merging, also after an
 * END, if all its packets come at or after those already given. An input's ERROR is the merge's,
 * now and at each later call. *out is valid until the merge's next call.
 *
 * pr_merge_add returns -1 without memory; input is then destroyed as well.
 */
struct pr_source *pr_merge_create(struct pr_error *err);
int pr_merge_add(struct pr_source *merge, struct pr_source *input, struct pr_error *err);

/*
 * For callers that read from the inputs themselves: a packet's key before its bytes, or
 * many packets at once. The inputs must never return WAIT or ERROR. pr_merge_top returns
 * the input whose packet is next, or NULL at the end. After the caller has read from that
 * input, pr_merge_pass makes the merge ask it for its next packet. given: the last packet
 * that was taken from it; NULL: none. The two calls below are about the input that
 * pr_merge_top returned.
 */
struct pr_source *pr_merge_top(struct pr_source *merge);
void pr_merge_pass(struct pr_source *merge, const struct pr_packet *given);
/* True if the next packet is another copy of the last one given. */
bool pr_merge_repeats(const struct pr_source *merge);
/* The otime of the packet that comes next from any other input; INT64_MAX: there is none. */
int64_t pr_merge_second_otime(const struct pr_source *merge);
