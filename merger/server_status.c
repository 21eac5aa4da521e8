/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/server_internal.h"

#include <stdlib.h>
#include <string.h>

#include "merger/pcap_over_ip.h"
#include "proto/base/clock.h"
#include "proto/rpc/status_metrics.h"

#define VALUES 27
#define LINKS_MAX 10000

/* The reply borrows all its texts from the registry. */
struct reply {
	Packrack__Status status;
	Packrack__NodeStatus *node_room, **nodes;
	Packrack__LinkInfo **links;
	Packrack__RunningQuery *query_room, **queries;
	Packrack__Value value_room[VALUES], *values[VALUES];
};

static void
add_value(struct reply *r, const char *name, uint64_t number)
{
	Packrack__Value *v = &r->value_room[r->status.n_values];

	packrack__value__init(v);
	v->name = (char *)name;
	v->number = number;
	r->values[r->status.n_values++] = v;
}

static bool
known_link(const struct reply *r, const Packrack__LinkInfo *link)
{
	for (size_t i = 0; i < r->status.n_links; i++)
		if (r->links[i]->epoch == link->epoch && r->links[i]->link == link->link &&
			r->links[i]->linktype == link->linktype &&
			(r->links[i]->speed == link->speed || !link->speed) &&
			!strcmp(r->links[i]->name, link->name))
			return true;
	return false;
}

/* At least: a node need not know of how many. */
static uint64_t
unsummarized(const struct prm_cover *cover)
{
	uint64_t sum = cover->said->text[0] != 0;

	for (size_t i = 0; i < cover->said->n_open; i++)
		sum += cover->said->open[i]->segments;
	return sum;
}

static void
add_summaries(Packrack__NodeStatus *s, const struct prm_cover *cover, int64_t mono)
{
	if (!cover)
		return;
	s->segments_unsummarized = unsummarized(cover);
	s->summaries_told_time = pr_now_real() - (mono - cover->heard);
	s->summaries = cover->count;
	s->summaries_here = cover->held;
	s->summary_bytes = cover->bytes_told + cover->bytes_sent;
	s->cluster = cover->said->cluster;
}

static void
add_node(struct reply *r, const struct prm_node *node, int64_t mono,
	const struct prm_summaries *summaries)
{
	Packrack__NodeStatus *s = &r->node_room[r->status.n_nodes];

	if (node->hello->status)
		*s = *node->hello->status;
	else
		packrack__node_status__init(s);
	s->name = node->hello->name;
	s->connected = prm_node_connected(node, mono);
	s->last_seen = node->last_seen;
	add_summaries(s, prm_summaries_find(summaries, node->hello->name), mono);
	r->nodes[r->status.n_nodes++] = s;
	for (size_t i = 0; i < node->hello->n_links && r->status.n_links < LINKS_MAX; i++)
		if (!known_link(r, node->hello->links[i]))
			r->links[r->status.n_links++] = node->hello->links[i];
}

static void
add_query(struct reply *r, const struct prm_fanout *query)
{
	Packrack__RunningQuery *q = &r->query_room[r->status.n_queries];

	prm_fanout_report(query, q);
	r->queries[r->status.n_queries++] = q;
}

static void
add_values(struct reply *r, const struct prm_merger *m)
{
	struct prm_pcap_over_ip_figures live = prm_pcap_over_ip_figures(m->pcap_over_ip);
	struct prm_summaries_figures f;
	uint64_t bad = 0;

	for (size_t i = 0; i < m->listener_count; i++)
		bad += pr_rpc_bad_messages(m->listeners[i]->rpc);
	add_value(r, "queries", m->queries_total);
	add_value(r, "queries_running", m->query_count);
	add_value(r, "queries_refused", m->queries_refused);
	add_value(r, "packets_merged", m->packets_merged);
	add_value(r, "messages_bad", bad);
	add_value(r, "messages_unasked", m->messages_unasked);
	add_value(r, "pcap_over_ip_readers", live.readers);
	add_value(r, "pcap_over_ip_accepted", live.accepted);
	add_value(r, "pcap_over_ip_refused", live.refused);
	add_value(r, "pcap_over_ip_packets", live.packets);
	add_value(r, "pcap_over_ip_bytes", live.bytes);
	add_value(r, "pcap_over_ip_stalls", live.stalls);
	add_value(r, "pcap_over_ip_dropped", live.dropped);
	add_value(r, "nodes_asked", m->nodes_asked);
	add_value(r, "nodes_left_out", m->nodes_left_out);
	prm_summaries_figures(m->summaries, &f);
	add_value(r, "summaries", f.listed);
	add_value(r, "summaries_here", f.held);
	add_value(r, "summaries_memory", f.bytes);
	add_value(r, "summaries_received", f.received);
	add_value(r, "summaries_evicted", f.evicted);
	add_value(r, "summaries_damaged", f.missed);
	add_value(r, "cluster_blocks", f.clusters);
	add_value(r, "cluster_memory", f.cluster_bytes);
	add_value(r, "mergers_alive", 1 + (m->peers ? prm_peers_alive(m->peers) : 0));
	add_value(r, "summary_bytes_received", f.bytes_told + f.bytes_sent);
}

static void
reply_make(struct reply *r, const struct prm_merger *m)
{
	size_t count = m->registry.count ? m->registry.count : 1;

	*r = (struct reply){.node_room = calloc(count, sizeof(*r->node_room)),
		.nodes = calloc(count, sizeof(*r->nodes)),
		.links = calloc(LINKS_MAX, sizeof(*r->links)),
		.query_room = calloc(m->query_count + 1, sizeof(*r->query_room)),
		.queries = calloc(m->query_count + 1, sizeof(*r->queries))};
	packrack__status__init(&r->status);
	r->status.program = (char *)"packrack-merger";
	r->status.version = (char *)PACKRACK_VERSION;
	r->status.state = (char *)"running";
	r->status.time = pr_now_real();
	if (r->node_room && r->nodes && r->links)
		for (size_t i = 0; i < m->registry.count; i++)
			add_node(r, m->registry.nodes[i], pr_now_mono(), m->summaries);
	if (r->query_room && r->queries)
		for (size_t i = 0; i < m->query_count; i++)
			add_query(r, m->queries[i]);
	add_values(r, m);
	r->status.queries = r->queries;
	r->status.nodes = r->nodes;
	r->status.links = r->links;
	r->status.values = r->values;
}

static void
reply_free(struct reply *r)
{
	free(r->node_room);
	free(r->nodes);
	free(r->links);
	free(r->query_room);
	free(r->queries);
}

void
prm_merger_status(struct prm_merger *m, const struct prm_address *to, uint64_t id)
{
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;
	struct reply r;

	reply_make(&r, m);
	env.body_case = PACKRACK__ENVELOPE__BODY_STATUS;
	env.status = &r.status;
	prm_merger_reply(to, id, &env);
	reply_free(&r);
}

void
prm_merger_scrape(struct prm_merger *m, struct pr_metrics_page *page)
{
	struct reply r;

	reply_make(&r, m);
	pr_status_metrics(page, &r.status, NULL);
	reply_free(&r);
}
