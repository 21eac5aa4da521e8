/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/rpc/status.h"

void
pr_values_add(struct pr_values *v, const char *name, uint64_t number)
{
	Packrack__Value *value = &v->items[v->count];

	if (v->count == v->capacity)
		return;
	packrack__value__init(value);
	value->name = (char *)(uintptr_t)name;
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
	static const struct pr_counter_row row[] = {{0, 1,
		PR_METRIC("build", PR_GAUGE, "build_info", PR_ONE, NULL,
			"Always 1; its labels name the program and its version.")}};
	static const uint8_t one = 1;

	pr_metrics_label(page, {"program", program}, {"version", PACKRACK_VERSION});
	pr_metrics_table(page, "packrack_", PR_COUNTER_TABLE(row, &one));
	pr_metrics_no_labels(page);
}

/* ---- nodes ---- */

#define AT(field) PR_AT(Packrack__NodeStatus, field)

static const struct pr_counter_row node_rows[] = {
	{AT(writer_alive),
		PR_GAUGE_OF("writer_alive",
			"1 when a logger has the volume of the node open, else 0.")},
	{AT(segments),
		PR_GAUGE_OF("segments", "Batches of packets in the volume of the node.")},
	{AT(packets), PR_GAUGE_OF("packets", "Packets in the volume of the node.")},
	{AT(bytes), PR_GAUGE_OF("bytes", "Bytes of packets in the volume of the node.")},
	{AT(missing), PR_METRIC("missing", PR_GAUGE, "missing_packets", PR_ONE, NULL,
			      "Packets that the ledger of the volume of the node lists as "
			      "lost.")},
	{AT(first_time), PR_METRIC("first_time", PR_GAUGE,
				 "oldest_packet_timestamp_seconds", PR_NS, NULL,
				 "Time of the oldest packet in the volume of the node, "
				 "seconds since 1970.")},
	{AT(last_time), PR_METRIC("last_time", PR_GAUGE, "newest_packet_timestamp_seconds",
				PR_NS, NULL,
				"Time of the newest packet in the volume of the node, "
				"seconds since 1970.")},
	{AT(volume_bytes), PR_METRIC("volume_bytes", PR_GAUGE, "volume_size_bytes", PR_ONE,
				   NULL, "Size of the volume of the node.")},
	{AT(volume_used),
		PR_METRIC("volume_used", PR_GAUGE, "volume_used_bytes", PR_ONE, NULL,
			"What of the volume of the node has been written; when all is, the "
			"oldest is overwritten.")},
	{AT(queries), PR_COUNTER_OF("queries",
			      "Queries that the indexer of the node was asked.")},
	{AT(queries_running), PR_GAUGE_OF("queries_running",
				      "Queries that the indexer of the node is at.")},
	{AT(indexed_lag_bytes),
		PR_METRIC("indexed_lag_bytes", PR_GAUGE, "lag_bytes", PR_ONE, NULL,
			"Estimated bytes of stored packets that are not yet indexed.")},
};

static const struct pr_counter_row merger_rows[] = {
	{AT(connected), PR_GAUGE_OF("connected", "1 when the indexer of the node was heard "
						 "within 6 seconds, else 0.")},
	{AT(last_seen),
		PR_METRIC("last_seen", PR_GAUGE, "last_seen_timestamp_seconds", PR_NS, NULL,
			"When the indexer of the node was last heard, seconds since "
			"1970.")},
	{AT(summaries), PR_GAUGE_OF("summaries", "Summaries that the node has told of.")},
	{AT(summaries_here), PR_GAUGE_OF("summaries_here",
				     "Summaries of the node that the merger holds.")},
	{AT(summary_bytes),
		PR_METRIC("summary_bytes", PR_COUNTER, "summaries_bytes_total", PR_ONE,
			NULL,
			"Bytes that the node sent to tell of summaries, and for them.")},
	{AT(segments_unsummarized),
		PR_METRIC("segments_unsummarized", PR_GAUGE, "unsummarized_segments",
			PR_ONE, NULL,
			"Lower bound of the node's segments that no summary covers yet.")},
	{AT(summaries_told_time),
		PR_METRIC("summaries_told_time", PR_GAUGE,
			"summaries_told_timestamp_seconds", PR_NS, NULL,
			"When the node last told of its summaries, seconds since 1970.")},
};

void
pr_status_metrics_node(struct pr_metrics_page *page, const char *prefix,
	const Packrack__NodeStatus *node, int merger)
{
	pr_metrics_table(page, prefix, PR_COUNTER_TABLE(node_rows, node));
	if (merger)
		pr_metrics_table(page, prefix, PR_COUNTER_TABLE(merger_rows, node));
}
