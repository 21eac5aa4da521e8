/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_CLI_RATE_SERIES_H
#define PR_CLI_RATE_SERIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "merger/cli/query/rate_limit.h"
#include "proto/rpc/tally.h"

/*
 * What was counted over time, and when it was busy. A step is the time from a multiple of its length
 * since 1970 on; first and last are its first and last ns, as --since and --until take them. Pure.
 */
struct rate_stretch {
	int64_t first, last;
	uint64_t steps, packets, bytes;
	uint64_t peak_packets, peak_bytes; /* of one step */
	int64_t peak_first; /* of the step with most (bytes, or packets if the limit is in these) */
};

/* One interval of a tally over time; the ends are kept within int64_t. */
void rate_step(const struct pr_tally_item *item, int64_t step, struct rate_stretch *out);

/* Walks over a sorted tally; zeroed but for these. */
struct rate_walk {
	const struct pr_tally *tally;
	int64_t step, at_least; /* ns that a stretch must last */
	const struct rate_limit *limit;
	size_t at;
};
/* The next stretch of steps, each above the limit, without a gap. false: there is none. */
bool rate_next(struct rate_walk *w, struct rate_stretch *out);

#endif
