/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_CATALOG_H
#define PRI_INDEXER_CATALOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "logger/streamfs/streamfs.h"
#include "proto/base/error.h"
#include "proto/wire/summary.h"

/*
 * Which segments a volume holds, in memory: 104 bytes for one of 256 KiB, 0.04 % of the volume.
 * Pure: who fills it reads the volume (follow.h). One thread.
 *
 * Segments of one (epoch, link) are a run. A run is made of lanes: in a lane the segments follow each
 * other in the total order without overlap, so that a query merges lanes and reads each from front to
 * back. One lane is the rule; a segment that comes late opens another.
 */
struct pri_segment_entry {
	struct sfs_handle handle;
	uint64_t sequence; /* in its stream */
	uint64_t first_seq;
	int64_t min_time, max_time, first_otime, last_otime;
	uint32_t seq_span; /* last seq - first seq */
	uint32_t count;
	uint16_t linktype;
	bool deleted; /* from the midst of its stream: not counted, and not to be read */
};

static inline uint64_t
pri_entry_last_seq(const struct pri_segment_entry *entry)
{
	return entry->first_seq + entry->seq_span;
}

/*
 * Entries have numbers that stay: base is the first one's, which grows when the oldest expire.
 */
struct pri_sorted_run {
	struct pri_segment_entry *items;
	size_t head, count, room;
	uint64_t base;
	int64_t most_back; /* largest of first_otime - min_time: how far stamps lie behind otime */
	int64_t max_time; /* of all that was ever added, and not deleted since */
};

struct pri_epoch_series {
	uint64_t epoch;
	uint16_t link;
	bool strays;
	uint32_t stream; /* StreamFS's id */
	struct pri_sorted_run **lanes;
	size_t lane_count;
	uint64_t segments, packets, bytes;
	/* the newest that has been expired here, so far as this catalog saw it; 0: none */
	uint64_t evicted_seq;
	int64_t evicted_otime;
};

struct pri_catalog {
	struct pri_epoch_series *
		*runs; /* in the order of their coming; none is ever taken away */
	size_t run_count, run_room;
	uint64_t segments, packets, bytes;
};

void pri_catalog_free(struct pri_catalog *catalog);

/* The run, made if need be; NULL: no memory. */
struct pri_epoch_series *pri_catalog_series(struct pri_catalog *catalog, uint32_t stream,
	bool strays, uint64_t epoch, uint16_t link);
int pri_catalog_add(struct pri_catalog *catalog, struct pri_epoch_series *run,
	const struct pri_segment_entry *entry, struct pr_error *err);
/* Drops the entries of a stream whose sequence is less. */
void pri_catalog_expire(
	struct pri_catalog *catalog, uint32_t stream, uint64_t first_sequence);

/* Those of sequences first..last were deleted; they keep their places. */
void pri_catalog_delete(
	struct pri_catalog *catalog, uint32_t stream, uint64_t first, uint64_t last);

/* The segment of this sequence in a stream; NULL: not listed. Valid until the next add or expire. */
const struct sfs_handle *pri_catalog_handle(
	const struct pri_catalog *catalog, uint32_t stream, uint64_t sequence);

/*
 * What a stream's segments of sequences from..to hold, a span for each epoch, at most max of them;
 * returns how many. *found: segments that they speak of, which may be fewer than there are.
 */
size_t pri_catalog_spans(const struct pri_catalog *catalog, uint32_t stream, uint64_t from,
	uint64_t to, struct pr_summary_span *out, size_t max, uint64_t *found);

/*
 * True times of what is held, over all runs but strays, for people to read: where stamps step back
 * the first may be a little late. false: nothing is held.
 */
bool pri_catalog_times(const struct pri_catalog *catalog, int64_t *first, int64_t *last);

static inline uint64_t
pri_sorted_run_end(const struct pri_sorted_run *lane)
{
	return lane->base + lane->count;
}

/* NULL: expired, or not there yet. Valid until the next add or expire. */
static inline const struct pri_segment_entry *
pri_sorted_run_at(const struct pri_sorted_run *lane, uint64_t number)
{
	if (number < lane->base || number >= pri_sorted_run_end(lane))
		return NULL;
	return &lane->items[lane->head + (number - lane->base)];
}

/* The first that is not deleted; NULL: there is none. */
const struct pri_segment_entry *pri_sorted_run_first(const struct pri_sorted_run *lane);

/* Number of the first entry whose last_otime >= otime; pri_sorted_run_end when there is none. */
uint64_t pri_sorted_run_search(const struct pri_sorted_run *lane, int64_t otime);

#endif
