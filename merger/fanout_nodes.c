/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/fanout_internal.h"

#include "proto/rpc/message.h"

/* With nodes that were asked: credit for their batches, and what they say. */

/* ---- credit ---- */

static void
grant(struct prm_fanout *f, struct leg *leg, uint32_t window)
{
	Packrack__Credit credit = PACKRACK__CREDIT__INIT;
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;
	bool owed = prm_remote_owed(leg->remote);

	credit.batches = prm_remote_take_credit(leg->remote, window);
	if (!credit.batches)
		return;
	if (!owed)
		leg->moved =
			f->mono; /* it cannot be blamed for the time that nothing was asked */
	env.body_case = PACKRACK__ENVELOPE__BODY_CREDIT;
	env.credit = &credit;
	if (prm_fanout_send(leg, &env) < 0)
		prm_fanout_fail(f, leg, "its connection is gone");
}

bool
prm_fanout_live(const struct leg *leg)
{
	return leg->remote && !prm_remote_ended(leg->remote);
}

/*
 * A node whose packets all wait gets no more than the rest; one that has run far ahead of the
 * slowest waits for it, as what it told must be kept until the slowest has got there.
 */
static uint32_t
window_of(const struct prm_fanout *f, const struct leg *leg, size_t queued)
{
	if (prm_completeness_bytes(f->completeness) > PRM_FANOUT_STRETCHES_MAX &&
		!prm_completeness_slowest(f->completeness, leg->index))
		return 0;
	return queued > PRM_FANOUT_QUEUED_MAX ? 1 : PRM_REMOTE_WINDOW;
}

void
prm_fanout_grant(struct prm_fanout *f)
{
	size_t queued = 0;
	bool owed = false;

	for (size_t i = 0; i < f->leg_count; i++) {
		struct leg *leg = &f->legs[i];

		if (leg->remote && prm_remote_error(leg->remote))
			prm_fanout_fail(f, leg, prm_remote_error(leg->remote));
		if (leg->remote)
			queued += prm_remote_bytes(leg->remote);
	}
	for (size_t i = 0; i < f->leg_count && !f->done; i++)
		if (prm_fanout_live(&f->legs[i])) {
			grant(f, &f->legs[i], window_of(f, &f->legs[i], queued));
			owed |= prm_remote_owed(f->legs[i].remote) > 0;
		}
	/* all wait for each other: whoever has nothing at hand must be asked */
	for (size_t i = 0; i < f->leg_count && !f->done && !owed; i++)
		if (prm_fanout_live(&f->legs[i]) && prm_remote_empty(f->legs[i].remote))
			grant(f, &f->legs[i], 1);
}

/* ---- what nodes say ---- */

static void
on_batch(struct prm_fanout *f, struct leg *leg, Packrack__Batch *batch)
{
	struct pr_error err = {""};

	leg->moved = f->mono;
	f->bytes += batch->packets.len;
	if (batch->tally && f->tally && pr_tally_take(f->tally, batch->tally, &err) < 0) {
		prm_fanout_failure(f, err.text, false);
		return;
	}
	if (prm_remote_batch(leg->remote, batch, &err) < 0 ||
		prm_completeness_batch(f->completeness, leg->index, batch, &err) < 0)
		prm_fanout_fail(f, leg, err.text);
}

static void
on_end(struct prm_fanout *f, struct leg *leg, const Packrack__End *end)
{
	struct pr_error err = {""};

	if (leg->settled)
		return;
	if (end->cancelled) {
		prm_fanout_fail(f, leg, "it cancelled the query");
		return;
	}
	if (prm_completeness_end(f->completeness, leg->index, end, &err) < 0) {
		prm_fanout_fail(f, leg, err.text);
		return;
	}
	prm_remote_end(leg->remote);
	/* not settled yet: its last batches may still turn out bad while they are merged */
	pr_message_add_numbers(&f->sums.base, &end->base);
	if (f->count_at_node) {
		f->matched += end->matched;
		f->sums.related += end->related;
	}
	if (f->count_at_node && end->limit_reached) {
		f->limited = true;
		prm_completeness_cut(f->completeness, INT64_MAX);
	}
}

static struct leg *
leg_find(struct prm_fanout *f, const struct prm_address *from, uint64_t id)
{
	for (size_t i = 0; i < f->leg_count; i++)
		if (f->legs[i].remote && f->legs[i].id == id &&
			prm_address_equal(&f->legs[i].address, from))
			return &f->legs[i];
	return NULL;
}

bool
prm_fanout_from_node(struct prm_fanout *f, const struct prm_address *from,
	const Packrack__Envelope *env, int64_t mono)
{
	struct leg *leg = leg_find(f, from, env->id);

	if (!leg)
		return false;
	f->mono = mono;
	if (f->done || prm_remote_ended(leg->remote))
		return true;
	leg->heard = mono;
	if (env->body_case == PACKRACK__ENVELOPE__BODY_BATCH)
		on_batch(f, leg, env->batch);
	else if (env->body_case == PACKRACK__ENVELOPE__BODY_END)
		on_end(f, leg, env->end);
	else if (env->body_case != PACKRACK__ENVELOPE__BODY_FAILURE)
		prm_fanout_fail(f, leg, "it sent what is no answer");
	else if (env->failure->bad_request)
		prm_fanout_failure(f, env->failure->text, true);
	else
		prm_fanout_fail(
			f, leg, env->failure->text[0] ? env->failure->text : "it failed");
	if (!f->done)
		prm_fanout_pump(f, false);
	return true;
}

void
prm_fanout_lost(struct prm_fanout *f, const struct prm_address *node, const char *why)
{
	for (size_t i = 0; i < f->leg_count; i++)
		if (prm_fanout_live(&f->legs[i]) &&
			prm_address_equal(&f->legs[i].address, node))
			prm_fanout_fail(f, &f->legs[i], why);
	if (!f->done)
		prm_fanout_pump(f, false);
}
