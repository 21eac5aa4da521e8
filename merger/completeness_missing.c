/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/completeness_internal.h"

#include <stdlib.h>

/*
 * The holes' reasons. Per line, holes and losses are both walked in seq order. Losses that name
 * each seq ("exact") are believed before those that say "count of first..last".
 */

struct walk {
	struct prm_completeness *c;
	Packrack__Completeness *out;
	size_t room; /* of out->missing */
	/* through one line's losses */
	size_t next_exact, next_vague, end;
	struct loss *exact, *vague; /* of those begun, the one that reaches furthest */
};

static bool
is_exact(const struct loss *loss)
{
	return loss->count == loss->last - loss->first + 1;
}

static int
loss_compare(const void *pa, const void *pb)
{
	const struct loss *a = pa, *b = pb;

	if (a->line != b->line)
		return a->line < b->line ? -1 : 1;
	return a->first < b->first ? -1 : a->first > b->first;
}

static int
hole_compare(const void *pa, const void *pb)
{
	const struct hole *a = pa, *b = pb;

	if (a->line != b->line)
		return a->line < b->line ? -1 : 1;
	return a->first < b->first ? -1 : a->first > b->first;
}

static int
missing_compare(const void *pa, const void *pb)
{
	const Packrack__Loss *a = *(Packrack__Loss *const *)pa,
			     *b = *(Packrack__Loss *const *)pb;

	if (a->first_time != b->first_time)
		return a->first_time < b->first_time ? -1 : 1;
	if (a->epoch != b->epoch)
		return a->epoch < b->epoch ? -1 : 1;
	if (a->link != b->link)
		return a->link < b->link ? -1 : 1;
	return a->first_seq < b->first_seq ? -1 : a->first_seq > b->first_seq;
}

/* ---- listing ---- */

/* first..last is missing; as far as is known, it is of `about`. */
static void
list(struct walk *w, const struct line *line, uint64_t first, uint64_t last,
	const struct loss *about, const char *node)
{
	Packrack__Completeness *out = w->out;
	Packrack__Loss *l;

	out->missing_packets += last - first + 1;
	out->missing_ranges++;
	if (out->n_missing >= PRM_COMPLETENESS_LIST_MAX)
		return;
	if (!prm_completeness_grow(
		    (void **)&out->missing, out->n_missing, &w->room, sizeof(l)) ||
		!(l = malloc(sizeof(*l)))) {
		w->c->failed_memory = true;
		return;
	}
	packrack__loss__init(l);
	l->epoch = line->epoch;
	l->link = line->link;
	l->first_seq = first;
	l->last_seq = last;
	l->count = last - first + 1;
	l->first_time = about->first_time;
	l->last_time = about->last_time;
	l->reason = prm_completeness_text(w->c, about->reason);
	l->node = prm_completeness_text(w->c, node);
	if (!is_exact(about)) {
		l->among_first = about->first;
		l->among_last = about->last;
	}
	out->missing[out->n_missing++] = l;
}

/* ---- what no loss explains ---- */

static bool
alive(const struct prm_completeness *c, const struct line *line)
{
	return line->ledger && !line->ledger->ended &&
	       line->ledger->said_until > c->options.now - PRM_COMPLETENESS_ALIVE_NS;
}

/* Some node that hears the dispatcher has not settled all up to there. */
static bool
pending(const struct prm_completeness *c, const struct line *line, const struct hole *h)
{
	return alive(c, line) && h->last > line->settled;
}

static const char *
reason_of(const struct prm_completeness *c, const struct line *line, const char **node)
{
	for (size_t i = 0; i < c->node_count; i++)
		if (c->nodes[i].error) {
			*node = c->nodes[i].name;
			return PRM_MISSING_NO_ANSWER;
		}
	for (size_t i = 0; i < c->node_count; i++)
		if (c->nodes[i].corrupt) {
			*node = c->nodes[i].name;
			return PRM_MISSING_CORRUPT;
		}
	*node = "";
	if (line->ledger && line->ledger->dropped_no_node + line->ledger->dropped_send)
		return PRM_MISSING_DROPPED;
	if (line->ledger && !line->ledger->ended && !alive(c, line))
		return PRM_MISSING_UNDELIVERED;
	return PRM_MISSING_UNKNOWN;
}

/* An eviction that names no seq covers holes that may be as old as what it took. */
static bool
evicted_by_time(
	const struct prm_completeness *c, const struct line *line, const struct hole *h)
{
	for (size_t i = 0; i < c->evicted_count; i++) {
		const Packrack__Evicted *e = c->evicted[i];

		if (e->midst ? e->link == line->link && h->low <= e->until &&
					h->high >= e->since
			     : !e->last_seq && h->low <= e->until &&
					(!e->epoch || (e->epoch == line->epoch &&
							      e->link == line->link)))
			return true;
	}
	return false;
}

static void
unexplained(struct walk *w, const struct hole *h, uint64_t first, uint64_t last)
{
	struct line *line = &w->c->lines[h->line];
	struct loss about = {.first_time = h->low, .last_time = h->high};
	const char *node;

	if (first <= line->evicted_seq) {
		line->evicted_hole = true;
		first = last < line->evicted_seq ? last + 1 : line->evicted_seq + 1;
	}
	if (first <= last && evicted_by_time(w->c, line, h)) {
		line->evicted_hole = true;
		return;
	}
	if (first > last || h->low > w->c->options.until || h->high < w->c->options.since)
		return;
	if (pending(w->c, line, h)) {
		w->out->pending_packets += last - first + 1;
		return;
	}
	about.first = first;
	about.last = last;
	about.count = last - first + 1;
	about.reason = (char *)reason_of(w->c, line, &node);
	if (w->c->options.part && !node[0])
		return;
	list(w, line, first, last, &about, node);
}

/* ---- matching holes with losses ---- */

static void
begin_line(struct walk *w, size_t line, size_t *loss)
{
	while (*loss < w->c->loss_count && w->c->losses[*loss].line < line)
		++*loss;
	w->next_exact = w->next_vague = *loss;
	while (*loss < w->c->loss_count && w->c->losses[*loss].line == line)
		++*loss;
	w->end = *loss;
	w->exact = w->vague = NULL;
}

/*
 * The loss of this kind that covers seq (else NULL). *upto is lowered to where another answer may
 * begin.
 */
static struct loss *
covering(struct walk *w, bool exact, uint64_t seq, uint64_t *upto)
{
	size_t *next = exact ? &w->next_exact : &w->next_vague;
	struct loss **best = exact ? &w->exact : &w->vague;

	for (; *next < w->end; ++*next) {
		struct loss *l = &w->c->losses[*next];

		if (is_exact(l) != exact)
			continue;
		if (l->first > seq) {
			if (l->first <= *upto)
				*upto = l->first - 1;
			break;
		}
		if (!*best || l->last > (*best)->last)
			*best = l;
	}
	if (!*best || (*best)->last < seq)
		return NULL;
	if ((*best)->last < *upto)
		*upto = (*best)->last;
	return *best;
}

static bool
in_range(const struct prm_completeness *c, const struct loss *l)
{
	return l->last_time >= c->options.since && l->first_time <= c->options.until;
}

static void
explain(struct walk *w, const struct hole *h)
{
	uint64_t at = h->first, upto;

	while (at <= h->last) {
		struct loss *l;

		upto = h->last;
		l = covering(w, true, at, &upto);
		if (!l)
			l = covering(w, false, at, &upto);
		if (!l)
			unexplained(w, h, at, upto);
		else if (in_range(w->c, l))
			list(w, &w->c->lines[h->line], at, upto, l,
				w->c->nodes[l->node].name);
		at = upto + 1;
	}
}

void
prm_completeness_explain(struct prm_completeness *c, Packrack__Completeness *out)
{
	struct walk walk = {.c = c, .out = out}, *w = &walk;
	size_t loss = 0, line = SIZE_MAX;

	if (c->hole_count)
		qsort(c->holes, c->hole_count, sizeof(*c->holes), hole_compare);
	if (c->loss_count)
		qsort(c->losses, c->loss_count, sizeof(*c->losses), loss_compare);
	for (size_t i = 0; i < c->hole_count; i++) {
		if (c->holes[i].line != line)
			begin_line(w, line = c->holes[i].line, &loss);
		if (c->lines[line].in_scope &&
			prm_completeness_clip(
				&c->lines[line], &c->holes[i].first, &c->holes[i].last))
			explain(w, &c->holes[i]);
	}
	out->missing_packets += c->surplus_packets;
	out->missing_ranges += c->surplus_ranges;
	if (out->n_missing)
		qsort(out->missing, out->n_missing, sizeof(*out->missing), missing_compare);
}
