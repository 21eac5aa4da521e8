/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of metric_table.c, those of the dispatcher. Only that file includes this one. */

/* clang-format off */
/* ---- dispatcher: link ---- */
ROW(DISPATCHER_LINK, "captured_packets", "packrack_dispatcher_captured_packets_total", COUNTER, ONE, "",
	"Packets taken from the link.")
ROW(DISPATCHER_LINK, "captured_bytes", "packrack_dispatcher_captured_bytes_total", COUNTER, ONE, "",
	"Bytes of the packets taken from the link.")
ROW(DISPATCHER_LINK, "last_seq", "packrack_dispatcher_numbered_packets_total", COUNTER, ONE, "",
	"Packets that were given a number: each is in the trace or on the loss list.")
ROW(DISPATCHER_LINK, "sent_packets", "packrack_dispatcher_sent_packets_total", COUNTER, ONE, "",
	"Packets sent to a node, second copies not counted.")
ROW(DISPATCHER_LINK, "sent_bytes", "packrack_dispatcher_sent_bytes_total", COUNTER, ONE, "",
	"Bytes of the packets sent to a node, as sent.")
ROW(DISPATCHER_LINK, "dropped_kernel", "packrack_dispatcher_dropped_packets_total", COUNTER, ONE, "place=\"kernel\",reason=\"ring_full\"",
	"Packets of the link that were lost, by place and reason.")
ROW(DISPATCHER_LINK, "dropped_interface", "packrack_dispatcher_dropped_packets_total", COUNTER, ONE, "place=\"interface\",reason=\"card_or_backlog\"",
	"Packets of the link that were lost, by place and reason.")
ROW(DISPATCHER_LINK, "dropped_ring", "packrack_dispatcher_dropped_packets_total", COUNTER, ONE, "place=\"dispatcher\",reason=\"buffer_full\"",
	"Packets of the link that were lost, by place and reason.")
ROW(DISPATCHER_LINK, "dropped_no_node", "packrack_dispatcher_dropped_packets_total", COUNTER, ONE, "place=\"dispatcher\",reason=\"no_node\"",
	"Packets of the link that were lost, by place and reason.")
ROW(DISPATCHER_LINK, "dropped_send", "packrack_dispatcher_dropped_packets_total", COUNTER, ONE, "place=\"oport\",reason=\"send_failed\"",
	"Packets of the link that were lost, by place and reason.")
ROW(DISPATCHER_LINK, "cut", "packrack_dispatcher_cut_packets_total", COUNTER, ONE, "",
	"Packets sent shorter than they were, because of the snap length, the cutoff or --allow-cut.")
ROW(DISPATCHER_LINK, "escaped", "packrack_dispatcher_escaped_packets_total", COUNTER, ONE, "",
	"Packets of the link that carried the Ethertype of the rack, and were marked.")
ROW(DISPATCHER_LINK, "runts", "packrack_dispatcher_runt_packets_total", COUNTER, ONE, "",
	"Packets shorter than an Ethernet header.")
ROW(DISPATCHER_LINK, "ended", "packrack_dispatcher_link_ended", GAUGE, ONE, "",
	"1 when capture of the link is over, else 0.")
/* ---- dispatcher ---- */
ROW(DISPATCHER, "state=waiting", "packrack_dispatcher_state", GAUGE, ONE, "state=\"waiting\"",
	"1 for the state that the dispatcher is in, 0 for the others.")
ROW(DISPATCHER, "state=capturing", "packrack_dispatcher_state", GAUGE, ONE, "state=\"capturing\"",
	"1 for the state that the dispatcher is in, 0 for the others.")
ROW(DISPATCHER, "state=draining", "packrack_dispatcher_state", GAUGE, ONE, "state=\"draining\"",
	"1 for the state that the dispatcher is in, 0 for the others.")
ROW(DISPATCHER, "state=stopping", "packrack_dispatcher_state", GAUGE, ONE, "state=\"stopping\"",
	"1 for the state that the dispatcher is in, 0 for the others.")
ROW(DISPATCHER, "state=stopped", "packrack_dispatcher_state", GAUGE, ONE, "state=\"stopped\"",
	"1 for the state that the dispatcher is in, 0 for the others.")
ROW(DISPATCHER, "goodness_permille", "packrack_dispatcher_goodness_ratio", GAUGE, PERMILLE, "",
	"Share of the packets of all links that were captured and sent, since the start.")
ROW(DISPATCHER, "input_bytes_per_s", "packrack_dispatcher_input_bytes_per_second", GAUGE, ONE, "",
	"Speed of all links over the last second.")
ROW(DISPATCHER, "input_packets_per_s", "packrack_dispatcher_input_packets_per_second", GAUGE, ONE, "",
	"Packets a second of all links over the last second.")
ROW(DISPATCHER, "buffer_bytes_used", "packrack_dispatcher_buffer_used_bytes", GAUGE, ONE, "",
	"What lies in the cyclic buffers of all links.")
ROW(DISPATCHER, "buffer_bytes", "packrack_dispatcher_buffer_size_bytes", GAUGE, ONE, "",
	"Size of the cyclic buffers of all links.")
ROW(DISPATCHER, "spread_mode", "packrack_dispatcher_spread_mode", GAUGE, ONE, "",
	"How packets are spread: 0 round-robin, 1 weighted, 2 flow.")
ROW(DISPATCHER, "log_memory_used", "packrack_dispatcher_log_memory_used_bytes", GAUGE, ONE, "",
	"Timestamp logs kept for nodes that ask again.")
ROW(DISPATCHER, "cpu_user_us", "packrack_dispatcher_cpu_seconds_total", COUNTER, US, "mode=\"user\"",
	"Processor time of the dispatcher.")
ROW(DISPATCHER, "cpu_system_us", "packrack_dispatcher_cpu_seconds_total", COUNTER, US, "mode=\"system\"",
	"Processor time of the dispatcher.")
ROW(DISPATCHER, "memory_peak_kib", "packrack_dispatcher_memory_peak_bytes", GAUGE, KIB, "",
	"The most memory that the dispatcher had in RAM.")
ROW(DISPATCHER, "data_frames", "packrack_dispatcher_data_frames_total", COUNTER, ONE, "",
	"Data frames sent on the o-port, second copies too.")
ROW(DISPATCHER, "data_bytes", "packrack_dispatcher_data_bytes_total", COUNTER, ONE, "",
	"Bytes of the data frames.")
ROW(DISPATCHER, "data_failed", "packrack_dispatcher_data_frames_failed_total", COUNTER, ONE, "",
	"Data frames that the o-port did not take.")
ROW(DISPATCHER, "control_frames", "packrack_dispatcher_control_frames_total", COUNTER, ONE, "",
	"Control frames sent on the o-port, timestamp logs not counted.")
ROW(DISPATCHER, "control_bytes", "packrack_dispatcher_control_bytes_total", COUNTER, ONE, "",
	"Bytes of the control frames.")
ROW(DISPATCHER, "control_failed", "packrack_dispatcher_control_frames_failed_total", COUNTER, ONE, "",
	"Control frames and logs that the o-port did not take.")
ROW(DISPATCHER, "log_frames", "packrack_dispatcher_log_frames_total", COUNTER, ONE, "",
	"Timestamp logs sent on the o-port.")
ROW(DISPATCHER, "log_bytes", "packrack_dispatcher_log_bytes_total", COUNTER, ONE, "",
	"Bytes of the timestamp logs.")
ROW(DISPATCHER, "queue_full", "packrack_dispatcher_send_queue_full_total", COUNTER, ONE, "",
	"Times that sending waited for room in the queue of the o-port.")
ROW(DISPATCHER, "send_calls", "packrack_dispatcher_send_calls_total", COUNTER, ONE, "",
	"System calls that sent frames.")
ROW(DISPATCHER, "control_received", "packrack_dispatcher_control_received_frames_total", COUNTER, ONE, "",
	"Control frames of nodes that were in order.")
ROW(DISPATCHER, "control_refused", "packrack_dispatcher_control_refused_frames_total", COUNTER, ONE, "",
	"Control frames that were refused, for whatever reason.")
ROW(DISPATCHER, "control_bad_tag", "packrack_dispatcher_control_bad_tag_frames_total", COUNTER, ONE, "",
	"Of the refused, those whose tag does not fit the key of the rack.")
ROW(DISPATCHER, "control_other_rack", "packrack_dispatcher_control_other_rack_frames_total", COUNTER, ONE, "",
	"Control frames of another rack on the same switch.")
ROW(DISPATCHER, "control_not_from_node", "packrack_dispatcher_control_not_from_node_frames_total", COUNTER, ONE, "",
	"Control frames of a kind that nodes do not send.")
ROW(DISPATCHER, "control_dropped", "packrack_dispatcher_control_dropped_frames_total", COUNTER, ONE, "",
	"Control frames that the dispatcher had no room for.")
ROW(DISPATCHER, "control_stale", "packrack_dispatcher_control_stale_frames_total", COUNTER, ONE, "",
	"Control frames of a node that name an epoch or a start that is over.")
ROW(DISPATCHER, "control_replayed", "packrack_dispatcher_control_replayed_frames_total", COUNTER, ONE, "",
	"Control frames with a number that was used before.")
ROW(DISPATCHER, "nodes_refused", "packrack_dispatcher_nodes_refused_total", COUNTER, ONE, "",
	"Announcements refused for want of room in the table of nodes.")
/* ---- dispatcher: node ---- */
ROW(DISPATCHER_NODE, "state=active", "packrack_dispatcher_node_state", GAUGE, ONE, "state=\"active\"",
	"1 for the state that the node is in, as the dispatcher sees it, 0 for the others.")
ROW(DISPATCHER_NODE, "state=suspended", "packrack_dispatcher_node_state", GAUGE, ONE, "state=\"suspended\"",
	"1 for the state that the node is in, as the dispatcher sees it, 0 for the others.")
ROW(DISPATCHER_NODE, "state=stopped", "packrack_dispatcher_node_state", GAUGE, ONE, "state=\"stopped\"",
	"1 for the state that the node is in, as the dispatcher sees it, 0 for the others.")
ROW(DISPATCHER_NODE, "state=gone", "packrack_dispatcher_node_state", GAUGE, ONE, "state=\"gone\"",
	"1 for the state that the node is in, as the dispatcher sees it, 0 for the others.")
ROW(DISPATCHER_NODE, "state=quit", "packrack_dispatcher_node_state", GAUGE, ONE, "state=\"quit\"",
	"1 for the state that the node is in, as the dispatcher sees it, 0 for the others.")
ROW(DISPATCHER_NODE, "state=disconnected", "packrack_dispatcher_node_state", GAUGE, ONE, "state=\"disconnected\"",
	"1 for the state that the node is in, as the dispatcher sees it, 0 for the others.")
ROW(DISPATCHER_NODE, "last_seen", "packrack_dispatcher_node_last_seen_timestamp_seconds", GAUGE, NS, "",
	"When the node was last heard, seconds since 1970.")
ROW(DISPATCHER_NODE, "frames_sent", "packrack_dispatcher_node_sent_frames_total", COUNTER, ONE, "",
	"Data frames sent to the node.")
ROW(DISPATCHER_NODE, "bytes_sent", "packrack_dispatcher_node_sent_bytes_total", COUNTER, ONE, "",
	"Bytes of the data frames sent to the node.")
ROW(DISPATCHER_NODE, "primaries", "packrack_dispatcher_node_primary_packets_total", COUNTER, ONE, "",
	"First copies among the frames sent to the node.")
ROW(DISPATCHER_NODE, "second_copies", "packrack_dispatcher_node_second_packets_total", COUNTER, ONE, "",
	"Second copies among the frames sent to the node (--copies 2).")
ROW(DISPATCHER_NODE, "unacknowledged", "packrack_dispatcher_node_unacknowledged_frames", GAUGE, ONE, "",
	"Frames sent that the node has not yet stored or given up.")
ROW(DISPATCHER_NODE, "lost_unacknowledged", "packrack_dispatcher_node_lost_unacknowledged_frames_total", COUNTER, ONE, "",
	"Frames that were unacknowledged when the node fell silent.")
ROW(DISPATCHER_NODE, "logs_sent", "packrack_dispatcher_node_sent_logs_total", COUNTER, ONE, "",
	"Timestamp logs sent to the node.")
ROW(DISPATCHER_NODE, "resend_asked", "packrack_dispatcher_node_resends_asked_total", COUNTER, ONE, "",
	"Timestamp logs that the node asked for again.")
ROW(DISPATCHER_NODE, "resend_answered", "packrack_dispatcher_node_resends_answered_total", COUNTER, ONE, "",
	"Timestamp logs that were sent again.")
ROW(DISPATCHER_NODE, "gone_answered", "packrack_dispatcher_node_gone_answered_total", COUNTER, ONE, "",
	"Timestamp logs asked for that were kept no more.")
ROW(DISPATCHER_NODE, "buffer_bytes", "packrack_dispatcher_node_buffer_size_bytes", GAUGE, ONE, "",
	"What the node may have unacknowledged, as it announced.")
ROW(DISPATCHER_NODE, "controls_sent", "packrack_dispatcher_node_sent_controls_total", COUNTER, ONE, "",
	"Control frames sent to the node.")
ROW(DISPATCHER_NODE, "controls_received", "packrack_dispatcher_node_received_controls_total", COUNTER, ONE, "",
	"Control frames of the node that were in order.")
ROW(DISPATCHER_NODE, "frames_received", "packrack_dispatcher_node_received_frames_total", COUNTER, ONE, "",
	"Data frames that the node says it received.")
ROW(DISPATCHER_NODE, "packets_stored", "packrack_dispatcher_node_stored_packets_total", COUNTER, ONE, "",
	"Packets that the node says it stored.")
ROW(DISPATCHER_NODE, "packets_durable", "packrack_dispatcher_node_durable_packets_total", COUNTER, ONE, "",
	"Packets that the node says are on its disk.")
ROW(DISPATCHER_NODE, "bytes_stored", "packrack_dispatcher_node_stored_bytes_total", COUNTER, ONE, "",
	"Bytes that the node says it stored.")
ROW(DISPATCHER_NODE, "missing", "packrack_dispatcher_node_missing_packets_total", COUNTER, ONE, "",
	"Packets that logs tell of and that never came to the node: lost on the switch or in the node.")
ROW(DISPATCHER_NODE, "stray", "packrack_dispatcher_node_stray_frames_total", COUNTER, ONE, "",
	"Frames that came to the node and that no log tells of.")
ROW(DISPATCHER_NODE, "duplicate", "packrack_dispatcher_node_duplicate_frames_total", COUNTER, ONE, "",
	"Frames that came to the node twice.")
ROW(DISPATCHER_NODE, "pending", "packrack_dispatcher_node_pending_frames", GAUGE, ONE, "",
	"Frames at the node that wait for their log.")
ROW(DISPATCHER_NODE, "kernel_drops", "packrack_dispatcher_node_kernel_dropped_frames_total", COUNTER, ONE, "",
	"Frames that the kernel of the node dropped.")
ROW(DISPATCHER_NODE, "logs_received", "packrack_dispatcher_node_received_logs_total", COUNTER, ONE, "",
	"Timestamp logs that the node received.")
ROW(DISPATCHER_NODE, "logs_requested", "packrack_dispatcher_node_requested_logs_total", COUNTER, ONE, "",
	"Timestamp logs that the node asked for again, as it says.")
ROW(DISPATCHER_NODE, "logs_gone", "packrack_dispatcher_node_gone_logs_total", COUNTER, ONE, "",
	"Timestamp logs that the node was told are kept no more.")
ROW(DISPATCHER_NODE, "disk_total", "packrack_dispatcher_node_disk_size_bytes", GAUGE, ONE, "",
	"Size of the volume of the node.")
ROW(DISPATCHER_NODE, "disk_free", "packrack_dispatcher_node_disk_free_bytes", GAUGE, ONE, "",
	"What of the volume has never been written; a full one overwrites its oldest packets.")
ROW(DISPATCHER_NODE, "write_rate", "packrack_dispatcher_node_write_bytes_per_second", GAUGE, ONE, "",
	"How fast the node stores at present.")
ROW(DISPATCHER_NODE, "buffer_fill_percent", "packrack_dispatcher_node_buffer_fill_ratio", GAUGE, PERCENT, "",
	"How full the buffer of the node is.")
/* clang-format on */
