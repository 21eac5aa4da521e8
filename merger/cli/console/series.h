/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_CONSOLE_SERIES_H
#define PR_CONSOLE_SERIES_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/rpc/packrack.pb-c.h"

/*
 * Counters of one thing as they came in, for CLog's three columns (section 3.4, figure 6): how
 * much since the last time, how much a second over the last ten times, how much in all. And one of
 * them as a line of a minute. Counters go by the names that the messages give them.
 */
#define SERIES_VALUES 64
#define SERIES_WINDOW 11
#define SERIES_SPARK 60

/* The names that all things of one kind share; grows as names turn up. */
struct series_names {
	unsigned count;
	char name[SERIES_VALUES][48];
};

struct series {
	unsigned
		count; /* samples taken since the counters began; the last SERIES_WINDOW are kept */
	int64_t times[SERIES_WINDOW];
	uint64_t values[SERIES_WINDOW][SERIES_VALUES];
	uint64_t spark[SERIES_SPARK]; /* the oldest first */
	unsigned spark_count;
};

/*
 * Takes a sample at the sender's time (ns). One of an earlier or the same time is left out. `lead`
 * is the counter of the line; when it has fallen, its program began anew, and so does the series.
 */
void series_push(struct series *s, struct series_names *names, int64_t time,
	Packrack__Value *const *values, size_t count, const char *lead);

uint64_t series_now(const struct series *s, const struct series_names *n, const char *name);
bool series_has(const struct series *s, const struct series_names *n, const char *name);
/* Since the last sample; 0 with one only, or when it has fallen. */
uint64_t series_instant(
	const struct series *s, const struct series_names *n, const char *name);
/* A second, over the window. */
double series_rate(const struct series *s, const struct series_names *n, const char *name);

#endif
