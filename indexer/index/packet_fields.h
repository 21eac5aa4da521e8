/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "proto/wire/decode.h"

/*
 * Finds the fields of a packet that keys are made of. Their offsets are those of
 * index_key.h, where compiled pcap filters load. No I/O.
 */
#define PRI_KEYS_DEPTH 8 /* tags and labels that are passed */

static inline bool
pri_is_vlan_tag(uint32_t ethertype)
{
	return ethertype == PR_ETHERTYPE_VLAN || ethertype == PR_ETHERTYPE_STAG ||
	       ethertype == PR_ETHERTYPE_OLD_STAG;
}

/* TCP, UDP, SCTP */
static inline bool
pri_has_ports(uint8_t protocol)
{
	return protocol == PR_IP_TCP || protocol == PR_IP_UDP || protocol == PR_IP_SCTP;
}

/* How a link type gives the type of its network header. */
enum pri_type_form {
	PRI_TYPE_ETHER, /* 2 bytes, an Ethertype; tags may follow only where ether is set */
	PRI_TYPE_PPP, /* 2 bytes, a PPP number */
	PRI_TYPE_FAMILY, /* 4 bytes in either byte order: 2 IPv4; 10, 24, 28, 30 IPv6, as libpcap tests */
	/* no type field: the high nibble of the network header's first byte */
	PRI_TYPE_NIBBLE,
};
struct pri_linktype_layout {
	uint16_t linktype; /* as in pcap files */
	uint8_t form;
	uint8_t type_at, net_at;
	bool ether; /* MACs at 0 and 6, tags */
};
/*
 * NULL: packets of this link type have no keys, so a plan for them is always "may match".
 */
const struct pri_linktype_layout *pri_linktype_layout_find(uint16_t linktype);
/*
 * Converts a value of the type field to an Ethertype. ETHER: the value itself; others:
 * 0x0800, 0x86dd or 0.
 */
uint16_t pri_linktype_layout_ethertype(
	const struct pri_linktype_layout *layout, uint32_t value);

/*
 * All fields that keys are made of; packets with equal fields have equal keys. Unused bytes
 * are zero, so structs can be compared and hashed as bytes.
 */
#define PRI_FIELD_SRC 1u
#define PRI_FIELD_DST 2u
#define PRI_FIELD_SPORT 4u
#define PRI_FIELD_DPORT 8u
#define PRI_FIELD_FRAGMENT 16u
#define PRI_FIELD_ICMP 32u
#define PRI_FIELD_ICMP6 64u
#define PRI_FIELD_MAC_SRC 128u
#define PRI_FIELD_MAC_DST 256u
struct pri_packet_fields {
	uint8_t macs[12]; /* destination, source */
	uint16_t have; /* PRI_FIELD_... */
	/* bytes of an address; captured bytes of each */
	uint8_t address_len, src_len, dst_len;
	uint8_t proto_count, type_count, tag_count, label_count;
	uint8_t icmp;
	uint8_t protos[2];
	uint16_t sport, dport;
	uint8_t src[16], dst[16];
	uint16_t types[PRI_KEYS_DEPTH + 3];
	uint16_t tags[PRI_KEYS_DEPTH];
	uint32_t labels[PRI_KEYS_DEPTH];
};

/*
 * At most this many of a packet's first bytes are read: 20 of a link header, 4 of each tag
 * and label, 8 of PPPoE, and 60 of the network header with 4 after it.
 */
#define PRI_FIELDS_REACH 192
_Static_assert(
	20 + 8 * PRI_KEYS_DEPTH + 8 + 60 + 4 <= PRI_FIELDS_REACH, "what fields reach");
/* Returns where the network header begins, if the type is known. */
size_t pri_packet_fields_parse(const struct pri_linktype_layout *layout,
	const uint8_t *data, uint32_t caplen, struct pri_packet_fields *out);
/*
 * Number of bytes at the struct's beginning that contain all fields in use, for a hash:
 * deep stacks of tags and labels are rare.
 */
size_t pri_packet_fields_bytes(const struct pri_packet_fields *fields);
