/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/server_internal.h"

#include "merger/pcap_over_ip.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/clock.h"
#include "proto/base/log.h"

#define TICK_NS (100 * PR_NS_PER_MS)

void
pr_merger_reply(const struct pr_address *to, uint64_t id, Packrack__Envelope *env)
{
	env->id = id;
	pr_rpc_send(to->rpc, &to->peer, env, NULL);
}

void
pr_merger_refuse(
	const struct pr_address *to, uint64_t id, const char *text, bool bad_request)
{
	Packrack__Failure failure = PACKRACK__FAILURE__INIT;
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;

	failure.text = (char *)text;
	failure.bad_request = bad_request;
	env.body_case = PACKRACK__ENVELOPE__BODY_FAILURE;
	env.failure = &failure;
	pr_merger_reply(to, id, &env);
}

/* ---- other mergers ---- */

static void
on_peer(struct pr_merger *m, const struct pr_address *from, const Packrack__Envelope *env)
{
	Packrack__Envelope reply = PACKRACK__ENVELOPE__INIT;
	Packrack__Peer me = PACKRACK__PEER__INIT;

	me.name = (char *)(m->options.name ? m->options.name : "");
	reply.body_case = PACKRACK__ENVELOPE__BODY_PEER;
	reply.peer = &me;
	pr_merger_reply(from, env->id, &reply);
}

static void
on_route(void *arg)
{
	struct pr_merger *m = arg;

	pr_merger_wait_over(m, pr_now_mono());
	pr_merger_reap(m);
}

int
pr_merger_peer(struct pr_merger *m, const char *endpoint, const struct pr_rpc_keys *keys,
	struct pr_error *err)
{
	if (!m->peers)
		m->peers = pr_peers_create(m->loop, m->options.name, &m->duty, on_route, m);
	if (!m->peers)
		return pr_error_set(err, "no memory for other mergers");
	return pr_peers_add(m->peers, endpoint, keys, err);
}

static void
on_command(
	struct pr_merger *m, const struct pr_address *from, const Packrack__Envelope *env)
{
	Packrack__CommandDone done = PACKRACK__COMMAND_DONE__INIT;
	Packrack__Envelope reply = PACKRACK__ENVELOPE__INIT;
	struct pr_error text = {""};

	if (!strcmp(env->command->verb, "delete") || !strcmp(env->command->verb, "store")) {
		pr_merger_order(m, from, env);
		return;
	}
	if (!strcmp(env->command->verb, "cancel"))
		done.ok = pr_merger_cancel_number(m, env->command->number, &text);
	else if (strcmp(env->command->verb, "forget"))
		pr_error_set(&text, "a merger does not %s: ask the dispatcher",
			env->command->verb);
	else if (pr_registry_forget(&m->registry, env->command->node)) {
		pr_summaries_forget(m->summaries, env->command->node);
		done.ok = true;
	} else
		pr_error_set(&text, "the merger knows no node %s", env->command->node);
	done.text = text.text;
	reply.body_case = PACKRACK__ENVELOPE__BODY_COMMAND_DONE;
	reply.command_done = &done;
	pr_merger_reply(from, env->id, &reply);
}

static void
on_status(struct pr_merger *m, const struct pr_address *from, const Packrack__Envelope *env)
{
	pr_merger_status(m, from, env->id);
}

/* ---- all messages ---- */

/* Who may send which: proto/rpc/roles.h. */
static const struct {
	Packrack__Envelope__BodyCase body;
	void (*call)(struct pr_merger *m, const struct pr_address *from,
		const Packrack__Envelope *env);
} messages[] = {
	{PACKRACK__ENVELOPE__BODY_HELLO, pr_merger_on_hello},
	{PACKRACK__ENVELOPE__BODY_COVERAGE, pr_merger_on_coverage},
	{PACKRACK__ENVELOPE__BODY_SUMMARY, pr_merger_on_summary},
	{PACKRACK__ENVELOPE__BODY_BATCH, pr_merger_on_answer},
	{PACKRACK__ENVELOPE__BODY_END, pr_merger_on_answer},
	{PACKRACK__ENVELOPE__BODY_FAILURE, pr_merger_on_answer},
	{PACKRACK__ENVELOPE__BODY_QUERY, pr_merger_on_query},
	{PACKRACK__ENVELOPE__BODY_CREDIT, pr_merger_on_credit},
	{PACKRACK__ENVELOPE__BODY_CANCEL, pr_merger_on_cancel},
	{PACKRACK__ENVELOPE__BODY_STATUS_REQUEST, on_status},
	{PACKRACK__ENVELOPE__BODY_PEER, on_peer},
	{PACKRACK__ENVELOPE__BODY_ROUTE_REQUEST, pr_merger_judge},
	{PACKRACK__ENVELOPE__BODY_COMMAND, on_command},
	{PACKRACK__ENVELOPE__BODY_COMMAND_DONE, pr_merger_ordered},
};

static void
on_message(void *arg, const struct pr_rpc_peer *peer, const Packrack__Envelope *env)
{
	struct listener *l = arg;
	struct pr_merger *m = l->merger;
	struct pr_address from = {l->rpc, *peer};

	pr_registry_heard(&m->registry, &from, pr_now_mono(), pr_now_real());
	for (size_t i = 0; i < sizeof(messages) / sizeof(messages[0]); i++) {
		if (messages[i].body != env->body_case)
			continue;
		messages[i].call(m, &from, env);
		pr_merger_reap(m);
		return;
	}
	pr_merger_refuse(
		&from, env->id, "this is a merger: it takes no such request", true);
}

static void
tick(void *arg)
{
	struct pr_merger *m = arg;
	int64_t now = pr_now_mono();

	if (m->peers)
		pr_peers_tick(m->peers, now);
	pr_merger_wait_over(m, now);
	pr_merger_orders_tick(m, now);
	for (size_t i = 0; m->query_count && i < m->registry.count; i++) {
		struct pr_address *node = &m->registry.nodes[i]->address;
		if (!pr_rpc_admits(node->rpc, &node->peer))
			pr_merger_node_lost(m, node, "its key was revoked");
	}
	for (size_t i = 0; i < m->query_count; i++) {
		if (!m->clients[i].rpc || /* it is one of ours */
			pr_rpc_probe(m->clients[i].rpc, &m->clients[i].peer))
			pr_fanout_tick(m->queries[i], now);
		else
			pr_fanout_cancel(m->queries[i]);
	}
	pr_pcap_over_ip_tick(m->pcap_over_ip, now);
	pr_merger_reap(m);
	if (pr_registry_expire(&m->registry, now))
		pr_merger_forget_summaries(m);
}

/* ---- life ---- */

struct pr_merger *
pr_merger_create(
	struct pr_loop *loop, const struct pr_merger_options *options, struct pr_error *err)
{
	struct pr_merger *m = calloc(1, sizeof(*m));

	if (!m) {
		pr_error_set(err, "no memory for a merger");
		return NULL;
	}
	m->loop = loop;
	m->options = *options;
	if (!m->options.max_queries)
		m->options.max_queries = PR_MERGER_QUERIES_DEFAULT;
	m->queries = calloc(m->options.max_queries, sizeof(*m->queries));
	m->clients = calloc(m->options.max_queries, sizeof(*m->clients));
	m->duty = (struct pr_duty){.mergers = {{.name = "", .alive = true}}, .count = 1};
	m->summaries = pr_summaries_create(m->options.summaries, &m->duty, err);
	m->timer = pr_timer_create(loop, TICK_NS, tick, m, err);
	if (m->queries && m->clients && m->timer && m->summaries)
		return m;
	if (m->timer)
		pr_error_set(err, "no memory for a merger");
	pr_merger_destroy(&m);
	return NULL;
}

int
pr_merger_listen(struct pr_merger *m, const char *endpoint, const struct pr_rpc_keys *keys,
	struct pr_error *err)
{
	struct listener *l = calloc(1, sizeof(*l));
	struct listener **grown =
		reallocarray(m->listeners, m->listener_count + 1, sizeof(*grown));

	if (grown)
		m->listeners = grown;
	if (!l || !grown) {
		free(l);
		return pr_error_set(err, "no memory for listening on %s", endpoint);
	}
	l->merger = m;
	l->rpc = pr_rpc_listen(m->loop, endpoint, keys, on_message, l, err);
	if (!l->rpc) {
		free(l);
		return -1;
	}
	m->listeners[m->listener_count++] = l;
	return 0;
}

void
pr_merger_destroy(struct pr_merger **mp)
{
	struct pr_merger *m = *mp;

	*mp = NULL;
	if (!m)
		return;
	pr_timer_destroy(&m->timer);
	pr_merger_wait_end(m);
	pr_merger_orders_end(m);
	if (m->peers)
		pr_peers_destroy(&m->peers);
	for (size_t i = 0; i < m->query_count; i++) {
		pr_fanout_stop(m->queries[i], "the merger was stopped");
		pr_fanout_destroy(&m->queries[i]);
	}
	pr_pcap_over_ip_free(&m->pcap_over_ip);
	for (size_t i = 0; i < m->listener_count; i++) {
		pr_rpc_destroy(&m->listeners[i]->rpc);
		free(m->listeners[i]);
	}
	pr_registry_free(&m->registry);
	pr_summaries_destroy(&m->summaries);
	free(m->listeners);
	free(m->queries);
	free(m->clients);
	free(m);
}
