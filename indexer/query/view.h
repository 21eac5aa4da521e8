/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_VIEW_H
#define PRI_INDEXER_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "indexer/query/book.h"
#include "indexer/query/catalog.h"
#include "indexer/query/index_book.h"
#include "logger/streamfs/streamfs.h"
#include "proto/base/error.h"

/*
 * A volume as queries see it: its segments and its ledger, kept up to date behind the volume's
 * writer. The list of segments comes from the stream "segments", what is newer than that (or was
 * lost from it in a crash) from the data streams themselves. Reads only. One thread.
 */
struct pri_view;

/*
 * PRI_VIEW_CACHED: read it through the kernel's page cache, so that asking again is fast; who works beside a
 * logger reads past it (O_DIRECT) instead, for capture comes first.
 * PRI_VIEW_SUMMARIES: know where level 3 of the index lies, too, which queries do not need.
 */
enum pri_view_options { PRI_VIEW_CACHED = 1, PRI_VIEW_SUMMARIES = 2 };
/* The volume must be there. */
struct pri_view *pri_view_open(
	const char *const *paths, size_t count, unsigned options, struct pr_error *err);
void pri_view_close(struct pri_view **view);

/*
 * Takes in what is new, until deadline (pr_now_mono; INT64_MAX: all). all: also the segments that
 * the directory does not tell of yet, as a query needs; this reads them.
 * 1: there is more, call again; 0: up to date; -1: the volume cannot be read (try again later).
 */
int pri_view_refresh(
	struct pri_view *view, bool all, int64_t deadline, struct pr_error *err);

struct sfs *pri_view_sfs(struct pri_view *view);
const struct pri_catalog *pri_view_catalog(const struct pri_view *view);
const struct pri_book *pri_view_book(const struct pri_view *view);
struct pri_index_book *pri_view_index(struct pri_view *view);

/* Up to which time a stream's data was recycled; PR_TIME_MIN: nothing was. */
int64_t pri_view_evicted_until(const struct pri_view *view, uint32_t stream);
const char *pri_view_stream_name(const struct pri_view *view, uint32_t stream); /* or "" */

struct pri_view_figures {
	uint64_t corrupt_records; /* that could not be listed: their packets are unknown */
	uint64_t
		unlisted; /* segments of the data streams that are not in the catalog yet */
};
void pri_view_figures(const struct pri_view *view, struct pri_view_figures *out);

/* Where segments are read to; from malloc. */
struct pri_view_buffer {
	uint8_t *bytes; /* aligned to 4096; NULL: none yet */
	size_t room;
};

/*
 * Reads a segment of entry->handle.length bytes; the buffer is made or grown as needed and stays the
 * caller's. *body: where in it the segment begins. Returns enum sfs_result.
 */
int pri_view_read(struct pri_view *view, const struct pri_segment_entry *entry,
	struct pri_view_buffer *buffer, const uint8_t **body, struct pr_error *err);
/* The same for any record. */
int pri_view_read_record(struct pri_view *view, const struct sfs_handle *handle,
	struct pri_view_buffer *buffer, const uint8_t **body, struct pr_error *err);
/* Some bytes of one, unchecked but for the record's own head: who reads them must. */
int pri_view_read_part(struct pri_view *view, const struct sfs_handle *handle,
	size_t offset, size_t len, struct pri_view_buffer *buffer, const uint8_t **at,
	struct pr_error *err);
/* At least room bytes; what was in it is lost. -1: no memory, and the buffer is as it was. */
int pri_view_buffer_grow(struct pri_view_buffer *buffer, size_t room);

#endif
