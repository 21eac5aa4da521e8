/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_INDEXER_VIEW_H
#define PR_INDEXER_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "indexer/book.h"
#include "indexer/catalog.h"
#include "indexer/index_book.h"
#include "logger/streamfs/streamfs.h"
#include "proto/base/error.h"

/*
 * A volume as queries see it: its segments and its ledger, kept up to date behind the volume's
 * writer. The list of segments comes from the stream "segments", what is newer than that (or was
 * lost from it in a crash) from the data streams themselves. Reads only. One thread.
 */
struct pr_view;

/*
 * PR_VIEW_CACHED: read it through the kernel's page cache, so that asking again is fast; who works beside a
 * logger reads past it (O_DIRECT) instead, for capture comes first.
 * PR_VIEW_SUMMARIES: know where level 3 of the index lies, too, which queries do not need.
 */
enum pr_view_options { PR_VIEW_CACHED = 1, PR_VIEW_SUMMARIES = 2 };
/* The volume must be there. */
struct pr_view *pr_view_open(
	const char *const *paths, size_t count, unsigned options, struct pr_error *err);
void pr_view_close(struct pr_view **view);

/*
 * Takes in what is new, until deadline (pr_now_mono; INT64_MAX: all). all: also the segments that
 * the directory does not tell of yet, as a query needs; this reads them.
 * 1: there is more, call again; 0: up to date; -1: the volume cannot be read (try again later).
 */
int pr_view_refresh(struct pr_view *view, bool all, int64_t deadline, struct pr_error *err);

struct sfs *pr_view_sfs(struct pr_view *view);
const struct pr_catalog *pr_view_catalog(const struct pr_view *view);
const struct pr_book *pr_view_book(const struct pr_view *view);
struct pr_index_book *pr_view_index(struct pr_view *view);

/* Up to which time a stream's data was recycled; PR_TIME_MIN: nothing was. */
int64_t pr_view_evicted_until(const struct pr_view *view, uint32_t stream);
const char *pr_view_stream_name(const struct pr_view *view, uint32_t stream); /* or "" */

struct pr_view_figures {
	uint64_t corrupt_records; /* that could not be listed: their packets are unknown */
	uint64_t
		unlisted; /* segments of the data streams that are not in the catalog yet */
};
void pr_view_figures(const struct pr_view *view, struct pr_view_figures *out);

/* Where segments are read to; from malloc. */
struct pr_view_buffer {
	uint8_t *bytes; /* aligned to 4096; NULL: none yet */
	size_t room;
};

/*
 * Reads a segment of entry->handle.length bytes; the buffer is made or grown as needed and stays the
 * caller's. *body: where in it the segment begins. Returns enum sfs_result.
 */
int pr_view_read(struct pr_view *view, const struct pr_segment_entry *entry,
	struct pr_view_buffer *buffer, const uint8_t **body, struct pr_error *err);
/* The same for any record. */
int pr_view_read_record(struct pr_view *view, const struct sfs_handle *handle,
	struct pr_view_buffer *buffer, const uint8_t **body, struct pr_error *err);
/* Some bytes of one, unchecked but for the record's own head: who reads them must. */
int pr_view_read_part(struct pr_view *view, const struct sfs_handle *handle, size_t offset,
	size_t len, struct pr_view_buffer *buffer, const uint8_t **at,
	struct pr_error *err);
/* At least room bytes; what was in it is lost. -1: no memory, and the buffer is as it was. */
int pr_view_buffer_grow(struct pr_view_buffer *buffer, size_t room);

#endif
