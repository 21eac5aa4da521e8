/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "indexer/filter/plan.h"
#include "indexer/filter/plan_words.h"

struct words {
	FILE *to;
	const struct pri_plan *plan;
	unsigned lines; /* printed so far */
};

#define ALTERNATIVES_SHOWN 8
#define NESTING_SHOWN 8

/* Of an OR, its alternatives; of an AND, its parts. */
struct list {
	uint32_t items[PRI_PLAN_WORDS_MAX];
	size_t count, more;
};

static const struct pri_plan_node *
node_of(const struct words *w, uint32_t node)
{
	return &w->plan->nodes[node];
}

static void
begin_line(struct words *w, unsigned indent)
{
	w->lines++;
	for (unsigned i = 0; i < indent; i++)
		fputc('\t', w->to);
}

/* ---- nodes ---- */

static bool
other_side(unsigned a, unsigned b)
{
	static const uint8_t pairs[][2] = {{PRI_KEY_SRC, PRI_KEY_DST},
		{PRI_KEY_SPORT, PRI_KEY_DPORT}, {PRI_KEY_MAC_SRC, PRI_KEY_MAC_DST}};

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
		if ((a == pairs[i][0] && b == pairs[i][1]) ||
			(a == pairs[i][1] && b == pairs[i][0]))
			return true;
	return false;
}

/* Do two alternatives say the same of either side? */
static bool
both_sides(const struct words *w, uint32_t na, uint32_t nb)
{
	const struct pri_plan_node *a = node_of(w, na), *b = node_of(w, nb);

	if (a->op != b->op)
		return false;
	if (a->op == PRI_PLAN_KEY) {
		const struct pri_key *x = &w->plan->keys[a->left],
				     *y = &w->plan->keys[b->left];
		return other_side(x->kind, y->kind) && x->len == y->len &&
		       !memcmp(x->bytes, y->bytes, x->len);
	}
	if (a->op == PRI_PLAN_RANGE) {
		const struct pri_plan_range *x = &w->plan->ranges[a->left],
					    *y = &w->plan->ranges[b->left];
		/* numbers of either side differ by one, the even one first */
		return x->number >= PRI_NUMBER_SPORT && (x->number ^ y->number) == 1 &&
		       x->least == y->least && x->most == y->most;
	}
	return false;
}

/* What composite keys as configured are made of: parts that are said one by one already. */
static bool
said_in_parts(const struct words *w, uint32_t node)
{
	const struct pri_plan_node *n = node_of(w, node);

	for (; n->op == PRI_PLAN_OR && said_in_parts(w, n->left); n = node_of(w, n->right))
		;
	return n->op == PRI_PLAN_PARTS || n->op == PRI_PLAN_OTHER;
}

/* Without the parts that go with it. */
static uint32_t
plain(const struct words *w, uint32_t node)
{
	const struct pri_plan_node *n;

	for (;;) {
		n = node_of(w, node);
		if (n->op == PRI_PLAN_AND && said_in_parts(w, n->left))
			node = n->right;
		else if (n->op == PRI_PLAN_AND && said_in_parts(w, n->right))
			node = n->left;
		else
			return node;
	}
}

static void
flatten(const struct words *w, uint32_t node, struct list *list)
{
	unsigned op = node_of(w, node)->op;

	*list = (struct list){.count = 0};
	for (;; node = node_of(w, node)->right) {
		bool last = node_of(w, node)->op != op;

		uint32_t item = last ? node : node_of(w, node)->left;

		if (said_in_parts(w, item))
			;
		else if (list->count < PRI_PLAN_WORDS_MAX)
			list->items[list->count++] = plain(w, item);
		else
			list->more++;
		if (last)
			return;
	}
}

static void
print_leaf(struct words *w, uint32_t node, bool both)
{
	const struct pri_plan_node *n = node_of(w, node);

	if (n->op == PRI_PLAN_KEY)
		pri_plan_print_key(w->to, &w->plan->keys[n->left], both);
	else if (n->op == PRI_PLAN_RANGE)
		pri_plan_print_range(w->to, &w->plan->ranges[n->left], both);
	else
		fputs(n->op != PRI_PLAN_FALSE ? "anything: packets are looked at one by one"
					      : "nothing: no packet can match",
			w->to);
	fputc('\n', w->to);
}

/* The alternative that says the same of the other side, at or behind `from`; 0: none. */
static size_t
find_other_side(const struct words *w, const struct list *list, size_t at)
{
	for (size_t i = at + 1; i < list->count; i++)
		if (both_sides(w, list->items[at], list->items[i]))
			return i;
	return 0;
}

static void print_node(struct words *w, uint32_t node, unsigned indent, unsigned depth);

static void
print_alternatives(struct words *w, struct list *list, unsigned indent, unsigned depth)
{
	size_t shown = 0;

	for (size_t i = 0; i < list->count; i++) {
		size_t other = find_other_side(w, list, i);

		if (shown++ == ALTERNATIVES_SHOWN || w->lines >= PRI_PLAN_WORDS_MAX) {
			begin_line(w, indent);
			fprintf(w->to, "and %zu more\n", list->count - i + list->more);
			return;
		}
		if (!other) {
			print_node(w, list->items[i], indent, depth);
			continue;
		}
		begin_line(w, indent);
		print_leaf(w, list->items[i], true);
		memmove(list->items + other, list->items + other + 1,
			(list->count - other - 1) * sizeof(list->items[0]));
		list->count--;
	}
}

static void
print_parts(struct words *w, const struct list *list, unsigned indent, unsigned depth)
{
	for (size_t i = 0; i < list->count && w->lines < PRI_PLAN_WORDS_MAX; i++)
		print_node(w, list->items[i], indent, depth);
}

static void
print_node(struct words *w, uint32_t node, unsigned indent, unsigned depth)
{
	const struct pri_plan_node *n = node_of(w, node = plain(w, node));
	struct list list;

	if (n->op != PRI_PLAN_AND && n->op != PRI_PLAN_OR) {
		begin_line(w, indent);
		print_leaf(w, node, false);
		return;
	}
	flatten(w, node, &list);
	if (n->op == PRI_PLAN_OR && list.count == 2 && !list.more &&
		both_sides(w, list.items[0], list.items[1])) {
		begin_line(w, indent);
		print_leaf(w, list.items[0], true);
		return;
	}
	begin_line(w, indent);
	if (depth == NESTING_SHOWN) {
		fputs("...\n", w->to);
		return;
	}
	fputs(n->op == PRI_PLAN_AND ? "all of\n" : "any of\n", w->to);
	if (n->op == PRI_PLAN_AND)
		print_parts(w, &list, indent + 1, depth + 1);
	else
		print_alternatives(w, &list, indent + 1, depth + 1);
}

void
pri_plan_print(FILE *to, const struct pri_plan *plan, unsigned indent)
{
	struct words w = {.to = to, .plan = plan};

	print_node(&w, (uint32_t)plan->count - 1, indent, 0);
	if (w.lines >= PRI_PLAN_WORDS_MAX) {
		begin_line(&w, indent);
		fprintf(to, "(%zu keys and %zu ranges in all)\n", plan->key_count,
			plan->range_count);
	}
}
