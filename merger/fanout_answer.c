/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/fanout_internal.h"

#include <stdlib.h>

/* What goes to the client. */

static void
send_client(struct prm_fanout *f, Packrack__Envelope *env)
{
	env->id = f->options.id;
	if (f->options.deliver ? f->options.deliver(f->options.deliver_arg, env) == 0
			       : pr_rpc_send(f->options.client.rpc, &f->options.client.peer,
					 env, NULL) == 0)
		return;
	/* within its credit a queue cannot be full: the client is gone */
	f->done = true;
	prm_fanout_cancel_legs(f);
}

static void
send_one(struct prm_fanout *f, Packrack__Batch *batch)
{
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;

	env.body_case = PACKRACK__ENVELOPE__BODY_BATCH;
	env.batch = batch;
	f->credit--;
	send_client(f, &env);
}

static void
send_batch(struct prm_fanout *f)
{
	Packrack__Batch batch = PACKRACK__BATCH__INIT;

	batch.packets.data = f->buf;
	batch.packets.len = f->sealed_len;
	f->sealed = false;
	send_one(f, &batch);
	pr_segment_begin(&f->builder, f->buf, f->room, PR_SEGMENT_MIXED);
}

static void
seal(struct prm_fanout *f)
{
	f->sealed_len = pr_segment_seal(&f->builder);
	f->sealed = f->sealed_len > 0;
	if (f->sealed && f->credit)
		send_batch(f);
}

/* A packet longer than a batch gets one of its own size. */
static bool
make_room(struct prm_fanout *f, const struct pr_packet *p)
{
	size_t room = PR_SEGMENT_HEADER + pr_segment_cost(p->caplen) + 64;
	uint8_t *grown;

	if (room <= f->room)
		return true;
	grown = room < PR_RPC_MESSAGE_MAX - 1024 ? realloc(f->buf, room) : NULL;
	if (!grown)
		return false;
	f->buf = grown;
	f->room = room;
	pr_segment_begin(&f->builder, f->buf, f->room, PR_SEGMENT_MIXED);
	return true;
}

/* false: it must be kept until the batch before it has gone. */
static bool
add(struct prm_fanout *f, const struct pr_packet *p)
{
	if (f->sealed)
		return false;
	if (pr_segment_add(&f->builder, p))
		return true;
	seal(f);
	if (f->sealed)
		return false;
	if (f->done || pr_segment_add(&f->builder, p))
		return true;
	if (!make_room(f, p) || !pr_segment_add(&f->builder, p))
		prm_fanout_failure(f, "a packet is longer than a message can be", false);
	return true;
}

/* Counts a packet; false: the limit is reached. */
static bool
take(struct prm_fanout *f, const struct pr_packet *p)
{
	f->matched++;
	f->sums.related += (p->flags & PR_PACKET_RELATED) != 0;
	if (!f->limit || f->matched < f->limit)
		return true;
	prm_completeness_cut(f->completeness, p->otime);
	f->limited = true;
	return false;
}

/* What the merge gives next, past what says only how far nodes are. */
static int
next(struct prm_fanout *f, struct pr_packet *p)
{
	int got;

	do
		got = pr_source_next(f->merge, p, NULL);
	while (got == PR_SOURCE_PACKET && p->flags & PRM_REMOTE_NOTHING);
	return got;
}

/* What nodes have counted goes to the client when they are all through; true: it has all of it. */
static bool
give_tally(struct prm_fanout *f)
{
	Packrack__Batch batch = PACKRACK__BATCH__INIT;
	struct pr_error err = {""};
	int rc;

	if (!f->tally)
		return true;
	if (!f->tally_at && f->options.query->tally->best)
		pr_tally_cut(f->tally, f->options.query->tally->best);
	while (f->credit && !f->done) {
		rc = pr_tally_next_part(f->tally, &f->tally_at, &f->part, &err);
		if (rc == 0)
			return true;
		if (rc < 0) {
			prm_fanout_failure(f, err.text, false);
			return false;
		}
		batch.tally = &f->part.message;
		send_one(f, &batch);
	}
	return false;
}

static void
end_or_wait(struct prm_fanout *f, int got, bool flush)
{
	if (got == PR_SOURCE_ERROR) {
		prm_fanout_failure(f, "merging failed", false);
		return;
	}
	if (got == PR_SOURCE_END)
		f->merged = true;
	if (!f->sealed && (flush || f->merged))
		seal(f);
	if (f->merged && !f->sealed && !f->done && give_tally(f))
		prm_fanout_finish(f, false);
}

static void
merge_on(struct prm_fanout *f, bool flush)
{
	struct pr_packet p;
	int got = PR_SOURCE_PACKET;

	while (!f->done && !f->merged) {
		if (f->has_kept)
			p = f->kept;
		else
			got = next(f, &p);
		if (got != PR_SOURCE_PACKET)
			break;
		f->has_kept = !f->count_only && !add(f, &p);
		f->kept = p;
		if (f->has_kept)
			return; /* no credit */
		if (!f->done && !take(f, &p)) {
			f->merged = true;
			got = PR_SOURCE_END;
		}
	}
	if (!f->done)
		end_or_wait(f, f->merged ? PR_SOURCE_END : got, flush);
}

void
prm_fanout_pump(struct prm_fanout *f, bool flush)
{
	if (f->sealed && f->credit)
		send_batch(f);
	if (!f->done && !f->follow.idle)
		merge_on(f, flush);
	if (!f->done && !f->follow.idle)
		prm_fanout_grant(f);
}

void
prm_fanout_credit(struct prm_fanout *f, uint32_t batches)
{
	f->credit += batches < 1024 ? batches : 1024;
	if (f->credit > 1024)
		f->credit = 1024;
	if (!f->done)
		prm_fanout_pump(f, false);
}

/* ---- the end ---- */

/* An end that fits into no message says less, rather than nothing. */
static void
send_end(struct prm_fanout *f, Packrack__Envelope *env)
{
	Packrack__Completeness *c = env->end->completeness;

	if (c && packrack__envelope__get_packed_size(env) > PR_RPC_MESSAGE_MAX) {
		Packrack__Completeness less = *c;

		less.n_missing = less.n_missing > 1000 ? 1000 : less.n_missing;
		less.n_ledgers = less.n_ledgers > 1000 ? 1000 : less.n_ledgers;
		less.n_evicted = less.n_evicted > 1000 ? 1000 : less.n_evicted;
		env->end->completeness = &less;
		send_client(f, env);
		env->end->completeness = c;
		return;
	}
	send_client(f, env);
}

/* Nodes have counted, and some packets lie on two of them: only a merge tells them apart. */
static bool
counted_twice(const struct prm_fanout *f, bool cancelled)
{
	return f->count_at_node && !cancelled && f->leg_count > 1 &&
	       prm_completeness_doubles(f->completeness);
}

/* Who was not asked may hold, or know, what the answer seems to lack. */
static bool
needs_recheck(const struct prm_fanout *f, bool cancelled)
{
	const Packrack__Completeness *c = f->sums.completeness;

	return f->left_out && !f->rechecking && !cancelled &&
	       (c->missing_packets || c->pending_packets);
}

/* What came to the nodes after they had told is not in the answer, and the answer says so. */
static void
settle_recheck(struct prm_fanout *f)
{
	Packrack__Completeness *c = f->sums.completeness;

	if (!f->rechecking)
		return;
	if (f->matched > f->given) {
		c->pending_packets += f->matched - f->given;
		c->complete = false;
	}
	f->matched = f->given;
}

void
prm_fanout_finish(struct prm_fanout *f, bool cancelled)
{
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;
	struct pr_error err = {""};

	for (size_t i = 0; i < f->leg_count; i++)
		if (f->legs[i].remote && prm_remote_error(f->legs[i].remote))
			prm_completeness_failed(f->completeness, f->legs[i].index,
				prm_remote_error(f->legs[i].remote));
	prm_fanout_cancel_legs(f);
	if (!f->follow.idle && /* else that has been done */
		prm_completeness_finish(f->completeness, &f->sums.completeness, &err) < 0) {
		prm_fanout_failure(f, err.text, false);
		return;
	}
	f->sums.counted_twice = f->tally && counted_twice(f, cancelled);
	if (!f->tally && counted_twice(f, cancelled)) {
		packrack__completeness__free_unpacked(f->sums.completeness, NULL);
		f->sums.completeness = NULL;
		if (prm_fanout_recount(f, &err) < 0)
			prm_fanout_failure(f, err.text, false);
		return;
	}
	if (f->follow.on && !cancelled && !f->limited && prm_fanout_follow_round(f))
		return;
	prm_fanout_follow_sum(f);
	if (needs_recheck(f, cancelled)) {
		packrack__completeness__free_unpacked(f->sums.completeness, NULL);
		f->sums.completeness = NULL;
		if (prm_fanout_recheck(f, &err) < 0)
			prm_fanout_failure(f, err.text, false);
		return;
	}
	settle_recheck(f);
	f->sums.matched = f->matched;
	/* who follows ends so, unless it was somebody else's wish */
	f->sums.cancelled = cancelled && (!f->follow.on || f->broken_off);
	f->sums.limit_reached = f->limited;
	env.body_case = PACKRACK__ENVELOPE__BODY_END;
	env.end = &f->sums;
	f->done = true;
	send_end(f, &env);
	if (f->sums.completeness)
		packrack__completeness__free_unpacked(f->sums.completeness, NULL);
	f->sums.completeness = NULL;
}

void
prm_fanout_failure(struct prm_fanout *f, const char *text, bool bad_request)
{
	Packrack__Failure failure = PACKRACK__FAILURE__INIT;
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;

	failure.text = (char *)text;
	failure.bad_request = bad_request;
	env.body_case = PACKRACK__ENVELOPE__BODY_FAILURE;
	env.failure = &failure;
	f->done = true;
	prm_fanout_cancel_legs(f);
	send_client(f, &env);
}

void
prm_fanout_break_off(struct prm_fanout *f)
{
	f->broken_off = true;
	prm_fanout_cancel(f);
}

void
prm_fanout_cancel(struct prm_fanout *f)
{
	if (f->done)
		return;
	prm_completeness_cut(f->completeness, f->matched ? f->kept.otime : INT64_MIN);
	prm_fanout_finish(f, true);
}

void
prm_fanout_stop(struct prm_fanout *f, const char *why)
{
	if (!f->done)
		prm_fanout_failure(f, why, false);
}
