/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/route.h"

#include <stdio.h>

#include "proto/base/array.h"

int
prm_route_begin(struct prm_route *r, const struct prm_summaries *summaries,
	const Packrack__Query *query, int64_t mono)
{
	*r = (struct prm_route){.summaries = summaries, .query = query, .mono = mono};
	return prm_lookups_init(&r->lookups, query);
}

void
prm_route_end(struct prm_route *r)
{
	prm_lookups_free(&r->lookups);
	prm_cluster_cache_free(&r->clusters);
}

static bool
touches(const Packrack__Query *q, int64_t first, int64_t last)
{
	return last >= q->since && first <= q->until;
}

/*
 * The reason why the summaries do not cover the time range of the query; NULL: they cover
 * all of it.
 */
static const char *
unknown(const struct prm_route *r, const struct prm_node_summaries *c)
{
	const Packrack__Query *q = r->query;
	const Packrack__Coverage *said = c->coverage;
	bool any = !*q->link;

	if (r->mono - c->heard > PRM_SUMMARIES_LATE_NS)
		return "its last summary report is older than 3.5 s";
	if (said->text[0])
		return said->text;
	if (c->next != said->total)
		return "its summary report is not complete yet";
	if (said->settled_until != INT64_MAX && q->until >= said->settled_until)
		return "it may still receive packets of the time range";
	if (said->evicted_until != INT64_MIN && q->since <= said->evicted_until)
		return "data of the time range was overwritten";
	if (c->forgotten_until != INT64_MIN && q->since <= c->forgotten_until)
		return "its summaries of that time are no longer listed";
	if (said->ledgers_until != INT64_MIN && q->since <= said->ledgers_until)
		return "its summary report does not cover all its links";
	for (size_t i = 0; i < said->n_losses; i++)
		if (touches(q, said->losses[i]->since, said->losses[i]->until))
			return "it lost packets of the time range";
	for (size_t i = 0; i < said->n_deleted; i++)
		if (touches(q, said->deleted[i]->since, said->deleted[i]->until))
			return "packets of the time range were deleted";
	for (size_t i = 0; i < said->n_open; i++)
		if (!(any && said->open[i]->link == PR_LINK_CANARY) &&
			touches(q, said->open[i]->min_time, said->open[i]->max_time))
			return "data of the time range has no summary yet";
	return NULL;
}

static bool
holds_all(const struct pr_summary_span *s)
{
	return s->last_seq - s->first_seq + 1 == s->packets;
}

/*
 * Tests a summary that touches the range. NULL: it excludes a match; otherwise the reason
 * why it does not.
 */
static const char *
against(struct prm_route *r, const struct prm_node_summaries *c,
	const struct prm_summary_entry *h)
{
	const struct prm_exclusions *v = h->body ? NULL : r->exclusions;
	bool judged = false; /* another merger has it, and excludes a match */
	struct pr_summary s;

	for (size_t i = 0; v && i < v->count; i++)
		for (size_t j = 0; v->items[i]->boot == c->coverage->boot && !judged &&
				   j < v->items[i]->n_numbers;
			j++)
			judged = v->items[i]->numbers[j] == h->number;
	if (judged && holds_all(&h->span)) {
		r->excluded++;
		return NULL;
	}
	if (v && v->count)
		return "a summary at another merger may match, or is missing there";
	if (!h->body)
		return h->gone ? "a summary is gone" : "a summary is not here yet";
	if (pr_summary_open_unchecked(&s, h->body, h->bytes, NULL) < 0)
		return "a summary is damaged";
	if (pr_link_is_beyond(h->span.link) && !r->query->of_connections)
		return "the filter tests more than connections";
	if (!prm_clusters_exclude(prm_summaries_clusters(r->summaries), h->slot,
		    &r->lookups, &r->clusters)) {
		r->tested++;
		if (prm_lookups_may(&r->lookups, h->linktype, s.bits, s.log2))
			return "its summaries may match";
	}
	if (s.flags & PR_SUMMARY_NO_RUNS && !holds_all(&h->span))
		return "a summary does not list its packets";
	r->excluded++;
	return NULL;
}

bool
prm_route_decide(struct prm_route *r, const char *node, char why[PRM_ROUTE_WHY_MAX])
{
	const struct prm_node_summaries *c = prm_summaries_find(r->summaries, node);
	const char *reason = c ? NULL : "it has reported no summaries";
	size_t count = 0;

	if (r->query->strays)
		reason = "strays are asked for";
	if (r->query->related) /* a related packet need not match anything in the filter */
		reason = "related packets are asked for";
	if (!reason)
		reason = unknown(r, c);
	for (size_t i = c ? c->count : 0; !reason && i-- > 0;)
		if (touches(r->query, c->items[i].span.min_time,
			    c->items[i].span.max_time)) {
			reason = against(r, c, &c->items[i]);
			count++;
		}
	r->asked += reason != NULL;
	r->left_out += !reason;
	if (reason)
		snprintf(why, PRM_ROUTE_WHY_MAX, "%s", reason);
	else if (count)
		snprintf(why, PRM_ROUTE_WHY_MAX, "%zu summaries exclude a match", count);
	else
		snprintf(why, PRM_ROUTE_WHY_MAX, "it has nothing of that time");
	return !reason;
}

/* ---- between mergers ---- */

void
prm_exclusions_add(struct prm_exclusions *v, uint64_t boot, uint64_t number)
{
	Packrack__RouteItem *item = NULL;
	size_t total = 0;

	for (size_t i = 0; i < v->count; i++) {
		total += v->items[i]->n_numbers;
		if (v->items[i]->boot == boot)
			item = v->items[i];
	}
	/* without memory the node is asked */
	if (total >= PRM_EXCLUSIONS_MAX)
		return;
	if (!item) {
		if (PR_ARRAY_GROW(v->items, v->count) < 0 ||
			!(item = malloc(sizeof(*item))))
			return;
		packrack__route_item__init(item);
		item->boot = boot;
		v->items[v->count++] = item;
	}
	if (PR_ARRAY_GROW(item->numbers, item->n_numbers) == 0)
		item->numbers[item->n_numbers++] = number;
}

void
prm_exclusions_free(struct prm_exclusions *v)
{
	for (size_t i = 0; i < v->count; i++)
		packrack__route_item__free_unpacked(v->items[i], NULL);
	free(v->items);
	*v = (struct prm_exclusions){0};
}

size_t
prm_route_lacks(struct prm_route *r, const char *node, size_t max,
	void (*call)(void *arg, int64_t time, uint64_t boot, uint64_t number), void *arg)
{
	const struct prm_node_summaries *c = prm_summaries_find(r->summaries, node);
	size_t count = 0;

	if (!c || r->query->strays || r->query->related || unknown(r, c))
		return 0;
	for (size_t i = c->count; i-- > 0 && count < max;) {
		const struct prm_summary_entry *h = &c->items[i];

		if (h->body || !holds_all(&h->span) ||
			!touches(r->query, h->span.min_time, h->span.max_time))
			continue;
		call(arg, h->span.max_time, c->coverage->boot, h->number);
		count++;
	}
	return count;
}

bool
prm_route_excludes(struct prm_route *r, uint64_t boot, uint64_t number)
{
	const struct prm_node_summaries *c;
	const struct prm_summary_entry *h =
		prm_summaries_find_by_boot(r->summaries, boot, number, &c);

	return h && h->body && !against(r, c, h);
}

#define AT_ONCE 256 /* ranges in one Batch */
#define EDGES 2

/* A report of a node's seqs that is being made, in batches. */
struct telling {
	struct prm_completeness *c;
	int index;
	const Packrack__Query *query;
	Packrack__Held held[AT_ONCE], *held_list[AT_ONCE];
	Packrack__Held edge[EDGES], *edge_list[EDGES];
	Packrack__Batch batch;
	struct pr_error *err;
};

static int
flush(struct telling *t)
{
	int rc = prm_completeness_batch(t->c, t->index, &t->batch, t->err);

	t->batch.n_held = t->batch.n_edge = 0;
	return rc;
}

/*
 * Adds a run of held seqs. Of a run outside the time range, only the seq nearest to the
 * range is reported. Of a run that crosses a limit of the range, only the times of its ends
 * are known, so the report is a bound. A run that continues the previous one is merged with
 * it: most do.
 */
static int
add_run(struct telling *t, const struct pr_summary_span *line,
	const struct pr_summary_run *run)
{
	const Packrack__Query *q = t->query;
	bool below = run->last_otime < q->since,
	     edge = below || run->first_otime > q->until;
	size_t n = t->batch.n_held;
	Packrack__Held *last = n ? &t->held[n - 1] : NULL, *h;

	if (!edge && (run->first_otime < q->since || run->last_otime > q->until))
		prm_completeness_bounds_only(t->c);
	if (!edge && last && !run->bits && !last->bits.len && last->epoch == line->epoch &&
		last->link == line->link && last->last + 1 == run->first &&
		last->last_otime <= run->first_otime) {
		PR_COPY(last, run, last, last_otime);
		return 0;
	}
	if ((edge ? t->batch.n_edge == EDGES : n == AT_ONCE) && flush(t) < 0)
		return -1;
	h = edge ? &t->edge[t->batch.n_edge++] : &t->held[t->batch.n_held++];
	packrack__held__init(h);
	PR_COPY(h, line, epoch, link);
	h->first = below ? run->last : run->first;
	h->last = edge ? h->first : run->last;
	h->first_otime = below ? run->last_otime : run->first_otime;
	h->last_otime = edge ? h->first_otime : run->last_otime;
	if (!edge)
		h->bits = (ProtobufCBinaryData){run->bits_len, (uint8_t *)run->bits};
	return 0;
}

/*
 * Two consecutive runs that meet within a segment have the times of that segment: bounds,
 * not the times of their own first and last packets. Seqs that may be within the time range
 * are reported as within.
 */
static int
add_runs(struct telling *t, const struct pr_summary_span *line, const struct pr_summary *s)
{
	const Packrack__Query *q = t->query;
	struct pr_summary_walk walk;
	struct pr_summary_run run, next = {0};
	bool more, begins_within = false;
	int rc = 0;

	pr_summary_walk_begin(&walk, s);
	for (more = pr_summary_walk_next(&walk, &run); more && rc == 0; run = next) {
		more = pr_summary_walk_next(&walk, &next);
		bool ends_within = more && next.first_otime < run.last_otime;
		if (run.last_otime >= q->since && run.first_otime <= q->until) {
			if (begins_within && run.first_otime < q->since)
				run.first_otime = q->since;
			if (ends_within && run.last_otime > q->until)
				run.last_otime = q->until;
			if (begins_within || ends_within)
				prm_completeness_bounds_only(t->c);
		}
		rc = add_run(t, line, &run);
		begins_within = ends_within;
	}
	return rc;
}

static int
add_summary(struct telling *t, const struct prm_summary_entry *h)
{
	const struct pr_summary_span *span = &h->span;
	const struct pr_summary_run run = {.first = span->first_seq,
		.last = span->last_seq,
		.first_otime = span->first_otime,
		.last_otime = span->last_otime};
	struct pr_summary s;

	if (span->last_otime < t->query->since || span->first_otime > t->query->until ||
		!h->body || pr_summary_open_unchecked(&s, h->body, h->bytes, NULL) < 0 ||
		s.flags & PR_SUMMARY_NO_RUNS)
		return add_run(t, span, &run); /* which is dense, or was asked */
	return add_runs(t, span, &s);
}

/* True if the query selects this link, by its number or its name, as nodes decide it. */
static bool
selected(const struct prm_node_summaries *c, const char *wanted, uint64_t epoch,
	uint32_t link)
{
	if (prm_link_is(wanted, link))
		return true;
	for (size_t i = 0; i < c->coverage->n_ledgers; i++) {
		const Packrack__Ledger *l = c->coverage->ledgers[i];

		if (l->epoch == epoch && l->link == link)
			return !strcmp(l->name, wanted);
	}
	return false;
}

static int
tell_end(struct telling *t, const struct prm_node_summaries *c)
{
	Packrack__End end = PACKRACK__END__INIT;

	end.ledgers = calloc(c->coverage->n_ledgers + 1, sizeof(*end.ledgers));
	if (!end.ledgers)
		return pr_error_set(t->err, "no memory for a node's ledgers");
	for (size_t i = 0; i < c->coverage->n_ledgers; i++) {
		Packrack__Ledger *l = c->coverage->ledgers[i];

		if (selected(c, t->query->link, l->epoch, l->link))
			end.ledgers[end.n_ledgers++] = l;
	}
	int rc = prm_completeness_end(t->c, t->index, &end, t->err);
	free(end.ledgers);
	return rc;
}

int
prm_route_tell(struct prm_route *r, const char *node, struct prm_completeness *c, int index,
	struct pr_error *err)
{
	const struct prm_node_summaries *cover = prm_summaries_find(r->summaries, node);
	const Packrack__Query *q = r->query;
	struct telling t = {.c = c, .index = index, .query = q, .err = err};
	int rc = 0;

	packrack__batch__init(&t.batch);
	t.batch.held = t.held_list;
	t.batch.edge = t.edge_list;
	for (size_t i = 0; i < AT_ONCE; i++)
		t.held_list[i] = &t.held[i];
	for (size_t i = 0; i < EDGES; i++)
		t.edge_list[i] = &t.edge[i];
	for (size_t i = 0; rc == 0 && i < cover->coverage->n_open; i++) {
		const Packrack__SummaryInfo *o = cover->coverage->open[i];
		const struct prm_summary_entry outside = {.span = prm_summary_span(o)};

		if (selected(cover, q->link, o->epoch, o->link) &&
			(o->last_otime < q->since || o->first_otime > q->until))
			rc = add_summary(&t, &outside);
	}
	for (size_t i = 0; rc == 0 && i < cover->count; i++)
		if (selected(cover, q->link, cover->items[i].span.epoch,
			    cover->items[i].span.link))
			rc = add_summary(&t, &cover->items[i]);
	t.batch.frontier = INT64_MAX;
	return rc == 0 && flush(&t) == 0 ? tell_end(&t, cover) : -1;
}
