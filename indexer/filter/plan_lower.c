/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "indexer/filter/plan_internal.h"
#include "indexer/filter/plan.h"
#include "indexer/index/index_key.h"
#include "proto/base/array.h"
#include "proto/base/cursor.h"

/* ---- keys that come together ---- */

static const struct pri_key *
key_of(const struct pri_terms *t, uint32_t node)
{
	return pri_term_is(t, node, PRI_PLAN_KEY) ? &pri_term_leaf_of(t, node)->key : NULL;
}

static const struct pri_key *
find_key(const struct pri_terms *t, const uint32_t *parts, size_t count,
	enum pri_key_kind kind)
{
	for (size_t i = 0; i < count; i++) {
		const struct pri_key *key = key_of(t, parts[i]);

		if (key && key->kind == kind)
			return key;
	}
	return NULL;
}

/*
 * Keys that a filter fixes together, of the parts of an AND: what is made of them is one part more, which
 * says that a packet has them at once. Within the planner only.
 */
static uint32_t
plan_key(struct pri_terms *t, const struct pri_key *key)
{
	struct pri_term_leaf leaf = {.op = PRI_PLAN_KEY, .key = *key};

	return pri_term_leaf(t, &leaf);
}

/* The PAIR of addresses that are both there; TRUE: they are not. */
static uint32_t
plan_pairs(struct pri_terms *t, const uint32_t *parts, size_t count)
{
	const struct pri_key *src = find_key(t, parts, count, PRI_KEY_SRC),
			     *dst = find_key(t, parts, count, PRI_KEY_DST);
	struct pri_key pair;

	if (!src || !dst || src->len != dst->len)
		return PRI_TERM_TRUE;
	pair = pri_key_pair(src->bytes, dst->bytes, src->len);
	return plan_key(t, &pair);
}

#define FIXED_DEPTH 5 /* of what is looked into: ORs and ANDs one in the other */

/* The ADDRESS or PORT that each packet has for which a formula holds, on either side; false: none is sure. */
static bool
fixes(const struct pri_terms *t, uint32_t node, enum pri_key_kind kind, unsigned depth,
	struct pri_key *out)
{
	const struct pri_plan_node *n = &t->nodes[node];
	struct pri_key other;

	if (depth == FIXED_DEPTH)
		return false;
	if (n->op == PRI_PLAN_AND)
		return fixes(t, n->left, kind, depth + 1, out) ||
		       fixes(t, n->right, kind, depth + 1, out);
	if (n->op == PRI_PLAN_OR)
		return fixes(t, n->left, kind, depth + 1, out) &&
		       fixes(t, n->right, kind, depth + 1, &other) &&
		       pri_key_equal(out, &other);
	if (n->op != PRI_PLAN_KEY)
		return false;
	*out = pri_key_either(key_of(t, node));
	return out->kind == kind;
}

/* The first of the parts' keys of this kind, ADDRESS or PORT, that is sure on either side. */
static bool
find_fixed(const struct pri_terms *t, const uint32_t *parts, size_t count,
	enum pri_key_kind kind, struct pri_key *out)
{
	size_t i = 0;

	while (i < count && !fixes(t, parts[i], kind, 0, out))
		i++;
	return i < count;
}

/* The SERVICE keys of addresses and well-known ports that come together; TRUE: none. */
static uint32_t
plan_services(struct pri_terms *t, const uint32_t *parts, size_t count)
{
	struct pri_key address, port, service;
	uint32_t term = PRI_TERM_TRUE;

	for (size_t i = 0; i < count; i++) {
		if (!fixes(t, parts[i], PRI_KEY_PORT, 0, &port) ||
			!pri_port_is_service(pr_get_be16(port.bytes)))
			continue;
		for (size_t j = 0; j < count; j++) {
			if (!fixes(t, parts[j], PRI_KEY_ADDRESS, 0, &address))
				continue;
			service = pri_key_service(
				address.bytes, address.len, pr_get_be16(port.bytes));
			term = pri_term_and(t, term, plan_key(t, &service));
		}
	}
	return term;
}

/* ---- composites as configured ---- */

static bool
is_parts(const struct pri_terms *t, uint32_t node, bool with_addresses)
{
	const struct pri_key *key = key_of(t, node);

	return key && key->kind == PRI_KEY_PARTS &&
	       (with_addresses || !(key->bytes[0] & (PRI_PART_SRC | PRI_PART_DST)));
}

/* Returns how many parts of an AND stay without those that are of kind PARTS. */
static size_t
drop_parts(const struct pri_terms *t, uint32_t *parts, size_t count, bool with_addresses)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++)
		if (!is_parts(t, parts[i], with_addresses))
			parts[kept++] = parts[i];
	return kept;
}

/* One key of kind PARTS of these; TRUE: they are fewer than two. */
static uint32_t
parts_key(struct pri_terms *t, const struct pri_key *const keys[PRI_PARTS])
{
	struct pri_key all = pri_key_parts(keys);

	return all.bytes[0] & (all.bytes[0] - 1) ? plan_key(t, &all) : PRI_TERM_TRUE;
}

/*
 * All keys that composites as configured can be made of, as one of kind PARTS; of a host and a port on either
 * side one for each of the ways, of which a packet has one. TRUE: fewer than two. Those that were made of some
 * of the keys say nothing more then, and are dropped.
 */
static uint32_t
plan_composites(struct pri_terms *t, uint32_t *parts, size_t *count)
{
	static const uint8_t kinds[PRI_PARTS] = {PRI_KEY_SRC, PRI_KEY_DST, PRI_KEY_SPORT,
		PRI_KEY_DPORT, PRI_KEY_PROTO, PRI_KEY_VLAN};
	const struct pri_key *keys[PRI_PARTS];
	struct pri_key address, port;
	bool any_address, any_port;
	uint32_t term = PRI_TERM_FALSE;

	for (int i = 0; i < PRI_PARTS; i++)
		keys[i] = find_key(t, parts, *count, (enum pri_key_kind)kinds[i]);
	any_address = !keys[0] && !keys[1] &&
		      find_fixed(t, parts, *count, PRI_KEY_ADDRESS, &address);
	any_port =
		!keys[2] && !keys[3] && find_fixed(t, parts, *count, PRI_KEY_PORT, &port);
	if (!(any_address || keys[0] || keys[1]) || !(any_port || keys[2] || keys[3]))
		any_address = any_port = false;
	for (unsigned way = 0; way < 4; way++) {
		const struct pri_key *of[PRI_PARTS];

		if ((way & 1 && !any_address) || (way & 2 && !any_port))
			continue;
		memcpy(of, keys, sizeof(of));
		if (any_address)
			of[way & 1] = &address;
		if (any_port)
			of[2 + (way >> 1)] = &port;
		term = pri_term_or(t, term, parts_key(t, of));
	}
	if (term != PRI_TERM_TRUE)
		*count = drop_parts(t, parts, *count, true);
	return term;
}

/* ---- one test as a look-up ---- */

static unsigned
leading_bits(const uint8_t *mask, unsigned bytes)
{
	unsigned bits = 0;

	while (bits < 8 * bytes && mask[bits / 8] & 0x80 >> bits % 8)
		bits++;
	return bits;
}

static uint32_t
bytes_key(struct pri_terms *t, enum pri_key_kind kind, const uint8_t *bytes, size_t len)
{
	struct pri_key key = pri_key_bytes(kind, bytes, len);

	return plan_key(t, &key);
}

/* How many leading bytes of an address make the longest NET key; 0: none. */
static size_t
prefix_len(unsigned bits, size_t len)
{
	if (len == 4)
		return bits / 8;
	return len < 16 || bits < 32 ? 0 : bits >= 64 ? 8 : bits >= 48 ? 6 : 4;
}

/* A whole key; else a prefix, and of IPv4 the range of numbers that the prefix does not say. */
static uint32_t
lower_bytes(struct pri_terms *t, const struct pri_term_leaf *leaf)
{
	static const struct {
		uint8_t kind, len, number;
	} fields[] = {
		[PRI_TERM_SRC4] = {PRI_KEY_SRC, 4, PRI_NUMBER_SRC4},
		[PRI_TERM_DST4] = {PRI_KEY_DST, 4, PRI_NUMBER_DST4},
		[PRI_TERM_SRC6] = {PRI_KEY_SRC, 16, 0},
		[PRI_TERM_DST6] = {PRI_KEY_DST, 16, 0},
		[PRI_TERM_MAC_SRC] = {PRI_KEY_MAC_SRC, 6, 0},
		[PRI_TERM_MAC_DST] = {PRI_KEY_MAC_DST, 6, 0},
	};
	size_t len = fields[leaf->field].len, prefix;
	unsigned bits = leading_bits(leaf->mask, (unsigned)len);
	struct pri_term_leaf range = {
		.op = PRI_PLAN_RANGE, .range = {.number = fields[leaf->field].number}};
	uint32_t mask, net = PRI_TERM_TRUE;

	if (bits == 8 * len)
		return bytes_key(
			t, (enum pri_key_kind)fields[leaf->field].kind, leaf->value, len);
	prefix = prefix_len(bits, len);
	if (prefix)
		net = bytes_key(t, PRI_KEY_NET, leaf->value, prefix);
	if (len != 4 || bits % 8 == 0 || !leaf->whole)
		return net;
	mask = UINT32_MAX << (32 - bits);
	range.range.least = pr_get_be32(leaf->value) & mask;
	range.range.most = range.range.least | ~mask;
	return pri_term_and(t, net, pri_term_leaf(t, &range));
}

/* One test of a program as what an index can be asked, or TRUE: it may match. Returns the term. */
static uint32_t
plan_leaf(struct pri_terms *t, uint32_t node)
{
	struct pri_term_leaf leaf = *pri_term_leaf_of(t, node);
	struct pri_key port;

	if (leaf.op == PRI_TERM_BYTES)
		return lower_bytes(t, &leaf);
	if (leaf.op != PRI_PLAN_RANGE || pri_plan_range_ports(&leaf.range) != 1)
		return node;
	port = pri_plan_range_port(&leaf.range, 0);
	return plan_key(t, &port);
}

/* ---- what is sure ---- */

/* What a packet can be for which a formula holds. */
#define TYPE_IP 1
#define TYPE_IP6 2
#define TYPE_IPS (TYPE_IP | TYPE_IP6)
#define TYPE_ARP 4
#define TYPE_RARP 8
#define TYPE_IP4 (TYPE_IP | TYPE_ARP | TYPE_RARP) /* has IPv4 addresses */
#define TYPES 31
#define PROTO_TCP 32
#define PROTO_UDP 64
#define PROTO_SCTP 128
#define PROTO_PORTS (PROTO_TCP | PROTO_UDP | PROTO_SCTP)
#define PROTO_ICMP 256
#define PROTO_ICMP6 512
#define PROTOS (PROTO_PORTS | PROTO_ICMP | PROTO_ICMP6 | 1024)
#define UNTAGGED 2048 /* it may have no VLAN tag */
#define ALL (TYPES | PROTOS | UNTAGGED)

struct sure {
	uint16_t possible;
	uint16_t
		only; /* TYPES, TYPES | PROTOS, or UNTAGGED: the formula says no more than these */
};

struct lower {
	struct pri_terms *t;
	struct sure *sure; /* of nodes, the first known of them */
	uint32_t known;
	size_t room;
};

static struct sure
sure_of_key(const struct pri_key *key)
{
	static const struct {
		uint8_t kind;
		uint16_t value; /* the first two bytes, or the only one; 0: any */
		struct sure sure;
	} t[] = {
		{PRI_KEY_ETHERTYPE, PRI_ETHERTYPE_IP, {ALL & ~(TYPES & ~TYPE_IP), TYPES}},
		{PRI_KEY_ETHERTYPE, PRI_ETHERTYPE_IP6, {ALL & ~(TYPES & ~TYPE_IP6), TYPES}},
		{PRI_KEY_ETHERTYPE, PRI_ETHERTYPE_ARP, {ALL & ~(TYPES & ~TYPE_ARP), TYPES}},
		{PRI_KEY_ETHERTYPE, PRI_ETHERTYPE_RARP,
			{ALL & ~(TYPES & ~TYPE_RARP), TYPES}},
		{PRI_KEY_ETHERTYPE, 0x8100, {ALL & ~UNTAGGED, UNTAGGED}},
		{PRI_KEY_ETHERTYPE, 0x88a8, {ALL & ~UNTAGGED, UNTAGGED}},
		{PRI_KEY_ETHERTYPE, 0x9100, {ALL & ~UNTAGGED, UNTAGGED}},
		{PRI_KEY_VLAN, 0, {ALL & ~UNTAGGED, 0}},
		{PRI_KEY_PROTO, 6, {TYPE_IPS | PROTO_TCP | UNTAGGED, TYPES | PROTOS}},
		{PRI_KEY_PROTO, 17, {TYPE_IPS | PROTO_UDP | UNTAGGED, TYPES | PROTOS}},
		{PRI_KEY_PROTO, 132, {TYPE_IPS | PROTO_SCTP | UNTAGGED, TYPES | PROTOS}},
		{PRI_KEY_PROTO, 1, {TYPE_IPS | PROTO_ICMP | UNTAGGED, TYPES | PROTOS}},
		{PRI_KEY_PROTO, 58, {TYPE_IPS | PROTO_ICMP6 | UNTAGGED, TYPES | PROTOS}},
		{PRI_KEY_PROTO, 0, {TYPE_IPS | PROTOS | UNTAGGED, 0}},
		{PRI_KEY_SPORT, 0, {TYPE_IPS | PROTO_PORTS | UNTAGGED, 0}},
		{PRI_KEY_DPORT, 0, {TYPE_IPS | PROTO_PORTS | UNTAGGED, 0}},
		{PRI_KEY_ICMP, 0, {TYPE_IP | PROTO_ICMP | UNTAGGED, 0}},
		{PRI_KEY_ICMP6, 0, {TYPE_IP6 | PROTO_ICMP6 | UNTAGGED, 0}},
		{PRI_KEY_FRAGMENT, 0, {TYPE_IP | PROTOS | UNTAGGED, 0}},
	};
	uint16_t value = key->len == 1 ? key->bytes[0] : pr_get_be16(key->bytes);
	bool address = key->kind == PRI_KEY_SRC || key->kind == PRI_KEY_DST;

	if (address || key->kind == PRI_KEY_NET) {
		bool ip4 = address ? key->len == 4 : key->len < 4;

		return (struct sure){
			.possible = PROTOS | UNTAGGED | (ip4 ? TYPE_IP4 : TYPE_IP6)};
	}
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++)
		if (t[i].kind == key->kind && (!t[i].value || t[i].value == value))
			return t[i].sure;
	return (struct sure){.possible = ALL};
}

static struct sure
sure_of_node(const struct lower *l, uint32_t node)
{
	const struct pri_plan_node *n = &l->t->nodes[node];
	const struct sure *a = &l->sure[n->left], *b = &l->sure[n->right];
	unsigned number;

	switch (n->op) {
	case PRI_PLAN_KEY:
		return sure_of_key(&pri_term_leaf_of(l->t, node)->key);
	case PRI_PLAN_RANGE:
		number = pri_term_leaf_of(l->t, node)->range.number;
		if (number == PRI_NUMBER_SPORT || number == PRI_NUMBER_DPORT)
			return (struct sure){.possible = TYPE_IPS | PROTO_PORTS | UNTAGGED};
		if (number == PRI_NUMBER_SRC4 || number == PRI_NUMBER_DST4)
			return (struct sure){.possible = TYPE_IP4 | PROTOS | UNTAGGED};
		return (struct sure){.possible = ALL};
	case PRI_PLAN_AND:
		return (struct sure){.possible = a->possible & b->possible};
	case PRI_PLAN_OR:
		return (struct sure){.possible = a->possible | b->possible,
			.only = a->only == b->only ? a->only : 0};
	default:
		return (struct sure){.possible = ALL};
	}
}

/* false: no memory. */
static bool
know_all(struct lower *l)
{
	if (PR_ARRAY_RESERVE(l->sure, l->room, l->t->count) < 0) {
		l->t->failed = true;
		return false;
	}
	for (; l->known < l->t->count; l->known++)
		l->sure[l->known] = sure_of_node(l, l->known);
	return true;
}

/* Is part i said by the others already? */
static bool
implied(const struct lower *l, const uint32_t *parts, size_t count, size_t i)
{
	const struct sure *s = &l->sure[parts[i]];
	uint16_t rest = ALL;

	for (size_t j = 0; j < count; j++)
		if (j != i)
			rest &= l->sure[parts[j]].possible;
	return s->only && !(rest & s->only & ~s->possible);
}

static size_t
drop_implied(const struct lower *l, uint32_t *parts, size_t count)
{
	for (size_t i = count; i-- > 0;)
		if (implied(l, parts, count, i)) {
			memmove(parts + i, parts + i + 1, (count - i - 1) * sizeof(*parts));
			count--;
		}
	return count;
}

/* ---- and ---- */

static uint32_t
lower_and(struct lower *l, uint32_t a, uint32_t b)
{
	uint32_t both = pri_term_and(l->t, a, b), parts[PRI_TERM_PARTS], more;
	size_t count;

	if (!know_all(l) || !pri_term_is(l->t, both, PRI_PLAN_AND))
		return both;
	count = pri_term_parts(l->t, both, parts, 0);
	if (!count)
		return both;
	more = plan_pairs(l->t, parts, count);
	more = pri_term_and(l->t, more, plan_services(l->t, parts, count));
	more = pri_term_and(l->t, more, plan_composites(l->t, parts, &count));
	count = drop_implied(l, parts, count);
	return pri_term_and(l->t, more, pri_term_join(l->t, parts, count));
}

/* ---- or ---- */

#define FACTOR_DEPTH 4

static uint32_t lower_or(struct lower *l, uint32_t a, uint32_t b, unsigned depth);

/* Moves what both have from a and b to common; all three sorted. */
static size_t
split_common(uint32_t *a, size_t *na, uint32_t *b, size_t *nb, uint32_t *common)
{
	size_t n = 0, i = 0, j = 0, ka = 0, kb = 0;

	while (i < *na && j < *nb)
		if (a[i] == b[j]) {
			common[n++] = a[i++];
			j++;
		} else if (a[i] < b[j]) {
			a[ka++] = a[i++];
		} else {
			b[kb++] = b[j++];
		}
	while (i < *na)
		a[ka++] = a[i++];
	while (j < *nb)
		b[kb++] = b[j++];
	*na = ka;
	*nb = kb;
	return n;
}

/* (c and a) or (c and b) is c and (a or b). FALSE: they have nothing in common. */
static uint32_t
factor(struct lower *l, uint32_t a, uint32_t b, unsigned depth)
{
	uint32_t pa[PRI_TERM_PARTS], pb[PRI_TERM_PARTS], common[PRI_TERM_PARTS], rest;
	size_t na = pri_term_parts(l->t, a, pa, 0), nb = pri_term_parts(l->t, b, pb, 0), n;

	if (!na || !nb)
		return PRI_TERM_FALSE;
	/* of a port that may be of any of several protocols they would keep these apart */
	na = drop_parts(l->t, pa, na, false);
	nb = drop_parts(l->t, pb, nb, false);
	n = split_common(pa, &na, pb, &nb, common);
	if (!n)
		return PRI_TERM_FALSE;
	if (!na || !nb)
		return pri_term_join(l->t, common, n);
	rest = lower_or(
		l, pri_term_join(l->t, pa, na), pri_term_join(l->t, pb, nb), depth + 1);
	return lower_and(l, pri_term_join(l->t, common, n), rest);
}

static uint32_t
lower_or(struct lower *l, uint32_t a, uint32_t b, unsigned depth)
{
	while (b != PRI_TERM_FALSE && depth < FACTOR_DEPTH) {
		bool or = pri_term_is(l->t, b, PRI_PLAN_OR);
		uint32_t one = factor(l, a, or ? l->t->nodes[b].left : b, depth);

		if (one == PRI_TERM_FALSE)
			break;
		a = one;
		b = or ? l->t->nodes[b].right : PRI_TERM_FALSE;
	}
	return pri_term_or(l->t, a, b);
}

/* ---- all of it ---- */

static bool
is_pair(unsigned op)
{
	return op == PRI_PLAN_AND || op == PRI_PLAN_OR;
}

/* What the formula is made of: 1 for each of these terms. The caller's, free(); NULL: no memory. */
static uint32_t *
mark(const struct pri_terms *t, uint32_t term)
{
	uint32_t *marks = calloc((size_t)term + 1, sizeof(*marks));

	if (!marks)
		return NULL;
	marks[term] = 1;
	for (uint32_t i = term + 1; i-- > 0;)
		if (marks[i] && is_pair(t->nodes[i].op))
			marks[t->nodes[i].left] = marks[t->nodes[i].right] = 1;
	return marks;
}

static uint32_t
lower_node(struct lower *l, uint32_t node, const uint32_t *map)
{
	struct pri_plan_node n = l->t->nodes[node];

	switch (n.op) {
	case PRI_PLAN_AND:
		return lower_and(l, map[n.left], map[n.right]);
	case PRI_PLAN_OR:
		return lower_or(l, map[n.left], map[n.right], 0);
	case PRI_PLAN_FALSE:
	case PRI_PLAN_TRUE:
		return node;
	default:
		return plan_leaf(l->t, node);
	}
}

uint32_t
pri_plan_lower(struct pri_terms *terms, uint32_t term)
{
	struct lower l = {.t = terms};
	uint32_t *map = mark(terms, term); /* then what each became */

	terms->limit *= 2;
	if (map && know_all(&l)) {
		for (uint32_t i = 0; i <= term && !terms->failed; i++)
			map[i] = map[i] ? lower_node(&l, i, map) : PRI_TERM_TRUE;
		term = map[term];
	} else {
		terms->failed = true;
	}
	free(map);
	free(l.sure);
	return term;
}

/* ---- the plan ---- */

#define DEPTH_MAX 500

struct finish {
	const struct pri_terms *t;
	struct pri_plan *plan;
	uint32_t *map; /* of used terms: first 1, then their number in the plan */
	uint16_t *depth; /* to the left, of the plan's nodes */
};

/* Room for what is used. */
static int
allocate(struct finish *f, uint32_t term)
{
	struct pri_plan *p = f->plan;

	for (uint32_t i = 0; i <= term; i++) {
		p->count += f->map[i];
		p->key_count += f->map[i] && f->t->nodes[i].op == PRI_PLAN_KEY;
		p->range_count += f->map[i] && f->t->nodes[i].op == PRI_PLAN_RANGE;
	}
	p->nodes = calloc(p->count, sizeof(*p->nodes));
	p->keys = calloc(p->key_count + 1, sizeof(*p->keys));
	p->ranges = calloc(p->range_count + 1, sizeof(*p->ranges));
	f->depth = calloc(p->count, sizeof(*f->depth));
	return p->nodes && p->keys && p->ranges && f->depth ? 0 : -1;
}

static void
add_pair(struct finish *f, uint32_t at, const struct pri_plan_node *n)
{
	uint32_t left = f->map[n->left], right = f->map[n->right];
	uint16_t depth = (uint16_t)(f->depth[left] + 1);

	if (depth < f->depth[right])
		depth = f->depth[right];
	if (depth > DEPTH_MAX) {
		f->plan->nodes[at].op = PRI_PLAN_TRUE;
		return;
	}
	f->depth[at] = depth;
	f->plan->nodes[at] =
		(struct pri_plan_node){.op = n->op, .left = left, .right = right};
}

static void
add_used(struct finish *f, uint32_t term)
{
	struct pri_plan *p = f->plan;
	uint32_t keys = 0, ranges = 0, at = 0;

	for (uint32_t i = 0; i <= term; i++) {
		const struct pri_plan_node *n = &f->t->nodes[i];

		if (!f->map[i])
			continue;
		p->nodes[at].op = n->op;
		if (is_pair(n->op)) {
			add_pair(f, at, n);
		} else if (n->op == PRI_PLAN_KEY) {
			p->nodes[at].left = keys;
			p->keys[keys] = pri_term_leaf_of(f->t, i)->key;
			if (p->keys[keys++].kind == PRI_KEY_PARTS)
				p->nodes[at].op = PRI_PLAN_PARTS;
		} else if (n->op == PRI_PLAN_RANGE) {
			p->nodes[at].left = ranges;
			p->ranges[ranges++] = pri_term_leaf_of(f->t, i)->range;
		}
		f->map[i] = at++;
	}
}

struct pri_plan *
pri_plan_finish(const struct pri_terms *terms, uint32_t term)
{
	struct finish f = {
		.t = terms, .plan = calloc(1, sizeof(*f.plan)), .map = mark(terms, term)};

	if (f.plan && f.map && allocate(&f, term) == 0)
		add_used(&f, term);
	else
		pri_plan_destroy(&f.plan);
	free(f.map);
	free(f.depth);
	return f.plan;
}
