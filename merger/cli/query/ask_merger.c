/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/query/ask.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "merger/cli/cli.h"
#include "merger/cli/query/query_build.h"
#include "merger/remote.h"
#include "proto/base/clock.h"
#include "proto/base/loop.h"
#include "proto/rpc/message.h"
#include "proto/rpc/rpc.h"

void
ask_warn_link(const struct query_args *a, Packrack__LinkInfo *const *links, size_t count)
{
	char number[16];

	if (!a->link || a->follow)
		return;
	for (size_t i = 0; i < count; i++) {
		snprintf(number, sizeof(number), "%u", links[i]->link);
		if (!strcmp(a->link, links[i]->name) || !strcmp(a->link, number))
			return;
	}
	fprintf(stderr,
		"packrack: warning: no link is named %s at present; 'packrack status "
		"--json' lists the links\n",
		a->link);
}

#define QUERY_ID 1
#define WINDOW 16 /* batches of a source under way, or here and not merged yet */
#define WINDOWS 40 /* over all sources, if these are not more */
#define CANCEL_NS (5 * PR_NS_PER_S)
#define ALIVE_ID                                                                           \
	2 /* id of requests whether the merger is alive: nodes may read for hours without a match */
#define ALIVE_NS (5 * PR_NS_PER_S)
#define SILENCE_NS (180 * PR_NS_PER_S)
#define TICK_NS (250 * PR_NS_PER_MS)

/* What is merged here: the answer of the merger, or of each node as the merger passes it on. */
struct answering {
	uint64_t id;
	char *node; /* NULL: the merger */
	struct prm_remote *remote;
	bool dropped; /* as it was damaged */
};

struct ask {
	const char *endpoint;
	struct pr_loop *loop;
	struct pr_rpc *rpc;
	struct pr_timer *timer;
	struct answering *sources;
	size_t source_count;
	struct pr_source *merge;
	struct sink *sink;
	Packrack__End *end;
	enum ask_result result;
	struct pr_error err;
	int64_t heard, alive, cancelled; /* monotonic; alive: asked for; cancelled 0: not */
	bool count_only;
};

int
ask_linktypes(Packrack__LinkInfo *const *links, size_t count, uint16_t **out,
	struct pr_error *err)
{
	int n = 0;

	*out = calloc(count + 1, sizeof(**out));
	if (!*out)
		return pr_error_set(err, "no memory for %zu link types", count);
	for (size_t i = 0; i < count; i++) {
		int j;

		for (j = 0; j < n && (*out)[j] != links[i]->linktype; j++)
			;
		if (j == n)
			(*out)[n++] = (uint16_t)links[i]->linktype;
	}
	return n;
}

void
ask_answer_free(struct ask_answer *answer)
{
	if (answer->end)
		packrack__end__free_unpacked(answer->end, NULL);
	answer->end = NULL;
	pri_plans_free(&answer->plans);
}

static void
stop(struct ask *ask, enum ask_result result)
{
	ask->result = result;
	pr_loop_break(ask->loop);
}

static void
send_body(struct ask *ask, uint64_t id, Packrack__Envelope__BodyCase body_case, void *body)
{
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;

	env.id = id;
	env.body_case = body_case;
	env.query = body; /* all bodies are pointers in one union */
	if (pr_rpc_send(ask->rpc, NULL, &env, &ask->err) < 0)
		stop(ask, ASK_FAILED);
}

static void
send_cancel(struct ask *ask, uint64_t id)
{
	Packrack__Cancel cancel = PACKRACK__CANCEL__INIT;

	send_body(ask, id, PACKRACK__ENVELOPE__BODY_CANCEL, &cancel);
}

static void
on_interrupt(void *arg)
{
	struct ask *ask = arg;

	ask->cancelled = pr_now_mono();
	send_cancel(ask, QUERY_ID);
}

/* ---- sources ---- */

static int
source_add(struct ask *ask, uint64_t id, const char *node)
{
	struct answering *s = &ask->sources[ask->source_count];

	*s = (struct answering){.id = id, .remote = prm_remote_create(&ask->err)};
	if (!s->remote)
		return -1;
	ask->source_count++;
	if (node && !(s->node = strdup(node)))
		return pr_error_set(&ask->err, "no memory for an answer");
	if (ask->sink->args->follow)
		s->remote->rounds = true;
	return pr_merge_add(ask->merge, &s->remote->source, &ask->err);
}

static void
sources_free(struct ask *ask)
{
	pr_source_destroy(&ask->merge);
	for (size_t i = 0; i < ask->source_count; i++) {
		prm_remote_destroy(&ask->sources[i].remote);
		free(ask->sources[i].node);
	}
	free(ask->sources);
	ask->sources = NULL;
	ask->source_count = 0;
}

/* of NULL: the merger alone. */
static int
sources_set(struct ask *ask, const Packrack__Sources *of)
{
	size_t count = of ? of->n_ids : 1;

	sources_free(ask);
	ask->sources = calloc(count, sizeof(*ask->sources));
	ask->merge = ask->sources ? pr_merge_create(&ask->err) : NULL;
	if (!ask->merge)
		return pr_error_set(&ask->err, "no memory for an answer");
	for (size_t i = 0; i < count; i++)
		if (source_add(ask, of ? of->ids[i] : QUERY_ID, of ? of->nodes[i] : NULL) <
			0)
			return -1;
	return 0;
}

static struct answering *
source_find(struct ask *ask, uint64_t id)
{
	for (size_t i = 0; i < ask->source_count; i++)
		if (ask->sources[i].id == id)
			return &ask->sources[i];
	return NULL;
}

static void
send_credits(struct ask *ask)
{
	Packrack__Credit credit = PACKRACK__CREDIT__INIT;
	uint32_t window = ask->source_count < WINDOWS / WINDOW
				  ? WINDOW
				  : (uint32_t)(WINDOWS / ask->source_count);

	window = window ? window : 1;
	for (size_t i = 0; i < ask->source_count; i++) {
		struct answering *s = &ask->sources[i];

		credit.batches = prm_remote_take_credit(s->remote, window, window / 2);
		if (credit.batches)
			send_body(ask, s->id, PACKRACK__ENVELOPE__BODY_CREDIT, &credit);
	}
}

/* A node's damaged answer leaves a hole in ours, which the end tells of. false: it is the merger's. */
static bool
drop_damaged(struct ask *ask)
{
	for (size_t i = 0; i < ask->source_count; i++) {
		struct answering *s = &ask->sources[i];

		if (!s->remote->error || s->dropped)
			continue;
		if (!s->node) {
			pr_error_set(&ask->err, "%s: a damaged answer: %s", ask->endpoint,
				s->remote->error);
			return false;
		}
		s->dropped = true;
		send_cancel(ask, s->id);
	}
	return true;
}

/* false: pr_loop_break was called. */
static bool
drain(struct ask *ask)
{
	struct pr_packet p;
	int rc = 0;

	while (rc == 0 && pr_source_next(ask->merge, &p, NULL) == PR_SOURCE_PACKET)
		if (!(p.flags & PRM_WATERMARK))
			rc = sink_packet(ask->sink, &p, &ask->err);
	if (rc == 0 && !drop_damaged(ask)) {
		stop(ask, ASK_FAILED);
		return false;
	}
	if (rc == 0)
		rc = sink_pause(ask->sink, &ask->err);
	if (rc < 0)
		stop(ask, sink_closed(ask->sink) ? ASK_CLOSED : ASK_FAILED);
	return rc == 0;
}

/* ---- messages ---- */

/* The merger may have counted a node as one that answered before we saw that its packets are damaged. */
static void
tell_damage(const struct ask *ask, Packrack__Completeness *c)
{
	for (size_t i = 0; c && i < c->n_nodes; i++)
		for (size_t j = 0; j < ask->source_count; j++) {
			Packrack__NodeAnswer *a = c->nodes[i];
			const struct answering *s = &ask->sources[j];

			if (!s->dropped || strcmp(s->node, a->node) || !a->answered)
				continue;
			c->complete = a->answered = false;
			a->error = strdup(s->remote->error);
		}
}

static void
on_end(struct ask *ask, const Packrack__End *end)
{
	ask->end = pr_message_copy(&end->base);
	if (!ask->end) {
		pr_error_set(&ask->err, "no memory for the end of the answer");
		stop(ask, ASK_FAILED);
		return;
	}
	/* what was on its way did not come, and who merges counts */
	if ((end->cancelled && !ask->count_only) || ask->sources[0].node) {
		ask->end->matched = ask->sink->packets;
		ask->end->related = ask->sink->related;
	}
	tell_damage(ask, ask->end->completeness);
	stop(ask, ASK_DONE);
}

static void
on_batch(struct ask *ask, struct answering *from, const Packrack__Batch *batch)
{
	if ((ask->cancelled && !ask->count_only && !ask->sink->args->follow) ||
		from->dropped)
		return; /* it was on its way */
	if ((batch->tally && sink_tally(ask->sink, batch->tally, &ask->err) < 0) ||
		prm_remote_batch(from->remote, ask->rpc, batch, &ask->err) < 0) {
		stop(ask, ASK_FAILED);
	} else if (drain(ask)) {
		ask->heard = pr_now_mono(); /* taking it may have lasted */
		send_credits(ask);
	}
}

static void
on_message(void *arg, const struct pr_rpc_peer *peer, const Packrack__Envelope *env)
{
	struct ask *ask = arg;
	struct answering *from = source_find(ask, env->id);

	(void)peer;
	ask->heard = pr_now_mono();
	if (env->body_case == PACKRACK__ENVELOPE__BODY_BATCH && from) {
		on_batch(ask, from, env->batch);
	} else if (env->body_case == PACKRACK__ENVELOPE__BODY_END && from && from->node) {
		from->remote->ended = true;
		if (drain(ask))
			send_credits(ask);
	} else if (env->id != QUERY_ID) {
		return;
	} else if (env->body_case == PACKRACK__ENVELOPE__BODY_SOURCES &&
		   env->sources->n_ids) {
		if (sources_set(ask, env->sources) < 0)
			stop(ask, ASK_FAILED);
		else
			send_credits(ask);
	} else if (env->body_case == PACKRACK__ENVELOPE__BODY_END) {
		on_end(ask, env->end);
	} else if (env->body_case == PACKRACK__ENVELOPE__BODY_FAILURE) {
		pr_error_set(&ask->err, "%s", env->failure->text);
		stop(ask, env->failure->bad_request ? ASK_USAGE : ASK_FAILED);
	}
}

static void
on_state(void *arg, enum pr_rpc_state state)
{
	struct ask *ask = arg;

	if (state == PR_RPC_CONNECTED)
		return;
	if (state == PR_RPC_REFUSED)
		pr_error_set(&ask->err, "%s", pr_rpc_refusal(ask->rpc));
	else
		pr_error_set(&ask->err,
			"%s went away in the middle of the answer: ask again",
			ask->endpoint);
	stop(ask, ASK_FAILED);
}

static void
ask_alive(struct ask *ask, int64_t now)
{
	Packrack__StatusRequest request = PACKRACK__STATUS_REQUEST__INIT;

	if (now - ask->heard < ALIVE_NS || now - ask->alive < ALIVE_NS)
		return;
	ask->alive = now;
	send_body(ask, ALIVE_ID, PACKRACK__ENVELOPE__BODY_STATUS_REQUEST, &request);
}

static void
on_tick(void *arg)
{
	struct ask *ask = arg;
	int64_t now = pr_now_mono();

	if (ask->cancelled && now - ask->cancelled > CANCEL_NS) {
		pr_error_set(&ask->err, "interrupted");
		stop(ask, ASK_FAILED);
	} else if (!ask->sink->args->follow && now - ask->heard > SILENCE_NS) {
		pr_error_set(&ask->err, "%s has said nothing for %lld s", ask->endpoint,
			(long long)(SILENCE_NS / PR_NS_PER_S));
		stop(ask, ASK_FAILED);
	} else {
		ask_alive(ask, now);
	}
}

static int
set_up(struct ask *ask, const struct pr_rpc_keys *keys)
{
	struct pr_loop_calls calls = {.stop = on_interrupt, .arg = ask};

	ask->loop = pr_loop_create(&calls, &ask->err);
	if (!ask->loop || sources_set(ask, NULL) < 0)
		return -1;
	ask->timer = pr_timer_create(ask->loop, TICK_NS, on_tick, ask, &ask->err);
	ask->rpc =
		pr_rpc_connect(ask->loop, ask->endpoint, keys, on_message, ask, &ask->err);
	if (!ask->timer || !ask->rpc)
		return -1;
	pr_rpc_watch(ask->rpc, on_state, ask);
	return 0;
}

static void
tear_down(struct ask *ask)
{
	sources_free(ask);
	if (ask->rpc)
		pr_rpc_destroy(&ask->rpc);
	if (ask->timer)
		pr_timer_destroy(&ask->timer);
	pr_loop_destroy(&ask->loop);
}

/* Queries that mergers would refuse are refused here. */
static enum ask_result
ask_it(struct ask *ask, const Packrack__Query *query)
{
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;
	Packrack__Query copy = *query;

	copy.merges = true;
	env.body_case = PACKRACK__ENVELOPE__BODY_QUERY;
	env.query = &copy;
	if (pr_message_check(&env, &ask->err) < 0)
		return ASK_USAGE;
	send_body(ask, QUERY_ID, PACKRACK__ENVELOPE__BODY_QUERY, &copy);
	send_credits(ask);
	return pr_loop_run(ask->loop, &ask->err) < 0 ? ASK_FAILED : ask->result;
}

static enum ask_result
run(const char *endpoint, const struct pr_rpc_keys *keys, const Packrack__Query *query,
	struct sink *sink, Packrack__End **end, struct pr_error *err)
{
	struct ask ask = {.endpoint = endpoint,
		.sink = sink,
		.result = ASK_FAILED,
		.heard = pr_now_mono(),
		.count_only = query->count_only};

	if (set_up(&ask, keys) == 0)
		ask.result = ask_it(&ask, query);
	tear_down(&ask);
	*end = ask.end;
	if (!ask.err.text[0])
		pr_error_set(&ask.err, "interrupted");
	*err = ask.err;
	return ask.result;
}

/*
 * If two nodes have the same packets, their counts cannot be added. Then the packets are
 * requested and counted here.
 */
static enum ask_result
run_and_recount(const char *endpoint, const struct pr_rpc_keys *keys,
	Packrack__Query *query, struct sink *sink, Packrack__End **end,
	struct pr_error *err)
{
	enum ask_result result = run(endpoint, keys, query, sink, end, err);

	if (result != ASK_DONE || !(*end)->counted_twice)
		return result;
	packrack__end__free_unpacked(*end, NULL);
	*end = NULL;
	query->tally = NULL;
	query->count_only = false;
	if (sink_recount(sink, err) < 0)
		return ASK_FAILED;
	return run(endpoint, keys, query, sink, end, err);
}

enum ask_result
ask_merger(const struct query_args *a, struct sink *sink, struct ask_answer *answer,
	struct pr_error *err)
{
	struct pr_rpc_keys room;
	const struct pr_rpc_keys *keys = cli_keys(&a->merger, &room);
	const char *endpoint = cli_endpoint(a->merger.endpoint, &cli_merger, err);
	enum ask_result result = ASK_FAILED;
	struct question q = {0};
	Packrack__Envelope *status;
	Packrack__LinkInfo **links;
	uint16_t *types = NULL;
	int count;

	if (!endpoint)
		return ASK_USAGE;
	if (cli_ask_status(&a->merger, &cli_merger, &status, err) != CLI_OK)
		return ASK_FAILED;
	links = status->status->links;
	ask_warn_link(a, links, status->status->n_links);
	count = ask_linktypes(links, status->status->n_links, &types, err);
	if (count >= 0 && question_make(&q, a, types, (size_t)count, err) < 0)
		result = ASK_USAGE;
	else if (count >= 0 && question_explain(&q, a, &answer->plans, err) == 0 &&
		 sink_open(sink, links, status->status->n_links, err) == 0)
		result = run_and_recount(endpoint, keys, &q.query, sink, &answer->end, err);
	question_free(&q);
	free(types);
	pr_message_free(&status);
	return result;
}

enum ask_result
ask_query(const struct query_args *a, struct sink *sink, struct ask_answer *answer,
	struct pr_error *err)
{
	if (question_check(a, err) < 0)
		return ASK_USAGE;
	return a->volumes.count ? ask_volumes(a, sink, answer, err)
				: ask_merger(a, sink, answer, err);
}
