/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/fanout.h"

#include <errno.h>
#include <stdlib.h>

#include "merger/beyond.h"
#include "merger/remote.h"
#include "proto/base/text.h"
#include "proto/rpc/tally.h"

/*
 * In this order: asking nodes, messages to the client, credit for nodes, rounds of asking
 * and following, the end of an answer, merging, what nodes send, what the client sends,
 * life.
 */

#define CREDIT_MAX 1024 /* batches */
/*
 * Most nodes whose batches a client may merge: each has batches under way, and the queue to
 * the client is bounded.
 */
#define PASS_MAX 16

/* The query at one node. */
struct node_query {
	struct prm_peer_ref address;
	uint64_t id;
	struct prm_remote *remote; /* NULL: it was not asked */
	int index; /* in the completeness */
	bool settled; /* the completeness knows how it ended */
	bool unasked; /* its queue has no room for the query yet */
	bool stopping; /* it was told that the limit is reached, and tells what it knows */
	bool end_owed; /* a client that merges itself has not been told that it ended */
	uint32_t credit; /* from a client that merges itself, not passed on yet */
	/* last sign of life; last progress, or when it was first owed */
	int64_t heard, moved;
};

/*
 * A query that follows: it is asked in rounds, each for the time range after the one
 * before.
 */
struct follow {
	bool on, idle; /* idle: between two rounds */
	int64_t until; /* as asked */
	unsigned rounds; /* begun until now; counted up to 2 */
	int64_t round_mono;
	Packrack__Completeness *total; /* sum of earlier rounds; NULL: there was none */
};

struct prm_fanout {
	struct prm_fanout_state state;
	struct prm_fanout_options options;
	Packrack__Query *query; /* our own copy */
	Packrack__Query for_nodes; /* what nodes get of it in this round; borrows from it */
	struct node_query *nodes;
	size_t node_count;
	struct prm_completeness *completeness;
	struct pr_source *merge;
	struct pr_segment_builder builder;
	uint8_t *buf;
	size_t room;
	/* did not fit into the last batch; its data is the merge's still */
	struct pr_packet kept;
	struct prm_chain chain; /* of what was given, with a manifest */
	uint64_t passed; /* bytes of packets, of a gate's rate */
	char *manifest; /* sums have it */
	bool has_kept, sealed; /* sealed: buf is a batch that waits for credit */
	size_t sealed_len;
	uint32_t credit;
	uint64_t limit, bytes; /* bytes: of packets, from nodes */
	bool count_only; /* as asked: nothing goes to the client but the End */
	bool count_at_node; /* nodes count; no packets come */
	bool passes; /* batches go to the client as they come, and it merges them */
	/*
	 * Nodes give parts of flows for packets. Checking: a round before finds whether packets lie on two nodes, so that
	 * parts would have them twice.
	 */
	bool folds, checking;
	bool limited; /* the limit was reached */
	bool merged; /* the merge is at its end */
	/*
	 * Second round: packets are missing and nodes were left out, so all nodes count again. given: packets that the
	 * client has got; any more that match now are pending.
	 */
	bool rechecking;
	bool broken_off; /* cancelled, but not by its client */
	uint64_t given; /* matched when the second round began */
	struct pr_error failure; /* what ended the query; "": nothing did */
	bool bad_request;
	int64_t done_mono; /* when it was done */
	int64_t stuck_ns; /* as PRM_FANOUT_STUCK_NS is to PRM_FANOUT_SILENT_NS */
	Packrack__End sums; /* of the nodes' */
	struct pr_tally *tally; /* of the nodes', when asked for */
	struct pr_tally_part part;
	size_t tally_at; /* how much the client has been given */
	int64_t mono, began; /* began: when options.real was */
	Packrack__RunningQuery report;
	struct follow follow;
};

static void
node_cancel(struct node_query *node)
{
	Packrack__Cancel cancel = PACKRACK__CANCEL__INIT;

	node->remote->ended = true;
	prm_send(&node->address, node->id, PACKRACK__ENVELOPE__BODY_CANCEL, &cancel);
}

static void
cancel_nodes(struct prm_fanout *f)
{
	for (size_t i = 0; i < f->node_count; i++) {
		struct node_query *node = &f->nodes[i];

		if (node->remote && !node->remote->ended)
			node_cancel(node);
		node->settled = true;
	}
}

/* False in the second round (rechecking), in which no packets come. */
static bool
passes(const struct prm_fanout *f)
{
	return f->passes && !f->rechecking;
}

static void
client_gone(struct prm_fanout *f)
{
	f->state.done = true;
	f->state.untold = false;
	cancel_nodes(f);
}

/*
 * False: not sent, as the client is gone and the query done, or as its queue is full: then
 * the caller keeps what it has, and tries again with the next message or tick.
 */
static bool
send_client(struct prm_fanout *f, uint64_t id, Packrack__Envelope__BodyCase body_case,
	const void *body)
{
	Packrack__Envelope env = pr_message_of(id, body_case, body);
	const struct prm_fanout_options *o = &f->options;

	if ((o->deliver ? o->deliver(o->deliver_arg, &env)
			: pr_rpc_send(o->client.rpc, &o->client.peer, &env, NULL)) == 0)
		return true;
	if (o->deliver || errno != EAGAIN)
		client_gone(f);
	return false;
}

/*
 * Gives a client that merges what waits of this node: batches, and that no more of them
 * come.
 */
static void
give_source(struct prm_fanout *f, struct node_query *node)
{
	const struct prm_peer_ref *client = &f->options.client;
	Packrack__End end = PACKRACK__END__INIT;

	if (!passes(f) || !node->remote || f->state.done)
		return;
	if (prm_remote_pass_on(node->remote, client->rpc, &client->peer) < 0) {
		if (errno != EAGAIN)
			client_gone(f);
	} else if (node->end_owed) {
		node->end_owed =
			!send_client(f, node->id, PACKRACK__ENVELOPE__BODY_END, &end);
	}
}

static void
send_source_end(struct prm_fanout *f, struct node_query *node)
{
	node->end_owed = passes(f);
	give_source(f, node);
}

/* The node is left out from here on, and the completeness says why. */
static void
drop_node(struct prm_fanout *f, struct node_query *node, const char *why)
{
	if (node->settled)
		return;
	node->settled = true;
	prm_completeness_failed(f->completeness, node->index, why);
	if (!node->remote)
		return;
	node_cancel(node); /* what it gave and told before is good, and counts */
	send_source_end(f, node);
}

/* ---- asking nodes ---- */

/*
 * False: not sent. A full queue is no dead node: it has until check_node to take messages
 * again, and the message is sent again.
 */
static bool
send_node(struct prm_fanout *f, struct node_query *node,
	Packrack__Envelope__BodyCase body_case, const void *body)
{
	if (prm_send(&node->address, node->id, body_case, body) == 0)
		return true;
	if (errno != EAGAIN)
		drop_node(f, node, "its connection is gone");
	return false;
}

static void
ask_node(struct prm_fanout *f, struct node_query *node)
{
	node->unasked = !send_node(f, node, PACKRACK__ENVELOPE__BODY_QUERY, &f->for_nodes);
}

static int
node_begin(struct prm_fanout *f, const char *name, const struct prm_node_info *info,
	struct prm_route *route, struct pr_error *err)
{
	struct node_query *node = &f->nodes[f->node_count];
	char why[PRM_ROUTE_WHY_MAX] = "";

	*node = (struct node_query){
		.index = prm_completeness_node(f->completeness, name, err)};
	if (node->index < 0)
		return -1;
	f->node_count++;
	if (!info || !prm_node_connected(info, f->mono)) {
		if (info)
			PR_PRINT(why, "not heard for %lld s",
				(long long)((f->mono - info->heard) / 1000000000));
		drop_node(f, node, info ? why : "the merger knows no such node");
		return 0;
	}
	node->settled = route && prm_route_decide(route, name, why);
	if (f->rechecking)
		PR_PRINT(why, "the answer seemed to lack packets, so all were");
	prm_completeness_set_reason(f->completeness, node->index, why, node->settled);
	if (node->settled) /* not asked: its summaries stand for its coverage */
		return prm_route_tell(route, name, f->completeness, node->index, err);
	node->address = info->address;
	node->id = ++*f->options.next_id;
	node->heard = node->moved = f->mono;
	node->remote = prm_remote_create(err);
	if (!node->remote || pr_merge_add(f->merge, &node->remote->source, err) < 0)
		return -1;
	ask_node(f, node);
	return 0;
}

/* What all nodes hold in the range: for this they need not read packets that are indexed. */
static Packrack__TallySpec everything = {
	.base = PROTOBUF_C_MESSAGE_INIT(&packrack__tally_spec__descriptor),
	.group = 1 /* by time */,
	.step = INT64_MAX};

/*
 * Sends the query to the nodes, without what is for mergers (`nodes`). Nodes can count for
 * themselves while no packet lies on two of them, which is known at the end
 * (counted_twice), and while there is no limit, which only a merge can keep.
 */
static int
ask_all(struct prm_fanout *f, bool count_at_node, struct pr_error *err)
{
	const struct prm_registry *registry = f->options.registry;
	const Packrack__Query *query = f->query;
	Packrack__Query *copy = &f->for_nodes;
	size_t count = query->n_nodes ? query->n_nodes : registry->count;
	struct prm_route route;
	/*
	 * a query that follows asks all: a node without data may get some, and no second round checks. One that
	 * names its node asks it: data move looks there for what it has just stored
	 */
	bool routed = f->options.summaries && !f->options.gate && !f->rechecking &&
		      !f->follow.on && query->n_nodes != 1;
	int rc = 0;

	*copy = *query;
	copy->n_nodes = copy->n_lookups = 0;
	copy->tally = f->rechecking ? NULL : query->tally; /* the client has it already */
	f->count_at_node = count_at_node && f->count_only && !f->options.gate &&
			   (count == 1 || !query->limit);
	f->checking &= count > 1;
	copy->count_only = f->count_at_node || f->checking;
	if (f->checking) {
		copy->tally = &everything;
		copy->n_programs = 0;
		copy->related = NULL;
	}
	copy->flow_parts = false;
	copy->sums = query->sums && !f->checking;
	copy->fold_flows = f->folds && !f->rechecking && !f->checking;
	copy->follow = false;
	copy->settle_now = query->settle;
	/* a node of an older version waits until `until` has come, however late that is */
	copy->settle = f->follow.on || (query->settle && query->until <= f->options.real);
	copy->user = f->state.client ? f->options.client.peer.who : "(merger)";
	f->nodes = calloc(count ? count : 1, sizeof(*f->nodes));
	if (!f->nodes)
		return pr_error_set(err, "no memory for a query");
	if (routed && prm_route_begin(&route, f->options.summaries, query, f->mono) < 0)
		return pr_error_set(err, "no memory for a query");
	route.exclusions = f->options.exclusions;
	for (size_t i = 0; rc == 0 && i < count; i++) {
		const struct prm_node_info *node =
			query->n_nodes ? prm_registry_find(registry, query->nodes[i])
				       : registry->nodes[i];

		rc = node_begin(f, node ? node->hello->name : query->nodes[i], node,
			routed ? &route : NULL, err);
	}
	if (routed) {
		PR_COPY(&f->state, &route, asked, left_out);
		prm_route_end(&route);
	}
	return rc;
}

/* ---- to the client ---- */

/* Sends the End or Failure that a query which is done has yet to send. */
static void
tell_end(struct prm_fanout *f)
{
	Packrack__Failure failure = PACKRACK__FAILURE__INIT;
	Packrack__Completeness *all = f->sums.completeness, less;
	bool sent;

	if (*f->failure.text) {
		failure.text = f->failure.text;
		failure.bad_request = f->bad_request;
		sent = send_client(
			f, f->options.id, PACKRACK__ENVELOPE__BODY_FAILURE, &failure);
	} else {
		/* the lists of an End that is too long for a message are shortened */
		if (all && packrack__end__get_packed_size(&f->sums) + 32 >
				   PR_RPC_MESSAGE_MAX) {
			prm_losses_shorten(all, 1000);
			less = *all;
			less.n_ledgers = PR_MIN(less.n_ledgers, 1000);
			less.n_evicted = PR_MIN(less.n_evicted, 1000);
			f->sums.completeness = &less;
		}
		sent = send_client(
			f, f->options.id, PACKRACK__ENVELOPE__BODY_END, &f->sums);
		f->sums.completeness = all;
	}
	f->state.untold &= !sent;
}

/* All is decided. The query stays until the client's queue has taken its end. */
static void
end_query(struct prm_fanout *f)
{
	f->state.done = f->state.untold = true;
	f->done_mono = f->mono;
	cancel_nodes(f);
	tell_end(f);
}

static void
send_failure(struct prm_fanout *f, const char *text, bool bad_request)
{
	pr_error_set(&f->failure, "%s", *text ? text : "the query failed");
	f->bad_request = bad_request;
	end_query(f);
}

/* ---- credit for nodes ---- */

static void
grant(struct prm_fanout *f, struct node_query *node, uint32_t window)
{
	Packrack__Credit credit = PACKRACK__CREDIT__INIT;
	struct prm_remote *remote = node->remote;
	bool owed = remote->owed, passed = passes(f);

	if (node->unasked || (passed && remote->waiting))
		return;
	if (passed && window > remote->owed + node->credit)
		window = remote->owed + node->credit;
	credit.batches = prm_remote_take_credit(remote, window, passed ? 1 : window / 2);
	if (!credit.batches)
		return;
	if (!owed)
		node->moved = f->mono; /* no batch was owed before: its time begins now */
	if (!send_node(f, node, PACKRACK__ENVELOPE__BODY_CREDIT, &credit))
		remote->owed -= credit.batches;
	else if (passed)
		node->credit -= credit.batches;
}

static bool
node_live(const struct node_query *node)
{
	return node->remote && !node->remote->ended;
}

/*
 * Batches that a node may have under way or waiting: PRM_REMOTE_WINDOW; 1 while more than PRM_FANOUT_QUEUED_MAX bytes
 * wait; 0 while the node is ahead of the slowest, and the ranges that nodes hold take over PRM_FANOUT_STRETCHES_MAX.
 */
static void
grant_all(struct prm_fanout *f)
{
	size_t queued = 0;
	bool owed = false;

	for (size_t i = 0; i < f->node_count; i++) {
		struct node_query *node = &f->nodes[i];

		if (node->remote && node->remote->error)
			drop_node(f, node, node->remote->error);
		if (node->remote)
			queued += node->remote->bytes;
	}
	for (size_t i = 0; i < f->node_count && !f->state.done; i++) {
		struct node_query *node = &f->nodes[i];
		uint32_t window = queued > PRM_FANOUT_QUEUED_MAX ? 1 : PRM_REMOTE_WINDOW;

		if (!node_live(node))
			continue;
		if (prm_completeness_bytes(f->completeness) > PRM_FANOUT_STRETCHES_MAX &&
			!prm_completeness_is_slowest(f->completeness, node->index))
			window = 0;
		grant(f, node, window);
		owed |= node->remote->owed > 0;
	}
	/*
	 * no node owes a batch: ask those of which no packet is here, or all wait for each
	 * other
	 */
	for (size_t i = 0; i < f->node_count && !f->state.done && !owed; i++)
		if (node_live(&f->nodes[i]) && !f->nodes[i].remote->waiting)
			grant(f, &f->nodes[i], 1);
}

/* ---- rounds of asking ---- */

static Packrack__NodeAnswer *
answer_of(const struct prm_fanout *f, const struct node_query *node)
{
	return prm_completeness_answer(f->completeness, node->index);
}

static void
release(struct prm_fanout *f)
{
	pr_source_destroy(&f->merge);
	for (size_t i = 0; i < f->node_count; i++)
		prm_remote_destroy(&f->nodes[i].remote);
	prm_completeness_destroy(&f->completeness);
	free(f->nodes);
	f->nodes = NULL;
	f->node_count = 0;
}

static int64_t
now_real(const struct prm_fanout *f)
{
	return f->options.real + (f->mono - f->began);
}

/* Begins a round. Of an earlier round only the sums remain, and what the client got. */
static int
begin_round(struct prm_fanout *f, bool count_at_node, struct pr_error *err)
{
	const Packrack__Query *q = f->query;
	const struct prm_registry *registry = f->options.registry;
	struct prm_completeness_options c = {.now = now_real(f), .settled = q->settle};
	Packrack__Sources sources = PACKRACK__SOURCES__INIT;
	uint64_t ids[PASS_MAX];
	char *nodes[PASS_MAX];
	size_t named = 0;

	PR_COPY(&c, q, since, until, link);
	release(f);
	f->merged = f->limited = f->has_kept = false;
	for (size_t i = 0; i < q->n_nodes; i++)
		named += prm_registry_find(registry, q->nodes[i]) != NULL;
	c.partial_scope = q->n_nodes && named < registry->count;
	f->completeness = prm_completeness_create(&c, err);
	f->merge = pr_merge_create(err);
	if (!f->completeness || !f->merge || ask_all(f, count_at_node, err) < 0)
		return -1;
	/* the client merges the batches, unless the merger has to see each packet */
	bool may_pass = q->merges && !q->manifest && !f->count_only && !f->limit &&
			!f->follow.on && !f->checking && f->node_count <= PASS_MAX;
	sources.ids = ids;
	sources.nodes = nodes;
	for (size_t i = 0; may_pass && i < f->node_count; i++)
		if (node_live(&f->nodes[i])) {
			ids[sources.n_ids++] = f->nodes[i].id;
			nodes[sources.n_nodes++] = answer_of(f, &f->nodes[i])->node;
		}
	/* rounds that only count come after; without room for this, the merger merges */
	if (sources.n_ids &&
		send_client(f, f->options.id, PACKRACK__ENVELOPE__BODY_SOURCES, &sources))
		f->passes = true;
	for (size_t i = 0; i < f->node_count; i++)
		if (f->nodes[i].remote)
			f->nodes[i].remote->passes = passes(f);
	grant_all(f);
	return 0;
}

static void
ask_again(struct prm_fanout *f, bool count_at_node)
{
	struct pr_error err = {""};

	if (begin_round(f, count_at_node, &err) < 0)
		send_failure(f, err.text, false);
}

/* Of a client that takes parts of flows: they are right if no packet lies on two nodes. */
static void
begin_check(struct prm_fanout *f)
{
	f->folds = f->checking = f->query->flow_parts && !f->count_only && !f->limit;
}

static void
completeness_free(Packrack__Completeness **c)
{
	packrack__completeness__free_unpacked(*c, NULL);
	*c = NULL;
}

/*
 * A query that follows (Query.follow) asks the nodes in rounds, each for what lies between
 * the end of the round before and now. A node begins when all of this range is settled
 * there. So each packet comes once, in order, and none is left behind. Nodes that come or
 * go take part from the next round on.
 */

/*
 * The first round is of the past: what nodes have stored by now does not wait for what they have not. The second one is up to
 * now. If the range begins later than now, it is one instant, and waits for it.
 */
static void
set_until(struct prm_fanout *f)
{
	Packrack__Query *q = f->query;
	static const int64_t ago[] = {PRM_FANOUT_SETTLED_NS, 0, PRM_FANOUT_CONFIRM_NS};
	int64_t now = now_real(f) - ago[f->follow.rounds];

	f->follow.rounds += f->follow.rounds < 2;
	q->until = PR_MIN(now, f->follow.until);
	q->until = PR_MAX(q->until, q->since);
	f->follow.round_mono = f->mono;
}

/* Adds the figures of the earlier rounds. A node has answered if it did in each round. */
static bool
same_node(void *now_item, const void *before_item)
{
	Packrack__NodeAnswer *now = now_item;
	const Packrack__NodeAnswer *before = before_item;

	if (strcmp(now->node, before->node) != 0)
		return false;
	pr_message_add_numbers(&now->base, &before->base);
	if (!before->answered && now->answered) {
		now->answered = false; /* not all of the time */
		now->error = strdup(before->error);
	}
	return true;
}

/*
 * A later ledger replaces the earlier one. Only a link that has ended meanwhile is not in
 * the later list.
 */
static bool
same_ledger(void *now_item, const void *before_item)
{
	const Packrack__Ledger *now = now_item, *before = before_item;

	return now->epoch == before->epoch && now->link == before->link;
}

/*
 * Moves what only the earlier list has to the later one, up to max items. The others stay
 * in the earlier list, and are freed with it.
 */
static bool
add_items(void ***to, size_t *to_count, void **from, size_t *from_count, size_t max,
	bool (*same)(void *now, const void *before))
{
	size_t own = *to_count, kept = 0;
	void **grown = reallocarray(*to, own + *from_count + 1, sizeof(**to));

	if (!grown)
		return false;
	*to = grown;
	for (size_t i = 0; i < *from_count; i++) {
		size_t j = same ? 0 : own;

		while (j < own && !same(grown[j], from[i]))
			j++;
		if (j < own || *to_count >= max)
			from[kept++] = from[i];
		else
			grown[(*to_count)++] = from[i];
	}
	*from_count = kept;
	return true;
}
#define ADD_ITEMS(now, before, list, max, same)                                            \
	add_items((void ***)&(now)->list, &(now)->n_##list, (void **)(before)->list,       \
		&(before)->n_##list, max, same)

/*
 * Adds the earlier rounds to the last one. Evictions are taken from the last round only: it
 * has all that still hold.
 */
static void
take_over(struct prm_fanout *f)
{
	Packrack__Completeness *c = f->sums.completeness, *total = f->follow.total;

	f->sums.completeness = NULL;
	if (!c)
		return;
	if (total) {
		pr_message_add_numbers(&c->base, &total->base);
		if (!ADD_ITEMS(c, total, nodes, SIZE_MAX, same_node) ||
			!ADD_ITEMS(c, total, missing, PRM_COMPLETENESS_LIST_MAX, NULL) ||
			!ADD_ITEMS(c, total, unobserved, PRM_UNOBSERVED_MAX, NULL) ||
			!ADD_ITEMS(c, total, beyond, PRM_BEYOND_CLASSES_MAX,
				prm_beyond_same) ||
			!ADD_ITEMS(c, total, ledgers, PRM_COMPLETENESS_SERIES_MAX,
				same_ledger))
			c->complete = false; /* no memory: some items are left out */
	}
	completeness_free(&f->follow.total);
	f->follow.total = c;
}

/* Not if it is too early for one. */
static void
next_round(struct prm_fanout *f)
{
	f->follow.idle = now_real(f) <= f->query->until;
	if (f->follow.idle)
		return;
	f->query->since = f->query->until + 1;
	set_until(f);
	begin_check(f);
	ask_again(f, false);
}

/* ---- the end of an answer ---- */

static void
send_end(struct prm_fanout *f, bool cancelled)
{
	Packrack__End *end = &f->sums;
	Packrack__Completeness *all = end->completeness;

	/*
	 * packets that nodes got after the first round are not in the answer, but pending
	 */
	if (f->rechecking && f->state.matched > f->given) {
		all->pending_packets += f->state.matched - f->given;
		all->complete = false;
	}
	if ((end->truncated || end->undecided) && all)
		all->complete = false;
	if (f->rechecking)
		f->state.matched = f->given;
	end->matched = f->state.matched;
	/*
	 * a client ends a query that follows by Cancel: it is cancelled only if somebody
	 * else did it
	 */
	f->state.cancelled = cancelled && (!f->follow.on || f->broken_off);
	end->cancelled = f->state.cancelled;
	f->state.complete = all && all->complete && !end->cancelled;
	end->limit_reached = f->limited;
	if (f->query->manifest)
		end->manifest = f->manifest =
			prm_manifest_make(f->options.signer, &f->chain,
				&(struct prm_given){&f->options.client.peer, f->query->text,
					f->query->link, f->query->since, f->query->until,
					all ? all->missing_packets : 0, f->state.complete});
	end_query(f);
}

static const Packrack__Hello *
hello_of(const struct prm_fanout *f, const struct node_query *node)
{
	const struct prm_node_info *info =
		prm_registry_find(f->options.registry, answer_of(f, node)->node);

	return info ? info->hello : NULL;
}

/* Does a node that has not failed have the ledger of the link? */
static bool
has_ledger(const struct prm_fanout *f, const Packrack__LinkInfo *link)
{
	for (size_t i = 0; i < f->node_count; i++) {
		const Packrack__Hello *hello = hello_of(f, &f->nodes[i]);

		if (!hello || answer_of(f, &f->nodes[i])->error[0])
			continue;
		for (size_t j = 0; j < hello->n_links; j++)
			if (hello->links[j]->ledger &&
				hello->links[j]->link == link->link &&
				hello->links[j]->epoch == link->epoch)
				return true;
	}
	return false;
}

/* Without a node that failed the answer lacks nothing, if others have the ledgers of its links, and no packet is missing. */
static void
account_for(struct prm_fanout *f, const struct node_query *node)
{
	const Packrack__Hello *hello = hello_of(f, node);
	size_t known = 0;

	if (!hello || !answer_of(f, node)->error[0])
		return;
	while (known < hello->n_links && has_ledger(f, hello->links[known]))
		known++;
	if (known && known == hello->n_links)
		answer_of(f, node)->accounted = true;
}

/* What the nodes have failed to give, and what the answer therefore lacks. */
static int
judge(struct prm_fanout *f, struct pr_error *err)
{
	for (size_t i = 0; i < f->node_count; i++)
		if (f->nodes[i].remote && f->nodes[i].remote->error)
			prm_completeness_failed(f->completeness, f->nodes[i].index,
				f->nodes[i].remote->error);
	for (size_t i = 0; i < f->node_count && !f->follow.idle; i++)
		account_for(f, &f->nodes[i]);
	cancel_nodes(f);
	if (f->follow.idle)
		return 0; /* that has been done */
	return prm_completeness_finish(f->completeness, &f->sums.completeness, err);
}

static void
finish(struct prm_fanout *f, bool cancelled)
{
	struct pr_error err = {""};

	if (judge(f, &err) < 0) {
		send_failure(f, err.text, false);
		return;
	}
	bool twice = f->folds && !f->follow.idle && !f->rechecking && !cancelled &&
		     prm_completeness_duplicates(f->completeness);
	if (f->checking && !cancelled) {
		f->checking = false;
		f->folds = !twice;
		completeness_free(&f->sums.completeness);
		ask_again(f, false);
		return;
	}
	f->sums.counted_twice |= twice;
	/*
	 * True if nodes have counted and some packets lie on two of them: only a merge
	 * tells them apart. False if the client merges: then nodes count in the second
	 * round only, and the first round also has those packets twice.
	 */
	twice = f->count_at_node && !f->passes && !cancelled && f->node_count > 1 &&
		prm_completeness_duplicates(f->completeness);
	f->sums.counted_twice |= f->tally && twice;
	if (twice && !f->tally) {
		completeness_free(&f->sums.completeness);
		packrack__end__init(&f->sums);
		f->state.matched = 0;
		ask_again(f, false);
		return;
	}
	if (f->follow.on) {
		bool first = !f->follow.total;
		bool more = !cancelled && !f->limited && f->query->until < f->follow.until;

		take_over(f);
		f->follow.idle = more;
		if (more && first)
			next_round(f);
		if (more)
			return;
		f->sums.completeness = f->follow.total;
		f->follow.total = NULL;
	}
	Packrack__Completeness *c = f->sums.completeness;
	/* packets seem to be missing, and nodes not asked may have them, or know why */
	if (f->state.left_out && !f->rechecking && !cancelled &&
		(c->missing_packets || c->pending_packets)) {
		completeness_free(&f->sums.completeness);
		f->rechecking = f->count_only = true;
		f->given = f->state.matched;
		f->state.matched = f->sums.truncated = 0;
		f->sums.from_cut = f->sums.from_headers = 0;
		ask_again(f, true);
		return;
	}
	send_end(f, cancelled);
}

/* ---- merging ---- */

static bool
send_one(struct prm_fanout *f, Packrack__Batch *batch)
{
	bool sent = send_client(f, f->options.id, PACKRACK__ENVELOPE__BODY_BATCH, batch);

	f->credit -= sent;
	return sent;
}

static void
send_batch(struct prm_fanout *f)
{
	Packrack__Batch batch = PACKRACK__BATCH__INIT;

	batch.packets.data = f->buf;
	batch.packets.len = f->sealed_len;
	f->sealed = !send_one(f, &batch);
	if (!f->sealed)
		pr_segment_begin(&f->builder, f->buf, f->room, PR_SEGMENT_MIXED);
}

static void
seal(struct prm_fanout *f)
{
	f->sealed_len = pr_segment_seal(&f->builder);
	f->sealed = f->sealed_len > 0;
	if (f->sealed && f->credit)
		send_batch(f);
}

/* false: it must be kept until the batch before it has gone. */
static bool
add(struct prm_fanout *f, const struct pr_packet *p)
{
	uint8_t *grown;

	if (f->sealed)
		return false;
	if (pr_segment_add(&f->builder, p))
		return true;
	seal(f);
	if (f->sealed)
		return false;
	if (f->state.done)
		return true;
	/* enlarges the batch for a packet that does not fit into an empty one */
	size_t room = PR_SEGMENT_HEADER + pr_segment_cost(p->caplen) + 64;
	if (room > f->room && room < PR_RPC_MESSAGE_MAX - 1024 &&
		(grown = realloc(f->buf, room))) {
		f->buf = grown;
		f->room = room;
		pr_segment_begin(&f->builder, f->buf, f->room, PR_SEGMENT_MIXED);
	}
	if (!pr_segment_add(&f->builder, p))
		send_failure(f, "a packet is longer than a message can be", false);
	return true;
}

/*
 * Sends the tally of all nodes to the client, within its credit. True: the client has all
 * of it.
 */
static bool
give_tally(struct prm_fanout *f)
{
	Packrack__Batch batch = PACKRACK__BATCH__INIT;
	struct pr_error err = {""};

	if (!f->tally)
		return true;
	if (!f->tally_at && f->query->tally->best)
		pr_tally_cut(f->tally, f->query->tally->best);
	while (f->credit && !f->state.done) {
		size_t before = f->tally_at;
		int rc = pr_tally_next_part(f->tally, &f->tally_at, &f->part, &err);
		if (rc == 0)
			return true;
		if (rc < 0) {
			send_failure(f, err.text, false);
			return false;
		}
		batch.tally = &f->part.message;
		if (!send_one(f, &batch)) {
			f->tally_at = before;
			return false;
		}
	}
	return false;
}

/* Do we owe the client the End of a node, or the nodes theirs to us? */
static bool
owes_ends(const struct prm_fanout *f)
{
	for (size_t i = 0; i < f->node_count; i++)
		if (f->nodes[i].end_owed || (f->nodes[i].stopping && !f->nodes[i].settled &&
						    !f->nodes[i].remote->ended))
			return true;
	return false;
}

/* The limit is reached: nodes that are cancelled still tell what they have lost, and their ledgers. */
static void
ask_ends(struct prm_fanout *f)
{
	Packrack__Cancel cancel = PACKRACK__CANCEL__INIT;

	for (size_t i = 0; i < f->node_count; i++) {
		struct node_query *node = &f->nodes[i];

		node->stopping =
			node->remote && !node->remote->ended && !node->settled &&
			send_node(f, node, PACKRACK__ENVELOPE__BODY_CANCEL, &cancel);
	}
}

/* Skips marks that only carry a watermark, and what the client does not get. WAIT also when others have their turn. */
static int
next_packet(struct prm_fanout *f, struct pr_packet *p, unsigned *looked)
{
	struct prm_gate *gate = f->options.gate;
	int got;

	do
		got = gate && ++*looked > prm_gate_go(gate)
			      ? PR_SOURCE_WAIT
			      : pr_source_next(f->merge, p, NULL);
	while (got == PR_SOURCE_PACKET &&
		(p->flags & PRM_WATERMARK || (gate && !prm_gate_passes(gate, p))));
	return got;
}

static void
merge_on(struct prm_fanout *f, bool flush)
{
	struct pr_packet p;
	int got = PR_SOURCE_PACKET;
	unsigned looked = 0;

	while (!f->state.done && !f->merged) {
		if (f->options.gate &&
			f->passed > prm_gate_allowed(f->options.gate, f->mono))
			break; /* a tick goes on */
		if (f->has_kept)
			p = f->kept;
		else
			got = next_packet(f, &p, &looked);
		if (got != PR_SOURCE_PACKET)
			break;
		f->has_kept = !f->count_only && !add(f, &p);
		f->kept = p;
		if (f->has_kept || f->state.done)
			return; /* no credit, or the end */
		f->passed += p.caplen;
		if (f->query->manifest && !f->count_only && !pr_link_is_beyond(p.link))
			prm_chain_add(&f->chain, &p);
		/* of parts the nodes' ends say how many packets they have */
		f->state.matched +=
			!f->folds && !(f->query->sums && pr_link_is_beyond(p.link));
		f->sums.related += !f->folds && (p.flags & PR_PACKET_RELATED);
		f->sums.truncated += !f->folds && (p.flags & PR_PACKET_CUT);
		f->sums.from_cut += (p.flags & PR_PACKET_FROM_CUT) != 0;
		f->sums.from_headers += (p.flags & PR_PACKET_FROM_HEADERS) != 0;
		if (f->limit && f->state.matched >= f->limit) {
			prm_completeness_truncate(f->completeness, &p);
			f->limited = f->merged = true;
			ask_ends(f);
		}
	}
	if (f->options.gate && prm_gate_failed(f->options.gate))
		send_failure(f, "no memory for a packet", false);
	if (got == PR_SOURCE_ERROR && !f->state.done)
		send_failure(f, "merging failed", false);
	if (f->state.done)
		return;
	f->merged |= got == PR_SOURCE_END;
	if (!f->sealed && (flush || f->merged))
		seal(f);
	if (f->merged && !f->sealed && !f->state.done && !owes_ends(f) && give_tally(f))
		finish(f, false);
}

static void
pump(struct prm_fanout *f, bool flush)
{
	for (size_t i = 0; i < f->node_count; i++)
		give_source(f, &f->nodes[i]);
	if (!f->state.done && f->sealed && f->credit)
		send_batch(f);
	if (!f->state.done && !f->follow.idle)
		merge_on(f, flush);
	if (!f->state.done && !f->follow.idle)
		grant_all(f);
}

/* ---- what nodes send ---- */

static void
on_batch(struct prm_fanout *f, struct node_query *node, const Packrack__Batch *batch)
{
	struct pr_segment_header header = {.count = 0};
	struct pr_error err = {""};

	/* an empty batch is no progress, or a node could hold the query for ever */
	if (batch->packets.len || batch->tally ||
		(batch->frontier && batch->frontier > node->remote->watermark))
		node->moved = f->mono;
	f->bytes += batch->packets.len;
	if (batch->tally && f->tally && pr_tally_take(f->tally, batch->tally, &err) < 0) {
		send_failure(f, err.text, false);
		return;
	}
	if ((passes(f) && batch->packets.len &&
		    pr_segment_peek(
			    batch->packets.data, batch->packets.len, &header, &err) < 0) ||
		prm_remote_batch(node->remote, node->address.rpc, batch, &err) < 0 ||
		prm_completeness_batch(f->completeness, node->index, batch, &err) < 0) {
		drop_node(f, node, err.text);
		return;
	}
	/* a client that merges gets it as it is, with the next pump */
	f->state.matched += f->folds ? 0 : header.count;
}

static void
on_end(struct prm_fanout *f, struct node_query *node, const Packrack__End *end)
{
	struct pr_error err = {""};

	if (node->settled)
		return;
	if ((end->cancelled && !node->stopping) ||
		prm_completeness_end(f->completeness, node->index, end, &err) < 0) {
		drop_node(f, node, err.text[0] ? err.text : "it cancelled the query");
		return;
	}
	node->remote->ended = true;
	send_source_end(f, node);
	/* not settled yet: its last batches may still turn out bad while they are merged */
	if (!f->checking)
		pr_message_add_numbers(&f->sums.base, &end->base);
	if (!f->count_at_node && (!f->folds || f->checking))
		return;
	f->state.matched += end->matched;
	PR_ADD(&f->sums, end, related, truncated, from_cut, from_headers);
	if (end->limit_reached) {
		f->limited = true;
		prm_completeness_truncate(f->completeness, NULL);
	}
}

static struct node_query *
node_of(const struct prm_fanout *f, uint64_t id)
{
	for (size_t i = 0; i < f->node_count; i++)
		if (f->nodes[i].remote && f->nodes[i].id == id)
			return &f->nodes[i];
	return NULL;
}

bool
prm_fanout_on_message(struct prm_fanout *f, const struct prm_peer_ref *from,
	const Packrack__Envelope *env, int64_t mono)
{
	struct node_query *node = node_of(f, env->id);

	if (!node || !prm_peer_ref_equal(&node->address, from))
		return false;
	f->mono = mono;
	if (f->state.done || node->remote->ended)
		return true;
	node->heard = mono;
	if (env->body_case == PACKRACK__ENVELOPE__BODY_BATCH)
		on_batch(f, node, env->batch);
	else if (env->body_case == PACKRACK__ENVELOPE__BODY_END)
		on_end(f, node, env->end);
	else if (env->body_case != PACKRACK__ENVELOPE__BODY_FAILURE)
		drop_node(f, node, "it sent a message that is not an answer");
	else if (env->failure->bad_request)
		send_failure(f, env->failure->text, true);
	else
		drop_node(
			f, node, env->failure->text[0] ? env->failure->text : "it failed");
	pump(f, false);
	return true;
}

void
prm_fanout_on_node_lost(
	struct prm_fanout *f, const struct prm_peer_ref *node, const char *why)
{
	for (size_t i = 0; i < f->node_count; i++)
		if (node_live(&f->nodes[i]) &&
			prm_peer_ref_equal(&f->nodes[i].address, node))
			drop_node(f, &f->nodes[i], why);
	pump(f, false);
}

/* ---- what the client sends ---- */

/* The node whose batches the client merges under this id; NULL: the id is the query's. */
static struct node_query *
source_find(const struct prm_fanout *f, uint64_t id)
{
	return passes(f) && id != f->options.id ? node_of(f, id) : NULL;
}

bool
prm_fanout_is_client(
	const struct prm_fanout *f, const struct prm_peer_ref *from, uint64_t id)
{
	return prm_peer_ref_equal(&f->options.client, from) &&
	       (f->options.id == id || source_find(f, id));
}

void
prm_fanout_credit(struct prm_fanout *f, uint64_t id, uint32_t batches)
{
	struct node_query *node = source_find(f, id);
	uint32_t *credit = node ? &node->credit : &f->credit;

	*credit += batches < CREDIT_MAX ? batches : CREDIT_MAX;
	*credit = PR_MIN(*credit, CREDIT_MAX);
	if (!f->state.done)
		pump(f, false);
	else if (f->state.untold)
		tell_end(f);
}

static void
cancel(struct prm_fanout *f)
{
	struct pr_packet none = {.otime = INT64_MIN};

	if (f->state.done)
		return;
	/* the parts of a slice, which is a second long, have its last time: some are still to come */
	if (f->kept.flags & PR_PACKET_PARTS)
		f->kept.otime = pr_time_minus(f->kept.otime, PR_NS_PER_S);
	prm_completeness_truncate(f->completeness,
		passes(f)                                               ? NULL
		: f->state.matched || (f->kept.flags & PR_PACKET_PARTS) ? &f->kept
									: &none);
	finish(f, true);
}

void
prm_fanout_cancel_by_client(struct prm_fanout *f, uint64_t id)
{
	struct node_query *node = source_find(f, id);

	if (node)
		drop_node(f, node, "its packets are damaged, or not in order");
	else
		cancel(f);
	pump(f, false);
}

void
prm_fanout_cancel_by_other(struct prm_fanout *f)
{
	f->broken_off = true;
	cancel(f);
}

/* ---- life ---- */

static int
check_query(const struct prm_fanout_options *o, struct pr_error *err)
{
	const Packrack__Query *q = o->query;

	if (q->manifest && (!o->signer || q->count_only || q->flow_parts || q->follow))
		return pr_error_set(
			err, o->signer ? "a manifest is of packets that have come"
				       : "this merger has no key to sign a manifest with");
	if (q->since > q->until)
		return pr_error_set(err, "the time range ends before it begins");
	if (q->tally && (!q->count_only || q->limit || q->follow))
		return pr_error_set(
			err, "a count by groups gives no packets and has no limit");
	if (!o->registry->count && !q->n_nodes)
		return pr_error_set(err,
			"no node has reported to this merger yet: are the indexers "
			"running, and is their --merger this one?");
	for (size_t i = 0; i < q->n_nodes; i++)
		for (size_t j = 0; j < i; j++)
			if (!strcmp(q->nodes[i], q->nodes[j]))
				return pr_error_set(
					err, "node %s is named twice", q->nodes[i]);
	return 0;
}

struct prm_fanout *
prm_fanout_create(const struct prm_fanout_options *options, struct pr_error *err)
{
	const Packrack__Query *q = options->query;

	if (check_query(options, err) < 0)
		return NULL;
	struct prm_fanout *f = calloc(1, sizeof(*f));
	if (f) {
		f->options = *options;
		f->query = pr_message_copy(&q->base);
		if (!f->options.silent_ns)
			f->options.silent_ns = PRM_FANOUT_SILENT_NS;
		f->stuck_ns =
			f->options.silent_ns * (PRM_FANOUT_STUCK_NS / PRM_FANOUT_SILENT_NS);
		f->state.number = options->number;
		f->state.client = options->deliver ? NULL : &f->options.client.peer;
		f->mono = f->began = options->mono;
		packrack__end__init(&f->sums);
		PR_COPY(f, q, limit, count_only);
		if (f->query && f->options.gate) /* of what comes through it */
			f->query->limit = 0;
		f->room = PRM_FANOUT_BATCH;
		f->buf = malloc(f->room);
		if (q->tally)
			f->tally = pr_tally_create(
				q->tally->step > 0, q->tally->by_packets, 0, NULL);
	}
	if (!f || !f->query || !f->buf || (q->tally && !f->tally)) {
		pr_error_set(err, "no memory for a query");
		goto fail;
	}
	pr_segment_begin(&f->builder, f->buf, f->room, PR_SEGMENT_MIXED);
	f->follow.on = q->follow;
	f->follow.until = q->until;
	if (q->follow)
		set_until(f);
	begin_check(f);
	if (begin_round(f, !q->follow, err) < 0)
		goto fail;
	f->options.exclusions = NULL; /* freed by the caller; only for this round */
	return f;
fail:
	if (f)
		f->options.gate = NULL; /* the caller's still */
	prm_fanout_destroy(&f, NULL);
	return NULL;
}

void
prm_fanout_destroy(struct prm_fanout **fp, const char *why)
{
	struct prm_fanout *f = PR_TAKE(fp);

	if (!f)
		return;
	if (!f->state.done && why)
		send_failure(f, why, false);
	cancel_nodes(f);
	release(f);
	prm_gate_destroy(&f->options.gate);
	free(f->manifest);
	pr_tally_destroy(&f->tally);
	pr_tally_part_free(&f->part);
	completeness_free(&f->sums.completeness);
	completeness_free(&f->follow.total);
	packrack__query__free_unpacked(f->query, NULL);
	free(f->buf);
	free(f);
}

static void
check_node(struct prm_fanout *f, struct node_query *node)
{
	const struct prm_node_info *info =
		prm_registry_at(f->options.registry, &node->address);
	int64_t heard = info && info->heard > node->heard ? info->heard : node->heard;
	char why[80];

	if (f->mono - heard > f->options.silent_ns) {
		PR_PRINT(why, "not heard for %lld s",
			(long long)((f->mono - heard) / 1000000000));
		drop_node(f, node, why);
	} else if (f->mono - node->moved > f->stuck_ns) {
		drop_node(f, node,
			"the node responds, but has sent no data for this query for two "
			"minutes");
	} else if (!pr_rpc_probe(node->address.rpc, &node->address.peer)) {
		drop_node(f, node, "its connection is gone");
	}
}

void
prm_fanout_tick(struct prm_fanout *f, int64_t mono)
{
	f->mono = mono;
	if (f->options.client.rpc &&
		!pr_rpc_probe(f->options.client.rpc, &f->options.client.peer)) {
		if (f->state.done)
			client_gone(f);
		else
			cancel(f);
	}
	if (f->state.untold) {
		tell_end(f);
		if (f->mono - f->done_mono > PRM_FANOUT_TELL_NS)
			client_gone(f);
	}
	for (size_t i = 0; i < f->node_count && !f->state.done; i++) {
		struct node_query *node = &f->nodes[i];

		if (node_live(node) && node->unasked)
			ask_node(f, node);
		if (node_live(node) && (node->remote->owed || node->unasked))
			check_node(f, node);
	}
	pump(f, true);
	/* the next round of a query that follows */
	if (f->state.done || !f->follow.idle ||
		f->mono - f->follow.round_mono < PRM_FANOUT_FOLLOW_NS)
		return;
	next_round(f);
}

const Packrack__Query *
prm_fanout_query(const struct prm_fanout *f)
{
	return f->query;
}

const struct prm_fanout_state *
prm_fanout_state(const struct prm_fanout *f)
{
	return &f->state;
}

Packrack__RunningQuery *
prm_fanout_report(struct prm_fanout *f)
{
	Packrack__RunningQuery *out = &f->report;

	packrack__running_query__init(out);
	out->number = f->state.number;
	out->user = f->options.client.peer.user;
	out->text = f->query->text;
	out->started = f->options.real;
	out->matched = f->state.matched;
	out->bytes = f->bytes;
	for (size_t i = 0; i < f->node_count; i++) {
		out->nodes += f->nodes[i].remote != NULL;
		out->nodes_left += node_live(&f->nodes[i]);
	}
	return out;
}
