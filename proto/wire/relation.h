/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "proto/wire/source.h"

/*
 * Packets that are related to matching packets although no filter matches them: further fragments of them,
 * ICMP and ICMPv6 errors that quote them, and the same packets within an encapsulation (VLAN, MPLS, PPPoE,
 * GRE, IP in IP, 6in4, VXLAN: what decode.h opens). There are two passes. The first collects keys of the
 * matching packets. In the second, a packet with such a key within PR_RELATION_WINDOW is related; the window
 * is Linux's time-out for fragments.
 *
 * A fragment is known by addresses and identification (and protocol in IPv4); a packet by addresses,
 * protocol, IPv4 identification, and the first bytes of its transport header that no hop changes: ports
 * and TCP's sequence number, ports and UDP's length, ICMP's type, code and identifiers. Of a packet in a
 * tunnel the outermost and innermost IP headers count.
 *
 * Keys are hashes of 64 bits: about one unrelated packet in 10^13 is taken for a related one.
 * No I/O; one thread. A finished list may be read by any thread.
 */
#define PR_RELATION_WINDOW INT64_C(30000000000)
enum { PR_RELATION_KEYS_MAX = 150000, PR_RELATION_SPANS_MAX = 4096 };

/* A key, and when the packets that have it were seen. */
struct pr_relation_key {
	uint64_t key;
	int64_t first, last;
};

/* When there may be related packets at all. */
struct pr_relation_span {
	int64_t first, last;
};

struct pr_relations {
	struct pr_relation_key *keys; /* finished: by key, then by first */
	size_t count;
	struct pr_relation_span *spans; /* finished: in order, apart from each other */
	size_t span_count;
	uint32_t *slots; /* 1 + index of the newest of a key; while packets are noted */
};

/* Zeroed is empty and ready. */
void pr_relations_free(struct pr_relations *r);
/* Notes a packet. -1: no memory, or more than PR_RELATION_KEYS_MAX. */
int pr_relations_note(
	struct pr_relations *r, const struct pr_packet *p, struct pr_error *err);
/* Puts keys and spans in order; before any of the following. */
void pr_relations_finish(struct pr_relations *r);
/* Are keys and spans as pr_relations_finish leaves them? For lists that come from elsewhere. */
bool pr_relations_valid(const struct pr_relations *r);

/* True if packets with times in first..last can be related. */
bool pr_relations_overlap(const struct pr_relations *r, int64_t first, int64_t last);
/* PR_PACKET_FRAGMENT_OF, PR_PACKET_ERROR_ABOUT or PR_PACKET_COPY_OF; 0: it is not related. */
uint16_t pr_relations_test(const struct pr_relations *r, const struct pr_packet *p);

/* "a fragment of a matching packet", ... of a packet's flags; NULL: none of these. */
const char *pr_relation_text(uint16_t flags);
