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
#define WINDOW 8
#define CANCEL_NS (5 * PR_NS_PER_S)
#define ALIVE_ID                                                                           \
	2 /* of questions whether it lives: its nodes may read for hours, and find nothing */
#define ALIVE_NS (5 * PR_NS_PER_S)
#define SILENCE_NS (180 * PR_NS_PER_S)
#define TICK_NS (250 * PR_NS_PER_MS)

struct ask {
	const char *endpoint;
	struct pr_loop *loop;
	struct pr_rpc *rpc;
	struct pr_timer *timer;
	struct prm_remote *remote;
	struct pr_source *source;
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
send_env(struct ask *ask, Packrack__Envelope *env)
{
	env->id = QUERY_ID;
	if (pr_rpc_send(ask->rpc, NULL, env, &ask->err) < 0)
		stop(ask, ASK_FAILED);
}

static void
send_credit(struct ask *ask)
{
	Packrack__Credit credit = PACKRACK__CREDIT__INIT;
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;

	credit.batches = prm_remote_take_credit(ask->remote, WINDOW);
	env.body_case = PACKRACK__ENVELOPE__BODY_CREDIT;
	env.credit = &credit;
	if (credit.batches)
		send_env(ask, &env);
}

static void
send_cancel(void *arg)
{
	Packrack__Cancel cancel = PACKRACK__CANCEL__INIT;
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;
	struct ask *ask = arg;

	env.body_case = PACKRACK__ENVELOPE__BODY_CANCEL;
	env.cancel = &cancel;
	ask->cancelled = pr_now_mono();
	send_env(ask, &env);
}

/* false: the loop has been told to stop. */
static bool
drain(struct ask *ask)
{
	struct pr_packet p;

	while (pr_source_next(ask->source, &p, NULL) == PR_SOURCE_PACKET)
		if (!(p.flags & PRM_WATERMARK) &&
			sink_packet(ask->sink, &p, &ask->err) < 0) {
			stop(ask, sink_closed(ask->sink) ? ASK_CLOSED : ASK_FAILED);
			return false;
		}
	if (prm_remote_error(ask->remote)) {
		pr_error_set(&ask->err, "%s: a damaged answer: %s", ask->endpoint,
			prm_remote_error(ask->remote));
		stop(ask, ASK_FAILED);
		return false;
	}
	if (sink_pause(ask->sink, &ask->err) < 0) {
		stop(ask, sink_closed(ask->sink) ? ASK_CLOSED : ASK_FAILED);
		return false;
	}
	return true;
}

static void
on_end(struct ask *ask, const Packrack__End *end)
{
	size_t len = packrack__end__get_packed_size(end);
	uint8_t *buf = malloc(len ? len : 1);

	if (buf) {
		packrack__end__pack(end, buf);
		ask->end = packrack__end__unpack(NULL, len, buf);
		free(buf);
	}
	if (ask->end && end->cancelled && !ask->count_only) {
		ask->end->matched =
			ask->sink->packets; /* what was on its way did not come */
		ask->end->related = ask->sink->related;
	}
	if (ask->end) {
		stop(ask, ASK_DONE);
	} else {
		pr_error_set(&ask->err, "no memory for the end of the answer");
		stop(ask, ASK_FAILED);
	}
}

static void
on_message(void *arg, const struct pr_rpc_peer *peer, const Packrack__Envelope *env)
{
	struct ask *ask = arg;

	(void)peer;
	ask->heard = pr_now_mono();
	if (env->id != QUERY_ID)
		return;
	if (env->body_case == PACKRACK__ENVELOPE__BODY_BATCH) {
		if (ask->cancelled && !ask->count_only && !ask->sink->args->follow)
			return; /* it was on its way */
		if ((env->batch->tally &&
			    sink_tally(ask->sink, env->batch->tally, &ask->err) < 0) ||
			prm_remote_batch(ask->remote, env->batch, &ask->err) < 0)
			stop(ask, ASK_FAILED);
		else if (drain(ask)) {
			ask->heard = pr_now_mono(); /* taking it may have lasted */
			send_credit(ask);
		}
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
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;

	if (now - ask->heard < ALIVE_NS || now - ask->alive < ALIVE_NS)
		return;
	ask->alive = now;
	env.id = ALIVE_ID;
	env.body_case = PACKRACK__ENVELOPE__BODY_STATUS_REQUEST;
	env.status_request = &request;
	if (pr_rpc_send(ask->rpc, NULL, &env, &ask->err) < 0)
		stop(ask, ASK_FAILED);
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
	struct pr_loop_calls calls = {.stop = send_cancel, .arg = ask};

	ask->loop = pr_loop_create(&calls, &ask->err);
	ask->remote = ask->loop ? prm_remote_create(&ask->err) : NULL;
	ask->source = ask->remote ? prm_remote_source(ask->remote, &ask->err) : NULL;
	if (!ask->source)
		return -1;
	if (ask->sink->args->follow)
		prm_remote_allow_rounds(ask->remote);
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
	pr_source_destroy(&ask->source);
	prm_remote_destroy(&ask->remote);
	if (ask->rpc)
		pr_rpc_destroy(&ask->rpc);
	if (ask->timer)
		pr_timer_destroy(&ask->timer);
	pr_loop_destroy(&ask->loop);
}

/* What mergers would not answer is refused here. */
static enum ask_result
ask_it(struct ask *ask, const Packrack__Query *query)
{
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;

	env.body_case = PACKRACK__ENVELOPE__BODY_QUERY;
	env.query = (Packrack__Query *)query;
	if (pr_message_check(&env, &ask->err) < 0)
		return ASK_USAGE;
	send_env(ask, &env);
	send_credit(ask);
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

/* Counts of nodes that hold the same packets do not add up: then we get packets, and count ourselves. */
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
