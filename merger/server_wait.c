/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "merger/server_internal.h"
#include "proto/base/clock.h"
#include "proto/rpc/message.h"

/*
 * A query goes to the index nodes of its time range first: as long as other mergers have not said which
 * summaries of theirs exclude a match, it waits here, for a fraction of a second at most.
 */
struct waiting {
	struct waiting *next;
	struct prm_inquiry inquiry;
	struct prm_address from;
	uint64_t id;
	uint32_t credit; /* given meanwhile */
	bool cancelled;
	Packrack__Query *query;
};

static void
waiting_free(struct prm_merger *m, struct waiting *w)
{
	prm_peers_forget(m->peers, &w->inquiry);
	if (w->query)
		packrack__query__free_unpacked(w->query, NULL);
	free(w);
}

/* Names of the nodes that the query is about and that are here; to be freed, not the names. */
static const char **
nodes_of(const struct prm_merger *m, const Packrack__Query *query, size_t *count)
{
	const struct prm_registry *r = &m->registry;
	const char **nodes = calloc(r->count + query->n_nodes + 1, sizeof(*nodes));

	*count = 0;
	for (size_t i = 0; nodes && !query->n_nodes && i < r->count; i++)
		nodes[(*count)++] = r->nodes[i]->hello->name;
	for (size_t i = 0; nodes && i < query->n_nodes; i++)
		nodes[(*count)++] = query->nodes[i];
	return nodes;
}

static bool
ask(struct prm_merger *m, struct waiting *w)
{
	int64_t now = pr_now_mono();
	struct prm_route route;
	size_t count;
	const char **nodes = nodes_of(m, w->query, &count);
	bool asked = false;

	if (nodes && prm_route_begin(&route, m->summaries, w->query, now) == 0) {
		asked = prm_peers_ask(m->peers, &route, nodes, count, now, &w->inquiry);
		prm_route_end(&route);
	}
	free(nodes);
	return asked;
}

bool
prm_merger_wait(struct prm_merger *m, const struct prm_address *from, uint64_t id,
	const Packrack__Query *query)
{
	struct waiting *w;

	/* one that goes on is sent to all nodes (fanout.c) */
	if (!m->peers || m->duty.count < 2 || query->follow)
		return false;
	w = calloc(1, sizeof(*w));
	if (!w)
		return false;
	w->from = *from;
	w->id = id;
	w->query = pr_message_copy(&query->base);
	if (!w->query || !ask(m, w)) {
		waiting_free(m, w);
		return false;
	}
	w->next = m->waiting;
	m->waiting = w;
	m->waiting_count++;
	return true;
}

bool
prm_merger_wait_message(
	struct prm_merger *m, const struct prm_address *from, const Packrack__Envelope *env)
{
	for (struct waiting *w = m->waiting; w; w = w->next)
		if (w->id == env->id && prm_address_equal(&w->from, from)) {
			if (env->body_case == PACKRACK__ENVELOPE__BODY_CREDIT)
				w->credit += env->credit->batches;
			else
				w->cancelled = true;
			return true;
		}
	return false;
}

static void
begin(struct prm_merger *m, struct waiting *w)
{
	struct prm_fanout *f;

	if (!prm_merger_begin(m, &w->from, w->id, w->query, &w->inquiry.verdicts))
		return;
	f = prm_merger_query(m, &w->from, w->id);
	if (f && w->credit)
		prm_fanout_credit(f, w->credit);
	if (f && w->cancelled)
		prm_fanout_cancel(f);
}

void
prm_merger_wait_over(struct prm_merger *m, int64_t mono)
{
	struct waiting **at = &m->waiting, *w;

	while ((w = *at)) {
		if (w->inquiry.left && mono < w->inquiry.deadline && !w->cancelled) {
			at = &w->next;
			continue;
		}
		*at = w->next;
		m->waiting_count--;
		begin(m, w);
		waiting_free(m, w);
	}
}

void
prm_merger_wait_end(struct prm_merger *m)
{
	struct waiting *w;

	while ((w = m->waiting)) {
		m->waiting = w->next;
		prm_merger_refuse(&w->from, w->id, "the merger was stopped", false);
		waiting_free(m, w);
	}
}

void
prm_merger_judge(
	struct prm_merger *m, const struct prm_address *from, const Packrack__Envelope *env)
{
	Packrack__Envelope reply = PACKRACK__ENVELOPE__INIT;
	const Packrack__RouteRequest *request = env->route_request;
	Packrack__Route route = PACKRACK__ROUTE__INIT;
	struct prm_route r;

	if (!request->query ||
		prm_route_begin(&r, m->summaries, request->query, pr_now_mono()))
		return;
	if (prm_peers_judge(&r, request, &route) == 0) {
		reply.body_case = PACKRACK__ENVELOPE__BODY_ROUTE;
		reply.route = &route;
		prm_merger_reply(from, env->id, &reply);
		prm_peers_reply_free(&route);
	}
	prm_route_end(&r);
}
