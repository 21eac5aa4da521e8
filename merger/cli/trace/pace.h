/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "proto/base/error.h"

/* Computes when each packet of a replay is due. No I/O; times are arguments, in ns. */
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
	/* packet times; latest: running maximum, so a time that goes back delays nothing */
	int64_t first, latest;
};

/* "recorded", "x2", "x0.5", "5kpps", "100Mbit" (or Mbps), "max". */
int pace_parse(const char *text, struct pace *out, struct pr_error *err);

/*
 * When the packet is due, in ns after the first one; PACE_MAX: 0. Call once for each
 * packet, in order.
 */
int64_t pace_due(struct pace *p, int64_t time, uint32_t bytes);
