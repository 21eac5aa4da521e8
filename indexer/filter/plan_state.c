/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/wire/bpf_code.h"
#include "indexer/filter/plan_internal.h"

/* ---- instructions ---- */

static const struct pri_value any = {.form = PRI_VALUE_ANY};

struct pri_state
pri_state_start(const struct pri_linktype_layout *layout, enum pri_value_form registers)
{
	struct pri_state state = {.net_is = PRI_NET_OTHER};

	/* as constants they begin as 0 */
	state.a.form = state.x.form = registers;
	if (!layout)
		return state;
	state.net_is = layout->form == PRI_TYPE_NIBBLE ? PRI_NET_NIBBLE : PRI_NET_TYPE;
	state.type_at = layout->type_at;
	state.net = layout->net_at;
	return state;
}

#define FAR 0xf000u /* bytes further in a packet have no keys; also keeps sums small */

static uint32_t
all_bits(unsigned size)
{
	return size == 4 ? UINT32_MAX : (1u << 8 * size) - 1;
}

static struct pri_value
loaded(uint64_t at, unsigned size)
{
	if (size == 4 && pr_bpf_time_at(at) < PR_TIMES_MAX)
		return (struct pri_value){.form = PRI_VALUE_TIME, .at = pr_bpf_time_at(at)};
	if (at > FAR)
		return any;
	return (struct pri_value){
		.form = PRI_VALUE_LOAD, .size = size, .at = at, .mask = all_bits(size)};
}

static struct pri_value
load(const struct pri_state *s, const struct pr_insn *in)
{
	unsigned size = pr_insn_size(in);
	struct pri_value v = any;

	switch (BPF_MODE(in->code)) {
	case BPF_ABS:
		return loaded(in->k, size);
	case BPF_IND:
		if (s->x.form == PRI_VALUE_CONSTANT)
			return loaded((uint64_t)s->x.at + in->k, size);
		if (s->x.form == PRI_VALUE_HEADER)
			v = loaded(in->k, size);
		if (v.form != PRI_VALUE_LOAD)
			return v;
		v.form = PRI_VALUE_LOAD_BEHIND;
		v.base = s->x.at;
		return v;
	case BPF_LEN:
		return (struct pri_value){.form = PRI_VALUE_LENGTH};
	case BPF_IMM:
		return (struct pri_value){.form = PRI_VALUE_CONSTANT, .at = in->k};
	case BPF_MSH:
		if (in->k <= FAR)
			v = (struct pri_value){.form = PRI_VALUE_HEADER, .at = in->k};
		return v;
	default: /* scratch memory and terms of time are not tracked */
		return v;
	}
}

static struct pri_value
computed(struct pri_value v, const struct pr_insn *in)
{
	if (v.form != PRI_VALUE_LOAD && v.form != PRI_VALUE_LOAD_BEHIND)
		return any;
	if (in->code == AND_K) {
		v.mask &= (uint64_t)in->k << v.shift;
		return v;
	}
	if (in->code != RSH_K || v.shift + in->k > 31)
		return any;
	v.shift = v.shift + in->k;
	v.mask &= UINT32_MAX << v.shift;
	return v;
}

void
pri_state_step(struct pri_state *s, const struct pr_insn *in)
{
	unsigned class = BPF_CLASS(in->code);

	if (class == BPF_LD)
		s->a = load(s, in);
	else if (class == BPF_LDX)
		s->x = load(s, in);
	else if (class == BPF_ALU)
		s->a = computed(s->a, in);
	else if (in->code == TAX)
		s->x = s->a;
	else if (in->code == TXA)
		s->a = s->x;
}

/* ---- what a test of loaded bytes implies ---- */

/* A test of the register a, and what is known if its bits under mask are those of value. */
struct test {
	struct pri_state *state;
	/* NULL: nothing is known of such packets */
	const struct pri_linktype_layout *layout;
	struct pri_terms *terms;
	uint32_t holds; /* what was found so far */
	/* len bytes of the packet as a number, and which of its bits are known */
	uint32_t at, len, mask, value;
};

/* The n bytes (at most 4) at `at`, as a number; bits that are not known are 0 in *mask. */
static uint32_t
number_at(const struct test *t, uint32_t at, unsigned n, uint32_t *mask)
{
	uint32_t value = 0;

	*mask = 0;
	for (unsigned i = 0; i < n; i++) {
		uint32_t behind = t->at + t->len - 1 - (at + i); /* of the bytes */
		bool inside = behind < t->len;

		*mask = *mask << 8 | (inside ? t->mask >> 8 * behind & 0xff : 0);
		value = value << 8 | (inside ? t->value >> 8 * behind & 0xff : 0);
	}
	return value;
}

static bool
known(const struct test *t, uint32_t at, unsigned n, uint32_t bits, uint32_t *value)
{
	uint32_t mask;

	*value = number_at(t, at, n, &mask) & bits;
	return (mask & bits) == bits;
}

static void
say(struct test *t, const struct pri_term_leaf *leaf)
{
	t->holds = pri_term_and(t->terms, t->holds, pri_term_leaf(t->terms, leaf));
}

static void
say_key(struct test *t, enum pri_key_kind kind, uint32_t value)
{
	say(t, &(struct pri_term_leaf){
		       .op = PRI_PLAN_KEY, .key = pri_key_number(kind, value)});
}

static void
say_range(struct test *t, enum pri_number number, int64_t least, int64_t most)
{
	say(t, &(struct pri_term_leaf){.op = PRI_PLAN_RANGE,
		       .range = {.number = number, .least = least, .most = most}});
}

/* What is known of a field of len bytes at `at`. */
static void
say_bytes(struct test *t, enum pri_term_field field, uint32_t at, unsigned len)
{
	struct pri_term_leaf leaf = {
		.op = PRI_TERM_BYTES, .field = field, .whole = t->at + t->len >= at + len};
	bool some = false;

	for (unsigned i = 0; i < t->len; i++) {
		uint32_t byte = t->at + i - at;
		unsigned shift = 8 * (t->len - 1 - i);

		if (byte >= len || !(t->mask >> shift & 0xff))
			continue;
		leaf.mask[byte] = t->mask >> shift;
		leaf.value[byte] = t->value >> shift;
		some = true;
	}
	if (some)
		say(t, &leaf);
}

/* ---- types, tags, labels ---- */

/* What lies at net is of this type. tagged: tags and labels may come. */
static void
enter(struct test *t, uint32_t type, bool tagged)
{
	struct pri_state *s = t->state;

	s->flags = 0;
	s->net_is = type == PR_ETHERTYPE_IP4                                ? PRI_NET_IP4
		    : type == PR_ETHERTYPE_IP6                              ? PRI_NET_IP6
		    : type == PR_ETHERTYPE_ARP || type == PR_ETHERTYPE_RARP ? PRI_NET_ARP
		    : tagged && type == PR_ETHERTYPE_MPLS                   ? PRI_NET_LABEL
		    : tagged && type == PR_ETHERTYPE_PPPOE                  ? PRI_NET_PPPOE
									    : PRI_NET_OTHER;
	if (tagged && pri_is_vlan_tag(type) && s->tags < PRI_KEYS_DEPTH) {
		s->net_is = PRI_NET_TYPE;
		s->tags++;
		s->type_at += 4;
		s->net += 4;
	}
	say_key(t, PRI_KEY_ETHERTYPE, type);
}

static void
type_equals(struct test *t)
{
	unsigned n = t->layout->form == PRI_TYPE_FAMILY ? 4 : 2;
	uint32_t value;

	if (!known(t, t->state->type_at, n, n == 4 ? UINT32_MAX : 0xffff, &value))
		return;
	value = pri_linktype_layout_ethertype(t->layout, value);
	if (value || t->layout->form == PRI_TYPE_ETHER)
		enter(t, value, t->layout->ether);
}

static void
label_equals(struct test *t)
{
	struct pri_state *s = t->state;
	uint32_t value;

	if (s->tags + s->labels >= PRI_KEYS_DEPTH)
		return;
	if (known(t, s->net, 4, 0xfffff000, &value))
		say_key(t, PRI_KEY_MPLS, value >> 12);
	if (known(t, s->net + 2u, 1, 1, &value)) {
		s->net_is = value ? PRI_NET_NIBBLE : PRI_NET_LABEL;
		s->labels++;
		s->net += 4;
	}
}

/* What lies behind labels, or begins a packet of raw IP. */
static void
nibble_equals(struct test *t)
{
	uint32_t value;

	if (known(t, t->state->net, 1, 0xf0, &value) && (value == 0x40 || value == 0x60))
		enter(t, value == 0x40 ? PR_ETHERTYPE_IP4 : PR_ETHERTYPE_IP6, false);
}

static void
pppoe_equals(struct test *t)
{
	uint32_t value;

	if (!known(t, t->state->net + 6u, 2, 0xffff, &value) || !value)
		return;
	t->state->net += 8;
	enter(t,
		value == 0x21   ? PR_ETHERTYPE_IP4
		: value == 0x57 ? PR_ETHERTYPE_IP6
				: value,
		false);
}

/* ---- IP ---- */

static void
protocol_equals(struct test *t, uint32_t at)
{
	struct pri_state *s = t->state;
	uint32_t proto;

	if (!known(t, at, 1, 0xff, &proto))
		return;
	if (pri_has_ports(proto))
		s->flags |= PRI_STATE_PORTS;
	if (proto == (s->net_is == PRI_NET_IP4 ? 1 : 58))
		s->flags |= PRI_STATE_ICMP;
	if (s->net_is == PRI_NET_IP6 && proto == 44)
		s->flags |= PRI_STATE_FRAGMENT6;
	say_key(t, PRI_KEY_PROTO, proto);
}

static void
ip4_equals(struct test *t)
{
	struct pri_state *s = t->state;
	uint32_t mask;

	protocol_equals(t, s->net + 9u);
	if (number_at(t, s->net + 6u, 2, &mask) & 0x1fff)
		say_key(t, PRI_KEY_FRAGMENT, 0);
	else if ((mask & 0x1fff) == 0x1fff)
		s->flags |= PRI_STATE_FIRST;
	say_bytes(t, PRI_TERM_SRC4, s->net + 12u, 4);
	say_bytes(t, PRI_TERM_DST4, s->net + 16u, 4);
}

/* Ports and ICMP's type at `at`, which is where they lie by the protocol that is known. */
static void
transport_equals(struct test *t, uint32_t at, enum pri_key_kind icmp)
{
	uint8_t flags = t->state->flags;
	uint32_t value;

	if (flags & PRI_STATE_PORTS && known(t, at, 2, 0xffff, &value))
		say_key(t, PRI_KEY_SPORT, value);
	if (flags & PRI_STATE_PORTS && known(t, at + 2, 2, 0xffff, &value))
		say_key(t, PRI_KEY_DPORT, value);
	if (flags & PRI_STATE_ICMP && known(t, at, 1, 0xff, &value))
		say_key(t, icmp, value);
}

static void
ip6_equals(struct test *t)
{
	uint32_t net = t->state->net, value;

	transport_equals(t, net + 40, PRI_KEY_ICMP6);
	if (t->state->flags & PRI_STATE_FRAGMENT6 && known(t, net + 40, 1, 0xff, &value))
		say_key(t, PRI_KEY_PROTO, value);
	protocol_equals(t, net + 6);
	say_bytes(t, PRI_TERM_SRC6, net + 8, 16);
	say_bytes(t, PRI_TERM_DST6, net + 24, 16);
}

static void
arp_equals(struct test *t)
{
	say_bytes(t, PRI_TERM_SRC4, t->state->net + 14u, 4);
	say_bytes(t, PRI_TERM_DST4, t->state->net + 24u, 4);
}

/*
 * True if `at` is relative to the end of the header of this IPv4 packet, and the packet is
 * not a later fragment.
 */
static bool
behind_ip4(const struct pri_state *s)
{
	return s->net_is == PRI_NET_IP4 && s->flags & PRI_STATE_FIRST &&
	       s->a.base == s->net;
}

/* The register's bits under bits (of the value as loaded) are those of value. */
static void
know(struct test *t, uint32_t bits, uint32_t value)
{
	t->at = t->state->a.at;
	t->len = t->state->a.size;
	t->mask = bits;
	t->value = value & bits;
}

static uint32_t
equals(struct test *t, uint32_t bits, uint32_t value)
{
	static void (*const by_net[])(struct test *) = {[PRI_NET_TYPE] = type_equals,
		[PRI_NET_LABEL] = label_equals,
		[PRI_NET_NIBBLE] = nibble_equals,
		[PRI_NET_PPPOE] = pppoe_equals,
		[PRI_NET_IP4] = ip4_equals,
		[PRI_NET_IP6] = ip6_equals,
		[PRI_NET_ARP] = arp_equals,
		[PRI_NET_OTHER] = NULL};
	struct pri_state *s = t->state;

	know(t, bits, value);
	if (!t->layout)
		return PRI_TERM_TRUE;
	if (s->a.form == PRI_VALUE_LOAD_BEHIND) {
		if (behind_ip4(s))
			transport_equals(t, s->net, PRI_KEY_ICMP);
		return t->holds;
	}
	if (t->layout->ether) {
		say_bytes(t, PRI_TERM_MAC_DST, 0, 6);
		say_bytes(t, PRI_TERM_MAC_SRC, 6, 6);
		if (s->tags && known(t, s->type_at - 2u, 2, 0xfff, &value))
			say_key(t, PRI_KEY_VLAN, value);
	}
	if (by_net[s->net_is])
		by_net[s->net_is](t);
	return t->holds;
}

/* ---- branches ---- */

static uint32_t
branch_equal(struct test *t, uint32_t k, bool taken)
{
	const struct pri_value *a = &t->state->a;
	uint32_t mask = a->mask, value = k << a->shift;
	bool possible = value >> a->shift == k && !(value & ~mask);

	if (taken)
		return possible ? equals(t, mask, value) : PRI_TERM_FALSE;
	if (mask & (mask - 1) || !mask || value & ~mask)
		return PRI_TERM_TRUE;
	return equals(t, mask, value ^ mask); /* a single bit, so it has the other value */
}

static uint32_t
branch_bits(struct test *t, uint32_t k, bool taken)
{
	const struct pri_state *s = t->state;
	uint32_t bits = ((uint64_t)k << s->a.shift) & s->a.mask, mask;

	if (!bits)
		return taken ? PRI_TERM_FALSE : PRI_TERM_TRUE;
	if (!taken)
		return equals(t, bits, 0);
	if (!(bits & (bits - 1)))
		return equals(t, bits, bits);
	/*
	 * at least one of several bits is set: this tells something of an IPv4 fragment's
	 * offset
	 */
	know(t, bits, 0);
	number_at(t, s->net + 6u, 2, &mask);
	if (t->layout && s->a.form == PRI_VALUE_LOAD && s->net_is == PRI_NET_IP4 &&
		__builtin_popcount(bits) == __builtin_popcount(mask & 0x1fff))
		say_key(t, PRI_KEY_FRAGMENT, 0);
	return t->holds;
}

/* The whole of what was loaded, as a number: a port, or an IPv4 address. */
static uint32_t
within(struct test *t, uint32_t least, uint32_t most)
{
	const struct pri_state *s = t->state;
	bool behind = s->a.form == PRI_VALUE_LOAD_BEHIND, arp = s->net_is == PRI_NET_ARP,
	     ports = s->flags & PRI_STATE_PORTS && s->a.size == 2 &&
		     (behind ? behind_ip4(s) : s->net_is == PRI_NET_IP6),
	     addresses = !behind && s->a.size == 4 && (s->net_is == PRI_NET_IP4 || arp);
	uint32_t src = ports ? (behind ? s->net : s->net + 40u)
			     : s->net + (arp ? 14u : 12u),
		 dst = src + (ports        ? 2u
				     : arp ? 10u
					   : 4u);
	enum pri_number number = ports ? PRI_NUMBER_SPORT : PRI_NUMBER_SRC4;

	if (s->a.form == PRI_VALUE_LENGTH)
		say_range(t, PRI_NUMBER_LENGTH, least, most);
	else if (!t->layout)
		return PRI_TERM_TRUE;
	/* of an address less than the four bytes do not show that an index had it */
	else if ((ports || addresses) && (s->a.at == src || s->a.at == dst))
		say_range(t, s->a.at == src ? number : number + 1, least, most);
	return t->holds;
}

static uint32_t
branch_order(struct test *t, uint64_t from, bool taken)
{
	const struct pri_value *a = &t->state->a;
	bool length = a->form == PRI_VALUE_LENGTH;
	uint32_t most = length ? UINT32_MAX : all_bits(a->size ? a->size : 1);

	if (a->form == PRI_VALUE_ANY || a->form == PRI_VALUE_HEADER ||
		(!length && (a->shift || a->mask != most)))
		return PRI_TERM_TRUE;
	if (taken)
		return from > most ? PRI_TERM_FALSE : within(t, from, most);
	if (from == 0)
		return PRI_TERM_FALSE;
	return from > most ? PRI_TERM_TRUE : within(t, 0, from - 1);
}

/* libpcap compares a term of time with 1. The catalog looks up its range. */
static uint32_t
branch_time(struct test *t, unsigned op, uint32_t k, bool taken)
{
	const struct pri_terms *terms = t->terms;

	if (op != BPF_JEQ || k != 1 || t->state->a.at >= terms->time_count)
		return PRI_TERM_TRUE;
	struct pr_bpf_time time = pr_bpf_time(terms->times, t->state->a.at);
	if (!taken && time.time == (time.after ? INT64_MIN : INT64_MAX))
		return PRI_TERM_FALSE;
	if (time.after == taken)
		say_range(t, PRI_NUMBER_TIME, taken ? time.time : time.time + 1, INT64_MAX);
	else
		say_range(t, PRI_NUMBER_TIME, INT64_MIN, taken ? time.time : time.time - 1);
	return t->holds;
}

uint32_t
pri_state_branch(struct pri_state *s, const struct pri_linktype_layout *layout,
	const struct pr_insn *in, bool taken, struct pri_terms *terms)
{
	struct test t = {
		.state = s, .layout = layout, .terms = terms, .holds = PRI_TERM_TRUE};
	unsigned op = BPF_OP(in->code), form = s->a.form;
	uint32_t k = in->k;

	if (in->code & BPF_X) {
		if (s->x.form != PRI_VALUE_CONSTANT)
			return PRI_TERM_TRUE;
		k = s->x.at;
	}
	if (form == PRI_VALUE_CONSTANT)
		return pr_insn_holds(op, s->a.at, k) == taken ? PRI_TERM_TRUE
							      : PRI_TERM_FALSE;
	if (form == PRI_VALUE_TIME)
		return branch_time(&t, op, k, taken);
	if (form == PRI_VALUE_LENGTH && op == BPF_JEQ)
		return taken ? within(&t, k, k) : PRI_TERM_TRUE;
	if (op == BPF_JGT || op == BPF_JGE)
		return branch_order(&t, (uint64_t)k + (op == BPF_JGT), taken);
	if (form != PRI_VALUE_LOAD && form != PRI_VALUE_LOAD_BEHIND)
		return PRI_TERM_TRUE;
	return op == BPF_JEQ ? branch_equal(&t, k, taken) : branch_bits(&t, k, taken);
}
