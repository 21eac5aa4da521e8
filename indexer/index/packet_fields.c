/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/index/packet_fields.h"

#include "proto/base/array.h"
#include "proto/base/cursor.h"

/* ---- link types ---- */

static const struct pri_linktype_layout layouts[] = {
	{.linktype = 1, .type_at = 12, .net_at = 14, .ether = true}, /* Ethernet */
	{.linktype = 113, .type_at = 14, .net_at = 16}, /* Linux cooked */
	{.linktype = 276, .type_at = 0, .net_at = 20}, /* Linux cooked, version 2 */
	{.linktype = 101,
		.form = PRI_TYPE_NIBBLE}, /* raw IP; 12 and 14 where a file has them */
	{.linktype = 12, .form = PRI_TYPE_NIBBLE},
	{.linktype = 14, .form = PRI_TYPE_NIBBLE},
	{.linktype = 0, .form = PRI_TYPE_FAMILY, .net_at = 4}, /* BSD loopback */
	{.linktype = 108, .form = PRI_TYPE_FAMILY, .net_at = 4}, /* OpenBSD loopback */
	{.linktype = 9, .form = PRI_TYPE_PPP, .type_at = 2, .net_at = 4}, /* PPP */
};

const struct pri_linktype_layout *
pri_linktype_layout_find(uint16_t linktype)
{
	for (size_t i = 0; i < PR_COUNT(layouts); i++)
		if (layouts[i].linktype == linktype)
			return &layouts[i];
	return NULL;
}

static uint16_t
of_ppp(uint32_t value)
{
	return value == 0x21 ? PR_ETHERTYPE_IP4 : value == 0x57 ? PR_ETHERTYPE_IP6 : 0;
}

static uint16_t
of_nibble(uint8_t first)
{
	return first >> 4 == 4 ? PR_ETHERTYPE_IP4 : first >> 4 == 6 ? PR_ETHERTYPE_IP6 : 0;
}

uint16_t
pri_linktype_layout_ethertype(const struct pri_linktype_layout *layout, uint32_t value)
{
	if (layout->form == PRI_TYPE_ETHER)
		return value;
	if (layout->form == PRI_TYPE_PPP)
		return of_ppp(value);
	if (layout->form == PRI_TYPE_NIBBLE)
		return of_nibble(value);
	/* IPv6 is 10 on Linux, 24, 28 and 30 on the BSDs, for which a trace file's filter tests */
	value = value & 0xff ? value : value >> 24;
	if (value == 10 || value == 24 || value == 28 || value == 30)
		return PR_ETHERTYPE_IP6;
	return value == 2 ? PR_ETHERTYPE_IP4 : 0;
}

/* ---- a packet's fields ---- */

struct walk {
	const uint8_t *data;
	size_t len, net;
	struct pri_packet_fields *out;
};

static bool
has(const struct walk *w, size_t at, size_t len)
{
	return at <= w->len && w->len - at >= len;
}

static void
add_type(struct walk *w, uint16_t type)
{
	w->out->types[w->out->type_count++] = type;
}

/* The first words of an address count by themselves: filters on prefixes load no more. */
static uint8_t
take_address(struct walk *w, size_t at, size_t len, uint8_t *to)
{
	size_t left = at < w->len ? w->len - at : 0;

	if (left < len)
		len = left & ~3;
	memcpy(to, w->data + (len ? at : 0), len);
	return len;
}

static void
take_addresses(struct walk *w, size_t src, size_t dst, size_t len)
{
	struct pri_packet_fields *f = w->out;

	f->src_len = take_address(w, src, len, f->src);
	f->dst_len = take_address(w, dst, len, f->dst);
	f->address_len = len;
	f->have |= (f->src_len == len ? PRI_FIELD_SRC : 0) |
		   (f->dst_len == len ? PRI_FIELD_DST : 0);
}

static void
take_transport(struct walk *w, size_t at, uint8_t icmp, uint16_t icmp_field)
{
	struct pri_packet_fields *f = w->out;

	if (f->protos[0] == icmp && has(w, at, 1)) {
		f->icmp = w->data[at];
		f->have |= icmp_field;
	}
	if (!pri_has_ports(f->protos[0]))
		return;
	if (has(w, at, 2)) {
		f->sport = pr_get_be16(w->data + at);
		f->have |= PRI_FIELD_SPORT;
	}
	if (has(w, at + 2, 2)) {
		f->dport = pr_get_be16(w->data + at + 2);
		f->have |= PRI_FIELD_DPORT;
	}
}

static void
take_ip(struct walk *w)
{
	struct pri_packet_fields *f = w->out;
	const uint8_t *net = w->data + w->net;

	if (has(w, w->net + 6, 2) && pr_get_be16(net + 6) & 0x1fff)
		f->have |= PRI_FIELD_FRAGMENT;
	if (!has(w, w->net, 10))
		return;
	f->protos[f->proto_count++] = net[9];
	take_addresses(w, w->net + 12, w->net + 16, 4);
	if (!(f->have & PRI_FIELD_FRAGMENT))
		take_transport(w, w->net + 4 * (net[0] & 0xfu), 1, PRI_FIELD_ICMP);
}

static void
take_ip6(struct walk *w)
{
	struct pri_packet_fields *f = w->out;

	if (!has(w, w->net, 7))
		return;
	f->protos[f->proto_count++] = w->data[w->net + 6];
	if (f->protos[0] == 44 && has(w, w->net + 40, 1))
		f->protos[f->proto_count++] = w->data[w->net + 40];
	take_addresses(w, w->net + 8, w->net + 24, 16);
	take_transport(w, w->net + 40, 58, PRI_FIELD_ICMP6);
}

/* The type of what follows MPLS or PPPoE; 0: not known. */
static uint16_t
pass_inner(struct walk *w, uint16_t type)
{
	struct pri_packet_fields *f = w->out;
	uint16_t inner = 0;
	uint32_t label;

	if (type == PR_ETHERTYPE_MPLS) {
		do {
			if (f->tag_count + f->label_count >= PRI_KEYS_DEPTH ||
				!has(w, w->net, 4))
				return 0; /* no bottom of the stack within reach */
			label = pr_get_be32(w->data + w->net);
			f->labels[f->label_count++] = label >> 12;
			w->net += 4;
		} while (!(label & 0x100));
		if (has(w, w->net, 1))
			inner = of_nibble(w->data[w->net]);
	} else {
		if (!has(w, w->net + 6, 2))
			return 0;
		type = pr_get_be16(w->data + w->net + 6);
		w->net += 8;
		inner = of_ppp(type) ? of_ppp(type) : type;
	}
	if (inner)
		add_type(w, inner);
	return inner;
}

static uint16_t
pass_tags(struct walk *w, size_t type_at, uint16_t type)
{
	struct pri_packet_fields *f = w->out;

	while (pri_is_vlan_tag(type) && f->tag_count < PRI_KEYS_DEPTH) {
		if (!has(w, type_at + 2, 2))
			return 0;
		f->tags[f->tag_count++] = pr_get_be16(w->data + type_at + 2) & 0xfff;
		type_at += 4;
		w->net += 4;
		if (!has(w, type_at, 2))
			return 0;
		type = pr_get_be16(w->data + type_at);
		add_type(w, type);
	}
	return type;
}

size_t
pri_packet_fields_parse(const struct pri_linktype_layout *l, const uint8_t *data,
	uint32_t caplen, struct pri_packet_fields *out)
{
	struct walk w = {.data = data, .len = caplen, .net = l->net_at, .out = out};
	size_t len = l->form == PRI_TYPE_NIBBLE ? 1 : l->form == PRI_TYPE_FAMILY ? 4 : 2;
	size_t at = l->form == PRI_TYPE_NIBBLE ? l->net_at : l->type_at;
	uint32_t value = 0;
	uint16_t type = 0;

	memset(out, 0, sizeof(*out));
	if (has(&w, at, len)) {
		for (size_t i = 0; i < len; i++)
			value = value << 8 | data[at + i];
		type = pri_linktype_layout_ethertype(l, value);
		/* on Ethernet 0 is a type like others: a length */
		if (type || l->form == PRI_TYPE_ETHER)
			add_type(&w, type);
	}
	for (size_t i = 0; i < 2 && l->ether && has(&w, 6 * i, 6); i++) {
		memcpy(out->macs + 6 * i, data + 6 * i, 6);
		out->have |= i ? PRI_FIELD_MAC_SRC : PRI_FIELD_MAC_DST;
	}
	if (l->ether)
		type = pass_tags(&w, l->type_at, type);
	if (l->ether && (type == PR_ETHERTYPE_MPLS || type == PR_ETHERTYPE_PPPOE))
		type = pass_inner(&w, type);
	if (type == PR_ETHERTYPE_IP4)
		take_ip(&w);
	else if (type == PR_ETHERTYPE_IP6)
		take_ip6(&w);
	else if (type == PR_ETHERTYPE_ARP || type == PR_ETHERTYPE_RARP)
		take_addresses(&w, w.net + 14, w.net + 24, 4);
	return w.net;
}

size_t
pri_packet_fields_bytes(const struct pri_packet_fields *f)
{
	if (f->label_count)
		return sizeof(*f);
	if (f->tag_count)
		return offsetof(struct pri_packet_fields, labels);
	return offsetof(struct pri_packet_fields, types) + 3 * sizeof(f->types[0]);
}
