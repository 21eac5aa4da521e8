/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/filter/plan.h"

/*
 * Ways to the left are calls, ways to the right a loop: chains of alternatives lean to the right, and
 * pri_plan_create bounds how far anything leans to the left.
 */
enum { UNKNOWN, NO, YES };

struct holds {
	const struct pri_plan *plan;
	const struct pri_plan_index *index;
	uint8_t *found;
};

static uint8_t
ask(const struct holds *h, const struct pri_plan_node *n)
{
	const struct pri_plan_index *i = h->index;
	bool yes = n->op == PRI_PLAN_TRUE;

	if (n->op == PRI_PLAN_KEY)
		yes = i->has_key(i->arg, &h->plan->keys[n->left]);
	else if (n->op == PRI_PLAN_PARTS)
		yes = !i->has_parts || i->has_parts(i->arg, &h->plan->keys[n->left]);
	else if (n->op == PRI_PLAN_OTHER)
		yes = !i->has_other || i->has_other(i->arg, &h->plan->keys[n->left]);
	else if (n->op == PRI_PLAN_RANGE)
		yes = i->has_range(i->arg, &h->plan->ranges[n->left]);
	return yes ? YES : NO;
}

/* The value of node, of which what was passed on the way right of `from` is to be told as well. */
static uint8_t
find(const struct holds *h, uint32_t node)
{
	uint32_t from = node;
	uint8_t value;

	for (;;) {
		const struct pri_plan_node *n = &h->plan->nodes[node];

		value = h->found[node];
		if (value != UNKNOWN)
			break;
		if (n->op != PRI_PLAN_AND && n->op != PRI_PLAN_OR) {
			value = ask(h, n);
			break;
		}
		value = find(h, n->left);
		if (value == (n->op == PRI_PLAN_OR ? YES : NO))
			break;
		node = n->right;
	}
	h->found[node] = value;
	/* all that was passed has the value of what stands right of it */
	for (; from != node; from = h->plan->nodes[from].right)
		h->found[from] = value;
	return value;
}

bool
pri_plan_holds(
	const struct pri_plan *plan, const struct pri_plan_index *index, uint8_t *scratch)
{
	struct holds h = {.plan = plan, .index = index, .found = scratch};

	for (size_t i = 0; i < plan->count; i++)
		scratch[i] = UNKNOWN;
	return find(&h, (uint32_t)plan->count - 1) == YES;
}
