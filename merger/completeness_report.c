/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/completeness_internal.h"

#include <stdlib.h>
#include <string.h>

/* An answer's completeness, put together: where each line ends, what is missing, what the nodes say. */

char *
prm_completeness_text(struct prm_completeness *c, const char *text)
{
	char *copy = text[0] ? strdup(text) : (char *)protobuf_c_empty_string;

	if (!copy)
		c->failed_memory = true;
	return copy;
}

/* ---- the ends of a line ---- */

/*
 * Before the first held seq and after the last: bounded by edges, else by seq 1 and by what the
 * dispatcher declared. Seqs between an edge and the range may lie on either side of the range's
 * end; they count, unless a loss tells their time: never a silently short answer.
 */
static void
gap(struct prm_completeness *c, size_t line, struct point below, struct point above)
{
	if (above.seq > below.seq + 1)
		prm_completeness_hole(
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
line_ends(struct prm_completeness *c, size_t index)
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
judge_rest(struct prm_completeness *c)
{
	int64_t before = INT64_MAX;

	if (c->cut) {
		before = prm_completeness_frontier(c);
		if (before > c->cut_otime)
			before = c->cut_otime;
	}
	for (size_t i = 0; i < c->line_count; i++) {
		prm_completeness_settle(c, &c->lines[i], before);
		line_ends(c, i);
	}
}

/* ---- the rest of the answer ---- */

static bool
nodes_report(struct prm_completeness *c, Packrack__Completeness *out)
{
	bool all = true;

	out->nodes = calloc(c->node_count ? c->node_count : 1, sizeof(*out->nodes));
	for (size_t i = 0; out->nodes && i < c->node_count; i++) {
		const struct node *n = &c->nodes[i];
		const char *error = n->error ? n->error : "";
		Packrack__NodeAnswer *a = malloc(sizeof(*a));

		if (!a)
			break;
		*a = n->figures;
		a->node = prm_completeness_text(c, n->name);
		a->answered = !n->error && (n->ended || c->cut);
		if (!n->error && !a->answered)
			error = "did not answer to its end";
		a->error = prm_completeness_text(c, error);
		a->why = prm_completeness_text(c, n->why ? n->why : "");
		a->left_out = n->left_out;
		a->stopped = a->answered && !n->ended && !n->left_out;
		out->nodes[out->n_nodes++] = a;
		all = all && a->answered && !n->corrupt;
	}
	if (!out->nodes || out->n_nodes < c->node_count)
		c->failed_memory = true;
	return all && c->node_count;
}

/* Of whatever epoch: nothing of the link is missed that somebody had deleted. */
static bool
others_have(const struct prm_completeness *c, uint32_t link)
{
	bool held = false;

	for (size_t i = 0; i < c->line_count; i++)
		if (c->lines[i].link == link) {
			held |= c->lines[i].held > 0;
			if (c->lines[i].evicted_hole)
				return false;
		}
	return held;
}

/* What was moved to where somebody else gives it leaves no hole; where nobody has any, none would show. */
static bool
lacks_nothing(struct prm_completeness *c, const Packrack__Evicted *e)
{
	const struct line *line;

	if (!e->deleted || !e->deleted->moved_to[0] || e->until > e->deleted->until)
		return false;
	if (e->midst)
		return others_have(c, e->link);
	if (!e->epoch)
		return false;
	line = prm_completeness_line(c, e->epoch, e->link);
	return line && line->held && !line->evicted_hole;
}

/* Evictions that reach into the range, and only those; true: none. */
static bool
evicted_report(struct prm_completeness *c, Packrack__Completeness *out)
{
	size_t kept = 0;

	out->evicted =
		calloc(c->evicted_count ? c->evicted_count : 1, sizeof(*out->evicted));
	if (!out->evicted) {
		c->failed_memory = true;
		return false;
	}
	for (size_t i = 0; i < c->evicted_count; i++)
		if (c->evicted[i]->until >= c->options.since &&
			(!c->evicted[i]->midst ||
				c->evicted[i]->since <= c->options.until) &&
			!lacks_nothing(c, c->evicted[i]))
			out->evicted[out->n_evicted++] = c->evicted[i];
		else
			c->evicted[kept++] = c->evicted[i];
	c->evicted_count = kept;
	return !out->n_evicted;
}

/* Had the dispatcher drops before the packets got a number? Only lines that reach the range. */
static void
ledgers_report(struct prm_completeness *c, Packrack__Completeness *out)
{

	for (size_t i = 0; i < c->line_count; i++) {
		const struct line *line = &c->lines[i];

		out->held_packets += line->in_scope ? line->held : 0;
		if (line->ledger && line->in_scope &&
			line->ledger->last_otime >= c->options.since)
			out->dropped_packets += line->ledger->dropped_kernel +
						line->ledger->dropped_interface +
						line->ledger->dropped_ring;
	}
	out->ledgers = c->ledgers;
	out->n_ledgers = c->ledger_count;
	c->ledgers = NULL;
	c->ledger_count = 0;
}

int
prm_completeness_finish(
	struct prm_completeness *c, Packrack__Completeness **out, struct pr_error *err)
{
	Packrack__Completeness *r = malloc(sizeof(*r));
	bool fine;

	*out = r;
	if (!r)
		return pr_error_set(err, "no memory for the completeness of an answer");
	packrack__completeness__init(r);
	for (size_t i = 0; i < c->line_count; i++)
		prm_completeness_heard(c, &c->lines[i]);
	judge_rest(c);
	prm_completeness_explain(c, r);
	fine = nodes_report(c, r);
	fine = evicted_report(c, r) && fine;
	ledgers_report(c, r);
	r->held_at_most = c->loose;
	r->complete =
		fine && !r->missing_packets && !r->pending_packets && !r->dropped_packets;
	if (!c->failed_memory)
		return 0;
	packrack__completeness__free_unpacked(r, NULL);
	*out = NULL;
	return pr_error_set(err, "no memory for the completeness of an answer");
}
