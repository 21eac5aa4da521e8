/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/prune_group.h"

#include <stdlib.h>
#include <string.h>

#include "indexer/composite.h"
#include "indexer/key_rank.h"
#include "indexer/level2.h"

enum { UNKNOWN, NO, YES };

struct pr_prune_group {
	struct pr_view *view;
	uint16_t link;
	struct pr_prune_figures *figures;
	/* the group at hand */
	uint64_t tried; /* its first sequence; also when it cannot be used */
	bool usable, worked, expired;
	struct sfs_handle handle;
	struct pr_level2 head;
	uint64_t starts[PR_LEVEL2_COLUMNS_MAX + 1]; /* sequences */
	struct pr_view_buffer pages; /* of the record, where they were read */
	uint8_t *have; /* UNKNOWN, NO (damaged), YES, a page */
	size_t have_room;
	/* the plan at hand */
	const struct pr_plan *plan;
	uint8_t column[PR_LEVEL2_COLUMNS_MAX]; /* may it match? */
	uint8_t proven
		[PR_LEVEL2_COLUMNS_MAX]; /* is it about the segments that are there? */
	uint8_t *vectors; /* PR_LEVEL2_VECTOR for each key of the plan */
	uint8_t *asked; /* one each: its vector is made */
	size_t key_room;
};

struct pr_prune_group *
pr_prune_group_create(struct pr_view *view, uint16_t link, struct pr_prune_figures *figures)
{
	struct pr_prune_group *g = calloc(1, sizeof(*g));

	if (g) {
		g->view = view;
		g->link = link;
		g->figures = figures;
	}
	return g;
}

void
pr_prune_group_destroy(struct pr_prune_group **group)
{
	struct pr_prune_group *g = *group;

	if (!g)
		return;
	free(g->pages.bytes);
	free(g->have);
	free(g->vectors);
	free(g->asked);
	free(g);
	*group = NULL;
}

/* ---- reading ---- */

/* Into its place in g->pages (which has room before and behind it, for whole sectors) or NULL. */
static const uint8_t *
read_part(struct pr_prune_group *g, size_t offset, size_t len, struct pr_view_buffer *room)
{
	const uint8_t *at;
	int rc;

	g->figures->reads++;
	g->figures->bytes += len;
	g->worked = true;
	if (pr_view_buffer_grow(room, len + 2 * PR_SLICES_PAGE) < 0)
		return NULL;
	rc = sfs_read_part(pr_view_sfs(g->view), &g->handle, offset, len, room->bytes,
		room->room, &at, NULL);
	g->expired = rc == SFS_EXPIRED ||
		     rc == SFS_DELETED; /* recycled before what it is about: no fault */
	return rc == SFS_OK ? at : NULL;
}

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
	struct pr_view_buffer room = {0};
	size_t len = ref->handle.length;
	const uint8_t *at;
	bool good;

	if (len > PR_LEVEL2_HEAD_MAX)
		len = PR_LEVEL2_HEAD_MAX;
	at = read_part(g, 0, len, &room);
	good = at && pr_level2_open(&g->head, at, len, ref->handle.length, NULL) == 0 &&
	       g->head.link == g->link && g->head.first_sequence == ref->first_sequence &&
	       g->head.segments == ref->segments && prepare_pages(g);
	free(room.bytes);
	return good;
}

static bool
take_group(struct pr_prune_group *g, const struct pr_index_ref *ref)
{
	g->tried = ref->first_sequence;
	g->handle = ref->handle;
	g->plan = NULL;
	if (!read_head(g, ref)) {
		g->figures->damaged += !g->expired;
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
	struct pr_view_buffer room = {0};
	const uint8_t *at;

	if (g->have[number] == UNKNOWN) {
		at = read_part(
			g, pr_level2_page_at(&g->head, number), PR_SLICES_PAGE, &room);
		g->have[number] =
			at && pr_level2_page_valid(&g->head, number, at) ? YES : NO;
		g->figures->damaged += g->have[number] == NO && !g->expired;
		if (g->have[number] == YES)
			memcpy(to, at, PR_SLICES_PAGE);
		free(room.bytes);
	}
	return g->have[number] == YES ? to : NULL;
}

/* For a plan of so many keys that nearly all pages would be asked for: in one go. */
static void
read_all_pages(struct pr_prune_group *g)
{
	size_t len = (size_t)g->head.pages * PR_SLICES_PAGE;
	struct pr_view_buffer room = {0};
	const uint8_t *at = read_part(g, pr_level2_page_at(&g->head, 0), len, &room);

	for (uint32_t i = 0; at && i < g->head.pages; i++, at += PR_SLICES_PAGE) {
		if (!pr_level2_page_valid(&g->head, i, at))
			continue;
		memcpy(g->pages.bytes + (size_t)i * PR_SLICES_PAGE, at, PR_SLICES_PAGE);
		g->have[i] = YES;
	}
	free(room.bytes);
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

static bool
any_column(const struct pr_prune_group *g, const uint8_t *vector)
{
	for (unsigned i = 0; i < g->head.columns; i++)
		if (vector[i / 8] >> i % 8 & 1)
			return true;
	return false;
}

/* An address has its prefixes: two more pages, where any column is left, for a record of level 1 less. */
static void
apply_prefixes(struct pr_prune_group *g, const struct pr_key *key, uint8_t *vector)
{
	static const uint8_t lens[2][2] = {{3, 2}, {8, 6}};

	if (key->kind != PR_KEY_ADDRESS || (key->len != 4 && key->len != 16))
		return;
	for (int i = 0; i < 2 && any_column(g, vector); i++) {
		struct pr_key net =
			pr_key_bytes(PR_KEY_NET, key->bytes, lens[key->len == 16][i]);

		apply(g, &net, vector);
	}
}

static void
apply_services(struct pr_prune_group *g, const struct pr_key *parts, uint8_t *vector)
{
	struct pr_key keys[PR_SERVICES_MAX];
	size_t count = pr_key_services(parts, keys);

	for (size_t i = 0; i < count && any_column(g, vector); i++)
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
	apply_prefixes(g, &either, vector);
}

/* ---- the plan ---- */

struct question {
	struct pr_prune_group *group;
	unsigned column, rank; /* keys up to this rank are asked for */
};

static bool
has_key(void *arg, const struct pr_key *key)
{
	struct question *q = arg;
	struct pr_prune_group *g = q->group;
	size_t index = (size_t)(key - g->plan->keys);
	uint8_t *vector = g->vectors + index * PR_LEVEL2_VECTOR;

	if (pr_key_rank(key) > q->rank)
		return true;
	if (!g->asked[index])
		make_vector(g, key, vector);
	g->asked[index] = 1;
	return vector[q->column / 8] & 1u << q->column % 8;
}

static bool
has_range(void *arg, const struct pr_plan_range *range)
{
	(void)arg;
	return range->least <= range->most;
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

/* Is the column about the segments that are there now? */
static bool
column_true(const struct pr_prune_group *g, const struct pr_index_stream *known, unsigned c)
{
	uint64_t check;

	return pr_index_check(known, g->starts[c], g->head.column[c].segments, &check) &&
	       check == g->head.column[c].check;
}

/* Bytes of a record of level 1, about, and of what a key takes to be asked for. */
#define RECORD 24576
#define ASKING (PR_SLICES_PAGES * PR_SLICES_PAGE)

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
 * Rank by rank, while that reads less than the records of level 1 that it may save. As plans have no NOT, a key
 * that is not asked for may be there.
 */
static void
ask_columns(struct pr_prune_group *g, uint8_t *scratch)
{
	size_t keys[PR_RANKS] = {0}, left = g->head.columns;
	bool asked = false;

	for (size_t i = 0; i < g->plan->key_count; i++)
		keys[pr_key_rank(&g->plan->keys[i])]++;
	for (unsigned rank = 0; rank < PR_RANKS; rank++) {
		if (!keys[rank] && (asked || rank < PR_RANKS - 1))
			continue;
		if (asked && left * RECORD <= keys[rank] * ASKING)
			break;
		left = ask_rank(g, rank, scratch);
		asked = true;
	}
}

static bool
take_plan(struct pr_prune_group *g, const struct pr_plan *plan, uint8_t *scratch)
{
	uint8_t *vectors, *asked;

	if (plan->key_count > g->key_room) {
		vectors = realloc(g->vectors, plan->key_count * PR_LEVEL2_VECTOR);
		if (!vectors)
			return false;
		g->vectors = vectors;
		asked = realloc(g->asked, plan->key_count);
		if (!asked)
			return false;
		g->asked = asked;
		g->key_room = plan->key_count;
	}
	if (plan->key_count)
		memset(g->asked, 0, plan->key_count);
	memset(g->column, YES, sizeof(g->column));
	memset(g->proven, UNKNOWN, sizeof(g->proven));
	g->plan = plan;
	if (plan->key_count > g->head.pages / 4)
		read_all_pages(g);
	ask_columns(g, scratch);
	return true;
}

bool
pr_prune_group_may(struct pr_prune_group *g, const struct pr_index_stream *known,
	const struct pr_plan *plan, uint64_t sequence, uint8_t *scratch, bool *worked)
{
	const struct pr_index_ref *ref = pr_index_find(known, 2, sequence);
	unsigned c;

	if (!ref)
		return true;
	g->worked = false;
	if (g->tried != ref->first_sequence || g->handle.proof != ref->handle.proof)
		g->usable = take_group(g, ref);
	if (!g->usable || (g->plan != plan && !take_plan(g, plan, scratch)))
		return true;
	c = column_of(g, sequence);
	if (g->proven[c] == UNKNOWN)
		g->proven[c] = column_true(g, known, c) ? YES : NO;
	*worked |= g->worked;
	return g->column[c] == YES || g->proven[c] == NO;
}
