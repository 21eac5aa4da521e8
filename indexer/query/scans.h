/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "proto/wire/bpf.h"
#include "indexer/query/volume.h"
#include "proto/wire/segment.h"

/*
 * Worker threads that read, check and filter segments ahead of a query; the query takes the
 * results in its own order. The process has a few of these threads for all its queries.
 * They start with the first segment begun, and stay. If
 * no worker has begun a segment when the query needs it, the query's own thread reads it
 * and filters as many packets as take a moment, unless the filters are long. A query has at most PRI_SCANS_AHEAD segments begun.
 */
#define PRI_SCANS_AHEAD 8 /* of a query: 256 KiB each, as a rule */
#define PRI_SCANS_THREADS_MAX 8

/*
 * Sets up the whole process; call before its first query. nice: added to the threads' nice
 * value, for a process that runs beside a capture.
 */
void pri_scans_setup(int nice);

/*
 * Lets the threads' long filters rest for 20 ms, of 40 at most: what is asked now is answered
 * first. now: pr_now_mono.
 */
void pri_scans_pause(int64_t now);

struct pri_scans; /* of a query: one thread */

/* programs: the query's, must outlive it. NULL: no memory. */
struct pri_scans *pri_scans_create(const struct pr_bpf_set *programs);
/*
 * Drops segments that were begun and not taken. Waits for those in work: at most one for
 * each thread.
 */
void pri_scans_destroy(struct pri_scans **scans);

/* Number of segments that may still be begun before one is taken. */
unsigned pri_scans_free(const struct pri_scans *scans);
/* handle: what the plan is of. NULL: not now, or no memory. */
struct pri_scan *pri_scans_begin(struct pri_scans *scans, const struct sfs_plan *plan,
	const struct sfs_handle *handle);

/*
 * The matching packets: bit i is set if packet i matches, for i < judged. sound: the whole
 * segment is in order and agrees with its header; then places has a reader at each matching
 * packet.
 */
struct pri_matches {
	uint8_t *bits; /* from malloc, as places are */
	struct pr_segment_reader *places;
	size_t room;
	/* count: of places; more match where they are more than PRI_PLACES_MAX */
	uint32_t judged, count;
	uint64_t last_seq; /* the segment's; when sound */
	bool sound;
};
/* with more matches than this, walking the segment costs no more */
#define PRI_PLACES_MAX 256
void pri_matches_free(struct pri_matches *matches);
/*
 * False: a thread works on it still. Waits for a millisecond before it says so; while it
 * does, pri_scan_take would wait.
 */
bool pri_scan_ready(struct pri_scan *scan);
/*
 * Takes a segment, when its scan has ended. True: the segment is in *buffer at *body, and
 * *matches is about it; their previous memory goes to the scan for reuse. False: it could
 * not be read, and nothing was changed.
 */
bool pri_scan_take(struct pri_scans *scans, struct pri_scan *scan,
	struct pri_read_buffer *buffer, const uint8_t **body, struct pri_matches *matches);
/* Drops a segment that is no longer needed. */
void pri_scan_drop(struct pri_scans *scans, struct pri_scan *scan);
