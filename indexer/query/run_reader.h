/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_QUERY_RUN_READER_H
#define PRI_QUERY_RUN_READER_H

#include "indexer/query/prune.h"
#include "indexer/query/scans.h"
#include "indexer/query/volume.h"
#include "proto/wire/segment_inline.h"
#include "proto/wire/source.h"

/*
 * Reads one sorted run from front to back, a segment at a time and each only when its turn comes. It is a source
 * of the query's merge (pr_merge_top). While a segment waits, the source's packet is the key of the segment's
 * first packet, from the catalog, without data: so a query over many runs holds the buffers only of those that
 * overlap at one moment. When that key comes first, the query skips the segment, or opens it.
 */
enum pri_run_state {
	PRI_RUN_WAITING, /* entry waits; or its segment is done with: the next call of the source goes on */
	PRI_RUN_MUST_READ, /* entry waits, and the index does not exclude it */
	PRI_RUN_OPENED, /* packet is the segment's first; the merge has yet to ask for it */
	PRI_RUN_OPEN,
	PRI_RUN_DONE,
};

/* What the runs of a query share. */
struct pri_run_context {
	struct pri_volume *volume;
	const struct pri_bpf_set *programs;
	struct pri_prune *prune;
	Packrack__End *stats;
	uint64_t deleted_segments; /* while the query ran */
	struct pri_read_buffer spare;
	bool ahead; /* other threads may read and filter segments ahead (scans.h) */
	struct pri_scans *scans;
	unsigned window; /* segments that may be ahead */
};

/* Of an epoch series: the time range, and the seqs that lie just outside of it; seq 0: none. */
struct pri_run_bounds {
	int64_t since, until;
	struct pri_seq_time lower, upper;
	struct pri_seq_time evicted; /* overwritten while the query ran */
};

struct pri_run_reader {
	struct pr_source source;
	struct pri_run_context *context;
	const struct pri_epoch_series *series;
	const struct pri_sorted_run *run;
	struct pri_run_bounds *bounds;
	size_t index; /* of the series in the query */
	uint64_t next, end; /* numbers of entries; end: as it was when the query was made */
	enum pri_run_state state;
	struct pri_segment_entry entry;
	/* the open segment */
	struct pr_segment_reader reader;
	struct pr_packet packet;
	struct pri_read_buffer buffer;
	const uint8_t *body; /* in buffer */
	bool not_whole; /* not to be given as a whole */
	bool skipping; /* packets that do not match are passed over */
	struct pri_matches matches;
	uint32_t skips; /* so many of matches are done */
	struct pri_run_ahead *ahead;
};

/* Stands before the first segment that can matter. bounds and context must outlive the reader. */
void pri_run_reader_start(struct pri_run_reader *r, struct pri_run_context *context,
	const struct pri_epoch_series *series, const struct pri_sorted_run *run,
	struct pri_run_bounds *bounds);
void pri_run_reader_free(struct pri_run_reader *r);

/* Does the index exclude the segment that waits? As pri_prune_ask; found out ahead, maybe. */
enum pri_prune_verdict pri_run_reader_ask(
	struct pri_run_reader *r, struct pri_held_walk *held, bool *did_io);
/*
 * Reads the segment that waits, and lets other threads begin with those behind it. A segment that cannot be read is
 * counted. If at most skip_max of its packets match (-1: do not skip) and that is known already, the source gives only those from
 * now on: returns true, and the caller accounts for the others.
 */
bool pri_run_reader_open(struct pri_run_reader *r, int64_t skip_max);

/* What is known of whether the open segment's packet matches. */
enum pri_match { PRI_MATCH_UNKNOWN, PRI_MATCH_NO, PRI_MATCH_YES };
enum pri_match pri_run_reader_match(const struct pri_run_reader *r);

/* Nothing of it was given, and by its header it lies wholly within the time range. */
bool pri_run_reader_untouched(const struct pri_run_reader *r);
/*
 * Walks the open segment without moving: true if it is in order and in range, packet by packet. *walk: the same walk,
 * at its beginning. *last: the name of the last packet.
 */
bool pri_run_reader_verify(const struct pri_run_reader *r, struct pr_segment_walk *walk,
	struct pr_packet *last);
/* A segment lies wholly within the time range, by otime and by packet time. */
bool pri_entry_inside(const struct pri_segment_entry *e, const struct pri_run_bounds *b);

#endif
