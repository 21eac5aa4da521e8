/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_SCANS_H
#define PRI_INDEXER_SCANS_H

#include "indexer/filter/bpf.h"
#include "indexer/query/volume.h"
#include "logger/streamfs/streamfs.h"
#include "proto/wire/segment.h"

/*
 * Segments that other threads read, prove and filter ahead of a query, which takes them in its own order.
 * The threads are the process's, few, and shared by all its queries: they start with the first segment
 * that is begun, and are gone with the last query that began one. A query's thread that comes to a segment
 * which nobody has begun does it itself. Between a query's calls at most PRI_SCANS_AHEAD segments are done.
 */
#define PRI_SCANS_AHEAD 8 /* of a query: 256 KiB each, as a rule */
#define PRI_SCANS_THREADS_MAX 8

/* For the whole process, before its first query: added to the threads' nice value, for who works beside a capture. */
void pri_scans_setup(int nice);

struct pri_scans; /* of a query: one thread */
struct pri_scan;

/* programs: the query's, must outlive it. NULL: no memory. */
struct pri_scans *pri_scans_create(const struct pri_bpf_set *programs);
/* What was begun and not taken is dropped; waits for what is being worked on: a segment a thread. */
void pri_scans_destroy(struct pri_scans **scans);

/* How many may still be begun before one is taken. */
unsigned pri_scans_free(const struct pri_scans *scans);
/* handle: what the plan is of. NULL: not now, or no memory. */
struct pri_scan *pri_scans_begin(struct pri_scans *scans, const struct sfs_plan *plan,
	const struct sfs_handle *handle);

/*
 * Which packets match: bit i of the i-th, for those below judged. sound: the segment is in order and as its
 * header says, to its end; then places has the readers that stand before those that match.
 */
struct pri_matches {
	uint8_t *bits; /* from malloc, as places are */
	struct pr_segment_reader *places;
	size_t room;
	uint32_t judged,
		count; /* count: of places; more match where they are more than PRI_PLACES_MAX */
	uint64_t last_seq; /* the segment's; when sound */
	bool sound;
};
#define PRI_PLACES_MAX 256 /* where so many match, one may as well walk */
void pri_matches_free(struct pri_matches *matches);
/*
 * The segment, when it is done. true: it lies in *buffer, at *body, and *matches speaks of it; what they
 * had before goes to the scan, to be used again. false: it could not be read so, and all is as it was.
 */
bool pri_scan_take(struct pri_scans *scans, struct pri_scan *scan,
	struct pri_read_buffer *buffer, const uint8_t **body, struct pri_matches *matches);
/* Nobody wants it any more. */
void pri_scan_drop(struct pri_scans *scans, struct pri_scan *scan);

#endif
