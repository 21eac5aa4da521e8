/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/query/prune_group.h"

#include <stdlib.h>
#include <string.h>

#include "indexer/index/index_key.h"
#include "indexer/filter/plan.h"
#include "indexer/query/prune_slices.h"

/* Bytes: what it takes to look into a record of level 1, about, and to ask for a key here. */
#define LOOK 11264
#define ASKING (PRI_SLICES_PAGES * PRI_SLICES_PAGE)

enum { UNKNOWN, NO, YES };

struct vector {
	bool made;
	uint8_t bits[PRI_LEVEL2_VECTOR]; /* which columns may have the key */
};

struct pri_prune_group {
	struct pri_prune_slices slices;
	/* the group at hand */
	uint64_t tried; /* its first sequence; also when it cannot be used */
	bool usable;
	uint64_t starts[PRI_LEVEL2_COLUMNS_MAX + 1]; /* sequences */
	/* the plan at hand */
	const struct pri_plan *plan;
	uint8_t column[PRI_LEVEL2_COLUMNS_MAX]; /* may it match? */
	/* is it about the segments that are there? */
	uint8_t proven[PRI_LEVEL2_COLUMNS_MAX];
	struct vector *vectors; /* of each key, then of ports of ranges */
	size_t vector_room;
	size_t ranks[PRI_RANKS]; /* keys that are worth asking for */
};

struct pri_prune_group *
pri_prune_group_create(
	struct pri_volume *view, uint16_t link, struct pri_prune_stats *figures)
{
	struct pri_prune_group *g = calloc(1, sizeof(*g));

	if (g) {
		g->slices.link = link;
		g->slices.read.view = view;
		g->slices.read.figures = figures;
	}
	return g;
}

void
pri_prune_group_destroy(struct pri_prune_group **group)
{
	struct pri_prune_group *g = *group;

	if (!g)
		return;
	pri_prune_slices_free(&g->slices);
	free(g->vectors);
	free(g);
	*group = NULL;
}

static bool
take_group(struct pri_prune_group *g, const struct pri_index_ref *ref)
{
	g->tried = ref->first_sequence;
	g->plan = NULL;
	if (!pri_prune_slices_take(&g->slices, ref))
		return false;
	g->starts[0] = g->slices.head.first_sequence;
	for (unsigned i = 0; i < g->slices.head.columns; i++)
		g->starts[i + 1] = g->starts[i] + g->slices.head.column[i].segments;
	return true;
}

/* ---- keys ---- */

static void
apply(struct pri_prune_group *g, const struct pri_key *key, uint8_t *vector)
{
	pri_prune_slices_apply(&g->slices, pri_key_hash(key), vector);
}

static size_t
columns_left(const struct pri_prune_group *g, const uint8_t *vector)
{
	size_t left = 0;

	for (unsigned i = 0; i < g->slices.head.columns; i++)
		left += vector[i / 8] >> i % 8 & 1;
	return left;
}

/* An address has its longest prefix: a page or two more, where they cost less than what they may save. */
static void
apply_prefix(struct pri_prune_group *g, const struct pri_key *key, uint8_t *vector)
{
	struct pri_key net;

	if (key->kind != PRI_KEY_ADDRESS || (key->len != 4 && key->len != 16) ||
		columns_left(g, vector) * LOOK <= 2 * ASKING)
		return;
	net = pri_key_bytes(PRI_KEY_NET, key->bytes, key->len == 4 ? 3 : 8);
	apply(g, &net, vector);
}

static void
make_vector(struct pri_prune_group *g, const struct pri_key *key, uint8_t *vector)
{
	struct pri_key either = pri_key_either(key);

	memset(vector, 0xff, PRI_LEVEL2_VECTOR);
	apply(g, &either, vector);
	apply_prefix(g, &either, vector);
}

/* ---- the plan ---- */

struct question {
	struct pri_prune_group *group;
	unsigned column, rank; /* keys up to this rank are asked for */
};

/* index: of its vector */
static bool
ask(struct question *q, const struct pri_key *key, size_t index)
{
	struct pri_prune_group *g = q->group;
	struct vector *v = &g->vectors[index];

	if (!v->made)
		make_vector(g, key, v->bits);
	v->made = true;
	return v->bits[q->column / 8] & 1u << q->column % 8;
}

static bool
has_key(void *arg, const struct pri_key *key)
{
	struct question *q = arg;
	unsigned rank = pri_key_rank(key);

	return rank > q->rank || !q->group->ranks[rank] ||
	       ask(q, key, (size_t)(key - q->group->plan->keys));
}

static bool
has_range(void *arg, const struct pri_plan_range *range)
{
	struct question *q = arg;
	const struct pri_plan *plan = q->group->plan;
	unsigned ports = pri_plan_range_ports(range);
	size_t index = plan->key_count + (size_t)(range - plan->ranges) * PRI_RANGE_PORTS;
	struct pri_key key;

	if (q->rank < PRI_RANK_PORTS || !ports)
		return range->least <= range->most;
	for (unsigned i = 0; i < ports; i++) {
		key = pri_plan_range_port(range, i);
		if (ask(q, &key, index + i))
			return true;
	}
	return false;
}

static unsigned
column_of(const struct pri_prune_group *g, uint64_t sequence)
{
	unsigned low = 0, high = g->slices.head.columns - 1u;

	while (low < high) {
		unsigned mid = (low + high + 1) / 2;

		if (g->starts[mid] <= sequence)
			low = mid;
		else
			high = mid - 1;
	}
	return low;
}

/* Of the columns that are left, those that have no key up to this rank go. Returns how many stay. */
static size_t
ask_rank(struct pri_prune_group *g, unsigned rank, uint8_t *scratch)
{
	struct question question = {.group = g, .rank = rank};
	const struct pri_plan_index index = {
		.has_key = has_key, .has_range = has_range, .arg = &question};
	size_t left = 0;

	for (unsigned *c = &question.column; *c < g->slices.head.columns; ++*c) {
		if (g->column[*c] == YES && !pri_plan_holds(g->plan, &index, scratch))
			g->column[*c] = NO;
		left += g->column[*c] == YES;
	}
	return left;
}

/*
 * Rank by rank, while that reads less than looking into the records of level 1 that it may save. As plans
 * have no NOT, a key that is not asked for may be there.
 */
static void
ask_columns(struct pri_prune_group *g, uint8_t *scratch)
{
	size_t left = g->slices.head.columns;
	bool asked = false;

	pri_plan_ranks(g->plan, g->ranks, scratch);
	for (unsigned rank = 0; rank < PRI_RANKS; rank++) {
		if (!g->ranks[rank] && (asked || rank < PRI_RANKS - 1))
			continue;
		if (asked && left * LOOK <= g->ranks[rank] * ASKING)
			break;
		left = ask_rank(g, rank, scratch);
		asked = true;
	}
}

static bool
take_plan(struct pri_prune_group *g, const struct pri_plan *plan, uint8_t *scratch)
{
	size_t count = plan->key_count + plan->range_count * PRI_RANGE_PORTS;
	struct vector *vectors;

	if (count > g->vector_room) {
		vectors = realloc(g->vectors, count * sizeof(*vectors));
		if (!vectors)
			return false;
		g->vectors = vectors;
		g->vector_room = count;
	}
	for (size_t i = 0; i < count; i++)
		g->vectors[i].made = false;
	memset(g->column, YES, sizeof(g->column));
	memset(g->proven, UNKNOWN, sizeof(g->proven));
	g->plan = plan;
	if (plan->key_count > g->slices.head.pages / 4)
		pri_prune_slices_all(&g->slices);
	ask_columns(g, scratch);
	return true;
}

static bool
may(struct pri_prune_group *g, const struct pri_index_stream *known,
	const struct pri_plan *plan, uint64_t sequence, uint8_t *scratch)
{
	const struct pri_index_ref *ref = pri_index_find(known, 2, sequence);
	uint64_t check;
	unsigned c;

	if (!ref)
		return true;
	if (g->tried != ref->first_sequence ||
		g->slices.read.handle.proof != ref->handle.proof)
		g->usable = take_group(g, ref);
	if (!g->usable || (g->plan != plan && !take_plan(g, plan, scratch)))
		return true;
	c = column_of(g, sequence);
	if (g->proven[c] == UNKNOWN)
		g->proven[c] = pri_index_check(known, g->starts[c],
				       g->slices.head.column[c].segments, &check) &&
					       check == g->slices.head.column[c].check
				       ? YES
				       : NO;
	return g->column[c] == YES || g->proven[c] == NO;
}

bool
pri_prune_group_may(struct pri_prune_group *g, const struct pri_index_stream *known,
	const struct pri_plan *plan, uint64_t sequence, uint8_t *scratch, bool *worked)
{
	uint64_t reads = g->slices.read.figures->reads;
	bool result = may(g, known, plan, sequence, scratch);

	*worked |= g->slices.read.figures->reads != reads;
	return result;
}
