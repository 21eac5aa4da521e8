/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/query/ask.h"

#include "merger/remote.h"

#define QUERY_ID 1
#define WINDOW 16 /* batches of a source that are requested, or here and not merged */
#define WINDOWS 40 /* over all sources, if these are not more */
#define CANCEL_NS (5 * PR_NS_PER_S)
/*
 * id of requests that check that the merger is alive: without a match, nodes may read for
 * hours
 */
#define ALIVE_ID 2
#define ALIVE_NS (5 * PR_NS_PER_S)
#define SILENCE_NS (180 * PR_NS_PER_S)
#define TICK_NS (250 * PR_NS_PER_MS)

/*
 * A source that is merged here: the answer of the merger, or of one node if the merger
 * passes these on.
 */
struct answering {
	uint64_t id;
	char *node; /* NULL: the merger */
	struct prm_remote *remote;
	bool dropped; /* its answer was damaged */
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
	int result;
	struct pr_error *err;
	/* monotonic; alive: last request; cancelled: 0 if not */
	int64_t heard, alive, cancelled;
	bool unread; /* batches that came after the interrupt were not taken */
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
			(*out)[n++] = links[i]->linktype;
	}
	return n;
}

static void
stop(struct ask *ask, int result)
{
	ask->result = result;
	pr_loop_break(ask->loop);
}

#define fail(ask, ...) stop(ask, pr_error_as(CLI_FAILED, (ask)->err, __VA_ARGS__))

static void
send_body(struct ask *ask, uint64_t id, Packrack__Envelope__BodyCase body_case, void *body)
{
	Packrack__Envelope env = pr_message_of(id, body_case, body);

	if (pr_rpc_send(ask->rpc, NULL, &env, ask->err) < 0)
		stop(ask, CLI_FAILED);
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

/* Creates the sources. of NULL: only the merger. */
static int
sources_set(struct ask *ask, const Packrack__Sources *of)
{
	size_t count = of ? of->n_ids : 1;

	sources_free(ask);
	ask->sources = calloc(count, sizeof(*ask->sources));
	ask->merge = ask->sources ? pr_merge_create(ask->err) : NULL;
	if (!ask->merge)
		return pr_error_set(ask->err, "no memory for an answer");
	for (size_t i = 0; i < count; i++) {
		struct answering *s = &ask->sources[i];

		s->id = of ? of->ids[i] : QUERY_ID;
		s->remote = prm_remote_create(ask->err);
		if (!s->remote)
			return -1;
		ask->source_count++;
		if (of && !(s->node = strdup(of->nodes[i])))
			return pr_error_set(ask->err, "no memory for an answer");
		s->remote->rounds = ask->sink->args->follow;
		if (pr_merge_add(ask->merge, &s->remote->source, ask->err) < 0)
			return -1;
	}
	return 0;
}

static void
send_credits(struct ask *ask)
{
	Packrack__Credit credit = PACKRACK__CREDIT__INIT;
	uint32_t window = ask->source_count < WINDOWS / WINDOW
				  ? WINDOW
				  : (WINDOWS / ask->source_count);

	window = window ? window : 1;
	for (size_t i = 0; i < ask->source_count; i++) {
		struct answering *s = &ask->sources[i];

		credit.batches = prm_remote_take_credit(s->remote, window, window / 2);
		if (credit.batches)
			send_body(ask, s->id, PACKRACK__ENVELOPE__BODY_CREDIT, &credit);
	}
}

/* false: pr_loop_break was called. */
static bool
drain(struct ask *ask)
{
	struct pr_packet p;
	int rc = 0;

	while (rc == 0 && pr_source_next(ask->merge, &p, NULL) == PR_SOURCE_PACKET)
		if (!(p.flags & PRM_WATERMARK))
			rc = sink_packet(ask->sink, &p, ask->err);
	for (size_t i = 0; rc == 0 && i < ask->source_count; i++) {
		struct answering *s = &ask->sources[i];

		if (!s->remote->error || s->dropped)
			continue;
		/*
		 * a node's damaged answer leaves a hole, which the completeness report
		 * lists
		 */
		if (!s->node) {
			fail(ask, "%s: a damaged answer: %s", ask->endpoint,
				s->remote->error);
			return false;
		}
		s->dropped = true;
		send_cancel(ask, s->id);
	}
	if (rc == 0)
		rc = sink_pause(ask->sink, ask->err);
	if (rc < 0)
		stop(ask, sink_failure(ask->sink));
	return rc == 0;
}

/* ---- messages ---- */

static void
on_end(struct ask *ask, const Packrack__End *end)
{
	Packrack__End *mine = ask->sink->end = pr_message_copy(&end->base);
	Packrack__Completeness *c = mine ? mine->completeness : NULL;

	if (!mine) {
		fail(ask, "no memory for the end of the answer");
		return;
	}
	/* the merger may have sent all before it was told of the interrupt */
	mine->cancelled |= ask->unread;
	/* packets in flight did not arrive, or are merged here: use the counts made here */
	if ((mine->cancelled && !ask->count_only) || ask->sources[0].node) {
		mine->matched = ask->sink->packets;
		PR_COPY(mine, ask->sink, related, truncated, from_cut, from_headers);
	}
	/* the merger may have counted a node as answered before we saw that its packets are damaged */
	for (size_t i = 0; c && i < c->n_nodes; i++)
		for (size_t j = 0; j < ask->source_count; j++) {
			Packrack__NodeAnswer *a = c->nodes[i];
			const struct answering *s = &ask->sources[j];

			if (!s->dropped || strcmp(s->node, a->node) || !a->answered)
				continue;
			c->complete = a->answered = false;
			a->error = strdup(s->remote->error);
		}
	stop(ask, CLI_OK);
}

static void
on_message(
	void *arg, PR_UNUSED const struct pr_rpc_peer *peer, const Packrack__Envelope *env)
{
	struct ask *ask = arg;
	struct answering *from = NULL;
	bool on_its_way = ask->cancelled && !ask->count_only && !ask->sink->args->follow;

	for (size_t i = 0; i < ask->source_count && !from; i++)
		if (ask->sources[i].id == env->id)
			from = &ask->sources[i];
	ask->heard = pr_now_mono();
	if (env->body_case == PACKRACK__ENVELOPE__BODY_BATCH && from) {
		ask->unread |= on_its_way;
		if (on_its_way || from->dropped)
			return;
		if ((env->batch->tally &&
			    sink_tally(ask->sink, env->batch->tally, ask->err) < 0) ||
			prm_remote_batch(from->remote, ask->rpc, env->batch, ask->err) <
				0) {
			stop(ask, CLI_FAILED);
		} else if (drain(ask)) {
			/* processing the batch may have taken long */
			ask->heard = pr_now_mono();
			send_credits(ask);
		}
	} else if (env->body_case == PACKRACK__ENVELOPE__BODY_END && from && from->node) {
		from->remote->ended = true;
		if (drain(ask))
			send_credits(ask);
	} else if (env->id != QUERY_ID) {
		return;
	} else if (env->body_case == PACKRACK__ENVELOPE__BODY_SOURCES &&
		   env->sources->n_ids) {
		if (sources_set(ask, env->sources) < 0)
			stop(ask, CLI_FAILED);
		else
			send_credits(ask);
	} else if (env->body_case == PACKRACK__ENVELOPE__BODY_END) {
		on_end(ask, env->end);
	} else if (env->body_case == PACKRACK__ENVELOPE__BODY_FAILURE) {
		pr_error_set(ask->err, "%s", env->failure->text);
		stop(ask, env->failure->bad_request ? CLI_USAGE : CLI_FAILED);
	}
}

static void
on_state(void *arg, enum pr_rpc_state state)
{
	struct ask *ask = arg;

	if (state == PR_RPC_REFUSED)
		fail(ask, "%s", pr_rpc_refusal(ask->rpc));
	else if (state != PR_RPC_CONNECTED)
		fail(ask, "%s went away in the middle of the answer: ask again",
			ask->endpoint);
}

static void
on_tick(void *arg)
{
	struct ask *ask = arg;
	int64_t now = pr_now_mono();
	Packrack__StatusRequest request = PACKRACK__STATUS_REQUEST__INIT;

	if (ask->cancelled && now - ask->cancelled > CANCEL_NS) {
		fail(ask, "interrupted");
	} else if (!ask->sink->args->follow && now - ask->heard > SILENCE_NS) {
		fail(ask, "no message from %s for %lld s", ask->endpoint,
			(long long)(SILENCE_NS / PR_NS_PER_S));
	} else if (now - ask->heard >= ALIVE_NS && now - ask->alive >= ALIVE_NS) {
		ask->alive = now;
		send_body(ask, ALIVE_ID, PACKRACK__ENVELOPE__BODY_STATUS_REQUEST, &request);
	}
}

static int
run(const char *endpoint, const char *keys, const Packrack__Query *query, struct sink *sink,
	struct pr_error *err)
{
	struct ask ask = {.endpoint = endpoint,
		.sink = sink,
		.result = CLI_FAILED,
		.err = err,
		.heard = pr_now_mono(),
		.count_only = query->count_only};
	struct pr_loop_calls calls = {.stop = on_interrupt, .arg = &ask};
	Packrack__Query copy = *query;
	Packrack__Envelope env = pr_message_of(0, PACKRACK__ENVELOPE__BODY_QUERY, &copy);

	copy.merges = true;
	ask.loop = pr_loop_create(&calls, err);
	if (ask.loop && sources_set(&ask, NULL) == 0) {
		ask.timer = pr_timer_create(ask.loop, TICK_NS, on_tick, &ask, err);
		ask.rpc = pr_rpc_connect(ask.loop, endpoint, keys, on_message, &ask, err);
	}
	/* queries that mergers would refuse are refused here */
	if (ask.timer && ask.rpc && pr_message_check(&env, err) < 0) {
		ask.result = CLI_USAGE;
	} else if (ask.timer && ask.rpc) {
		pr_rpc_watch(ask.rpc, on_state, &ask);
		send_body(&ask, QUERY_ID, PACKRACK__ENVELOPE__BODY_QUERY, &copy);
		send_credits(&ask);
		if (pr_loop_run(ask.loop, err) < 0)
			ask.result = CLI_FAILED;
	}
	sources_free(&ask);
	pr_rpc_destroy(&ask.rpc);
	pr_timer_destroy(&ask.timer);
	pr_loop_destroy(&ask.loop);
	if (ask.result == CLI_FAILED && !err->text[0])
		pr_error_set(err, "interrupted");
	return ask.result;
}

int
ask_prepare(struct question *q, struct sink *sink, Packrack__LinkInfo *const *links,
	size_t count, struct pr_error *err)
{
	const struct query_args *a = sink->args;
	bool named = !a->link || a->follow || !strcmp(a->link, PR_LINK_CANARY_NAME);
	uint16_t *types;
	char number[16];
	int n, status = CLI_FAILED;

	for (size_t i = 0; i < count && !named; i++) {
		snprintf(number, sizeof(number), "%u", links[i]->link);
		named = !strcmp(a->link, links[i]->name) || !strcmp(a->link, number);
	}
	if (!named)
		fprintf(stderr,
			"packrack: warning: no link is named %s at present; 'packrack "
			"status --json' lists the links\n",
			a->link);
	n = ask_linktypes(links, count, &types, err);
	if (n >= 0 && question_make(q, a, types, n, err) < 0)
		status = CLI_USAGE;
	else if (n >= 0 &&
		 (!a->explain ||
			 pri_plans_create(&q->programs, NULL, &sink->plans, err) == 0) &&
		 sink_open(sink, links, count, err) == 0)
		status = CLI_OK;
	free(types);
	return status;
}

int
ask_merger(struct sink *sink, struct pr_error *err)
{
	const struct cli_connection *c = &sink->args->merger;
	const char *keys = cli_keys(c);
	const char *endpoint = cli_endpoint(c->endpoint, &cli_merger, err);
	struct question q = {0};
	Packrack__Envelope *status;
	int result = cli_ask_status(c, &cli_merger, &status, err);

	if (result != CLI_OK)
		return result;
	result = ask_prepare(&q, sink, status->status->links, status->status->n_links, err);
	if (result == CLI_OK)
		result = run(endpoint, keys, &q.query, sink, err);
	if (result == CLI_OK && sink->end->counted_twice && sink->args->parts)
		result = pr_error_as(CLI_FAILED, err,
			"packets came to a second node meanwhile, and would be "
			"counted twice: ask again");
	/* The counts of two nodes that have the same packets cannot be added: count these here. */
	if (result == CLI_OK && sink->end->counted_twice && !sink->args->count) {
		q.query.tally = NULL;
		q.query.count_only = false;
		result = sink_recount(sink, err) < 0
				 ? CLI_FAILED
				 : run(endpoint, keys, &q.query, sink, err);
	}
	question_free(&q);
	pr_message_free(&status);
	return result;
}

int
ask_query(struct sink *sink, struct pr_error *err)
{
	if (question_check(sink->args, err) < 0)
		return CLI_USAGE;
	int status = sink->args->files.count     ? ask_files(sink, err)
		     : sink->args->volumes.count ? ask_volumes(sink, err)
						 : ask_merger(sink, err);
	progress_end(&sink->progress);
	/* of packets that were merged here only the sink knows */
	if (status == CLI_OK && (sink->end->truncated || sink->end->undecided) &&
		sink->end->completeness)
		sink->end->completeness->complete = false;
	return status;
}
