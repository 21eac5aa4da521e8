/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "proto/base/field_table.h"
#include "proto/wire/source.h"

/*
 * What a cutoff kept from the switch: the packets of one connection, of one direction and one second, as their sums. Such
 * a sum travels as a packet of a link of its own (PR_LINK_BEYOND), with the headers of its connection, so filters
 * find it: it is numbered, distributed, matched, stored and indexed as every packet is, and a lost one is missed as every
 * packet is. Its time is the last ns of its second. Ethernet; little-endian behind the headers, at PR_BEYOND_AT:
 *
 *    0 magic u32 "CUTB"   4 version u8 (1, if encapsulated 2)   5 class: length u8, name
 *   then connection u64, packets u64, bytes u64, first i64, last i64
 */

/* Both ends as headers have them: sender first. Bytes that are not used are zero. */
struct pr_connection {
	uint8_t address[2][16];
	uint16_t port[2]; /* of TCP, UDP, SCTP, ...; else 0 */
	uint16_t vlan; /* of the outermost tag, or PR_UNTAGGED */
	uint8_t protocol, address_len; /* 4 or 16 */
};
#define PR_UNTAGGED 0xffff

/*
 * Ethernet, IP and the ports, of a packet of the connection: into a frame of zeros of at least PR_HEADERS_MAX bytes.
 * Returns where the transport header begins.
 */
enum { PR_HEADERS_MAX = 80 };
size_t pr_headers_put(const struct pr_connection *c, uint8_t *frame);

struct pr_beyond {
	struct pr_connection connection;
	uint64_t number; /* of the connection, in this epoch */
	uint64_t packets, bytes; /* bytes on the link */
	int64_t first, last; /* times of the packets */
	char name[PR_NAME_MAX + 1]; /* of the class */
	bool encapsulated; /* IP is behind more than one tag, which the headers have: other tags, labels, PPPoE */
};

enum { PR_BEYOND_AT = PR_HEADERS_MAX, PR_BEYOND_MAX = PR_BEYOND_AT + 6 + PR_NAME_MAX + 40 };
/* The last ns of the second that t lies in: sums of packets up to t have this time at most. */
static inline int64_t
pr_beyond_last(int64_t t)
{
	int64_t into = t % PR_NS_PER_S;

	return pr_time_minus(t, (into < 0 ? into + PR_NS_PER_S : into) - PR_NS_PER_S + 1);
}

/* Returns the length of the frame, of PR_BEYOND_MAX bytes at most. */
size_t pr_beyond_store(const struct pr_beyond *b, uint8_t frame[PR_BEYOND_MAX]);
/* All but the connection. False: it is none, or damaged. */
bool pr_beyond_load(const struct pr_packet *p, struct pr_beyond *out);
