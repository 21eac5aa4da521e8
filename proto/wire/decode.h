/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* IP protocols, and the kinds of IPv6's extension headers. */
enum {
	PR_IP_HOP_BY_HOP = 0,
	PR_IP_ICMP = 1,
	PR_IP_IN_IP = 4,
	PR_IP_TCP = 6,
	PR_IP_UDP = 17,
	PR_IP_DCCP = 33,
	PR_IP_IN_IP6 = 41,
	PR_IP_ROUTING = 43,
	PR_IP_FRAGMENT = 44,
	PR_IP_GRE = 47,
	PR_IP_AH = 51,
	PR_IP_ICMP6 = 58,
	PR_IP_NONE = 59,
	PR_IP_DESTINATION = 60,
	PR_IP_SCTP = 132,
	PR_IP_MOBILITY = 135,
	PR_IP_UDPLITE = 136,
};

/* Ethertypes; below 0x600 it is the length of an 802.3 frame. */
enum {
	PR_ETHERTYPE_LENGTHS = 0x0600,
	PR_ETHERTYPE_IP4 = 0x0800,
	PR_ETHERTYPE_ARP = 0x0806,
	PR_ETHERTYPE_BRIDGED = 0x6558, /* of GRE: a frame */
	PR_ETHERTYPE_RARP = 0x8035,
	PR_ETHERTYPE_VLAN = 0x8100,
	PR_ETHERTYPE_IP6 = 0x86dd,
	PR_ETHERTYPE_MPLS = 0x8847, /* unicast */
	PR_ETHERTYPE_MPLS_UPSTREAM = 0x8848,
	PR_ETHERTYPE_PPPOE = 0x8864, /* sessions */
	PR_ETHERTYPE_STAG = 0x88a8,
	PR_ETHERTYPE_OLD_STAG = 0x9100,
};

/*
 * Packet header decoding, for spreading by flow, and later for flows and classes: Ethernet,
 * VLAN and QinQ, MPLS, IPv4 and IPv6 with extension headers and fragments, TCP, UDP, ICMP,
 * SCTP, and the inner headers of GRE, VXLAN, IP in IP. Bounded depth; never reads past
 * caplen; truncated or malformed headers are noted in flags, and the rest stays zero. outer
 * and inner each have flags for their own headers.
 *
 * Opened: VLAN tags 0x8100, 0x88a8, 0x9100; MPLS to what looks like IP; PPPoE sessions with
 * IP; IPv6 hop-by-hop, routing, fragment, destination, mobility and authentication headers;
 * ports of TCP, UDP, UDP-Lite, DCCP, SCTP; IP in IP, 6in4 and 4in6; GRE version 0 with an
 * Ethertype, Ethernet (NVGRE) or ERSPAN I, II, III inside; VXLAN by its UDP port 4789. In a
 * fragmented packet, only the first fragment's tunnel is opened. An IP packet ends where
 * its length says: headers beyond that, in the padding, are MALFORMED, not read. An IP
 * length of 0 (segmentation offload) means all that was captured.
 */
enum {
	PR_DECODE_IP4 = 1 << 0,
	PR_DECODE_IP6 = 1 << 1,
	PR_DECODE_PORTS = 1 << 2, /* src_port and dst_port are set */
	PR_DECODE_FRAGMENT = 1 << 3, /* any fragment */
	PR_DECODE_FRAGMENT_LATER = 1 << 4, /* not the first: no ports */
	PR_DECODE_TRUNCATED = 1 << 5, /* the captured bytes end within a header */
	PR_DECODE_MALFORMED = 1 << 6,
	PR_DECODE_TUNNEL = 1 << 7, /* inner is set */
};

struct pr_headers {
	uint16_t flags;
	uint16_t ethertype; /* behind tags; 802.3 length frames: 0 */
	uint8_t vlan_count;
	uint16_t vlan[4]; /* ids, outermost first */
	uint8_t mpls_count;
	uint32_t mpls[4]; /* labels */
	uint8_t protocol; /* IP protocol of the payload, extension headers passed */
	uint8_t tcp_flags;
	uint8_t icmp_type, icmp_code;
	uint8_t ttl;
	uint16_t src_port, dst_port;
	uint32_t fragment_id;
	uint8_t src[16], dst[16]; /* IPv4 in the first four bytes */
	/* from the start of the frame; 0 unknown */
	size_t ip_offset, l4_offset, payload_offset;
	uint32_t ip_length; /* from the IP header; for IPv6 plus its 40 bytes */
};

struct pr_decoded {
	struct pr_headers outer;
	struct pr_headers inner; /* when outer.flags & PR_DECODE_TUNNEL: innermost */
	uint8_t tunnels; /* how many layers were opened (at most 4) */
};

/*
 * linktype as in pcap files; others than Ethernet, raw IP, NULL, LOOP, SLL, SLL2 give flags
 * 0. On a raw IP link ip_offset 0 is a valid offset. Any thread.
 */
void pr_decode(
	uint16_t linktype, const uint8_t *data, size_t caplen, struct pr_decoded *out);

/*
 * True: a packet with headers h is an ICMP or ICMPv6 error, and out has the headers of the packet that it quotes
 * (offsets are from data + h->payload_offset). data: the frame of h.
 */
bool pr_decode_quoted(const struct pr_headers *h, const uint8_t *data, size_t caplen,
	struct pr_decoded *out);

/*
 * Symmetric 5-tuple hash of the outer headers: both directions of a connection are alike, and so are
 * all fragments of a packet and its first (they hash by their addresses alone). Packets without IP hash
 * by the MAC pair and Ethertype, below 14 bytes by all their bytes. The same on every machine.
 */
uint64_t pr_flow_hash(
	const struct pr_decoded *d, const uint8_t *data, size_t caplen, uint64_t seed);
