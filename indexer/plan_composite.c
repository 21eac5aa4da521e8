/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/plan_composite.h"

#include <string.h>

#include "indexer/composite.h"
#include "indexer/plan_ranks.h"

/* ---- keys that come together ---- */

static const struct pr_key *
key_of(const struct pr_terms *t, uint32_t node)
{
	return pr_term_is(t, node, PR_PLAN_KEY) ? &pr_term_leaf_of(t, node)->key : NULL;
}

static const struct pr_key *
find_key(const struct pr_terms *t, const uint32_t *parts, size_t count,
	enum pr_key_kind kind)
{
	for (size_t i = 0; i < count; i++) {
		const struct pr_key *key = key_of(t, parts[i]);

		if (key && key->kind == kind)
			return key;
	}
	return NULL;
}

uint32_t
pr_plan_key(struct pr_terms *t, const struct pr_key *key)
{
	struct pr_term_leaf leaf = {.op = PR_PLAN_KEY, .key = *key};

	return pr_term_leaf(t, &leaf);
}

/* The PAIR of addresses that are both there; TRUE: they are not. */
uint32_t
pr_plan_pairs(struct pr_terms *t, const uint32_t *parts, size_t count)
{
	const struct pr_key *src = find_key(t, parts, count, PR_KEY_SRC),
			    *dst = find_key(t, parts, count, PR_KEY_DST);
	struct pr_key pair;

	if (!src || !dst || src->len != dst->len)
		return PR_TERM_TRUE;
	pair = pr_key_pair(src->bytes, dst->bytes, src->len);
	return pr_plan_key(t, &pair);
}

/* The address that a part says a packet is from or to; false: none, or of IPv6. */
static bool
end_of(const struct pr_terms *t, uint32_t node, bool *src, bool *dst, uint8_t address[4])
{
	const struct pr_plan_node *n = &t->nodes[node];
	const struct pr_key *key;

	if (n->op == PR_PLAN_OR) {
		uint8_t other[4];

		return end_of(t, n->left, src, dst, address) &&
		       end_of(t, n->right, src, dst, other) && !memcmp(address, other, 4);
	}
	key = key_of(t, node);
	if (!key || key->len != 4 || (key->kind != PR_KEY_SRC && key->kind != PR_KEY_DST))
		return false;
	*src |= key->kind == PR_KEY_SRC;
	*dst |= key->kind == PR_KEY_DST;
	memcpy(address, key->bytes, 4);
	return true;
}

/* Of an address on one side, or on either, and what the address at the other end is not. */
static uint32_t
other_of(struct pr_terms *t, const uint32_t *parts, size_t count, uint32_t node,
	const uint8_t not_this[4])
{
	struct pr_key key = {.kind = PR_KEY_OTHER, .len = 8};
	bool src = false, dst = false, not_src = false, not_dst = false;

	if (!end_of(t, node, &src, &dst, key.bytes))
		return PR_TERM_TRUE;
	for (size_t i = 0; i < count; i++) {
		const struct pr_key *differs =
			pr_term_differs(t, parts[i]) ? key_of(t, parts[i]) : NULL;

		if (!differs || memcmp(differs->bytes, not_this, 4) != 0)
			continue;
		not_src |= differs->kind == PR_KEY_NOT_SRC;
		not_dst |= differs->kind == PR_KEY_NOT_DST;
	}
	if ((src && !not_dst) || (dst && !not_src))
		return PR_TERM_TRUE;
	memcpy(key.bytes + 4, not_this, 4);
	return pr_plan_key(t, &key);
}

uint32_t
pr_plan_others(struct pr_terms *t, const uint32_t *parts, size_t count)
{
	uint32_t term = PR_TERM_TRUE;
	uint8_t not_this[4];

	for (size_t i = 0; i < count; i++) {
		if (!pr_term_differs(t, parts[i]))
			continue;
		memcpy(not_this, key_of(t, parts[i])->bytes, 4);
		for (size_t j = 0; j < count; j++)
			term = pr_term_and(
				t, term, other_of(t, parts, count, parts[j], not_this));
	}
	return term;
}

/* ---- composites as configured ---- */

#define ADDRESSES (PR_PART_SRC | PR_PART_DST)
#define PORTS (PR_PART_SPORT | PR_PART_DPORT)
#define CHOICES 4 /* an address or a port on either side are two */

/* What a packet has at once, by bits of enum pr_part. */
struct together {
	struct pr_key key[PR_PARTS];
	uint8_t more[PR_PARTS]; /* of a short range of ports: those above the first */
	unsigned mask;
};

/* A short range of ports is taken for a port, with more of them. */
static void
take_range(struct together *all, const struct pr_terms *t, uint32_t node)
{
	const struct pr_plan_range *r;
	unsigned ports, part;

	if (!pr_term_is(t, node, PR_PLAN_RANGE))
		return;
	r = &pr_term_leaf_of(t, node)->range;
	ports = pr_plan_range_ports(r);
	part = r->number == PR_NUMBER_SPORT ? 2 : 3;
	if (!ports || all->mask & 1u << part)
		return;
	all->key[part] = pr_plan_range_port(r, 0);
	all->more[part] = (uint8_t)(ports - 1);
	all->mask |= 1u << part;
}

static struct together
together_of(const struct pr_terms *t, const uint32_t *parts, size_t count)
{
	static const uint8_t kinds[PR_PARTS] = {PR_KEY_SRC, PR_KEY_DST, PR_KEY_SPORT,
		PR_KEY_DPORT, PR_KEY_PROTO, PR_KEY_VLAN};
	struct together all = {.mask = 0};

	for (int i = 0; i < PR_PARTS; i++) {
		const struct pr_key *key =
			find_key(t, parts, count, (enum pr_key_kind)kinds[i]);

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
choices_of(const struct pr_terms *t, uint32_t node, struct together out[CHOICES])
{
	uint32_t parts[PR_TERM_PARTS];
	size_t count = 0, n;

	for (bool more = true; more;) {
		uint32_t one = node;

		more = pr_term_is(t, node, PR_PLAN_OR);
		if (more) {
			one = t->nodes[node].left;
			node = t->nodes[node].right;
		}
		n = pr_term_parts(t, one, parts);
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
find_choices(const struct pr_terms *t, const uint32_t *parts, size_t count, unsigned mask,
	const struct together *base, struct together out[CHOICES])
{
	for (size_t i = 0; i < count; i++) {
		size_t n = pr_term_is(t, parts[i], PR_PLAN_OR)
				   ? choices_of(t, parts[i], out)
				   : 0;

		if (all_have(out, n, mask))
			return n;
	}
	out[0] = *base;
	return 0;
}

static struct pr_key
united(const struct together *a, const struct together *b, const struct together *c)
{
	const struct together *from[] = {a, b, c};
	const struct pr_key *keys[PR_PARTS] = {0};
	uint8_t more[PR_PARTS] = {0};
	struct pr_key key;

	for (int i = 0; i < PR_PARTS; i++)
		for (int j = 0; j < 3 && !keys[i]; j++)
			if (from[j]->mask & 1u << i) {
				keys[i] = &from[j]->key[i];
				more[i] = from[j]->more[i];
			}
	key = pr_key_parts(keys);
	pr_key_parts_range(&key, 0, more[2]);
	pr_key_parts_range(&key, 1, more[3]);
	return key;
}

/*
 * Of "host and port", each on either side, a composite for each of the ways: a packet has that of one. TRUE:
 * there is nothing to choose, or no address or protocol with a port.
 */
static uint32_t
crossed(struct pr_terms *t, const uint32_t *parts, size_t count,
	const struct together *base)
{
	struct together a[CHOICES], b[CHOICES];
	size_t na = find_choices(t, parts, count, ADDRESSES, base, a);
	size_t nb = find_choices(t, parts, count, PORTS, base, b), n = 0;
	struct pr_key keys[CHOICES * CHOICES];
	uint32_t term = PR_TERM_FALSE;

	if (!na && !nb)
		return PR_TERM_TRUE;
	for (size_t i = 0; i < (na ? na : 1); i++)
		for (size_t j = 0; j < (nb ? nb : 1); j++) {
			keys[n] = united(&a[i], &b[j], base);
			if (!(keys[n].bytes[0] & (ADDRESSES | PR_PART_PROTO)) ||
				!(keys[n].bytes[0] & PORTS))
				return PR_TERM_TRUE;
			n++;
		}
	while (n-- > 0)
		term = pr_term_or(t, pr_plan_key(t, &keys[n]), term);
	return term;
}

/* without: of those that have no address */
static bool
is_parts(const struct pr_key *key, bool without)
{
	return key && key->kind == PR_KEY_PARTS && !(without && key->bytes[0] & ADDRESSES);
}

static bool
made_of_parts(const struct pr_terms *t, uint32_t node, bool without)
{
	for (; pr_term_is(t, node, PR_PLAN_OR); node = t->nodes[node].right)
		if (!is_parts(key_of(t, t->nodes[node].left), without))
			return false;
	return is_parts(key_of(t, node), without);
}

static size_t
drop_parts(const struct pr_terms *t, uint32_t *parts, size_t count, bool without)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++)
		if (!made_of_parts(t, parts[i], without))
			parts[kept++] = parts[i];
	return kept;
}

size_t
pr_plan_drop_ports(const struct pr_terms *t, uint32_t *parts, size_t count)
{
	return drop_parts(t, parts, count, true);
}

/*
 * All that composite keys as configured can be made of; TRUE: nothing. What was made of some of the parts says
 * nothing more then, and is dropped.
 */
uint32_t
pr_plan_composites(struct pr_terms *t, uint32_t *parts, size_t *count)
{
	struct together all = together_of(t, parts, *count);
	struct pr_key key = united(&all, &all, &all);
	uint32_t term = crossed(t, parts, *count, &all);

	if (term == PR_TERM_TRUE && !(key.bytes[0] & (key.bytes[0] - 1)))
		return PR_TERM_TRUE;
	*count = drop_parts(t, parts, *count, false);
	return term == PR_TERM_TRUE ? pr_plan_key(t, &key) : term;
}
