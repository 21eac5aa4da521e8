/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/error.h"

/* All times are int64_t nanoseconds since 1970-01-01 UTC; they may be negative. */
#define PR_NS_PER_S INT64_C(1000000000)
#define PR_NS_PER_MS INT64_C(1000000)
#define PR_TIME_MIN INT64_MIN
#define PR_TIME_MAX INT64_MAX

/*
 * a - b, and the nearest number that there is if it overflows: times of packets may be any,
 * and those of other machines too.
 */
static inline int64_t
pr_time_minus(int64_t a, int64_t b)
{
	int64_t d;

	return __builtin_sub_overflow(a, b, &d) ? (b < 0 ? PR_TIME_MAX : PR_TIME_MIN) : d;
}

/* Makes the times [*min, *max] include those. */
static inline void
pr_time_widen(int64_t *min, int64_t *max, int64_t from, int64_t to)
{
	*min = from < *min ? from : *min;
	*max = to > *max ? to : *max;
}

int64_t pr_now_real(void); /* CLOCK_REALTIME */
int64_t pr_now_mono(void); /* CLOCK_MONOTONIC, for deadlines */
int64_t pr_tai_ahead(void); /* ns, in whole seconds, by which CLOCK_TAI is ahead of UTC */

/* At one moment: the time, the same without its steps, the same without corrections; and what adjtimex(2) says of it. */
struct pr_clock_reading {
	int64_t real, mono, raw;
	bool known, synchronized;
};
#define PR_CLOCK_READING_NS 50000 /* not exact to more than this */
/* False: the thread was held up in between; try again. */
bool pr_clock_read(struct pr_clock_reading *out);

/*
 * "2026-11-21T00:40:00.123456789Z" (or +hh:mm, or a space for T), "09:30" or "09:30:15" (of today),
 * "today", "yesterday", "tomorrow" (local midnight) and "yesterday 10:30", all local (TZ) without a zone;
 * "@1700000000.5", "90s ago", "5 min ago", "5m" or "-5m" (before now), "+1h", "now". now is passed in so
 * that tests are exact.
 */
int pr_time_parse(const char *text, int64_t now, int64_t *out, struct pr_error *err);

/* The same for help and error texts. */
#define PR_TIME_FORMS                                                                      \
	"2026-11-21T09:30:00Z, \"2026-11-21 09:30\", 09:30, yesterday, \"yesterday "       \
	"10:30\", 5m, \"5 min ago\", -3h, +1h, @1700000000.5, now (local time, by TZ, if " \
	"without a zone)"

/* RFC 3339 in UTC with nine digits; buf of at least PR_TIME_TEXT bytes. Returns buf. */
#define PR_TIME_TEXT 40
char *pr_time_format(int64_t t, char *buf, size_t size);
/* For people: local time (TZ) with its zone, "+01:00" or "Z". */
char *pr_time_local(int64_t t, char *buf, size_t size);

/* Seconds and nanoseconds, saturating at the ends of int64_t. nsec may exceed a second. */
int64_t pr_time_make(int64_t sec, int64_t nsec);

/*
 * The same for a packet's stamp as libpcap gives it: it reads the 32 bits of a pcap file's seconds
 * with a sign, while the format has none (2038 to 2106).
 */
int64_t pr_time_from_pcap(int64_t sec, int64_t nsec);
