/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/filter/plan_internal.h"

#include <xxhash.h>

/* ---- terms, each stored once ---- */

#define ROOM_MIN 512u

int
pri_terms_init(struct pri_terms *t, uint32_t limit)
{
	t->limit = limit;
	t->room = ROOM_MIN;
	t->nodes = calloc(ROOM_MIN, sizeof(*t->nodes));
	t->table = calloc(2 * ROOM_MIN, sizeof(*t->table));
	t->count = 2;
	if (!t->nodes || !t->table)
		return -1;
	t->nodes[PRI_TERM_FALSE].op = PRI_PLAN_FALSE;
	t->nodes[PRI_TERM_TRUE].op = PRI_PLAN_TRUE;
	return 0;
}

void
pri_terms_free(struct pri_terms *t)
{
	PR_FREE(t, nodes, leaves, table);
}

/* The contents by which equal nodes are found: a leaf's, or the numbers of the parts. */
static const void *
content_of(const struct pri_terms *t, const struct pri_plan_node *n, size_t *len)
{
	bool leaf =
		n->op == PRI_PLAN_KEY || n->op == PRI_PLAN_RANGE || n->op == PRI_TERM_BYTES;

	*len = leaf ? sizeof(*t->leaves) : sizeof(*n);
	return leaf ? (const void *)&t->leaves[n->left] : n;
}

/* The slot of the node in the table, or the free slot for it. */
static uint32_t *
slot_of(const struct pri_terms *t, const struct pri_plan_node *n)
{
	size_t len, other_len;
	const void *content = content_of(t, n, &len), *other;
	uint32_t mask = 2 * t->room - 1, at = XXH3_64bits(content, len) & mask;

	for (; t->table[at]; at = (at + 1) & mask) {
		other = content_of(t, &t->nodes[t->table[at]], &other_len);
		if (len == other_len && !memcmp(content, other, len))
			break;
	}
	return &t->table[at];
}

/* Makes room for one more node; half of the table stays free. */
static int
grow(struct pri_terms *t)
{
	if (t->count < t->room)
		return 0;
	struct pri_plan_node *nodes =
		reallocarray(t->nodes, 2 * (size_t)t->room, sizeof(*nodes));
	if (!nodes)
		return -1;
	t->nodes = nodes;
	uint32_t *table = calloc(4 * (size_t)t->room, sizeof(*table));
	if (!table)
		return -1;
	free(t->table);
	t->table = table;
	t->room *= 2;
	for (uint32_t i = 2; i < t->count; i++)
		*slot_of(t, &t->nodes[i]) = i;
	return 0;
}

/* Returns the number of this node; adds it if it is new. */
static uint32_t
number_of(struct pri_terms *t, struct pri_plan_node n)
{
	if (t->failed || (t->stop && atomic_load(t->stop)) || grow(t) < 0) {
		t->failed = true;
		return PRI_TERM_TRUE;
	}
	uint32_t *slot = slot_of(t, &n);
	if (!*slot && t->count >= t->limit)
		return PRI_TERM_TRUE;
	if (!*slot) {
		t->nodes[t->count] = n;
		*slot = t->count++;
	}
	return *slot;
}

uint32_t
pri_term_leaf(struct pri_terms *t, const struct pri_term_leaf *leaf)
{
	uint32_t before = t->count, number;

	if (PR_ARRAY_GROW(t->leaves, t->leaf_count) < 0) {
		t->failed = true;
		return PRI_TERM_TRUE;
	}
	t->leaves[t->leaf_count] = *leaf;
	number =
		number_of(t, (struct pri_plan_node){.op = leaf->op, .left = t->leaf_count});
	t->leaf_count += t->count > before;
	return number;
}

/* Makes an AND or an OR as given, without simplifying it. */
static uint32_t
node(struct pri_terms *t, enum pri_plan_op op, uint32_t a, uint32_t b)
{
	return number_of(t, (struct pri_plan_node){.op = op, .left = a, .right = b});
}

/* ---- and ---- */

static void
insert(struct pri_parts *parts, uint32_t part)
{
	size_t at = parts->count;
	uint32_t *p = parts->items;

	while (at > 0 && p[at - 1] > part)
		at--;
	if (at > 0 && p[at - 1] == part)
		return;
	memmove(p + at + 1, p + at, (parts->count++ - at) * sizeof(*p));
	p[at] = part;
}

/* ANDs are chains to the right, as pri_term_join makes them. */
bool
pri_term_parts(const struct pri_terms *t, uint32_t a, struct pri_parts *parts)
{
	for (;; a = t->nodes[a].right) {
		bool and = pri_term_is(t, a, PRI_PLAN_AND);

		if (parts->count == PRI_TERM_PARTS)
			return false;
		insert(parts, and? t->nodes[a].left : a);
		if (!and)
			return true;
	}
}

uint32_t
pri_term_join(struct pri_terms *t, const struct pri_parts *parts)
{
	size_t i = parts->count;
	uint32_t a = i ? parts->items[--i] : PRI_TERM_TRUE;

	while (i-- > 0)
		a = node(t, PRI_PLAN_AND, parts->items[i], a);
	return a;
}

/*
 * Merges two leaves into one that requires what both require. PRI_TERM_FALSE: they exclude
 * each other; PRI_TERM_TRUE: they cannot be merged.
 */
static uint32_t
merge(struct pri_terms *t, uint32_t na, uint32_t nb)
{
	bool possible = true;

	if (t->nodes[na].op != t->nodes[nb].op ||
		(!pri_term_is(t, na, PRI_TERM_BYTES) &&
			!pri_term_is(t, na, PRI_PLAN_RANGE)))
		return PRI_TERM_TRUE;
	struct pri_term_leaf a = *pri_term_leaf_of(t, na);
	struct pri_term_leaf b = *pri_term_leaf_of(t, nb);
	if (a.field != b.field || a.range.number != b.range.number)
		return PRI_TERM_TRUE;
	/* a leaf is bytes or a range, and the fields of the other are 0: merge both */
	a.whole |= b.whole;
	for (size_t i = 0; i < sizeof(a.mask); i++) {
		possible &= !((a.value[i] ^ b.value[i]) & a.mask[i] & b.mask[i]);
		a.mask[i] |= b.mask[i];
		a.value[i] |= b.value[i];
	}
	a.range.least = PR_MAX(a.range.least, b.range.least);
	a.range.most = PR_MIN(a.range.most, b.range.most);
	return possible && a.range.least <= a.range.most ? pri_term_leaf(t, &a)
							 : PRI_TERM_FALSE;
}

/* An AND of the parts after all merges that are possible. */
static uint32_t
merge_parts(struct pri_terms *t, struct pri_parts *parts)
{
	for (size_t i = 0; i < parts->count; i++)
		for (size_t j = i + 1; j < parts->count; j++) {
			uint32_t one = merge(t, parts->items[i], parts->items[j]);

			if (one == PRI_TERM_FALSE)
				return PRI_TERM_FALSE;
			if (one == PRI_TERM_TRUE)
				continue;
			pri_term_drop(parts, j);
			pri_term_drop(parts, i);
			insert(parts, one);
			return merge_parts(t, parts);
		}
	return pri_term_join(t, parts);
}

uint32_t
pri_term_and(struct pri_terms *t, uint32_t a, uint32_t b)
{
	struct pri_parts parts = {0};

	if (a == PRI_TERM_FALSE || b == PRI_TERM_FALSE)
		return PRI_TERM_FALSE;
	if (a == PRI_TERM_TRUE || a == b)
		return b;
	if (b == PRI_TERM_TRUE)
		return a;
	return pri_term_parts(t, a, &parts) && pri_term_parts(t, b, &parts)
		       ? merge_parts(t, &parts)
		       : node(t, PRI_PLAN_AND, a, b);
}

/* ---- or ---- */

#define ALTERNATIVES 8 /* alternatives of an OR that are compared */

uint32_t
pri_term_next(const struct pri_terms *t, uint32_t *a)
{
	bool or = pri_term_is(t, *a, PRI_PLAN_OR);
	uint32_t first = or ? t->nodes[*a].left : *a;

	*a = or ? t->nodes[*a].right : PRI_TERM_FALSE;
	return first;
}

/* True if a implies b, as far as their form shows it: a is b, or an AND with b in it. */
static bool
implies(const struct pri_terms *t, uint32_t a, uint32_t b)
{
	for (unsigned i = 0; i < PRI_TERM_PARTS; i++, a = t->nodes[a].right) {
		if (a == b)
			return true;
		if (!pri_term_is(t, a, PRI_PLAN_AND))
			return false;
		if (t->nodes[a].left == b)
			return true;
	}
	return false;
}

/*
 * True if a implies one of the first alternatives of b, or is the rest of b after some of
 * them.
 */
static bool
allows(const struct pri_terms *t, uint32_t b, uint32_t a)
{
	for (unsigned i = 0; i < ALTERNATIVES && b != PRI_TERM_FALSE; i++)
		if (a == b || implies(t, a, pri_term_next(t, &b)))
			return true;
	return a == b;
}

/* An OR of the parts and the rest, in this order. */
static uint32_t
rejoin(struct pri_terms *t, const uint32_t *parts, size_t count, uint32_t rest)
{
	while (count-- > 0)
		rest = rest == PRI_TERM_FALSE ? parts[count]
					      : node(t, PRI_PLAN_OR, parts[count], rest);
	return rest;
}

/*
 * a without the alternatives that b has too, as far as their form shows it. b may be the
 * rest of a itself.
 */
static uint32_t
strip(struct pri_terms *t, uint32_t a, uint32_t b)
{
	uint32_t parts[ALTERNATIVES];
	size_t kept = 0;

	for (size_t i = 0; i < ALTERNATIVES && a != PRI_TERM_FALSE && !allows(t, b, a);
		i++) {
		parts[kept] = pri_term_next(t, &a);
		kept += !allows(t, b, parts[kept]);
	}
	return rejoin(t, parts, kept, allows(t, b, a) ? PRI_TERM_FALSE : a);
}

uint32_t
pri_term_or(struct pri_terms *t, uint32_t a, uint32_t b)
{
	uint32_t parts[ALTERNATIVES], rest;
	size_t count = 0;

	if (a == PRI_TERM_TRUE || b == PRI_TERM_TRUE)
		return PRI_TERM_TRUE;
	rest = a = strip(t, a, b);
	b = strip(t, b, a);
	while (count < ALTERNATIVES && rest != PRI_TERM_FALSE)
		parts[count++] = pri_term_next(t, &rest);
	return rest != PRI_TERM_FALSE ? rejoin(t, &a, 1, b) : rejoin(t, parts, count, b);
}

/* ---- branches ---- */

uint32_t
pri_term_branch(
	struct pri_terms *t, uint32_t if_true, uint32_t yes, uint32_t if_false, uint32_t no)
{
	if (yes == no)
		return yes;
	if (if_true == PRI_TERM_TRUE && if_false != PRI_TERM_TRUE)
		return pri_term_branch(t, if_false, no, if_true, yes);
	uint32_t rest = strip(t, yes, no);
	if (rest != yes)
		return pri_term_or(t, pri_term_and(t, if_true, rest), no);
	return pri_term_or(t, pri_term_and(t, if_true, yes), pri_term_and(t, if_false, no));
}
