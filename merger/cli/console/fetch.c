/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/console/fetch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/clock.h"

#define SILENT_NS (3 * PR_NS_PER_S)
#define ORDER_NS (20 * PR_NS_PER_S)
#define STOP_NS (120 * PR_NS_PER_S) /* nodes flush first */
#define IDENTIFY_SECONDS 10

/* One program; sources[0] is the dispatcher, sources[1 + i] the merger i. */
struct source {
	struct fetch *fetch;
	struct model_peer *peer;
	struct pr_rpc *rpc;
	uint64_t asked, ordered; /* id of the request that is out, or 0 */
	int64_t asked_at, order_until; /* monotonic */
	char verb[32];
};

struct fetch {
	struct model *model;
	struct fetch_calls calls;
	struct source sources[1 + MODEL_MERGERS];
	unsigned count;
	uint64_t ids;
};

static const char *
name_of(const struct source *s)
{
	return s == s->fetch->sources ? "dispatcher" : "merger";
}

static void
silent(struct source *s, const char *why)
{
	model_silent(s->fetch->model, s->peer, name_of(s), why, pr_now_real());
	s->asked = 0;
}

static void
order_end(struct source *s, bool ok, const char *text)
{
	s->ordered = 0;
	model_event(s->fetch->model, pr_now_real(), "%s: %s", s->verb, text);
	s->fetch->calls.done(s->fetch->calls.arg, ok, text);
}

/* ---- answers ---- */

static void
on_status(struct source *s, const Packrack__Status *status)
{
	struct fetch *f = s->fetch;
	const char *wanted = s == f->sources ? "packrack-dispatcher" : "packrack-merger";
	char why[160];

	s->asked = 0;
	if (strncmp(status->program, wanted, strlen(wanted))) {
		snprintf(
			why, sizeof(why), "%s is a %s", s->peer->endpoint, status->program);
		silent(s, why);
	} else if (s == f->sources) {
		model_take_dispatcher(f->model, status, pr_now_real());
	} else {
		model_take_merger(
			f->model, (unsigned)(s - f->sources - 1), status, pr_now_real());
	}
	f->calls.changed(f->calls.arg);
}

static void
on_done(struct source *s, const Packrack__CommandDone *done)
{
	char text[200];

	snprintf(text, sizeof(text), "%s",
		done->text[0] ? done->text
		: done->ok    ? "done"
			      : "not done");
	order_end(s, done->ok, text);
}

static void
on_message(void *arg, const struct pr_rpc_peer *peer, const Packrack__Envelope *env)
{
	struct source *s = arg;

	(void)peer;
	if (env->body_case == PACKRACK__ENVELOPE__BODY_STATUS && env->id == s->asked)
		on_status(s, env->status);
	else if (env->body_case == PACKRACK__ENVELOPE__BODY_COMMAND_DONE && s->ordered &&
		 env->id == s->ordered)
		on_done(s, env->command_done);
	else if (env->body_case == PACKRACK__ENVELOPE__BODY_FAILURE && s->ordered &&
		 env->id == s->ordered)
		order_end(s, false, env->failure->text);
	else if (env->body_case == PACKRACK__ENVELOPE__BODY_FAILURE && env->id == s->asked)
		silent(s, env->failure->text);
}

static void
on_state(void *arg, enum pr_rpc_state state)
{
	struct source *s = arg;

	if (state == PR_RPC_CONNECTED)
		return;
	silent(s, state == PR_RPC_REFUSED ? pr_rpc_refusal(s->rpc) : "went away");
	if (s->ordered)
		order_end(s, false, "it went away");
	s->fetch->calls.changed(s->fetch->calls.arg);
}

/* ---- questions ---- */

static void
ask(struct source *s)
{
	Packrack__StatusRequest request = PACKRACK__STATUS_REQUEST__INIT;
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;

	env.id = ++s->fetch->ids;
	env.body_case = PACKRACK__ENVELOPE__BODY_STATUS_REQUEST;
	env.status_request = &request;
	request.per_link = true;
	if (pr_rpc_send(s->rpc, NULL, &env, NULL) < 0) {
		silent(s, "no answer");
		return;
	}
	s->asked = env.id;
	s->asked_at = pr_now_mono();
}

void
fetch_ask(struct fetch *f)
{
	int64_t now = pr_now_mono();

	for (unsigned i = 0; i < f->count; i++) {
		struct source *s = &f->sources[i];
		struct pr_error none;

		if (!s->rpc)
			continue;
		if (s->ordered && now > s->order_until)
			order_end(s, false, "no answer");
		if (!s->peer->answers && pr_rpc_reachable(s->peer->endpoint, &none) < 0)
			silent(s, "nobody listens there");
		else if (!s->asked)
			ask(s);
		else if (now - s->asked_at > SILENT_NS)
			silent(s, "no answer for 3 s");
	}
}

void
fetch_order(struct fetch *f, const struct console_order *order)
{
	bool merger = !strcmp(order->verb, "cancel");
	struct source *s = &f->sources[merger && f->count > 1];
	Packrack__Command command = PACKRACK__COMMAND__INIT;
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;
	struct pr_error err;

	if (s->ordered) {
		f->calls.done(f->calls.arg, false, "the last order is still under way");
		return;
	}
	snprintf(s->verb, sizeof(s->verb), "%s", order->verb);
	command.verb = (char *)order->verb;
	command.node = (char *)order->node;
	command.number = order->number;
	command.seconds = IDENTIFY_SECONDS;
	env.id = ++f->ids;
	env.body_case = PACKRACK__ENVELOPE__BODY_COMMAND;
	env.command = &command;
	if (!s->rpc || !s->peer->answers || pr_rpc_send(s->rpc, NULL, &env, &err) < 0) {
		order_end(s, false, "not sent: nobody answers");
		return;
	}
	s->ordered = env.id;
	s->order_until = pr_now_mono() + (strcmp(order->verb, "stop") ? ORDER_NS : STOP_NS);
}

/* ---- life ---- */

static int
source_open(struct fetch *f, struct pr_loop *loop, struct model_peer *peer,
	const struct pr_rpc_keys *keys, struct pr_error *err)
{
	struct source *s = &f->sources[f->count++];

	s->fetch = f;
	s->peer = peer;
	if (!peer->endpoint[0])
		return 0;
	s->rpc = pr_rpc_connect(loop, peer->endpoint, keys, on_message, s, err);
	if (!s->rpc)
		return -1;
	pr_rpc_watch(s->rpc, on_state, s);
	return 0;
}

struct fetch *
fetch_create(struct pr_loop *loop, struct model *model, const struct pr_rpc_keys *keys,
	const struct fetch_calls *calls, struct pr_error *err)
{
	struct fetch *f = calloc(1, sizeof(*f));
	int rc;

	if (!f) {
		pr_error_set(err, "no memory for asking");
		return NULL;
	}
	f->model = model;
	f->calls = *calls;
	rc = source_open(f, loop, &model->dispatcher, keys, err);
	for (unsigned i = 0; rc == 0 && i < model->merger_count; i++)
		rc = source_open(f, loop, &model->mergers[i], keys, err);
	if (rc < 0)
		fetch_destroy(&f);
	return f;
}

void
fetch_destroy(struct fetch **fp)
{
	struct fetch *f = *fp;

	*fp = NULL;
	if (!f)
		return;
	for (unsigned i = 0; i < f->count; i++)
		pr_rpc_destroy(&f->sources[i].rpc);
	free(f);
}
