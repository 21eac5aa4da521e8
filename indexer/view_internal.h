/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_INDEXER_VIEW_INTERNAL_H
#define PR_INDEXER_VIEW_INTERNAL_H

#include "indexer/view.h"
#include "proto/wire/directory.h"

/* Between the files of the view. */

#define PR_STREAM_LEDGER "ledger"

/* A segment on its way into the catalog. */
struct pr_listed {
	struct pr_segment_entry entry;
	uint64_t epoch;
	uint16_t link;
};

struct pr_view_stream {
	uint32_t id;
	bool data, strays; /* strays are data too */
	uint16_t link; /* data but not strays */
	bool any; /* last and last_sequence are set: listed up to there */
	struct sfs_handle last;
	uint64_t last_sequence;
	uint64_t corrupt_tail; /* bad records behind last: each walk meets them again */
	struct sfs_stream_info info; /* as of the last refresh */
	uint64_t deleted_records; /* of info, when the catalog was last told */
	struct pr_listed *pending; /* from the directory, without sequences yet */
	size_t pending_count, pending_room;
};

struct pr_view {
	struct sfs *sfs;
	struct pr_catalog catalog;
	struct pr_book book;
	struct pr_index_book index;
	struct pr_view_stream *streams;
	size_t stream_count;
	bool with_summaries;
	struct sfs_cursor *ledger, *directory, *summaries;
	uint64_t ledger_sequence;
	uint64_t corrupt;
};

struct pr_view_stream *pr_view_stream(struct pr_view *view, uint32_t id); /* or NULL */

/* view_follow.c: take in what the writer has said since. As pr_view_refresh. */
int pr_view_follow_ledger(struct pr_view *view, int64_t deadline, struct pr_error *err);
int pr_view_follow_directory(struct pr_view *view, int64_t deadline, struct pr_error *err);

/* What the directory says of a segment; those listed already are passed over. */
int pr_view_list(struct pr_view *view, const struct pr_directory_segment *d,
	const struct sfs_handle *handle, struct pr_error *err);
/* Gives the pending entries their sequences, fills holes among them, puts them into the catalog. */
int pr_view_settle(
	struct pr_view *view, struct pr_view_stream *stream, struct pr_error *err);
/* Nothing is to be listed where all was deleted behind the last one listed. */
void pr_view_pass_deleted(struct pr_view *view, struct pr_view_stream *stream);
/* Lists what lies behind the last one listed. As pr_view_refresh. */
int pr_view_walk(struct pr_view *view, struct pr_view_stream *stream, int64_t deadline,
	struct pr_error *err);

#endif
