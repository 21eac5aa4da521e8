/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/clock.h"

/* Where the timestamps of a link come from, and how far the clock behind them can be trusted. Pure: any thread. */

enum pr_timestamp_source {
	PR_TIMESTAMP_HOST, /* the kernel, as it takes the frame from the card */
	PR_TIMESTAMP_ADAPTER, /* the card, in the machine's time */
	PR_TIMESTAMP_ADAPTER_UNSYNCED, /* the card, by a clock of its own */
	PR_TIMESTAMP_TRAILER, /* a tap aggregator, behind each frame */
	PR_TIMESTAMP_SOURCES
};
extern const char *const pr_timestamp_names[]; /* "host", ...; NULL at the end */

enum pr_clock_state {
	PR_CLOCK_UNKNOWN,
	PR_CLOCK_SYNCHRONIZED, /* the kernel says so: chrony, ntpd, ptp4l with phc2sys */
	PR_CLOCK_UNSYNCHRONIZED,
	PR_CLOCK_SLEWED, /* it is being corrected, faster than PR_CLOCK_SLEW_PPM */
	PR_CLOCK_STATES
};
extern const char *const pr_clock_names[]; /* "unknown", ...; NULL at the end */

struct pr_clock {
	uint8_t timestamps; /* enum pr_timestamp_source */
	uint8_t state; /* enum pr_clock_state: of the machine's clock */
	uint32_t steps; /* how often it was set, since the capture began */
	int64_t stepped; /* the last time: ns UTC, by the clock before; 0: never */
	int64_t step; /* and by how many ns */
};
/* Is there something to tell of an interface of this speed (0 unknown), and are all values such that there are? */
bool pr_port_valid(uint64_t speed, const struct pr_clock *c);
/* False: all is as in a link that an older version recorded. */
bool pr_clock_known(const struct pr_clock *c);
bool pr_clock_equal(const struct pr_clock *a, const struct pr_clock *b);

/*
 * Watches a clock by three others: real (ns UTC), mono (the same without steps), raw (without corrections).
 * Zeroed at first. A step of less than PR_CLOCK_STEP_NS is within what reading takes.
 */
#define PR_CLOCK_STEP_NS 200000
#define PR_CLOCK_SLEW_PPM 100 /* crystals are off by up to some 50 */
struct pr_clock_watch {
	int64_t real, mono; /* at the last look */
	int64_t slew_mono, slew_raw; /* at the last look at the rate */
	bool begun;
};
/* True if the clock was set. */
bool pr_clock_look(
	struct pr_clock_watch *w, const struct pr_clock_reading *now, struct pr_clock *c);

/*
 * The time in the trailer of a tap aggregator, of 16 bytes before the frame check sequence, if that was delivered:
 * Arista 7130 and Metamako, or Cisco Nexus 3550 and Exablaze (layouts: Wireshark's dissectors of these names).
 * A trailer has no mark to know it by: its time must be within PR_TRAILER_SLACK_NS of `near`. False: there is none.
 */
#define PR_TRAILER_SLACK_NS INT64_C(5000000000)
bool pr_trailer_time(const uint8_t *frame, size_t len, int64_t near, int64_t *time);
