/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_INDEXER_FIELDS_H
#define PR_INDEXER_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Where keys lie in a packet, and what lies there: the offsets are those of keys.h, at which compiled pcap
 * filters load. Pure.
 */
#define PR_KEYS_DEPTH 8 /* tags and labels that are passed */

/* Where a link type has its type and its network header. */
enum pr_type_form {
	PR_TYPE_ETHER, /* 2 bytes, an Ethertype; tags may follow only where ether is set */
	PR_TYPE_PPP, /* 2 bytes, a PPP number */
	PR_TYPE_FAMILY, /* 4 bytes in either byte order: 2 IPv4; 10, 24, 28, 30 IPv6, as libpcap tests */
	PR_TYPE_NIBBLE, /* none: the high nibble of the first byte of the network header */
};
struct pr_layout {
	uint16_t linktype; /* as in pcap files */
	uint8_t form;
	uint8_t type_at, net_at;
	bool ether; /* MACs at 0 and 6, tags */
};
/* NULL: packets of this link type have no keys, everything of it "may match". */
const struct pr_layout *pr_layout_find(uint16_t linktype);
/* A value of the type field as an Ethertype; ETHER: itself; others: 0x0800, 0x86dd or 0. */
uint16_t pr_layout_ethertype(const struct pr_layout *layout, uint32_t value);

/* All that keys are made of; packets whose fields are equal have equal keys. No holes, no rubbish. */
#define PR_FIELD_SRC 1u
#define PR_FIELD_DST 2u
#define PR_FIELD_SPORT 4u
#define PR_FIELD_DPORT 8u
#define PR_FIELD_FRAGMENT 16u
#define PR_FIELD_ICMP 32u
#define PR_FIELD_ICMP6 64u
#define PR_FIELD_MAC_SRC 128u
#define PR_FIELD_MAC_DST 256u
struct pr_fields {
	uint8_t macs[12]; /* destination, source */
	uint16_t have; /* PR_FIELD_... */
	uint8_t address_len, src_len, dst_len; /* of a whole one; captured of each */
	uint8_t proto_count, type_count, tag_count, label_count;
	uint8_t icmp;
	uint8_t protos[2];
	uint16_t sport, dport;
	uint8_t src[16], dst[16];
	uint16_t types[PR_KEYS_DEPTH + 3];
	uint16_t tags[PR_KEYS_DEPTH];
	uint32_t labels[PR_KEYS_DEPTH];
};

/*
 * Of a packet's first bytes so many at most are looked at: 20 of a link header, 4 of each tag and label, 8 of
 * PPPoE, and of the network header 60 with 4 behind it.
 */
#define PR_FIELDS_REACH 192
_Static_assert(20 + 8 * PR_KEYS_DEPTH + 8 + 60 + 4 <= PR_FIELDS_REACH, "what fields reach");
void pr_fields_of_packet(const struct pr_layout *layout, const uint8_t *data,
	uint32_t caplen, struct pr_fields *out);
/* Bytes at its beginning that say all, for a hash: deep stacks of tags and labels are rare. */
size_t pr_fields_bytes(const struct pr_fields *fields);

#endif
