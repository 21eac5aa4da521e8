/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRL_LOGGER_MATCH_RECENT_H
#define PRL_LOGGER_MATCH_RECENT_H

#include "logger/match_private.h"

/*
 * What was matched or lost of late, by fingerprint: a table of RECENT_SETS sets of RECENT_WAYS. Bounded: what
 * is older than some RECENT_FRAMES frames is forgotten.
 */

static inline size_t
match_recent_set(uint32_t fingerprint)
{
	return ((fingerprint ^ fingerprint >> 16) & (RECENT_SETS - 1)) * RECENT_WAYS;
}

/* The one alike, or else the oldest, makes room. */
static inline void
match_recent_note(struct recent *table, uint32_t fingerprint, uint64_t arrival)
{
	struct recent *r = &table[match_recent_set(fingerprint)];
	uint32_t now = (uint32_t)arrival, oldest = 0;

	for (uint32_t i = 0; i < RECENT_WAYS; i++) {
		if (r[i].fingerprint == fingerprint) {
			oldest = i;
			break;
		}
		if ((int32_t)(r[i].arrival - r[oldest].arrival) < 0)
			oldest = i;
	}
	r[oldest] = (struct recent){fingerprint, now};
}

static inline bool
match_recent_has(const struct recent *table, uint32_t fingerprint, uint64_t arrival)
{
	const struct recent *r = &table[match_recent_set(fingerprint)];

	for (uint32_t i = 0; i < RECENT_WAYS; i++) {
		/* a frame that overtook is "later" by a little */
		if (r[i].fingerprint == fingerprint &&
			(uint32_t)arrival - r[i].arrival + RECENT_FRAMES <
				2 * RECENT_FRAMES)
			return true;
	}
	return false;
}

#endif
