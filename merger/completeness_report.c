/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/completeness_internal.h"

#include <stdlib.h>
#include <string.h>

/*
 * The holes' reasons. Per line, holes and losses are both walked in seq order. Losses that name
 * each seq ("exact") are believed before those that say "count of first..last".
 */

struct report {
	struct pr_completeness *c;
	Packrack__Completeness *out;
	size_t room; /* of out->missing */
	/* a walk through one line's losses */
	size_t next_exact, next_vague, end;
	struct loss *exact, *vague; /* of those begun, the one that reaches furthest */
	bool no_memory;
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

/* ---- listing ---- */

static char *
text_of(struct report *r, const char *text)
{
	char *copy = text[0] ? strdup(text) : (char *)protobuf_c_empty_string;

	if (!copy)
		r->no_memory = true;
	return copy;
}

/* first..last is missing; as far as is known, it is of `about`. */
static void
list(struct report *r, const struct line *line, uint64_t first, uint64_t last,
	const struct loss *about, const char *node)
{
	Packrack__Completeness *out = r->out;
	Packrack__Loss *l;

	out->missing_packets += last - first + 1;
	out->missing_ranges++;
	if (out->n_missing >= PR_COMPLETENESS_LIST_MAX)
		return;
	if (!pr_completeness_grow(
		    (void **)&out->missing, out->n_missing, &r->room, sizeof(l)) ||
		!(l = malloc(sizeof(*l)))) {
		r->no_memory = true;
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
	l->reason = text_of(r, about->reason);
	l->node = text_of(r, node);
	if (!is_exact(about)) {
		l->among_first = about->first;
		l->among_last = about->last;
	}
	out->missing[out->n_missing++] = l;
}

/* ---- what no loss explains ---- */

static bool
alive(const struct pr_completeness *c, const struct line *line)
{
	return line->ledger && !line->ledger->ended &&
	       line->ledger->said_until > c->options.now - PR_COMPLETENESS_ALIVE_NS;
}

/* Some node that hears the dispatcher has not settled all up to there. */
static bool
pending(const struct pr_completeness *c, const struct line *line, const struct hole *h)
{
	return alive(c, line) && h->last > line->settled;
}

static const char *
reason_of(const struct pr_completeness *c, const struct line *line, const char **node)
{
	for (size_t i = 0; i < c->node_count; i++)
		if (c->nodes[i].error) {
			*node = c->nodes[i].name;
			return PR_MISSING_NO_ANSWER;
		}
	for (size_t i = 0; i < c->node_count; i++)
		if (c->nodes[i].corrupt) {
			*node = c->nodes[i].name;
			return PR_MISSING_CORRUPT;
		}
	*node = "";
	if (line->ledger && line->ledger->dropped_no_node + line->ledger->dropped_send)
		return PR_MISSING_DROPPED;
	if (line->ledger && !line->ledger->ended && !alive(c, line))
		return PR_MISSING_UNDELIVERED;
	return PR_MISSING_UNKNOWN;
}

/* An eviction that names no seq covers holes that may be as old as what it took. */
static bool
evicted_by_time(
	const struct pr_completeness *c, const struct line *line, const struct hole *h)
{
	for (size_t i = 0; i < c->evicted_count; i++) {
		const Packrack__Evicted *e = c->evicted[i];

		if (!e->last_seq && h->low <= e->until &&
			(!e->epoch || (e->epoch == line->epoch && e->link == line->link)))
			return true;
	}
	return false;
}

static void
unexplained(struct report *r, const struct hole *h, uint64_t first, uint64_t last)
{
	struct line *line = &r->c->lines[h->line];
	struct loss about = {.first_time = h->low, .last_time = h->high};
	const char *node;

	if (first <= line->evicted_seq) {
		line->evicted_hole = true;
		first = last < line->evicted_seq ? last + 1 : line->evicted_seq + 1;
	}
	if (first <= last && evicted_by_time(r->c, line, h)) {
		line->evicted_hole = true;
		return;
	}
	if (first > last || h->low > r->c->options.until || h->high < r->c->options.since)
		return;
	if (pending(r->c, line, h)) {
		r->out->pending_packets += last - first + 1;
		return;
	}
	about.first = first;
	about.last = last;
	about.count = last - first + 1;
	about.reason = (char *)reason_of(r->c, line, &node);
	if (r->c->options.part && !node[0])
		return;
	list(r, line, first, last, &about, node);
}

/* ---- matching holes with losses ---- */

static void
begin_line(struct report *r, size_t line, size_t *loss)
{
	while (*loss < r->c->loss_count && r->c->losses[*loss].line < line)
		++*loss;
	r->next_exact = r->next_vague = *loss;
	while (*loss < r->c->loss_count && r->c->losses[*loss].line == line)
		++*loss;
	r->end = *loss;
	r->exact = r->vague = NULL;
}

/*
 * The loss of this kind that covers seq (else NULL). *upto is lowered to where another answer may
 * begin.
 */
static struct loss *
covering(struct report *r, bool exact, uint64_t seq, uint64_t *upto)
{
	size_t *next = exact ? &r->next_exact : &r->next_vague;
	struct loss **best = exact ? &r->exact : &r->vague;

	for (; *next < r->end; ++*next) {
		struct loss *l = &r->c->losses[*next];

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
in_range(const struct pr_completeness *c, const struct loss *l)
{
	return l->last_time >= c->options.since && l->first_time <= c->options.until;
}

static void
explain(struct report *r, const struct hole *h)
{
	uint64_t at = h->first, upto;

	while (at <= h->last) {
		struct loss *l;

		upto = h->last;
		l = covering(r, true, at, &upto);
		if (!l)
			l = covering(r, false, at, &upto);
		if (!l)
			unexplained(r, h, at, upto);
		else if (in_range(r->c, l))
			list(r, &r->c->lines[h->line], at, upto, l,
				r->c->nodes[l->node].name);
		at = upto + 1;
	}
}

static void
explain_all(struct report *r)
{
	struct pr_completeness *c = r->c;
	size_t loss = 0, line = SIZE_MAX;

	if (c->hole_count)
		qsort(c->holes, c->hole_count, sizeof(*c->holes), hole_compare);
	if (c->loss_count)
		qsort(c->losses, c->loss_count, sizeof(*c->losses), loss_compare);
	for (size_t i = 0; i < c->hole_count; i++) {
		if (c->holes[i].line != line)
			begin_line(r, line = c->holes[i].line, &loss);
		if (c->lines[line].in_scope &&
			pr_completeness_clip(
				&c->lines[line], &c->holes[i].first, &c->holes[i].last))
			explain(r, &c->holes[i]);
	}
	r->out->missing_packets += c->surplus_packets;
	r->out->missing_ranges += c->surplus_ranges;
}

/* ---- the ends of a line ---- */

/*
 * Before the first held seq and after the last: bounded by edges, else by seq 1 and by what the
 * dispatcher declared. Seqs between an edge and the range may lie on either side of the range's
 * end; they count, unless a loss tells their time: never a silently short answer.
 */
static void
gap(struct pr_completeness *c, size_t line, struct point below, struct point above)
{
	if (above.seq > below.seq + 1)
		pr_completeness_hole(
			c, line, below.seq + 1, above.seq - 1, below.otime, above.otime);
}

/* A live dispatcher's packets are not older than its epoch; a trace file's may be of any age. */
static int64_t
oldest(uint64_t epoch, const struct point *later)
{
	int64_t start = (int64_t)(epoch >> 32) * INT64_C(1000000000);

	return later->seq && later->otime >= start ? start : INT64_MIN;
}

static void
line_ends(struct pr_completeness *c, size_t index)
{
	struct line *line = &c->lines[index];
	struct point below = line->below, above = line->above,
		     top = {line->top, line->last.otime};

	if (!above.seq && line->ledger && line->ledger->last_otime >= c->options.since)
		above = (struct point){
			line->ledger->last_seq + 1, line->ledger->last_otime};
	/* a loss is known before the MARK that declares it, which a dead dispatcher never sends */
	if (!line->above.seq && line->lost.seq >= above.seq && line->lost.seq)
		above = (struct point){line->lost.seq + 1, line->lost.otime};
	if (!below.seq)
		below.otime = oldest(line->epoch, line->first.seq ? &line->first : &above);
	if (c->cut)
		above.seq = 0; /* what follows the cut is not asked for */
	if (line->first.seq) {
		gap(c, index, below, line->first);
		if (above.seq)
			gap(c, index, top, above);
	} else if (above.seq) {
		gap(c, index, below, above);
	}
}

static void
judge_rest(struct pr_completeness *c)
{
	int64_t before = INT64_MAX;

	if (c->cut) {
		before = pr_completeness_frontier(c);
		if (before > c->cut_otime)
			before = c->cut_otime;
	}
	for (size_t i = 0; i < c->line_count; i++) {
		pr_completeness_settle(c, &c->lines[i], before);
		line_ends(c, i);
	}
}

/* ---- the rest of the answer ---- */

static bool
nodes_report(struct report *r)
{
	struct pr_completeness *c = r->c;
	Packrack__Completeness *out = r->out;
	bool all = true;

	out->nodes = calloc(c->node_count ? c->node_count : 1, sizeof(*out->nodes));
	for (size_t i = 0; out->nodes && i < c->node_count; i++) {
		const struct node *n = &c->nodes[i];
		Packrack__NodeAnswer *a = malloc(sizeof(*a));

		if (!a)
			break;
		packrack__node_answer__init(a);
		a->node = text_of(r, n->name);
		a->answered = !n->error && (n->ended || c->cut);
		a->error = text_of(r, n->error      ? n->error
				      : a->answered ? ""
						    : "did not answer to its end");
		a->matched = n->matched;
		a->scanned_packets = n->scanned_packets;
		a->scanned_bytes = n->scanned_bytes;
		a->scanned_segments = n->scanned_segments;
		a->skipped_segments = n->skipped_segments;
		a->skipped_bytes = n->skipped_bytes;
		a->why = text_of(r, n->why ? n->why : "");
		a->left_out = n->left_out;
		out->nodes[out->n_nodes++] = a;
		all = all && a->answered && !n->corrupt;
	}
	if (!out->nodes || out->n_nodes < c->node_count)
		r->no_memory = true;
	return all && c->node_count;
}

/* What was moved to where somebody else gives it leaves no hole; where nobody has any, none would show. */
static bool
lacks_nothing(struct pr_completeness *c, const Packrack__Evicted *e)
{
	const struct line *line;

	if (!e->deleted || !e->deleted->moved_to[0] || e->until > e->deleted->until ||
		!e->epoch)
		return false;
	line = pr_completeness_line(c, e->epoch, e->link);
	return line && line->held && !line->evicted_hole;
}

/* Evictions that reach into the range, and only those; true: none. */
static bool
evicted_report(struct report *r)
{
	struct pr_completeness *c = r->c;
	Packrack__Completeness *out = r->out;
	size_t kept = 0;

	out->evicted =
		calloc(c->evicted_count ? c->evicted_count : 1, sizeof(*out->evicted));
	if (!out->evicted) {
		r->no_memory = true;
		return false;
	}
	for (size_t i = 0; i < c->evicted_count; i++)
		if (c->evicted[i]->until >= c->options.since &&
			!lacks_nothing(c, c->evicted[i]))
			out->evicted[out->n_evicted++] = c->evicted[i];
		else
			c->evicted[kept++] = c->evicted[i];
	c->evicted_count = kept;
	return !out->n_evicted;
}

/* Had the dispatcher drops before the packets got a number? Only lines that reach the range. */
static void
ledgers_report(struct report *r)
{
	struct pr_completeness *c = r->c;

	for (size_t i = 0; i < c->line_count; i++) {
		const struct line *line = &c->lines[i];

		r->out->held_packets += line->in_scope ? line->held : 0;
		if (line->ledger && line->in_scope &&
			line->ledger->last_otime >= c->options.since)
			r->out->dropped_packets += line->ledger->dropped_kernel +
						   line->ledger->dropped_interface +
						   line->ledger->dropped_ring;
	}
	r->out->ledgers = c->ledgers;
	r->out->n_ledgers = c->ledger_count;
	c->ledgers = NULL;
	c->ledger_count = 0;
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

int
pr_completeness_finish(
	struct pr_completeness *c, Packrack__Completeness **out, struct pr_error *err)
{
	struct report r = {.c = c};
	bool fine;

	*out = r.out = malloc(sizeof(*r.out));
	if (!r.out)
		return pr_error_set(err, "no memory for the completeness of an answer");
	packrack__completeness__init(r.out);
	for (size_t i = 0; i < c->line_count; i++)
		pr_completeness_heard(c, &c->lines[i]);
	judge_rest(c);
	explain_all(&r);
	if (r.out->n_missing)
		qsort(r.out->missing, r.out->n_missing, sizeof(*r.out->missing),
			missing_compare);
	fine = nodes_report(&r);
	fine = evicted_report(&r) && fine;
	ledgers_report(&r);
	r.out->held_at_most = c->loose;
	r.out->complete = fine && !r.out->missing_packets && !r.out->pending_packets &&
			  !r.out->dropped_packets;
	if (!r.no_memory && !c->failed_memory)
		return 0;
	packrack__completeness__free_unpacked(r.out, NULL);
	*out = NULL;
	return pr_error_set(err, "no memory for the completeness of an answer");
}
