/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/filter/plan_composite.h"

#include <string.h>

#include "indexer/index/composite.h"
#include "indexer/filter/plan_ranks.h"

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

uint32_t
pri_plan_key(struct pri_terms *t, const struct pri_key *key)
{
	struct pri_term_leaf leaf = {.op = PRI_PLAN_KEY, .key = *key};

	return pri_term_leaf(t, &leaf);
}

/* The PAIR of addresses that are both there; TRUE: they are not. */
uint32_t
pri_plan_pairs(struct pri_terms *t, const uint32_t *parts, size_t count)
{
	const struct pri_key *src = find_key(t, parts, count, PRI_KEY_SRC),
			     *dst = find_key(t, parts, count, PRI_KEY_DST);
	struct pri_key pair;

	if (!src || !dst || src->len != dst->len)
		return PRI_TERM_TRUE;
	pair = pri_key_pair(src->bytes, dst->bytes, src->len);
	return pri_plan_key(t, &pair);
}

/* The address that a part says a packet is from or to; false: none, or of IPv6. */
static bool
end_of(const struct pri_terms *t, uint32_t node, bool *src, bool *dst, uint8_t address[4])
{
	const struct pri_plan_node *n = &t->nodes[node];
	const struct pri_key *key;

	if (n->op == PRI_PLAN_OR) {
		uint8_t other[4];

		return end_of(t, n->left, src, dst, address) &&
		       end_of(t, n->right, src, dst, other) && !memcmp(address, other, 4);
	}
	key = key_of(t, node);
	if (!key || key->len != 4 || (key->kind != PRI_KEY_SRC && key->kind != PRI_KEY_DST))
		return false;
	*src |= key->kind == PRI_KEY_SRC;
	*dst |= key->kind == PRI_KEY_DST;
	memcpy(address, key->bytes, 4);
	return true;
}

/* Of an address on one side, or on either, and what the address at the other end is not. */
static uint32_t
other_of(struct pri_terms *t, const uint32_t *parts, size_t count, uint32_t node,
	const uint8_t not_this[4])
{
	struct pri_key key = {.kind = PRI_KEY_OTHER, .len = 8};
	bool src = false, dst = false, not_src = false, not_dst = false;

	if (!end_of(t, node, &src, &dst, key.bytes))
		return PRI_TERM_TRUE;
	for (size_t i = 0; i < count; i++) {
		const struct pri_key *differs =
			pri_term_differs(t, parts[i]) ? key_of(t, parts[i]) : NULL;

		if (!differs || memcmp(differs->bytes, not_this, 4) != 0)
			continue;
		not_src |= differs->kind == PRI_KEY_NOT_SRC;
		not_dst |= differs->kind == PRI_KEY_NOT_DST;
	}
	if ((src && !not_dst) || (dst && !not_src))
		return PRI_TERM_TRUE;
	memcpy(key.bytes + 4, not_this, 4);
	return pri_plan_key(t, &key);
}

uint32_t
pri_plan_others(struct pri_terms *t, const uint32_t *parts, size_t count)
{
	uint32_t term = PRI_TERM_TRUE;
	uint8_t not_this[4];

	for (size_t i = 0; i < count; i++) {
		if (!pri_term_differs(t, parts[i]))
			continue;
		memcpy(not_this, key_of(t, parts[i])->bytes, 4);
		for (size_t j = 0; j < count; j++)
			term = pri_term_and(
				t, term, other_of(t, parts, count, parts[j], not_this));
	}
	return term;
}

/* ---- composites as configured ---- */

#define ADDRESSES (PRI_PART_SRC | PRI_PART_DST)
#define PORTS (PRI_PART_SPORT | PRI_PART_DPORT)
#define CHOICES 4 /* an address or a port on either side are two */

/* What a packet has at once, by bits of enum pri_part. */
struct together {
	struct pri_key key[PRI_PARTS];
	uint8_t more[PRI_PARTS]; /* of a short range of ports: those above the first */
	unsigned mask;
};

/* A short range of ports is taken for a port, with more of them. */
static void
take_range(struct together *all, const struct pri_terms *t, uint32_t node)
{
	const struct pri_plan_range *r;
	unsigned ports, part;

	if (!pri_term_is(t, node, PRI_PLAN_RANGE))
		return;
	r = &pri_term_leaf_of(t, node)->range;
	ports = pri_plan_range_ports(r);
	part = r->number == PRI_NUMBER_SPORT ? 2 : 3;
	if (!ports || all->mask & 1u << part)
		return;
	all->key[part] = pri_plan_range_port(r, 0);
	all->more[part] = (uint8_t)(ports - 1);
	all->mask |= 1u << part;
}

static struct together
together_of(const struct pri_terms *t, const uint32_t *parts, size_t count)
{
	static const uint8_t kinds[PRI_PARTS] = {PRI_KEY_SRC, PRI_KEY_DST, PRI_KEY_SPORT,
		PRI_KEY_DPORT, PRI_KEY_PROTO, PRI_KEY_VLAN};
	struct together all = {.mask = 0};

	for (int i = 0; i < PRI_PARTS; i++) {
		const struct pri_key *key =
			find_key(t, parts, count, (enum pri_key_kind)kinds[i]);

		if (!key)
			continue;
		all.key[i] = *key;
		all.mask |= 1u << i;
	}
	for (size_t i = 0; i < count; i++)
		take_range(&all, t, parts[i]);
	return all;
}

/* The ways that an OR leaves, one of which each packet takes; 0: too many, or one says nothing. */
static size_t
choices_of(const struct pri_terms *t, uint32_t node, struct together out[CHOICES])
{
	uint32_t parts[PRI_TERM_PARTS];
	size_t count = 0, n;

	for (bool more = true; more;) {
		uint32_t one = node;

		more = pri_term_is(t, node, PRI_PLAN_OR);
		if (more) {
			one = t->nodes[node].left;
			node = t->nodes[node].right;
		}
		n = pri_term_parts(t, one, parts);
		if (!n || count == CHOICES)
			return 0;
		out[count] = together_of(t, parts, n);
		if (!(out[count++].mask & (ADDRESSES | PORTS)))
			return 0;
	}
	return count;
}

static bool
all_have(const struct together *choices, size_t count, unsigned mask)
{
	for (size_t i = 0; i < count; i++)
		if (!(choices[i].mask & mask))
			return false;
	return count > 0;
}

/* The first OR among the parts of which every way has one of these; 0: there is none, out is just base. */
static size_t
find_choices(const struct pri_terms *t, const uint32_t *parts, size_t count, unsigned mask,
	const struct together *base, struct together out[CHOICES])
{
	for (size_t i = 0; i < count; i++) {
		size_t n = pri_term_is(t, parts[i], PRI_PLAN_OR)
				   ? choices_of(t, parts[i], out)
				   : 0;

		if (all_have(out, n, mask))
			return n;
	}
	out[0] = *base;
	return 0;
}

static struct pri_key
united(const struct together *a, const struct together *b, const struct together *c)
{
	const struct together *from[] = {a, b, c};
	const struct pri_key *keys[PRI_PARTS] = {0};
	uint8_t more[PRI_PARTS] = {0};
	struct pri_key key;

	for (int i = 0; i < PRI_PARTS; i++)
		for (int j = 0; j < 3 && !keys[i]; j++)
			if (from[j]->mask & 1u << i) {
				keys[i] = &from[j]->key[i];
				more[i] = from[j]->more[i];
			}
	key = pri_key_parts(keys);
	pri_key_parts_range(&key, 0, more[2]);
	pri_key_parts_range(&key, 1, more[3]);
	return key;
}

/*
 * Of "host and port", each on either side, a composite for each of the ways: a packet has that of one. TRUE:
 * there is nothing to choose, or no address or protocol with a port.
 */
static uint32_t
crossed(struct pri_terms *t, const uint32_t *parts, size_t count,
	const struct together *base)
{
	struct together a[CHOICES], b[CHOICES];
	size_t na = find_choices(t, parts, count, ADDRESSES, base, a);
	size_t nb = find_choices(t, parts, count, PORTS, base, b), n = 0;
	struct pri_key keys[CHOICES * CHOICES];
	uint32_t term = PRI_TERM_FALSE;

	if (!na && !nb)
		return PRI_TERM_TRUE;
	for (size_t i = 0; i < (na ? na : 1); i++)
		for (size_t j = 0; j < (nb ? nb : 1); j++) {
			keys[n] = united(&a[i], &b[j], base);
			if (!(keys[n].bytes[0] & (ADDRESSES | PRI_PART_PROTO)) ||
				!(keys[n].bytes[0] & PORTS))
				return PRI_TERM_TRUE;
			n++;
		}
	while (n-- > 0)
		term = pri_term_or(t, pri_plan_key(t, &keys[n]), term);
	return term;
}

/* without: of those that have no address */
static bool
is_parts(const struct pri_key *key, bool without)
{
	return key && key->kind == PRI_KEY_PARTS && !(without && key->bytes[0] & ADDRESSES);
}

static bool
made_of_parts(const struct pri_terms *t, uint32_t node, bool without)
{
	for (; pri_term_is(t, node, PRI_PLAN_OR); node = t->nodes[node].right)
		if (!is_parts(key_of(t, t->nodes[node].left), without))
			return false;
	return is_parts(key_of(t, node), without);
}

static size_t
drop_parts(const struct pri_terms *t, uint32_t *parts, size_t count, bool without)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++)
		if (!made_of_parts(t, parts[i], without))
			parts[kept++] = parts[i];
	return kept;
}

size_t
pri_plan_drop_ports(const struct pri_terms *t, uint32_t *parts, size_t count)
{
	return drop_parts(t, parts, count, true);
}

/*
 * All that composite keys as configured can be made of; TRUE: nothing. What was made of some of the parts says
 * nothing more then, and is dropped.
 */
uint32_t
pri_plan_composites(struct pri_terms *t, uint32_t *parts, size_t *count)
{
	struct together all = together_of(t, parts, *count);
	struct pri_key key = united(&all, &all, &all);
	uint32_t term = crossed(t, parts, *count, &all);

	if (term == PRI_TERM_TRUE && !(key.bytes[0] & (key.bytes[0] - 1)))
		return PRI_TERM_TRUE;
	*count = drop_parts(t, parts, *count, false);
	return term == PRI_TERM_TRUE ? pri_plan_key(t, &key) : term;
}
