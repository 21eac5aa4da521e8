/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "indexer/query/prune.h"
#include "indexer/query/scans.h"
#include "proto/wire/segment_inline.h"

/*
 * Reads one sorted run from front to back, segment by segment, each only when its turn
 * comes. It is a source of the query's merge (pr_merge_top). While a segment waits, the
 * source's packet has the merge key of the segment's first packet, from the catalog, and no
 * data. So a query over many runs needs buffers only for runs that overlap at that moment.
 * When this key is the lowest, the query skips the segment or opens it.
 */
enum pri_run_state {
	/* entry waits; or its segment is finished, and the source's next call continues */
	PRI_RUN_WAITING,
	PRI_RUN_MUST_READ, /* entry waits, and the index does not exclude it */
	PRI_RUN_OPENED, /* packet is the segment's first; the merge has not taken it yet */
	PRI_RUN_OPEN,
	PRI_RUN_DONE,
};

/* What the runs of a query share. */
struct pri_run_context {
	struct pri_volume *volume;
	const struct pr_bpf_set *programs;
	struct pri_prune *prune;
	Packrack__End *stats;
	uint64_t deleted_segments; /* while the query ran */
	struct pr_loss *damaged; /* packets of segments that cannot be read */
	size_t damaged_count;
	struct pri_read_buffer spare;
	bool ahead; /* other threads may read and filter segments ahead (scans.h) */
	struct pri_scans *scans;
	unsigned window; /* segments that may be read ahead */
};

/*
 * Bounds for an epoch series: the time range, and the nearest seqs outside it; seq 0: none.
 */
struct pri_run_bounds {
	int64_t since, until;
	struct pri_seq_time lower, upper;
	int64_t evicted_until; /* overwritten while the query ran; PR_TIME_MIN: nothing */
};

struct pri_run_reader {
	struct pr_source source;
	struct pri_run_context *context;
	const struct pri_epoch_series *series;
	const struct pri_sorted_run *run;
	struct pri_run_bounds *bounds;
	size_t index; /* of the series in the query */
	/* numbers of entries; end: the run's end when the query was made */
	uint64_t next, end;
	enum pri_run_state state;
	struct pri_segment_entry entry;
	/* the open segment */
	struct pr_segment_reader reader;
	struct pr_packet packet;
	struct pri_read_buffer buffer;
	const uint8_t *body; /* in buffer */
	bool not_whole; /* pri_query_whole must not use this segment */
	bool skipping; /* packets that do not match are passed over */
	struct pri_matches matches;
	uint32_t skips; /* items of `matches` that were used */
	struct pri_run_ahead *ahead;
};

/* Stands before the first segment that can matter. bounds and context must outlive the reader. */
void pri_run_reader_start(struct pri_run_reader *r, struct pri_run_context *context,
	const struct pri_epoch_series *series, const struct pri_sorted_run *run,
	struct pri_run_bounds *bounds);
void pri_run_reader_free(struct pri_run_reader *r);

/*
 * Asks the index whether it excludes the waiting segment, like pri_prune_ask. The result
 * may be known already, from reading ahead.
 */
enum pri_prune_verdict pri_run_reader_ask(
	struct pri_run_reader *r, struct pri_held_walk *held, bool *did_io);
/* False: another thread still works on the waiting segment; try again. */
bool pri_run_reader_ready(struct pri_run_reader *r);
/*
 * Reads the waiting segment, and lets other threads start with the next ones. Counts a
 * segment that cannot be read. If at most skip_max of its packets match and this is known
 * already, returns true: the source then gives only the matching packets, and the caller
 * must account for the others. skip_max -1: do not skip.
 */
bool pri_run_reader_open(struct pri_run_reader *r, int64_t skip_max);

/* What is known of whether the open segment's packet matches. */
enum pri_match { PRI_MATCH_UNKNOWN, PRI_MATCH_NO, PRI_MATCH_YES };
enum pri_match pri_run_reader_match(const struct pri_run_reader *r);

/*
 * True if no packet of the open segment was returned yet, and by its header it lies wholly
 * within the time range.
 */
bool pri_run_reader_untouched(const struct pri_run_reader *r);
/*
 * Walks the open segment without moving: true if it is in order and in range, packet by packet. *walk: the same walk,
 * at its beginning. *last: the name of the last packet.
 */
bool pri_run_reader_verify(const struct pri_run_reader *r, struct pr_segment_walk *walk,
	struct pr_packet *last);
/* True if a segment lies wholly within the time range, by otime and by packet time. */
bool pri_entry_inside(const struct pri_segment_entry *e, const struct pri_run_bounds *b);
