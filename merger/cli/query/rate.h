/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "merger/cli/query/ask.h"

/*
 * Runs a query that counts (query_args.tally), and prints the result, which is in
 * sink.tally. print gets r NULL to print for people, otherwise the renderer for fields.
 * Then prints the completeness report. Returns the command's exit status.
 */
int tally_answer(const struct query_args *a,
	void (*print)(void *arg, const struct sink *sink, struct render *r), void *arg,
	struct pr_error *err);

/*
 * A limit such as "100Mbit" or "5kpps". A count over a time is compared with it exactly. No
 * I/O.
 */
struct rate_limit {
	bool packets; /* else bits */
	uint64_t per_second;
};

/*
 * Parses a number and a unit, which may have k, M, G or T before it: bit, bps, bit/s
 * (bits), B, B/s (bytes), pps, p/s (packets). -1: err.
 */
int rate_limit_parse(const char *text, struct rate_limit *out, struct pr_error *err);

/* True if these are more than the limit allows in `ns`. */
bool rate_limit_exceeded(
	const struct rate_limit *limit, uint64_t packets, uint64_t bytes, int64_t ns);

/*
 * A count over time, of a run of consecutive steps. A step begins at a multiple of its
 * length since 1970; first and last are its first and last ns, as --since and --until take
 * them. No I/O.
 */
struct rate_stretch {
	int64_t first, last;
	uint64_t steps, packets, bytes;
	uint64_t peak_packets, peak_bytes; /* of one step */
	/* first ns of the busiest step (by packets if the limit is in packets) */
	int64_t peak_first;
};

/* Walks over a sorted tally. Set these members, and zero `at`. */
struct rate_walk {
	const struct pr_tally *tally;
	int64_t step, at_least; /* ns that a stretch must last */
	const struct rate_limit *limit;
	size_t at;
};

/* The next stretch of steps, each above the limit, without a gap. false: there is none. */
bool rate_next(struct rate_walk *w, struct rate_stretch *out);
