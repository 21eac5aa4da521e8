/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/server_internal.h"

#include "merger/pcap_over_ip.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/clock.h"
#include "proto/base/log.h"

#define TICK_NS (100 * PR_NS_PER_MS)

void
prm_merger_reply(const struct prm_address *to, uint64_t id, Packrack__Envelope *env)
{
	env->id = id;
	pr_rpc_send(to->rpc, &to->peer, env, NULL);
}

void
prm_merger_refuse(
	const struct prm_address *to, uint64_t id, const char *text, bool bad_request)
{
	Packrack__Failure failure = PACKRACK__FAILURE__INIT;
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;

	failure.text = (char *)text;
	failure.bad_request = bad_request;
	env.body_case = PACKRACK__ENVELOPE__BODY_FAILURE;
	env.failure = &failure;
	prm_merger_reply(to, id, &env);
}

/* ---- other mergers ---- */

static void
on_peer(struct prm_merger *m, const struct prm_address *from, const Packrack__Envelope *env)
{
	Packrack__Envelope reply = PACKRACK__ENVELOPE__INIT;
	Packrack__Peer me = PACKRACK__PEER__INIT;

	me.name = (char *)(m->options.name ? m->options.name : "");
	reply.body_case = PACKRACK__ENVELOPE__BODY_PEER;
	reply.peer = &me;
	prm_merger_reply(from, env->id, &reply);
}

static void
on_route(void *arg)
{
	struct prm_merger *m = arg;

	prm_merger_wait_over(m, pr_now_mono());
	prm_merger_reap(m);
}

int
prm_merger_peer(struct prm_merger *m, const char *endpoint, const struct pr_rpc_keys *keys,
	struct pr_error *err)
{
	if (!m->peers)
		m->peers =
			prm_peers_create(m->loop, m->options.name, &m->duty, on_route, m);
	if (!m->peers)
		return pr_error_set(err, "no memory for other mergers");
	return prm_peers_add(m->peers, endpoint, keys, err);
}

static void
on_command(
	struct prm_merger *m, const struct prm_address *from, const Packrack__Envelope *env)
{
	Packrack__CommandDone done = PACKRACK__COMMAND_DONE__INIT;
	Packrack__Envelope reply = PACKRACK__ENVELOPE__INIT;
	struct pr_error text = {""};

	if (!strcmp(env->command->verb, "delete") || !strcmp(env->command->verb, "store")) {
		prm_merger_order(m, from, env);
		return;
	}
	if (!strcmp(env->command->verb, "cancel"))
		done.ok = prm_merger_cancel_number(m, env->command->number, &text);
	else if (strcmp(env->command->verb, "forget"))
		pr_error_set(&text, "a merger does not %s: ask the dispatcher",
			env->command->verb);
	else if (prm_registry_forget(&m->registry, env->command->node)) {
		prm_summaries_forget(m->summaries, env->command->node);
		done.ok = true;
	} else
		pr_error_set(&text, "the merger knows no node %s", env->command->node);
	done.text = text.text;
	reply.body_case = PACKRACK__ENVELOPE__BODY_COMMAND_DONE;
	reply.command_done = &done;
	prm_merger_reply(from, env->id, &reply);
}

static void
on_status(
	struct prm_merger *m, const struct prm_address *from, const Packrack__Envelope *env)
{
	prm_merger_status(m, from, env->id);
}

/* ---- all messages ---- */

/* Who may send which: proto/rpc/roles.h. */
static const struct {
	Packrack__Envelope__BodyCase body;
	void (*call)(struct prm_merger *m, const struct prm_address *from,
		const Packrack__Envelope *env);
} messages[] = {
	{PACKRACK__ENVELOPE__BODY_HELLO, prm_merger_on_hello},
	{PACKRACK__ENVELOPE__BODY_COVERAGE, prm_merger_on_coverage},
	{PACKRACK__ENVELOPE__BODY_SUMMARY, prm_merger_on_summary},
	{PACKRACK__ENVELOPE__BODY_BATCH, prm_merger_on_answer},
	{PACKRACK__ENVELOPE__BODY_END, prm_merger_on_answer},
	{PACKRACK__ENVELOPE__BODY_FAILURE, prm_merger_on_answer},
	{PACKRACK__ENVELOPE__BODY_QUERY, prm_merger_on_query},
	{PACKRACK__ENVELOPE__BODY_CREDIT, prm_merger_on_credit},
	{PACKRACK__ENVELOPE__BODY_CANCEL, prm_merger_on_cancel},
	{PACKRACK__ENVELOPE__BODY_STATUS_REQUEST, on_status},
	{PACKRACK__ENVELOPE__BODY_PEER, on_peer},
	{PACKRACK__ENVELOPE__BODY_ROUTE_REQUEST, prm_merger_judge},
	{PACKRACK__ENVELOPE__BODY_COMMAND, on_command},
	{PACKRACK__ENVELOPE__BODY_COMMAND_DONE, prm_merger_ordered},
};

static void
on_message(void *arg, const struct pr_rpc_peer *peer, const Packrack__Envelope *env)
{
	struct listener *l = arg;
	struct prm_merger *m = l->merger;
	struct prm_address from = {l->rpc, *peer};

	prm_registry_heard(&m->registry, &from, pr_now_mono(), pr_now_real());
	for (size_t i = 0; i < sizeof(messages) / sizeof(messages[0]); i++) {
		if (messages[i].body != env->body_case)
			continue;
		messages[i].call(m, &from, env);
		prm_merger_reap(m);
		return;
	}
	prm_merger_refuse(
		&from, env->id, "this is a merger: it takes no such request", true);
}

static void
tick(void *arg)
{
	struct prm_merger *m = arg;
	int64_t now = pr_now_mono();

	if (m->peers)
		prm_peers_tick(m->peers, now);
	prm_merger_wait_over(m, now);
	prm_merger_orders_tick(m, now);
	for (size_t i = 0; m->query_count && i < m->registry.count; i++) {
		struct prm_address *node = &m->registry.nodes[i]->address;
		if (!pr_rpc_admits(node->rpc, &node->peer))
			prm_merger_node_lost(m, node, "its key was revoked");
	}
	for (size_t i = 0; i < m->query_count; i++) {
		if (!m->clients[i].rpc || /* it is one of ours */
			pr_rpc_probe(m->clients[i].rpc, &m->clients[i].peer))
			prm_fanout_tick(m->queries[i], now);
		else
			prm_fanout_cancel(m->queries[i]);
	}
	prm_pcap_over_ip_tick(m->pcap_over_ip, now);
	prm_merger_reap(m);
	if (prm_registry_expire(&m->registry, now))
		prm_merger_forget_summaries(m);
}

/* ---- life ---- */

struct prm_merger *
prm_merger_create(struct pr_loop *loop, const struct prm_merger_options *options,
	struct pr_error *err)
{
	struct prm_merger *m = calloc(1, sizeof(*m));

	if (!m) {
		pr_error_set(err, "no memory for a merger");
		return NULL;
	}
	m->loop = loop;
	m->options = *options;
	if (!m->options.max_queries)
		m->options.max_queries = PRM_MERGER_QUERIES_DEFAULT;
	m->queries = calloc(m->options.max_queries, sizeof(*m->queries));
	m->clients = calloc(m->options.max_queries, sizeof(*m->clients));
	m->duty = (struct prm_duty){.mergers = {{.name = "", .alive = true}}, .count = 1};
	m->summaries = prm_summaries_create(m->options.summaries, &m->duty, err);
	m->timer = pr_timer_create(loop, TICK_NS, tick, m, err);
	if (m->queries && m->clients && m->timer && m->summaries)
		return m;
	if (m->timer)
		pr_error_set(err, "no memory for a merger");
	prm_merger_destroy(&m);
	return NULL;
}

int
prm_merger_listen(struct prm_merger *m, const char *endpoint,
	const struct pr_rpc_keys *keys, struct pr_error *err)
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
prm_merger_destroy(struct prm_merger **mp)
{
	struct prm_merger *m = *mp;

	*mp = NULL;
	if (!m)
		return;
	pr_timer_destroy(&m->timer);
	prm_merger_wait_end(m);
	prm_merger_orders_end(m);
	if (m->peers)
		prm_peers_destroy(&m->peers);
	for (size_t i = 0; i < m->query_count; i++) {
		prm_fanout_stop(m->queries[i], "the merger was stopped");
		prm_fanout_destroy(&m->queries[i]);
	}
	prm_pcap_over_ip_free(&m->pcap_over_ip);
	for (size_t i = 0; i < m->listener_count; i++) {
		pr_rpc_destroy(&m->listeners[i]->rpc);
		free(m->listeners[i]);
	}
	prm_registry_free(&m->registry);
	prm_summaries_destroy(&m->summaries);
	free(m->listeners);
	free(m->queries);
	free(m->clients);
	free(m);
}
