/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/wire/decode_layers.h"

/* Link types as in pcap files (https://www.tcpdump.org/linktypes.html). */
enum {
	LINK_NULL = 0,
	LINK_ETHERNET = 1,
	LINK_RAW = 101,
	LINK_LOOP = 108,
	LINK_SLL = 113,
	LINK_IPV4 = 228,
	LINK_IPV6 = 229,
	LINK_SLL2 = 276,
};

/* Ethertypes; below 0x600 it is the length of an 802.3 frame. */
enum {
	TYPE_LENGTHS = 0x0600,
	TYPE_IP4 = 0x0800,
	TYPE_CTAG = 0x8100,
	TYPE_IP6 = 0x86dd,
	TYPE_MPLS = 0x8847,
	TYPE_MPLS_UPSTREAM = 0x8848,
	TYPE_PPPOE = 0x8864,
	TYPE_STAG = 0x88a8,
	TYPE_OLD_STAG = 0x9100,
};

#define LAYERS_MAX 32 /* more headers than this are made to keep us busy */
#define LABELS_MAX 16
#define PPP_IP4 0x0021
#define PPP_IP6 0x0057

enum pr_layer
pr_walk_tunnel(struct pr_walk *w, enum pr_layer next)
{
	if (w->out->tunnels == PR_DECODE_TUNNELS)
		return PR_LAYER_DONE;
	w->out->tunnels++;
	w->out->outer.flags |= PR_DECODE_TUNNEL;
	w->h = &w->out->inner;
	memset(w->h, 0, sizeof *w->h);
	return next;
}

static enum pr_layer
ethernet(struct pr_walk *w)
{
	const uint8_t *p = pr_walk_take(w, 14);
	if (!p)
		return PR_LAYER_DONE;
	w->type = pr_get_be16(p + 12);
	return PR_LAYER_ETHERTYPE;
}

static enum pr_layer
vlan(struct pr_walk *w)
{
	const uint8_t *p = pr_walk_take(w, 4);
	if (!p)
		return PR_LAYER_DONE;
	if (w->h->vlan_count < sizeof w->h->vlan / sizeof w->h->vlan[0])
		w->h->vlan[w->h->vlan_count++] = pr_get_be16(p) & 0x0fff;
	w->type = pr_get_be16(p + 2);
	return PR_LAYER_ETHERTYPE;
}

/* Labels to the bottom of the stack. What is below has no type: 4 and 6 look like IP. */
static enum pr_layer
mpls(struct pr_walk *w)
{
	for (int i = 0; i < LABELS_MAX; i++) {
		const uint8_t *p = pr_walk_take(w, 4);
		if (!p)
			return PR_LAYER_DONE;
		uint32_t entry = pr_get_be32(p);
		if (w->h->mpls_count < sizeof w->h->mpls / sizeof w->h->mpls[0])
			w->h->mpls[w->h->mpls_count++] = entry >> 12;
		if (entry & 0x100)
			return PR_LAYER_IP;
	}
	return pr_walk_malformed(w);
}

static enum pr_layer
pppoe(struct pr_walk *w)
{
	const uint8_t *p = pr_walk_take(w, 8);
	if (!p)
		return PR_LAYER_DONE;
	if (p[0] != 0x11)
		return pr_walk_malformed(w);
	if (p[1] != 0) /* no session data */
		return PR_LAYER_DONE;
	uint16_t protocol = pr_get_be16(p + 6);
	if (protocol == PPP_IP4)
		return PR_LAYER_IP4;
	return protocol == PPP_IP6 ? PR_LAYER_IP6 : PR_LAYER_DONE;
}

static enum pr_layer
ethertype(struct pr_walk *w)
{
	w->h->ethertype = w->type < TYPE_LENGTHS ? 0 : w->type;
	switch (w->type) {
	case TYPE_CTAG:
	case TYPE_STAG:
	case TYPE_OLD_STAG:
		return vlan(w);
	case TYPE_MPLS:
	case TYPE_MPLS_UPSTREAM:
		return mpls(w);
	case TYPE_PPPOE:
		return pppoe(w);
	case TYPE_IP4:
		return PR_LAYER_IP4;
	case TYPE_IP6:
		return PR_LAYER_IP6;
	}
	return PR_LAYER_DONE;
}

static enum pr_layer
ip(struct pr_walk *w)
{
	if (pr_cursor_left(&w->c) == 0) {
		w->h->flags |= w->short_flag;
		return PR_LAYER_DONE;
	}
	uint8_t version = *w->c.at >> 4;
	if (version == 4)
		return PR_LAYER_IP4;
	return version == 6 ? PR_LAYER_IP6 : PR_LAYER_DONE;
}

static enum pr_layer
step(struct pr_walk *w, enum pr_layer layer)
{
	static enum pr_layer (*const layers[])(struct pr_walk *) = {
		[PR_LAYER_ETHERNET] = ethernet,
		[PR_LAYER_ETHERTYPE] = ethertype,
		[PR_LAYER_IP] = ip,
		[PR_LAYER_IP4] = pr_decode_ip4,
		[PR_LAYER_IP6] = pr_decode_ip6,
		[PR_LAYER_TRANSPORT] = pr_decode_transport,
	};
	return layers[layer](w);
}

/*
 * The address family that precedes a packet on BSD's loopback: of the machine that captured, so in
 * either order; IPv6 has a number of its own on each system. The packet itself says it as well.
 */
static enum pr_layer
loopback(struct pr_walk *w)
{
	const uint8_t *p = pr_walk_take(w, 4);
	if (!p)
		return PR_LAYER_DONE;
	uint32_t be = pr_get_be32(p), le = pr_get_le32(p), family = be < le ? be : le;
	return family == 2 || family == 10 || (family >= 24 && family <= 30)
		       ? PR_LAYER_IP
		       : PR_LAYER_DONE;
}

/* Linux "any" captures: a header of len bytes with the Ethertype at at, if of an Ethernet kind. */
static enum pr_layer
cooked(struct pr_walk *w, size_t len, size_t at)
{
	const uint8_t *p = pr_walk_take(w, len);
	if (!p)
		return PR_LAYER_DONE;
	w->type = pr_get_be16(p + at);
	return PR_LAYER_ETHERTYPE;
}

static enum pr_layer
first_layer(struct pr_walk *w, uint16_t linktype)
{
	switch (linktype) {
	case LINK_ETHERNET:
		return PR_LAYER_ETHERNET;
	case LINK_RAW:
		return PR_LAYER_IP;
	case LINK_IPV4:
		return PR_LAYER_IP4;
	case LINK_IPV6:
		return PR_LAYER_IP6;
	case LINK_NULL:
	case LINK_LOOP:
		return loopback(w);
	case LINK_SLL:
		return cooked(w, 16, 14);
	case LINK_SLL2:
		return cooked(w, 20, 0);
	}
	return PR_LAYER_DONE;
}

void
pr_decode(uint16_t linktype, const uint8_t *data, size_t caplen, struct pr_decoded *out)
{
	struct pr_walk w = {
		.c = pr_cursor_make(data, caplen),
		.start = data,
		.short_flag = PR_DECODE_TRUNCATED,
		.h = &out->outer,
		.out = out,
	};
	memset(out, 0, sizeof *out);
	enum pr_layer layer = first_layer(&w, linktype);
	for (int i = 0; layer != PR_LAYER_DONE; i++) {
		if (i == LAYERS_MAX) {
			pr_walk_malformed(&w);
			return;
		}
		layer = step(&w, layer);
	}
}
