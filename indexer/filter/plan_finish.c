/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/filter/plan_finish.h"

#include <stdlib.h>

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

static uint8_t
op_of(const struct pri_key *key)
{
	return key->kind == PRI_KEY_PARTS   ? PRI_PLAN_PARTS
	       : key->kind == PRI_KEY_OTHER ? PRI_PLAN_OTHER
					    : PRI_PLAN_KEY;
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
			p->nodes[at].op = op_of(&p->keys[keys++]);
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
