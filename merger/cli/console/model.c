/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/console/model.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
	struct model *m = *mp;

	*mp = NULL;
	if (!m)
		return;
	for (size_t i = 0; i < m->node_count; i++)
		free(m->nodes[i]);
	free(m->nodes);
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

const struct model_event *
model_event_at(const struct model *m, unsigned back)
{
	unsigned kept = m->event_count < MODEL_EVENTS ? m->event_count : MODEL_EVENTS;

	return back < kept ? &m->events[(m->event_count - 1 - back) % MODEL_EVENTS] : NULL;
}

void
model_silent(struct model *m, struct model_peer *peer, const char *name, const char *why,
	int64_t now)
{
	if ((peer->answers || strcmp(peer->error, why)) && (peer->wanted || peer->time))
		model_event(m, now, "%s: %s", name, why);
	peer->answers = false;
	snprintf(peer->error, sizeof(peer->error), "%s", why);
}

uint64_t
node_out(const struct model *m, const struct model_node *n, const char *name)
{
	return n->sent ? series_now(&n->out, &m->out_names, name) : 0;
}

uint64_t
node_in(const struct model *m, const struct model_node *n, const char *name)
{
	return n->stored ? series_now(&n->in, &m->in_names, name) : 0;
}

const char *
node_state(const struct model *m, const struct model_node *n, bool *bad)
{
	bool active = !strcmp(n->state, "active");

	*bad = n->sent && !active;
	if (n->sent && !active)
		return n->state;
	if (n->stored && m->mergers[0].answers && !n->connected) {
		*bad = true;
		return "unindexed"; /* its logger speaks, its indexer does not */
	}
	if (n->sent)
		return n->state;
	*bad = !n->writer;
	return n->writer ? "recording" : "idle";
}

double
node_full_in(const struct model *m, const struct model_node *n)
{
	double rate, left;

	if (n->stored && node_in(m, n, "volume_size_bytes")) {
		rate = series_rate(&n->in, &m->in_names, "volume_used_bytes");
		left = (double)node_in(m, n, "volume_size_bytes") -
		       (double)node_in(m, n, "volume_used_bytes");
	} else {
		rate = series_rate(&n->out, &m->out_names, "stored_bytes");
		left = (double)node_out(m, n, "volume_free_bytes");
	}
	return rate > 0 ? left / rate : -1;
}

uint64_t
nodes_sum(const struct model *m, const char *name, bool out)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < m->node_count; i++)
		sum += out ? node_out(m, m->nodes[i], name) : node_in(m, m->nodes[i], name);
	return sum;
}
