/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "merger/cli/query/ask.h"
#include "tests/unit/truth_rack.h"

/* A query over all nodes, and its answer held against what truly happened. */
struct t_query {
	int64_t since, until;
	const char *link; /* "": all */
	bool open; /* asked without a beginning */
	Packrack__Completeness *out;
	uint64_t wanted, got, listed;
	uint64_t cut,
		told_cut; /* packets that the dispatcher truncated: true, and as the nodes say */
	bool failed; /* a node did not answer */
	int64_t told[T_RACKS * T_NODES]
		    [T_SERIES]; /* since when the node has heard of the series; 0: never */
};

#define T_NEAR (1500 * PR_NS_PER_MS)
#define T_SILENT (1900 * PR_NS_PER_MS)
#define T_PENDING (5 * PR_NS_PER_S) /* after this a packet is stored, or known to be lost */

static inline bool
asks_for(const struct t_query *q, const struct t_series *s)
{
	return !q->link[0] || !strcmp(q->link, s->of->name);
}

static inline bool
in_range(const struct t_query *q, int64_t time)
{
	return time >= q->since && time <= q->until;
}

/* ---- the answer's packets ---- */

static inline void
take_packet(struct world *w, struct t_query *q, const struct pr_packet *p)
{
	const struct t_series *s = series_find(w, p->epoch, p->link);
	uint32_t room = w->plan.mtu + PR_ETHER_LEN;
	uint8_t bytes[16384];
	struct t_packet *is;

	MUST(w, s && p->seq >= 1 && p->seq <= s->given,
		"packet %lx %u %lu was not captured", (lu)p->epoch, p->link, (lu)p->seq);
	is = &s->packets[p->seq - 1];
	fill_packet(bytes, is->id, is->caplen);
	MUST(w,
		p->len == is->caplen && p->caplen == (p->len < room ? p->len : room) &&
			!memcmp(p->data, bytes, p->caplen),
		"packet %lu has other bytes", (lu)p->seq);
	MUST(w, (p->caplen < p->len) == !!(p->flags & PR_PACKET_CUT),
		"packet %lu is truncated, and not marked", (lu)p->seq);
	q->cut += p->caplen < p->len;
	MUST(w,
		p->time == is->time ||
			(is->id <= T_ALIKE && p->flags & PR_PACKET_MATCH_UNSURE),
		"packet %lu has another time", (lu)p->seq);
	MUST(w, in_range(q, p->time) && asks_for(q, s), "packet %lu was not asked for",
		(lu)p->seq);
	MUST(w, !is->told_lost, "packet %lu was told as lost, and comes", (lu)p->seq);
	is->got = true;
}

static inline void
take_batch(struct world *w, struct t_query *q, const Packrack__Batch *batch)
{
	struct pr_segment_reader r;
	struct pr_packet p;
	int rc;

	if (!batch->packets.len)
		return;
	MUST(w, pr_segment_open(&r, batch->packets.data, batch->packets.len, &w->err) == 0,
		"a batch that cannot be read");
	while ((rc = pr_segment_next(&r, &p, &w->err)) == 1)
		take_packet(w, q, &p);
	MUST(w, rc == 0, "a batch that cannot be read");
}

/* ---- asking ---- */

/* What is deleted from the oldest on looks to StreamFS as if it was overwritten: the time before what was deleted. */
static inline int64_t
less_deleted(const struct t_node *n, int64_t time)
{
	for (size_t i = 0; i < n->w->deletion_count && time > PR_TIME_MIN; i++) {
		const struct t_deletion *d = &n->w->deletions[i];

		if (d->node != n || time < d->since || time > d->until ||
			time > d->at + 20 * PR_NS_PER_MS)
			continue;
		time = d->since > PR_TIME_MIN ? d->since - 1 : PR_TIME_MIN;
		i = SIZE_MAX; /* and what was deleted right before it */
	}
	return time;
}

static inline void
say_end(struct world *w, const struct t_node *n, const Packrack__End *end)
{
	for (size_t i = 0; i < end->n_losses; i++) {
		const Packrack__Loss *l = end->losses[i];

		SAY(w, "   %s lost %lx %u: %lu of %lu..%lu, %s %.3f..%.3f", n->name,
			(lu)l->epoch, l->link, (lu)l->count, (lu)l->first_seq,
			(lu)l->last_seq, l->reason, seconds(l->first_time),
			seconds(l->last_time));
	}
	for (size_t i = 0; i < end->n_ledgers; i++) {
		const Packrack__Ledger *l = end->ledgers[i];

		for (size_t j = 0; j < l->n_unobserved_since; j++)
			SAY(w, "   %s unobserved %lx %u: %.3f..%.3f, reason %u", n->name,
				(lu)l->epoch, l->link, seconds(l->unobserved_since[j]),
				seconds(l->unobserved_until[j]), l->unobserved_reason[j]);
	}
	for (size_t i = 0; i < end->n_evicted; i++) {
		const Packrack__Evicted *e = end->evicted[i];

		SAY(w, "   %s evicted %lx %u: %lu..%lu, %.3f..%.3f", n->name, (lu)e->epoch,
			e->link, (lu)e->first_seq, (lu)e->last_seq, seconds(e->since),
			seconds(e->until));
	}
}

/* Up to which time packets and ledger of the node are overwritten, as StreamFS itself says. */
static inline void
note_overwritten(struct t_node *n)
{
	struct sfs *sfs = reader_of(n);
	struct sfs_stream_info info;

	for (size_t i = 0; sfs_stream_info(sfs, i, &info, NULL) == SFS_OK; i++)
		if ((!strncmp(info.name, "packets.", 8) || !strcmp(info.name, "ledger")) &&
			less_deleted(n, info.evicted_until) > n->overwritten)
			n->overwritten = less_deleted(n, info.evicted_until);
}

static inline void
ask_nodes(struct world *w, struct t_query *q, struct prm_completeness *c)
{
	struct pri_answer *answer[T_RACKS * T_NODES] = {NULL};
	Packrack__Query m = PACKRACK__QUERY__INIT;
	const Packrack__End *end;
	unsigned left = 0;

	m.since = q->since;
	m.until = q->until;
	m.link = (char *)(uintptr_t)q->link;
	for (unsigned i = 0; i < w->node_count; i++) {
		struct t_node *n = &w->node[i];

		MUST(w, prm_completeness_node(c, n->name, &w->err) == (int)i, "node");
		if (!n->indexer) {
			prm_completeness_failed(c, (int)i, "its connection is gone");
			q->failed = true;
			continue;
		}
		view_refresh(n);
		note_overwritten(n);
		answer[i] = pri_answer_create(n->view, &m, &w->err);
		MUST(w, answer[i] != NULL, "no answer");
		left++;
	}
	while (left) {
		unsigned i = (unsigned)below(w, w->node_count);
		enum pri_answer_state state;

		if (!answer[i])
			continue;
		w->machine = w->node[i].offset;
		state = pri_answer_step(answer[i], PR_TIME_MAX, &w->err);
		MUST(w, state == PRI_ANSWER_BATCH || state == PRI_ANSWER_END, "answer %d",
			(int)state);
		if (state == PRI_ANSWER_BATCH) {
			const Packrack__Batch *batch = pri_answer_batch(answer[i]);

			take_batch(w, q, batch);
			MUST(w, prm_completeness_batch(c, (int)i, batch, &w->err) == 0,
				"batch refused");
			continue;
		}
		end = pri_answer_end(answer[i], &w->err);
		q->told_cut += end->truncated;
		MUST(w, end && prm_completeness_end(c, (int)i, end, &w->err) == 0,
			"end refused");
		for (size_t k = 0; k < w->series_count; k++)
			for (size_t e = 0; e < end->n_ledgers; e++)
				if (end->ledgers[e]->epoch == w->series[k].epoch &&
					end->ledgers[e]->link == w->series[k].link)
					q->told[i][k] = end->ledgers[e]->first_said | 1;
		say_end(w, &w->node[i], end);
		pri_answer_destroy(&answer[i]);
		left--;
	}
}

/* ---- the list ---- */

static inline void
say_out(struct world *w, const struct t_query *q)
{
	const Packrack__Completeness *o = q->out;

	if (!w->loud)
		return;
	SAY(w,
		"query %.3f to %.3f %s: complete %d, held %lu, missing %lu, pending %lu, "
		"dropped %lu",
		seconds(q->since), seconds(q->until), q->link, o->complete,
		(lu)o->held_packets, (lu)o->missing_packets, (lu)o->pending_packets,
		(lu)o->dropped_packets);
	for (size_t i = 0; i < o->n_missing; i++)
		SAY(w, "   missing %lx %u %lu..%lu (of %lu..%lu) %s %s %.3f..%.3f",
			(lu)o->missing[i]->epoch, o->missing[i]->link,
			(lu)o->missing[i]->first_seq, (lu)o->missing[i]->last_seq,
			(lu)o->missing[i]->among_first, (lu)o->missing[i]->among_last,
			o->missing[i]->reason, o->missing[i]->node,
			seconds(o->missing[i]->first_time),
			seconds(o->missing[i]->last_time));
	for (size_t i = 0; i < o->n_evicted; i++)
		SAY(w, "   evicted %s %s until %.3f epoch %lx link %u last %lu midst %d",
			o->evicted[i]->node, o->evicted[i]->stream,
			seconds(o->evicted[i]->until), (lu)o->evicted[i]->epoch,
			o->evicted[i]->link, (lu)o->evicted[i]->last_seq,
			o->evicted[i]->midst);
	for (size_t i = 0; i < o->n_unobserved; i++)
		SAY(w, "   unobserved %u %s %.3f to %.3f %s %s", o->unobserved[i]->link,
			o->unobserved[i]->name, seconds(o->unobserved[i]->since),
			seconds(o->unobserved[i]->until), o->unobserved[i]->reason,
			o->unobserved[i]->by);
	for (size_t i = 0; i < o->n_ledgers; i++)
		SAY(w, "   ledger %lx %u %s last seq %lu until %.3f ended %d",
			(lu)o->ledgers[i]->epoch, o->ledgers[i]->link, o->ledgers[i]->name,
			(lu)o->ledgers[i]->last_seq, seconds(o->ledgers[i]->said_until),
			o->ledgers[i]->ended);
}

/* A node that was never disturbed, answers, and has had the time to store what it was sent. */
static inline bool
is_sound(const struct world *w, const struct t_node *n, const struct t_packet *p)
{
	return !n->troubled && !w->logs_get_lost && n->indexer &&
	       p->sent < w->now - T_PENDING && p->time > n->overwritten + T_PENDING;
}

/* Nothing keeps a node from what it was sent, nor a MARK from coming soon; timestamp logs may be lost. */
static inline bool
is_calm(const struct world *w)
{
	bool calm = !w->plan.clock && !w->plan.stall && !w->plan.cable;

	for (unsigned i = 0; i < w->node_count; i++)
		calm &= !w->node[i].troubled;
	return calm;
}

/* Some node has the ledger of the series. */
static inline bool
is_heard_of(const struct t_query *q, const struct t_series *s)
{
	for (size_t i = 0; i < q->out->n_ledgers; i++)
		if (q->out->ledgers[i]->epoch == s->epoch &&
			q->out->ledgers[i]->link == s->link)
			return true;
	return false;
}

static inline bool
was_deleted_at(const struct world *w, const struct t_node *n)
{
	for (size_t i = 0; i < w->deletion_count; i++)
		if (w->deletions[i].node == n)
			return true;
	return false;
}

/* Had the node (1 + its index; 0: none) told that it hears the dispatcher when the packet came? */
static inline bool
has_heard(const struct t_query *q, const struct t_series *s, unsigned node,
	const struct t_packet *p)
{
	int64_t since = node ? q->told[node - 1][s - t_world->series] : PR_TIME_MIN;

	return since && since <= p->time;
}

/* Its last MARK is so new that nobody can know that it was killed. */
static inline bool
is_just_dead(const struct t_node *n)
{
	return !n->sfs && n->w->now - n->killed < PR_NS_PER_S / 3;
}

/* Has the dispatcher said for certain that it had no node for such a packet? */
static inline bool
is_undelivered(const struct world *w, const struct t_query *q, const struct t_series *s,
	const struct t_packet *p)
{
	bool told = is_calm(w) && !w->logs_get_lost, any = false;

	for (unsigned i = 0; i < w->node_count; i++)
		told &= w->node[i].overwritten == PR_TIME_MIN &&
			!was_deleted_at(
				w, &w->node[i]); /* nor are losses from before kept */
	for (size_t i = 0; i < q->out->n_ledgers; i++)
		any |= q->out->ledgers[i]->epoch == s->epoch &&
		       q->out->ledgers[i]->link == s->link &&
		       q->out->ledgers[i]->last_seq > (uint64_t)(p - s->packets);
	return told && any;
}

/* Is the reason that the list gives for a packet one that it can truly have? */
static inline bool
reason_holds(struct world *w, const struct t_query *q, const struct t_series *s,
	const struct t_packet *p, const Packrack__Loss *l)
{
	bool named = strstr(l->node, "...") != NULL, all_sound = p->copy[0].node != 0;
	bool unknown = !l->node[0] || strstr(l->node, PRM_MISSING_UNKNOWN) ||
		       strstr(l->node, PRM_MISSING_UNDELIVERED);
	/* of what lies behind the range, or at times that are no more, not all suspects are known */
	bool intact = p->copy[0].node != 0 && !l->among_last && !w->plan.clock &&
		      in_range(q, p->time);
	bool one_of_many =
		l->among_last || p->id <= T_ALIKE; /* any of those that are alike */

	/* nobody knows when, as the clock was set */
	if (w->plan.clock && pr_time_minus(l->last_time, l->first_time) > 60 * PR_NS_PER_S)
		return true;
	/*
	 * of several ranges that had no node between two MARKs, or while none was heard, only the last is named; and one
	 * of these may have been deleted
	 */
	if (!p->copy[0].node && !p->copy[1].node)
		return !strcmp(l->reason, PRM_MISSING_DROPPED) ||
		       strstr(l->node, "(overwritten)") || !is_undelivered(w, q, s, p);
	for (int i = 0; i < 2; i++) {
		const struct t_copy *c = &p->copy[i];
		const struct t_node *n = c->node ? &w->node[c->node - 1] : NULL;

		if (!n)
			continue;
		named |= strstr(l->node, n->name) != NULL;
		all_sound &= is_sound(w, n, p) && !was_deleted_at(w, n);
		intact &= !n->damaged && !was_deleted_at(w, n) &&
			  (!n->indexer ||
				  (has_heard(q, s, c->node, p) && !is_just_dead(n))) &&
			  p->time > n->overwritten + T_PENDING;
		if (!c->lost && is_sound(w, n, p) && !one_of_many && !was_deleted_at(w, n))
			return false; /* it is there */
	}
	/* of a node that was disturbed nobody may know what it was sent: then no other is blamed */
	return named ||
	       (unknown ? !all_sound || (w->plan.alike && !in_range(q, p->time)) : !intact);
}

/* A packet is missing in the range if it may lie in it, by the MARKs and packets around it. */
static inline bool
is_near(const struct world *w, const struct t_query *q, const struct t_packet *p)
{
	return !is_calm(w) || w->logs_get_lost ||
	       (p->otime >= pr_time_minus(q->since, T_NEAR) &&
		       p->time <= pr_time_minus(q->until, -T_NEAR));
}

static inline void
take_missing(struct world *w, struct t_query *q, const Packrack__Loss *l)
{
	const struct t_series *s = series_find(w, l->epoch, l->link);

	MUST(w,
		s && l->first_seq >= 1 && l->last_seq <= s->given &&
			l->first_seq <= l->last_seq,
		"%lu..%lu are missing and were not captured", (lu)l->first_seq,
		(lu)l->last_seq);
	MUST(w, asks_for(q, s), "%lu is missing and was not asked for", (lu)l->first_seq);
	for (uint64_t seq = l->first_seq; seq <= l->last_seq; seq++) {
		struct t_packet *p = &s->packets[seq - 1];

		if (l->step && (seq - l->first_seq) % l->step >= l->count / l->ranges)
			continue;
		MUST(w, !p->got, "%lu is missing and is there", (lu)seq);
		MUST(w, !p->listed, "%lu is missing twice", (lu)seq);
		MUST(w, is_near(w, q, p), "%lu of %.3f is missing, and was not asked for",
			(lu)seq, seconds(p->time));
		MUST(w,
			reason_holds(w, q, s, p, l) ||
				(!p->copy[0].node && !is_heard_of(q, s)),
			"%lu is missing for a wrong reason: %s, %s; it was sent to %d%s "
			"and %d%s",
			(lu)seq, l->reason, l->node, p->copy[0].node - 1,
			p->copy[0].lost ? " (lost)" : "", p->copy[1].node - 1,
			p->copy[1].lost ? " (lost)" : "");
		p->listed = true;
		/* a node that has had no MARK yet may have more, or another copy be on its way */
		p->told_lost |= is_calm(w) && w->plan.copies == 1 && !q->failed &&
				!w->deletion_count && p->time > s->begun + PR_NS_PER_S &&
				p->id > T_ALIKE && has_heard(q, s, p->copy[0].node, p) &&
				has_heard(q, s, p->copy[1].node, p) && !l->among_last &&
				strcmp(l->reason, PRM_MISSING_ONE_OF);
		q->listed++;
	}
}

#define T_SEGMENT (2 * PR_NS_PER_S)
#define T_CURVE (400 * PR_NS_PER_MS) /* between two MARKs, at most */

/* The otimes between which a packet that is not in the answer must lie, as far as the answer shows. */
static inline struct t_span
gap_of(const struct t_series *s, uint64_t seq)
{
	struct t_span gap = {PR_TIME_MIN, PR_TIME_MAX};

	for (uint64_t below = seq - 1; below > 0 && gap.from == PR_TIME_MIN; below--)
		if (s->packets[below - 1].got)
			gap.from = s->packets[below - 1].time;
	for (uint64_t above = seq + 1; above <= s->given && gap.to == PR_TIME_MAX; above++)
		if (s->packets[above - 1].got)
			gap.to = s->packets[above - 1].otime;
	/* the merger knows the otimes of the ends of segments only */
	gap.from -= gap.from == PR_TIME_MIN ? 0 : T_SEGMENT;
	gap.to += gap.to == PR_TIME_MAX ? 0 : T_SEGMENT;
	return gap;
}

static inline bool
evicted_says(const struct t_query *q, const struct t_series *s, uint64_t seq)
{
	struct t_span gap = gap_of(s, seq);

	for (size_t i = 0; i < q->out->n_evicted; i++) {
		const Packrack__Evicted *e = q->out->evicted[i];

		if (e->epoch == s->epoch && e->link == s->link && seq >= e->first_seq &&
			(e->last_seq ? seq <= e->last_seq : gap.from <= e->until))
			return true;
	}
	return false;
}

/* May the packet truly have been overwritten or deleted, or the word of its loss? */
static inline bool
gone_by_order(const struct world *w, const struct t_series *s, uint64_t seq)
{
	const struct t_packet *p = &s->packets[seq - 1];
	bool any = false;

	for (unsigned i = 0; i < w->node_count; i++) {
		const struct t_node *n = &w->node[i];
		bool sent = p->copy[0].node == i + 1 || p->copy[1].node == i + 1, gone;
		bool marked = !n->troubled && !w->logs_get_lost; /* it has all MARKs */
		struct t_span gap = {p->otime - T_CURVE, p->otime + T_CURVE};

		gap = marked ? gap : gap_of(s, seq);
		gone = gap.from <= n->overwritten;
		for (size_t k = 0; k < w->deletion_count && !gone; k++)
			gone = w->deletions[k].node == n &&
			       (gap.to >= w->deletions[k].since ||
				       w->deletions[k].since == PR_TIME_MIN) &&
			       gap.from <= w->deletions[k].until;
		any |= gone;
		/* a node that kept all that it knew, and has settled it, has its own word */
		if (sent && !gone && is_sound(w, n, p))
			return false;
	}
	return any;
}

/* The answer of some node knows of the link. */
static inline bool
is_known(const struct t_query *q, const struct t_series *s)
{
	for (size_t i = 0; i < q->out->n_ledgers; i++)
		if (!strcmp(q->out->ledgers[i]->name, s->of->name))
			return true;
	return false;
}

static inline bool
settled_at_sound_nodes(const struct world *w, const struct t_packet *p)
{
	for (int i = 0; i < 2; i++)
		if (p->copy[i].node && !is_sound(w, &w->node[p->copy[i].node - 1], p))
			return false;
	return p->copy[0].node != 0;
}

static inline bool ends_stopped(
	const struct world *w, const struct t_query *q, const struct t_link *l);

/* Did a deletion at the node perhaps take the packet? Then it may have been moved to another one. */
static inline bool
perhaps_deleted(const struct world *w, const struct t_node *n, const struct t_packet *p,
	bool but_moved)
{
	for (size_t i = 0; i < w->deletion_count; i++) {
		const struct t_deletion *d = &w->deletions[i];

		if (d->node == n && p->time >= pr_time_minus(d->since, T_NEAR) &&
			p->time <= d->until + T_NEAR &&
			!(but_moved && d->to && is_sound(w, d->to, p) &&
				!perhaps_deleted(w, d->to, p, false)))
			return true;
	}
	return false;
}

/* Has a node that answers the packet for certain, or the one to which it was moved? */
static inline bool
is_stored(const struct world *w, const struct t_node *n, const struct t_packet *p)
{
	return is_sound(w, n, p) && p->id > T_ALIKE && !perhaps_deleted(w, n, p, true);
}

/* A packet that is neither in the answer nor on the list. */
static inline void
excuse(struct world *w, struct t_query *q, const struct t_series *s, uint64_t seq)
{
	const struct t_packet *p = &s->packets[seq - 1];

	for (int i = 0; i < 2; i++)
		MUST(w,
			!p->copy[i].node || p->copy[i].lost ||
				!is_stored(w, &w->node[p->copy[i].node - 1], p),
			"link %s: packet %lu of %.3f is stored, and not in the answer",
			s->of->name, (lu)seq, seconds(p->time));
	/* nobody can tell that there is such a link, or, if it was silent for 2 s, that it was started again */
	if ((q->out->n_ledgers && !is_known(q, s)) ||
		(ends_stopped(w, q, s->of) && p->otime >= s->told_until &&
			(s->told_until < clock_of_rack(s->of->rack) - T_SILENT ||
				q->failed))) {
		q->wanted--;
		return;
	}
	/* timestamps step back: what is older than the begin of its capture is of no time that is confirmed */
	if (q->open && p->time < s->begun) {
		q->wanted--;
		return;
	}
	if (gone_by_order(w, s, seq) && evicted_says(q, s, seq))
		return;
	if (p->otime > p->time + 2 * PR_NS_PER_MS) {
		q->wanted--;
		return;
	} /* the clock was set back: nobody knows the time of what is lost */
	if (q->out->pending_packets || (q->failed && !q->out->n_ledgers))
		return;
	for (size_t i = 0; i < q->out->n_unobserved; i++) {
		const Packrack__Unobserved *u = q->out->unobserved[i];

		if ((!u->name[0] || !strcmp(u->name, s->of->name)) && p->time >= u->since &&
			p->time <= u->until)
			return;
	}
	/* what a disturbed node was sent, perhaps nobody knows: then the answer must not be complete */
	if (!q->out->complete && !settled_at_sound_nodes(w, p))
		return;
	MUST(w, false,
		"link %s: packet %lu of %.3f, sent to %d%s and %d%s, is neither in the "
		"answer nor on the list",
		s->of->name, (lu)seq, seconds(p->time), p->copy[0].node - 1,
		p->copy[0].lost ? " (lost)" : "", p->copy[1].node - 1,
		p->copy[1].lost ? " (lost)" : "");
}

/* Was the link observed in all of the range? By the dispatcher's clock, if that was never set. */
static inline bool
was_observed(const struct t_query *q, const struct t_link *l)
{
	int64_t at = q->since;
	bool any = false;

	/* without a beginning the time before the first capture does not count */
	for (size_t i = 0; q->open && i < l->span_count && l->spans[0].from > at; i++)
		at = l->spans[0].from;
	for (size_t i = 0; i < l->span_count; i++)
		if (l->spans[i].from <= at && l->spans[i].to >= at) {
			at = l->spans[i].to;
			any = true;
		}
	return any && at >= q->until;
}

/*
 * Who asks for all that was recorded does not ask for the time behind a stop. That the capture was started again may not be
 * known yet.
 */
static inline bool
ends_stopped(const struct world *w, const struct t_query *q, const struct t_link *l)
{
	return q->open && q->until >= w->now - 60 * PR_NS_PER_S &&
	       (l->rack->was_stopped || l->span_count > 1);
}

/* Was a packet of the range, or so near to it, dropped before it got a seq? */
static inline bool
has_dropped(const struct world *w, const struct t_query *q, const struct t_link *l,
	int64_t near)
{
	for (size_t i = 0; i < l->drop_count; i++) {
		int64_t time = l->drops[i].time;

		if (time < q->since - near || time > q->until + near)
			continue;
		if (near)
			return true;
		/* nobody may know of the epoch, or that it was started again */
		if (!(q->open && !is_heard_of(q, l->drops[i].of)) &&
			!(ends_stopped(w, q, l) && time >= l->series->told_until))
			return true;
	}
	return false;
}

/* ---- the exit status ---- */

static const char *const t_reasons[] = {PRM_MISSING_NO_ANSWER, PRM_MISSING_CORRUPT,
	"unsaved", PRM_MISSING_ONE_OF, PRM_MISSING_DROPPED, PRM_MISSING_UNDELIVERED,
	PRM_MISSING_UNKNOWN, "switch", "log_gone", "node_kernel", "write", "node_stop",
	PRM_UNOBSERVED_BEFORE, PRM_UNOBSERVED_STOPPED, PRM_UNOBSERVED_NO_CARRIER,
	PRM_UNOBSERVED_GONE, PRM_UNOBSERVED_UNKNOWN, PRM_UNOBSERVED_NO_LINK,
	PRM_UNOBSERVED_FILE, "overwritten", "deleted", "moved", "pending", "dropped",
	"strays"};

/* Does the answer have a defect of this reason? */
static inline bool
has_reason(const Packrack__Completeness *o, const char *reason)
{
	bool any = (!strcmp(reason, "pending") && o->pending_packets) ||
		   (!strcmp(reason, "dropped") && o->dropped_packets) ||
		   (!strcmp(reason, "strays") && o->stray_packets);

	for (size_t i = 0; i < o->n_missing; i++)
		any |= !strcmp(o->missing[i]->reason, reason);
	for (size_t i = 0; i < o->n_unobserved; i++)
		any |= !strcmp(o->unobserved[i]->reason, reason);
	for (size_t i = 0; i < o->n_nodes; i++)
		any |= !o->nodes[i]->answered && !strcmp(reason, PRM_MISSING_NO_ANSWER);
	return any;
}

/* With all reasons allowed but one the status is 0 if the answer does not have that one. */
static inline void
check_status(struct world *w, const struct t_query *q)
{
	char *allow[PR_COUNT(t_reasons)];
	struct query_args args = {.allow = {allow, 0}};
	Packrack__End end = PACKRACK__END__INIT;
	struct sink sink = {.args = &args, .end = &end};
	const char *but = t_reasons[below(w, PR_COUNT(t_reasons))];

	end.completeness = q->out;
	MUST(w, (report_status(&sink) == CLI_OK) == !!q->out->complete, "the exit status");
	for (size_t i = 0; i < PR_COUNT(t_reasons); i++)
		if (strcmp(t_reasons[i], but))
			allow[args.allow.count++] = (char *)(uintptr_t)t_reasons[i];
	MUST(w, !has_reason(q->out, but) || report_status(&sink) == CLI_PARTIAL,
		"it has %s, which is not allowed, and the exit status is 0", but);
	MUST(w,
		has_reason(q->out, but) || q->out->n_evicted ||
			report_status(&sink) == CLI_OK,
		"it does not have %s, and the exit status is 3", but);
}

/* May the nodes that answer not know yet what a run of the dispatcher said of the range, or never have heard it? */
static inline bool
is_unsaid(const struct world *w, const struct t_query *q, const struct t_series *s)
{
	int64_t said = PR_TIME_MIN, end = PR_TIME_MAX;

	for (const struct t_series *next = s + 1; next < w->series + w->series_count;
		next++)
		if (next->of == s->of && next->begun < end)
			end = next->begun;
	for (size_t i = 0; i < q->out->n_ledgers; i++) {
		const Packrack__Ledger *l = q->out->ledgers[i];

		/* a first MARK that only tells that the dispatcher is heard confirms no time */
		if (l->epoch == s->epoch && l->link == s->link && l->said_until > said &&
			(l->last_seq || l->last_otime > PR_TIME_MIN))
			said = l->said_until;
	}
	/* it may step back a little */
	return q->until >= pr_time_minus(said, 20 * PR_NS_PER_MS) && q->since <= end &&
	       q->until >= pr_time_minus(s->begun, PR_NS_PER_S / 10);
}

/* May the end of the range be unconfirmed, or something near it have been dropped? */
static inline bool
may_be_partial(const struct world *w, const struct t_query *q, const struct t_link *l)
{
	if (!was_observed(q, l) || !is_known(q, l->series) || (q->open && q->link[0]))
		return true;
	for (size_t i = 0; i < w->series_count; i++)
		if (w->series[i].of == l && is_unsaid(w, q, &w->series[i]))
			return true;
	/* what was captured before the carrier was looked at; a thread stands still for up to a third of a second */
	for (size_t i = 0; i < l->span_count; i++)
		if (q->since >= l->spans[i].from &&
			q->since < l->spans[i].from + PR_NS_PER_S / 2)
			return true;
	/* the last words of a dispatcher, or before the carrier went, may not have come */
	for (size_t i = 0; i + l->observed < l->span_count; i++)
		if (q->since <= l->spans[i].to && q->until >= l->spans[i].from &&
			q->until > l->spans[i].to - PR_NS_PER_S)
			return true;
	return l->drop_count == T_DROPS || has_dropped(w, q, l, T_NEAR);
}

static inline void
check_complete(struct world *w, const struct t_query *q)
{
	bool partial = q->failed || q->got != q->wanted || q->listed ||
		       q->out->pending_packets || q->out->stray_packets;
	/* MARKs tell how old the seqs are that are gone */
	int64_t near = is_calm(w) && !w->logs_get_lost ? T_CURVE : T_PENDING;

	if (!strcmp(q->link, "foo")) {
		MUST(w,
			!q->out->complete && q->out->n_unobserved == 1 &&
				!strcmp(q->out->unobserved[0]->reason,
					PRM_UNOBSERVED_NO_LINK),
			"there is no link foo");
		return;
	}
	for (unsigned i = 0; i < w->plan.racks; i++)
		for (unsigned k = 0; k < w->plan.links; k++) {
			const struct t_link *l = &w->rack[i].link[k];

			if (q->link[0] && strcmp(q->link, l->name))
				continue;
			MUST(w,
				!q->out->complete || was_observed(q, l) ||
					ends_stopped(w, q, l) || !is_known(q, l->series),
				"it says complete, and link %s was not observed all the "
				"time",
				l->name);
			MUST(w,
				!q->out->complete || !has_dropped(w, q, l, 0) ||
					!is_known(q, l->series),
				"it says complete, and link %s has dropped a packet",
				l->name);
			if (q->out->complete && !q->open && is_known(q, l->series))
				w->promises[w->promise_count++ % T_PROMISES] =
					(struct t_promise){l, q->since, q->until};
			partial |= may_be_partial(w, q, l);
		}
	for (unsigned i = 0; i < w->node_count; i++)
		partial |= w->node[i].damaged || w->node[i].overwritten >= q->since;
	/* nobody may know on which side of the range's end a deleted packet lies */
	for (size_t i = 0; i < w->deletion_count; i++) {
		const struct t_deletion *d = &w->deletions[i];

		partial |= d->since <= q->since && d->until >= q->since - near;
		partial |= d->since <= q->until + near && d->until >= q->until;
	}
	MUST(w, q->out->complete || partial, "all is there, and it says partial");
	MUST(w, !q->out->complete || !q->out->stray_packets,
		"it says complete, and there are packets that nobody knows");
}

static inline void
check(struct world *w, struct t_query *q)
{
	int64_t oldest = PR_TIME_MAX;

	MUST(w, q->cut == q->told_cut, "%lu packets are truncated, and the nodes say %lu",
		(lu)q->cut, (lu)q->told_cut);
	for (size_t i = 0; i < q->out->n_missing; i++)
		take_missing(w, q, q->out->missing[i]);
	/* without a beginning the range begins at the oldest packet that is stored, in the order of answers */
	for (size_t i = 0; q->since == PR_TIME_MIN && i < w->series_count; i++)
		for (uint64_t seq = 1; seq <= w->series[i].given; seq++)
			if (w->series[i].packets[seq - 1].got &&
				w->series[i].packets[seq - 1].otime < oldest)
				oldest = w->series[i].packets[seq - 1].otime;
	if (q->since == PR_TIME_MIN)
		q->since = oldest;
	for (size_t i = 0; i < w->series_count; i++) {
		const struct t_series *s = &w->series[i];

		for (uint64_t seq = 1; seq <= s->given; seq++) {
			struct t_packet *p = &s->packets[seq - 1];

			if (!asks_for(q, s) || !in_range(q, p->time))
				continue;
			q->wanted++;
			q->got += p->got;
			if (!p->got && !p->listed)
				excuse(w, q, s, seq);
		}
	}
	if (!w->plan.clock && q->since < PR_TIME_MAX)
		check_complete(w, q);
	check_status(w, q);
	for (size_t i = 0; i < w->series_count; i++)
		for (uint64_t seq = 1; seq <= w->series[i].given; seq++)
			w->series[i].packets[seq - 1].got =
				w->series[i].packets[seq - 1].listed = false;
	MUST(w, !q->out->complete || q->got == q->wanted,
		"it says complete, and has %lu packets of %lu", (lu)q->got, (lu)q->wanted);
}

static inline void
ask(struct world *w, int64_t since, int64_t until, const char *link)
{
	struct t_query q = {
		.since = since, .until = until, .link = link, .open = since == PR_TIME_MIN};
	struct prm_completeness_options options = {
		.since = since, .until = until, .now = w->now, .link = link};
	struct prm_completeness *c = prm_completeness_create(&options, &w->err);

	MUST(w, c != NULL, "no completeness");
	w->err.text[0] = 0;
	ask_nodes(w, &q, c);
	w->machine = 0;
	MUST(w, prm_completeness_finish(c, &q.out, &w->err) == 0, "finish");
	say_out(w, &q);
	check(w, &q);
	w->queries++;
	w->completes += q.out->complete;
	packrack__completeness__free_unpacked(q.out, NULL);
	prm_completeness_destroy(&c);
}
