/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/filter/plan_internal.h"

/* ---- keys that come together ---- */

static const struct pri_key *
key_of(const struct pri_terms *t, uint32_t node)
{
	return pri_term_is(t, node, PRI_PLAN_KEY) ? &pri_term_leaf_of(t, node)->key : NULL;
}

/* Copies it: the next leaf that is made may move them all. */
static bool
find_key(const struct pri_terms *t, const struct pri_parts *parts, unsigned kind,
	struct pri_key *out)
{
	for (size_t i = 0; i < parts->count; i++) {
		const struct pri_key *key = key_of(t, parts->items[i]);

		if (key && key->kind == kind) {
			*out = *key;
			return true;
		}
	}
	return false;
}

static uint32_t
plan_key(struct pri_terms *t, struct pri_key key)
{
	return pri_term_leaf(t, &(struct pri_term_leaf){.op = PRI_PLAN_KEY, .key = key});
}

#define FIXED_DEPTH 5 /* depth to which nested ORs and ANDs are searched */

/*
 * Finds the ADDRESS or PORT, of either side, that each packet has that the formula accepts.
 * False: none is certain.
 */
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

/* The first ADDRESS or PORT that a part fixes. */
static bool
find_fixed(const struct pri_terms *t, const struct pri_parts *parts, enum pri_key_kind kind,
	struct pri_key *out)
{
	size_t i = 0;

	while (i < parts->count && !fixes(t, parts->items[i], kind, 0, out))
		i++;
	return i < parts->count;
}

/* The SERVICE keys of addresses and well-known ports that come together; TRUE: none. */
static uint32_t
plan_services(struct pri_terms *t, const struct pri_parts *parts)
{
	struct pri_key address, port;
	uint32_t term = PRI_TERM_TRUE;

	for (size_t i = 0; i < parts->count; i++) {
		if (!fixes(t, parts->items[i], PRI_KEY_PORT, 0, &port) ||
			!pri_port_is_service(pr_get_be16(port.bytes)))
			continue;
		for (size_t j = 0; j < parts->count; j++)
			if (fixes(t, parts->items[j], PRI_KEY_ADDRESS, 0, &address))
				term = pri_term_and(t, term,
					plan_key(t,
						pri_key_service(address.bytes, address.len,
							pr_get_be16(port.bytes))));
	}
	return term;
}

/* ---- composites as configured ---- */

/* Drops keys of kind PARTS, except those that have any of the parts in `keep`. */
static void
drop_parts(const struct pri_terms *t, struct pri_parts *parts, uint8_t keep)
{
	for (size_t i = parts->count; i-- > 0;) {
		const struct pri_key *key = key_of(t, parts->items[i]);

		if (key && key->kind == PRI_KEY_PARTS && !(key->bytes[0] & keep))
			pri_term_drop(parts, i);
	}
}

/*
 * One key of kind PARTS with all fields that are fixed, for composites as configured. A
 * host or a port on either side gives an OR of one such key for each combination. TRUE:
 * fewer than two fields. Keys of kind PARTS among the parts say no more than this one, and
 * are dropped.
 */
static uint32_t
plan_composites(struct pri_terms *t, struct pri_parts *parts)
{
	static const uint8_t kinds[PRI_PARTS] = {PRI_KEY_SRC, PRI_KEY_DST, PRI_KEY_SPORT,
		PRI_KEY_DPORT, PRI_KEY_PROTO, PRI_KEY_VLAN};
	const struct pri_key *keys[PRI_PARTS], *of[PRI_PARTS];
	struct pri_key found[PRI_PARTS], address, port;
	bool any_address;
	uint32_t term = PRI_TERM_FALSE;

	for (int i = 0; i < PRI_PARTS; i++)
		keys[i] = find_key(t, parts, kinds[i], &found[i]) ? &found[i] : NULL;
	any_address =
		!keys[0] && !keys[1] && find_fixed(t, parts, PRI_KEY_ADDRESS, &address);
	bool any_port = !keys[2] && !keys[3] && find_fixed(t, parts, PRI_KEY_PORT, &port);
	if (!(any_address || keys[0] || keys[1]) || !(any_port || keys[2] || keys[3]))
		any_address = any_port = false;
	for (unsigned way = 0; way < 4; way++) {
		if ((way & 1 && !any_address) || (way & 2 && !any_port))
			continue;
		memcpy(of, keys, sizeof(of));
		if (any_address)
			of[way & 1] = &address;
		if (any_port)
			of[2 + (way >> 1)] = &port;
		struct pri_key all = pri_key_parts(of);
		term = pri_term_or(t, term,
			all.bytes[0] & (all.bytes[0] - 1) ? plan_key(t, all)
							  : PRI_TERM_TRUE);
	}
	if (term != PRI_TERM_TRUE)
		drop_parts(t, parts, 0);
	return term;
}

/* ---- one test as a look-up ---- */

/* A whole key; else a prefix, and for IPv4 also the exact range of numbers. */
static uint32_t
lower_bytes(struct pri_terms *t, const struct pri_term_leaf *leaf)
{
	static const struct {
		uint8_t kind, len, number;
	} fields[] = {[PRI_TERM_SRC4] = {PRI_KEY_SRC, 4, PRI_NUMBER_SRC4},
		[PRI_TERM_DST4] = {PRI_KEY_DST, 4, PRI_NUMBER_DST4},
		[PRI_TERM_SRC6] = {PRI_KEY_SRC, 16, 0},
		[PRI_TERM_DST6] = {PRI_KEY_DST, 16, 0},
		[PRI_TERM_MAC_SRC] = {PRI_KEY_MAC_SRC, 6, 0},
		[PRI_TERM_MAC_DST] = {PRI_KEY_MAC_DST, 6, 0}};
	unsigned len = fields[leaf->field].len, bits = 0;
	struct pri_term_leaf range = {
		.op = PRI_PLAN_RANGE, .range = {.number = fields[leaf->field].number}};
	uint32_t net = PRI_TERM_TRUE;

	while (bits < 8 * len && leaf->mask[bits / 8] & 0x80 >> bits % 8)
		bits++;
	if (bits == 8 * len)
		return plan_key(
			t, pri_key_bytes(fields[leaf->field].kind, leaf->value, len));
	/* bytes of the longest NET key */
	unsigned prefix = len == 4                ? bits / 8
			  : len < 16 || bits < 32 ? 0
			  : bits >= 64            ? 8
			  : bits >= 48            ? 6
						  : 4;
	if (prefix)
		net = plan_key(t, pri_key_bytes(PRI_KEY_NET, leaf->value, prefix));
	if (len != 4 || bits % 8 == 0 || !leaf->whole)
		return net;
	uint32_t mask = UINT32_MAX << (32 - bits);
	range.range.least = pr_get_be32(leaf->value) & mask;
	range.range.most = range.range.least | ~mask;
	return pri_term_and(t, net, pri_term_leaf(t, &range));
}

/* ---- what is sure ---- */

/* What a packet can be if a formula holds for it. */
enum {
	TYPE_IP = 1 << 0,
	TYPE_IP6 = 1 << 1,
	TYPE_ARP = 1 << 2,
	TYPE_RARP = 1 << 3,
	TYPE_OTHER = 1 << 4,
	PROTO_TCP = 1 << 5,
	PROTO_UDP = 1 << 6,
	PROTO_SCTP = 1 << 7,
	PROTO_ICMP = 1 << 8,
	PROTO_ICMP6 = 1 << 9,
	PROTO_OTHER = 1 << 10,
	UNTAGGED = 1 << 11, /* it may have no VLAN tag */
};
#define TYPE_IPS (TYPE_IP | TYPE_IP6)
#define TYPE_IP4 (TYPE_IP | TYPE_ARP | TYPE_RARP) /* has IPv4 addresses */
#define TYPES (TYPE_IP4 | TYPE_IP6 | TYPE_OTHER)
#define PROTO_PORTS (PROTO_TCP | PROTO_UDP | PROTO_SCTP)
#define PROTOS (PROTO_PORTS | PROTO_ICMP | PROTO_ICMP6 | PROTO_OTHER)
#define ALL (TYPES | PROTOS | UNTAGGED)
#define ANY_INSIDE (PROTOS | UNTAGGED)
#define OVER_IP (TYPE_IPS | UNTAGGED)

struct sure {
	uint16_t possible;
	/* TYPES, TYPES | PROTOS, or UNTAGGED: the formula says no more than these */
	uint16_t only;
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
	} t[] = {{PRI_KEY_ETHERTYPE, PR_ETHERTYPE_IP4, {ANY_INSIDE | TYPE_IP, TYPES}},
		{PRI_KEY_ETHERTYPE, PR_ETHERTYPE_IP6, {ANY_INSIDE | TYPE_IP6, TYPES}},
		{PRI_KEY_ETHERTYPE, PR_ETHERTYPE_ARP, {ANY_INSIDE | TYPE_ARP, TYPES}},
		{PRI_KEY_ETHERTYPE, PR_ETHERTYPE_RARP, {ANY_INSIDE | TYPE_RARP, TYPES}},
		{PRI_KEY_ETHERTYPE, PR_ETHERTYPE_VLAN, {TYPES | PROTOS, UNTAGGED}},
		{PRI_KEY_ETHERTYPE, 0x88a8, {TYPES | PROTOS, UNTAGGED}},
		{PRI_KEY_ETHERTYPE, 0x9100, {TYPES | PROTOS, UNTAGGED}},
		{PRI_KEY_VLAN, 0, {TYPES | PROTOS, 0}},
		{PRI_KEY_PROTO, 6, {OVER_IP | PROTO_TCP, TYPES | PROTOS}},
		{PRI_KEY_PROTO, 17, {OVER_IP | PROTO_UDP, TYPES | PROTOS}},
		{PRI_KEY_PROTO, 132, {OVER_IP | PROTO_SCTP, TYPES | PROTOS}},
		{PRI_KEY_PROTO, 1, {OVER_IP | PROTO_ICMP, TYPES | PROTOS}},
		{PRI_KEY_PROTO, 58, {OVER_IP | PROTO_ICMP6, TYPES | PROTOS}},
		{PRI_KEY_PROTO, 0, {OVER_IP | PROTOS, 0}},
		{PRI_KEY_SPORT, 0, {OVER_IP | PROTO_PORTS, 0}},
		{PRI_KEY_DPORT, 0, {OVER_IP | PROTO_PORTS, 0}},
		{PRI_KEY_ICMP, 0, {TYPE_IP | PROTO_ICMP | UNTAGGED, 0}},
		{PRI_KEY_ICMP6, 0, {TYPE_IP6 | PROTO_ICMP6 | UNTAGGED, 0}},
		{PRI_KEY_FRAGMENT, 0, {TYPE_IP | PROTOS | UNTAGGED, 0}}};
	uint16_t value = key->len == 1 ? key->bytes[0] : pr_get_be16(key->bytes);
	bool address = key->kind == PRI_KEY_SRC || key->kind == PRI_KEY_DST;

	if (address || key->kind == PRI_KEY_NET) {
		bool ip4 = address ? key->len == 4 : key->len < 4;

		return (struct sure){.possible = ANY_INSIDE | (ip4 ? TYPE_IP4 : TYPE_IP6)};
	}
	for (size_t i = 0; i < PR_COUNT(t); i++)
		if (t[i].kind == key->kind && (!t[i].value || t[i].value == value))
			return t[i].sure;
	return (struct sure){.possible = ALL};
}

/* false: no memory. */
static bool
know_all(struct lower *l)
{
	static const uint8_t kinds[] = {[PRI_NUMBER_SPORT] = PRI_KEY_SPORT,
		[PRI_NUMBER_DPORT] = PRI_KEY_DPORT,
		[PRI_NUMBER_SRC4] = PRI_KEY_SRC,
		[PRI_NUMBER_DST4] = PRI_KEY_DST};

	if (PR_ARRAY_RESERVE(l->sure, l->room, l->t->count) < 0) {
		l->t->failed = true;
		return false;
	}
	for (; l->known < l->t->count; l->known++) {
		const struct pri_plan_node *n = &l->t->nodes[l->known];
		const struct sure *a = &l->sure[n->left], *b = &l->sure[n->right];
		struct pri_key any = {.len = 4};
		struct sure sure = {.possible = ALL};

		if (n->op == PRI_PLAN_KEY) {
			sure = sure_of_key(key_of(l->t, l->known));
		} else if (n->op == PRI_PLAN_RANGE) { /* as much as any key of the kind */
			any.kind = kinds[pri_term_leaf_of(l->t, l->known)->range.number];
			sure = sure_of_key(&any);
		} else if (n->op == PRI_PLAN_AND) {
			sure.possible = a->possible & b->possible;
		} else if (n->op == PRI_PLAN_OR) {
			sure.possible = a->possible | b->possible;
			sure.only = a->only == b->only ? a->only : 0;
		}
		l->sure[l->known] = sure;
	}
	return true;
}

/* Drops the parts that other parts imply. */
static void
drop_implied(const struct lower *l, struct pri_parts *parts)
{
	for (size_t i = parts->count; i-- > 0;) {
		const struct sure *s = &l->sure[parts->items[i]];
		uint16_t rest = ALL;

		for (size_t j = 0; j < parts->count; j++)
			if (j != i)
				rest &= l->sure[parts->items[j]].possible;
		if (s->only && !(rest & s->only & ~s->possible))
			pri_term_drop(parts, i);
	}
}

/* ---- and ---- */

static uint32_t
lower_and(struct lower *l, uint32_t a, uint32_t b)
{
	uint32_t both = pri_term_and(l->t, a, b), more = PRI_TERM_TRUE;
	struct pri_parts parts = {0};
	struct pri_key src, dst;

	if (!know_all(l) || !pri_term_is(l->t, both, PRI_PLAN_AND) ||
		!pri_term_parts(l->t, both, &parts))
		return both;
	if (find_key(l->t, &parts, PRI_KEY_SRC, &src) &&
		find_key(l->t, &parts, PRI_KEY_DST, &dst) && src.len == dst.len)
		more = plan_key(l->t, pri_key_pair(src.bytes, dst.bytes, src.len));
	more = pri_term_and(l->t, more, plan_services(l->t, &parts));
	more = pri_term_and(l->t, more, plan_composites(l->t, &parts));
	drop_implied(l, &parts);
	return pri_term_and(l->t, more, pri_term_join(l->t, &parts));
}

/* ---- or ---- */

#define FACTOR_DEPTH 4

static uint32_t lower_or(struct lower *l, uint32_t a, uint32_t b, unsigned depth);

/* Turns (c and a) or (c and b) into c and (a or b). FALSE: they share nothing. */
static uint32_t
factor(struct lower *l, uint32_t a, uint32_t b, unsigned depth)
{
	struct pri_parts of_a = {0}, of_b = {0}, common = {0};

	if (!pri_term_parts(l->t, a, &of_a) || !pri_term_parts(l->t, b, &of_b))
		return PRI_TERM_FALSE;
	/* PARTS of a port differ by protocol: they would hide what both sides share */
	drop_parts(l->t, &of_a, PRI_PART_SRC | PRI_PART_DST);
	drop_parts(l->t, &of_b, PRI_PART_SRC | PRI_PART_DST);
	for (size_t i = 0, j; i < of_a.count;) {
		for (j = 0; j < of_b.count && of_b.items[j] != of_a.items[i]; j++)
			;
		if (j == of_b.count) {
			i++;
			continue;
		}
		common.items[common.count++] = of_a.items[i];
		pri_term_drop(&of_a, i);
		pri_term_drop(&of_b, j);
	}
	if (!common.count)
		return PRI_TERM_FALSE;
	if (!of_a.count || !of_b.count)
		return pri_term_join(l->t, &common);
	uint32_t rest = lower_or(
		l, pri_term_join(l->t, &of_a), pri_term_join(l->t, &of_b), depth + 1);
	return lower_and(l, pri_term_join(l->t, &common), rest);
}

static uint32_t
lower_or(struct lower *l, uint32_t a, uint32_t b, unsigned depth)
{
	while (b != PRI_TERM_FALSE && depth < FACTOR_DEPTH) {
		uint32_t rest = b, one = factor(l, a, pri_term_next(l->t, &rest), depth);

		if (one == PRI_TERM_FALSE)
			break;
		a = one;
		b = rest;
	}
	return pri_term_or(l->t, a, b);
}

/* ---- all of it ---- */

static bool
is_pair(unsigned op)
{
	return op == PRI_PLAN_AND || op == PRI_PLAN_OR;
}

/*
 * Marks the terms that the formula is made of with 1. The array is the caller's, free();
 * NULL: no memory.
 */
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

/* map: what each term became. */
static uint32_t
lower_node(struct lower *l, uint32_t node, const uint32_t *map)
{
	struct pri_plan_node n = l->t->nodes[node];

	if (n.op == PRI_PLAN_AND)
		return lower_and(l, map[n.left], map[n.right]);
	if (n.op == PRI_PLAN_OR)
		return lower_or(l, map[n.left], map[n.right], 0);
	if (n.op != PRI_PLAN_RANGE && n.op != PRI_TERM_BYTES)
		return node;
	struct pri_term_leaf leaf = *pri_term_leaf_of(l->t, node);
	if (n.op == PRI_TERM_BYTES)
		return lower_bytes(l->t, &leaf);
	return pri_plan_range_ports(&leaf.range) == 1
		       ? plan_key(l->t, pri_plan_range_port(&leaf.range, 0))
		       : node;
}

/* ---- the plan ---- */

#define DEPTH_MAX 500

/*
 * Adds a term to the plan, after its parts. map: number in the plan by term; depth: how
 * deep terms nest to the left. -1: no memory.
 */
static int
add_node(struct pri_plan *p, const struct pri_terms *t, uint32_t term, uint32_t *map,
	uint16_t *depth)
{
	struct pri_plan_node n = t->nodes[term];

	if (PR_ARRAY_GROW(p->nodes, p->count) < 0 ||
		PR_ARRAY_GROW(p->keys, p->key_count) < 0 ||
		PR_ARRAY_GROW(p->ranges, p->range_count) < 0)
		return -1;
	if (is_pair(n.op)) {
		uint16_t left = depth[n.left] + 1, right = depth[n.right];

		depth[term] = PR_MAX(left, right);
		n.left = map[n.left];
		n.right = map[n.right];
	} else if (n.op == PRI_PLAN_KEY) {
		p->keys[p->key_count] = *key_of(t, term);
		n.op = p->keys[p->key_count].kind == PRI_KEY_PARTS ? PRI_PLAN_PARTS
								   : PRI_PLAN_KEY;
		n.left = p->key_count++;
	} else if (n.op == PRI_PLAN_RANGE) {
		p->ranges[p->range_count] = pri_term_leaf_of(t, term)->range;
		n.left = p->range_count++;
	}
	if (depth[term] > DEPTH_MAX) {
		depth[term] = 0;
		n = (struct pri_plan_node){.op = PRI_PLAN_TRUE};
	}
	map[term] = p->count;
	p->nodes[p->count++] = n;
	return 0;
}

static struct pri_plan *
plan_of(const struct pri_terms *t, uint32_t term)
{
	struct pri_plan *plan = calloc(1, sizeof(*plan));
	uint32_t *map = mark(t, term);
	uint16_t *depth = calloc((size_t)term + 1, sizeof(*depth));

	for (uint32_t i = 0; plan && i <= term; i++)
		if (!map || !depth || (map[i] && add_node(plan, t, i, map, depth) < 0))
			pri_plan_destroy(&plan);
	free(map);
	free(depth);
	return plan;
}

struct pri_plan *
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
	return terms->failed ? NULL : plan_of(terms, term);
}
