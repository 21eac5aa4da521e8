/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/flows/flow_told.h"

#include <sha1.h>
#include <sodium.h>
#include <string.h>
#include <xxhash.h>

#include "indexer/index/packet_fields.h"
#include "proto/base/array.h"
#include "proto/base/cursor.h"

#define IP_HEADER 20
#define IP6_HEADER 40

/* ---- ICMP: which types answer which (RFC 792, 950, 1256, 4443, 2710, 4861, 4620, 6275) ---- */

static const uint8_t icmp_pairs[][2] = {{0, 8}, {13, 14}, {15, 16}, {9, 10}, {17, 18}};
static const uint8_t icmp6_pairs[][2] = {
	{128, 129}, {133, 134}, {135, 136}, {130, 131}, {139, 140}, {144, 145}};

static bool
find_answer(uint8_t protocol, uint8_t type, uint16_t *answer)
{
	bool v6 = protocol == PR_IP_ICMP6;
	const uint8_t(*all)[2] = v6 ? icmp6_pairs : icmp_pairs;
	size_t count = v6 ? PR_COUNT(icmp6_pairs) : PR_COUNT(icmp_pairs);

	for (size_t i = 0; i < 2 * count; i++)
		if (all[i / 2][i % 2] == type) {
			*answer = all[i / 2][i % 2 == 0];
			return true;
		}
	return false;
}

/* ---- a packet ---- */

struct parser {
	const uint8_t *data;
	size_t len; /* captured */
	struct pri_flow_packet *out;
	uint16_t port[2]; /* sender's, receiver's */
};

static bool
has(const struct parser *p, size_t at, size_t len)
{
	return at <= p->len && p->len - at >= len;
}

static void
take_icmp(struct parser *p, size_t at)
{
	struct pri_flow_packet *f = p->out;

	if (!has(p, at, 2))
		return;
	f->icmp_code = p->data[at + 1];
	p->port[0] = p->data[at];
	p->port[1] = f->icmp_code;
	f->key.one_way = !find_answer(f->key.protocol, p->data[at], &p->port[1]);
}

/* Returns the bytes of the transport header. */
static size_t
take_transport(struct parser *p, size_t at)
{
	struct pri_flow_packet *f = p->out;

	if (pri_has_ports(f->key.protocol) && has(p, at, 4)) {
		p->port[0] = pr_get_be16(p->data + at);
		p->port[1] = pr_get_be16(p->data + at + 2);
	}
	switch (f->key.protocol) {
	case PR_IP_TCP:
		if (has(p, at, 14)) {
			f->flags = p->data[at + 13];
			return 4 * (p->data[at + 12] >> 4u);
		}
		return 20;
	case PR_IP_SCTP:
		return 12;
	case PR_IP_UDP:
		return 8;
	case PR_IP_ICMP:
	case PR_IP_ICMP6:
		take_icmp(p, at);
		return 8;
	default:
		return 0;
	}
}

/* Returns the side of the sender. len: of an address; a constant, since copies of so few bytes take long without. */
static inline __attribute__((always_inline)) uint8_t
set_ends(struct pri_flow_key *k, const uint8_t *src, const uint8_t *dst, size_t len,
	const uint16_t port[2])
{
	uint32_t a = pr_get_be32(src), b = pr_get_be32(dst);
	int order = a != b ? (a > b) - (a < b) : memcmp(src + 4, dst + 4, len - 4);
	bool swap = !k->one_way && (order > 0 || (order == 0 && port[0] > port[1]));

	memcpy(k->address[swap], src, len);
	memcpy(k->address[!swap], dst, len);
	k->port[swap] = port[0];
	k->port[!swap] = port[1];
	return swap;
}

uint8_t
pri_told_key(
	const struct pri_told *r, uint16_t link, struct pri_flow_key *k, uint8_t *icmp_code)
{
	/* ICMP without an element of its own has it in the port of the receiver */
	uint16_t icmp = r->has_icmp ? r->icmp : (uint16_t)r->port[1];
	uint16_t ends[2] = {0, 0};

	*icmp_code = 0;
	*k = (struct pri_flow_key){.protocol = (uint8_t)r->protocol,
		.address_len = r->address_len,
		.link = link,
		.vlan = r->vlan & 0xfff ? r->vlan & 0xfff : PRI_FLOW_UNTAGGED};
	if (k->protocol == (k->address_len == 16 ? PR_IP_ICMP6 : PR_IP_ICMP)) {
		ends[0] = icmp >> 8;
		ends[1] = *icmp_code = icmp & 0xff;
		k->one_way = !find_answer(k->protocol, icmp >> 8, &ends[1]);
	} else if (pri_has_ports(k->protocol)) {
		ends[0] = (uint16_t)r->port[0];
		ends[1] = (uint16_t)r->port[1];
	}
	return k->address_len == 4 ? set_ends(k, r->address[0], r->address[1], 4, ends)
				   : set_ends(k, r->address[0], r->address[1], 16, ends);
}

/* total: from the IP header on. */
static void
set_lengths(struct pri_flow_packet *f, size_t total, size_t headers)
{
	f->bytes = (uint32_t)total;
	f->payload = (uint32_t)(total - PR_MIN(total, headers));
}

static bool
take_ip(struct parser *p, size_t net, size_t wire)
{
	struct pri_flow_packet *f = p->out;
	const uint8_t *ip = p->data + net;

	if (!has(p, net, IP_HEADER))
		return false;
	size_t header = 4 * (ip[0] & 0xfu);
	size_t total = pr_get_be16(ip + 2);
	f->key.protocol = ip[9];
	f->key.address_len = 4;
	if (!(pr_get_be16(ip + 6) & 0x1fff))
		header += take_transport(p, net + header);
	set_lengths(f, total ? total : wire, header);
	f->side = set_ends(&f->key, ip + 12, ip + 16, 4, p->port);
	return true;
}

/* Walks over extension headers; returns the bytes of the headers before the transport's. */
static size_t
pass_extensions(struct parser *p, size_t net, uint8_t *protocol, bool *later)
{
	size_t at = net + IP6_HEADER;

	*later = false;
	for (int depth = 0; depth < PRI_KEYS_DEPTH && has(p, at, 8); depth++) {
		const uint8_t *x = p->data + at;

		if (*protocol == 44)
			*later = pr_get_be16(x + 2) & 0xfff8;
		else if (*protocol != 0 && *protocol != 43 && *protocol != 60 &&
			 *protocol != 51)
			break;
		at += *protocol == 44   ? 8u
		      : *protocol == 51 ? 4 * (x[1] + 2u)
					: 8 * (x[1] + 1u);
		*protocol = x[0];
		if (*later)
			break;
	}
	return at - net;
}

static bool
take_ip6(struct parser *p, size_t net, size_t wire)
{
	struct pri_flow_packet *f = p->out;
	const uint8_t *ip = p->data + net;
	bool later;

	if (!has(p, net, IP6_HEADER))
		return false;
	size_t total = pr_get_be16(ip + 4);
	f->key.protocol = ip[6];
	f->key.address_len = 16;
	size_t header = pass_extensions(p, net, &f->key.protocol, &later);
	if (!later)
		header += take_transport(p, net + header);
	/* none: no payload, or more than the field can say */
	set_lengths(f, total || wire <= UINT16_MAX + IP6_HEADER ? total + IP6_HEADER : wire,
		header);
	f->side = set_ends(&f->key, ip + 8, ip + 24, 16, p->port);
	return true;
}

/* ---- below IP ---- */

/* What carries a whole Ethernet frame, or an Ethertype and what it tells, behind some bytes of its own. */
#define TYPE_VNTAG 0x8926 /* IEEE 802.1Qbh: 6 bytes, the last 2 an Ethertype */
#define TYPE_PBB 0x88e7 /* IEEE 802.1ah: 4 bytes */
#define TYPE_FABRIC_PATH 0x8903 /* Cisco FabricPath: 2 bytes */
#define PPP 9 /* link types, as in pcap files */
#define WIFI 105 /* IEEE 802.11 */
#define WIFI_RADIOTAP 127
#define ETHER_HEADER 14
#define FRAMES_MAX 4 /* in one another */

/* Where the Ethertype of an 802.11 data frame is, or 0: it has none, or is encrypted. */
static size_t
wifi_type(const uint8_t *data, size_t len, bool radiotap)
{
	static const uint8_t snap[] = {0xaa, 0xaa, 3, 0, 0, 0};
	size_t at = radiotap && len >= 4 ? pr_get_le16(data + 2) : 0;

	if (at > len || len - at < 2)
		return 0;
	unsigned control = pr_get_le16(data + at);
	if ((control & 0x0c) != 0x08 || control & 0x4000) /* not data, or encrypted */
		return 0;
	at += 24;
	at += (control & 0x0300) == 0x0300 ? 6 : 0; /* a fourth address */
	at += control & 0x80 ? 2 : 0; /* quality of service */
	at += (control & 0x8080) == 0x8080 ? 4 : 0; /* high throughput */
	return at <= len && len - at >= sizeof(snap) + 2 &&
			       !memcmp(data + at, snap, sizeof(snap))
		       ? at + sizeof(snap)
		       : 0;
}

/* The frame within one of this type, whose bytes begin at net: where it begins, or 0. */
static size_t
inner_frame(uint16_t type, size_t net)
{
	if (type == TYPE_VNTAG) /* as if its Ethertype were that of a frame */
		return net + 6 - ETHER_HEADER;
	return type == TYPE_PBB ? net + 4 : type == TYPE_FABRIC_PATH ? net + 2 : 0;
}

/* Its Ethertype, and where the network header begins in *net; 0: not known. The VLAN is the outermost. */
static uint16_t
find_network(const struct pr_packet *packet, size_t *net, uint16_t *vlan)
{
	/* PPP may leave out its address and control bytes (RFC 1661, 6.6) */
	static const struct pri_linktype_layout wifi = {.net_at = 2};
	static const struct pri_linktype_layout ppp = {.form = PRI_TYPE_PPP, .net_at = 2};
	const struct pri_linktype_layout *known =
		pri_linktype_layout_find(packet->linktype);
	struct pri_packet_fields fields;
	size_t at = 0, inner = 0;
	uint16_t type = 0;

	*vlan = PRI_FLOW_UNTAGGED;
	if (packet->linktype == PR_LINKTYPE_ETHERNET &&
		packet->caplen >= ETHER_HEADER) { /* nearly all */
		type = pr_get_be16(packet->data + ETHER_HEADER - 2);
		*net = ETHER_HEADER;
		if (type == PR_ETHERTYPE_IP4 || type == PR_ETHERTYPE_IP6)
			return type;
	}
	if (packet->linktype == WIFI || packet->linktype == WIFI_RADIOTAP) {
		at = wifi_type(
			packet->data, packet->caplen, packet->linktype == WIFI_RADIOTAP);
		known = at ? &wifi : NULL;
	}
	if (packet->linktype == PPP && packet->caplen && packet->data[0] != 0xff)
		known = &ppp;
	for (int depth = 0; known && depth < FRAMES_MAX; depth++) {
		*net = at + pri_packet_fields_parse(known, packet->data + at,
				    (uint32_t)(packet->caplen - at), &fields);
		if (fields.tag_count && *vlan == PRI_FLOW_UNTAGGED)
			*vlan = fields.tags[0];
		type = fields.type_count ? fields.types[fields.type_count - 1] : 0;
		inner = known->ether ? inner_frame(type, *net) : 0;
		if (!inner || inner > packet->caplen)
			break;
		at = inner;
		known = pri_linktype_layout_find(PR_LINKTYPE_ETHERNET);
	}
	return known && *net <= packet->caplen ? type : 0;
}

bool
pri_flow_packet_parse(const struct pr_packet *packet, struct pri_flow_packet *out)
{
	struct parser p = {.data = packet->data, .len = packet->caplen, .out = out};
	size_t net = 0;

	memset(out, 0, sizeof(*out));
	uint16_t type = find_network(packet, &net, &out->key.vlan);
	out->key.link = packet->link;
	size_t wire = packet->len > net ? packet->len - net : 0;
	if (type == PR_ETHERTYPE_IP4)
		return take_ip(&p, net, wire);
	return type == PR_ETHERTYPE_IP6 && take_ip6(&p, net, wire);
}

/* ---- shares ---- */

uint32_t
pri_flow_share(const struct pri_flow_key *key, uint32_t shares)
{
	bool swap = memcmp(key->address[0], key->address[1], sizeof(key->address[0])) > 0;
	uint8_t pair[sizeof(key->address)];
	uint64_t best = 0;
	uint32_t share = 1;

	memcpy(pair, key->address[swap], sizeof(key->address[0]));
	memcpy(pair + sizeof(key->address[0]), key->address[!swap],
		sizeof(key->address[0]));
	uint64_t hash = XXH3_64bits(pair, sizeof(pair));
	for (uint32_t i = 1; i <= shares; i++) {
		/* splitmix64 */
		uint64_t score = hash + i * 0x9e3779b97f4a7c15u;

		score = (score ^ score >> 30) * 0xbf58476d1ce4e5b9u;
		score = (score ^ score >> 27) * 0x94d049bb133111ebu;
		score ^= score >> 31;
		if (score > best) {
			best = score;
			share = i;
		}
	}
	return share;
}

/* ---- Community ID ---- */

void
pri_community_id(
	const struct pri_flow_key *key, uint16_t seed, char out[PRI_COMMUNITY_ID_MAX])
{
	bool ports = pri_has_ports(key->protocol) || key->protocol == PR_IP_ICMP ||
		     key->protocol == PR_IP_ICMP6;
	uint8_t digest[SHA1_DIGEST_LENGTH], bytes[2 + 16 + 16 + 2 + 4];
	size_t len = key->address_len, at = 0;
	SHA1_CTX sha1;

	pr_put_be16(bytes, seed);
	memcpy(bytes + 2, key->address[0], len);
	memcpy(bytes + 2 + len, key->address[1], len);
	at = 2 + 2 * len;
	bytes[at++] = key->protocol;
	bytes[at++] = 0;
	for (int i = 0; i < 2 && ports; i++, at += 2)
		pr_put_be16(bytes + at, key->port[i]);
	SHA1Init(&sha1);
	SHA1Update(&sha1, bytes, at);
	SHA1Final(digest, &sha1);
	memcpy(out, "1:", 2);
	sodium_bin2base64(out + 2, PRI_COMMUNITY_ID_MAX - 2, digest, sizeof(digest),
		sodium_base64_VARIANT_ORIGINAL);
}
