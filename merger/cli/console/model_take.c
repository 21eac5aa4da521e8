/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "merger/cli/console/model.h"
#include "proto/base/clock.h"
#include "proto/rpc/status.h"

#define NODES_MAX 4096

#define COPY(to, from) snprintf(to, sizeof(to), "%.*s", (int)sizeof(to) - 1, from)

/* ---- nodes ---- */

static size_t
place_of(const struct model *m, const char *name)
{
	size_t i = 0;

	while (i < m->node_count && strcmp(m->nodes[i]->name, name) < 0)
		i++;
	return i;
}

/* Two nodes of one name are told apart by the MAC, where it is known. NULL: no memory. */
static struct model_node *
node_get(struct model *m, const char *given, const char *mac)
{
	char name[MODEL_NAME];
	size_t at;
	struct model_node *n, **grown;

	COPY(name, given);
	at = place_of(m, name);
	for (size_t i = at; i < m->node_count && !strcmp(m->nodes[i]->name, name); i++)
		if (!mac || !m->nodes[i]->mac[0] || !strcmp(m->nodes[i]->mac, mac))
			return m->nodes[i];
	if (m->node_count == NODES_MAX || !(n = calloc(1, sizeof(*n))))
		return NULL;
	if (m->node_count == m->node_room) {
		grown = reallocarray(m->nodes, m->node_room + 64, sizeof(*grown));
		if (!grown) {
			free(n);
			return NULL;
		}
		m->nodes = grown;
		m->node_room += 64;
	}
	memmove(&m->nodes[at + 1], &m->nodes[at], (m->node_count - at) * sizeof(*m->nodes));
	m->nodes[at] = n;
	m->node_count++;
	COPY(n->name, name);
	return n;
}

/* Those that the message did not name any more are not its sender's. */
static void
nodes_sweep(struct model *m, bool dispatcher)
{
	size_t kept = 0;

	for (size_t i = 0; i < m->node_count; i++) {
		struct model_node *n = m->nodes[i];

		if (!n->seen && dispatcher)
			n->sent = false;
		else if (!n->seen)
			n->stored = false;
		if (n->sent || n->stored)
			m->nodes[kept++] = n;
		else
			free(n);
	}
	m->node_count = kept;
}

static void
take_sent_node(
	struct model *m, const Packrack__DispatcherNode *d, int64_t time, int64_t now)
{
	struct model_node *n = node_get(m, d->name, d->mac);

	if (!n)
		return;
	if (!n->sent)
		model_event(m, now, "node %s (%s) is %s", d->name, d->mac, d->state);
	else if (strcmp(n->state, d->state))
		model_event(m, now, "node %s was %s, is %s", d->name, n->state, d->state);
	n->sent = n->seen = true;
	n->number = d->number;
	n->heard = d->last_seen;
	COPY(n->mac, d->mac);
	COPY(n->state, d->state);
	series_push(&n->out, &m->out_names, time, d->values, d->n_values, "stored_packets");
}

static void
take_stored_node(struct model *m, const Packrack__NodeStatus *s, int64_t time, int64_t now)
{
	Packrack__Value items[32], *pointers[32];
	struct pr_values values = PR_VALUE_LIST(items, pointers);
	struct model_node *n = node_get(m, s->name, NULL);

	if (!n)
		return;
	if (n->stored && n->connected != s->connected)
		model_event(m, now, "node %s: its indexer %s", s->name,
			s->connected ? "is back" : "has fallen silent");
	if (n->stored && n->writer != s->writer_alive)
		model_event(m, now, "node %s: its logger %s", s->name,
			s->writer_alive ? "is back" : "has gone");
	n->stored = n->seen = true;
	n->connected = s->connected;
	n->writer = s->writer_alive;
	n->last_seen = s->last_seen;
	pr_values_add_node(&values, s);
	series_push(&n->in, &m->in_names, time, pointers, values.count, "packets");
}

/* ---- whole messages ---- */

static void
take_peer(struct model *m, struct model_peer *p, const Packrack__Status *s,
	const char *name, const char *lead, int64_t now)
{
	if (!p->answers)
		model_event(m, now, "%s %s answers", name, s->version);
	else if (strcmp(p->state, s->state))
		model_event(m, now, "%s was %s, is %s", name, p->state, s->state);
	p->answers = true;
	p->error[0] = '\0';
	COPY(p->version, s->version);
	COPY(p->state, s->state);
	p->time = s->time;
	series_push(&p->series, &p->names, s->time, s->values, s->n_values, lead);
}

static struct model_link *
link_get(struct model *m, unsigned number)
{
	for (unsigned i = 0; i < m->link_count; i++)
		if (m->links[i].number == number)
			return &m->links[i];
	if (m->link_count == MODEL_LINKS)
		return NULL;
	m->links[m->link_count].number = number;
	return &m->links[m->link_count++];
}

static void
take_link(struct model *m, const Packrack__DispatcherLink *d, int64_t time)
{
	struct model_link *l = link_get(m, d->link);

	if (!l)
		return;
	COPY(l->name, d->name);
	l->last_seq = d->last_seq;
	l->ended = d->ended;
	series_push(&l->series, &m->link_names, time, d->values, d->n_values,
		"captured_packets");
}

static void
take_queries(struct model *m, const Packrack__Status *s)
{
	m->query_count = 0;
	for (size_t i = 0; i < s->n_queries && m->query_count < MODEL_QUERIES; i++) {
		const Packrack__RunningQuery *from = s->queries[i];
		struct model_query *q = &m->queries[m->query_count++];

		*q = (struct model_query){.number = from->number,
			.matched = from->matched,
			.bytes = from->bytes,
			.started = from->started,
			.nodes = from->nodes,
			.nodes_left = from->nodes_left};
		COPY(q->user, from->user);
		COPY(q->text, from->text);
	}
}

static void
take_store(struct model *m, const Packrack__NodeStatus *n, const Packrack__StreamHeld *s)
{
	struct model_store *to = &m->stores[m->store_count++];
	const Packrack__Deleted *d = s->n_deleted ? s->deleted[s->n_deleted - 1] : NULL;
	char since[PR_TIME_TEXT], until[PR_TIME_TEXT];

	*to = (struct model_store){.connected = n->connected,
		.packets = s->packets,
		.bytes = s->bytes,
		.guarantee = s->guarantee,
		.oldest = s->first_time,
		.newest = s->last_time,
		.gone_until = s->evicted_segments ? s->evicted_until : 0};
	COPY(to->node, n->name);
	COPY(to->stream, s->name);
	COPY(to->link, s->link_name);
	if (d)
		snprintf(to->deleted, sizeof(to->deleted), "%s to %s %s%s by %s",
			d->since ? pr_time_format(d->since, since, sizeof(since)) : "up",
			pr_time_format(d->until, until, sizeof(until)),
			d->moved_to[0] ? "moved to " : "deleted", d->moved_to, d->by);
}

static void
take_stores(struct model *m, const Packrack__Status *s)
{
	m->store_count = 0;
	for (size_t i = 0; i < s->n_nodes; i++)
		for (size_t j = 0; j < s->nodes[i]->n_streams; j++)
			if (s->nodes[i]->streams[j]->packet_stream &&
				m->store_count < MODEL_STORES)
				take_store(m, s->nodes[i], s->nodes[i]->streams[j]);
}

static void
nodes_unsee(struct model *m)
{
	for (size_t i = 0; i < m->node_count; i++)
		m->nodes[i]->seen = false;
}

void
model_take_dispatcher(struct model *m, const Packrack__Status *s, int64_t now)
{
	struct model_peer *p = &m->dispatcher;

	if (p->epoch != s->epoch) {
		if (p->epoch)
			model_event(m, now, "the dispatcher was started again");
		memset(&p->series, 0, sizeof(p->series));
		memset(m->links, 0, sizeof(m->links));
		m->link_count = 0;
		p->epoch = s->epoch;
	}
	take_peer(m, p, s, "dispatcher", "captured_packets", now);
	nodes_unsee(m);
	for (size_t i = 0; i < s->n_dispatcher_nodes; i++)
		take_sent_node(m, s->dispatcher_nodes[i], s->time, now);
	nodes_sweep(m, true);
	for (size_t i = 0; i < s->n_dispatcher_links; i++)
		take_link(m, s->dispatcher_links[i], s->time);
}

void
model_take_merger(struct model *m, unsigned which, const Packrack__Status *s, int64_t now)
{
	struct model_peer *p = &m->mergers[which];
	char name[32];

	snprintf(name, sizeof(name), which ? "merger %u" : "merger", which + 1);
	take_peer(m, p, s, name, "merged_packets", now);
	p->nodes = (unsigned)s->n_nodes;
	p->queries = (unsigned)s->n_queries;
	if (which)
		return;
	take_queries(m, s);
	take_stores(m, s);
	nodes_unsee(m);
	for (size_t i = 0; i < s->n_nodes; i++)
		take_stored_node(m, s->nodes[i], s->time, now);
	nodes_sweep(m, false);
}
