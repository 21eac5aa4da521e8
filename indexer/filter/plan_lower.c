/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/filter/plan_lower.h"

#include <stdlib.h>
#include <string.h>

#include "indexer/filter/plan_composite.h"
#include "indexer/filter/plan_leaf.h"
#include "proto/wire/cursor.h"

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

static bool
is_tag(uint32_t type)
{
	return type == 0x8100 || type == 0x88a8 || type == 0x9100;
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
		s.tagged = s.tags_only = is_tag(pr_get_be16(key->bytes));
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
	more = pri_plan_pairs(l->t, parts, count);
	more = pri_term_and(l->t, more, pri_plan_others(l->t, parts, count));
	more = pri_term_and(l->t, more, pri_plan_composites(l->t, parts, &count));
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
	na = pri_plan_drop_ports(l->t, pa, na);
	nb = pri_plan_drop_ports(l->t, pb, nb);
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
		return pri_plan_leaf(l->t, node);
	}
}

/* What an address is not has said what it can. */
static uint32_t
without_differing(struct pri_terms *t, uint32_t term)
{
	uint32_t *map = calloc(term + 1, sizeof(*map));

	if (!map) {
		t->failed = true;
		return term;
	}
	for (uint32_t i = 0; i <= term && !t->failed; i++) {
		struct pri_plan_node n = t->nodes[i];

		map[i] = pri_term_differs(t, i) ? PRI_TERM_TRUE
			 : n.op == PRI_PLAN_AND ? pri_term_and(t, map[n.left], map[n.right])
			 : n.op == PRI_PLAN_OR  ? pri_term_or(t, map[n.left], map[n.right])
						: i;
	}
	term = map[term];
	free(map);
	return term;
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
	return terms->differing && !terms->failed ? without_differing(terms, term) : term;
}
