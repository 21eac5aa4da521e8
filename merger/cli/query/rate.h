/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_CLI_QUERY_RATE_H
#define PR_CLI_QUERY_RATE_H

#include "merger/cli/query/ask.h"

/*
 * Asks for an answer that is counted (query_args.tally), and prints what came, in sink.tally: print gets
 * NULL for people, else where the fields go; then what the answer says of itself. The command's exit status.
 */
int tally_answer(const struct query_args *a,
	void (*print)(void *arg, const struct sink *sink, struct render *r), void *arg,
	struct pr_error *err);

/* "100Mbit", "5kpps": how busy a link is; and what was counted in a time held against it, exactly. Pure. */
struct rate_limit {
	bool packets; /* else bits */
	uint64_t per_second;
};

/*
 * A number, a unit with k, M, G or T before it: bit, bps, bit/s (bits), B, B/s (bytes), pps, p/s
 * (packets). -1 err.
 */
int rate_limit_parse(const char *text, struct rate_limit *out, struct pr_error *err);

/* Were these more than the limit allows in so many ns? */
bool rate_limit_exceeded(
	const struct rate_limit *limit, uint64_t packets, uint64_t bytes, int64_t ns);

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
