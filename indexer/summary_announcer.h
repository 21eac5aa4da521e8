/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "indexer/index_follower.h"
#include "proto/rpc/rpc.h"

/*
 * Reports a node's summaries (level-3 records in its volume) to mergers: which there are,
 * and which data has none. Each merger requests those that it is responsible for. A node
 * keeps no summary in memory, only its location: 144 bytes for each, which covers up to 10
 * s of traffic. One thread, the volume's.
 */

/* What was sent to one merger. Zero it for a new connection. */
struct pri_announced {
	uint64_t boot, sent; /* summaries numbered below sent */
	int64_t said, settled_until; /* said: monotonic; settled_until: as sent */
	uint64_t open; /* hash of the extents that were reported without summary */
	uint64_t bytes; /* sent, over all: for the node's own figures */
};

/* volume and feed must outlive it. cluster is borrowed; NULL: none. NULL: no memory. */
struct pri_summary_announcer *pri_announcer_create(
	struct pri_volume *volume, struct pri_index_follower *feed, const char *cluster);
void pri_announcer_destroy(struct pri_summary_announcer **offer);

/* Takes new summaries of the volume into the list. */
void pri_announcer_tick(struct pri_summary_announcer *offer);
/* Sends a report if there is news. */
void pri_announcer_tell(struct pri_summary_announcer *offer, struct pri_announced *line,
	struct pr_rpc *rpc);
/* Sends the summaries that a merger requests. */
void pri_announcer_want(struct pri_summary_announcer *offer, struct pri_announced *line,
	struct pr_rpc *rpc, const Packrack__SummaryWant *want);

/* Fills in the fields of the span; the caller sets number, check and bytes. */
void pri_announcer_info(Packrack__SummaryInfo *out, const struct pr_summary_span *s);
