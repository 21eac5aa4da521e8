/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <event2/event.h>

#include "proto/base/clock.h"
#include "proto/base/loop.h"

/* One event of the loop, or 20 ms. */
static inline void
loop_once(struct pr_loop *loop)
{
	const struct timeval slice = {0, 20000};

	event_base_loopexit(pr_loop_base(loop), &slice);
	event_base_loop(pr_loop_base(loop), EVLOOP_ONCE);
}

/* Runs the loop until the value is at least so much, or for so many seconds; returns the value. */
static inline unsigned
loop_until(struct pr_loop *loop, const unsigned *value, unsigned want, int64_t seconds)
{
	int64_t deadline = pr_now_mono() + seconds * PR_NS_PER_S;

	while (*value < want && pr_now_mono() < deadline)
		loop_once(loop);
	return *value;
}
