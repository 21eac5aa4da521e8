/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/query/prune.h"

#include <stdlib.h>
#include <string.h>

#include "indexer/query/prune_batch.h"
#include "indexer/query/prune_group.h"

struct stream {
	uint16_t link;
	struct pri_prune_batch *batch;
	struct pri_prune_group *group;
};

struct pri_prune {
	struct pri_volume *view;
	const struct pri_plans *plans;
	uint8_t *scratch; /* for the longest plan */
	struct stream **streams;
	size_t count;
	struct pri_prune_stats figures;
};

/* ---- making ---- */

static size_t
longest_plan(const struct pri_plans *plans)
{
	size_t longest = 1;

	for (size_t i = 0; i < plans->count; i++)
		if (plans->items[i]->count > longest)
			longest = plans->items[i]->count;
	return longest;
}

struct pri_prune *
pri_prune_create(
	struct pri_volume *view, const struct pri_plans *plans, struct pr_error *err)
{
	struct pri_prune *p = calloc(1, sizeof(*p));

	if (p)
		p->scratch = malloc(longest_plan(plans));
	if (!p || !p->scratch) {
		free(p);
		pr_error_set(err, "no memory for a query");
		return NULL;
	}
	p->view = view;
	p->plans = plans;
	return p;
}

void
pri_prune_destroy(struct pri_prune **prune)
{
	struct pri_prune *p = *prune;

	if (!p)
		return;
	for (size_t i = 0; i < p->count; i++) {
		pri_prune_group_destroy(&p->streams[i]->group);
		pri_prune_batch_destroy(&p->streams[i]->batch);
		free(p->streams[i]);
	}
	free(p->streams);
	free(p->scratch);
	free(p);
	*prune = NULL;
}

/* NULL: no memory; then nothing is known. */
static struct stream *
stream_of(struct pri_prune *p, uint16_t link)
{
	struct stream **streams, *s;

	for (size_t i = 0; i < p->count; i++)
		if (p->streams[i]->link == link)
			return p->streams[i];
	streams = realloc(p->streams, (p->count + 1) * sizeof(*streams));
	if (!streams)
		return NULL;
	p->streams = streams;
	s = calloc(1, sizeof(*s));
	if (s) {
		s->group = pri_prune_group_create(p->view, link, &p->figures);
		s->batch = pri_prune_batch_create(p->view, link, &p->figures);
	}
	if (!s || !s->group || !s->batch) {
		if (s) {
			pri_prune_group_destroy(&s->group);
			pri_prune_batch_destroy(&s->batch);
		}
		free(s);
		return NULL;
	}
	s->link = link;
	streams[p->count++] = s;
	return s;
}

/* ---- the time, which the catalog knows ---- */

static bool
any_key(void *arg, const struct pri_key *key)
{
	(void)arg;
	(void)key;
	return true;
}

static bool
in_time(void *arg, const struct pri_plan_range *r)
{
	const struct pri_segment_entry *entry = arg;

	return r->number != PRI_NUMBER_TIME ||
	       (entry->min_time <= r->most && entry->max_time >= r->least);
}

static bool
ask_time(struct pri_prune *p, const struct pri_plan *plan,
	const struct pri_segment_entry *entry)
{
	struct pri_segment_entry e = *entry;
	const struct pri_plan_index index = {
		.has_key = any_key, .has_range = in_time, .arg = &e};

	for (size_t i = 0; i < plan->range_count; i++)
		if (plan->ranges[i].number == PRI_NUMBER_TIME)
			return pri_plan_holds(plan, &index, p->scratch);
	return true;
}

/* ---- all of them ---- */

/* Without holes the catalog knows what it holds; else level 1 must. */
static bool
holds_all(const struct pri_segment_entry *entry)
{
	return entry->count == (uint64_t)entry->seq_span + 1;
}

static enum pri_prune_verdict
ask_levels(struct pri_prune *p, struct stream *s, const struct pri_index_stream *known,
	const struct pri_plan *plan, const struct pri_segment_entry *entry,
	struct pri_held_walk *held, bool *worked)
{
	struct pri_level1_segment segment = {.held_form = PRI_HELD_ALL};
	bool timely = ask_time(p, plan, entry),
	     excluded = !timely || !pri_prune_group_may(s->group, known, plan,
					   entry->sequence, p->scratch, worked);

	if (!excluded || !holds_all(entry)) {
		if (!pri_prune_batch_find(
			    s->batch, known, entry, !holds_all(entry), &segment, worked))
			return PRI_PRUNE_READ;
		if (!excluded && pri_prune_batch_may(s->batch, &segment, plan, p->scratch))
			return PRI_PRUNE_READ;
	}
	pri_held_walk_begin(held, &segment, entry->seq_span);
	return !timely ? PRI_PRUNE_TIME : excluded ? PRI_PRUNE_LEVEL2 : PRI_PRUNE_LEVEL1;
}

enum pri_prune_verdict
pri_prune_ask(struct pri_prune *p, uint16_t link, const struct pri_segment_entry *entry,
	struct pri_held_walk *held, bool *worked)
{
	const struct pri_plan *plan = pri_plans_find(p->plans, entry->linktype);
	const struct pri_index_stream *known;
	const struct pri_level1_segment all = {.held_form = PRI_HELD_ALL};
	struct stream *s;

	*worked = false;
	if (!p->plans->count)
		return PRI_PRUNE_READ;
	if (!plan && holds_all(entry)) {
		pri_held_walk_begin(held, &all, entry->seq_span);
		return PRI_PRUNE_LINKTYPE;
	}
	if (!plan || pri_plan_is(plan, PRI_PLAN_TRUE))
		return PRI_PRUNE_READ;
	known = pri_index_map_find(&p->view->index_map, link);
	s = known ? stream_of(p, link) : NULL;
	return s ? ask_levels(p, s, known, plan, entry, held, worked) : PRI_PRUNE_READ;
}

bool
pri_prune_segment(struct pri_prune *p, uint16_t link, const struct pri_segment_entry *entry,
	struct pri_level1_segment *out, const struct pri_level1 **batch, bool *worked)
{
	const struct pri_index_stream *known =
		pri_index_map_find(&p->view->index_map, link);
	struct stream *s = known ? stream_of(p, link) : NULL;

	*worked = false;
	if (!s || !pri_prune_batch_find(s->batch, known, entry, true, out, worked))
		return false;
	if (batch)
		*batch = pri_prune_batch_record(s->batch);
	return true;
}

const struct pri_prune_stats *
pri_prune_stats(const struct pri_prune *p)
{
	return &p->figures;
}
