/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "indexer/filter/plan_internal.h"
#include "indexer/filter/plan.h"
#include "indexer/index/index_key.h"
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
		       out->len == other.len && !memcmp(out->bytes, other.bytes, other.len);
	if (n->op != PRI_PLAN_KEY)
		return false;
	*out = pri_key_either(key_of(t, node));
	return out->kind == kind;
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

/*
 * All keys that composites as configured can be made of, as one of kind PARTS; TRUE: fewer than two. Those
 * that were made of some of the keys say nothing more then, and are dropped.
 */
static uint32_t
plan_composites(struct pri_terms *t, uint32_t *parts, size_t *count)
{
	static const uint8_t kinds[PRI_PARTS] = {PRI_KEY_SRC, PRI_KEY_DST, PRI_KEY_SPORT,
		PRI_KEY_DPORT, PRI_KEY_PROTO, PRI_KEY_VLAN};
	const struct pri_key *keys[PRI_PARTS];
	struct pri_key all;

	for (int i = 0; i < PRI_PARTS; i++)
		keys[i] = find_key(t, parts, *count, (enum pri_key_kind)kinds[i]);
	all = pri_key_parts(keys);
	if (!(all.bytes[0] & (all.bytes[0] - 1)))
		return PRI_TERM_TRUE;
	*count = drop_parts(t, parts, *count, true);
	return plan_key(t, &all);
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

/* A mask that is no prefix of a key: the prefix that is, and the range of numbers. */
static uint32_t
lower_ip4(struct pri_terms *t, const struct pri_term_leaf *leaf, bool src)
{
	unsigned bits = leading_bits(leaf->mask, 4);
	uint32_t mask = bits ? UINT32_MAX << (32 - bits) : 0,
		 value = pr_get_be32(leaf->value) & mask, net = PRI_TERM_TRUE;
	struct pri_term_leaf range = {.op = PRI_PLAN_RANGE,
		.range = {.number = src ? PRI_NUMBER_SRC4 : PRI_NUMBER_DST4,
			.least = value,
			.most = value | ~mask}};

	if (bits == 32)
		return bytes_key(t, src ? PRI_KEY_SRC : PRI_KEY_DST, leaf->value, 4);
	if (bits >= 8)
		net = bytes_key(t, PRI_KEY_NET, leaf->value, bits / 8);
	if (bits % 8 == 0 || !leaf->whole)
		return net;
	return pri_term_and(t, net, pri_term_leaf(t, &range));
}

static uint32_t
lower_ip6(struct pri_terms *t, const struct pri_term_leaf *leaf, bool src)
{
	unsigned bits = leading_bits(leaf->mask, 16);

	if (bits == 128)
		return bytes_key(t, src ? PRI_KEY_SRC : PRI_KEY_DST, leaf->value, 16);
	if (bits < 32)
		return PRI_TERM_TRUE;
	return bytes_key(t, PRI_KEY_NET, leaf->value, bits >= 64 ? 8 : bits >= 48 ? 6 : 4);
}

/*
 * One test of a program as what an index can be asked: a whole key, a prefix, a range, or TRUE, it may match.
 * Returns the term. Within the planner only.
 */
static uint32_t
plan_leaf(struct pri_terms *t, uint32_t node)
{
	struct pri_term_leaf leaf = *pri_term_leaf_of(t, node);
	const struct pri_plan_range *r = &leaf.range;
	bool port = r->number == PRI_NUMBER_SPORT || r->number == PRI_NUMBER_DPORT;

	if (leaf.op == PRI_PLAN_RANGE && port && r->least == r->most) {
		struct pri_key key = pri_key_number(
			r->number == PRI_NUMBER_SPORT ? PRI_KEY_SPORT : PRI_KEY_DPORT,
			(uint32_t)r->least);
		return plan_key(t, &key);
	}
	if (leaf.op != PRI_TERM_BYTES)
		return node;
	switch (leaf.field) {
	case PRI_TERM_SRC4:
	case PRI_TERM_DST4:
		return lower_ip4(t, &leaf, leaf.field == PRI_TERM_SRC4);
	case PRI_TERM_SRC6:
	case PRI_TERM_DST6:
		return lower_ip6(t, &leaf, leaf.field == PRI_TERM_SRC6);
	default:
		if (leading_bits(leaf.mask, 6) < 48)
			return PRI_TERM_TRUE;
		return bytes_key(t,
			leaf.field == PRI_TERM_MAC_SRC ? PRI_KEY_MAC_SRC : PRI_KEY_MAC_DST,
			leaf.value, 6);
	}
}

/* What is sure of a packet for which a formula holds: its type and protocol are among these. */
#define TYPE_IP 1
#define TYPE_ARP 2
#define TYPE_RARP 4
#define TYPE_IP6 8
#define TYPE_ANY 31
#define PROTO_TCP 1
#define PROTO_UDP 2
#define PROTO_SCTP 4
#define PROTO_ICMP 8
#define PROTO_ICMP6 16
#define PROTO_ANY 63
#define PROTO_PORTS (PROTO_TCP | PROTO_UDP | PROTO_SCTP)

struct sure {
	uint8_t types, protos;
	bool types_only, protos_only; /* and it says no more than that */
	bool tagged, tags_only; /* it has a VLAN tag */
};

struct lower {
	struct pri_terms *t;
	struct sure *sure; /* of nodes, the first known of them */
	uint32_t known, room;
};

/* ---- what is sure ---- */

static uint8_t
type_bit(uint32_t type)
{
	return type == 0x0800   ? TYPE_IP
	       : type == 0x0806 ? TYPE_ARP
	       : type == 0x8035 ? TYPE_RARP
	       : type == 0x86dd ? TYPE_IP6
				: TYPE_ANY;
}

static uint8_t
proto_bit(uint8_t proto)
{
	return proto == 6     ? PROTO_TCP
	       : proto == 17  ? PROTO_UDP
	       : proto == 132 ? PROTO_SCTP
	       : proto == 1   ? PROTO_ICMP
	       : proto == 58  ? PROTO_ICMP6
			      : PROTO_ANY;
}

static struct sure
sure_of_key(const struct pri_key *key)
{
	const uint8_t ip4 = TYPE_IP | TYPE_ARP | TYPE_RARP, both = TYPE_IP | TYPE_IP6;
	struct sure s = {.types = TYPE_ANY, .protos = PROTO_ANY};

	switch (key->kind) {
	case PRI_KEY_ETHERTYPE:
		s.types = type_bit(pr_get_be16(key->bytes));
		s.types_only = s.types != TYPE_ANY;
		s.tagged = s.tags_only = pri_is_vlan_tag(pr_get_be16(key->bytes));
		break;
	case PRI_KEY_VLAN:
		s.tagged = true;
		break;
	case PRI_KEY_PROTO:
		s.types = both;
		s.protos = proto_bit(key->bytes[0]);
		s.protos_only = s.protos != PROTO_ANY;
		break;
	case PRI_KEY_SPORT:
	case PRI_KEY_DPORT:
		s.types = both;
		s.protos = PROTO_PORTS;
		break;
	case PRI_KEY_ICMP:
		s = (struct sure){.types = TYPE_IP, .protos = PROTO_ICMP};
		break;
	case PRI_KEY_ICMP6:
		s = (struct sure){.types = TYPE_IP6, .protos = PROTO_ICMP6};
		break;
	case PRI_KEY_FRAGMENT:
		s.types = TYPE_IP;
		break;
	case PRI_KEY_SRC:
	case PRI_KEY_DST:
		s.types = key->len == 4 ? ip4 : TYPE_IP6;
		break;
	case PRI_KEY_NET:
		s.types = key->len < 4 ? ip4 : TYPE_IP6;
		break;
	default:
		break;
	}
	return s;
}

static struct sure
sure_of_range(const struct pri_plan_range *range)
{
	switch (range->number) {
	case PRI_NUMBER_SPORT:
	case PRI_NUMBER_DPORT:
		return (struct sure){.types = TYPE_IP | TYPE_IP6, .protos = PROTO_PORTS};
	case PRI_NUMBER_SRC4:
	case PRI_NUMBER_DST4:
		return (struct sure){
			.types = TYPE_IP | TYPE_ARP | TYPE_RARP, .protos = PROTO_ANY};
	default:
		return (struct sure){.types = TYPE_ANY, .protos = PROTO_ANY};
	}
}

static struct sure
sure_of_node(const struct lower *l, uint32_t node)
{
	const struct pri_plan_node *n = &l->t->nodes[node];
	const struct sure *a = &l->sure[n->left], *b = &l->sure[n->right];

	switch (n->op) {
	case PRI_PLAN_KEY:
		return sure_of_key(&pri_term_leaf_of(l->t, node)->key);
	case PRI_PLAN_RANGE:
		return sure_of_range(&pri_term_leaf_of(l->t, node)->range);
	case PRI_PLAN_AND:
		return (struct sure){
			.types = a->types & b->types, .protos = a->protos & b->protos};
	case PRI_PLAN_OR:
		return (struct sure){.types = a->types | b->types,
			.protos = a->protos | b->protos,
			.types_only = a->types_only && b->types_only,
			.protos_only = a->protos_only && b->protos_only,
			.tagged = a->tagged && b->tagged,
			.tags_only = a->tags_only && b->tags_only};
	default:
		return (struct sure){.types = TYPE_ANY, .protos = PROTO_ANY};
	}
}

/* false: no memory. */
static bool
know_all(struct lower *l)
{
	if (l->room < l->t->room) {
		struct sure *sure = realloc(l->sure, l->t->room * sizeof(*sure));

		if (!sure) {
			l->t->failed = true;
			return false;
		}
		l->sure = sure;
		l->room = l->t->room;
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
	uint8_t types = TYPE_ANY, protos = PROTO_ANY;
	bool tagged = false;

	for (size_t j = 0; j < count; j++)
		if (j != i) {
			types &= l->sure[parts[j]].types;
			protos &= l->sure[parts[j]].protos;
			tagged |= l->sure[parts[j]].tagged && !l->sure[parts[j]].tags_only;
		}
	return (s->tags_only && tagged) || (s->types_only && !(types & ~s->types)) ||
	       (s->protos_only && !(protos & ~s->protos) &&
		       !(types & ~(TYPE_IP | TYPE_IP6)));
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
	count = pri_term_parts(l->t, both, parts);
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
	size_t na = pri_term_parts(l->t, a, pa), nb = pri_term_parts(l->t, b, pb), n;

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

/* Marks what the formula is made of. */
static void
mark(const struct pri_terms *t, uint32_t term, uint8_t *marks)
{
	marks[term] = 1;
	for (uint32_t i = term + 1; i-- > 0;) {
		unsigned op = t->nodes[i].op;

		if (!marks[i] || (op != PRI_PLAN_AND && op != PRI_PLAN_OR))
			continue;
		marks[t->nodes[i].left] = 1;
		marks[t->nodes[i].right] = 1;
	}
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
	uint8_t *marks = calloc(term + 1, 1);
	uint32_t *map = calloc(term + 1, sizeof(*map));

	terms->limit *= 2;
	if (marks && map && know_all(&l)) {
		mark(terms, term, marks);
		for (uint32_t i = 0; i <= term && !terms->failed; i++)
			map[i] = marks[i] ? lower_node(&l, i, map) : PRI_TERM_TRUE;
		term = map[term];
	} else {
		terms->failed = true;
	}
	free(marks);
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

static bool
is_pair(unsigned op)
{
	return op == PRI_PLAN_AND || op == PRI_PLAN_OR;
}

/* Counts what is used, by kind. */
static void
count_used(struct finish *f, uint32_t term)
{
	for (uint32_t i = 0; i <= term; i++)
		f->map[i] = i == term;
	for (uint32_t i = term + 1; i-- > 0;) {
		const struct pri_plan_node *n = &f->t->nodes[i];

		if (!f->map[i])
			continue;
		f->plan->count++;
		f->plan->key_count += n->op == PRI_PLAN_KEY;
		f->plan->range_count += n->op == PRI_PLAN_RANGE;
		if (is_pair(n->op))
			f->map[n->left] = f->map[n->right] = 1;
	}
}

static int
allocate(struct finish *f)
{
	struct pri_plan *p = f->plan;

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
	struct finish f = {.t = terms,
		.plan = calloc(1, sizeof(*f.plan)),
		.map = calloc((size_t)term + 1, sizeof(*f.map))};

	if (f.plan && f.map) {
		count_used(&f, term);
		if (allocate(&f) == 0)
			add_used(&f, term);
		else
			pri_plan_destroy(&f.plan);
	} else {
		free(f.plan);
		f.plan = NULL;
	}
	free(f.map);
	free(f.depth);
	return f.plan;
}
