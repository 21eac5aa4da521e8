/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/rack/status_text.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "proto/base/clock.h"
#include "proto/rpc/status.h"

/* Where packets went, over the whole rack. */
struct sums {
	uint64_t captured, delivered, kernel, dispatcher, node, missing;
};

uint64_t
status_value(Packrack__Value *const *values, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (!strcmp(values[i]->name, name))
			return values[i]->number;
	return 0;
}

/* A number in the logger's own note. */
static uint64_t
logger_value(const Packrack__NodeStatus *n, const char *name)
{
	json_t *json = json_loads(n->logger, 0, NULL), *value;
	json_int_t number = 0;
	const char *key;

	json_object_foreach(json, key, value) if (!strcmp(pr_status_new_name(key), name))
		number = json_integer_value(value);
	json_decref(json);
	return number > 0 ? (uint64_t)number : 0;
}

static void
sum_links(struct sums *s, const Packrack__Status *d)
{
	for (size_t i = 0; d && i < d->n_dispatcher_links; i++) {
		const Packrack__DispatcherLink *l = d->dispatcher_links[i];
		uint64_t ring = status_value(l->values, l->n_values, "dropped_ring");
		uint64_t late = status_value(l->values, l->n_values, "dropped_no_node") +
				status_value(l->values, l->n_values, "dropped_send");
		uint64_t early = status_value(l->values, l->n_values, "dropped_kernel") +
				 status_value(l->values, l->n_values, "dropped_interface");

		s->captured += l->last_seq + ring + early;
		s->delivered += l->last_seq - (late < l->last_seq ? late : l->last_seq);
		s->kernel += early;
		s->dispatcher += ring + late;
	}
}

static void
sum_nodes(struct sums *s, const Packrack__Status *m)
{
	for (size_t i = 0; m && i < m->n_nodes; i++) {
		s->node += logger_value(m->nodes[i], "dropped_kernel");
		s->missing += m->nodes[i]->missing;
	}
}

/* The operator has sent away those that quit or are disconnected. */
bool
status_takes_nothing(const char *state)
{
	return !strcmp(state, "gone") || !strcmp(state, "suspended");
}

bool
status_is_degraded(const Packrack__Status *m, const Packrack__Status *d)
{
	struct sums s = {0};

	for (size_t i = 0; m && i < m->n_nodes; i++)
		if (!m->nodes[i]->connected)
			return true;
	for (size_t i = 0; d && i < d->n_dispatcher_nodes; i++)
		if (status_takes_nothing(d->dispatcher_nodes[i]->state))
			return true;
	sum_links(&s, d);
	sum_nodes(&s, m);
	return s.kernel || s.dispatcher || s.node || s.missing;
}

static void
print_ago(FILE *to, int64_t then, int64_t now)
{
	fprintf(to, "%.1f s ago", (double)(now - then) / PR_NS_PER_S);
}

static void
print_nodes(FILE *to, const Packrack__Status *m)
{
	fprintf(to, "%-16s %-10s %12s %14s %9s %9s  %s\n", "node", "state", "packets",
		"bytes", "missing", "full", "last seen");
	for (size_t i = 0; i < m->n_nodes; i++) {
		const Packrack__NodeStatus *n = m->nodes[i];
		double full = n->volume_bytes ? 100.0 * (double)n->volume_used /
							(double)n->volume_bytes
					      : 0;

		fprintf(to,
			"%-16s %-10s %12" PRIu64 " %14" PRIu64 " %9" PRIu64 " %8.1f%%  ",
			n->name,
			!n->connected     ? "silent"
			: n->writer_alive ? "recording"
					  : "idle",
			n->packets, n->bytes, n->missing, full);
		print_ago(to, n->last_seen, m->time);
		fputc('\n', to);
	}
}

static void
print_links(FILE *to, const Packrack__Status *d)
{
	fprintf(to, "%-16s %6s %14s %12s %12s  %s\n", "link", "number", "captured",
		"dropped", "cut", "state");
	for (size_t i = 0; i < d->n_dispatcher_links; i++) {
		const Packrack__DispatcherLink *l = d->dispatcher_links[i];
		uint64_t dropped = 0;

		for (size_t j = 0; j < l->n_values; j++)
			if (!strncmp(l->values[j]->name, "dropped_", 8))
				dropped += l->values[j]->number;
		fprintf(to, "%-16s %6u %14" PRIu64 " %12" PRIu64 " %12" PRIu64 "  %s\n",
			l->name, l->link, l->last_seq, dropped,
			status_value(l->values, l->n_values, "cut_packets"),
			l->ended ? "ended" : "open");
	}
}

static void
print_sums(FILE *to, const Packrack__Status *m, const Packrack__Status *d)
{
	struct sums s = {0};

	sum_links(&s, d);
	sum_nodes(&s, m);
	if (d)
		fprintf(to,
			"captured              %14" PRIu64
			"\ndelivered             %14" PRIu64
			"\ndropped by kernel     %14" PRIu64
			"\ndropped by dispatcher %14" PRIu64 "\n",
			s.captured, s.delivered, s.kernel, s.dispatcher);
	if (m)
		fprintf(to,
			"dropped by node       %14" PRIu64
			"\nmissing at nodes      %14" PRIu64 "\n",
			s.node, s.missing);
}

void
status_text(FILE *to, const Packrack__Status *m, const Packrack__Status *d)
{
	if (d) {
		fprintf(to, "dispatcher %s: %s, epoch %016" PRIx64 ", %zu node%s\n",
			d->version, d->state, d->epoch, d->n_dispatcher_nodes,
			d->n_dispatcher_nodes == 1 ? "" : "s");
		print_links(to, d);
		fputc('\n', to);
	}
	if (m) {
		fprintf(to, "merger %s: %zu node%s, %" PRIu64 " quer%s running\n",
			m->version, m->n_nodes, m->n_nodes == 1 ? "" : "s",
			status_value(m->values, m->n_values, "running_query_count"),
			status_value(m->values, m->n_values, "running_query_count") == 1
				? "y"
				: "ies");
		print_nodes(to, m);
		fputc('\n', to);
	}
	print_sums(to, m, d);
}
