/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/server.h"

#include <utlist.h>

#include "merger/audit.h"
#include "merger/peers.h"
#include "merger/steering.h"
#include "proto/base/array.h"
#include "proto/base/log.h"
#include "proto/rpc/admission.h"
#include "proto/rpc/status.h"

/*
 * Sections: running queries; requests that wait for others; nodes and their summaries;
 * commands for nodes; status; other mergers; the table of messages; start and stop.
 */

#define TICK_NS (100 * PR_NS_PER_MS)

struct listener {
	struct prm_merger *merger;
	struct pr_rpc *rpc;
};

/*
 * A request of client `from`, under its id, that waits for an answer of another program.
 * One of three:
 *
 * A query is sent to the mergers that are responsible for its time range first. It waits at
 * most a fraction of a second, until they have reported which of their summaries exclude a
 * match.
 *
 * A command about a node's packets goes to the node's indexer, which passes it to its
 * logger; one about classes and cutoffs to a dispatcher. They get the name of the key's user, so a user with a
 * key cannot claim to be another.
 */
struct waiting {
	struct waiting *next;
	struct prm_peer_ref from;
	uint64_t id;
	/* a query */
	Packrack__Query *query; /* NULL: not a query */
	struct prm_inquiry inquiry;
	uint32_t credit; /* credit that arrived while the query waits */
	bool cancelled;
	/* a command */
	struct prm_peer_ref node; /* or dispatcher */
	uint64_t node_id; /* id of the command there */
	int64_t deadline; /* monotonic ns */
};
#define WAITING_NS (60 * PR_NS_PER_S) /* a step of a command takes a fraction of a second */

struct figures {
	uint64_t queries_total, queries_refused, queries_cancelled;
	uint64_t packets_merged, messages_unasked, hellos_refused;
	uint64_t nodes_asked, nodes_left_out; /* over all queries */
	/* filled when the status is asked for */
	uint64_t audit_lost;
	struct prm_canary_figures canary;
	struct prm_summaries_figures summaries;
	uint64_t query_count, messages_bad, mergers_alive, summary_bytes_received;
};

struct prm_merger {
	struct pr_loop *loop;
	struct prm_merger_options options;
	struct pr_timer *timer;
	struct listener **listeners;
	size_t listener_count;
	struct prm_registry registry;
	struct prm_ownership ownership;
	struct prm_summaries *summaries;
	struct prm_peers *peers;
	struct prm_steering steering;
	struct waiting *waiting;
	struct prm_fanout **queries;
	size_t query_count;
	struct prm_canary canary;
	uint64_t next_id;
	struct figures figures;
	int64_t last_name_warning; /* monotonic ns */
};

static void
command_done(const struct prm_peer_ref *to, uint64_t id, bool ok, const char *text)
{
	Packrack__CommandDone done = PACKRACK__COMMAND_DONE__INIT;

	done.ok = ok;
	done.text = (char *)text;
	prm_send(to, id, PACKRACK__ENVELOPE__BODY_COMMAND_DONE, &done);
}

/* ---- queries that run ---- */

static struct waiting *
waiting_add(struct prm_merger *m, const struct prm_peer_ref *from, uint64_t id)
{
	struct waiting *w = calloc(1, sizeof(*w));

	if (w) {
		*w = (struct waiting){
			.from = *from, .id = id, .deadline = pr_now_mono() + WAITING_NS};
		LL_PREPEND(m->waiting, w);
	}
	return w;
}

/* Removes queries that have ended. */
static void
queries_reap(struct prm_merger *m)
{
	for (size_t i = m->query_count; i-- > 0;) {
		const struct prm_fanout_state *state = prm_fanout_state(m->queries[i]);

		if (!state->done || state->untold)
			continue;
		m->figures.queries_cancelled += state->cancelled;
		m->figures.packets_merged += state->matched;
		m->figures.nodes_asked += state->asked;
		m->figures.nodes_left_out += state->left_out;
		prm_audit_end(m->options.audit, m->queries[i]);
		prm_fanout_destroy(&m->queries[i], NULL);
		m->queries[i] = m->queries[--m->query_count];
	}
}

static struct prm_fanout *
query_find(struct prm_merger *m, const struct prm_peer_ref *from, uint64_t id)
{
	for (size_t i = 0; i < m->query_count; i++)
		if (prm_fanout_is_client(m->queries[i], from, id))
			return m->queries[i];
	return NULL;
}

static struct prm_fanout *
query_add(struct prm_merger *m, struct prm_fanout_options *o, struct pr_error *err)
{
	o->number = m->figures.queries_total + 1;
	o->registry = &m->registry;
	o->summaries = m->summaries;
	o->next_id = &m->next_id;
	o->mono = pr_now_mono();
	o->real = pr_now_real();
	o->silent_ns = m->options.silent_ns;
	struct prm_fanout *f = prm_fanout_create(o, err);
	if (!f)
		return NULL;
	m->figures.queries_total++;
	prm_audit_query(m->options.audit, f);
	return m->queries[m->query_count++] = f;
}

/* Queries of clients: of all, of this one's user, of all who are not operators. */
struct slots {
	size_t all, user, readers;
};

static void
count_slot(
	struct slots *slots, const struct pr_rpc_peer *of, const struct pr_rpc_peer *peer)
{
	if (!of) /* this process */
		return;
	slots->all++;
	slots->user += !strcmp(of->who, peer->who);
	slots->readers += !(of->role & PR_ROLE_OPERATE);
}

static bool
has_room(struct prm_merger *m, const struct pr_rpc_peer *peer, struct pr_error *err)
{
	const struct prm_merger_options *o = &m->options;
	size_t reserve = (o->max_queries + 7) / 8;
	struct slots slots = {0};

	for (size_t i = 0; i < m->query_count; i++)
		count_slot(&slots, prm_fanout_state(m->queries[i])->client, peer);
	for (const struct waiting *w = m->waiting; w; w = w->next)
		count_slot(&slots, w->query ? &w->from.peer : NULL, peer);
	if (slots.all >= o->max_queries)
		pr_error_set(err,
			"%zu queries are running, which is all that --max-queries allows: "
			"try again later",
			slots.all);
	else if (slots.user >= o->max_user_queries)
		pr_error_set(err,
			"%zu queries of %s are running, which is all that "
			"--max-user-queries allows: try again when one has ended",
			slots.user, peer->who);
	else if (o->max_queries > 1 && !(peer->role & PR_ROLE_OPERATE) &&
		 slots.readers >= o->max_queries - reserve)
		pr_error_set(err,
			"%zu queries of readers are running, and %zu places are kept for "
			"operators: try again later",
			slots.readers, reserve);
	else
		return true;
	m->figures.queries_refused++;
	return false;
}

/* exclusions: from other mergers, or NULL. NULL: the client was told why not. */
static struct prm_fanout *
query_begin(struct prm_merger *m, const struct prm_peer_ref *from, uint64_t id,
	const Packrack__Query *query, const struct prm_exclusions *exclusions)
{
	Packrack__End recount = PACKRACK__END__INIT;
	Packrack__Query own = *query;
	struct prm_fanout_options o = {.client = *from,
		.id = id,
		.query = &own,
		.exclusions = exclusions,
		.signer = m->options.signer};
	struct prm_fanout *f = NULL;
	struct pr_error err;

	if (query->tally && prm_handout_anonymizes(&from->peer)) {
		/* sums are of what comes through the policy: the client asks for packets then, and counts them */
		recount.counted_twice = true;
		prm_send(from, id, PACKRACK__ENVELOPE__BODY_END, &recount);
		return NULL;
	}
	if (!prm_handout_limits(m->options.handout, &from->peer) ||
		(o.gate = prm_gate_create(
			 m->options.handout, &from->peer, &own, pr_now_real(), &err)))
		f = query_add(m, &o, &err);
	if (!f) {
		prm_gate_destroy(&o.gate);
		prm_audit_refused(m->options.audit, &from->peer, query, err.text);
		pr_rpc_refuse(from->rpc, &from->peer, id, err.text, false);
		return NULL;
	}
	pr_log_with(PR_LOG_INFO,
		PR_LOG_FIELDS({"user", from->peer.user}, {"query", query->text}),
		"query of %s: %s", from->peer.user[0] ? from->peer.user : "a client",
		query->text[0] ? query->text : "all packets");
	return f;
}

static void
on_answer(struct prm_merger *m, const struct prm_peer_ref *from,
	const Packrack__Envelope *env)
{
	Packrack__Cancel cancel = PACKRACK__CANCEL__INIT;

	for (size_t i = 0; i < m->query_count; i++)
		if (prm_fanout_on_message(m->queries[i], from, env, pr_now_mono()))
			return;
	if (m->canary.fanout &&
		prm_fanout_on_message(m->canary.fanout, from, env, pr_now_mono()))
		return;
	m->figures.messages_unasked++; /* for example to a query that was cancelled */
	if (env->body_case == PACKRACK__ENVELOPE__BODY_BATCH) /* it may have missed that */
		prm_send(from, env->id, PACKRACK__ENVELOPE__BODY_CANCEL, &cancel);
}

/*
 * Cancels the query with this number in the status, of any client. That client gets End,
 * cancelled.
 */
static bool
cancel_number(struct prm_merger *m, uint64_t number, struct pr_error *text)
{
	for (size_t i = 0; i < m->query_count; i++)
		if (prm_fanout_state(m->queries[i])->number == number) {
			prm_fanout_cancel_by_other(m->queries[i]);
			return pr_error_as(true, text, "query %llu is cancelled",
				(unsigned long long)number);
		}
	return pr_error_as(false, text,
		"no query %llu is running: see 'packrack queries list'",
		(unsigned long long)number);
}

/* ---- requests that wait for others ---- */

static void
waiting_remove(struct prm_merger *m, struct waiting *w)
{
	LL_DELETE(m->waiting, w);
	if (w->query) {
		prm_peers_forget(m->peers, &w->inquiry);
		packrack__query__free_unpacked(w->query, NULL);
	}
	free(w);
}

/* Asks other mergers about the query, if necessary. False: the query need not wait. */
static bool
wait_for_mergers(struct prm_merger *m, const struct prm_peer_ref *from, uint64_t id,
	const Packrack__Query *query)
{
	int64_t now = pr_now_mono();
	struct prm_route route;
	bool asked = false;

	/* a query that follows is sent to all nodes (fanout.c) */
	if (m->ownership.count < 2 || query->follow)
		return false;
	struct waiting *w = waiting_add(m, from, id);
	if (!w)
		return false;
	w->query = pr_message_copy(&query->base);
	if (w->query && prm_route_begin(&route, m->summaries, w->query, now) == 0) {
		asked = prm_peers_ask(m->peers, &route, &m->registry, now, &w->inquiry);
		prm_route_end(&route);
	}
	if (!asked)
		waiting_remove(m, w);
	return asked;
}

/*
 * Begins a query when all mergers have answered or its deadline has passed. A command whose
 * deadline has passed fails.
 */
static void
waiting_tick(struct prm_merger *m, int64_t mono)
{
	for (struct waiting *w = m->waiting, *next; w; w = next) {
		struct prm_fanout *f = NULL;

		next = w->next;
		if (w->query ? w->inquiry.left && mono < w->inquiry.deadline &&
					!w->cancelled
			     : mono < w->deadline)
			continue;
		if (w->query)
			f = query_begin(
				m, &w->from, w->id, w->query, &w->inquiry.exclusions);
		else
			command_done(&w->from, w->id, false,
				"no answer within a minute: 'packrack data list' shows how "
				"far a node came");
		if (f && w->credit)
			prm_fanout_credit(f, w->id, w->credit);
		if (f && w->cancelled)
			prm_fanout_cancel_by_client(f, w->id);
		waiting_remove(m, w);
	}
}

/* ---- what clients send of a query ---- */

static void
on_query(struct prm_merger *m, const struct prm_peer_ref *from,
	const Packrack__Envelope *env)
{
	if (query_find(m, from, env->id))
		pr_rpc_refuse(from->rpc, &from->peer, env->id,
			"a query of this number is running already", true);
	else if (prm_handout_limits(m->options.handout, &from->peer) ||
		 !wait_for_mergers(m, from, env->id, env->query))
		query_begin(m, from, env->id, env->query, NULL);
}

/* Credit or Cancel; one for a query that has ended in the meantime is ignored. */
static void
on_flow(struct prm_merger *m, const struct prm_peer_ref *from,
	const Packrack__Envelope *env)
{
	bool cancel = env->body_case == PACKRACK__ENVELOPE__BODY_CANCEL;
	struct prm_fanout *f = query_find(m, from, env->id);
	struct waiting *w = f ? NULL : m->waiting;

	while (w && (!w->query || w->id != env->id || !prm_peer_ref_equal(&w->from, from)))
		w = w->next;
	if (f && cancel)
		prm_fanout_cancel_by_client(f, env->id);
	else if (f)
		prm_fanout_credit(f, env->id, env->credit->batches);
	else if (w && cancel)
		w->cancelled = true;
	else if (w)
		w->credit += env->credit->batches;
}

/* ---- nodes and their summaries ---- */

/* Tells running queries not to wait for the node at this address any more. */
static void
node_lost(struct prm_merger *m, const struct prm_peer_ref *address, const char *why)
{
	for (size_t i = 0; i < m->query_count; i++)
		prm_fanout_on_node_lost(m->queries[i], address, why);
	if (m->canary.fanout)
		prm_fanout_on_node_lost(m->canary.fanout, address, why);
}

/*
 * Refuses a Hello whose node name does not fit the key: NAME, or a part of it NAME/PART,
 * where NAME is the name that the key was enrolled with.
 */
static void
on_hello(struct prm_merger *m, const struct prm_peer_ref *from,
	const Packrack__Envelope *env)
{
	const char *user = from->peer.user, *name = env->hello->name;
	enum prm_hello change = PRM_HELLO_REFUSED;
	int64_t now = pr_now_mono();
	size_t len = strlen(user);
	struct prm_peer_ref before;
	struct pr_error err;

	if (len && (strncmp(name, user, len) || (name[len] && name[len] != '/')))
		pr_error_set(&err,
			"the key of node %s is enrolled as %s: give the node that --name",
			name, user);
	else
		change = prm_registry_hello(
			&m->registry, from, env->hello, now, pr_now_real(), &before, &err);
	switch (change) {
	case PRM_HELLO_SAME:
		break;
	case PRM_HELLO_NEW:
		pr_log_with(PR_LOG_INFO,
			PR_LOG_FIELDS({"node", name}, {"volume", env->hello->volume}),
			"node %s is here (volume %s)", name, env->hello->volume);
		break;
	case PRM_HELLO_BACK:
		pr_log_node(PR_LOG_INFO, name, "node %s is here again", name);
		node_lost(m, &before, "it was restarted during the query");
		break;
	case PRM_HELLO_REFUSED:
		m->figures.hellos_refused++;
		if (now - m->last_name_warning > PR_NS_PER_S)
			pr_log_warning("%s", err.text);
		m->last_name_warning = now;
		pr_rpc_refuse(from->rpc, &from->peer, env->id, err.text, true);
		break;
	}
	if (change != PRM_HELLO_REFUSED)
		prm_steering_hello(&m->steering, prm_registry_find(&m->registry, name));
}

static void
on_state(struct prm_merger *m, const struct prm_peer_ref *from,
	const Packrack__Envelope *env)
{
	if (prm_registry_at(&m->registry, from))
		prm_steering_state(&m->steering, env->state);
}

/* Takes Coverage and Summary. Ignores them from a node whose Hello was refused. */
static void
on_summaries(struct prm_merger *m, const struct prm_peer_ref *from,
	const Packrack__Envelope *env)
{
	int64_t now = pr_now_mono();
	struct prm_node_info *node =
		prm_registry_heard(&m->registry, from, now, pr_now_real());
	Packrack__SummaryWant want = PACKRACK__SUMMARY_WANT__INIT;
	uint64_t numbers[PRM_SUMMARIES_WANT_MAX];
	struct pr_error err;

	if (!node)
		return;
	const char *name = node->hello->name;
	if (env->body_case == PACKRACK__ENVELOPE__BODY_SUMMARY)
		prm_summaries_body(m->summaries, name, env->summary);
	else if (prm_summaries_coverage(m->summaries, name, env->coverage, now, &err) < 0)
		pr_log_warning("%s", err.text);
	want.n_numbers = prm_summaries_want(m->summaries, name, now, &want.boot, numbers);
	want.numbers = numbers;
	if (want.n_numbers)
		prm_send(&node->address, 0, PACKRACK__ENVELOPE__BODY_SUMMARY_WANT, &want);
}

static bool
forget(struct prm_merger *m, const char *node)
{
	prm_summaries_forget(m->summaries, node);
	return prm_registry_forget(&m->registry, node);
}

/* ---- commands ---- */

static void
forward_to(struct prm_merger *m, const struct prm_peer_ref *from,
	const Packrack__Envelope *env, const struct prm_peer_ref *to)
{
	struct waiting *w = waiting_add(m, from, env->id);
	Packrack__Command command = *env->command;

	if (!w) {
		command_done(
			from, env->id, false, "the merger has no memory for a command");
		return;
	}
	w->node = *to;
	w->node_id = ++m->next_id;
	if (from->peer.user[0])
		command.user = (char *)from->peer.user;
	if (prm_send(&w->node, w->node_id, PACKRACK__ENVELOPE__BODY_COMMAND, &command) == 0)
		return;
	waiting_remove(m, w);
	command_done(from, env->id, false, "the connection is gone: try again");
}

static bool
steer_hold(struct prm_merger *m, const struct prm_peer_ref *from,
	const Packrack__Command *command, struct pr_error *err)
{
	Packrack__Command c = *command;

	if (from->peer.user[0])
		c.user = (char *)from->peer.user;
	if (!strcmp(c.verb, "hold-release"))
		c.hold = NULL;
	else if (!c.hold)
		return pr_error_set(err, "hold-add without a hold"), false;
	return prm_steering_hold(&m->steering, &c, err) == 0;
}

static void
on_command(struct prm_merger *m, const struct prm_peer_ref *from,
	const Packrack__Envelope *env)
{
	const char *verb = env->command->verb, *name = env->command->node;
	const struct prm_node_info *node = prm_registry_find(&m->registry, name);
	struct pr_error text = {""};
	bool ok = false,
	     to_node = !strcmp(verb, "delete") || !strcmp(verb, "store") ||
		       !strcmp(verb, "hold"),
	     steers = pr_state_verb(verb);
	struct prm_peer_ref dispatcher;

	prm_audit_command(m->options.audit, &from->peer, env->command);
	if (to_node && node && prm_node_connected(node, pr_now_mono())) {
		forward_to(m, from, env, &node->address);
		return;
	}
	if (steers && prm_steering_dispatcher(&m->steering, &dispatcher, &text)) {
		forward_to(m, from, env, &dispatcher);
		return;
	}
	if (steers)
		; /* text has the reason */
	else if (!strcmp(verb, "hold-add") || !strcmp(verb, "hold-release"))
		ok = steer_hold(m, from, env->command, &text);
	else if (to_node)
		pr_error_set(&text,
			node ? "node %s is silent: when its indexer is back, try again"
			     : "the merger knows no node %s: 'packrack data list' shows "
			       "the nodes",
			name);
	else if (!strcmp(verb, "cancel"))
		ok = cancel_number(m, env->command->number, &text);
	else if (strcmp(verb, "forget"))
		pr_error_set(&text, "a merger does not %s: ask the dispatcher", verb);
	else if (!(ok = forget(m, name)))
		pr_error_set(&text, "the merger knows no node %s", name);
	command_done(from, env->id, ok, text.text);
}

/* The answer of a node or dispatcher. Passes it to the client that gave the command. */
static void
on_command_done(void *arg, const struct prm_peer_ref *from, const Packrack__Envelope *env)
{
	struct prm_merger *m = arg;

	for (struct waiting *w = m->waiting; w; w = w->next)
		if (!w->query && w->node_id == env->id &&
			prm_peer_ref_equal(&w->node, from)) {
			prm_send(&w->from, w->id, env->body_case, env->command_done);
			waiting_remove(m, w);
			return;
		}
	m->figures.messages_unasked++;
}

static void
on_node_done(struct prm_merger *m, const struct prm_peer_ref *from,
	const Packrack__Envelope *env)
{
	on_command_done(m, from, env);
}

/* ---- status ---- */

enum { VALUES_MAX = 64, LINKS_MAX = 10000 };

/* The counters: one row each, in status and in metrics. */

#define PR_COUNTED struct figures
static const struct pr_counter_row rows[] = {
	PR_COUNTER_AS(queries_total, "queries_total", "queries_total",
		"Queries that the merger has received."),
	PR_GAUGE_AS(query_count, "running_query_count", "queries_running",
		"Queries that the merger is answering."),
	PR_COUNTER_OF(queries_refused, "queries_refused",
		"Queries refused because too many were running (--max-queries)."),
	PR_COUNTER_OF(queries_cancelled, "queries_cancelled",
		"Queries that a user has cancelled before their end."),
	PR_COUNTER_OF(packets_merged, "merged_packets",
		"Packets that matched, over all queries that have ended."),
	PR_COUNTER_OF(hellos_refused, "hellos_refused",
		"Hellos of nodes refused: another's name, or more names or links than "
		"allowed."),
	PR_COUNTER_OF(audit_lost, "audit_records_lost",
		"Records of queries and commands that could not be written (--audit)."),
	PR_COUNTER_OF(messages_unasked, "unasked_messages",
		"Answers to no query, as after a cancel."),
	PR_COUNTER_OF(nodes_asked, "nodes_asked",
		"Nodes that queries were sent to, over all queries that have ended."),
	PR_COUNTER_OF(nodes_left_out, "nodes_left_out",
		"Nodes that queries were not sent to, as their summaries exclude a match."),
	PR_COUNTER_OF(canary.queries, "canary_queries",
		"Answers to the merger's own questions for the canary, one a second."),
	PR_COUNTER_OF(canary.packets, "canary_packets", "Packets of the canary found."),
	PR_COUNTER_OF(canary.missing, "canary_missing_packets",
		"Packets of the canary that were not found and should be there."),
	PR_METRIC(canary.first_packet_us, "canary_first_packet_us", PR_GAUGE,
		"canary_first_packet_seconds", PR_US, NULL,
		"Time from the last question to the first packet of its answer."),
	PR_GAUGE_OF(canary.complete, "canary_complete",
		"1 when the last answer was complete and the canary is alive, else 0."),
	PR_GAUGE_OF(summaries.listed, "summaries", "Summaries that nodes have announced."),
	PR_GAUGE_OF(summaries.bodies, "summaries_here", "Summaries that the merger holds."),
	PR_GAUGE_AS(summaries.bytes, "summaries_memory", "summaries_memory_bytes",
		"Memory of the summaries that the merger holds."),
	PR_COUNTER_OF(summaries.received, "summaries_received", "Summaries received."),
	PR_COUNTER_OF(summaries.evicted, "summaries_evicted",
		"Summaries dropped for newer ones, when memory was full."),
	PR_COUNTER_OF(summaries.missed, "summaries_damaged",
		"Summaries that were damaged, or that the nodes no longer had."),
	PR_GAUGE_OF(summaries.clusters, "cluster_blocks",
		"Bit-sliced blocks of the third level: summaries of clusters of nodes."),
	PR_GAUGE_AS(summaries.cluster_bytes, "cluster_memory", "cluster_memory_bytes",
		"Memory of these blocks."),
	PR_COUNTER_OF(messages_bad, "bad_messages", "Messages that could not be read."),
	PR_GAUGE_OF(mergers_alive, "mergers_alive",
		"Mergers that share the duty for summaries and live, with this one."),
	PR_COUNTER_AS(summary_bytes_received, "summary_bytes_received",
		"summaries_received_bytes_total",
		"Bytes that nodes sent for summaries and their announcements.")};

static struct pr_counter_table
fill_figures(struct prm_merger *m)
{
	struct figures *f = &m->figures;

	f->query_count = m->query_count;
	f->audit_lost = prm_audit_lost(m->options.audit);
	f->canary = m->canary.figures;
	f->mergers_alive = 1 + prm_peers_alive(m->peers);
	f->messages_bad = 0;
	for (size_t i = 0; i < m->listener_count; i++)
		f->messages_bad += pr_rpc_bad_messages(m->listeners[i]->rpc);
	prm_summaries_figures(m->summaries, &f->summaries);
	f->summary_bytes_received = f->summaries.bytes_coverage + f->summaries.bytes_bodies;
	return PR_COUNTER_TABLE(rows, f);
}

/* The reply borrows all its texts from the registry. all: of filters, cases and rules, too, which have addresses. */
struct reply {
	Packrack__Status status;
	Packrack__Value value_buf[VALUES_MAX], *values[VALUES_MAX];
};

static void
add_node(Packrack__Status *status, struct prm_node_info *node, int64_t mono,
	const struct prm_summaries *summaries, bool all)
{
	const Packrack__Hello *hello = node->hello;
	Packrack__NodeStatus *s = &node->shown;
	const struct prm_node_summaries *list = prm_summaries_find(summaries, hello->name);

	if (hello->status)
		*s = *hello->status;
	else
		packrack__node_status__init(s);
	if (!all) {
		s->n_holds = s->n_streams = 0;
		s->logger = "";
	}
	s->name = hello->name;
	s->connected = prm_node_connected(node, mono);
	s->last_seen = node->last_seen;
	if (list) {
		/*
		 * at least this many: a node may not know how many of its segments have no
		 * summary
		 */
		s->segments_unsummarized = list->coverage->text[0] != 0;
		for (size_t i = 0; i < list->coverage->n_open; i++)
			s->segments_unsummarized += list->coverage->open[i]->segments;
		s->summaries_told_time = pr_now_real() - (mono - list->heard);
		s->summaries = list->count;
		s->summaries_here = list->bodies;
		s->summary_bytes = list->bytes_coverage + list->bytes_bodies;
		s->cluster = list->coverage->cluster;
	}
	status->nodes[status->n_nodes++] = s;
	for (size_t i = 0; i < hello->n_links && status->n_links < LINKS_MAX; i++) {
		Packrack__LinkInfo *link = hello->links[i];
		bool known = pr_link_is_internal(link->link);

		for (size_t j = 0; !known && j < status->n_links; j++)
			known = status->links[j]->epoch == link->epoch &&
				status->links[j]->link == link->link &&
				status->links[j]->linktype == link->linktype &&
				(status->links[j]->speed == link->speed || !link->speed) &&
				!strcmp(status->links[j]->name, link->name);
		if (!known)
			status->links[status->n_links++] = link;
	}
}

static void
reply_make(struct reply *r, struct prm_merger *m, bool all)
{
	struct pr_values values = PR_VALUE_LIST(r->value_buf, r->values);
	const struct pr_rack_state *known = &m->steering.state;

	r->status = pr_status_of("packrack-merger");
	r->status.state = "running";
	r->status.nodes = calloc(m->registry.count + 1, sizeof(*r->status.nodes));
	r->status.links = calloc(LINKS_MAX, sizeof(*r->status.links));
	r->status.queries = calloc(m->query_count + 1, sizeof(*r->status.queries));
	r->status.rules = calloc(known->count + 1, sizeof(*r->status.rules));
	for (size_t i = 0; r->status.nodes && r->status.links && i < m->registry.count; i++)
		add_node(
			&r->status, m->registry.nodes[i], pr_now_mono(), m->summaries, all);
	if (!all)
		return;
	for (size_t i = 0; r->status.queries && i < m->query_count; i++)
		r->status.queries[r->status.n_queries++] = prm_fanout_report(m->queries[i]);
	for (size_t i = 0; r->status.rules && i < known->count; i++)
		if (!known->items[i]->removed)
			r->status.rules[r->status.n_rules++] = known->items[i];
	pr_values_add_table(&values, fill_figures(m));
	pr_values_add_table(&values, pr_connections_figures());
	r->status.n_values = values.count;
	r->status.values = r->values;
}

static void
reply_free(struct reply *r)
{
	free(r->status.nodes);
	free(r->status.links);
	free(r->status.queries);
	free(r->status.rules);
}

static void
on_status(struct prm_merger *m, const struct prm_peer_ref *from,
	const Packrack__Envelope *env)
{
	struct reply r;

	reply_make(&r, m, !prm_handout_anonymizes(&from->peer));
	prm_send(from, env->id, PACKRACK__ENVELOPE__BODY_STATUS, &r.status);
	reply_free(&r);
}

void
prm_merger_scrape(void *merger, struct pr_metrics_page *page)
{
	struct prm_merger *m = merger;
	struct reply r;

	reply_make(&r, m, true);
	pr_status_metrics_build(page, r.status.program);
	pr_metrics_table(page, "packrack_merger_", fill_figures(m));
	for (size_t i = 0; i < r.status.n_nodes; i++)
		pr_status_metrics_node(
			page, "packrack_merger_node_", r.status.nodes[i], true);
	reply_free(&r);
}

/* ---- other mergers ---- */

static void
on_peer(struct prm_merger *m, const struct prm_peer_ref *from,
	const Packrack__Envelope *env)
{
	Packrack__Peer me = PACKRACK__PEER__INIT;

	me.name = (char *)(m->options.name ? m->options.name : "");
	prm_send(from, env->id, PACKRACK__ENVELOPE__BODY_PEER, &me);
}

static void
on_route_request(struct prm_merger *m, const struct prm_peer_ref *from,
	const Packrack__Envelope *env)
{
	const Packrack__RouteRequest *request = env->route_request;
	Packrack__Route route = PACKRACK__ROUTE__INIT;
	struct prm_exclusions excluded;
	struct prm_route r;

	if (!request->query ||
		prm_route_begin(&r, m->summaries, request->query, pr_now_mono()))
		return;
	prm_peers_answer(&r, request, &excluded);
	route.excluded = excluded.items;
	route.n_excluded = excluded.count;
	prm_send(from, env->id, PACKRACK__ENVELOPE__BODY_ROUTE, &route);
	prm_exclusions_free(&excluded);
	prm_route_end(&r);
}

static void
on_routes_complete(void *arg)
{
	struct prm_merger *m = arg;

	waiting_tick(m, pr_now_mono());
	queries_reap(m);
}

int
prm_merger_peer(
	struct prm_merger *m, const char *endpoint, const char *keys, struct pr_error *err)
{
	return prm_peers_add(m->peers, endpoint, keys, err);
}

int
prm_merger_dispatcher(
	struct prm_merger *m, const char *endpoint, const char *keys, struct pr_error *err)
{
	return prm_steering_add(&m->steering, endpoint, keys, err);
}

/* ---- all messages ---- */

/* proto/rpc/admission.h has who may send which message. */
static const struct {
	Packrack__Envelope__BodyCase body;
	void (*call)(struct prm_merger *m, const struct prm_peer_ref *from,
		const Packrack__Envelope *env);
} messages[] = {{PACKRACK__ENVELOPE__BODY_HELLO, on_hello},
	{PACKRACK__ENVELOPE__BODY_COVERAGE, on_summaries},
	{PACKRACK__ENVELOPE__BODY_SUMMARY, on_summaries},
	{PACKRACK__ENVELOPE__BODY_BATCH, on_answer},
	{PACKRACK__ENVELOPE__BODY_END, on_answer},
	{PACKRACK__ENVELOPE__BODY_FAILURE, on_answer},
	{PACKRACK__ENVELOPE__BODY_QUERY, on_query},
	{PACKRACK__ENVELOPE__BODY_CREDIT, on_flow},
	{PACKRACK__ENVELOPE__BODY_CANCEL, on_flow},
	{PACKRACK__ENVELOPE__BODY_STATUS_REQUEST, on_status},
	{PACKRACK__ENVELOPE__BODY_PEER, on_peer},
	{PACKRACK__ENVELOPE__BODY_ROUTE_REQUEST, on_route_request},
	{PACKRACK__ENVELOPE__BODY_COMMAND, on_command},
	{PACKRACK__ENVELOPE__BODY_STATE, on_state},
	{PACKRACK__ENVELOPE__BODY_COMMAND_DONE, on_node_done}};

static void
on_message(void *arg, const struct pr_rpc_peer *peer, const Packrack__Envelope *env)
{
	struct listener *l = arg;
	struct prm_merger *m = l->merger;
	struct prm_peer_ref from = {l->rpc, *peer};

	prm_registry_heard(&m->registry, &from, pr_now_mono(), pr_now_real());
	for (size_t i = 0; i < PR_COUNT(messages); i++) {
		if (messages[i].body != env->body_case)
			continue;
		messages[i].call(m, &from, env);
		queries_reap(m);
		return;
	}
	pr_rpc_refuse(
		l->rpc, peer, env->id, "this is a merger: it takes no such request", true);
}

static bool
screen(void *arg, const struct pr_rpc_peer *peer, Packrack__Envelope__BodyCase body,
	struct pr_error *why)
{
	struct listener *l = arg;

	return body != PACKRACK__ENVELOPE__BODY_QUERY || has_room(l->merger, peer, why);
}

static void
tick(void *arg)
{
	struct prm_merger *m = arg;
	int64_t now = pr_now_mono();

	prm_peers_tick(m->peers, now);
	prm_steering_tick(&m->steering, now);
	waiting_tick(m, now);
	for (size_t i = m->registry.count; i-- > 0;) {
		struct prm_node_info *node = m->registry.nodes[i];
		bool admitted = pr_rpc_admits(node->address.rpc, &node->address.peer);

		if (!admitted)
			node_lost(m, &node->address, "its key was revoked");
		if (!admitted || now - node->heard > PRM_NODE_FORGET_NS)
			forget(m, node->hello->name);
	}
	prm_audit_tick(m->options.audit);
	for (size_t i = 0; i < m->query_count; i++)
		prm_fanout_tick(m->queries[i], now);
	if (!m->options.no_canary)
		prm_canary_tick(&m->canary, &m->registry, &m->next_id, now);
	queries_reap(m);
}

/* ---- life ---- */

struct prm_merger *
prm_merger_create(struct pr_loop *loop, const struct prm_merger_options *options,
	struct pr_error *err)
{
	struct prm_merger *m = calloc(1, sizeof(*m));

	if (!m)
		return pr_error_null(err, "no memory for a merger");
	m->loop = loop;
	m->next_id = UINT64_C(1) << 32; /* above the ids that clients choose */
	m->options = *options;
	if (!m->options.max_queries)
		m->options.max_queries = PRM_MERGER_QUERIES_DEFAULT;
	if (!m->options.max_user_queries) /* others always have a place */
		m->options.max_user_queries =
			m->options.max_queries - m->options.max_queries / 4;
	m->queries = calloc(m->options.max_queries, sizeof(*m->queries));
	m->peers = prm_peers_create(loop, options->name ? options->name : "", &m->ownership,
		on_routes_complete, m);
	prm_steering_init(&m->steering, loop, &m->registry, on_command_done, m);
	m->summaries = prm_summaries_create(m->options.summaries, &m->ownership, err);
	m->timer = pr_timer_create(loop, TICK_NS, tick, m, err);
	if (m->queries && m->timer && m->summaries && m->peers)
		return m;
	if (m->timer)
		pr_error_set(err, "no memory for a merger");
	prm_merger_destroy(&m);
	return NULL;
}

int
prm_merger_listen(
	struct prm_merger *m, const char *endpoint, const char *keys, struct pr_error *err)
{
	struct listener *l = calloc(1, sizeof(*l));

	if (!l || PR_ARRAY_GROW(m->listeners, m->listener_count) < 0) {
		free(l);
		return pr_error_set(err, "no memory for listening on %s", endpoint);
	}
	l->merger = m;
	l->rpc = pr_rpc_listen(m->loop, endpoint, keys, on_message, l, err);
	if (!l->rpc) {
		free(l);
		return -1;
	}
	pr_rpc_screen(l->rpc, screen);
	m->listeners[m->listener_count++] = l;
	return 0;
}

void
prm_merger_destroy(struct prm_merger **mp)
{
	static const char why[] = "the merger was stopped";
	struct prm_merger *m = PR_TAKE(mp);

	if (!m)
		return;
	pr_timer_destroy(&m->timer);
	for (struct waiting *w; (w = m->waiting);) {
		if (w->query)
			pr_rpc_refuse(w->from.rpc, &w->from.peer, w->id, why, false);
		else
			command_done(&w->from, w->id, false, why);
		waiting_remove(m, w);
	}
	prm_peers_destroy(&m->peers);
	prm_steering_close(&m->steering);
	for (size_t i = 0; i < m->query_count; i++) {
		prm_audit_end(m->options.audit, m->queries[i]);
		prm_fanout_destroy(&m->queries[i], why);
	}
	prm_fanout_destroy(&m->canary.fanout, NULL);
	for (size_t i = 0; i < m->listener_count; i++) {
		pr_rpc_destroy(&m->listeners[i]->rpc);
		free(m->listeners[i]);
	}
	prm_registry_free(&m->registry);
	prm_summaries_destroy(&m->summaries);
	PR_FREE(m, listeners, queries);
	free(m);
}
