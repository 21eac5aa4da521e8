/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_INDEXER_QUERY_AHEAD_H
#define PR_INDEXER_QUERY_AHEAD_H

#include "indexer/query_internal.h"

/*
 * Looking ahead in a lane: which of the next segments must be read is decided before their turn comes, so
 * that other threads can read and filter them (scans.h). Each is asked of the index once. What is
 * decided changes nothing of what the query does when it gets there, but who reads.
 */
struct pr_lane_ahead;
void pr_lane_ahead_free(struct pr_lane_ahead **ahead);

/* Is it decided already whether the segment that waits is read? held: see pr_prune_ask. */
bool pr_query_decided(struct pr_lane_reader *r, enum pr_prune_verdict *verdict,
	struct pr_held_walk *held);
/*
 * Opens the segment that waits (see pr_lane_reader_open), and has those behind it begun. 1; 0: the lane is at
 * its end; -1: no memory.
 */
int pr_query_open(struct pr_query *query, struct pr_lane_reader *r, struct pr_error *err);

#endif
