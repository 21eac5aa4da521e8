/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_VIEW_INTERNAL_H
#define PRI_INDEXER_VIEW_INTERNAL_H

#include "indexer/query/volume.h"
#include "proto/wire/directory.h"

/* Between the files of the view. */

#define PRI_STREAM_LEDGER "ledger"

/* A segment on its way into the catalog. */
struct pri_listed {
	struct pri_segment_entry entry;
	uint64_t epoch;
	uint16_t link;
};

struct pri_volume_stream {
	uint32_t id;
	bool data, strays; /* strays are data too */
	uint16_t link; /* data but not strays */
	bool any; /* last and last_sequence are set: listed up to there */
	struct sfs_handle last;
	uint64_t last_sequence;
	uint64_t corrupt_tail; /* bad records behind last: each walk meets them again */
	struct sfs_stream_info info; /* as of the last refresh */
	uint64_t deleted_records; /* of info, when the catalog was last told */
	struct pri_listed *pending; /* from the directory, without sequences yet */
	size_t pending_count, pending_room;
};

struct pri_volume {
	struct sfs *sfs;
	struct pri_catalog catalog;
	struct pri_ledger_view book;
	struct pri_index_map index;
	struct pri_volume_stream *streams;
	size_t stream_count;
	bool with_summaries;
	struct sfs_cursor *ledger, *directory, *summaries;
	uint64_t ledger_sequence;
	uint64_t corrupt;
};

struct pri_volume_stream *pri_volume_stream(
	struct pri_volume *view, uint32_t id); /* or NULL */

/* view_follow.c: take in what the writer has said since. As pri_volume_refresh. */
int pri_volume_follow_ledger(
	struct pri_volume *view, int64_t deadline, struct pr_error *err);
int pri_volume_follow_directory(
	struct pri_volume *view, int64_t deadline, struct pr_error *err);

/* What the directory says of a segment; those listed already are passed over. */
int pri_volume_list(struct pri_volume *view, const struct pr_directory_segment *d,
	const struct sfs_handle *handle, struct pr_error *err);
/* Gives the pending entries their sequences, fills holes among them, puts them into the catalog. */
int pri_volume_settle(
	struct pri_volume *view, struct pri_volume_stream *stream, struct pr_error *err);
/* Nothing is to be listed where all was deleted behind the last one listed. */
void pri_volume_pass_deleted(struct pri_volume *view, struct pri_volume_stream *stream);
/* Lists what lies behind the last one listed. As pri_volume_refresh. */
int pri_volume_walk(struct pri_volume *view, struct pri_volume_stream *stream,
	int64_t deadline, struct pr_error *err);

#endif
