/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_VIEW_H
#define PRI_INDEXER_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "indexer/query/ledger_view.h"
#include "indexer/query/catalog.h"
#include "indexer/query/index_map.h"
#include "logger/streamfs/streamfs.h"
#include "proto/base/error.h"

/*
 * A volume as queries see it: its segments and its ledger, kept up to date behind the volume's
 * writer. The list of segments comes from the stream "segments", what is newer than that (or was
 * lost from it in a crash) from the data streams themselves. Reads only. One thread.
 */
struct pri_volume;

/*
 * PRI_VOLUME_CACHED: read it through the kernel's page cache, so that asking again is fast; who works beside a
 * logger reads past it (O_DIRECT) instead, for capture comes first.
 * PRI_VOLUME_SUMMARIES: know where level 3 of the index lies, too, which queries do not need.
 */
enum pri_volume_options { PRI_VOLUME_CACHED = 1, PRI_VOLUME_SUMMARIES = 2 };
/* The volume must be there. */
struct pri_volume *pri_volume_open(
	const char *const *paths, size_t count, unsigned options, struct pr_error *err);
void pri_volume_close(struct pri_volume **view);

/*
 * Takes in what is new, until deadline (pr_now_mono; INT64_MAX: all). all: also the segments that
 * the directory does not tell of yet, as a query needs; this reads them.
 * 1: there is more, call again; 0: up to date; -1: the volume cannot be read (try again later).
 */
int pri_volume_refresh(
	struct pri_volume *view, bool all, int64_t deadline, struct pr_error *err);

struct sfs *pri_volume_sfs(struct pri_volume *view);
const struct pri_catalog *pri_volume_catalog(const struct pri_volume *view);
const struct pri_ledger_view *pri_volume_ledger(const struct pri_volume *view);
struct pri_index_map *pri_volume_index_map(struct pri_volume *view);

/* Up to which time a stream's data was recycled; PR_TIME_MIN: nothing was. */
int64_t pri_volume_evicted_until(const struct pri_volume *view, uint32_t stream);
const char *pri_volume_stream_name(
	const struct pri_volume *view, uint32_t stream); /* or "" */

struct pri_volume_stats {
	uint64_t corrupt_records; /* that could not be listed: their packets are unknown */
	uint64_t
		unlisted; /* segments of the data streams that are not in the catalog yet */
};
void pri_volume_stats(const struct pri_volume *view, struct pri_volume_stats *out);

/* Where segments are read to; from malloc. */
struct pri_read_buffer {
	uint8_t *bytes; /* aligned to 4096; NULL: none yet */
	size_t room;
};

/*
 * Reads a segment of entry->handle.length bytes; the buffer is made or grown as needed and stays the
 * caller's. *body: where in it the segment begins. Returns enum sfs_result.
 */
int pri_volume_read(struct pri_volume *view, const struct pri_segment_entry *entry,
	struct pri_read_buffer *buffer, const uint8_t **body, struct pr_error *err);
/* The same for any record. */
int pri_volume_read_record(struct pri_volume *view, const struct sfs_handle *handle,
	struct pri_read_buffer *buffer, const uint8_t **body, struct pr_error *err);
/* Some bytes of one, unchecked but for the record's own head: who reads them must. */
int pri_volume_read_part(struct pri_volume *view, const struct sfs_handle *handle,
	size_t offset, size_t len, struct pri_read_buffer *buffer, const uint8_t **at,
	struct pr_error *err);
/* At least room bytes; what was in it is lost. -1: no memory, and the buffer is as it was. */
int pri_read_buffer_grow(struct pri_read_buffer *buffer, size_t room);

#endif
