/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/filter/plan_term.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

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

static bool
leaf_room(struct pri_terms *t)
{
	uint32_t room = t->leaf_room ? 2 * t->leaf_room : 64;
	struct pri_term_leaf *leaves;

	if (t->leaf_count < t->leaf_room)
		return true;
	leaves = realloc(t->leaves, room * sizeof(*leaves));
	if (!leaves) {
		t->failed = true;
		return false;
	}
	t->leaves = leaves;
	t->leaf_room = room;
	return true;
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
	if (full(t) || !leaf_room(t))
		return PRI_TERM_TRUE;
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
