/* SPDX-License-Identifier: Apache-2.0 */
#include "dispatcher/manage.h"

#include <stdlib.h>
#include <string.h>

#include "dispatcher/spread.h"
#include "dispatcher/status.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/metrics_server.h"
#include "proto/rpc/rpc.h"

enum { PENDING_MAX = 64 };

/* A command that the send thread has yet to answer. */
struct pending {
	uint64_t request; /* 0: free */
	uint64_t id; /* the asker's */
	struct pr_rpc_peer peer;
};

struct prd_manage {
	struct prd_manage_config config;
	struct pr_rpc *rpc;
	struct prd_status *status;
	struct pr_metrics_server *metrics;
	struct pr_timer *timer;
	struct pending pending[PENDING_MAX];
	uint64_t requests;
};

static void
answer(struct prd_manage *m, const struct pr_rpc_peer *peer, Packrack__Envelope *env)
{
	struct pr_error err;

	if (pr_rpc_send(m->rpc, peer, env, &err) < 0)
		pr_log_debug("%s", err.text);
}

static void
answer_status(struct prd_manage *m, const struct pr_rpc_peer *peer, uint64_t id)
{
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;

	env.id = id;
	env.body_case = PACKRACK__ENVELOPE__BODY_STATUS;
	env.status = prd_status_make(m->status);
	answer(m, peer, &env);
}

static void
answer_done(struct prd_manage *m, const struct pr_rpc_peer *peer, uint64_t id, bool ok,
	const char *text)
{
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;
	Packrack__CommandDone done = PACKRACK__COMMAND_DONE__INIT;

	done.ok = ok;
	done.text = (char *)(uintptr_t)text;
	done.status = prd_status_make(m->status);
	env.id = id;
	env.body_case = PACKRACK__ENVELOPE__BODY_COMMAND_DONE;
	env.command_done = &done;
	answer(m, peer, &env);
}

static void
answer_failure(
	struct prd_manage *m, const struct pr_rpc_peer *peer, uint64_t id, const char *text)
{
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;
	Packrack__Failure failure = PACKRACK__FAILURE__INIT;

	failure.text = (char *)(uintptr_t)text;
	failure.bad_request = true;
	env.id = id;
	env.body_case = PACKRACK__ENVELOPE__BODY_FAILURE;
	env.failure = &failure;
	answer(m, peer, &env);
}

static const struct verb {
	const char *name;
	enum prd_event_kind kind;
	uint8_t type;
} verbs[] = {
	{"start", PRD_EVENT_START, 0},
	{"stop", PRD_EVENT_STOP, 0},
	{"identify", PRD_EVENT_NODE, PR_FRAME_IDENTIFY},
	{"reset", PRD_EVENT_NODE, PR_FRAME_RESET},
	{"disconnect", PRD_EVENT_NODE, PR_FRAME_DISCONNECT},
	{"reconnect", PRD_EVENT_NODE, PR_FRAME_RECONNECT},
	{"spread", PRD_EVENT_SPREAD, 0},
};

static const struct verb *
find_verb(const char *name)
{
	for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++)
		if (strcmp(verbs[i].name, name) == 0)
			return &verbs[i];
	return NULL;
}

static int
spread_mode(const char *name)
{
	for (int i = 0; prd_spread_names[i]; i++)
		if (strcmp(prd_spread_names[i], name) == 0)
			return i;
	return -1;
}

static struct pending *
pending_find(struct prd_manage *m, uint64_t request)
{
	for (unsigned i = 0; i < PENDING_MAX; i++)
		if (m->pending[i].request == request)
			return &m->pending[i];
	return NULL;
}

/* false: too much is under way. */
static bool
pass_on(struct prd_manage *m, const struct verb *verb, const Packrack__Command *command,
	const struct pr_rpc_peer *peer, uint64_t id)
{
	struct pending *pending = pending_find(m, 0);
	struct prd_event *event;

	if (!pending || !(event = pr_ring_reserve(m->config.events, sizeof *event)))
		return false;
	*pending = (struct pending){.request = ++m->requests, .id = id, .peer = *peer};
	memset(event, 0, sizeof *event);
	event->kind = verb->kind;
	event->request = pending->request;
	event->u.node.type = verb->kind == PRD_EVENT_SPREAD
				     ? (uint8_t)spread_mode(command->node)
				     : verb->type;
	event->u.node.seconds = command->seconds ? command->seconds : 10;
	strncpy(event->u.node.name, command->node ? command->node : "", PR_NAME_MAX);
	pr_ring_commit(m->config.events, sizeof *event);
	pr_ring_publish(m->config.events);
	return true;
}

static void
on_command(struct prd_manage *m, const struct pr_rpc_peer *peer, uint64_t id,
	const Packrack__Command *command)
{
	const struct verb *verb = find_verb(command->verb ? command->verb : "");

	if (!verb)
		answer_failure(m, peer, id,
			"unknown command: start, stop, spread, identify, reset, disconnect "
			"or "
			"reconnect");
	else if (verb->kind == PRD_EVENT_SPREAD && spread_mode(command->node) < 0)
		answer_failure(m, peer, id, "spread is round-robin, weighted or flow");
	else if (!pass_on(m, verb, command, peer, id))
		answer_failure(m, peer, id, "too many commands are under way: try again");
	else
		pr_log_with(PR_LOG_INFO,
			PR_LOG_FIELDS({"command", command->verb},
				{"node", command->node ? command->node : ""},
				{"user", peer->user}),
			"%s %s, ordered%s%s", command->verb,
			command->node && command->node[0] ? command->node : "capture",
			peer->user[0] ? " by " : "", peer->user);
}

static void
on_message(void *arg, const struct pr_rpc_peer *peer, const Packrack__Envelope *env)
{
	struct prd_manage *m = arg;

	if (env->body_case == PACKRACK__ENVELOPE__BODY_STATUS_REQUEST)
		answer_status(m, peer, env->id);
	else if (env->body_case == PACKRACK__ENVELOPE__BODY_COMMAND)
		on_command(m, peer, env->id, env->command);
	else
		answer_failure(
			m, peer, env->id, "a dispatcher answers status and commands only");
}

void
prd_manage_reply(struct prd_manage *m, const struct prd_reply *reply)
{
	struct pending *pending = pending_find(m, reply->request);

	if (reply->request == 0 || !pending)
		return;
	answer_done(m, &pending->peer, pending->id, reply->ok, reply->text);
	pending->request = 0;
}

static void
on_timer(void *arg)
{
	struct prd_manage *m = arg;

	prd_status_tick(m->status);
}

static void
on_scrape(void *arg, struct pr_metrics_page *page)
{
	struct prd_manage *m = arg;

	prd_status_metrics(m->status, page);
}

static int
open_metrics(struct prd_manage *m, struct pr_loop *loop, struct pr_error *err)
{
	if (!m->config.metrics)
		return 0;
	m->metrics = pr_metrics_serve(loop, m->config.metrics, on_scrape, m, err);
	return m->metrics ? 0 : -1;
}

struct prd_manage *
prd_manage_open(
	struct pr_loop *loop, const struct prd_manage_config *config, struct pr_error *err)
{
	struct prd_status_from from = {
		config->inputs, config->sender, config->oport, config->epoch};
	struct prd_manage *m = calloc(1, sizeof *m);

	if (!m) {
		pr_error_set(err, "no memory for the management socket");
		return NULL;
	}
	m->config = *config;
	m->status = prd_status_create(&from, err);
	if (m->status)
		m->timer = pr_timer_create(loop, PR_NS_PER_S, on_timer, m, err);
	if (m->timer)
		m->rpc = pr_rpc_listen(loop, config->endpoint,
			&(struct pr_rpc_keys){config->keys}, on_message, m, err);
	if (!m->rpc || open_metrics(m, loop, err) < 0)
		prd_manage_close(&m);
	return m;
}

void
prd_manage_close(struct prd_manage **manage)
{
	struct prd_manage *m = *manage;

	*manage = NULL;
	if (!m)
		return;
	pr_metrics_stop(&m->metrics);
	pr_rpc_destroy(&m->rpc);
	pr_timer_destroy(&m->timer);
	prd_status_destroy(&m->status);
	free(m);
}
