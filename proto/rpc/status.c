/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/rpc/status.h"

#include <unistd.h>

#include "proto/base/array.h"
#include "proto/base/clock.h"

Packrack__Status
pr_status_of(const char *program)
{
	Packrack__Status status = PACKRACK__STATUS__INIT;

	status.program = (char *)program;
	status.version = PACKRACK_VERSION;
	status.time = pr_now_real();
	status.pid = getpid();
	return status;
}

void
pr_values_add(struct pr_values *v, const char *name, uint64_t number)
{
	Packrack__Value *value = &v->items[v->count];

	if (v->count == v->capacity)
		return;
	packrack__value__init(value);
	value->name = (char *)name;
	value->number = number;
	v->pointers[v->count++] = value;
}

void
pr_values_add_table(struct pr_values *v, struct pr_counter_table table)
{
	for (size_t i = 0; i < table.count; i++)
		pr_values_add(
			v, table.rows[i].name, pr_counter_read(&table.rows[i], table.base));
}

void
pr_status_metrics_build(struct pr_metrics_page *page, const char *program)
{
	static const struct pr_counter_row row[] = {{0, 1, "build", PR_GAUGE,
		"Always 1; its labels name the program and its version.", "build_info",
		PR_ONE, NULL}};
	static const uint8_t one = 1;

	pr_metrics_label(page, {"program", program}, {"version", PACKRACK_VERSION});
	pr_metrics_table(page, "packrack_", PR_COUNTER_TABLE(row, &one));
	pr_metrics_no_labels(page);
	pr_metrics_table(page, "packrack_", pr_connections_figures());
}

/* ---- names of older programs ---- */

/* Each is OLD=NEW. */
static const char *const old_names[] = {"cut=cut_packets", "escaped=escaped_packets",
	"runts=runt_packets", "buffer_bytes_used=buffer_used_bytes",
	"buffer_bytes=buffer_size_bytes", "log_memory_used=log_memory_used_bytes",
	"data_failed=data_frames_failed", "control_failed=control_frames_failed",
	"queue_full=send_queue_full", "control_received=control_received_frames",
	"control_refused=control_refused_frames", "control_bad_tag=control_bad_tag_frames",
	"control_other_rack=control_other_rack_frames",
	"control_not_from_node=control_not_from_node_frames",
	"control_dropped=control_dropped_frames", "control_stale=control_stale_frames",
	"control_replayed=control_replayed_frames", "control_bad=control_bad_frames",
	"frames_sent=sent_frames", "bytes_sent=sent_bytes", "primaries=primary_packets",
	"second_copies=second_packets", "unacknowledged=unacknowledged_frames",
	"lost_unacknowledged=lost_unacknowledged_frames", "logs_sent=sent_tslogs",
	"resend_asked=resends_asked", "resend_answered=resends_answered",
	"controls_sent=sent_controls", "controls_received=received_controls",
	"frames_received=received_frames", "bytes_received=received_bytes",
	"packets_stored=stored_packets", "packets_durable=durable_packets",
	"bytes_stored=stored_bytes", "segments_stored=stored_segments",
	"strays_stored=stored_strays", "missing=missing_packets", "stray=stray_frames",
	"strays=stray_frames", "duplicate=duplicate_frames", "duplicates=duplicate_frames",
	"pending=pending_frames", "late=late_frames", "kernel_drops=dropped_kernel",
	"interface_drops=dropped_interface", "logs_received=received_tslogs",
	"logs_requested=requested_tslogs", "logs_gone=gone_tslogs", "logs_bad=bad_tslogs",
	"logs_repeated=repeated_tslogs", "disk_total=volume_size_bytes",
	"disk_free=volume_free_bytes", "write_rate=write_bytes_per_s",
	"matched=matched_packets", "searched=searched_entries",
	"given_up_early=given_up_early_frames", "stashed=stashed_frames",
	"announced=announcements", "ordinal_settled=settled_ordinal",
	"queries=queries_total", "queries_running=running_query_count",
	"packets_merged=merged_packets", "messages_bad=bad_messages",
	"messages_unasked=unasked_messages"};

const char *
pr_status_new_name(const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < PR_COUNT(old_names); i++)
		if (strncmp(old_names[i], name, len) == 0 && old_names[i][len] == '=')
			return old_names[i] + len + 1;
	return name;
}

static void
rename_values(Packrack__Value **values, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const char *name = pr_status_new_name(values[i]->name);
		char *copy = name == values[i]->name ? NULL : strdup(name);

		if (!copy)
			continue;
		free(values[i]->name);
		values[i]->name = copy;
	}
}

void
pr_status_rename_old(Packrack__Status *s)
{
	rename_values(s->values, s->n_values);
	for (size_t i = 0; i < s->n_dispatcher_nodes; i++)
		rename_values(
			s->dispatcher_nodes[i]->values, s->dispatcher_nodes[i]->n_values);
	for (size_t i = 0; i < s->n_dispatcher_links; i++)
		rename_values(
			s->dispatcher_links[i]->values, s->dispatcher_links[i]->n_values);
}

/* ---- nodes ---- */

#define PR_COUNTED Packrack__NodeStatus

static const struct pr_counter_row node_rows[] = {
	PR_GAUGE_OF(writer_alive, "writer_alive",
		"1 when a logger has the volume of the node open, else 0."),
	PR_GAUGE_OF(segments, "segments", "Batches of packets in the volume of the node."),
	PR_GAUGE_OF(packets, "packets", "Packets in the volume of the node."),
	PR_GAUGE_OF(bytes, "bytes", "Bytes of packets in the volume of the node."),
	PR_GAUGE_OF(missing, "missing_packets",
		"Packets that the ledger of the volume of the node lists as lost."),
	PR_METRIC(first_time, "oldest_time", PR_GAUGE, "oldest_packet_timestamp_seconds",
		PR_NS, NULL,
		"Time of the oldest packet in the volume of the node, seconds since 1970."),
	PR_METRIC(last_time, "newest_time", PR_GAUGE, "newest_packet_timestamp_seconds",
		PR_NS, NULL,
		"Time of the newest packet in the volume of the node, seconds since 1970."),
	PR_METRIC(memory_time, "memory_time", PR_GAUGE, "memory_timestamp_seconds", PR_NS,
		NULL,
		"Time from which on all packets of the node are in its shared memory, "
		"seconds since 1970."),
	PR_GAUGE_OF(volume_bytes, "volume_size_bytes", "Size of the volume of the node."),
	PR_GAUGE_OF(volume_used, "volume_used_bytes",
		"Bytes of the volume of the node that have been written; a full volume "
		"overwrites its oldest packets."),
	PR_COUNTER_AS(queries, "queries_total", "queries_total",
		"Queries that the indexer of the node has received."),
	PR_GAUGE_AS(queries_running, "running_query_count", "queries_running",
		"Queries that the indexer of the node is answering."),
	PR_GAUGE_OF(queries_waiting, "queries_waiting",
		"Queries that wait for their turn at the indexer of the node."),
	PR_GAUGE_AS(indexed_lag_bytes, "indexed_lag_bytes", "lag_bytes",
		"Estimated bytes of stored packets that are not yet indexed.")};

static const struct pr_counter_row merger_rows[] = {
	PR_GAUGE_OF(connected, "connected",
		"1 when the indexer of the node was heard within 6 seconds, else 0."),
	PR_METRIC(last_seen, "last_seen", PR_GAUGE, "last_seen_timestamp_seconds", PR_NS,
		NULL, "When the indexer of the node was last heard, seconds since 1970."),
	PR_GAUGE_OF(summaries, "summaries", "Summaries that the node has announced."),
	PR_GAUGE_OF(summaries_here, "summaries_here",
		"Summaries of the node that the merger holds."),
	PR_COUNTER_AS(summary_bytes, "summary_bytes", "summaries_bytes_total",
		"Bytes that the node sent for summaries and their announcements."),
	PR_GAUGE_AS(segments_unsummarized, "segments_unsummarized", "unsummarized_segments",
		"Lower bound of the node's segments that no summary covers yet."),
	PR_METRIC(summaries_told_time, "summaries_told_time", PR_GAUGE,
		"summaries_told_timestamp_seconds", PR_NS, NULL,
		"When the node last announced its summaries, seconds since 1970.")};
#undef PR_COUNTED
#define PR_COUNTED Packrack__StreamHeld
static const struct pr_counter_row stream_rows[] = {
	PR_GAUGE_OF(bytes, "stream_bytes",
		"Bytes of packets of this link and class in the volume of the node."),
	PR_METRIC(first_time, "stream_oldest_time", PR_GAUGE,
		"stream_oldest_packet_timestamp_seconds", PR_NS, NULL,
		"Time of the oldest packet of this link and class in the volume of the "
		"node, seconds since 1970."),
	PR_METRIC(memory_time, "stream_memory_time", PR_GAUGE,
		"stream_memory_timestamp_seconds", PR_NS, NULL,
		"Time from which on all packets of this link and class are in the shared "
		"memory of the node, seconds since 1970.")};

void
pr_status_metrics_node(struct pr_metrics_page *page, const char *prefix,
	const Packrack__NodeStatus *node, int merger)
{
	pr_metrics_label(page, {"node", node->name});
	pr_metrics_table(page, prefix, PR_COUNTER_TABLE(node_rows, node));
	if (merger)
		pr_metrics_table(page, prefix, PR_COUNTER_TABLE(merger_rows, node));
	for (size_t i = 0; i < node->n_streams; i++) {
		const Packrack__StreamHeld *s = node->streams[i];

		if (!s->packet_stream)
			continue;
		pr_metrics_label(page, {"node", node->name}, {"link", s->link_name},
			{"class", s->class_});
		pr_metrics_table(page, prefix, PR_COUNTER_TABLE(stream_rows, s));
	}
}
