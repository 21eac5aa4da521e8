/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_LANE_READER_H
#define PRI_INDEXER_LANE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "indexer/query/catalog.h"
#include "indexer/query/scans.h"
#include "indexer/query/volume.h"
#include "proto/wire/segment.h"
#include "proto/wire/source.h"

/*
 * Reads one lane from front to back, a segment at a time and each only when its turn comes: until
 * then the catalog tells the key of its first packet, so a query over many lanes holds the buffers
 * only of those that overlap at one moment. Inside the query.
 */
struct pri_run_reader {
	struct pri_epoch_series *run;
	const struct pri_sorted_run *lane;
	size_t line; /* the query's index of run */
	uint64_t next, end; /* numbers of entries; end: as it was when the query was made */
	bool open; /* packet is set; else entry waits to be opened */
	bool done; /* at its end */
	bool chosen; /* not open: the index was asked, entry must be read */
	struct pri_segment_entry entry;
	struct pr_segment_reader reader;
	struct pr_packet packet; /* when not open: its key only */
	struct pri_read_buffer buffer;
	const uint8_t *body; /* in buffer: the segment, when open */
	bool distrusted; /* open, but not to be handed on as a whole */
	bool ready; /* not open: body is the waiting segment already */
	struct pri_matches matches; /* of the segment that is open */
	struct pri_run_ahead *ahead; /* query_ahead.c */
	bool leaping; /* open: packets that do not match are passed over */
	uint32_t leaps; /* of matches.places, so many are done */
};

/* What happened to the segments of a lane; shared by the lanes of a query. */
struct pri_run_stats {
	uint64_t scanned_segments, scanned_bytes, corrupt_records;
	uint64_t skipped_segments; /* outside of the time range */
	uint64_t deleted_segments; /* while the query ran */
};

/* Where a lane begins and ends for a time range, and the seqs that lie just outside; 0: none. */
struct pri_run_bounds {
	int64_t since, until;
	uint64_t lower_seq, upper_seq;
	int64_t lower_otime, upper_otime;
	uint64_t evicted_seq; /* recycled while the query ran */
	int64_t evicted_otime;
};

/* Stands before the first segment that can matter. false: there is none. */
bool pri_run_reader_start(struct pri_run_reader *r, struct pri_epoch_series *run,
	const struct pri_sorted_run *lane, struct pri_run_bounds *bounds,
	struct pri_run_stats *figures);
void pri_run_reader_free(struct pri_run_reader *r);
/* Its buffer goes to spare (and what was there is freed), or comes from there. */
void pri_run_reader_give(struct pri_run_reader *r, struct pri_read_buffer *spare);
void pri_run_reader_take(struct pri_run_reader *r, struct pri_read_buffer *spare);

/*
 * Reads the segment that waits; packet is its first then. What cannot be read is counted and passed
 * over. false: the lane is at its end.
 */
bool pri_run_reader_open(struct pri_run_reader *r, struct pri_volume *view,
	struct pri_run_bounds *bounds, struct pri_run_stats *figures);
/* On to the next packet, or to the next segment's key. false: at the end. Data of the packet before
 * stays valid until the next call of pri_run_reader_open on this reader. */
bool pri_run_reader_next(struct pri_run_reader *r, struct pri_run_bounds *bounds,
	struct pri_run_stats *figures);

/* Open, at its first packet, and by its header wholly within the time range. */
bool pri_run_reader_untouched(
	const struct pri_run_reader *r, const struct pri_run_bounds *bounds);
/*
 * Walks the segment without moving: is it in order and within the range, packet by packet? *last is
 * then its last one.
 */
bool pri_run_reader_prove(const struct pri_run_reader *r,
	const struct pri_run_bounds *bounds, struct pr_packet *last);
/* Just opened, and matches are sound: from now on only packets that match. false: at the lane's end. */
bool pri_run_reader_leap(struct pri_run_reader *r, struct pri_run_bounds *bounds,
	struct pri_run_stats *figures);
/* By true time it may match; by otime its seqs belong to the range that is accounted for. */
bool pri_entry_wanted(const struct pri_segment_entry *e, const struct pri_run_bounds *b);
/* By both it lies wholly within the range. */
bool pri_entry_inside(const struct pri_segment_entry *e, const struct pri_run_bounds *b);
/* Open: the number of the packet in its segment. */
static inline uint32_t
pri_run_reader_index(const struct pri_run_reader *r)
{
	return r->reader.header.count - r->reader.left - 1;
}
/* Not open: the waiting segment lies wholly within the time range, by otime and by true time. */
bool pri_run_reader_inside(
	const struct pri_run_reader *r, const struct pri_run_bounds *bounds);
/* Past the segment, on to the next one's key. false: at the end. */
bool pri_run_reader_pass(struct pri_run_reader *r, struct pri_run_bounds *bounds,
	struct pri_run_stats *figures);

/* For a heap: key order, the primary before the second copy. */
bool pri_run_reader_less(const void *a, const void *b);

#endif
