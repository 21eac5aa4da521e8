/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of metric_table.c, those of the merger. Only that file includes this one. */

/* clang-format off */
/* ---- merger ---- */
ROW(MERGER, "queries", "packrack_merger_queries_total", COUNTER, ONE, "",
	"Queries that the merger was asked.")
ROW(MERGER, "queries_running", "packrack_merger_queries_running", GAUGE, ONE, "",
	"Queries that the merger is at.")
ROW(MERGER, "queries_refused", "packrack_merger_queries_refused_total", COUNTER, ONE, "",
	"Queries refused because as many were running as may.")
ROW(MERGER, "packets_merged", "packrack_merger_merged_packets_total", COUNTER, ONE, "",
	"Packets that matched, over all queries that have ended.")
ROW(MERGER, "messages_bad", "packrack_merger_bad_messages_total", COUNTER, ONE, "",
	"Messages that could not be read.")
ROW(MERGER, "messages_unasked", "packrack_merger_unasked_messages_total", COUNTER, ONE, "",
	"Answers to no query, as after a cancel.")
ROW(MERGER, "pcap_over_ip_readers", "packrack_merger_pcap_over_ip_readers", GAUGE, ONE, "",
	"Readers of live traces (--pcap-over-ip).")
ROW(MERGER, "pcap_over_ip_accepted", "packrack_merger_pcap_over_ip_accepted_total", COUNTER, ONE, "",
	"Readers that were given a live trace.")
ROW(MERGER, "pcap_over_ip_refused", "packrack_merger_pcap_over_ip_refused_total", COUNTER, ONE, "",
	"Readers that were turned away, as no query was to be had for them.")
ROW(MERGER, "pcap_over_ip_packets", "packrack_merger_pcap_over_ip_packets_total", COUNTER, ONE, "",
	"Packets handed to readers of live traces.")
ROW(MERGER, "pcap_over_ip_bytes", "packrack_merger_pcap_over_ip_bytes_total", COUNTER, ONE, "",
	"Bytes handed to readers of live traces.")
ROW(MERGER, "pcap_over_ip_stalls", "packrack_merger_pcap_over_ip_stalls_total", COUNTER, ONE, "",
	"Times that a reader was slower than the rack and fell behind.")
ROW(MERGER, "pcap_over_ip_dropped", "packrack_merger_pcap_over_ip_dropped_total", COUNTER, ONE, "",
	"Readers that took nothing for two minutes and were let go.")
ROW(MERGER, "nodes_asked", "packrack_merger_nodes_asked_total", COUNTER, ONE, "",
	"Nodes that queries were sent to, over all queries that have ended.")
ROW(MERGER, "nodes_left_out", "packrack_merger_nodes_left_out_total", COUNTER, ONE, "",
	"Nodes that queries were not sent to, as their summaries exclude a match.")
ROW(MERGER, "summaries", "packrack_merger_summaries", GAUGE, ONE, "",
	"Summaries that nodes have told of.")
ROW(MERGER, "summaries_here", "packrack_merger_summaries_here", GAUGE, ONE, "",
	"Summaries that the merger holds.")
ROW(MERGER, "summaries_memory", "packrack_merger_summaries_memory_bytes", GAUGE, ONE, "",
	"Memory of the summaries that the merger holds.")
ROW(MERGER, "summaries_received", "packrack_merger_summaries_received_total", COUNTER, ONE, "",
	"Summaries that came.")
ROW(MERGER, "summaries_evicted", "packrack_merger_summaries_evicted_total", COUNTER, ONE, "",
	"Summaries dropped for newer ones, when memory was full.")
ROW(MERGER, "summaries_damaged", "packrack_merger_summaries_damaged_total", COUNTER, ONE, "",
	"Summaries that nodes had no more, or that were damaged.")
ROW(MERGER, "cluster_blocks", "packrack_merger_cluster_blocks", GAUGE, ONE, "",
	"Bit-sliced blocks of the third level: summaries of clusters of nodes.")
ROW(MERGER, "cluster_memory", "packrack_merger_cluster_memory_bytes", GAUGE, ONE, "",
	"Memory of these blocks.")
ROW(MERGER, "mergers_alive", "packrack_merger_mergers_alive", GAUGE, ONE, "",
	"Mergers that share the duty for summaries and live, with this one.")
ROW(MERGER, "summary_bytes_received", "packrack_merger_summaries_received_bytes_total", COUNTER, ONE, "",
	"Bytes that nodes sent to tell of summaries, and for them.")
/* ---- merger: node ---- */
ROW(MERGER_NODE, "connected", "packrack_merger_node_connected", GAUGE, ONE, "",
	"1 when the indexer of the node was heard within 6 seconds, else 0.")
ROW(MERGER_NODE, "last_seen", "packrack_merger_node_last_seen_timestamp_seconds", GAUGE, NS, "",
	"When the indexer of the node was last heard, seconds since 1970.")
ROW(MERGER_NODE, "writer_alive", "packrack_merger_node_writer_alive", GAUGE, ONE, "",
	"1 when a logger has the volume of the node open, else 0.")
ROW(MERGER_NODE, "segments", "packrack_merger_node_segments", GAUGE, ONE, "",
	"Batches of packets in the volume of the node.")
ROW(MERGER_NODE, "packets", "packrack_merger_node_packets", GAUGE, ONE, "",
	"Packets in the volume of the node.")
ROW(MERGER_NODE, "bytes", "packrack_merger_node_bytes", GAUGE, ONE, "",
	"Bytes of packets in the volume of the node.")
ROW(MERGER_NODE, "missing", "packrack_merger_node_missing_packets", GAUGE, ONE, "",
	"Packets that the ledger of the volume of the node lists as lost.")
ROW(MERGER_NODE, "first_time", "packrack_merger_node_oldest_packet_timestamp_seconds", GAUGE, NS, "",
	"Time of the oldest packet in the volume of the node, seconds since 1970.")
ROW(MERGER_NODE, "last_time", "packrack_merger_node_newest_packet_timestamp_seconds", GAUGE, NS, "",
	"Time of the newest packet in the volume of the node, seconds since 1970.")
ROW(MERGER_NODE, "volume_bytes", "packrack_merger_node_volume_size_bytes", GAUGE, ONE, "",
	"Size of the volume of the node.")
ROW(MERGER_NODE, "volume_used", "packrack_merger_node_volume_used_bytes", GAUGE, ONE, "",
	"What of the volume of the node has been written; when all is, the oldest is overwritten.")
ROW(MERGER_NODE, "queries", "packrack_merger_node_queries_total", COUNTER, ONE, "",
	"Queries that the indexer of the node was asked.")
ROW(MERGER_NODE, "queries_running", "packrack_merger_node_queries_running", GAUGE, ONE, "",
	"Queries that the indexer of the node is at.")
ROW(MERGER_NODE, "indexed_lag_bytes", "packrack_merger_node_lag_bytes", GAUGE, ONE, "",
	"Packets of the volume of the node that its list does not tell of yet.")
ROW(MERGER_NODE, "summaries", "packrack_merger_node_summaries", GAUGE, ONE, "",
	"Summaries that the node has told of.")
ROW(MERGER_NODE, "summaries_here", "packrack_merger_node_summaries_here", GAUGE, ONE, "",
	"Summaries of the node that the merger holds.")
ROW(MERGER_NODE, "summary_bytes", "packrack_merger_node_summaries_bytes_total", COUNTER, ONE, "",
	"Bytes that the node sent to tell of summaries, and for them.")
ROW(MERGER_NODE, "segments_unsummarized", "packrack_merger_node_unsummarized_segments", GAUGE, ONE, "",
	"Batches of packets of the node, at least, that no summary speaks of yet.")
ROW(MERGER_NODE, "summaries_told_time", "packrack_merger_node_summaries_told_timestamp_seconds", GAUGE, NS, "",
	"When the node last told of its summaries, seconds since 1970.")
/* clang-format on */
