/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/console/model.h"

#include <stdarg.h>

#include "proto/base/array.h"
#include "proto/base/text.h"
#include "proto/rpc/message.h"
#include "proto/rpc/status.h"

/*
 * A counter's place. Programs send their counters in a fixed order, so it is nearly always
 * `hint`.
 */
static int
name_find(const struct series_names *n, const char *name, unsigned hint)
{
	if (hint < n->count && !strcmp(n->name[hint], name))
		return hint;
	for (unsigned i = 0; i < n->count; i++)
		if (!strcmp(n->name[i], name))
			return i;
	return -1;
}

static const struct series_sample *
sample(const struct series *s, unsigned back)
{
	return &s->samples[(s->count - 1 - back) % SERIES_WINDOW];
}

/*
 * Adds a sample at the sender's time (ns). A sample of the same or an earlier time is
 * ignored. `lead` is the counter drawn as sparkline; when it falls, its program was
 * restarted, and the series begins again.
 */
static void
series_push(struct series *s, struct series_names *names, int64_t time,
	Packrack__Value *const *values, size_t count, const char *lead)
{
	const struct series_sample *last = s->count ? sample(s, 0) : NULL;
	struct series_sample *new = &s->samples[s->count % SERIES_WINDOW];
	int at;

	if (last && time <= last->time)
		return;
	s->names = names;
	s->count++;
	*new = (struct series_sample){.time = time};
	for (size_t i = 0; i < count; i++) {
		const char *name = values[i]->name;

		at = name_find(names, name, i);
		if (at < 0 && names->count < SERIES_VALUES &&
			strlen(name) < sizeof(names->name[0])) {
			at = names->count++;
			PR_PRINT(names->name[at], "%s", name);
		}
		if (at >= 0)
			new->values[at] = values[i]->number;
	}
	at = name_find(names, lead, 0);
	if (!last || at < 0)
		return;
	if (new->values[at] < last->values[at]) {
		s->samples[0] = *new;
		s->count = 1;
		return;
	}
	if (s->spark_count == SERIES_SPARK)
		memmove(s->spark, s->spark + 1, sizeof(s->spark) - sizeof(s->spark[0]));
	else
		s->spark_count++;
	s->spark[s->spark_count - 1] =
		(new->values[at] - last->values[at]) * 1e9 / (time - last->time) + 0.5;
}

bool
series_has(const struct series *s, const char *name)
{
	return s->count && name_find(s->names, name, 0) >= 0;
}

/* In the sample that is so many back. */
static uint64_t
value_at(const struct series *s, unsigned back, const char *names)
{
	uint64_t sum = 0;

	for (size_t len; *names; names += len + (names[len] == '+')) {
		len = strcspn(names, "+");
		for (unsigned i = 0; i < s->names->count; i++)
			if (!strncmp(s->names->name[i], names, len) &&
				!s->names->name[i][len])
				sum += sample(s, back)->values[i];
	}
	return sum;
}

uint64_t
series_now(const struct series *s, const char *names)
{
	return s->count ? value_at(s, 0, names) : 0;
}

uint64_t
series_instant(const struct series *s, const char *names)
{
	uint64_t now = series_now(s, names),
		 before = s->count > 1 ? value_at(s, 1, names) : now;

	return now > before ? now - before : 0;
}

double
series_rate(const struct series *s, const char *names)
{
	unsigned back = (s->count < SERIES_WINDOW ? s->count : SERIES_WINDOW) - 1;
	uint64_t now = series_now(s, names), before;

	if (s->count < 2 || now <= (before = value_at(s, back, names)))
		return 0;
	return (now - before) * 1e9 / (sample(s, 0)->time - sample(s, back)->time);
}

#define NODES_MAX 4096

#define COPY(to, from) PR_PRINT(to, "%.*s", (int)sizeof(to) - 1, from)

/* ---- nodes ---- */

/* Two nodes of one name are told apart by the MAC, where it is known. NULL: no memory. */
static struct model_node *
node_get(struct model *m, const char *given, const char *mac)
{
	char name[MODEL_NAME];
	size_t at = 0;
	struct model_node *n;

	COPY(name, given);
	while (at < m->node_count && strcmp(m->nodes[at]->name, name) < 0)
		at++;
	for (size_t i = at; i < m->node_count && !strcmp(m->nodes[i]->name, name); i++)
		if (!mac || !m->nodes[i]->mac[0] || !strcmp(m->nodes[i]->mac, mac))
			return m->nodes[i];
	if (m->node_count == NODES_MAX || PR_ARRAY_GROW(m->nodes, m->node_count) < 0 ||
		!(n = calloc(1, sizeof(*n))))
		return NULL;
	memmove(&m->nodes[at + 1], &m->nodes[at], (m->node_count - at) * sizeof(*m->nodes));
	m->nodes[at] = n;
	m->node_count++;
	COPY(n->name, name);
	return n;
}

/* Nodes that the message does not name are no longer known to its sender. */
static void
nodes_sweep(struct model *m, bool dispatcher)
{
	size_t kept = 0;

	for (size_t i = 0; i < m->node_count; i++) {
		struct model_node *n = m->nodes[i];

		if (!n->seen && dispatcher) {
			n->sent = NULL;
			n->dispatcher_values.count = 0;
		} else if (!n->seen) {
			n->held = NULL;
			n->merger_values.count = 0;
		}
		n->seen = false;
		if (n->sent || n->held)
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
	else if (strcmp(n->sent->state, d->state))
		model_event(
			m, now, "node %s was %s, is %s", d->name, n->sent->state, d->state);
	n->sent = d;
	n->seen = true;
	COPY(n->mac, d->mac);
	series_push(&n->dispatcher_values, &m->dispatcher_names, time, d->values,
		d->n_values, "stored_packets");
}

static void
take_stored_node(struct model *m, const Packrack__NodeStatus *s, int64_t time, int64_t now)
{
	Packrack__Value items[32], *pointers[32];
	struct pr_values values = PR_VALUE_LIST(items, pointers);
	struct model_node *n = node_get(m, s->name, NULL);

	if (!n)
		return;
	if (n->held && n->held->connected != s->connected)
		model_event(m, now, "node %s: its indexer %s", s->name,
			s->connected ? "is back" : "has fallen silent");
	if (n->held && n->held->writer_alive != s->writer_alive)
		model_event(m, now, "node %s: its logger %s", s->name,
			s->writer_alive ? "is back" : "has gone");
	n->held = s;
	n->seen = true;
	pr_values_add_node(&values, s);
	series_push(&n->merger_values, &m->merger_names, time, pointers, values.count,
		"packets");
}

/* ---- whole messages ---- */

static void
take_peer(struct model *m, struct model_peer *p, Packrack__Status *s, const char *name,
	const char *lead, int64_t now)
{
	if (!p->answers)
		model_event(m, now, "%s %s answers", name, s->version);
	else if (strcmp(p->status->state, s->state))
		model_event(m, now, "%s was %s, is %s", name, p->status->state, s->state);
	p->answers = true;
	p->error[0] = '\0';
	p->status = s;
	series_push(&p->series, &p->names, s->time, s->values, s->n_values, lead);
}

static void
take_link(struct model *m, const Packrack__DispatcherLink *d, int64_t time)
{
	struct model_link *l = m->links;

	while (l < m->links + m->link_count && l->number != d->link)
		l++;
	if (l == m->links + MODEL_LINKS)
		return;
	if (l == m->links + m->link_count)
		m->link_count++;
	l->number = d->link;
	COPY(l->name, d->name);
	PR_COPY(l, d, last_seq, ended);
	series_push(&l->series, &m->link_names, time, d->values, d->n_values,
		"captured_packets");
}

/* The nodes point into the previous answer until they are swept. Without memory it stays. */
void
model_take_dispatcher(struct model *m, const Packrack__Status *given, int64_t now)
{
	struct model_peer *p = &m->dispatcher;
	Packrack__Status *s = pr_message_copy(&given->base), *previous = p->status;

	if (!s)
		return;
	if (!previous || previous->epoch != s->epoch) {
		if (previous)
			model_event(m, now, "the dispatcher was started again");
		memset(&p->series, 0, sizeof(p->series));
		memset(m->links, 0, sizeof(m->links));
		m->link_count = 0;
	}
	take_peer(m, p, s, "dispatcher", "captured_packets", now);
	for (size_t i = 0; i < s->n_dispatcher_nodes; i++)
		take_sent_node(m, s->dispatcher_nodes[i], s->time, now);
	nodes_sweep(m, true);
	for (size_t i = 0; i < s->n_dispatcher_links; i++)
		take_link(m, s->dispatcher_links[i], s->time);
	packrack__status__free_unpacked(previous, NULL);
}

void
model_take_merger(
	struct model *m, unsigned which, const Packrack__Status *given, int64_t now)
{
	struct model_peer *p = &m->mergers[which];
	Packrack__Status *s = pr_message_copy(&given->base), *previous = p->status;
	char name[32];

	if (!s)
		return;
	PR_PRINT(name, which ? "merger %u" : "merger", which + 1);
	take_peer(m, p, s, name, "merged_packets", now);
	if (which == 0) {
		m->queries = s->queries;
		m->query_count = s->n_queries;
		m->store_count = 0;
		for (size_t i = 0; i < s->n_nodes; i++) {
			const Packrack__NodeStatus *n = s->nodes[i];

			for (size_t j = 0; j < n->n_streams; j++)
				if (n->streams[j]->packet_stream &&
					m->store_count < MODEL_STORES)
					m->stores[m->store_count++] =
						(struct model_store){n, n->streams[j]};
			take_stored_node(m, n, s->time, now);
		}
		nodes_sweep(m, false);
	}
	packrack__status__free_unpacked(previous, NULL);
}

struct model *
model_create(struct pr_error *err)
{
	struct model *m = calloc(1, sizeof(*m));

	if (!m)
		pr_error_set(err, "no memory for the figures");
	return m;
}

void
model_destroy(struct model **mp)
{
	struct model *m = PR_TAKE(mp);

	if (!m)
		return;
	for (size_t i = 0; i < m->node_count; i++)
		free(m->nodes[i]);
	free(m->nodes);
	packrack__status__free_unpacked(m->dispatcher.status, NULL);
	for (unsigned i = 0; i < MODEL_MERGERS; i++)
		packrack__status__free_unpacked(m->mergers[i].status, NULL);
	free(m);
}

void
model_event(struct model *m, int64_t now, const char *fmt, ...)
{
	struct model_event *e = &m->events[m->event_count++ % MODEL_EVENTS];
	va_list args;

	e->time = now;
	va_start(args, fmt);
	vsnprintf(e->text, sizeof(e->text), fmt, args);
	va_end(args);
}

void
model_silent(struct model *m, struct model_peer *peer, const char *name, const char *why,
	int64_t now)
{
	if ((peer->answers || strcmp(peer->error, why)) && (peer->wanted || peer->status))
		model_event(m, now, "%s: %s", name, why);
	peer->answers = false;
	PR_PRINT(peer->error, "%s", why);
}

const char *
node_state(const struct model *m, const struct model_node *n, bool *bad)
{
	*bad = n->sent && strcmp(n->sent->state, "active");
	if (*bad)
		return n->sent->state;
	/* the dispatcher hears its logger, the merger does not hear its indexer */
	*bad = n->held && m->mergers[0].answers && !n->held->connected;
	if (*bad)
		return "unindexed";
	if (n->sent)
		return n->sent->state;
	*bad = !n->held->writer_alive;
	return *bad ? "no-logger" : "recording";
}

double
node_full_in(const struct model_node *n)
{
	const struct series *s = &n->merger_values;
	double size = series_now(s, "volume_size_bytes"), rate, left;

	if (size > 0) {
		rate = series_rate(s, "volume_used_bytes");
		left = size - series_now(s, "volume_used_bytes");
	} else {
		rate = series_rate(&n->dispatcher_values, "stored_bytes");
		left = series_now(&n->dispatcher_values, "volume_free_bytes");
	}
	return rate > 0 ? left / rate : -1;
}

uint64_t
nodes_sum(const struct model *m, const char *name)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < m->node_count; i++)
		sum += series_now(&m->nodes[i]->dispatcher_values, name);
	return sum;
}
