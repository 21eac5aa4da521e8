/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of metric_table.c, those of a node: its logger and its indexer. Only that file includes this one. */

/* clang-format off */
/* ---- logger ---- */
ROW(LOGGER, "state=running", "packrack_logger_state", GAUGE, ONE, "state=\"running\"",
	"1 for the state that the logger is in, 0 for the others; suspended: the disk takes nothing.")
ROW(LOGGER, "state=suspended", "packrack_logger_state", GAUGE, ONE, "state=\"suspended\"",
	"1 for the state that the logger is in, 0 for the others; suspended: the disk takes nothing.")
ROW(LOGGER, "state=stopping", "packrack_logger_state", GAUGE, ONE, "state=\"stopping\"",
	"1 for the state that the logger is in, 0 for the others; suspended: the disk takes nothing.")
ROW(LOGGER, "connected", "packrack_logger_connected", GAUGE, ONE, "",
	"1 when a dispatcher has admitted the node, else 0.")
ROW(LOGGER, "frames_received", "packrack_logger_received_frames_total", COUNTER, ONE, "",
	"Frames received, data and control.")
ROW(LOGGER, "bytes_received", "packrack_logger_received_bytes_total", COUNTER, ONE, "",
	"Bytes of the frames received.")
ROW(LOGGER, "control_received", "packrack_logger_control_received_frames_total", COUNTER, ONE, "",
	"Control frames received.")
ROW(LOGGER, "kernel_drops", "packrack_logger_dropped_frames_total", COUNTER, ONE, "place=\"kernel\",reason=\"ring_full\"",
	"Frames lost before the logger saw them, by place and reason.")
ROW(LOGGER, "interface_drops", "packrack_logger_dropped_frames_total", COUNTER, ONE, "place=\"interface\",reason=\"card_or_backlog\"",
	"Frames lost before the logger saw them, by place and reason.")
ROW(LOGGER, "buffer_waits", "packrack_logger_buffer_waits_total", COUNTER, ONE, "",
	"Times that receiving waited for room in the buffer.")
ROW(LOGGER, "packets_stored", "packrack_logger_stored_packets_total", COUNTER, ONE, "",
	"Packets given to the volume.")
ROW(LOGGER, "bytes_stored", "packrack_logger_stored_bytes_total", COUNTER, ONE, "",
	"Bytes given to the volume.")
ROW(LOGGER, "packets_durable", "packrack_logger_durable_packets_total", COUNTER, ONE, "",
	"Packets that are on the disk.")
ROW(LOGGER, "segments_stored", "packrack_logger_stored_segments_total", COUNTER, ONE, "",
	"Batches of packets given to the volume.")
ROW(LOGGER, "strays_stored", "packrack_logger_stored_strays_total", COUNTER, ONE, "",
	"Frames without a log that were stored among the strays.")
ROW(LOGGER, "lost_write", "packrack_logger_lost_packets_total", COUNTER, ONE, "place=\"volume\",reason=\"write_failed\"",
	"Packets lost after they were received, by place and reason.")
ROW(LOGGER, "write_errors", "packrack_logger_write_errors_total", COUNTER, ONE, "",
	"Failures of the disk or the volume.")
ROW(LOGGER, "ledger_refused", "packrack_logger_ledger_refused_total", COUNTER, ONE, "",
	"Entries of the ledger that the volume did not take.")
ROW(LOGGER, "index_records", "packrack_logger_index_records_total", COUNTER, ONE, "",
	"Records of the index stored for the indexer.")
ROW(LOGGER, "index_bytes", "packrack_logger_index_bytes_total", COUNTER, ONE, "",
	"Bytes of the records of the index.")
ROW(LOGGER, "data_frames", "packrack_logger_data_frames_total", COUNTER, ONE, "",
	"Data frames of the dispatcher.")
ROW(LOGGER, "foreign_frames", "packrack_logger_foreign_frames_total", COUNTER, ONE, "",
	"Frames that are not from the dispatcher of this rack.")
ROW(LOGGER, "unexpected_frames", "packrack_logger_unexpected_frames_total", COUNTER, ONE, "",
	"Frames that came while no dispatcher had admitted the node.")
ROW(LOGGER, "control_bad", "packrack_logger_control_bad_frames_total", COUNTER, ONE, "",
	"Control frames that are damaged, of another version, or with a bad tag.")
ROW(LOGGER, "control_bad_tag", "packrack_logger_control_bad_tag_frames_total", COUNTER, ONE, "",
	"Of the bad, those whose tag does not fit the key of the rack.")
ROW(LOGGER, "control_refused", "packrack_logger_control_refused_frames_total", COUNTER, ONE, "",
	"Control frames in order but out of place: old numbers, other starts.")
ROW(LOGGER, "announced", "packrack_logger_announcements_total", COUNTER, ONE, "",
	"Times that the node announced itself.")
ROW(LOGGER, "statuses", "packrack_logger_statuses_total", COUNTER, ONE, "",
	"Statuses sent to the dispatcher.")
ROW(LOGGER, "resends", "packrack_logger_resends_total", COUNTER, ONE, "",
	"Requests for logs sent to the dispatcher.")
ROW(LOGGER, "ordinal_settled", "packrack_logger_settled_ordinal", GAUGE, ONE, "",
	"Ordinal of the last frame of this admission that is stored or given up.")
ROW(LOGGER, "matched", "packrack_logger_matched_packets_total", COUNTER, ONE, "",
	"Frames that found their entry in a log.")
ROW(LOGGER, "missing", "packrack_logger_missing_packets_total", COUNTER, ONE, "",
	"Entries of logs whose frame never came.")
ROW(LOGGER, "strays", "packrack_logger_stray_frames_total", COUNTER, ONE, "",
	"Frames that no log told of within the hold time.")
ROW(LOGGER, "late", "packrack_logger_late_frames_total", COUNTER, ONE, "",
	"Frames that came after their entry had been given up.")
ROW(LOGGER, "duplicates", "packrack_logger_duplicate_frames_total", COUNTER, ONE, "",
	"Frames that came twice.")
ROW(LOGGER, "searched", "packrack_logger_searched_entries_total", COUNTER, ONE, "",
	"Entries matched by search, because order or count was not as sent.")
ROW(LOGGER, "pending", "packrack_logger_pending_frames", GAUGE, ONE, "",
	"Frames that wait for their log.")
ROW(LOGGER, "pending_entries", "packrack_logger_pending_entries", GAUGE, ONE, "",
	"Entries of logs that wait for their frame.")
ROW(LOGGER, "logs_received", "packrack_logger_received_logs_total", COUNTER, ONE, "",
	"Timestamp logs received.")
ROW(LOGGER, "logs_requested", "packrack_logger_requested_logs_total", COUNTER, ONE, "",
	"Timestamp logs asked for again.")
ROW(LOGGER, "logs_gone", "packrack_logger_gone_logs_total", COUNTER, ONE, "",
	"Timestamp logs that the dispatcher keeps no more.")
ROW(LOGGER, "logs_bad", "packrack_logger_bad_logs_total", COUNTER, ONE, "",
	"Timestamp logs that cannot be read.")
ROW(LOGGER, "logs_repeated", "packrack_logger_repeated_logs_total", COUNTER, ONE, "",
	"Timestamp logs that came twice.")
ROW(LOGGER, "given_up_early", "packrack_logger_given_up_early_frames_total", COUNTER, ONE, "",
	"Frames given up before the hold time, as the buffer was full.")
ROW(LOGGER, "stashed", "packrack_logger_stashed_frames_total", COUNTER, ONE, "",
	"Frames copied out of the buffer to make room.")
ROW(LOGGER, "last_seq", "packrack_logger_numbered_packets_total", COUNTER, ONE, "",
	"With --tap: packets that were given a number.")
/* ---- indexer ---- */
ROW(INDEXER, "writer_alive", "packrack_indexer_writer_alive", GAUGE, ONE, "",
	"1 when a logger has the volume open, else 0.")
ROW(INDEXER, "segments", "packrack_indexer_segments", GAUGE, ONE, "",
	"Batches of packets in the volume.")
ROW(INDEXER, "packets", "packrack_indexer_packets", GAUGE, ONE, "",
	"Packets in the volume.")
ROW(INDEXER, "bytes", "packrack_indexer_bytes", GAUGE, ONE, "",
	"Bytes of packets in the volume.")
ROW(INDEXER, "missing", "packrack_indexer_missing_packets", GAUGE, ONE, "",
	"Packets that the ledger of the volume lists as lost.")
ROW(INDEXER, "first_time", "packrack_indexer_oldest_packet_timestamp_seconds", GAUGE, NS, "",
	"Time of the oldest packet in the volume, seconds since 1970.")
ROW(INDEXER, "last_time", "packrack_indexer_newest_packet_timestamp_seconds", GAUGE, NS, "",
	"Time of the newest packet in the volume, seconds since 1970.")
ROW(INDEXER, "volume_bytes", "packrack_indexer_volume_size_bytes", GAUGE, ONE, "",
	"Size of the volume.")
ROW(INDEXER, "volume_used", "packrack_indexer_volume_used_bytes", GAUGE, ONE, "",
	"What of the volume has been written; when all is, the oldest is overwritten.")
ROW(INDEXER, "queries", "packrack_indexer_queries_total", COUNTER, ONE, "",
	"Queries that the indexer was asked.")
ROW(INDEXER, "queries_running", "packrack_indexer_queries_running", GAUGE, ONE, "",
	"Queries that the indexer is at.")
ROW(INDEXER, "indexed_lag_bytes", "packrack_indexer_lag_bytes", GAUGE, ONE, "",
	"Packets of the volume that its list does not tell of yet.")
/* clang-format on */
