/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/wire/source.h"

/*
 * What tells flows apart: both ends, protocol, VLAN and link. Both directions have the same
 * key. Side 0 is the end with the smaller (address, port), as in Community ID. Bytes that
 * are not used are zero, so keys are compared and hashed as bytes.
 * ICMP has its type as the sender's port, and as the other's the type that answers it. A
 * type that nothing answers has its code there, and side 0 is the sender (one_way).
 */
#define PRI_FLOW_UNTAGGED 0xffff
struct pri_flow_key {
	uint8_t address[2][16];
	uint16_t port[2];
	uint16_t link, vlan; /* vlan: of the outermost tag, or PRI_FLOW_UNTAGGED */
	uint8_t protocol, address_len; /* 4 or 16 */
	uint8_t one_way;
	uint8_t unused;
};
_Static_assert(sizeof(struct pri_flow_key) == 44, "no padding: it is hashed as bytes");

enum pri_flow_flag {
	PRI_FLOW_FIN = 1,
	PRI_FLOW_SYN = 2,
	PRI_FLOW_RST = 4,
	PRI_FLOW_ACK = 16,
};

/* What a flow needs of one packet. */
struct pri_flow_packet {
	struct pri_flow_key key;
	uint8_t side; /* of the sender */
	uint8_t flags; /* of TCP, as in the packet */
	uint8_t icmp_code;
	uint32_t bytes, payload; /* from the IP header on; behind the transport header */
};

/*
 * False: not IP, or its addresses were not captured. Later fragments have ports 0. Lengths
 * are those of the IP header; where it has none (offload by the host), those of the packet.
 * Reads each byte once.
 */
bool pri_flow_packet_parse(const struct pr_packet *packet, struct pri_flow_packet *out);

/*
 * The share (1 to shares) that the address pair of a key belongs to, whatever its ports. Of the pairs only 1 in `shares`
 * changes its share when there is one more (rendezvous hashing).
 */
#define PRI_FLOW_SHARES_MAX 1000
uint32_t pri_flow_share(const struct pri_flow_key *key, uint32_t shares);

/*
 * Community ID version 1 of a key (github.com/corelight/community-id-spec), as text. Two
 * keys that differ in link or VLAN have the same.
 */
#define PRI_COMMUNITY_ID_MAX 32
void pri_community_id(
	const struct pri_flow_key *key, uint16_t seed, char out[PRI_COMMUNITY_ID_MAX]);
