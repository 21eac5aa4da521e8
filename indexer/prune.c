/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/prune.h"

#include <stdlib.h>
#include <string.h>

#include "indexer/prune_batch.h"
#include "indexer/prune_group.h"

struct stream {
	uint16_t link;
	struct pr_prune_batch *batch;
	struct pr_prune_group *group;
};

struct pr_prune {
	struct pr_view *view;
	const struct pr_plans *plans;
	uint8_t *scratch; /* for the longest plan */
	struct stream **streams;
	size_t count;
	struct pr_prune_figures figures;
};

/* ---- making ---- */

static size_t
longest_plan(const struct pr_plans *plans)
{
	size_t longest = 1;

	for (size_t i = 0; i < plans->count; i++)
		if (plans->items[i]->count > longest)
			longest = plans->items[i]->count;
	return longest;
}

struct pr_prune *
pr_prune_create(struct pr_view *view, const struct pr_plans *plans, struct pr_error *err)
{
	struct pr_prune *p = calloc(1, sizeof(*p));

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
pr_prune_destroy(struct pr_prune **prune)
{
	struct pr_prune *p = *prune;

	if (!p)
		return;
	for (size_t i = 0; i < p->count; i++) {
		pr_prune_group_destroy(&p->streams[i]->group);
		pr_prune_batch_destroy(&p->streams[i]->batch);
		free(p->streams[i]);
	}
	free(p->streams);
	free(p->scratch);
	free(p);
	*prune = NULL;
}

/* NULL: no memory; then nothing is known. */
static struct stream *
stream_of(struct pr_prune *p, uint16_t link)
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
		s->group = pr_prune_group_create(p->view, link, &p->figures);
		s->batch = pr_prune_batch_create(p->view, link, &p->figures);
	}
	if (!s || !s->group || !s->batch) {
		if (s) {
			pr_prune_group_destroy(&s->group);
			pr_prune_batch_destroy(&s->batch);
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
any_key(void *arg, const struct pr_key *key)
{
	(void)arg;
	(void)key;
	return true;
}

static bool
in_time(void *arg, const struct pr_plan_range *r)
{
	const struct pr_segment_entry *entry = arg;

	return r->number != PR_NUMBER_TIME ||
	       (entry->min_time <= r->most && entry->max_time >= r->least);
}

static bool
ask_time(struct pr_prune *p, const struct pr_plan *plan,
	const struct pr_segment_entry *entry)
{
	struct pr_segment_entry e = *entry;
	const struct pr_plan_index index = {
		.has_key = any_key, .has_range = in_time, .arg = &e};

	for (size_t i = 0; i < plan->range_count; i++)
		if (plan->ranges[i].number == PR_NUMBER_TIME)
			return pr_plan_holds(plan, &index, p->scratch);
	return true;
}

/* ---- all of them ---- */

/* Without holes the catalog knows what it holds; else level 1 must. */
static bool
holds_all(const struct pr_segment_entry *entry)
{
	return entry->count == (uint64_t)entry->seq_span + 1;
}

static enum pr_prune_verdict
ask_levels(struct pr_prune *p, struct stream *s, const struct pr_index_stream *known,
	const struct pr_plan *plan, const struct pr_segment_entry *entry,
	struct pr_held_walk *held, bool *worked)
{
	struct pr_level1_segment segment = {.held_form = PR_HELD_ALL};
	bool timely = ask_time(p, plan, entry),
	     excluded = !timely || !pr_prune_group_may(s->group, known, plan,
					   entry->sequence, p->scratch, worked);

	if (!excluded || !holds_all(entry)) {
		if (!pr_prune_batch_find(
			    s->batch, known, entry, !holds_all(entry), &segment, worked))
			return PR_PRUNE_READ;
		if (!excluded && pr_prune_batch_may(s->batch, &segment, plan, p->scratch))
			return PR_PRUNE_READ;
	}
	pr_held_walk_begin(held, &segment, entry->seq_span);
	return !timely ? PR_PRUNE_TIME : excluded ? PR_PRUNE_LEVEL2 : PR_PRUNE_LEVEL1;
}

enum pr_prune_verdict
pr_prune_ask(struct pr_prune *p, uint16_t link, const struct pr_segment_entry *entry,
	struct pr_held_walk *held, bool *worked)
{
	const struct pr_plan *plan = pr_plans_find(p->plans, entry->linktype);
	const struct pr_index_stream *known;
	const struct pr_level1_segment all = {.held_form = PR_HELD_ALL};
	struct stream *s;

	*worked = false;
	if (!p->plans->count)
		return PR_PRUNE_READ;
	if (!plan && holds_all(entry)) {
		pr_held_walk_begin(held, &all, entry->seq_span);
		return PR_PRUNE_LINKTYPE;
	}
	if (!plan || pr_plan_is(plan, PR_PLAN_TRUE))
		return PR_PRUNE_READ;
	known = pr_index_book_find(pr_view_index(p->view), link);
	s = known ? stream_of(p, link) : NULL;
	return s ? ask_levels(p, s, known, plan, entry, held, worked) : PR_PRUNE_READ;
}

bool
pr_prune_segment(struct pr_prune *p, uint16_t link, const struct pr_segment_entry *entry,
	struct pr_level1_segment *out, const struct pr_level1 **batch, bool *worked)
{
	const struct pr_index_stream *known =
		pr_index_book_find(pr_view_index(p->view), link);
	struct stream *s = known ? stream_of(p, link) : NULL;

	*worked = false;
	if (!s || !pr_prune_batch_find(s->batch, known, entry, true, out, worked))
		return false;
	if (batch)
		*batch = pr_prune_batch_record(s->batch);
	return true;
}

const struct pr_prune_figures *
pr_prune_figures(const struct pr_prune *p)
{
	return &p->figures;
}
