/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/prune_group.h"

#include <stdlib.h>
#include <string.h>

#include "indexer/composite.h"
#include "indexer/level2.h"
#include "indexer/plan_ranks.h"
#include "indexer/prune_read.h"

/* Bytes: what it takes to look into a record of level 1, about, and to ask for a key here. */
#define LOOK 11264
#define ASKING (PR_SLICES_PAGES * PR_SLICES_PAGE)

enum { UNKNOWN, NO, YES };

struct vector {
	bool made;
	uint8_t bits[PR_LEVEL2_VECTOR]; /* which columns may have the key */
};

struct pr_prune_group {
	uint16_t link;
	struct pr_prune_reader read;
	/* the group at hand */
	uint64_t tried; /* its first sequence; also when it cannot be used */
	bool usable;
	struct pr_level2 head;
	uint64_t starts[PR_LEVEL2_COLUMNS_MAX + 1]; /* sequences */
	struct pr_view_buffer part; /* what was read last */
	struct pr_view_buffer pages; /* of the record, where they were read */
	uint8_t *have; /* UNKNOWN, NO (damaged), YES, a page */
	size_t have_room;
	/* the plan at hand */
	const struct pr_plan *plan;
	uint8_t column[PR_LEVEL2_COLUMNS_MAX]; /* may it match? */
	/* is it about the segments that are there? */
	uint8_t proven[PR_LEVEL2_COLUMNS_MAX];
	struct vector *vectors; /* of each key, then of ports of ranges */
	size_t vector_room;
	size_t ranks[PR_RANKS]; /* keys that are worth asking for */
};

struct pr_prune_group *
pr_prune_group_create(struct pr_view *view, uint16_t link, struct pr_prune_figures *figures)
{
	struct pr_prune_group *g = calloc(1, sizeof(*g));

	if (g) {
		g->link = link;
		g->read.view = view;
		g->read.figures = figures;
	}
	return g;
}

void
pr_prune_group_destroy(struct pr_prune_group **group)
{
	struct pr_prune_group *g = *group;

	if (!g)
		return;
	free(g->part.bytes);
	free(g->pages.bytes);
	free(g->have);
	free(g->vectors);
	free(g);
	*group = NULL;
}

/* ---- reading ---- */

static bool
prepare_pages(struct pr_prune_group *g)
{
	size_t pages = g->head.pages;
	uint8_t *grown;

	if (pages > g->have_room) {
		grown = realloc(g->have, pages);
		if (!grown)
			return false;
		g->have = grown;
		g->have_room = pages;
	}
	memset(g->have, UNKNOWN, pages);
	return pr_view_buffer_grow(&g->pages, pages * PR_SLICES_PAGE) == 0;
}

static bool
read_head(struct pr_prune_group *g, const struct pr_index_ref *ref)
{
	size_t len = ref->handle.length;
	const uint8_t *at;

	if (len > PR_LEVEL2_HEAD_MAX)
		len = PR_LEVEL2_HEAD_MAX;
	at = pr_prune_read_part(&g->read, 0, len, &g->part);
	return at && pr_level2_open(&g->head, at, len, ref->handle.length, NULL) == 0 &&
	       g->head.link == g->link && g->head.first_sequence == ref->first_sequence &&
	       g->head.segments == ref->segments && prepare_pages(g);
}

static bool
take_group(struct pr_prune_group *g, const struct pr_index_ref *ref)
{
	g->tried = ref->first_sequence;
	g->read.handle = ref->handle;
	g->plan = NULL;
	if (!read_head(g, ref)) {
		g->read.figures->damaged += !g->read.expired;
		return false;
	}
	g->starts[0] = g->head.first_sequence;
	for (unsigned i = 0; i < g->head.columns; i++)
		g->starts[i + 1] = g->starts[i] + g->head.column[i].segments;
	return true;
}

static const uint8_t *
page(struct pr_prune_group *g, uint32_t number)
{
	uint8_t *to = g->pages.bytes + (size_t)number * PR_SLICES_PAGE;
	const uint8_t *at;

	if (g->have[number] == UNKNOWN) {
		at = pr_prune_read_part(&g->read, pr_level2_page_at(&g->head, number),
			PR_SLICES_PAGE, &g->part);
		g->have[number] =
			at && pr_level2_page_valid(&g->head, number, at) ? YES : NO;
		if (g->have[number] == YES)
			memcpy(to, at, PR_SLICES_PAGE);
		else
			g->read.figures->damaged += !g->read.expired;
	}
	return g->have[number] == YES ? to : NULL;
}

/* For a plan of so many keys that nearly all pages would be asked for: in one go. */
static void
read_all_pages(struct pr_prune_group *g)
{
	size_t len = (size_t)g->head.pages * PR_SLICES_PAGE;
	const uint8_t *at =
		pr_prune_read_part(&g->read, pr_level2_page_at(&g->head, 0), len, &g->part);

	for (uint32_t i = 0; at && i < g->head.pages; i++, at += PR_SLICES_PAGE) {
		if (!pr_level2_page_valid(&g->head, i, at))
			continue;
		memcpy(g->pages.bytes + (size_t)i * PR_SLICES_PAGE, at, PR_SLICES_PAGE);
		g->have[i] = YES;
	}
}

/* ---- keys ---- */

static void
apply(struct pr_prune_group *g, const struct pr_key *key, uint8_t *vector)
{
	struct pr_slices slices;
	const uint8_t *bytes;

	pr_slices_of(pr_key_hash(key), g->head.pages, g->head.slices_a_page, &slices);
	for (int i = 0; i < PR_SLICES_PAGES; i++) {
		bytes = page(g, slices.page[i]);
		if (bytes)
			pr_level2_apply(&g->head, &slices, i, bytes, vector);
	}
}

static size_t
columns_left(const struct pr_prune_group *g, const uint8_t *vector)
{
	size_t left = 0;

	for (unsigned i = 0; i < g->head.columns; i++)
		left += vector[i / 8] >> i % 8 & 1;
	return left;
}

/* An address has its longest prefix: a page or two more, where they cost less than what they may save. */
static void
apply_prefix(struct pr_prune_group *g, const struct pr_key *key, uint8_t *vector)
{
	struct pr_key net;

	if (key->kind != PR_KEY_ADDRESS || (key->len != 4 && key->len != 16) ||
		columns_left(g, vector) * LOOK <= 2 * ASKING)
		return;
	net = pr_key_bytes(PR_KEY_NET, key->bytes, key->len == 4 ? 3 : 8);
	apply(g, &net, vector);
}

static void
apply_services(struct pr_prune_group *g, const struct pr_key *parts, uint8_t *vector)
{
	struct pr_key keys[PR_SERVICES_MAX];
	size_t count = pr_key_services(parts, keys);

	for (size_t i = 0; i < count && columns_left(g, vector); i++)
		apply(g, &keys[i], vector);
}

static void
make_vector(struct pr_prune_group *g, const struct pr_key *key, uint8_t *vector)
{
	struct pr_key either = pr_key_either(key);

	memset(vector, 0xff, PR_LEVEL2_VECTOR);
	if (key->kind == PR_KEY_PARTS) {
		apply_services(g, key, vector);
		return;
	}
	apply(g, &either, vector);
	apply_prefix(g, &either, vector);
}

/* ---- the plan ---- */

struct question {
	struct pr_prune_group *group;
	unsigned column, rank; /* keys up to this rank are asked for */
};

/* index: of its vector */
static bool
ask(struct question *q, const struct pr_key *key, size_t index)
{
	struct pr_prune_group *g = q->group;
	struct vector *v = &g->vectors[index];

	if (!v->made)
		make_vector(g, key, v->bits);
	v->made = true;
	return v->bits[q->column / 8] & 1u << q->column % 8;
}

static bool
has_key(void *arg, const struct pr_key *key)
{
	struct question *q = arg;
	unsigned rank = pr_key_rank(key);

	return rank > q->rank || !q->group->ranks[rank] ||
	       ask(q, key, (size_t)(key - q->group->plan->keys));
}

static bool
has_range(void *arg, const struct pr_plan_range *range)
{
	struct question *q = arg;
	const struct pr_plan *plan = q->group->plan;
	unsigned ports = pr_plan_range_ports(range);
	size_t index = plan->key_count + (size_t)(range - plan->ranges) * PR_RANGE_PORTS;
	struct pr_key key;

	if (q->rank < PR_RANK_PORTS || !ports)
		return range->least <= range->most;
	for (unsigned i = 0; i < ports; i++) {
		key = pr_plan_range_port(range, i);
		if (ask(q, &key, index + i))
			return true;
	}
	return false;
}

static unsigned
column_of(const struct pr_prune_group *g, uint64_t sequence)
{
	unsigned low = 0, high = g->head.columns - 1u;

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
ask_rank(struct pr_prune_group *g, unsigned rank, uint8_t *scratch)
{
	struct question question = {.group = g, .rank = rank};
	const struct pr_plan_index index = {.has_key = has_key,
		.has_parts = has_key,
		.has_range = has_range,
		.arg = &question};
	size_t left = 0;

	for (unsigned *c = &question.column; *c < g->head.columns; ++*c) {
		if (g->column[*c] == YES && !pr_plan_holds(g->plan, &index, scratch))
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
ask_columns(struct pr_prune_group *g, uint8_t *scratch)
{
	size_t left = g->head.columns;
	bool asked = false;

	pr_plan_ranks(g->plan, g->ranks, scratch);
	for (unsigned rank = 0; rank < PR_RANKS; rank++) {
		if (!g->ranks[rank] && (asked || rank < PR_RANKS - 1))
			continue;
		if (asked && left * LOOK <= g->ranks[rank] * ASKING)
			break;
		left = ask_rank(g, rank, scratch);
		asked = true;
	}
}

static bool
take_plan(struct pr_prune_group *g, const struct pr_plan *plan, uint8_t *scratch)
{
	size_t count = plan->key_count + plan->range_count * PR_RANGE_PORTS;
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
	if (plan->key_count > g->head.pages / 4)
		read_all_pages(g);
	ask_columns(g, scratch);
	return true;
}

static bool
may(struct pr_prune_group *g, const struct pr_index_stream *known,
	const struct pr_plan *plan, uint64_t sequence, uint8_t *scratch)
{
	const struct pr_index_ref *ref = pr_index_find(known, 2, sequence);
	uint64_t check;
	unsigned c;

	if (!ref)
		return true;
	if (g->tried != ref->first_sequence || g->read.handle.proof != ref->handle.proof)
		g->usable = take_group(g, ref);
	if (!g->usable || (g->plan != plan && !take_plan(g, plan, scratch)))
		return true;
	c = column_of(g, sequence);
	if (g->proven[c] == UNKNOWN)
		g->proven[c] = pr_index_check(known, g->starts[c],
				       g->head.column[c].segments, &check) &&
					       check == g->head.column[c].check
				       ? YES
				       : NO;
	return g->column[c] == YES || g->proven[c] == NO;
}

bool
pr_prune_group_may(struct pr_prune_group *g, const struct pr_index_stream *known,
	const struct pr_plan *plan, uint64_t sequence, uint8_t *scratch, bool *worked)
{
	uint64_t reads = g->read.figures->reads;
	bool result = may(g, known, plan, sequence, scratch);

	*worked |= g->read.figures->reads != reads;
	return result;
}
