/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "indexer/stages/stage_run.h"
#include "merger/cli/query/query_args.h"

/*
 * A link as it is recorded: the packets of a node's volume from now on, mostly from the logger's shared memory, which it does not
 * notice. A stage that falls behind by more than `behind` segments of a stream passes over those, and their packets are
 * counted. 128 of 256 KiB are what a logger has in memory.
 */
struct live_figures {
	uint64_t behind; /* in */
	uint64_t packets, skipped, segments; /* given; passed over; read */
};
/* Until q->limit packets, or until it is interrupted. Every packet that q->filter takes goes into run. -1: err. */
int live_run(const char *volume, const struct query_args *q, struct pri_stage_run *run,
	struct live_figures *figures, struct pr_error *err);
