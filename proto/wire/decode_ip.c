/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/wire/decode_layers.h"

enum {
	IP_HOP_BY_HOP = 0,
	IP_ICMP = 1,
	IP_IN_IP = 4,
	IP_TCP = 6,
	IP_UDP = 17,
	IP_DCCP = 33,
	IP_IN_IP6 = 41,
	IP_ROUTING = 43,
	IP_FRAGMENT = 44,
	IP_GRE = 47,
	IP_AH = 51,
	IP_ICMP6 = 58,
	IP_DESTINATION = 60,
	IP_SCTP = 132,
	IP_MOBILITY = 135,
	IP_UDPLITE = 136,
};

#define EXTENSIONS_MAX 16 /* RFC 8200 allows each once, destination options twice */
#define VXLAN_PORT 4789

/* The rest of the captured bytes behind this packet's end is padding of the link. */
static void
end_packet(struct pr_walk *w, size_t left)
{
	if (left < pr_cursor_left(&w->c)) {
		w->c.end = w->c.at + left;
		w->short_flag = PR_DECODE_MALFORMED;
	}
}

static enum pr_layer
after_ip(struct pr_walk *w)
{
	if (w->h->flags & PR_DECODE_FRAGMENT_LATER)
		return PR_LAYER_DONE;
	return PR_LAYER_TRANSPORT;
}

enum pr_layer
pr_decode_ip4(struct pr_walk *w)
{
	struct pr_headers *h = w->h;
	size_t offset = pr_walk_offset(w);
	const uint8_t *p = pr_walk_take(w, 20);
	if (!p)
		return PR_LAYER_DONE;

	size_t header = (size_t)(p[0] & 0x0f) * 4, total = pr_get_be16(p + 2);
	/* Length 0: left to the network card by segmentation offload; the packet is what is there. */
	if (p[0] >> 4 != 4 || header < 20 || (total && total < header))
		return pr_walk_malformed(w);
	h->flags |= PR_DECODE_IP4;
	h->ip_offset = offset;
	h->ip_length = (uint32_t)total;
	h->ttl = p[8];
	h->protocol = p[9];
	memcpy(h->src, p + 12, 4);
	memcpy(h->dst, p + 16, 4);
	uint16_t fragment = pr_get_be16(p + 6);
	h->fragment_id = pr_get_be16(p + 4);
	if (fragment & 0x3fff) /* more to come, or an offset */
		h->flags |= PR_DECODE_FRAGMENT;
	if (fragment & 0x1fff)
		h->flags |= PR_DECODE_FRAGMENT_LATER;
	if (total)
		end_packet(w, total - 20);
	if (!pr_walk_take(w, header - 20))
		return PR_LAYER_DONE;
	h->l4_offset = pr_walk_offset(w);
	return after_ip(w);
}

static bool
is_extension(uint8_t protocol)
{
	return protocol == IP_HOP_BY_HOP || protocol == IP_ROUTING ||
	       protocol == IP_FRAGMENT || protocol == IP_AH || protocol == IP_DESTINATION ||
	       protocol == IP_MOBILITY;
}

/* One extension header, protocol; h->protocol becomes the one behind it. */
static bool
extension(struct pr_walk *w, uint8_t protocol)
{
	struct pr_headers *h = w->h;
	const uint8_t *p = pr_walk_take(w, 8);
	if (!p)
		return false;
	h->protocol = p[0];
	if (protocol == IP_FRAGMENT) {
		uint16_t fragment = pr_get_be16(p + 2);
		h->fragment_id = pr_get_be32(p + 4);
		if (fragment & 0xfff9)
			h->flags |= PR_DECODE_FRAGMENT;
		if (fragment & 0xfff8)
			h->flags |= PR_DECODE_FRAGMENT_LATER;
		return true;
	}
	/* AH counts in words of 4 bytes less two, the others in words of 8 less one. */
	size_t more = protocol == IP_AH ? (size_t)p[1] * 4 : (size_t)p[1] * 8;
	return pr_walk_take(w, more) != NULL;
}

enum pr_layer
pr_decode_ip6(struct pr_walk *w)
{
	struct pr_headers *h = w->h;
	size_t offset = pr_walk_offset(w);
	const uint8_t *p = pr_walk_take(w, 40);
	if (!p)
		return PR_LAYER_DONE;

	if (p[0] >> 4 != 6)
		return pr_walk_malformed(w);
	size_t payload = pr_get_be16(p + 4);
	h->flags |= PR_DECODE_IP6;
	h->ip_offset = offset;
	h->ip_length = (uint32_t)payload + 40;
	h->protocol = p[6];
	h->ttl = p[7];
	memcpy(h->src, p + 8, 16);
	memcpy(h->dst, p + 24, 16);
	if (payload) /* 0: a jumbogram, or segmentation offload */
		end_packet(w, payload);
	for (int i = 0; is_extension(h->protocol); i++) {
		if (h->flags & PR_DECODE_FRAGMENT_LATER)
			break;
		if (i == EXTENSIONS_MAX)
			return pr_walk_malformed(w);
		if (!extension(w, h->protocol))
			return PR_LAYER_DONE;
	}
	h->l4_offset = pr_walk_offset(w);
	return after_ip(w);
}

/* GRE's optional words by its flags, and what is inside by its type (RFC 2784, 2890, 7637). */
static enum pr_layer
gre(struct pr_walk *w)
{
	const uint8_t *p = pr_walk_take(w, 4);
	if (!p)
		return PR_LAYER_DONE;
	uint16_t flags = pr_get_be16(p), type = pr_get_be16(p + 2);
	if (flags & 0x4007) /* source routing, or PPTP's version 1: not opened */
		return PR_LAYER_DONE;
	size_t options = (flags & 0x8000 ? 4 : 0) + (flags & 0x2000 ? 4 : 0) +
			 (flags & 0x1000 ? 4 : 0);
	if (type == 0x88be && flags & 0x1000) /* ERSPAN II has a header, I has none */
		options += 8;
	if (type == 0x22eb) /* ERSPAN III */
		options += 12;
	if (!pr_walk_take(w, options))
		return PR_LAYER_DONE;
	w->h->payload_offset = pr_walk_offset(w);
	if (type == 0x22eb && p[4 + options - 1] & 1 && !pr_walk_take(w, 8))
		return PR_LAYER_DONE; /* its platform subheader */
	w->type = type;
	bool frame = type == 0x6558 || type == 0x88be || type == 0x22eb;
	return pr_walk_tunnel(w, frame ? PR_LAYER_ETHERNET : PR_LAYER_ETHERTYPE);
}

static enum pr_layer
vxlan(struct pr_walk *w)
{
	const uint8_t *p = pr_walk_take(w, 8);
	if (!p || !(p[0] & 0x08)) /* no network identifier: not VXLAN */
		return PR_LAYER_DONE;
	return pr_walk_tunnel(w, PR_LAYER_ETHERNET);
}

/* TCP, UDP, SCTP and their kin begin with the ports; header is at least 4 bytes long. */
static const uint8_t *
ports(struct pr_walk *w, size_t header)
{
	struct pr_headers *h = w->h;
	const uint8_t *p = pr_walk_take(w, 4);
	if (!p)
		return NULL;
	h->src_port = pr_get_be16(p);
	h->dst_port = pr_get_be16(p + 2);
	h->flags |= PR_DECODE_PORTS;
	if (!pr_walk_take(w, header - 4))
		return NULL;
	h->payload_offset = pr_walk_offset(w);
	return p;
}

static enum pr_layer
tcp(struct pr_walk *w)
{
	const uint8_t *p = ports(w, 20);
	if (!p)
		return PR_LAYER_DONE;
	w->h->payload_offset = 0;
	w->h->tcp_flags = p[13];
	size_t header = (size_t)(p[12] >> 4) * 4;
	if (header < 20)
		return pr_walk_malformed(w);
	if (pr_walk_take(w, header - 20))
		w->h->payload_offset = pr_walk_offset(w);
	return PR_LAYER_DONE;
}

static enum pr_layer
udp(struct pr_walk *w)
{
	bool whole = ports(w, 8) != NULL;
	if (whole && w->h->dst_port == VXLAN_PORT)
		return vxlan(w);
	return PR_LAYER_DONE;
}

static enum pr_layer
icmp(struct pr_walk *w)
{
	const uint8_t *p = pr_walk_take(w, 4);
	if (!p)
		return PR_LAYER_DONE;
	w->h->icmp_type = p[0];
	w->h->icmp_code = p[1];
	if (pr_walk_take(w, 4))
		w->h->payload_offset = pr_walk_offset(w);
	return PR_LAYER_DONE;
}

enum pr_layer
pr_decode_transport(struct pr_walk *w)
{
	switch (w->h->protocol) {
	case IP_TCP:
		return tcp(w);
	case IP_UDP:
		return udp(w);
	case IP_UDPLITE:
		ports(w, 8);
		return PR_LAYER_DONE;
	case IP_SCTP:
	case IP_DCCP:
		ports(w, 12);
		return PR_LAYER_DONE;
	case IP_ICMP:
	case IP_ICMP6:
		return icmp(w);
	case IP_GRE:
		return gre(w);
	case IP_IN_IP:
		return pr_walk_tunnel(w, PR_LAYER_IP4);
	case IP_IN_IP6:
		return pr_walk_tunnel(w, PR_LAYER_IP6);
	}
	return PR_LAYER_DONE;
}
