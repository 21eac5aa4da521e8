/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRL_LOGGER_PATIENCE_H
#define PRL_LOGGER_PATIENCE_H

#include <stdint.h>

#include "proto/base/clock.h"

/*
 * The clock by which others are waited for (ns, monotonic): it leaves out the time in which its thread did
 * not look, be it for the disk or for want of a CPU. What came meanwhile lies unread in the buffer, and
 * must not be given up for not having come. Zeroed is ready. One thread.
 */
struct prl_patience {
	int64_t looked, left_out;
};

/* A longer time between two looks is a stall; a few ticks of 20 ms. */
#define PRL_PATIENCE_LOOK (60 * PR_NS_PER_MS)

/* mono: pr_now_mono(). To be asked right before the buffer is looked at. */
static inline int64_t
prl_patience_now(struct prl_patience *p, int64_t mono)
{
	int64_t since = mono - p->looked;

	if (p->looked && since > PRL_PATIENCE_LOOK)
		p->left_out += since - PRL_PATIENCE_LOOK;
	p->looked = mono;
	return mono - p->left_out;
}

#endif
