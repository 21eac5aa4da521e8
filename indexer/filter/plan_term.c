/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/filter/plan_internal.h"
#include "proto/base/array.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* ---- terms, each stored once ---- */

/* Terms, each stored once. */

#define TABLE_MIN 1024u

int
pri_terms_init(struct pri_terms *t, uint32_t limit)
{
	*t = (struct pri_terms){
		.limit = limit, .room = TABLE_MIN / 2, .table_size = TABLE_MIN};
	t->nodes = malloc(t->room * sizeof(*t->nodes));
	t->table = calloc(t->table_size, sizeof(*t->table));
	if (!t->nodes || !t->table) {
		pri_terms_free(t);
		return -1;
	}
	t->nodes[PRI_TERM_FALSE] = (struct pri_plan_node){.op = PRI_PLAN_FALSE};
	t->nodes[PRI_TERM_TRUE] = (struct pri_plan_node){.op = PRI_PLAN_TRUE};
	t->count = 2;
	return 0;
}

void
pri_terms_free(struct pri_terms *t)
{
	free(t->nodes);
	free(t->leaves);
	free(t->table);
	*t = (struct pri_terms){.failed = true};
}

static bool
is_leaf(unsigned op)
{
	return op == PRI_PLAN_KEY || op == PRI_PLAN_RANGE || op == PRI_TERM_BYTES;
}

static uint64_t
hash_of(const struct pri_terms *t, uint32_t number)
{
	const struct pri_plan_node *n = &t->nodes[number];
	uint32_t words[3] = {n->op, n->left, n->right};

	if (is_leaf(n->op))
		return XXH3_64bits(&t->leaves[n->left], sizeof(*t->leaves));
	return XXH3_64bits(words, sizeof(words));
}

static void
put(struct pri_terms *t, uint32_t number)
{
	uint32_t at = (uint32_t)hash_of(t, number) & (t->table_size - 1);

	while (t->table[at])
		at = (at + 1) & (t->table_size - 1);
	t->table[at] = number;
}

/* Room for one more node; half of the table stays free. */
static bool
grow(struct pri_terms *t)
{
	struct pri_plan_node *nodes;
	uint32_t *table;

	if (t->count < t->room)
		return true;
	table = calloc(2 * (size_t)t->table_size, sizeof(*table));
	nodes = table ? realloc(t->nodes, 2 * (size_t)t->room * sizeof(*nodes)) : NULL;
	if (!nodes) {
		free(table);
		t->failed = true;
		return false;
	}
	t->nodes = nodes;
	t->room *= 2;
	free(t->table);
	t->table = table;
	t->table_size *= 2;
	for (uint32_t i = 2; i < t->count; i++)
		put(t, i);
	return true;
}

static bool
full(struct pri_terms *t)
{
	return t->failed || t->count >= t->limit || !grow(t);
}

static uint32_t
add(struct pri_terms *t, uint8_t op, uint32_t left, uint32_t right)
{
	t->nodes[t->count] = (struct pri_plan_node){.op = op, .left = left, .right = right};
	put(t, t->count);
	return t->count++;
}

static uint32_t
find_leaf(const struct pri_terms *t, const struct pri_term_leaf *leaf)
{
	uint32_t at = (uint32_t)XXH3_64bits(leaf, sizeof(*leaf)) & (t->table_size - 1);

	for (; t->table[at]; at = (at + 1) & (t->table_size - 1)) {
		const struct pri_plan_node *n = &t->nodes[t->table[at]];
		if (is_leaf(n->op) && !memcmp(&t->leaves[n->left], leaf, sizeof(*leaf)))
			return t->table[at];
	}
	return 0;
}

/* Compared and hashed as bytes, so what lies between its members must be alike too. */
static void
copy_leaf(struct pri_term_leaf *to, const struct pri_term_leaf *from)
{
	memset(to, 0, sizeof(*to));
	to->op = from->op;
	to->field = from->field;
	to->whole = from->whole;
	to->key.kind = from->key.kind;
	to->key.len = from->key.len;
	memcpy(to->key.bytes, from->key.bytes, sizeof(to->key.bytes));
	memcpy(to->mask, from->mask, sizeof(to->mask));
	memcpy(to->value, from->value, sizeof(to->value));
	to->range.number = from->range.number;
	to->range.least = from->range.least;
	to->range.most = from->range.most;
}

uint32_t
pri_term_leaf(struct pri_terms *t, const struct pri_term_leaf *leaf)
{
	struct pri_term_leaf clean;
	uint32_t found;

	copy_leaf(&clean, leaf);
	found = find_leaf(t, &clean);
	if (found)
		return found;
	if (full(t))
		return PRI_TERM_TRUE;
	if (PR_ARRAY_GROW(t->leaves, t->leaf_count) < 0) {
		t->failed = true;
		return PRI_TERM_TRUE;
	}
	copy_leaf(&t->leaves[t->leaf_count], &clean);
	return add(t, clean.op, t->leaf_count++, 0);
}

uint32_t
pri_term_node(struct pri_terms *t, enum pri_plan_op op, uint32_t a, uint32_t b)
{
	uint32_t words[3] = {op, a, b}, at;

	at = (uint32_t)XXH3_64bits(words, sizeof(words)) & (t->table_size - 1);
	for (; t->table[at]; at = (at + 1) & (t->table_size - 1)) {
		const struct pri_plan_node *n = &t->nodes[t->table[at]];
		if (n->op == op && n->left == a && n->right == b)
			return t->table[at];
	}
	return full(t) ? PRI_TERM_TRUE : add(t, (uint8_t)op, a, b);
}

/* ---- and ---- */

static size_t
insert(uint32_t *parts, size_t count, uint32_t part)
{
	size_t at = count;

	while (at > 0 && parts[at - 1] > part)
		at--;
	if (at > 0 && parts[at - 1] == part)
		return count;
	memmove(parts + at + 1, parts + at, (count - at) * sizeof(*parts));
	parts[at] = part;
	return count + 1;
}

/* ANDs are chains to the right, as pri_term_join makes them. */
static bool
collect(const struct pri_terms *t, uint32_t a, uint32_t *parts, size_t *count)
{
	for (;; a = t->nodes[a].right) {
		bool and = pri_term_is(t, a, PRI_PLAN_AND);

		if (*count == PRI_TERM_PARTS)
			return false;
		*count = insert(parts, *count, and? t->nodes[a].left : a);
		if (!and)
			return true;
	}
}

size_t
pri_term_parts(const struct pri_terms *t, uint32_t a, uint32_t parts[PRI_TERM_PARTS])
{
	size_t count = 0;

	return collect(t, a, parts, &count) ? count : 0;
}

uint32_t
pri_term_join(struct pri_terms *t, const uint32_t *parts, size_t count)
{
	uint32_t a = count ? parts[count - 1] : PRI_TERM_TRUE;

	for (size_t i = count; i-- > 1;)
		a = pri_term_node(t, PRI_PLAN_AND, parts[i - 1], a);
	return a;
}

/* Both of one field: false when no packet can have both. */
static bool
merge_bytes(struct pri_term_leaf *a, const struct pri_term_leaf *b)
{
	a->whole |= b->whole;
	for (size_t i = 0; i < sizeof(a->mask); i++) {
		if ((a->value[i] ^ b->value[i]) & a->mask[i] & b->mask[i])
			return false;
		a->mask[i] |= b->mask[i];
		a->value[i] |= b->value[i];
	}
	return true;
}

static bool
merge_range(struct pri_plan_range *a, const struct pri_plan_range *b)
{
	if (b->least > a->least)
		a->least = b->least;
	if (b->most < a->most)
		a->most = b->most;
	return a->least <= a->most;
}

/* One leaf that says what both say, PRI_TERM_FALSE, or PRI_TERM_TRUE: they do not go together. */
static uint32_t
merge(struct pri_terms *t, uint32_t na, uint32_t nb)
{
	struct pri_term_leaf a, b;

	if (t->nodes[na].op != t->nodes[nb].op)
		return PRI_TERM_TRUE;
	if (!pri_term_is(t, na, PRI_TERM_BYTES) && !pri_term_is(t, na, PRI_PLAN_RANGE))
		return PRI_TERM_TRUE;
	a = *pri_term_leaf_of(t, na);
	b = *pri_term_leaf_of(t, nb);
	if (a.op == PRI_TERM_BYTES) {
		if (a.field != b.field)
			return PRI_TERM_TRUE;
		return merge_bytes(&a, &b) ? pri_term_leaf(t, &a) : PRI_TERM_FALSE;
	}
	if (a.range.number != b.range.number)
		return PRI_TERM_TRUE;
	return merge_range(&a.range, &b.range) ? pri_term_leaf(t, &a) : PRI_TERM_FALSE;
}

/* Merges what can be merged; the number of parts left, or SIZE_MAX: it is FALSE. */
static size_t
merge_parts(struct pri_terms *t, uint32_t *parts, size_t count)
{
	for (size_t i = 0; i < count; i++)
		for (size_t j = i + 1; j < count; j++) {
			uint32_t one = merge(t, parts[i], parts[j]);

			if (one == PRI_TERM_FALSE)
				return SIZE_MAX;
			if (one == PRI_TERM_TRUE)
				continue;
			memmove(parts + j, parts + j + 1, (count - j - 1) * sizeof(*parts));
			memmove(parts + i, parts + i + 1, (count - i - 2) * sizeof(*parts));
			return merge_parts(t, parts, insert(parts, count - 2, one));
		}
	return count;
}

uint32_t
pri_term_and(struct pri_terms *t, uint32_t a, uint32_t b)
{
	uint32_t parts[PRI_TERM_PARTS];
	size_t count = 0;

	if (a == PRI_TERM_FALSE || b == PRI_TERM_FALSE)
		return PRI_TERM_FALSE;
	if (a == PRI_TERM_TRUE || a == b)
		return b;
	if (b == PRI_TERM_TRUE)
		return a;
	if (!collect(t, a, parts, &count) || !collect(t, b, parts, &count))
		return pri_term_node(t, PRI_PLAN_AND, a, b);
	count = merge_parts(t, parts, count);
	return count == SIZE_MAX ? PRI_TERM_FALSE : pri_term_join(t, parts, count);
}

/* ---- or ---- */

#define ALTERNATIVES 8 /* looked at, of an OR */

/* By its form, seen at once: a is b, or an AND with b in it. */
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
 * The first alternatives of an OR, or the formula itself. *rest: what is behind them; FALSE: nothing.
 */
static size_t
alternatives(const struct pri_terms *t, uint32_t a, uint32_t *out, uint32_t *rest)
{
	size_t count = 0;

	while (count < ALTERNATIVES && a != PRI_TERM_FALSE) {
		bool or = pri_term_is(t, a, PRI_PLAN_OR);

		out[count++] = or ? t->nodes[a].left : a;
		a = or ? t->nodes[a].right : PRI_TERM_FALSE;
	}
	*rest = a;
	return count;
}

/* An OR of them as they stand. */
static uint32_t
rejoin(struct pri_terms *t, const uint32_t *parts, size_t count, uint32_t rest)
{
	while (count-- > 0)
		rest = rest == PRI_TERM_FALSE
			       ? parts[count]
			       : pri_term_node(t, PRI_PLAN_OR, parts[count], rest);
	return rest;
}

/* By their forms, seen at once: is each alternative of a one of b, or the rest of b? */
static bool
within(const struct pri_terms *t, uint32_t a, uint32_t b)
{
	uint32_t as[ALTERNATIVES], bs[ALTERNATIVES], rest_a, rest_b = b;
	size_t na = alternatives(t, a, as, &rest_a), nb = 0, j;

	for (; nb < ALTERNATIVES && rest_b != PRI_TERM_FALSE; nb++) {
		bool or = pri_term_is(t, rest_b, PRI_PLAN_OR);

		if (rest_b == a)
			return true;
		bs[nb] = or ? t->nodes[rest_b].left : rest_b;
		rest_b = or ? t->nodes[rest_b].right : PRI_TERM_FALSE;
	}
	if (rest_a != rest_b)
		return false;
	for (size_t i = 0; i < na; i++) {
		for (j = 0; j < nb && !implies(t, as[i], bs[j]); j++)
			;
		if (j == nb)
			return false;
	}
	return true;
}

/*
 * a without what b allows too, as far as it is seen at once; *some tells whether there was any. b may
 * be the rest of a itself, as in a chain of tests with one way out.
 */
static uint32_t
strip(struct pri_terms *t, uint32_t a, uint32_t b, bool *some)
{
	uint32_t parts[ALTERNATIVES], rest = a;
	size_t count = 0, kept = 0;

	while (count < ALTERNATIVES && rest != PRI_TERM_FALSE && !within(t, rest, b)) {
		bool or = pri_term_is(t, rest, PRI_PLAN_OR);

		parts[count++] = or ? t->nodes[rest].left : rest;
		rest = or ? t->nodes[rest].right : PRI_TERM_FALSE;
	}
	if (rest != PRI_TERM_FALSE && within(t, rest, b)) {
		*some = true;
		rest = PRI_TERM_FALSE;
	}
	for (size_t i = 0; i < count; i++)
		if (!within(t, parts[i], b))
			parts[kept++] = parts[i];
	if (kept == count && !*some)
		return a;
	*some = true;
	return rejoin(t, parts, kept, rest);
}

/* One range of time that says what either says, where they touch; else PRI_TERM_TRUE. */
static uint32_t
merge_times(struct pri_terms *t, uint32_t na, uint32_t nb)
{
	struct pri_term_leaf a, b;

	if (!pri_term_is(t, na, PRI_PLAN_RANGE) || !pri_term_is(t, nb, PRI_PLAN_RANGE))
		return PRI_TERM_TRUE;
	a = *pri_term_leaf_of(t, na);
	b = *pri_term_leaf_of(t, nb);
	if (a.range.number != PRI_NUMBER_TIME || b.range.number != PRI_NUMBER_TIME ||
		(a.range.most < b.range.least && a.range.most + 1 < b.range.least) ||
		(b.range.most < a.range.least && b.range.most + 1 < a.range.least))
		return PRI_TERM_TRUE;
	if (b.range.least < a.range.least)
		a.range.least = b.range.least;
	if (b.range.most > a.range.most)
		a.range.most = b.range.most;
	return pri_term_leaf(t, &a);
}

/* a is no OR. */
static uint32_t
or_one(struct pri_terms *t, uint32_t a, uint32_t b)
{
	uint32_t parts[ALTERNATIVES], rest, one;
	size_t count = alternatives(t, b, parts, &rest);
	bool some = false;

	for (size_t i = 0; i < count; i++) {
		if (implies(t, a, parts[i]))
			return b;
		one = merge_times(t, a, parts[i]);
		if (one == PRI_TERM_TRUE)
			continue;
		memmove(parts + i, parts + i + 1, (count - i - 1) * sizeof(*parts));
		b = rejoin(t, parts, count - 1, rest);
		return b == PRI_TERM_FALSE ? one : or_one(t, one, b);
	}
	b = strip(t, b, a, &some);
	return b == PRI_TERM_FALSE ? a : pri_term_node(t, PRI_PLAN_OR, a, b);
}

uint32_t
pri_term_or(struct pri_terms *t, uint32_t a, uint32_t b)
{
	uint32_t parts[ALTERNATIVES], rest;
	size_t count;

	if (a == PRI_TERM_TRUE || b == PRI_TERM_TRUE)
		return PRI_TERM_TRUE;
	if (a == PRI_TERM_FALSE || implies(t, a, b))
		return b;
	if (b == PRI_TERM_FALSE || implies(t, b, a))
		return a;
	count = alternatives(t, a, parts, &rest);
	if (rest != PRI_TERM_FALSE)
		return pri_term_node(t, PRI_PLAN_OR, a, b);
	while (count > 0)
		b = or_one(t, parts[--count], b);
	return b;
}

/* ---- branches ---- */

uint32_t
pri_term_branch(
	struct pri_terms *t, uint32_t if_true, uint32_t yes, uint32_t if_false, uint32_t no)
{
	bool some = false;
	uint32_t rest;

	if (yes == no)
		return yes;
	if (if_true == PRI_TERM_TRUE && if_false != PRI_TERM_TRUE)
		return pri_term_branch(t, if_false, no, if_true, yes);
	rest = no == PRI_TERM_FALSE ? yes : strip(t, yes, no, &some);
	if (some)
		return pri_term_or(t, pri_term_and(t, if_true, rest), no);
	return pri_term_or(t, pri_term_and(t, if_true, yes), pri_term_and(t, if_false, no));
}
