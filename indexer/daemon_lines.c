/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "indexer/daemon_private.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/rpc/status.h"

/* ---- what we say ---- */

static struct pri_hello_message *
make_hello(struct daemon *d)
{
	struct pri_hello_input facts = {.name = d->options.name,
		.boot = d->boot,
		.queries = pri_serve_queries(d->serve),
		.queries_running = pri_serve_running(d->serve)};
	struct pri_follower_stats figures;

	if (d->feed) {
		pri_follower_stats(d->feed, &figures);
		facts.behind = figures.behind;
	}
	return pri_hello_create(d->view, &facts, NULL);
}

static void
say_hello(struct line *line, struct pri_hello_message *hello)
{
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;

	env.body_case = PACKRACK__ENVELOPE__BODY_HELLO;
	env.hello = pri_hello_message(hello);
	if (line->connected)
		pr_rpc_send(line->rpc, NULL, &env, NULL);
}

void
pri_indexer_say_hello(void *arg)
{
	struct daemon *d = arg;
	struct pri_hello_message *hello = make_hello(d);

	for (size_t i = 0; hello && i < d->options.merger.count; i++)
		say_hello(&d->mergers[i], hello);
	pri_hello_destroy(&hello);
}

/* What hello says, as the answer to a status request. node: room for one pointer. */
static Packrack__Status
make_status(struct pri_hello_message *hello, Packrack__NodeStatus **node)
{
	Packrack__Status status = PACKRACK__STATUS__INIT;

	*node = pri_hello_status(hello);
	status.program = (char *)"packrack-indexer";
	status.version = (char *)PACKRACK_VERSION;
	status.time = pr_now_real();
	status.nodes = node;
	status.n_nodes = 1;
	status.links = pri_hello_message(hello)->links;
	status.n_links = pri_hello_message(hello)->n_links;
	return status;
}

void
pri_indexer_scrape(void *arg, struct pr_metrics_page *page)
{
	struct daemon *d = arg;
	struct pri_hello_message *hello = make_hello(d);

	if (!hello)
		return;
	pr_status_metrics_build(page, "packrack-indexer");
	pr_metrics_label(page, {"node", d->options.name});
	pr_status_metrics_node(page, "packrack_indexer_", pri_hello_status(hello), false);
	pri_hello_destroy(&hello);
}

static void
answer_status(struct line *line, const struct pr_rpc_peer *peer, uint64_t id)
{
	struct pri_hello_message *hello = make_hello(line->daemon);
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;
	Packrack__Status status;
	Packrack__NodeStatus *node;

	if (!hello)
		return;
	status = make_status(hello, &node);
	env.id = id;
	env.body_case = PACKRACK__ENVELOPE__BODY_STATUS;
	env.status = &status;
	pr_rpc_send(line->rpc, peer, &env, NULL);
	pri_hello_destroy(&hello);
}

/* ---- what we hear ---- */

/* Of our Hello: our key was revoked, or is another node's. Once, though it is said every time. */
static void
said_no(struct line *line, const char *text)
{
	if (!line->said_refused)
		pr_log_warning("%s: %s", line->endpoint, text);
	line->said_refused = true;
}

static void
on_message(void *arg, const struct pr_rpc_peer *peer, const Packrack__Envelope *env)
{
	struct line *line = arg;

	if (env->body_case == PACKRACK__ENVELOPE__BODY_STATUS_REQUEST)
		answer_status(line, peer, env->id);
	else if (env->body_case == PACKRACK__ENVELOPE__BODY_FAILURE)
		said_no(line, env->failure->text);
	else if (env->body_case == PACKRACK__ENVELOPE__BODY_SUMMARY_WANT) {
		if (!peer && line->daemon->offer)
			pri_announcer_want(line->daemon->offer, &line->offered, line->rpc,
				env->summary_want);
	} else if (env->body_case == PACKRACK__ENVELOPE__BODY_COMMAND && !peer)
		pri_sender_command(line->daemon->deliver, line->rpc, env);
	else
		pri_serve_message(line->daemon->serve, line->rpc, peer, env);
}

static void
on_state(void *arg, enum pr_rpc_state state)
{
	struct line *line = arg;
	struct pri_hello_message *hello;

	if (state == PR_RPC_REFUSED) {
		if (!line->said_refused)
			pr_log_warning("%s", pr_rpc_refusal(line->rpc));
		line->said_refused = true;
		return;
	}
	if (state == PR_RPC_DISCONNECTED && line->connected)
		pr_log_info("%s is gone; trying again", line->endpoint);
	pri_serve_drop(line->daemon->serve, line->rpc);
	line->connected = state == PR_RPC_CONNECTED;
	line->offered = (struct pri_announced){.bytes = line->offered.bytes};
	if (!line->connected)
		return;
	line->said_refused = false;
	pr_log_with(PR_LOG_INFO, PR_LOG_FIELDS({"merger", line->endpoint}),
		"connected to %s", line->endpoint);
	hello = make_hello(line->daemon);
	if (hello)
		say_hello(line, hello);
	pri_hello_destroy(&hello);
}

/* ---- lines ---- */

int
pri_indexer_connect(struct daemon *d, struct pr_error *err)
{
	struct pr_rpc_keys keys = {d->options.keys};

	d->mergers = calloc(d->options.merger.count + 1, sizeof(*d->mergers));
	if (!d->mergers)
		return pr_error_set(err, "no memory");
	for (size_t i = 0; i < d->options.merger.count; i++) {
		struct line *line = &d->mergers[i];
		line->daemon = d;
		line->endpoint = d->options.merger.items[i];
		if (!keys.dir)
			pr_log_warning("no keys: packets travel to %s in the clear, and "
				       "whoever listens there may ask "
				       "(packrack-keys(7))",
				line->endpoint);
		line->rpc = pr_rpc_connect(
			d->loop, line->endpoint, &keys, on_message, line, err);
		if (!line->rpc)
			return -1;
		pr_rpc_watch(line->rpc, on_state, line);
	}
	return 0;
}

int
pri_indexer_listen(struct daemon *d, struct pr_error *err)
{
	struct pr_rpc_keys keys = {d->options.keys};

	d->manage = (struct line){.daemon = d, .endpoint = d->options.manage};
	if (!d->options.manage)
		return 0;
	if (!keys.dir)
		pr_log_warning("no keys: whoever reaches %s may read (packrack-keys(7))",
			d->options.manage);
	d->manage.rpc = pr_rpc_listen(
		d->loop, d->options.manage, &keys, on_message, &d->manage, err);
	return d->manage.rpc ? 0 : -1;
}
