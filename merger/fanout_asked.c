/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/fanout_internal.h"

#include <stdio.h>
#include <stdlib.h>

/* Which nodes are asked, and what for. */

int
prm_fanout_send(const struct leg *leg, Packrack__Envelope *env)
{
	env->id = leg->id;
	return pr_rpc_send(leg->address.rpc, &leg->address.peer, env, NULL);
}

void
prm_fanout_fail(struct prm_fanout *f, struct leg *leg, const char *why)
{
	Packrack__Cancel cancel = PACKRACK__CANCEL__INIT;
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;

	if (leg->settled)
		return;
	leg->settled = true;
	prm_completeness_failed(f->completeness, leg->index, why);
	if (!leg->remote)
		return;
	prm_remote_end(leg->remote); /* what it gave and told before is good, and counts */
	env.body_case = PACKRACK__ENVELOPE__BODY_CANCEL;
	env.cancel = &cancel;
	prm_fanout_send(leg, &env);
}

void
prm_fanout_cancel_legs(struct prm_fanout *f)
{
	Packrack__Cancel cancel = PACKRACK__CANCEL__INIT;
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;

	env.body_case = PACKRACK__ENVELOPE__BODY_CANCEL;
	env.cancel = &cancel;
	for (size_t i = 0; i < f->leg_count; i++) {
		struct leg *leg = &f->legs[i];

		if (leg->remote && !prm_remote_ended(leg->remote)) {
			prm_fanout_send(leg, &env);
			prm_remote_end(leg->remote);
		}
		leg->settled = true;
	}
}

/* ---- beginning ---- */

static struct leg *
leg_add(struct prm_fanout *f, const char *name, struct pr_error *err)
{
	struct leg *leg = &f->legs[f->leg_count];

	*leg = (struct leg){.index = prm_completeness_node(f->completeness, name, err)};
	if (leg->index < 0)
		return NULL;
	f->leg_count++;
	return leg;
}

static int
leg_ask(struct prm_fanout *f, struct leg *leg, const struct prm_node *node,
	const Packrack__Query *query, struct pr_error *err)
{
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;
	struct pr_source *source;

	leg->address = node->address;
	leg->id = ++*f->options.next_id;
	leg->heard = leg->moved = f->options.mono;
	leg->remote = prm_remote_create(err);
	source = leg->remote ? prm_remote_source(leg->remote, err) : NULL;
	if (!source || pr_merge_add(f->merge, source, err) < 0)
		return -1;
	env.body_case = PACKRACK__ENVELOPE__BODY_QUERY;
	env.query = (Packrack__Query *)query;
	if (prm_fanout_send(leg, &env) < 0)
		prm_fanout_fail(f, leg, "its connection is gone");
	return 0;
}

/* What the node would tell is told for it. */
static int
leg_leave_out(struct prm_fanout *f, struct leg *leg, struct prm_route *route,
	const char *name, const char *why, struct pr_error *err)
{
	leg->settled = true;
	prm_completeness_why(f->completeness, leg->index, why, true);
	return prm_route_tell(route, name, f->completeness, leg->index, err);
}

static int
leg_begin(struct prm_fanout *f, const char *name, const struct prm_node *node,
	const Packrack__Query *query, struct prm_route *route, struct pr_error *err)
{
	struct leg *leg = leg_add(f, name, err);
	char why[PRM_ROUTE_WHY_MAX] = "";

	if (!leg)
		return -1;
	if (node && prm_node_connected(node, f->options.mono)) {
		if (route && prm_route_decide(route, name, why))
			return leg_leave_out(f, leg, route, name, why, err);
		if (f->rechecking)
			snprintf(why, sizeof(why),
				"the answer seemed to lack packets, so all were");
		prm_completeness_why(f->completeness, leg->index, why, false);
		return leg_ask(f, leg, node, query, err);
	}
	if (node)
		snprintf(why, sizeof(why), "no sign of life for %lld s",
			(long long)((f->options.mono - node->heard) / 1000000000));
	prm_fanout_fail(f, leg, node ? why : "the merger knows no such node");
	return 0;
}

static int
begin_route(struct prm_fanout *f, struct prm_route *route, struct pr_error *err)
{
	if (prm_route_begin(
		    route, f->options.summaries, f->options.query, f->options.mono) < 0)
		return pr_error_set(err, "no memory for a query");
	route->verdicts = f->options.verdicts;
	return 0;
}

/*
 * The query as nodes get it: `nodes` is for mergers. Nodes can count for themselves as long as no
 * packet lies on two of them, which shows at the end (prm_fanout_recount), and without a limit, which
 * only a merge can keep.
 */
int
prm_fanout_ask_all(struct prm_fanout *f, bool count_at_node, struct pr_error *err)
{
	const struct prm_registry *registry = f->options.registry;
	const Packrack__Query *query = f->options.query;
	Packrack__Query copy = *query;
	size_t count = query->n_nodes ? query->n_nodes : registry->count;
	struct prm_route route;
	/* one that goes on must not miss who has nothing yet, and cannot be checked by asking again */
	bool routed = f->options.summaries && !f->rechecking && !f->follow.on;
	int rc = 0;

	copy.nodes = NULL;
	copy.n_nodes = 0;
	copy.lookups = NULL;
	copy.n_lookups = 0;
	copy.tally = f->rechecking ? NULL : query->tally; /* which was given */
	f->count_at_node = count_at_node && f->count_only && (count == 1 || !query->limit);
	copy.count_only = f->count_at_node;
	copy.follow = false;
	copy.settle = f->follow.on;
	f->legs = calloc(count ? count : 1, sizeof(*f->legs));
	if (!f->legs)
		return pr_error_set(err, "no memory for a query");
	if (routed && begin_route(f, &route, err) < 0)
		return -1;
	for (size_t i = 0; rc == 0 && i < count; i++) {
		const struct prm_node *node =
			query->n_nodes ? prm_registry_find(registry, query->nodes[i])
				       : registry->nodes[i];

		rc = leg_begin(f, node ? node->hello->name : query->nodes[i], node, &copy,
			routed ? &route : NULL, err);
	}
	if (routed) {
		f->asked = route.asked;
		f->left_out = route.left_out;
		prm_route_end(&route);
	}
	return rc;
}
