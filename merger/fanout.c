/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/fanout_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int
check_query(const struct prm_fanout_options *o, struct pr_error *err)
{
	const Packrack__Query *q = o->query;

	if (q->since > q->until)
		return pr_error_set(err, "the time range ends before it begins");
	if (q->tally && (!q->count_only || q->limit || q->follow))
		return pr_error_set(
			err, "a count by groups gives no packets and has no limit");
	if (!o->registry->count && !q->n_nodes)
		return pr_error_set(err,
			"no node has reported to this merger yet: are the indexers "
			"running, and is their --merger this one?");
	for (size_t i = 0; i < q->n_nodes; i++)
		for (size_t j = 0; j < i; j++)
			if (!strcmp(q->nodes[i], q->nodes[j]))
				return pr_error_set(
					err, "node %s is named twice", q->nodes[i]);
	return 0;
}

/* Are some nodes left out by name? */
static bool
asks_a_part(const Packrack__Query *q, const struct prm_registry *registry)
{
	for (size_t i = 0; q->n_nodes && i < registry->count; i++) {
		size_t j = 0;

		while (j < q->n_nodes &&
			strcmp(q->nodes[j], registry->nodes[i]->hello->name) != 0)
			j++;
		if (j == q->n_nodes)
			return true;
	}
	return false;
}

/* What one round of asking needs. */
static int
allocate(struct prm_fanout *f, struct pr_error *err)
{
	const Packrack__Query *q = f->options.query;
	struct prm_completeness_options c = {.since = q->since,
		.until = q->until,
		.now = f->options.real + (f->mono - f->began),
		.link = q->link,
		.part = asks_a_part(q, f->options.registry)};

	f->completeness = prm_completeness_create(&c, err);
	f->merge = pr_merge_create(err);
	return f->completeness && f->merge ? 0 : -1;
}

static void
release(struct prm_fanout *f)
{
	pr_source_destroy(&f->merge);
	for (size_t i = 0; i < f->leg_count; i++)
		prm_remote_destroy(&f->legs[i].remote);
	prm_completeness_destroy(&f->completeness);
	free(f->legs);
	f->legs = NULL;
	f->leg_count = 0;
}

int
prm_fanout_ask_again(struct prm_fanout *f, struct pr_error *err)
{
	release(f);
	f->merged = false;
	f->has_kept = false;
	f->options.mono = f->mono;
	if (allocate(f, err) < 0 || prm_fanout_ask_all(f, false, err) < 0)
		return -1;
	prm_fanout_grant(f);
	return 0;
}

int
prm_fanout_recount(struct prm_fanout *f, struct pr_error *err)
{
	f->matched = 0;
	packrack__end__init(&f->sums);
	return prm_fanout_ask_again(f, err);
}

int
prm_fanout_recheck(struct prm_fanout *f, struct pr_error *err)
{
	release(f);
	f->rechecking = f->count_only = true;
	f->given = f->matched;
	f->matched = 0;
	f->merged = f->limited = f->has_kept = false;
	f->options.mono = f->mono;
	if (allocate(f, err) < 0 || prm_fanout_ask_all(f, true, err) < 0)
		return -1;
	prm_fanout_grant(f);
	return 0;
}

static struct prm_fanout *
make(const struct prm_fanout_options *options)
{
	struct prm_fanout *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->options = *options;
	f->options.query = pr_message_copy(&options->query->base);
	if (!f->options.silent_ns)
		f->options.silent_ns = PRM_FANOUT_SILENT_NS;
	f->mono = f->began = options->mono;
	packrack__end__init(&f->sums);
	f->limit = options->query->limit;
	f->count_only = options->query->count_only;
	f->room = PRM_FANOUT_BATCH;
	f->buf = malloc(f->room);
	if (options->query->tally)
		f->tally = pr_tally_create(options->query->tally->step > 0,
			options->query->tally->by_packets, 0, NULL);
	if (!f->options.query || !f->buf || (options->query->tally && !f->tally))
		prm_fanout_destroy(&f);
	return f;
}

struct prm_fanout *
prm_fanout_create(const struct prm_fanout_options *options, struct pr_error *err)
{
	struct prm_fanout *f;

	if (check_query(options, err) < 0)
		return NULL;
	f = make(options);
	if (!f) {
		pr_error_set(err, "no memory for a query");
		return NULL;
	}
	prm_fanout_follow_begin(f);
	if (allocate(f, err) < 0 || prm_fanout_ask_all(f, !f->follow.on, err) < 0) {
		prm_fanout_destroy(&f);
		return NULL;
	}
	f->options.verdicts = NULL; /* they go; who asks again asks more nodes */
	pr_segment_begin(&f->builder, f->buf, f->room, PR_SEGMENT_MIXED);
	prm_fanout_grant(f);
	return f;
}

void
prm_fanout_destroy(struct prm_fanout **fp)
{
	struct prm_fanout *f = *fp;

	*fp = NULL;
	if (!f)
		return;
	if (!f->done)
		prm_fanout_cancel_legs(f);
	release(f);
	pr_tally_destroy(&f->tally);
	pr_tally_part_free(&f->part);
	prm_fanout_follow_free(f);
	if (f->options.query)
		packrack__query__free_unpacked((Packrack__Query *)f->options.query, NULL);
	free(f->buf);
	free(f);
}

static void
check_leg(struct prm_fanout *f, struct leg *leg)
{
	const struct prm_node *node = NULL;
	int64_t heard = leg->heard;
	char why[80];

	for (size_t i = 0; i < f->options.registry->count; i++)
		if (prm_address_equal(
			    &f->options.registry->nodes[i]->address, &leg->address))
			node = f->options.registry->nodes[i];
	if (node && node->heard > heard)
		heard = node->heard;
	if (f->mono - heard > f->options.silent_ns) {
		snprintf(why, sizeof(why), "no sign of life for %lld s",
			(long long)((f->mono - heard) / 1000000000));
		prm_fanout_fail(f, leg, why);
	} else if (f->mono - leg->moved > PRM_FANOUT_STUCK_NS) {
		prm_fanout_fail(f, leg,
			"it lives, and yet sent nothing of what it owes for two minutes");
	} else if (!pr_rpc_probe(leg->address.rpc, &leg->address.peer)) {
		prm_fanout_fail(f, leg, "its connection is gone");
	}
}

void
prm_fanout_tick(struct prm_fanout *f, int64_t mono)
{
	f->mono = mono;
	for (size_t i = 0; i < f->leg_count; i++)
		if (prm_fanout_live(&f->legs[i]) && prm_remote_owed(f->legs[i].remote))
			check_leg(f, &f->legs[i]);
	if (!f->done)
		prm_fanout_pump(f, true);
	if (!f->done && f->follow.idle)
		prm_fanout_follow_tick(f);
}

bool
prm_fanout_is_client(
	const struct prm_fanout *f, const struct prm_address *from, uint64_t id)
{
	return f->options.id == id && prm_address_equal(&f->options.client, from);
}

bool
prm_fanout_done(const struct prm_fanout *f)
{
	return f->done;
}

uint64_t
prm_fanout_matched(const struct prm_fanout *f)
{
	return f->matched;
}

void
prm_fanout_routed(const struct prm_fanout *f, uint64_t *asked, uint64_t *left_out)
{
	*asked = f->asked;
	*left_out = f->left_out;
}

uint64_t
prm_fanout_number(const struct prm_fanout *f)
{
	return f->options.number;
}

void
prm_fanout_report(const struct prm_fanout *f, Packrack__RunningQuery *out)
{
	packrack__running_query__init(out);
	out->number = f->options.number;
	out->user = (char *)f->options.client.peer.user;
	out->text = f->options.query->text;
	out->started = f->options.real;
	out->matched = f->matched;
	out->bytes = f->bytes;
	for (size_t i = 0; i < f->leg_count; i++) {
		out->nodes += f->legs[i].remote != NULL;
		out->nodes_left += prm_fanout_live(&f->legs[i]);
	}
}
