/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/fanout_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int
send_to(struct pr_fanout *f, struct leg *leg, Packrack__Envelope *env)
{
	(void)f;
	env->id = leg->id;
	return pr_rpc_send(leg->address.rpc, &leg->address.peer, env, NULL);
}

static void
leg_fail(struct pr_fanout *f, struct leg *leg, const char *why)
{
	Packrack__Cancel cancel = PACKRACK__CANCEL__INIT;
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;

	if (leg->settled)
		return;
	leg->settled = true;
	pr_completeness_failed(f->completeness, leg->index, why);
	if (!leg->remote)
		return;
	pr_remote_end(leg->remote); /* what it gave and told before is good, and counts */
	env.body_case = PACKRACK__ENVELOPE__BODY_CANCEL;
	env.cancel = &cancel;
	send_to(f, leg, &env);
}

void
pr_fanout_cancel_legs(struct pr_fanout *f)
{
	Packrack__Cancel cancel = PACKRACK__CANCEL__INIT;
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;

	env.body_case = PACKRACK__ENVELOPE__BODY_CANCEL;
	env.cancel = &cancel;
	for (size_t i = 0; i < f->leg_count; i++) {
		struct leg *leg = &f->legs[i];

		if (leg->remote && !pr_remote_ended(leg->remote)) {
			send_to(f, leg, &env);
			pr_remote_end(leg->remote);
		}
		leg->settled = true;
	}
}

/* ---- beginning ---- */

static struct leg *
leg_add(struct pr_fanout *f, const char *name, struct pr_error *err)
{
	struct leg *leg = &f->legs[f->leg_count];

	*leg = (struct leg){.index = pr_completeness_node(f->completeness, name, err)};
	if (leg->index < 0)
		return NULL;
	f->leg_count++;
	return leg;
}

static int
leg_ask(struct pr_fanout *f, struct leg *leg, const struct pr_node *node,
	const Packrack__Query *query, struct pr_error *err)
{
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;
	struct pr_source *source;

	leg->address = node->address;
	leg->id = ++*f->options.next_id;
	leg->heard = leg->moved = f->options.mono;
	leg->remote = pr_remote_create(err);
	source = leg->remote ? pr_remote_source(leg->remote, err) : NULL;
	if (!source || pr_merge_add(f->merge, source, err) < 0)
		return -1;
	env.body_case = PACKRACK__ENVELOPE__BODY_QUERY;
	env.query = (Packrack__Query *)query;
	if (send_to(f, leg, &env) < 0)
		leg_fail(f, leg, "its connection is gone");
	return 0;
}

/* What the node would tell is told for it. */
static int
leg_leave_out(struct pr_fanout *f, struct leg *leg, struct pr_route *route,
	const char *name, const char *why, struct pr_error *err)
{
	leg->settled = true;
	pr_completeness_why(f->completeness, leg->index, why, true);
	return pr_route_tell(route, name, f->completeness, leg->index, err);
}

static int
leg_begin(struct pr_fanout *f, const char *name, const struct pr_node *node,
	const Packrack__Query *query, struct pr_route *route, struct pr_error *err)
{
	struct leg *leg = leg_add(f, name, err);
	char why[PR_ROUTE_WHY_MAX] = "";

	if (!leg)
		return -1;
	if (node && pr_node_connected(node, f->options.mono)) {
		if (route && pr_route_decide(route, name, why))
			return leg_leave_out(f, leg, route, name, why, err);
		if (f->rechecking)
			snprintf(why, sizeof(why),
				"the answer seemed to lack packets, so all were");
		pr_completeness_why(f->completeness, leg->index, why, false);
		return leg_ask(f, leg, node, query, err);
	}
	if (node)
		snprintf(why, sizeof(why), "no sign of life for %lld s",
			(long long)((f->options.mono - node->heard) / 1000000000));
	leg_fail(f, leg, node ? why : "the merger knows no such node");
	return 0;
}

/*
 * The query as nodes get it: `nodes` is for mergers. Nodes can count for themselves as long as no
 * packet lies on two of them, which shows at the end (pr_fanout_recount), and without a limit, which
 * only a merge can keep.
 */
static int
ask_all(struct pr_fanout *f, bool count_at_node, struct pr_error *err)
{
	const struct pr_registry *registry = f->options.registry;
	const Packrack__Query *query = f->options.query;
	Packrack__Query copy = *query;
	size_t count = query->n_nodes ? query->n_nodes : registry->count;
	struct pr_route route;
	/* one that goes on must not miss who has nothing yet, and cannot be checked by asking again */
	bool routed = f->options.summaries && !f->rechecking && !f->follow.on;
	int rc = 0;

	copy.nodes = NULL;
	copy.n_nodes = 0;
	copy.lookups = NULL;
	copy.n_lookups = 0;
	copy.tally = f->rechecking ? NULL : query->tally; /* which was given */
	f->count_at_node = count_at_node && f->count_only && (count == 1 || !query->limit);
	copy.count_only = f->count_at_node;
	copy.follow = false;
	copy.settle = f->follow.on;
	f->legs = calloc(count ? count : 1, sizeof(*f->legs));
	if (!f->legs)
		return pr_error_set(err, "no memory for a query");
	if (routed && pr_route_begin(&route, f->options.summaries, query, f->options.mono))
		return pr_error_set(err, "no memory for a query");
	route.verdicts = f->options.verdicts;
	for (size_t i = 0; rc == 0 && i < count; i++) {
		const struct pr_node *node =
			query->n_nodes ? pr_registry_find(registry, query->nodes[i])
				       : registry->nodes[i];

		rc = leg_begin(f, node ? node->hello->name : query->nodes[i], node, &copy,
			routed ? &route : NULL, err);
	}
	if (routed) {
		f->asked = route.asked;
		f->left_out = route.left_out;
		pr_route_end(&route);
	}
	return rc;
}

static int
check_query(const struct pr_fanout_options *o, struct pr_error *err)
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

static Packrack__Query *
query_copy(const Packrack__Query *query)
{
	size_t len = packrack__query__get_packed_size(query);
	uint8_t *buf = malloc(len ? len : 1);
	Packrack__Query *copy;

	if (!buf)
		return NULL;
	packrack__query__pack(query, buf);
	copy = packrack__query__unpack(NULL, len, buf);
	free(buf);
	return copy;
}

/* Are some nodes left out by name? */
static bool
asks_a_part(const Packrack__Query *q, const struct pr_registry *registry)
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
allocate(struct pr_fanout *f, struct pr_error *err)
{
	const Packrack__Query *q = f->options.query;
	struct pr_completeness_options c = {.since = q->since,
		.until = q->until,
		.now = f->options.real + (f->mono - f->began),
		.link = q->link,
		.part = asks_a_part(q, f->options.registry)};

	f->completeness = pr_completeness_create(&c, err);
	f->merge = pr_merge_create(err);
	return f->completeness && f->merge ? 0 : -1;
}

static void
release(struct pr_fanout *f)
{
	pr_source_destroy(&f->merge);
	for (size_t i = 0; i < f->leg_count; i++)
		pr_remote_destroy(&f->legs[i].remote);
	pr_completeness_destroy(&f->completeness);
	free(f->legs);
	f->legs = NULL;
	f->leg_count = 0;
}

int
pr_fanout_ask_again(struct pr_fanout *f, struct pr_error *err)
{
	release(f);
	f->merged = false;
	f->has_kept = false;
	f->options.mono = f->mono;
	if (allocate(f, err) < 0 || ask_all(f, false, err) < 0)
		return -1;
	pr_fanout_grant(f);
	return 0;
}

int
pr_fanout_recount(struct pr_fanout *f, struct pr_error *err)
{
	f->matched = 0;
	packrack__end__init(&f->sums);
	return pr_fanout_ask_again(f, err);
}

int
pr_fanout_recheck(struct pr_fanout *f, struct pr_error *err)
{
	release(f);
	f->rechecking = f->count_only = true;
	f->given = f->matched;
	f->matched = 0;
	f->merged = f->limited = f->has_kept = false;
	f->options.mono = f->mono;
	if (allocate(f, err) < 0 || ask_all(f, true, err) < 0)
		return -1;
	pr_fanout_grant(f);
	return 0;
}

static struct pr_fanout *
make(const struct pr_fanout_options *options)
{
	struct pr_fanout *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->options = *options;
	f->options.query = query_copy(options->query);
	if (!f->options.silent_ns)
		f->options.silent_ns = PR_FANOUT_SILENT_NS;
	f->mono = f->began = options->mono;
	packrack__end__init(&f->sums);
	f->limit = options->query->limit;
	f->count_only = options->query->count_only;
	f->room = PR_FANOUT_BATCH;
	f->buf = malloc(f->room);
	if (options->query->tally)
		f->tally = pr_tally_create(options->query->tally->step > 0,
			options->query->tally->by_packets, 0, NULL);
	if (!f->options.query || !f->buf || (options->query->tally && !f->tally))
		pr_fanout_destroy(&f);
	return f;
}

struct pr_fanout *
pr_fanout_create(const struct pr_fanout_options *options, struct pr_error *err)
{
	struct pr_fanout *f;

	if (check_query(options, err) < 0)
		return NULL;
	f = make(options);
	if (!f) {
		pr_error_set(err, "no memory for a query");
		return NULL;
	}
	pr_fanout_follow_begin(f);
	if (allocate(f, err) < 0 || ask_all(f, !f->follow.on, err) < 0) {
		pr_fanout_destroy(&f);
		return NULL;
	}
	f->options.verdicts = NULL; /* they go; who asks again asks more nodes */
	pr_segment_begin(&f->builder, f->buf, f->room, PR_SEGMENT_MIXED);
	pr_fanout_grant(f);
	return f;
}

void
pr_fanout_destroy(struct pr_fanout **fp)
{
	struct pr_fanout *f = *fp;

	*fp = NULL;
	if (!f)
		return;
	if (!f->done)
		pr_fanout_cancel_legs(f);
	release(f);
	pr_tally_destroy(&f->tally);
	pr_tally_part_free(&f->part);
	pr_fanout_follow_free(f);
	if (f->options.query)
		packrack__query__free_unpacked((Packrack__Query *)f->options.query, NULL);
	free(f->buf);
	free(f);
}

/* ---- credit ---- */

static void
grant(struct pr_fanout *f, struct leg *leg, uint32_t window)
{
	Packrack__Credit credit = PACKRACK__CREDIT__INIT;
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;
	bool owed = pr_remote_owed(leg->remote);

	credit.batches = pr_remote_take_credit(leg->remote, window);
	if (!credit.batches)
		return;
	if (!owed)
		leg->moved =
			f->mono; /* it cannot be blamed for the time that nothing was asked */
	env.body_case = PACKRACK__ENVELOPE__BODY_CREDIT;
	env.credit = &credit;
	if (send_to(f, leg, &env) < 0)
		leg_fail(f, leg, "its connection is gone");
}

static bool
leg_live(const struct leg *leg)
{
	return leg->remote && !pr_remote_ended(leg->remote);
}

/*
 * A node whose packets all wait gets no more than the rest; one that has run far ahead of the
 * slowest waits for it, as what it told must be kept until the slowest has got there.
 */
static uint32_t
window_of(const struct pr_fanout *f, const struct leg *leg, size_t queued)
{
	if (pr_completeness_bytes(f->completeness) > PR_FANOUT_STRETCHES_MAX &&
		!pr_completeness_slowest(f->completeness, leg->index))
		return 0;
	return queued > PR_FANOUT_QUEUED_MAX ? 1 : PR_REMOTE_WINDOW;
}

void
pr_fanout_grant(struct pr_fanout *f)
{
	size_t queued = 0;
	bool owed = false;

	for (size_t i = 0; i < f->leg_count; i++) {
		struct leg *leg = &f->legs[i];

		if (leg->remote && pr_remote_error(leg->remote))
			leg_fail(f, leg, pr_remote_error(leg->remote));
		if (leg->remote)
			queued += pr_remote_bytes(leg->remote);
	}
	for (size_t i = 0; i < f->leg_count && !f->done; i++)
		if (leg_live(&f->legs[i])) {
			grant(f, &f->legs[i], window_of(f, &f->legs[i], queued));
			owed |= pr_remote_owed(f->legs[i].remote) > 0;
		}
	/* all wait for each other: whoever has nothing at hand must be asked */
	for (size_t i = 0; i < f->leg_count && !f->done && !owed; i++)
		if (leg_live(&f->legs[i]) && pr_remote_empty(f->legs[i].remote))
			grant(f, &f->legs[i], 1);
}

/* ---- what nodes say ---- */

static void
on_batch(struct pr_fanout *f, struct leg *leg, Packrack__Batch *batch)
{
	struct pr_error err = {""};

	leg->moved = f->mono;
	f->bytes += batch->packets.len;
	if (batch->tally && f->tally && pr_tally_take(f->tally, batch->tally, &err) < 0) {
		pr_fanout_failure(f, err.text, false);
		return;
	}
	if (pr_remote_batch(leg->remote, batch, &err) < 0 ||
		pr_completeness_batch(f->completeness, leg->index, batch, &err) < 0)
		leg_fail(f, leg, err.text);
}

static void
on_end(struct pr_fanout *f, struct leg *leg, const Packrack__End *end)
{
	struct pr_error err = {""};

	if (leg->settled)
		return;
	if (end->cancelled) {
		leg_fail(f, leg, "it cancelled the query");
		return;
	}
	if (pr_completeness_end(f->completeness, leg->index, end, &err) < 0) {
		leg_fail(f, leg, err.text);
		return;
	}
	pr_remote_end(leg->remote);
	/* not settled yet: its last batches may still turn out bad while they are merged */
	f->sums.scanned_packets += end->scanned_packets;
	f->sums.scanned_bytes += end->scanned_bytes;
	f->sums.scanned_segments += end->scanned_segments;
	f->sums.skipped_segments += end->skipped_segments;
	f->sums.skipped_level1 += end->skipped_level1;
	f->sums.skipped_level2 += end->skipped_level2;
	f->sums.skipped_linktype += end->skipped_linktype;
	f->sums.skipped_bytes += end->skipped_bytes;
	f->sums.index_reads += end->index_reads;
	f->sums.index_bytes += end->index_bytes;
	f->sums.index_damaged += end->index_damaged;
	f->sums.counted_packets += end->counted_packets;
	f->sums.corrupt_records += end->corrupt_records;
	f->sums.strays += end->strays;
	if (f->count_at_node) {
		f->matched += end->matched;
		f->sums.related += end->related;
	}
	if (f->count_at_node && end->limit_reached) {
		f->limited = true;
		pr_completeness_cut(f->completeness, INT64_MAX);
	}
}

static struct leg *
leg_find(struct pr_fanout *f, const struct pr_address *from, uint64_t id)
{
	for (size_t i = 0; i < f->leg_count; i++)
		if (f->legs[i].remote && f->legs[i].id == id &&
			pr_address_equal(&f->legs[i].address, from))
			return &f->legs[i];
	return NULL;
}

bool
pr_fanout_from_node(struct pr_fanout *f, const struct pr_address *from,
	const Packrack__Envelope *env, int64_t mono)
{
	struct leg *leg = leg_find(f, from, env->id);

	if (!leg)
		return false;
	f->mono = mono;
	if (f->done || pr_remote_ended(leg->remote))
		return true;
	leg->heard = mono;
	if (env->body_case == PACKRACK__ENVELOPE__BODY_BATCH)
		on_batch(f, leg, env->batch);
	else if (env->body_case == PACKRACK__ENVELOPE__BODY_END)
		on_end(f, leg, env->end);
	else if (env->body_case != PACKRACK__ENVELOPE__BODY_FAILURE)
		leg_fail(f, leg, "it sent what is no answer");
	else if (env->failure->bad_request)
		pr_fanout_failure(f, env->failure->text, true);
	else
		leg_fail(f, leg, env->failure->text[0] ? env->failure->text : "it failed");
	if (!f->done)
		pr_fanout_pump(f, false);
	return true;
}

void
pr_fanout_lost(struct pr_fanout *f, const struct pr_address *node, const char *why)
{
	for (size_t i = 0; i < f->leg_count; i++)
		if (leg_live(&f->legs[i]) && pr_address_equal(&f->legs[i].address, node))
			leg_fail(f, &f->legs[i], why);
	if (!f->done)
		pr_fanout_pump(f, false);
}

static void
check_leg(struct pr_fanout *f, struct leg *leg)
{
	const struct pr_node *node = NULL;
	int64_t heard = leg->heard;
	char why[80];

	for (size_t i = 0; i < f->options.registry->count; i++)
		if (pr_address_equal(
			    &f->options.registry->nodes[i]->address, &leg->address))
			node = f->options.registry->nodes[i];
	if (node && node->heard > heard)
		heard = node->heard;
	if (f->mono - heard > f->options.silent_ns) {
		snprintf(why, sizeof(why), "no sign of life for %lld s",
			(long long)((f->mono - heard) / 1000000000));
		leg_fail(f, leg, why);
	} else if (f->mono - leg->moved > PR_FANOUT_STUCK_NS) {
		leg_fail(f, leg,
			"it lives, and yet sent nothing of what it owes for two minutes");
	} else if (!pr_rpc_probe(leg->address.rpc, &leg->address.peer)) {
		leg_fail(f, leg, "its connection is gone");
	}
}

void
pr_fanout_tick(struct pr_fanout *f, int64_t mono)
{
	f->mono = mono;
	for (size_t i = 0; i < f->leg_count; i++)
		if (leg_live(&f->legs[i]) && pr_remote_owed(f->legs[i].remote))
			check_leg(f, &f->legs[i]);
	if (!f->done)
		pr_fanout_pump(f, true);
	if (!f->done && f->follow.idle)
		pr_fanout_follow_tick(f);
}

bool
pr_fanout_is_client(const struct pr_fanout *f, const struct pr_address *from, uint64_t id)
{
	return f->options.id == id && pr_address_equal(&f->options.client, from);
}

bool
pr_fanout_done(const struct pr_fanout *f)
{
	return f->done;
}

uint64_t
pr_fanout_matched(const struct pr_fanout *f)
{
	return f->matched;
}

void
pr_fanout_routed(const struct pr_fanout *f, uint64_t *asked, uint64_t *left_out)
{
	*asked = f->asked;
	*left_out = f->left_out;
}

uint64_t
pr_fanout_number(const struct pr_fanout *f)
{
	return f->options.number;
}

void
pr_fanout_report(const struct pr_fanout *f, Packrack__RunningQuery *out)
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
		out->nodes_left += leg_live(&f->legs[i]);
	}
}
