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

/* ---- queries ---- */

static void
query_remove(struct pr_merger *m, size_t at)
{
	uint64_t asked, left_out;

	m->packets_merged += pr_fanout_matched(m->queries[at]);
	pr_fanout_routed(m->queries[at], &asked, &left_out);
	m->nodes_asked += asked;
	m->nodes_left_out += left_out;
	pr_fanout_destroy(&m->queries[at]);
	m->query_count--;
	m->queries[at] = m->queries[m->query_count];
	m->clients[at] = m->clients[m->query_count];
}

static void
queries_reap(struct pr_merger *m)
{
	for (size_t i = m->query_count; i-- > 0;)
		if (pr_fanout_done(m->queries[i]))
			query_remove(m, i);
}

struct pr_fanout *
pr_merger_query(struct pr_merger *m, const struct pr_address *from, uint64_t id)
{
	for (size_t i = 0; i < m->query_count; i++)
		if (pr_fanout_is_client(m->queries[i], from, id))
			return m->queries[i];
	return NULL;
}

static struct pr_fanout *
query_add(struct pr_merger *m, struct pr_fanout_options *o, struct pr_error *err)
{
	struct pr_fanout *f;

	o->number = m->queries_total + 1;
	o->registry = &m->registry;
	o->summaries = m->summaries;
	o->next_id = &m->next_id;
	o->mono = pr_now_mono();
	o->real = pr_now_real();
	o->silent_ns = m->options.silent_ns;
	f = pr_fanout_create(o, err);
	if (!f)
		return NULL;
	m->queries_total++;
	m->queries[m->query_count] = f;
	m->clients[m->query_count++] = o->client;
	return f;
}

static bool
room_for_one(struct pr_merger *m, struct pr_error *err)
{
	if (m->query_count + m->waiting_count < m->options.max_queries)
		return true;
	m->queries_refused++;
	pr_error_set(err,
		"%zu queries are running, which is all that --max-queries allows: "
		"try again later",
		m->query_count + m->waiting_count);
	return false;
}

struct pr_fanout *
pr_merger_ask(struct pr_merger *m, const Packrack__Query *query,
	int (*deliver)(void *arg, const Packrack__Envelope *env), void *arg,
	struct pr_error *err)
{
	struct pr_fanout_options o = {
		.query = query, .deliver = deliver, .deliver_arg = arg};

	return room_for_one(m, err) ? query_add(m, &o, err) : NULL;
}

bool
pr_merger_begin(struct pr_merger *m, const struct pr_address *from, uint64_t id,
	const Packrack__Query *query, const struct pr_verdicts *verdicts)
{
	struct pr_fanout_options o = {
		.client = *from, .id = id, .query = query, .verdicts = verdicts};
	struct pr_error err;

	if (!query_add(m, &o, &err)) {
		pr_merger_refuse(from, id, err.text, false);
		return false;
	}
	pr_log_with(PR_LOG_INFO,
		PR_LOG_FIELDS({"user", from->peer.user}, {"query", query->text}),
		"query of %s: %s", from->peer.user[0] ? from->peer.user : "a client",
		query->text[0] ? query->text : "all packets");
	return true;
}

static void
on_query(struct pr_merger *m, const struct pr_address *from, const Packrack__Envelope *env)
{
	struct pr_error err;

	if (pr_merger_query(m, from, env->id))
		pr_merger_refuse(
			from, env->id, "a query of this number is running already", true);
	else if (!room_for_one(m, &err))
		pr_merger_refuse(from, env->id, err.text, false);
	else if (!pr_merger_wait(m, from, env->id, env->query))
		pr_merger_begin(m, from, env->id, env->query, NULL);
}

static void
on_credit(struct pr_merger *m, const struct pr_address *from, const Packrack__Envelope *env)
{
	struct pr_fanout *f = pr_merger_query(m, from, env->id);

	if (f) /* else it has ended meanwhile, or has not begun */
		pr_fanout_credit(f, env->credit->batches);
	else
		pr_merger_wait_message(m, from, env);
}

static void
on_cancel(struct pr_merger *m, const struct pr_address *from, const Packrack__Envelope *env)
{
	struct pr_fanout *f = pr_merger_query(m, from, env->id);

	if (f)
		pr_fanout_cancel(f);
	else
		pr_merger_wait_message(m, from, env);
}

static void
on_answer(struct pr_merger *m, const struct pr_address *from, const Packrack__Envelope *env)
{
	for (size_t i = 0; i < m->query_count; i++)
		if (pr_fanout_from_node(m->queries[i], from, env, pr_now_mono()))
			return;
	m->messages_unasked++; /* of a query that was cancelled, for one */
}

/* ---- nodes ---- */

static void
node_lost(struct pr_merger *m, const struct pr_address *address, const char *why)
{
	for (size_t i = 0; i < m->query_count; i++)
		pr_fanout_lost(m->queries[i], address, why);
}

/* A key speaks for the node that it was enrolled as, and for parts of it: NAME/PART. */
static bool
speaks_for(const struct pr_rpc_peer *peer, const char *name)
{
	size_t len = strlen(peer->user);

	return !len ||
	       (!strncmp(name, peer->user, len) && (!name[len] || name[len] == '/'));
}

static void
refuse_name(
	struct pr_merger *m, const struct pr_address *from, const Packrack__Envelope *env)
{
	struct pr_error text;

	pr_error_set(&text,
		"node %s has the key that is enrolled as %s: give it that --name",
		env->hello->name, from->peer.user);
	if (pr_now_mono() - m->said_name > PR_NS_PER_S)
		pr_log_warning("%s", text.text);
	m->said_name = pr_now_mono();
	pr_merger_refuse(from, env->id, text.text, true);
}

static void
on_hello(struct pr_merger *m, const struct pr_address *from, const Packrack__Envelope *env)
{
	struct pr_address before;
	struct pr_error err;

	if (!speaks_for(&from->peer, env->hello->name)) {
		refuse_name(m, from, env);
		return;
	}
	switch (pr_registry_hello(&m->registry, from, env->hello, pr_now_mono(),
		pr_now_real(), &before, &err)) {
	case PR_HELLO_SAME:
		break;
	case PR_HELLO_NEW:
		pr_log_with(PR_LOG_INFO,
			PR_LOG_FIELDS(
				{"node", env->hello->name}, {"volume", env->hello->volume}),
			"node %s is here (volume %s)", env->hello->name,
			env->hello->volume);
		break;
	case PR_HELLO_BACK:
		pr_log_node(PR_LOG_INFO, env->hello->name, "node %s is here again",
			env->hello->name);
		node_lost(m, &before, "it was restarted during the query");
		break;
	case PR_HELLO_REFUSED:
		pr_log_warning("%s", err.text);
		break;
	}
}

/* ---- summaries ---- */

static void
want_summaries(struct pr_merger *m, const struct pr_node *node)
{
	Packrack__SummaryWant want = PACKRACK__SUMMARY_WANT__INIT;
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;
	uint64_t numbers[PR_SUMMARIES_WANT_MAX];

	want.n_numbers = pr_summaries_want(
		m->summaries, node->hello->name, pr_now_mono(), &want.boot, numbers);
	want.numbers = numbers;
	env.body_case = PACKRACK__ENVELOPE__BODY_SUMMARY_WANT;
	env.summary_want = &want;
	if (want.n_numbers)
		pr_merger_reply(&node->address, 0, &env);
}

static void
on_coverage(
	struct pr_merger *m, const struct pr_address *from, const Packrack__Envelope *env)
{
	struct pr_node *node =
		pr_registry_heard(&m->registry, from, pr_now_mono(), pr_now_real());
	struct pr_error err;

	if (!node)
		return; /* one that was refused */
	if (pr_summaries_coverage(m->summaries, node->hello->name, env->coverage,
		    pr_now_mono(), &err) < 0)
		pr_log_warning("%s", err.text);
	want_summaries(m, node);
}

static void
on_summary(
	struct pr_merger *m, const struct pr_address *from, const Packrack__Envelope *env)
{
	struct pr_node *node =
		pr_registry_heard(&m->registry, from, pr_now_mono(), pr_now_real());

	if (!node)
		return;
	pr_summaries_body(m->summaries, node->hello->name, env->summary);
	want_summaries(m, node);
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
	queries_reap(m);
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

/* Somebody else's, by the number that the status gives it. Its client is told End, cancelled. */
static bool
cancel_number(struct pr_merger *m, uint64_t number, struct pr_error *text)
{
	for (size_t i = 0; i < m->query_count; i++)
		if (pr_fanout_number(m->queries[i]) == number) {
			pr_fanout_break_off(m->queries[i]);
			pr_error_set(text, "query %llu is cancelled",
				(unsigned long long)number);
			return true;
		}
	pr_error_set(text, "no query %llu is running: packrack queries list names them",
		(unsigned long long)number);
	return false;
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
		done.ok = cancel_number(m, env->command->number, &text);
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
	{PACKRACK__ENVELOPE__BODY_HELLO, on_hello},
	{PACKRACK__ENVELOPE__BODY_COVERAGE, on_coverage},
	{PACKRACK__ENVELOPE__BODY_SUMMARY, on_summary},
	{PACKRACK__ENVELOPE__BODY_BATCH, on_answer},
	{PACKRACK__ENVELOPE__BODY_END, on_answer},
	{PACKRACK__ENVELOPE__BODY_FAILURE, on_answer},
	{PACKRACK__ENVELOPE__BODY_QUERY, on_query},
	{PACKRACK__ENVELOPE__BODY_CREDIT, on_credit},
	{PACKRACK__ENVELOPE__BODY_CANCEL, on_cancel},
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
		queries_reap(m);
		return;
	}
	pr_merger_refuse(
		&from, env->id, "this is a merger: it takes no such request", true);
}

/* Of nodes that the registry has forgotten. */
static void
forget_summaries(struct pr_merger *m)
{
	const char *name;

	for (size_t i = 0; (name = pr_summaries_name(m->summaries, i));)
		if (pr_registry_find(&m->registry, name))
			i++;
		else
			pr_summaries_forget(m->summaries, name);
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
			node_lost(m, node, "its key was revoked");
	}
	for (size_t i = 0; i < m->query_count; i++) {
		if (!m->clients[i].rpc || /* it is one of ours */
			pr_rpc_probe(m->clients[i].rpc, &m->clients[i].peer))
			pr_fanout_tick(m->queries[i], now);
		else
			pr_fanout_cancel(m->queries[i]);
	}
	pr_pcap_over_ip_tick(m->pcap_over_ip, now);
	queries_reap(m);
	if (pr_registry_expire(&m->registry, now))
		forget_summaries(m);
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
