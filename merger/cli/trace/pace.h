/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_CLI_TRACE_PACE_H
#define PR_CLI_TRACE_PACE_H

#include <stdint.h>

#include "proto/base/error.h"

/* When each packet of a replay is due. A pure core: takes times, knows no clock. ns. */
enum pace_kind {
	PACE_RECORDED, /* as the packets came, times scale */
	PACE_PPS,
	PACE_BPS, /* of the frames' bytes */
	PACE_MAX
};

struct pace {
	enum pace_kind kind;
	double scale; /* RECORDED: 2 is twice as fast */
	double rate; /* PPS, BPS */
	/* as it goes on */
	uint64_t packets, bytes;
	int64_t first, latest; /* packet times; a stamp that steps back holds nothing up */
};

/* "recorded", "x2", "x0.5", "5kpps", "100Mbit" (or Mbps), "max". */
int pace_parse(const char *text, struct pace *out, struct pr_error *err);

/* ns after the first packet's; PACE_MAX: 0. Call once for each packet, in order. */
int64_t pace_due(struct pace *p, int64_t time, uint32_t bytes);

#endif
