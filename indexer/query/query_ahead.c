/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/query/query_ahead.h"

#include <stdlib.h>
#include <string.h>

#define DECIDED_MAX 64 /* segments of a lane; two thirds of a millisecond */
#define WORKED_MAX                                                                         \
	4 /* of them that the index is read for, at a time: the query is waited for */

struct decision {
	uint64_t number; /* of the lane's entry */
	enum pri_prune_verdict verdict;
	struct pri_held_walk held;
	uint8_t *own; /* what held walks over */
	struct pri_scan *scan; /* or NULL */
};

struct pri_run_ahead {
	struct decision at[DECIDED_MAX];
	unsigned head, count;
	uint64_t next; /* number to go on at */
	struct pri_scans *scans; /* the query's, while any is begun */
};

static struct decision *
front(struct pri_run_ahead *a)
{
	return &a->at[a->head];
}

static void
pop(struct pri_run_ahead *a)
{
	struct decision *d = front(a);

	if (d->scan)
		pri_scan_drop(a->scans, d->scan);
	free(d->own);
	a->head = (a->head + 1) % DECIDED_MAX;
	a->count--;
}

void
pri_run_ahead_free(struct pri_run_ahead **ahead)
{
	struct pri_run_ahead *a = *ahead;

	if (!a)
		return;
	while (a->count)
		pop(a);
	free(a);
	*ahead = NULL;
}

/* The one about the segment that waits; what is about those before it goes. */
static struct decision *
current(struct pri_run_reader *r)
{
	struct pri_run_ahead *a = r->ahead;
	uint64_t number = r->next - 1;

	while (a && a->count && front(a)->number < number)
		pop(a);
	return a && a->count && front(a)->number == number ? front(a) : NULL;
}

bool
pri_query_decided(struct pri_run_reader *r, enum pri_prune_verdict *verdict,
	struct pri_held_walk *held)
{
	struct decision *d = current(r);

	if (!d)
		return false;
	*verdict = d->verdict;
	*held = d->held;
	return true;
}

/* What it walks over is the index's only until the next is asked. */
static bool
keep_held(struct decision *d)
{
	size_t len = (size_t)(d->held.end - d->held.at);

	if (d->verdict == PRI_PRUNE_READ || d->held.form == PRI_HELD_ALL || len == 0)
		return true;
	d->own = malloc(len);
	if (!d->own)
		return false;
	memcpy(d->own, d->held.at, len);
	d->held.at = d->own;
	d->held.end = d->own + len;
	return true;
}

/* false: it is the query's own to read, when it gets there. */
static bool
begin_scan(struct pri_query *q, struct decision *d, const struct pri_segment_entry *e)
{
	struct sfs_plan plan;

	if (sfs_read_plan(q->view->sfs, &e->handle, &plan) == 1)
		d->scan = pri_scans_begin(q->scans, &plan, &e->handle);
	return d->scan != NULL;
}

/* One entry more. false: that is enough. */
static bool
decide(struct pri_query *q, struct pri_run_reader *r, const struct pri_segment_entry *e,
	unsigned *worked)
{
	const struct pri_line *line = &q->lines[r->line];
	struct pri_run_ahead *a = r->ahead;
	struct decision *d = &a->at[(a->head + a->count) % DECIDED_MAX];
	bool index_read = false;

	*d = (struct decision){.number = a->next, .verdict = PRI_PRUNE_READ};
	if (pri_entry_inside(e, &line->bounds))
		d->verdict =
			pri_prune_ask(q->prune, line->run->link, e, &d->held, &index_read);
	if (!keep_held(d))
		return false;
	a->next++;
	a->count++;
	*worked += index_read;
	return (d->verdict != PRI_PRUNE_READ || begin_scan(q, d, e)) &&
	       *worked < WORKED_MAX;
}

static void
look_ahead(struct pri_query *q, struct pri_run_reader *r)
{
	const struct pri_run_bounds *b = &q->lines[r->line].bounds;
	struct pri_run_ahead *a = r->ahead;
	unsigned worked = 0;

	if (a->next < r->next)
		a->next = r->next;
	while (a->next < r->end && a->count < DECIDED_MAX &&
		pri_scans_free(q->scans) > PRI_SCANS_AHEAD - q->window) {
		const struct pri_segment_entry *e = pri_sorted_run_at(r->lane, a->next);

		if (!e || e->first_otime > b->until)
			return;
		if (!pri_entry_wanted(e, b))
			a->next++;
		else if (!decide(q, r, e, &worked))
			return;
	}
}

/* What is counted in the index, or searched for in two ways, is not for other threads. */
static bool
may_look_ahead(struct pri_query *q, struct pri_run_reader *r)
{
	if (q->spec.relations || q->spec.tally || r->run->strays)
		return false;
	if (!q->scans)
		q->scans = pri_scans_create(&q->spec.programs);
	if (q->scans && !r->ahead) {
		r->ahead = calloc(1, sizeof(*r->ahead));
		if (r->ahead)
			r->ahead->scans = q->scans;
	}
	return q->scans && r->ahead;
}

/* Slowly at first: the first few segments may be all that is wanted. */
static void
widen(struct pri_query *q)
{
	q->window = q->window == 0                     ? 1
		    : q->window >= PRI_SCANS_AHEAD / 2 ? PRI_SCANS_AHEAD
						       : q->window * 2;
}

/* All of its seqs are held, nothing else of its link comes between them, and each packet is in the range. */
static bool
may_leap(const struct pri_query *q, const struct pri_run_reader *r)
{
	const struct pri_segment_entry *e = &r->entry;

	return r->matches.sound && !q->spec.limit &&
	       e->count == (uint64_t)e->seq_span + 1 &&
	       r->reader.header.count == e->count &&
	       r->matches.last_seq == pri_entry_last_seq(e) &&
	       r->reader.header.last_otime == e->last_otime &&
	       r->reader.header.min_time == e->min_time &&
	       r->reader.header.max_time == e->max_time && pri_query_alone(q, r);
}

static int
leap(struct pri_query *q, struct pri_run_reader *r, struct pr_error *err)
{
	struct pri_line *line = &q->lines[r->line];

	q->figures.scanned_packets += r->entry.count;
	if (pri_query_hold_all(q, r, err) < 0)
		return -1;
	return pri_run_reader_leap(r, &line->bounds, &q->lane_figures);
}

int
pri_query_open(struct pri_query *q, struct pri_run_reader *r, struct pr_error *err)
{
	struct pri_run_bounds *b = &q->lines[r->line].bounds;
	struct decision *d = current(r);
	struct pri_scan *scan = d ? d->scan : NULL;

	if (d)
		d->scan = NULL; /* taken, come what may */
	pri_run_reader_take(r, &q->spare);
	r->ready = scan && pri_scan_take(q->scans, scan, &r->buffer, &r->body, &r->matches);
	if (!r->ready) {
		r->matches.judged = 0;
		r->matches.sound = false;
	}
	if (may_look_ahead(q, r)) {
		widen(q);
		look_ahead(q, r);
	}
	if (!pri_run_reader_open(r, q->view, b, &q->lane_figures))
		return 0;
	return r->open && may_leap(q, r) ? leap(q, r, err) : 1;
}
