/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRM_MERGER_DUTY_H
#define PRM_MERGER_DUTY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Which merger is index node of which time (Hyperion, section 5.3): time is cut into intervals, and each
 * falls to the living merger whose name scores highest with it (rendezvous hashing), so that the loss of
 * one moves only its intervals. Mergers that see others alive than their neighbours do may both take
 * an interval, or neither: that costs traffic or questions, never an answer. Pure.
 */
#define PRM_DUTY_INTERVAL_NS INT64_C(60000000000)
#define PRM_DUTY_MERGERS_MAX 64

struct prm_duty_merger {
	const char *name; /* as nodes and mergers call it; borrowed */
	bool alive;
};

struct prm_duty {
	struct prm_duty_merger mergers[PRM_DUTY_MERGERS_MAX];
	size_t count;
	size_t self; /* always alive */
};

int64_t prm_duty_interval(int64_t time); /* its number */
/* Whose the time is. A summary is its last packet's. */
size_t prm_duty_of(const struct prm_duty *duty, int64_t time);
static inline bool
prm_duty_mine(const struct prm_duty *duty, int64_t time)
{
	return duty->count < 2 || prm_duty_of(duty, time) == duty->self;
}

#endif
