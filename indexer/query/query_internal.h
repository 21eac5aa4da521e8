/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_QUERY_INTERNAL_H
#define PRI_INDEXER_QUERY_INTERNAL_H

#include "indexer/query/run_reader.h"
#include "indexer/filter/plan.h"
#include "indexer/query/prune.h"
#include "indexer/query/query.h"
#include "proto/base/heap.h"

/* Between query.c, which runs it, and query_report.c, which says what came of it. */

/* One run within a query. */
struct pri_line {
	struct pri_epoch_series *run;
	struct pri_run_bounds bounds;
	struct pri_range_builder *stretch; /* NULL until a packet is held */
	bool passed; /* a packet at or behind `since` has come by */
	bool lower_given, upper_given;
	uint64_t counted; /* the tally has all packets of segments below this sequence */
};

struct pri_query {
	struct pri_volume *view;
	struct pri_query_spec spec;
	char *link;
	struct pri_line *lines;
	struct pri_run_reader *readers;
	size_t line_count, reader_count;
	struct pr_heap heap; /* of readers that are not at their end */
	struct pri_run_reader
		*spent; /* its segment is done, but its last packet may be in use */
	struct pri_read_buffer spare;
	struct pri_range_list held;
	bool any_last;
	uint64_t last_seq, last_epoch;
	uint16_t last_link;
	struct pri_plans plans;
	struct pri_prune *prune;
	struct pri_plans core_plans; /* with relations: where nothing can be related */
	struct pri_prune *core_prune;
	struct pri_scans *scans; /* what other threads do ahead; or NULL */
	unsigned window; /* of them, so many at a time */
	Packrack__End figures;
	struct pri_run_stats lane_figures;
};

/*
 * query_skip.c: may the segment that waits be left out? 1: it was, its seqs are accounted for and the
 * reader stands at the next (heap and all); 0: it must be read; -1: no memory. *worked: the index
 * was read for it.
 */
int pri_query_skip(struct pri_query *query, struct pri_run_reader *reader, bool *worked,
	struct pr_error *err);
/* What another thread has found of a packet. */
enum pri_judged { PRI_JUDGED_NOT, PRI_JUDGED_NO, PRI_JUDGED_YES };
/* query_match.c: is it asked for? Sets the flags of a packet that is by relation, and counts. */
bool pri_query_matches(struct pri_query *query, const struct pri_line *line,
	enum pri_judged judged, struct pr_packet *packet);
/* Into the tally, if there is one, unless the index has counted the segment of this sequence already. */
int pri_query_tally(struct pri_query *query, const struct pri_line *line, uint64_t sequence,
	const struct pr_packet *packet, struct pr_error *err);
/*
 * query_count.c: can the index count the segment that waits, for the tally? As pri_query_skip.
 */
int pri_query_count(struct pri_query *query, struct pri_run_reader *reader, bool *worked,
	struct pr_error *err);
/* query_skip.c: nothing else of its link comes before its end, and it lies within the time range. */
bool pri_query_alone(const struct pri_query *query, const struct pri_run_reader *reader);
/* query_skip.c: its seqs are held, and on to the next. */
int pri_query_pass(struct pri_query *query, struct pri_run_reader *reader,
	struct pri_held_walk *held, struct pr_error *err);
/* query_skip.c: all seqs of the reader's segment, which has no holes, are held. */
int pri_query_hold_all(
	struct pri_query *query, const struct pri_run_reader *reader, struct pr_error *err);
/* query.c: line->stretch is there */
int pri_query_stretch(struct pri_line *line, struct pr_error *err);
/* query.c: a packet that was passed is held, or is the nearest outside of the time range. -1: no memory. */
int pri_query_account(struct pri_query *query, struct pri_line *line,
	const struct pr_packet *p, struct pr_error *err);
/* query.c: is it the packet that came last, from another lane? Then it is the last one. */
bool pri_query_same_as_last(struct pri_query *query, const struct pr_packet *p);
/* query.c: lets go of the segment of which the last packet was given */
void pri_query_release(struct pri_query *query);
/* query.c: after a step of the reader on top of the heap */
void pri_query_move_on(struct pri_query *query, bool there_is_more);

#endif
