/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_CLI_RATE_LIMIT_H
#define PR_CLI_RATE_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/error.h"

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

#endif
