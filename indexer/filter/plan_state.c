/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "indexer/filter/bpf_code.h"
#include "indexer/filter/plan_internal.h"
#include "proto/base/cursor.h"

/* ---- what tests on loaded bytes mean ---- */

/* A run of bytes of the packet, and which of their bits are known. */
struct span {
	uint32_t at;
	unsigned len;
	uint8_t mask[4], value[4];
};

static struct span
span_of(const struct pri_value *a, uint32_t bits, uint32_t value)
{
	struct span s = {.at = a->at, .len = a->size};

	for (unsigned i = 0; i < s.len; i++) {
		unsigned shift = 8 * (s.len - 1 - i);

		s.mask[i] = (uint8_t)(bits >> shift);
		s.value[i] = (uint8_t)(value >> shift) & s.mask[i];
	}
	return s;
}

/* Of the n bytes (at most 4) at `at`, as a number; what the span does not know is 0 in *mask. */
static uint32_t
number_at(const struct span *s, uint32_t at, unsigned n, uint32_t *mask)
{
	uint32_t value = 0;

	*mask = 0;
	for (unsigned i = 0; i < n; i++) {
		bool inside = at + i >= s->at && at + i < s->at + s->len;
		uint32_t j = inside ? at + i - s->at : 0;

		*mask = *mask << 8 | (inside ? s->mask[j] : 0u);
		value = value << 8 | (inside ? s->value[j] : 0u);
	}
	return value;
}

static bool
known(const struct span *s, uint32_t at, unsigned n, uint32_t bits, uint32_t *value)
{
	uint32_t mask;

	*value = number_at(s, at, n, &mask) & bits;
	return (mask & bits) == bits;
}

static uint32_t
key_leaf(struct pri_terms *terms, enum pri_key_kind kind, uint32_t value)
{
	struct pri_term_leaf leaf = {
		.op = PRI_PLAN_KEY, .key = pri_key_number(kind, value)};

	return pri_term_leaf(terms, &leaf);
}

/* What the span knows of a field of len bytes at `at`. */
static uint32_t
bytes_leaf(struct pri_terms *terms, const struct span *s, enum pri_term_field field,
	uint32_t at, unsigned len)
{
	struct pri_term_leaf leaf = {.op = PRI_TERM_BYTES,
		.field = (uint8_t)field,
		.whole = s->at + s->len >= at + len};
	bool some = false;

	for (unsigned i = 0; i < s->len; i++) {
		uint32_t byte = s->at + i;

		if (byte < at || byte >= at + len || !s->mask[i])
			continue;
		leaf.mask[byte - at] = s->mask[i];
		leaf.value[byte - at] = s->value[i];
		some = true;
	}
	return some ? pri_term_leaf(terms, &leaf) : PRI_TERM_TRUE;
}

static uint32_t
two_fields(struct pri_terms *terms, const struct span *s, enum pri_term_field first,
	uint32_t at, enum pri_term_field second, uint32_t second_at, unsigned len)
{
	uint32_t a = bytes_leaf(terms, s, first, at, len);

	return pri_term_and(terms, a, bytes_leaf(terms, s, second, second_at, len));
}

/* ---- types, tags, labels ---- */

static bool
is_tag(uint32_t type)
{
	return type == 0x8100 || type == 0x88a8 || type == 0x9100;
}

static uint8_t
net_of(uint32_t type)
{
	return type == 0x0800                     ? PRI_NET_IP4
	       : type == 0x86dd                   ? PRI_NET_IP6
	       : type == 0x0806 || type == 0x8035 ? PRI_NET_ARP
						  : PRI_NET_OTHER;
}

static void
enter(struct pri_place *p, const struct pri_linktype_layout *layout, uint32_t type)
{
	p->flags = 0;
	if (layout->ether && is_tag(type)) {
		p->net_is = p->tags < PRI_KEYS_DEPTH ? PRI_NET_TYPE : PRI_NET_OTHER;
		if (p->net_is == PRI_NET_OTHER)
			return;
		p->tags++;
		p->type_at += 4;
		p->net += 4;
	} else if (layout->ether && type == 0x8847) {
		p->net_is = PRI_NET_LABEL;
	} else if (layout->ether && type == 0x8864) {
		p->net_is = PRI_NET_PPPOE;
	} else {
		p->net_is = net_of(type);
	}
}

static uint32_t
type_equals(struct pri_place *p, const struct pri_linktype_layout *layout,
	const struct span *s, struct pri_terms *terms)
{
	unsigned n = layout->form == PRI_TYPE_FAMILY ? 4 : 2;
	uint32_t value;

	if (!known(s, p->type_at, n, n == 4 ? UINT32_MAX : 0xffff, &value))
		return PRI_TERM_TRUE;
	value = pri_linktype_layout_ethertype(layout, value);
	if (!value && layout->form != PRI_TYPE_ETHER)
		return PRI_TERM_TRUE;
	enter(p, layout, value);
	return key_leaf(terms, PRI_KEY_ETHERTYPE, value);
}

static uint32_t
tag_equals(const struct pri_place *p, const struct span *s, struct pri_terms *terms)
{
	uint32_t value;

	if (!p->tags || !known(s, p->type_at - 2u, 2, 0xfff, &value))
		return PRI_TERM_TRUE;
	return key_leaf(terms, PRI_KEY_VLAN, value);
}

static uint32_t
label_equals(struct pri_place *p, const struct span *s, struct pri_terms *terms)
{
	uint32_t value, result = PRI_TERM_TRUE;

	if (p->tags + p->labels >= PRI_KEYS_DEPTH)
		return PRI_TERM_TRUE;
	if (known(s, p->net, 4, 0xfffff000, &value))
		result = key_leaf(terms, PRI_KEY_MPLS, value >> 12);
	if (known(s, p->net + 2u, 1, 1, &value)) {
		p->net_is = value ? PRI_NET_NIBBLE : PRI_NET_LABEL;
		p->labels++;
		p->net += 4;
	}
	return result;
}

static uint32_t
nibble_equals(struct pri_place *p, const struct span *s, struct pri_terms *terms)
{
	uint32_t value, type;

	if (!known(s, p->net, 1, 0xf0, &value) || (value != 0x40 && value != 0x60))
		return PRI_TERM_TRUE;
	type = value == 0x40 ? 0x0800 : 0x86dd;
	p->net_is = net_of(type);
	p->flags = 0;
	return key_leaf(terms, PRI_KEY_ETHERTYPE, type);
}

static uint32_t
pppoe_equals(struct pri_place *p, const struct span *s, struct pri_terms *terms)
{
	uint32_t value;

	if (!known(s, p->net + 6u, 2, 0xffff, &value) || !value)
		return PRI_TERM_TRUE;
	value = value == 0x21 ? 0x0800 : value == 0x57 ? 0x86dd : value;
	p->net_is = net_of(value);
	p->net += 8;
	p->flags = 0;
	return key_leaf(terms, PRI_KEY_ETHERTYPE, value);
}

/* ---- IP ---- */

static void
note_protocol(struct pri_place *p, uint32_t proto)
{
	uint32_t icmp = p->net_is == PRI_NET_IP4 ? 1 : 58;

	if (proto == 6 || proto == 17 || proto == 132)
		p->flags |= PRI_PLACE_PORTS;
	if (proto == icmp)
		p->flags |= PRI_PLACE_ICMP;
	if (p->net_is == PRI_NET_IP6 && proto == 44)
		p->flags |= PRI_PLACE_FRAGMENT6;
}

static uint32_t
protocol_equals(
	struct pri_place *p, const struct span *s, uint32_t at, struct pri_terms *terms)
{
	uint32_t value;

	if (!known(s, at, 1, 0xff, &value))
		return PRI_TERM_TRUE;
	note_protocol(p, value);
	return key_leaf(terms, PRI_KEY_PROTO, value);
}

static uint32_t
fragment_equals(struct pri_place *p, const struct span *s, struct pri_terms *terms)
{
	uint32_t mask, value = number_at(s, p->net + 6u, 2, &mask) & 0x1fff;

	if (value)
		return key_leaf(terms, PRI_KEY_FRAGMENT, 0);
	if ((mask & 0x1fff) == 0x1fff)
		p->flags |= PRI_PLACE_FIRST;
	return PRI_TERM_TRUE;
}

static uint32_t
ip4_equals(struct pri_place *p, const struct span *s, struct pri_terms *terms)
{
	uint32_t result = protocol_equals(p, s, p->net + 9u, terms);

	result = pri_term_and(terms, result, fragment_equals(p, s, terms));
	return pri_term_and(terms, result,
		two_fields(terms, s, PRI_TERM_SRC4, p->net + 12u, PRI_TERM_DST4,
			p->net + 16u, 4));
}

/* Ports and ICMP's type at `at`, which is where they lie by the protocol that is known. */
static uint32_t
transport_equals(const struct pri_place *p, const struct span *s, uint32_t at,
	enum pri_key_kind icmp, struct pri_terms *terms)
{
	uint32_t value, result = PRI_TERM_TRUE;

	if (p->flags & PRI_PLACE_PORTS && known(s, at, 2, 0xffff, &value))
		result = key_leaf(terms, PRI_KEY_SPORT, value);
	if (p->flags & PRI_PLACE_PORTS && known(s, at + 2, 2, 0xffff, &value))
		result = pri_term_and(terms, result, key_leaf(terms, PRI_KEY_DPORT, value));
	if (p->flags & PRI_PLACE_ICMP && known(s, at, 1, 0xff, &value))
		result = pri_term_and(terms, result, key_leaf(terms, icmp, value));
	return result;
}

static uint32_t
ip6_equals(struct pri_place *p, const struct span *s, struct pri_terms *terms)
{
	uint32_t behind = p->net + 40u, result;

	result = transport_equals(p, s, behind, PRI_KEY_ICMP6, terms);
	if (p->flags & PRI_PLACE_FRAGMENT6) {
		uint32_t value;

		if (known(s, behind, 1, 0xff, &value))
			result = pri_term_and(
				terms, result, key_leaf(terms, PRI_KEY_PROTO, value));
	}
	result = pri_term_and(terms, result, protocol_equals(p, s, p->net + 6u, terms));
	return pri_term_and(terms, result,
		two_fields(terms, s, PRI_TERM_SRC6, p->net + 8u, PRI_TERM_DST6,
			p->net + 24u, 16));
}

/* ---- tests ---- */

static uint32_t
net_equals(struct pri_place *p, const struct pri_linktype_layout *layout,
	const struct span *s, struct pri_terms *terms)
{
	switch (p->net_is) {
	case PRI_NET_TYPE:
		return type_equals(p, layout, s, terms);
	case PRI_NET_LABEL:
		return label_equals(p, s, terms);
	case PRI_NET_NIBBLE:
		return nibble_equals(p, s, terms);
	case PRI_NET_PPPOE:
		return pppoe_equals(p, s, terms);
	case PRI_NET_IP4:
		return ip4_equals(p, s, terms);
	case PRI_NET_IP6:
		return ip6_equals(p, s, terms);
	case PRI_NET_ARP:
		return two_fields(terms, s, PRI_TERM_SRC4, p->net + 14u, PRI_TERM_DST4,
			p->net + 24u, 4);
	default:
		return PRI_TERM_TRUE;
	}
}

/* Is `at` counted from behind the header of this very IPv4 packet, and not in a later fragment? */
static bool
behind_ip4(const struct pri_place *p)
{
	return p->net_is == PRI_NET_IP4 && p->flags & PRI_PLACE_FIRST &&
	       p->a.base == p->net;
}

/*
 * What tests on loaded bytes mean, where the place gives them a meaning: the other side of what keys.c
 * does with a packet. The register a holds a load; bits and value are of it as it was loaded. Each
 * returns what holds, PRI_TERM_TRUE where nothing is known, and notes in the place what follows from
 * it. Within the planner only.
 */
static uint32_t
field_equals(struct pri_place *p, const struct pri_linktype_layout *layout, uint32_t bits,
	uint32_t value, struct pri_terms *terms)
{
	struct span s = span_of(&p->a, bits, value);
	uint32_t result = PRI_TERM_TRUE;

	if (p->a.form == PRI_VALUE_LOAD_BEHIND)
		return behind_ip4(p) ? transport_equals(p, &s, p->net, PRI_KEY_ICMP, terms)
				     : PRI_TERM_TRUE;
	if (layout->ether) {
		result = two_fields(terms, &s, PRI_TERM_MAC_DST, 0, PRI_TERM_MAC_SRC, 6, 6);
		result = pri_term_and(terms, result, tag_equals(p, &s, terms));
	}
	return pri_term_and(terms, result, net_equals(p, layout, &s, terms));
}

/* At least one of bits is set. */
static uint32_t
field_any_bit(const struct pri_place *p, uint32_t bits, struct pri_terms *terms)
{
	struct span s = span_of(&p->a, bits, 0);
	uint32_t mask;

	if (p->a.form != PRI_VALUE_LOAD || p->net_is != PRI_NET_IP4)
		return PRI_TERM_TRUE;
	number_at(&s, p->net + 6u, 2, &mask);
	/* all of bits must be of the fragment's offset */
	if ((uint32_t)__builtin_popcount(bits) !=
		(uint32_t)__builtin_popcount(mask & 0x1fff))
		return PRI_TERM_TRUE;
	return key_leaf(terms, PRI_KEY_FRAGMENT, 0);
}

static uint32_t
range_leaf(struct pri_terms *terms, enum pri_number number, uint32_t least, uint32_t most)
{
	struct pri_term_leaf leaf = {.op = PRI_PLAN_RANGE,
		.range = {.number = (uint8_t)number, .least = least, .most = most}};

	return pri_term_leaf(terms, &leaf);
}

/* The whole of what was loaded, as a number. */
static uint32_t
field_within(
	const struct pri_place *p, uint32_t least, uint32_t most, struct pri_terms *terms)
{
	bool behind = p->a.form == PRI_VALUE_LOAD_BEHIND, arp = p->net_is == PRI_NET_ARP;
	uint32_t at = p->a.at, src = p->net + (arp ? 14u : 12u),
		 dst = src + (arp ? 10u : 4u), port = behind ? p->net : p->net + 40u;

	if (behind ? behind_ip4(p) : p->net_is == PRI_NET_IP6) {
		if (!(p->flags & PRI_PLACE_PORTS) || p->a.size != 2)
			return PRI_TERM_TRUE;
		return at == port       ? range_leaf(terms, PRI_NUMBER_SPORT, least, most)
		       : at == port + 2 ? range_leaf(terms, PRI_NUMBER_DPORT, least, most)
					: PRI_TERM_TRUE;
	}
	/* less than the four bytes do not show that an index had the address */
	if (behind || p->a.size != 4 || (p->net_is != PRI_NET_IP4 && !arp))
		return PRI_TERM_TRUE;
	return at == src   ? range_leaf(terms, PRI_NUMBER_SRC4, least, most)
	       : at == dst ? range_leaf(terms, PRI_NUMBER_DST4, least, most)
			   : PRI_TERM_TRUE;
}

/* ---- one instruction ---- */

static const struct pri_value any = {.form = PRI_VALUE_ANY};

void
pri_place_start(struct pri_place *place, const struct pri_linktype_layout *layout)
{
	*place = (struct pri_place){.net_is = PRI_NET_OTHER};
	/* registers begin as 0 */
	place->a.form = place->x.form = PRI_VALUE_CONSTANT;
	if (!layout)
		return;
	place->net_is = layout->form == PRI_TYPE_NIBBLE ? PRI_NET_NIBBLE : PRI_NET_TYPE;
	place->type_at = layout->type_at;
	place->net = layout->net_at;
}

/* ---- instructions ---- */

#define FAR 0xf000u /* what lies further in a packet has no keys; keeps sums short */

static uint32_t
all_bits(unsigned size)
{
	return size == 4 ? UINT32_MAX : (1u << 8 * size) - 1;
}

static struct pri_value
loaded(uint64_t at, unsigned size)
{
	if (size == 4 && pri_bpf_time_at(at) < PRI_TIMES_MAX)
		return (struct pri_value){
			.form = PRI_VALUE_TIME, .at = (uint32_t)pri_bpf_time_at(at)};
	if (at > FAR)
		return any;
	return (struct pri_value){.form = PRI_VALUE_LOAD,
		.size = (uint8_t)size,
		.at = (uint32_t)at,
		.mask = all_bits(size)};
}

static struct pri_value
loaded_behind(const struct pri_value *x, uint32_t k, unsigned size)
{
	struct pri_value v;

	if (x->form == PRI_VALUE_CONSTANT)
		return loaded((uint64_t)x->at + k, size);
	if (x->form != PRI_VALUE_HEADER)
		return any;
	v = loaded(k, size);
	if (v.form == PRI_VALUE_LOAD) {
		v.form = PRI_VALUE_LOAD_BEHIND;
		v.base = (uint16_t)x->at;
	}
	return v;
}

static struct pri_value
constant(uint32_t k)
{
	return (struct pri_value){.form = PRI_VALUE_CONSTANT, .at = k};
}

static struct pri_value
computed(const struct pri_value *a, const struct pri_insn *in)
{
	struct pri_value v = *a;

	if (v.form != PRI_VALUE_LOAD && v.form != PRI_VALUE_LOAD_BEHIND)
		return any;
	if (in->code == AND_K) {
		v.mask &= (uint32_t)((uint64_t)in->k << v.shift);
		return v;
	}
	if (in->code != RSH_K || v.shift + in->k > 31)
		return any;
	v.shift = (uint8_t)(v.shift + in->k);
	v.mask &= UINT32_MAX << v.shift;
	return v;
}

static void
step_load(struct pri_place *p, const struct pri_insn *in)
{
	switch (in->code) {
	case LD_W_ABS:
	case LD_H_ABS:
	case LD_B_ABS:
		p->a = loaded(in->k, in->code == LD_W_ABS   ? 4
				     : in->code == LD_H_ABS ? 2
							    : 1);
		break;
	case LD_W_IND:
	case LD_H_IND:
	case LD_B_IND:
		p->a = loaded_behind(&p->x, in->k,
			in->code == LD_W_IND   ? 4
			: in->code == LD_H_IND ? 2
					       : 1);
		break;
	case LD_LEN:
		p->a = (struct pri_value){.form = PRI_VALUE_LENGTH};
		break;
	case LD_TIME:
		p->a = any;
		break;
	case LD_IMM:
		p->a = constant(in->k);
		break;
	case LDX_IMM:
		p->x = constant(in->k);
		break;
	case LDX_LEN:
		p->x = (struct pri_value){.form = PRI_VALUE_LENGTH};
		break;
	case LDX_MSH:
		p->x = in->k > FAR
			       ? any
			       : (struct pri_value){.form = PRI_VALUE_HEADER, .at = in->k};
		break;
	case LDX_MEM:
		p->x = any;
		break;
	default: /* LD_MEM */
		p->a = any;
	}
}

void
pri_place_step(struct pri_place *p, const struct pri_insn *in)
{
	switch (in->code & CLASS_MASK) {
	case CLASS_LD:
	case CLASS_LDX:
		step_load(p, in);
		break;
	case CLASS_ALU:
		p->a = computed(&p->a, in);
		break;
	case CLASS_MISC:
		if (in->code == TAX)
			p->x = p->a;
		else
			p->a = p->x;
		break;
	default: /* stores: what is loaded from memory is not followed */
		break;
	}
}

/* ---- branches ---- */

/* The register's value lies in [least, most]. */
static uint32_t
within(const struct pri_place *p, const struct pri_linktype_layout *layout, uint32_t least,
	uint32_t most, struct pri_terms *terms)
{
	struct pri_term_leaf leaf = {.op = PRI_PLAN_RANGE,
		.range = {.number = PRI_NUMBER_LENGTH, .least = least, .most = most}};

	if (p->a.form == PRI_VALUE_LENGTH)
		return pri_term_leaf(terms, &leaf);
	if (!layout || p->a.shift || p->a.mask != all_bits(p->a.size ? p->a.size : 1))
		return PRI_TERM_TRUE;
	return field_within(p, least, most, terms);
}

/* The register's bits under bits (of the value as loaded) are those of value. */
static uint32_t
equals(struct pri_place *p, const struct pri_linktype_layout *layout, uint32_t bits,
	uint32_t value, struct pri_terms *terms)
{
	return layout ? field_equals(p, layout, bits, value, terms) : PRI_TERM_TRUE;
}

static uint32_t
branch_equal(struct pri_place *p, const struct pri_linktype_layout *layout, uint32_t k,
	bool taken, struct pri_terms *terms)
{
	uint32_t mask = p->a.mask, value = k << p->a.shift;

	if (taken) {
		if (value >> p->a.shift != k || value & ~mask)
			return PRI_TERM_FALSE;
		return equals(p, layout, mask, value, terms);
	}
	if (mask & (mask - 1) || !mask || value & ~mask)
		return PRI_TERM_TRUE;
	return equals(p, layout, mask, value ^ mask, terms); /* one bit: it is the other */
}

static uint32_t
branch_bits(struct pri_place *p, const struct pri_linktype_layout *layout, uint32_t k,
	bool taken, struct pri_terms *terms)
{
	uint32_t bits = (uint32_t)((uint64_t)k << p->a.shift) & p->a.mask;

	if (!taken)
		return bits ? equals(p, layout, bits, 0, terms) : PRI_TERM_TRUE;
	if (!bits)
		return PRI_TERM_FALSE;
	if (!(bits & (bits - 1)))
		return equals(p, layout, bits, bits, terms);
	return layout ? field_any_bit(p, bits, terms) : PRI_TERM_TRUE;
}

static uint32_t
branch_order(const struct pri_place *p, const struct pri_linktype_layout *layout,
	uint64_t from, bool taken, struct pri_terms *terms)
{
	uint32_t most = p->a.form == PRI_VALUE_LENGTH ? UINT32_MAX : all_bits(p->a.size);

	if (taken)
		return from > most ? PRI_TERM_FALSE
				   : within(p, layout, (uint32_t)from, most, terms);
	if (from == 0)
		return PRI_TERM_FALSE;
	return from > most ? PRI_TERM_TRUE
			   : within(p, layout, 0, (uint32_t)from - 1, terms);
}

/* libpcap tests a term for 1; its range is the catalog's to look up. */
static uint32_t
branch_time(const struct pri_place *p, unsigned op, uint32_t k, bool taken,
	struct pri_terms *terms)
{
	struct pri_term_leaf leaf = {.op = PRI_PLAN_RANGE,
		.range = {
			.number = PRI_NUMBER_TIME, .least = INT64_MIN, .most = INT64_MAX}};
	struct pri_plan_range *r = &leaf.range;
	struct pri_bpf_time t;

	if (op != OP_JEQ || k != 1 || p->a.at >= terms->time_count)
		return PRI_TERM_TRUE;
	t = pri_bpf_time(terms->times, p->a.at);
	if (!taken && t.time == (t.after ? INT64_MIN : INT64_MAX))
		return PRI_TERM_FALSE;
	if (t.after == taken)
		r->least = taken ? t.time : t.time + 1;
	else
		r->most = taken ? t.time : t.time - 1;
	return pri_term_leaf(terms, &leaf);
}

static bool
holds(uint32_t a, unsigned op, uint32_t k)
{
	return op == OP_JEQ   ? a == k
	       : op == OP_JGT ? a > k
	       : op == OP_JGE ? a >= k
			      : (a & k) != 0;
}

uint32_t
pri_place_branch(struct pri_place *p, const struct pri_linktype_layout *layout,
	const struct pri_insn *in, bool taken, struct pri_terms *terms)
{
	unsigned op = in->code & OP_MASK, form = p->a.form;
	uint32_t k = in->k;

	if (in->code & SOURCE_X) {
		if (p->x.form != PRI_VALUE_CONSTANT)
			return PRI_TERM_TRUE;
		k = p->x.at;
	}
	if (form == PRI_VALUE_CONSTANT)
		return holds(p->a.at, op, k) == taken ? PRI_TERM_TRUE : PRI_TERM_FALSE;
	if (form == PRI_VALUE_TIME)
		return branch_time(p, op, k, taken, terms);
	if (form == PRI_VALUE_LENGTH && op == OP_JEQ)
		return taken ? within(p, layout, k, k, terms) : PRI_TERM_TRUE;
	if (op == OP_JGT || op == OP_JGE) {
		if (form == PRI_VALUE_ANY || form == PRI_VALUE_HEADER)
			return PRI_TERM_TRUE;
		if (form != PRI_VALUE_LENGTH &&
			(p->a.shift || p->a.mask != all_bits(p->a.size)))
			return PRI_TERM_TRUE;
		return branch_order(p, layout, (uint64_t)k + (op == OP_JGT), taken, terms);
	}
	if (form != PRI_VALUE_LOAD && form != PRI_VALUE_LOAD_BEHIND)
		return PRI_TERM_TRUE;
	return op == OP_JEQ ? branch_equal(p, layout, k, taken, terms)
			    : branch_bits(p, layout, k, taken, terms);
}
