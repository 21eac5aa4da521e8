/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "indexer/query/catalog.h"

#define PRI_VOLUME_LISTS 3

/*
 * A volume as queries use it: its segments, its ledger and its index, kept up to date while
 * another process writes. Segments are listed from the stream "segments"; those not in it
 * yet (or lost from it in a crash) are read from the data streams. Only reads. One thread.
 */
struct pri_volume {
	/* for all to read */
	struct sfs *sfs;
	struct pri_catalog catalog;
	struct pri_ledger_view ledger;
	/* The ledger read again from its begin, because a logger has started. It replaces `ledger` when all of it is read. */
	struct pri_ledger_view ledger_anew;
	bool ledger_again; /* ledger_anew is being read */
	struct pri_index_map index_map;
	/* inside of volume.c */
	struct pri_volume_stream *streams;
	size_t stream_count;
	uint64_t writers; /* sfs_volume_info */
	bool had_writer;
	bool with_summaries;
	/* of the ledger, segments, summaries */
	struct sfs_cursor *cursors[PRI_VOLUME_LISTS];
	uint64_t corrupt;
};

/*
 * PRI_VOLUME_CACHED: read through the kernel's page cache, so that the next query is fast.
 * An indexer beside a logger bypasses it (O_DIRECT), because capture has priority.
 * PRI_VOLUME_SUMMARIES: also list the level-3 records of the index, which queries do not
 * need.
 */
enum { PRI_VOLUME_CACHED = 1, PRI_VOLUME_SUMMARIES = 2 };
/* The volume must exist. */
struct pri_volume *pri_volume_open(
	const char *const *paths, size_t count, unsigned options, struct pr_error *err);
void pri_volume_close(struct pri_volume **volume);

/*
 * Reads new ledger and directory records until deadline (monotonic ns; INT64_MAX: all of them). all: also
 * reads segments that are not in the directory yet, as a query needs.
 * 1: there is more, call again; 0: up to date; -1: the volume cannot be read (try again later).
 */
int pri_volume_refresh(
	struct pri_volume *volume, bool all, int64_t deadline, struct pr_error *err);

/* True if the writer's shared memory has all that is stored of these times: no device is read for their packets. */
bool pri_volume_in_memory(const struct pri_volume *volume, int64_t since, int64_t until);
/* The time from which all that is stored (stream: of this one; -1: of all) is there; after the newest packet: nothing is. */
int64_t pri_volume_memory_since(const struct pri_volume *volume, int stream);

/* The time up to which a stream's data was overwritten; PR_TIME_MIN: none was. */
int64_t pri_volume_evicted_until(const struct pri_volume *volume, uint32_t stream);
/* or "" */
const char *pri_volume_stream_name(const struct pri_volume *volume, uint32_t stream);

#define PRI_STREAM_STRAYS "strays" /* packets that were never matched */
/*
 * True if this is the name of a link's packet stream (then *link is set), or of the stream
 * of strays.
 */
bool pri_stream_is_link(const char *name, uint16_t *link);

struct pri_volume_stats {
	uint64_t corrupt_records; /* that could not be listed: their packets are unknown */
	uint64_t unlisted; /* segments that are not in the catalog yet */
};
void pri_volume_stats(const struct pri_volume *volume, struct pri_volume_stats *out);

/* A buffer that records are read into. The memory is from malloc. */
struct pri_read_buffer {
	uint8_t *bytes; /* aligned to 4096; NULL: none yet */
	size_t capacity;
};

/*
 * Makes the buffer at least `capacity` bytes; its contents are lost. -1: no memory, and the
 * buffer is unchanged.
 */
int pri_read_buffer_grow(struct pri_read_buffer *buffer, size_t capacity);

/*
 * Reads a record into the buffer, which is allocated or grown as needed. *body: the
 * record's body in the buffer. Returns enum sfs_result.
 */
int pri_volume_read_record(struct pri_volume *volume, const struct sfs_handle *handle,
	struct pri_read_buffer *buffer, const uint8_t **body);
/*
 * Reads some bytes of a record into the buffer, as pri_volume_read_record does. Only the
 * record's own header is verified: the caller must verify the bytes.
 */
int pri_volume_read_part(struct pri_volume *volume, const struct sfs_handle *handle,
	size_t offset, size_t len, struct pri_read_buffer *buffer, const uint8_t **at);
