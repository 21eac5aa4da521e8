/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <check.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "merger/server.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/loop.h"
#include "proto/wire/segment.h"

/* A merger, nodes that do as they are told, and a client, all in one loop. */

#define NODES 3
#define SEQS 3000
#define PER_BATCH 10

enum fault { NONE, DIES, FALLS_SILENT, DISORDER, OVER_CREDIT, REFUSES, EMPTY };

struct fake {
	struct lab *lab;
	struct pr_rpc *rpc;
	char name[8];
	enum fault fault;
	uint64_t after; /* the fault comes with this seq */
	uint64_t step, first;
	uint64_t query, seq;
	uint32_t credit, batches, most_ahead;
	bool asked, cancelled, ended, count_only;
	uint64_t only; /* sends just the packets whose seq is a multiple of it */
	uint32_t caplen; /* 0: 4 */
	bool folds; /* it was asked for parts of flows; it gives packets, as an old one */
	bool gets_all; /* once it is asked for them it has all packets */
	const Packrack__RackState *state; /* it says that it has, with each Hello */
};

struct lab {
	char dir[32], endpoint[64];
	struct pr_loop *loop;
	struct prm_merger *merger;
	struct pr_timer *timer;
	struct fake nodes[NODES];
	int node_count;
	struct pr_rpc *client;
	int64_t deadline;
	bool (*until)(struct lab *lab);
	/* what the client got */
	uint64_t got, last_seq, held_packets, missing, matched;
	uint32_t batches, answered;
	bool done, failed, complete, limited, was_cancelled, in_order;
	char failure[200];
	bool no_more_credit;
	bool parts, counted_twice; /* the client takes parts of flows; they are wrong */
	bool merges; /* the client; then what it got of each node */
	uint64_t source[NODES], source_last[NODES];
	uint32_t sources, sources_ended;
	uint32_t nodes_known, statuses, rules; /* by the client's status requests */
};

static void
send_env(struct pr_rpc *rpc, Packrack__Envelope *env, uint64_t id)
{
	env->id = id;
	pr_rpc_send(rpc, NULL, env, NULL);
}

static void
hello(struct fake *n)
{
	Packrack__Hello h = PACKRACK__HELLO__INIT;
	Packrack__NodeStatus status = PACKRACK__NODE_STATUS__INIT;
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;

	h.name = n->name;
	h.volume = (char *)"0-0";
	h.version = (char *)"0";
	h.boot = 1;
	env.body_case = PACKRACK__ENVELOPE__BODY_HELLO;
	env.hello = &h;
	h.status = &status;
	status.state_digest = n->state ? n->state->digest : 0;
	send_env(n->rpc, &env, 0);
	env.body_case = PACKRACK__ENVELOPE__BODY_STATE;
	env.state = (Packrack__RackState *)n->state;
	if (n->state)
		send_env(n->rpc, &env, 0);
}

static void
send_end(struct fake *n)
{
	Packrack__Ledger ledger = PACKRACK__LEDGER__INIT, *ledgers = &ledger;
	Packrack__End end = PACKRACK__END__INIT;
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;

	ledger.epoch = 9;
	ledger.last_seq = SEQS;
	ledger.last_otime = SEQS;
	ledger.ended = true;
	ledger.said_until = INT64_MAX;
	end.ledgers = &ledgers;
	end.n_ledgers = 1;
	end.matched = SEQS / n->step;
	end.cancelled = n->cancelled;
	env.body_case = PACKRACK__ENVELOPE__BODY_END;
	env.end = &end;
	n->ended = true;
	send_env(n->rpc, &env, n->query);
}

static void
send_batch(struct fake *n)
{
	static uint8_t buf[16384];
	static const uint8_t data[1024] = "abcd";
	struct pr_segment_builder b;
	uint64_t first = n->seq, last = first;
	Packrack__Held held = PACKRACK__HELD__INIT, *list = &held;
	Packrack__Batch batch = PACKRACK__BATCH__INIT;
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;
	uint8_t bits[PER_BATCH * NODES / 8 + 2] = {0};

	if (n->fault == EMPTY) {
		env.body_case = PACKRACK__ENVELOPE__BODY_BATCH;
		env.batch = &batch;
		n->batches++;
		send_env(n->rpc, &env, n->query);
		return;
	}
	pr_segment_begin(&b, buf, sizeof(buf), PR_SEGMENT_MIXED);
	for (int i = 0; i < PER_BATCH && n->seq <= SEQS; i++, n->seq += n->step) {
		uint64_t odd = n->fault == DISORDER && n->seq > n->after
				       ? (uint64_t)i * 7 % 10
				       : 0;
		struct pr_packet p = {.time = (int64_t)(n->seq - odd),
			.otime = (int64_t)(n->seq - odd),
			.epoch = 9,
			.seq = n->seq - odd,
			.caplen = n->caplen ? n->caplen : 4,
			.len = 1024,
			.linktype = 1,
			.data = data};

		last = n->seq;
		bits[(last - first) / 8] |= (uint8_t)(1 << (last - first) % 8);
		if (!n->only || n->seq % n->only == 0)
			pr_segment_add(&b, &p);
	}
	held.epoch = 9;
	held.first = first;
	held.last = last;
	held.first_otime = (int64_t)first;
	held.last_otime = (int64_t)last;
	held.bits.data = bits;
	held.bits.len = (last - first) / 8 + 1;
	batch.held = &list;
	batch.n_held = 1;
	batch.frontier = (int64_t)n->seq;
	batch.packets.data = buf;
	batch.packets.len = n->count_only ? 0 : pr_segment_seal(&b);
	env.body_case = PACKRACK__ENVELOPE__BODY_BATCH;
	env.batch = &batch;
	n->batches++;
	send_env(n->rpc, &env, n->query);
}

static void
answer(struct fake *n)
{
	while (n->asked && !n->ended && (n->credit || n->fault == OVER_CREDIT)) {
		if (n->seq > SEQS) {
			send_end(n);
			return;
		}
		if (n->fault == FALLS_SILENT && n->seq > n->after)
			return;
		if (n->fault == DIES && n->seq > n->after) {
			n->ended =
				true; /* its connection goes with the next turn of the timer */
			return;
		}
		if (n->credit)
			n->credit--;
		send_batch(n);
	}
}

static void
on_node(void *arg, const struct pr_rpc_peer *peer, const Packrack__Envelope *env)
{
	Packrack__Failure failure = PACKRACK__FAILURE__INIT;
	Packrack__Envelope reply = PACKRACK__ENVELOPE__INIT;
	struct fake *n = arg;

	(void)peer;
	if (env->body_case == PACKRACK__ENVELOPE__BODY_QUERY) {
		n->asked = true;
		n->ended = n->cancelled = false;
		n->credit = 0;
		n->query = env->id;
		n->count_only = env->query->count_only;
		n->folds = env->query->fold_flows;
		if (n->folds && n->gets_all)
			n->first = n->step = 1;
		n->seq = n->first;
		if (n->fault == REFUSES) {
			failure.text = (char *)"the volume is gone";
			reply.body_case = PACKRACK__ENVELOPE__BODY_FAILURE;
			reply.failure = &failure;
			n->ended = true;
			send_env(n->rpc, &reply, n->query);
		}
	} else if (env->id == n->query &&
		   env->body_case == PACKRACK__ENVELOPE__BODY_CREDIT) {
		n->credit += env->credit->batches;
		if (n->credit > n->most_ahead)
			n->most_ahead = n->credit;
	} else if (env->id == n->query &&
		   env->body_case == PACKRACK__ENVELOPE__BODY_CANCEL) {
		n->cancelled = true;
		if (!n->ended)
			send_end(n);
	}
	answer(n);
}

static void
give_credit_for(struct lab *lab, uint64_t id, uint32_t batches)
{
	Packrack__Credit credit = PACKRACK__CREDIT__INIT;
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;

	credit.batches = batches;
	env.body_case = PACKRACK__ENVELOPE__BODY_CREDIT;
	env.credit = &credit;
	send_env(lab->client, &env, id);
}

static void
give_credit(struct lab *lab, uint32_t batches)
{
	give_credit_for(lab, 77, batches);
}

/* By what id: the query's, or that of a node. Their order is kept for each. */
static uint64_t *
last_seq_of(struct lab *lab, uint64_t id)
{
	for (uint32_t i = 0; i < lab->sources; i++)
		if (lab->source[i] == id)
			return &lab->source_last[i];
	ck_assert_uint_eq(id, 77);
	return &lab->last_seq;
}

static void
on_client_sources(struct lab *lab, const Packrack__Sources *sources)
{
	ck_assert(lab->merges);
	lab->sources = (uint32_t)sources->n_ids;
	for (uint32_t i = 0; i < lab->sources; i++) {
		lab->source[i] = sources->ids[i];
		give_credit_for(lab, sources->ids[i], 2);
	}
}

static void
on_client_batch(struct lab *lab, uint64_t id, const Packrack__Batch *batch)
{
	uint64_t *last = last_seq_of(lab, id);
	struct pr_segment_reader r;
	struct pr_packet p;
	struct pr_error err;

	lab->batches++;
	ck_assert_msg(
		pr_segment_open(&r, batch->packets.data, batch->packets.len, &err) == 0,
		"%s", err.text);
	while (pr_segment_next(&r, &p, &err) == 1) {
		lab->in_order &= p.seq > *last;
		*last = p.seq;
		lab->got++;
	}
	if (!lab->no_more_credit)
		give_credit_for(lab, id, 1);
}

static void
on_client(void *arg, const struct pr_rpc_peer *peer, const Packrack__Envelope *env)
{
	struct lab *lab = arg;

	(void)peer;
	if (env->body_case == PACKRACK__ENVELOPE__BODY_STATUS) {
		lab->nodes_known = (uint32_t)env->status->n_nodes;
		lab->rules = (uint32_t)env->status->n_rules;
		lab->statuses++;
	} else if (env->body_case == PACKRACK__ENVELOPE__BODY_BATCH) {
		on_client_batch(lab, env->id, env->batch);
	} else if (env->body_case == PACKRACK__ENVELOPE__BODY_SOURCES) {
		on_client_sources(lab, env->sources);
	} else if (env->body_case == PACKRACK__ENVELOPE__BODY_END && env->id != 77) {
		lab->sources_ended++;
	} else if (env->body_case == PACKRACK__ENVELOPE__BODY_FAILURE) {
		lab->done = lab->failed = true;
		snprintf(lab->failure, sizeof(lab->failure), "%s", env->failure->text);
	} else if (env->body_case == PACKRACK__ENVELOPE__BODY_END) {
		lab->done = true;
		lab->counted_twice = env->end->counted_twice;
		lab->matched = env->end->matched;
		lab->limited = env->end->limit_reached;
		lab->was_cancelled = env->end->cancelled;
		lab->complete = env->end->completeness->complete;
		lab->held_packets = env->end->completeness->held_packets;
		lab->missing = env->end->completeness->missing_packets;
		lab->answered = 0;
		for (size_t i = 0; i < env->end->completeness->n_nodes; i++) {
			lab->answered += env->end->completeness->nodes[i]->answered;
			if (env->end->completeness->nodes[i]->error[0])
				snprintf(lab->failure, sizeof(lab->failure), "%s",
					env->end->completeness->nodes[i]->error);
		}
	}
}

static void
ask_status(struct lab *lab)
{
	Packrack__StatusRequest request = PACKRACK__STATUS_REQUEST__INIT;
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;

	env.body_case = PACKRACK__ENVELOPE__BODY_STATUS_REQUEST;
	env.status_request = &request;
	send_env(lab->client, &env, 1);
}

static void
on_timer(void *arg)
{
	struct lab *lab = arg;

	for (int i = 0; i < lab->node_count; i++) {
		struct fake *n = &lab->nodes[i];

		if (n->rpc && n->fault == DIES && n->asked && n->ended)
			pr_rpc_destroy(&n->rpc);
		else if (n->rpc && !(n->fault == FALLS_SILENT && n->asked))
			hello(n);
	}
	if (lab->nodes_known < (uint32_t)lab->node_count)
		ask_status(lab);
	if (lab->until(lab) || pr_now_mono() > lab->deadline)
		event_base_loopbreak(pr_loop_base(lab->loop));
}

static void
run_until(struct lab *lab, bool (*until)(struct lab *lab))
{
	lab->until = until;
	lab->deadline = pr_now_mono() + 10 * PR_NS_PER_S;
	event_base_dispatch(pr_loop_base(lab->loop)); /* pr_loop_break is for ever */
	ck_assert(until(lab));
}

static bool
all_known(struct lab *lab)
{
	return lab->nodes_known == (uint32_t)lab->node_count;
}

static bool
ended(struct lab *lab)
{
	return lab->done;
}

static struct lab *
lab_up(int nodes, enum fault fault)
{
	struct prm_merger_options o = {
		.silent_ns = (fault == EMPTY ? 500 : 2000) * PR_NS_PER_MS};
	struct pr_loop_calls calls = {0};
	struct lab *lab = calloc(1, sizeof(*lab));
	struct pr_error err = {""};

	strcpy(lab->dir, "/tmp/pr-merger.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(lab->dir));
	snprintf(lab->endpoint, sizeof(lab->endpoint), "ipc://%s/m", lab->dir);
	lab->loop = pr_loop_create(&calls, &err);
	lab->merger = prm_merger_create(lab->loop, &o, &err);
	ck_assert_msg(lab->merger && prm_merger_listen(
					     lab->merger, lab->endpoint, NULL, &err) == 0,
		"%s", err.text);
	lab->in_order = true;
	lab->node_count = nodes;
	for (int i = 0; i < nodes; i++) {
		struct fake *n = &lab->nodes[i];

		n->lab = lab;
		snprintf(n->name, sizeof(n->name), "log%d", i);
		n->step = (uint64_t)nodes;
		n->first = (uint64_t)i + 1;
		n->fault = i == nodes - 1 ? fault : NONE;
		n->after = SEQS / 2;
		n->rpc = pr_rpc_connect(lab->loop, lab->endpoint, NULL, on_node, n, &err);
		ck_assert_ptr_nonnull(n->rpc);
	}
	lab->client = pr_rpc_connect(lab->loop, lab->endpoint, NULL, on_client, lab, &err);
	lab->timer = pr_timer_create(lab->loop, 10 * PR_NS_PER_MS, on_timer, lab, &err);
	run_until(lab, all_known);
	return lab;
}

static void
lab_down(struct lab *lab)
{
	char path[64];

	pr_timer_destroy(&lab->timer);
	pr_rpc_destroy(&lab->client);
	for (int i = 0; i < lab->node_count; i++)
		if (lab->nodes[i].rpc)
			pr_rpc_destroy(&lab->nodes[i].rpc);
	prm_merger_destroy(&lab->merger);
	pr_loop_destroy(&lab->loop);
	snprintf(path, sizeof(path), "%s/m", lab->dir);
	unlink(path);
	rmdir(lab->dir);
	free(lab);
}

static void
query(struct lab *lab, uint64_t limit, bool count_only)
{
	Packrack__Query q = PACKRACK__QUERY__INIT;
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;

	q.since = INT64_MIN;
	q.until = INT64_MAX;
	q.limit = limit;
	q.count_only = count_only;
	q.merges = lab->merges;
	q.flow_parts = lab->parts;
	env.body_case = PACKRACK__ENVELOPE__BODY_QUERY;
	env.query = &q;
	send_env(lab->client, &env, 77);
}
