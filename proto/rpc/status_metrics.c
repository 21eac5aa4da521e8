/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/rpc/status_metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void
add_values(struct pr_metrics_page *page, enum pr_metric_scope scope,
	Packrack__Value *const *values, size_t count)
{
	for (size_t i = 0; i < count; i++)
		pr_metrics_value(page, scope, values[i]->name, values[i]->number);
}

/* Two links may have one name (files of two folders), but never one number. */
static void
add_link(struct pr_metrics_page *page, const Packrack__DispatcherLink *link)
{
	const enum pr_metric_scope scope = PR_METRIC_DISPATCHER_LINK;
	char number[16];

	snprintf(number, sizeof number, "%" PRIu32, link->link);
	pr_metrics_label(page, {"link", link->name}, {"number", number});
	pr_metrics_value(page, scope, "last_seq", link->last_seq);
	pr_metrics_value(page, scope, "ended", link->ended);
	add_values(page, scope, link->values, link->n_values);
}

/* Two nodes may have one name (both their distribution's), but never one MAC. */
static void
add_dispatcher_node(struct pr_metrics_page *page, const Packrack__DispatcherNode *node)
{
	const enum pr_metric_scope scope = PR_METRIC_DISPATCHER_NODE;

	pr_metrics_label(page, {"node", node->name}, {"mac", node->mac});
	pr_metrics_state(page, scope, node->state);
	pr_metrics_value(page, scope, "last_seen",
		node->last_seen > 0 ? (uint64_t)node->last_seen : 0);
	add_values(page, scope, node->values, node->n_values);
}

/* Times of packets before 1970 are possible in a trace file; a volume has times when it has packets. */
static void
add_time(struct pr_metrics_page *page, enum pr_metric_scope scope, const char *name,
	int64_t time)
{
	if (time > 0)
		pr_metrics_value(page, scope, name, (uint64_t)time);
}

static void
add_node(struct pr_metrics_page *page, enum pr_metric_scope scope,
	const Packrack__NodeStatus *node)
{
	const struct {
		const char *name;
		uint64_t number;
	} values[] = {{"writer_alive", node->writer_alive}, {"segments", node->segments},
		{"packets", node->packets}, {"bytes", node->bytes},
		{"missing", node->missing}, {"volume_bytes", node->volume_bytes},
		{"volume_used", node->volume_used}, {"queries", node->queries},
		{"queries_running", node->queries_running},
		{"indexed_lag_bytes", node->indexed_lag_bytes},
		{"connected", node->connected}};

	for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
		pr_metrics_value(page, scope, values[i].name, values[i].number);
	if (scope == PR_METRIC_MERGER_NODE) {
		pr_metrics_value(page, scope, "summaries", node->summaries);
		pr_metrics_value(page, scope, "summaries_here", node->summaries_here);
		pr_metrics_value(page, scope, "summary_bytes", node->summary_bytes);
		pr_metrics_value(
			page, scope, "segments_unsummarized", node->segments_unsummarized);
		add_time(page, scope, "summaries_told_time", node->summaries_told_time);
	}
	add_time(page, scope, "last_seen", node->last_seen);
	if (!node->packets)
		return;
	add_time(page, scope, "first_time", node->first_time);
	add_time(page, scope, "last_time", node->last_time);
}

static enum pr_metric_scope
scope_of(const char *program)
{
	return strcmp(program, "packrack-dispatcher") == 0 ? PR_METRIC_DISPATCHER
	       : strcmp(program, "packrack-logger") == 0   ? PR_METRIC_LOGGER
	       : strcmp(program, "packrack-indexer") == 0  ? PR_METRIC_INDEXER
							   : PR_METRIC_MERGER;
}

void
pr_status_metrics(
	struct pr_metrics_page *page, const Packrack__Status *status, const char *node)
{
	enum pr_metric_scope scope = scope_of(status->program);

	pr_metrics_label(page, {"program", status->program}, {"version", status->version});
	pr_metrics_value(page, PR_METRIC_PROGRAM, "build", 1);
	if (node)
		pr_metrics_label(page, {"node", node});
	else
		pr_metrics_no_labels(page);
	if (status->state && *status->state)
		pr_metrics_state(page, scope, status->state);
	add_values(page, scope, status->values, status->n_values);
	for (size_t i = 0; i < status->n_dispatcher_links; i++)
		add_link(page, status->dispatcher_links[i]);
	for (size_t i = 0; i < status->n_dispatcher_nodes; i++)
		add_dispatcher_node(page, status->dispatcher_nodes[i]);
	for (size_t i = 0; i < status->n_nodes; i++) {
		if (scope == PR_METRIC_MERGER)
			pr_metrics_label(page, {"node", status->nodes[i]->name});
		add_node(page, scope == PR_METRIC_MERGER ? PR_METRIC_MERGER_NODE : scope,
			status->nodes[i]);
	}
}
