/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "indexer/index/packet_fields.h"
#include "proto/base/options.h"
#include "proto/base/cursor.h"

/*
 * What an index knows of a packet. Keys are taken at the offsets at which compiled pcap
 * filters (BPF) load, even if a strict decoder would reject the headers. So if a filter
 * accepts a packet because it found value v at such a place, the packet has the key. This
 * is the promise between the planner (filter -> keys) and the Bloom filters (keys ->
 * segments): there are no false negatives.
 *
 * Where things lie (byte offsets from the start of the captured bytes; each is a key only if all its
 * bytes are captured, since a load beyond them rejects the packet):
 * - type: layout.type_at (Ethernet: 12). On Ethernet, while it is a tag (0x8100, 0x88a8, 0x9100) the
 *   next type lies 4 further, up to PRI_KEYS_DEPTH tags and labels in all. Each type passed is an
 *   ETHERTYPE key, 802.3 lengths as well; each tag's lower 12 bits a VLAN key.
 * - net: layout.net_at (Ethernet: 14) + 4 a tag. After type 0x8847: + 4 a label, each an MPLS key
 *   (20 bits), up to the one with the bottom bit; then the nibble there says IPv4 (4) or IPv6 (6). After
 *   0x8864 (PPPoE): the PPP number at net + 6 (0x21 IPv4, 0x57 IPv6, as on PPP; other values as they are, an
 *   ETHERTYPE key too), net is 8 further. So found, IPv4 and IPv6 are ETHERTYPE keys 0x0800 and 0x86dd.
 * - 0x0800: PROTO at net + 9, SRC and DST at net + 12, + 16 (4 bytes each); FRAGMENT if the 16 bits
 *   at net + 6 have any of 0x1fff; else, with x = 4 * (low nibble at net): for TCP, UDP and SCTP (6, 17,
 *   132) SPORT and DPORT at net + x, + 2; for ICMP (1) its type, ICMP, at net + x.
 * - 0x0806, 0x8035 (ARP, RARP): SRC and DST at net + 14, + 24, whatever lengths it states.
 * - 0x86dd: PROTO at net + 6, and if that is 44 also at net + 40; SRC and DST at net + 8, + 24 (16 bytes);
 *   by the PROTO at net + 6 only: SPORT and DPORT at net + 40, + 42, ICMP6 type (58) at net + 40.
 * Tags, labels, PPPoE and MACs are looked for only where layout.ether is set. What lies deeper (tunnels,
 * GRE, Geneve, more than PRI_KEYS_DEPTH tags and labels) has no keys: filters on it "may match".
 *
 * If the snap length cuts an IPv6 address, the NET keys of its whole first words are there.
 *
 * A packet has at most one of each of SRC, DST, SPORT, DPORT, MAC_SRC, MAC_DST, so SRC = a
 * and DST = b together also mean the composite PAIR of a, b. An address and a well-known
 * port of one packet, on whichever sides, are the composite SERVICE. It is few keys, and
 * excludes segments that hold address and port in different packets only. The whole 5-tuple
 * is not a key: it would exclude no more segments than PAIR and the client's port.
 */
enum pri_key_kind {
	PRI_KEY_NONE = 0,
	PRI_KEY_ETHERTYPE = 1, /* 2 bytes, big-endian as all numbers here */
	PRI_KEY_VLAN = 2, /* 2 */
	PRI_KEY_MPLS = 3, /* 4: the label */
	PRI_KEY_MAC_SRC = 4, /* 6; Ethernet at 6 */
	PRI_KEY_MAC_DST = 5, /* 6; Ethernet at 0 */
	PRI_KEY_SRC = 6, /* 4 or 16 */
	PRI_KEY_DST = 7, /* 4 or 16 */
	/* prefix of SRC or of DST: /8 /16 /24 are 1, 2, 3 bytes, /32 /48 /64 are 4, 6, 8 */
	PRI_KEY_NET = 8,
	PRI_KEY_PROTO = 9, /* 1 */
	/* 2; in level 1 it has 3: the last one is 6 for TCP, 17 for other protocols */
	PRI_KEY_SPORT = 10,
	PRI_KEY_DPORT = 11, /* as SPORT */
	PRI_KEY_PAIR = 12, /* SRC and DST, the smaller first */
	/* protocol, both (address, port), the smaller pair first; for grouping, in no index */
	PRI_KEY_FLOW = 13,
	PRI_KEY_FRAGMENT = 14, /* 0: a later fragment of IPv4 */
	PRI_KEY_ICMP = 15, /* 1: type */
	PRI_KEY_ICMP6 = 16, /* 1: type */
	/*
	 * Planners never ask for these: one key for either side halves what a Bloom filter
	 * must hold.
	 */
	PRI_KEY_ADDRESS = 17,
	PRI_KEY_PORT = 18,
	PRI_KEY_MAC = 19,
	PRI_KEY_COMPOSITE = 20, /* as configured, see below */
	PRI_KEY_PARTS = 21, /* never in an index: what composites can be made of */
	PRI_KEY_SERVICE = 22, /* SRC or DST, with SPORT or DPORT if that is well known */
	/* 23 is reserved: keys of addresses and other ports, in records of level 1 up to October 2026 */
};
#define PRI_KEY_KINDS 23

#define PRI_KEY_MAX 42 /* PARTS over IPv6 */

struct pri_key {
	uint8_t kind, len;
	uint8_t bytes[PRI_KEY_MAX];
};

static inline bool
pri_key_equal(const struct pri_key *a, const struct pri_key *b)
{
	return a->kind == b->kind && a->len == b->len &&
	       !memcmp(a->bytes, b->bytes, a->len);
}

/* Makes keys; numbers in as many bytes as their kind has. */
struct pri_key pri_key_number(enum pri_key_kind kind, uint32_t value);
/* Addresses, MACs, prefixes. len above PRI_KEY_MAX: a key of kind NONE, which nothing has. */
struct pri_key pri_key_bytes(enum pri_key_kind kind, const void *bytes, size_t len);
/* Of addresses of the same length, 4 or 16, as those below. */
struct pri_key pri_key_pair(const uint8_t *a, const uint8_t *b, size_t len);
struct pri_key pri_key_flow(uint8_t protocol, const uint8_t *src, const uint8_t *dst,
	size_t len, uint16_t sport, uint16_t dport);
/*
 * True for ports below 1024 except 53: almost every address uses DNS, so its keys would be
 * many and exclude nothing.
 */
static inline bool
pri_port_is_service(uint16_t port)
{
	return port < 1024 && port != 53;
}
struct pri_key pri_key_service(const uint8_t *address, size_t len, uint16_t port);
/* SPORT and DPORT, of one of the protocols that have ports. */
struct pri_key pri_key_port_of(enum pri_key_kind kind, uint16_t port, uint8_t protocol);
/*
 * SRC and DST -> ADDRESS, SPORT and DPORT -> PORT, MAC_SRC and MAC_DST -> MAC, others as they are.
 */
struct pri_key pri_key_either(const struct pri_key *key);
/* The same on all machines and in all versions: volumes contain it. */
uint64_t pri_key_hash(const struct pri_key *key);
/* The hash by which level 1 stores the key (pri_signature_hash). */
uint64_t pri_key_signature(const struct pri_key *key);
/*
 * The hashes by which level 1 is asked for a key: it is there if one of them is. All are in
 * one page. A port has two, because it may be of any protocol.
 */
#define PRI_SIGNATURES_MAX 2
size_t pri_key_signatures(const struct pri_key *key, uint64_t out[PRI_SIGNATURES_MAX]);

/* Numbers of a packet of which an index keeps the least and the greatest, or intervals. */
enum pri_number {
	PRI_NUMBER_TIME = 0, /* true time, ns */
	PRI_NUMBER_LENGTH = 1, /* original length */
	PRI_NUMBER_SPORT = 2,
	PRI_NUMBER_DPORT = 3,
	/* IPv4 and ARP addresses as numbers: for masks that are no prefix of NET */
	PRI_NUMBER_SRC4 = 4,
	PRI_NUMBER_DST4 = 5,
};

/* Most keys of one packet, without ADDRESS, PORT and MAC. */
#define PRI_KEYS_MAX (4 * PRI_KEYS_DEPTH + 24)
size_t pri_keys_of_fields(
	const struct pri_packet_fields *fields, struct pri_key out[PRI_KEYS_MAX]);

/*
 * Composite keys as configured: "src+dport" is a key of a packet's source address together with its destination
 * port. A segment that has both, but never in one packet, is then skipped. A composite is known by the mask of its
 * parts. Which composites exist differs from record to record of level 1 (its head has the masks); level 2 has
 * none. The planner emits one key of kind PARTS with all parts that a filter fixes; for each record those of its
 * composites are looked up whose parts are all fixed.
 */
enum pri_part {
	PRI_PART_SRC = 1 << 0,
	PRI_PART_DST = 1 << 1,
	PRI_PART_SPORT = 1 << 2,
	PRI_PART_DPORT = 1 << 3,
	PRI_PART_PROTO = 1 << 4,
	PRI_PART_VLAN = 1 << 5,
};
enum { PRI_PARTS = 6, PRI_COMPOSITES_MAX = 4 };

/* Masks; 0: no more. As bytes in records of level 1. */
struct pri_composites {
	uint8_t masks[PRI_COMPOSITES_MAX];
};

/*
 * Parses values of an option, such as "src+dport": parts in any order, each once, two at
 * least. At most PRI_COMPOSITES_MAX of them, separated by commas or in several items.
 */
int pri_composites_parse(const struct pr_string_list *list, struct pri_composites *out,
	struct pr_error *err);

/* A key of kind PARTS of those keys that are there (parts[i] is for bit i; or NULL). */
struct pri_key pri_key_parts(const struct pri_key *const parts[PRI_PARTS]);
/* The composite of these parts; false: the key of kind PARTS has not all of them. */
bool pri_key_composite(const struct pri_key *parts, uint8_t mask, struct pri_key *out);

#define PRI_COMPOSITE_KEYS (2 * PRI_KEYS_DEPTH) /* of one packet: protocols times tags */
size_t pri_composite_keys(const struct pri_packet_fields *fields, uint8_t mask,
	struct pri_key out[PRI_COMPOSITE_KEYS]);

/* In what order keys are looked up: rarest first, because each look-up costs a read. */
enum pri_key_rank {
	PRI_RANK_PAIRS,
	PRI_RANK_PARTS, /* addresses with ports */
	PRI_RANK_ADDRESSES,
	PRI_RANK_PORTS, /* prefixes, rarer types */
	PRI_RANK_TYPES, /* types that almost all traffic has */
	PRI_RANKS,
};

static inline enum pri_key_rank
pri_key_rank(const struct pri_key *key)
{
	uint8_t kind = key->kind, first = key->bytes[0];
	uint16_t type = kind == PRI_KEY_ETHERTYPE ? pr_get_be16(key->bytes) : 0;

	if (kind == PRI_KEY_PAIR)
		return PRI_RANK_PAIRS;
	if (kind == PRI_KEY_SERVICE || kind == PRI_KEY_PARTS)
		return PRI_RANK_PARTS;
	if (kind == PRI_KEY_SRC || kind == PRI_KEY_DST || kind == PRI_KEY_MAC_SRC ||
		kind == PRI_KEY_MAC_DST)
		return PRI_RANK_ADDRESSES;
	if (type == PR_ETHERTYPE_IP4 || type == PR_ETHERTYPE_IP6 ||
		type == PR_ETHERTYPE_ARP || type == PR_ETHERTYPE_RARP ||
		(kind == PRI_KEY_PROTO && (first == 6 || first == 17)))
		return PRI_RANK_TYPES;
	return PRI_RANK_PORTS;
}
