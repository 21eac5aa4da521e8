/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/peers.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "proto/base/log.h"

#define SAY_NS PR_NS_PER_S
#define LACKS_A_NODE 1024 /* summaries asked for, at most */

struct peer {
	struct prm_peers *peers;
	char *endpoint, *name; /* name NULL: not received yet */
	struct pr_rpc *rpc;
	int64_t heard; /* monotonic */
	bool alive;
};

struct prm_peers {
	struct pr_loop *loop;
	const char *name;
	struct prm_ownership *ownership;
	void (*done)(void *arg);
	void *arg;
	struct peer *items[PRM_OWNERSHIP_MERGERS_MAX - 1];
	size_t count;
	int64_t last_sent; /* monotonic ns */
	uint64_t last_id;
	struct prm_inquiry *inquiries;
};

struct prm_peers *
prm_peers_create(struct pr_loop *loop, const char *name, struct prm_ownership *ownership,
	void (*done)(void *arg), void *arg)
{
	struct prm_peers *p = calloc(1, sizeof(*p));

	if (p)
		*p = (struct prm_peers){.loop = loop,
			.name = name,
			.ownership = ownership,
			.done = done,
			.arg = arg};
	ownership->mergers[0] = (struct prm_owner){name, true};
	ownership->count = 1;
	return p;
}

static void
peer_free(struct peer *peer)
{
	pr_rpc_destroy(&peer->rpc);
	PR_FREE(peer, endpoint, name);
	free(peer);
}

void
prm_peers_destroy(struct prm_peers **pp)
{
	struct prm_peers *p = PR_TAKE(pp);

	if (!p)
		return;
	for (size_t i = 0; i < p->count; i++)
		peer_free(p->items[i]);
	free(p);
}

/* ---- which mergers are alive ---- */

/*
 * Lists the mergers whose name is known. A merger with our own name is left out, as it
 * would be taken for this one.
 */
static void
refresh_duty(struct prm_peers *p, int64_t mono)
{
	struct prm_ownership *d = p->ownership;

	d->self = 0;
	d->count = 1;
	d->mergers[0] = (struct prm_owner){p->name, true};
	for (size_t i = 0; i < p->count; i++) {
		struct peer *peer = p->items[i];
		bool alive = peer->name && mono - peer->heard <= PRM_PEERS_LATE_NS;

		if (alive != peer->alive)
			pr_log_info("merger %s %s",
				peer->name ? peer->name : peer->endpoint,
				alive ? "is reachable"
				      : "is unreachable: the remaining mergers take over "
					"its summaries");
		peer->alive = alive;
		if (peer->name && strcmp(peer->name, p->name))
			d->mergers[d->count++] = (struct prm_owner){peer->name, alive};
	}
}

/* ---- answers ---- */

static void
on_message(
	void *arg, PR_UNUSED const struct pr_rpc_peer *from, const Packrack__Envelope *env)
{
	struct peer *peer = arg;
	struct prm_peers *p = peer->peers;
	struct prm_inquiry *q = p->inquiries;
	int64_t now = pr_now_mono();

	peer->heard = now;
	if (env->body_case == PACKRACK__ENVELOPE__BODY_PEER) {
		const char *name = env->peer->name;

		if (!peer->name || strcmp(peer->name, name)) {
			if (!strcmp(name, p->name))
				pr_log_warning("the merger at %s uses the same name, %s, "
					       "as this one: give each a --name of its own",
					peer->endpoint, name);
			/* the ownership list borrows the old name */
			p->ownership->count = 1;
			free(peer->name);
			peer->name = strdup(name);
		}
		refresh_duty(p, now);
		return;
	}
	while (q && q->id != env->id)
		q = q->next;
	if (env->body_case != PACKRACK__ENVELOPE__BODY_ROUTE || !q || !q->left)
		return;
	for (size_t i = 0; i < env->route->n_excluded; i++) {
		const Packrack__RouteItem *item = env->route->excluded[i];

		for (size_t j = 0; j < item->n_numbers; j++)
			prm_exclusions_add(&q->exclusions, item->boot, item->numbers[j]);
	}
	if (!--q->left)
		p->done(p->arg);
}

static void
on_state(void *arg, enum pr_rpc_state state)
{
	struct peer *peer = arg;

	if (state == PR_RPC_REFUSED)
		pr_log_warning("%s refused the connection: enroll this merger's key there, "
			       "with role read",
			peer->endpoint);
	if (state != PR_RPC_CONNECTED)
		peer->heard = INT64_MIN / 2;
}

int
prm_peers_add(
	struct prm_peers *p, const char *endpoint, const char *keys, struct pr_error *err)
{
	struct peer *peer = calloc(1, sizeof(*peer));

	if (!peer || p->count == PRM_OWNERSHIP_MERGERS_MAX - 1) {
		free(peer);
		return pr_error_set(
			err, "--peer: at most %d", PRM_OWNERSHIP_MERGERS_MAX - 1);
	}
	*peer = (struct peer){.peers = p, .heard = INT64_MIN / 2};
	peer->endpoint = strdup(endpoint);
	peer->rpc = pr_rpc_connect(p->loop, endpoint, keys, on_message, peer, err);
	if (!peer->endpoint || !peer->rpc) {
		peer_free(peer);
		return -1;
	}
	pr_rpc_watch(peer->rpc, on_state, peer);
	p->items[p->count++] = peer;
	return 0;
}

void
prm_peers_tick(struct prm_peers *p, int64_t mono)
{
	Packrack__Peer me = PACKRACK__PEER__INIT;
	Packrack__Envelope env = pr_message_of(0, PACKRACK__ENVELOPE__BODY_PEER, &me);

	refresh_duty(p, mono);
	if (mono - p->last_sent < SAY_NS)
		return;
	p->last_sent = mono;
	me.name = (char *)p->name;
	for (size_t i = 0; i < p->count; i++)
		pr_rpc_send(p->items[i]->rpc, NULL, &env, NULL);
}

/* ---- asking ---- */

/* The request for each merger. */
struct asking {
	struct prm_peers *p;
	struct prm_exclusions wanted[PRM_OWNERSHIP_MERGERS_MAX];
};

static void
lacks(void *arg, int64_t time, uint64_t boot, uint64_t number)
{
	struct asking *a = arg;
	size_t owner = prm_owner_of(a->p->ownership, time);

	if (owner != a->p->ownership->self)
		prm_exclusions_add(&a->wanted[owner], boot, number);
}

/* Programs go without instructions: their number is what counts. */
static int
send_request(struct pr_rpc *rpc, uint64_t id, const Packrack__Query *query,
	const struct prm_exclusions *wanted)
{
	Packrack__RouteRequest request = PACKRACK__ROUTE_REQUEST__INIT;
	Packrack__Envelope env =
		pr_message_of(id, PACKRACK__ENVELOPE__BODY_ROUTE_REQUEST, &request);
	Packrack__Program empty = PACKRACK__PROGRAM__INIT;
	Packrack__Program **programs = calloc(query->n_programs + 1, sizeof(*programs));
	Packrack__Query few = *query;

	for (size_t i = 0; programs && i < query->n_programs; i++)
		programs[i] = &empty;
	few.programs = programs;
	few.n_nodes = 0;
	few.tally = NULL;
	request.query = &few;
	request.items = wanted->items;
	request.n_items = wanted->count;
	int rc = programs ? pr_rpc_send(rpc, NULL, &env, NULL) : -1;
	free(programs);
	return rc;
}

bool
prm_peers_ask(struct prm_peers *p, struct prm_route *route,
	const struct prm_registry *registry, int64_t mono, struct prm_inquiry *q)
{
	const Packrack__Query *query = route->query;
	size_t count = query->n_nodes ? query->n_nodes : registry->count;
	struct asking a = {.p = p};

	*q = (struct prm_inquiry){.id = ++p->last_id, .deadline = mono + PRM_PEERS_WAIT_NS};
	for (size_t i = 0; p->ownership->count > 1 && i < count; i++)
		prm_route_lacks(route,
			query->n_nodes ? query->nodes[i] : registry->nodes[i]->hello->name,
			LACKS_A_NODE, lacks, &a);
	for (size_t i = 1; i < p->ownership->count; i++) {
		struct peer *peer = NULL;

		for (size_t j = 0; !peer && j < p->count; j++)
			if (p->items[j]->name == p->ownership->mergers[i].name)
				peer = p->items[j];
		if (a.wanted[i].count && peer &&
			send_request(peer->rpc, q->id, query, &a.wanted[i]) == 0)
			q->left++;
		prm_exclusions_free(&a.wanted[i]);
	}
	if (!q->left)
		return false;
	LL_PREPEND(p->inquiries, q);
	return true;
}

void
prm_peers_forget(struct prm_peers *p, struct prm_inquiry *q)
{
	if (p->inquiries)
		LL_DELETE(p->inquiries, q);
	prm_exclusions_free(&q->exclusions);
}

/* ---- being asked ---- */

void
prm_peers_answer(struct prm_route *route, const Packrack__RouteRequest *request,
	struct prm_exclusions *excluded)
{
	*excluded = (struct prm_exclusions){0};
	for (size_t i = 0; i < request->n_items; i++) {
		const Packrack__RouteItem *item = request->items[i];

		for (size_t j = 0; j < item->n_numbers; j++)
			if (prm_route_excludes(route, item->boot, item->numbers[j]))
				prm_exclusions_add(excluded, item->boot, item->numbers[j]);
	}
}

size_t
prm_peers_alive(const struct prm_peers *p)
{
	size_t count = 0;

	for (size_t i = 0; i < p->count; i++)
		count += p->items[i]->alive;
	return count;
}
