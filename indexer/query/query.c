/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/query/query.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "indexer/query/query_ahead.h"
#include "proto/base/clock.h"

/* ---- making ---- */

static bool
link_is(const char *wanted, uint16_t link, const char *name)
{
	char number[8];

	snprintf(number, sizeof(number), "%u", link);
	return !strcmp(wanted, number) || (*name && !strcmp(wanted, name));
}

bool
pri_query_selects(const struct pri_query *q, const struct pri_series_ledger *facts)
{
	return !*q->link || link_is(q->link, facts->link, pri_series_ledger_name(facts));
}

static bool
selects_run(const struct pri_query *q, const struct pri_epoch_series *run)
{
	const struct pri_series_ledger *facts;

	if (!*q->link)
		return true;
	if (run->strays)
		return false;
	facts = pri_ledger_view_find(&q->view->ledger, run->epoch, run->link);
	return link_is(q->link, run->link, facts ? pri_series_ledger_name(facts) : "");
}

static size_t
count_lanes(const struct pri_catalog *catalog)
{
	size_t lanes = 0;

	for (size_t i = 0; i < catalog->series_count; i++)
		lanes += catalog->series[i]->run_count;
	return lanes;
}

static int
allocate(struct pri_query *q, struct pr_error *err)
{
	const struct pri_catalog *catalog = &q->view->catalog;
	size_t lanes = count_lanes(catalog);

	q->lines = calloc(catalog->series_count + 1, sizeof(*q->lines));
	q->readers = calloc(lanes + 1, sizeof(*q->readers));
	if (!q->lines || !q->readers || !q->link)
		return pr_error_set(
			err, "no memory for a query over %zu links", catalog->series_count);
	return 0;
}

static int
add_run(struct pri_query *q, struct pri_epoch_series *run, struct pr_error *err)
{
	struct pri_line *line = &q->lines[q->line_count++];

	line->run = run;
	line->bounds.since = q->spec.since;
	line->bounds.until = q->spec.until;
	for (size_t i = 0; i < run->run_count; i++) {
		struct pri_run_reader *r = &q->readers[q->reader_count++];
		r->line = q->line_count - 1;
		if (!pri_run_reader_start(
			    r, run, run->runs[i], &line->bounds, &q->lane_figures))
			continue;
		if (pr_heap_push(&q->heap, r) < 0)
			return pr_error_set(err, "no memory for a query");
	}
	return 0;
}

/* Strays are always counted; how else would somebody know to ask for them? */
static int
add_runs(struct pri_query *q, struct pr_error *err)
{
	const struct pri_catalog *catalog = &q->view->catalog;

	for (size_t i = 0; i < catalog->series_count; i++)
		if (selects_run(q, catalog->series[i]) &&
			add_run(q, catalog->series[i], err) < 0)
			return -1;
	return 0;
}

static int
plan(struct pri_query *q, struct pr_error *err)
{
	if (pri_plans_create(&q->spec.programs, &q->plans, err) < 0)
		return -1;
	q->prune = pri_prune_create(q->view, &q->plans, err);
	if (!q->prune || !q->spec.relations)
		return q->prune ? 0 : -1;
	if (pri_plans_create(&q->spec.core, &q->core_plans, err) < 0)
		return -1;
	q->core_prune = pri_prune_create(q->view, &q->core_plans, err);
	return q->core_prune ? 0 : -1;
}

void
pri_query_spec_free(struct pri_query_spec *spec)
{
	pri_bpf_set_free(&spec->programs);
	pri_bpf_set_free(&spec->core);
	if (spec->relations)
		pr_relations_free(spec->relations);
	free(spec->relations);
	spec->relations = NULL;
}

struct pri_query *
pri_query_create(struct pri_volume *view, struct pri_query_spec *spec, struct pr_error *err)
{
	struct pri_query *q = calloc(1, sizeof(*q));

	if (!q) {
		pri_query_spec_free(spec);
		pr_error_set(err, "no memory for a query");
		return NULL;
	}
	q->view = view;
	packrack__end__init(&q->figures);
	q->spec = *spec;
	spec->programs = spec->core = (struct pri_bpf_set){0};
	spec->relations = NULL;
	q->link = strdup(spec->link ? spec->link : "");
	q->spec.link = q->link;
	pr_heap_init(&q->heap, pri_run_reader_less);
	if (allocate(q, err) < 0 || plan(q, err) < 0 || add_runs(q, err) < 0)
		pri_query_destroy(&q);
	return q;
}

void
pri_query_destroy(struct pri_query **query)
{
	struct pri_query *q = *query;

	if (!q)
		return;
	for (size_t i = 0; i < q->reader_count; i++) {
		pri_run_ahead_free(&q->readers[i].ahead);
		pri_run_reader_free(&q->readers[i]);
	}
	pri_scans_destroy(&q->scans);
	free(q->spare.bytes);
	for (size_t i = 0; i < q->line_count; i++)
		free(q->lines[i].stretch);
	pr_heap_free(&q->heap);
	pri_range_list_free(&q->held);
	pri_prune_destroy(&q->prune);
	pri_plans_free(&q->plans);
	pri_prune_destroy(&q->core_prune);
	pri_plans_free(&q->core_plans);
	pri_query_spec_free(&q->spec);
	free(q->readers);
	free(q->lines);
	free(q->link);
	free(q);
	*query = NULL;
}

/* ---- running ---- */

int
pri_query_stretch(struct pri_line *line, struct pr_error *err)
{
	if (line->stretch)
		return 0;
	line->stretch = calloc(1, sizeof(*line->stretch));
	if (!line->stretch)
		return pr_error_set(err, "no memory for the list of seqs held");
	line->stretch->epoch = line->run->epoch;
	line->stretch->link = line->run->link;
	return 0;
}

static int
note_held(struct pri_query *q, struct pri_line *line, const struct pr_packet *p,
	struct pr_error *err)
{
	if (pri_query_stretch(line, err) < 0)
		return -1;
	return pri_range_builder_add(line->stretch, p->seq, p->otime, &q->held, err);
}

/* Within the range it is held, outside it may be the nearest. */
int
pri_query_account(struct pri_query *q, struct pri_line *line, const struct pr_packet *p,
	struct pr_error *err)
{
	struct pri_run_bounds *b = &line->bounds;

	if (line->run->strays)
		return 0;
	if (p->otime < b->since) {
		if (p->seq > b->lower_seq) {
			b->lower_seq = p->seq;
			b->lower_otime = p->otime;
		}
		return 0;
	}
	line->passed = true;
	if (p->otime > b->until) {
		if (!b->upper_seq || p->seq < b->upper_seq) {
			b->upper_seq = p->seq;
			b->upper_otime = p->otime;
		}
		return 0;
	}
	return note_held(q, line, p, err);
}

/* The same packet in two lanes: second copies, or a log that was written twice. */
bool
pri_query_same_as_last(struct pri_query *q, const struct pr_packet *p)
{
	bool same = q->any_last && p->seq == q->last_seq && p->epoch == q->last_epoch &&
		    p->link == q->last_link;

	q->any_last = true;
	q->last_seq = p->seq;
	q->last_epoch = p->epoch;
	q->last_link = p->link;
	return same;
}

void
pri_query_move_on(struct pri_query *q, bool there_is_more)
{
	if (there_is_more)
		pr_heap_sift_top(&q->heap);
	else
		pr_heap_pop(&q->heap);
}

static enum pri_judged
judged_of(const struct pri_run_reader *r)
{
	uint32_t index = pri_run_reader_index(r);

	if (index >= r->matches.judged)
		return PRI_JUDGED_NOT;
	return r->matches.bits[index / 8] >> index % 8 & 1 ? PRI_JUDGED_YES : PRI_JUDGED_NO;
}

/* One packet of the merge. PACKET: it matches; WAIT: it does not; ERROR. */
static int
take_packet(struct pri_query *q, struct pri_run_reader *r, struct pr_packet *out,
	struct pr_error *err)
{
	struct pri_line *line = &q->lines[r->line];
	uint64_t sequence = r->entry.sequence;
	enum pri_judged judged = judged_of(r);
	bool leaping = r->leaping, fresh;

	*out = r->packet;
	q->figures.scanned_packets += !leaping;
	fresh = !pri_query_same_as_last(q, out);
	pri_query_move_on(q, pri_run_reader_next(r, &line->bounds, &q->lane_figures));
	if (!r->open)
		q->spent = r;
	if (!fresh)
		return PR_SOURCE_WAIT;
	if (!leaping && pri_query_account(q, line, out, err) < 0)
		return PR_SOURCE_ERROR;
	if (!pri_query_matches(q, line, judged, out))
		return PR_SOURCE_WAIT;
	return pri_query_tally(q, line, sequence, out, err) < 0 ? PR_SOURCE_ERROR
								: PR_SOURCE_PACKET;
}

static int
matched(struct pri_query *q)
{
	q->figures.matched++;
	q->figures.limit_reached = q->spec.limit && q->figures.matched == q->spec.limit;
	return PR_SOURCE_PACKET;
}

void
pri_query_release(struct pri_query *q)
{
	if (q->spent)
		pri_run_reader_give(q->spent, &q->spare);
	q->spent = NULL;
}

#define SKIPS_A_LOOK                                                                       \
	64 /* segments that are left out, before the caller may look at the clock */

int
pri_query_next(struct pri_query *q, struct pr_packet *out, struct pr_error *err)
{
	struct pri_run_reader *r;
	unsigned opened = 0, skipped = 0;
	bool worked;
	int rc;

	pri_query_release(q);
	while (!q->figures.limit_reached && (r = pr_heap_top(&q->heap))) {
		if (r->open) {
			rc = take_packet(q, r, out, err);
			if (rc == PR_SOURCE_PACKET)
				return matched(q);
			if (rc == PR_SOURCE_ERROR)
				return rc;
			pri_query_release(q);
			continue;
		}
		rc = pri_query_skip(q, r, &worked, err);
		if (rc < 0)
			return PR_SOURCE_ERROR;
		if (rc > 0 ? worked || ++skipped == SKIPS_A_LOOK : opened++ > 0)
			return PR_SOURCE_WAIT;
		if (rc > 0)
			continue;
		rc = pri_query_open(q, r, err);
		if (rc < 0)
			return PR_SOURCE_ERROR;
		pri_query_move_on(q, rc > 0);
	}
	return PR_SOURCE_END;
}

/* ---- as a source ---- */

struct query_source {
	struct pr_source source;
	struct pri_query *query;
};

static int
source_next(struct pr_source *source, struct pr_packet *out, struct pr_error *err)
{
	struct query_source *s = (struct query_source *)source;
	int rc;

	do
		rc = pri_query_next(s->query, out, err);
	while (rc == PR_SOURCE_WAIT);
	return rc;
}

static void
source_destroy(struct pr_source *source)
{
	free(source);
}

struct pr_source *
pri_query_source(struct pri_query *query, struct pr_error *err)
{
	struct query_source *s = calloc(1, sizeof(*s));

	if (!s) {
		pr_error_set(err, "no memory for a query");
		return NULL;
	}
	s->source.next = source_next;
	s->source.destroy = source_destroy;
	s->query = query;
	return &s->source;
}
