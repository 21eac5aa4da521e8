/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_QUERY_AHEAD_H
#define PRI_INDEXER_QUERY_AHEAD_H

#include "indexer/query/query_internal.h"

/*
 * Looking ahead in a lane: which of the next segments must be read is decided before their turn comes, so
 * that other threads can read and filter them (scans.h). Each is asked of the index once. What is
 * decided changes nothing of what the query does when it gets there, but who reads.
 */
struct pri_run_ahead;
void pri_run_ahead_free(struct pri_run_ahead **ahead);

/* Is it decided already whether the segment that waits is read? held: see pri_prune_ask. */
bool pri_query_decided(struct pri_run_reader *r, enum pri_prune_verdict *verdict,
	struct pri_held_walk *held);
/*
 * Opens the segment that waits (see pri_run_reader_open), and has those behind it begun. 1; 0: the lane is at
 * its end; -1: no memory.
 */
int pri_query_open(struct pri_query *query, struct pri_run_reader *r, struct pr_error *err);

#endif
