/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/wire/timestamps.h"

#include "proto/base/cursor.h"

const char *const pr_timestamp_names[] = {
	"host", "adapter", "adapter-unsynced", "trailer", NULL};
const char *const pr_clock_names[] = {
	"unknown", "synchronized", "unsynchronized", "slewed", NULL};

bool
pr_clock_known(const struct pr_clock *c)
{
	return c->timestamps || c->state || c->steps;
}

bool
pr_port_valid(uint64_t speed, const struct pr_clock *c)
{
	return c->timestamps < PR_TIMESTAMP_SOURCES && c->state < PR_CLOCK_STATES &&
	       (speed || pr_clock_known(c));
}

bool
pr_clock_equal(const struct pr_clock *a, const struct pr_clock *b)
{
	return a->timestamps == b->timestamps && a->state == b->state &&
	       a->steps == b->steps;
}

/* ---- the machine's clock ---- */

#define SLEW_WINDOW_NS                                                                     \
	PR_NS_PER_S /* reading takes some 100 ns, which is nothing in a second */

static bool
slewed(struct pr_clock_watch *w, const struct pr_clock_reading *now, bool before)
{
	int64_t mono = now->mono - w->slew_mono, raw = now->raw - w->slew_raw;

	if (raw < SLEW_WINDOW_NS)
		return before;
	w->slew_mono = now->mono;
	w->slew_raw = now->raw;
	int64_t off = mono > raw ? mono - raw : raw - mono;
	return off > raw / 1000000 * PR_CLOCK_SLEW_PPM;
}

bool
pr_clock_look(
	struct pr_clock_watch *w, const struct pr_clock_reading *now, struct pr_clock *c)
{
	uint32_t steps = c->steps;
	int64_t passed = now->mono - w->mono, step = now->real - w->real - passed;
	bool slew = w->begun && slewed(w, now, c->state == PR_CLOCK_SLEWED);

	if (!w->begun) {
		w->slew_mono = now->mono;
		w->slew_raw = now->raw;
	} else if (step > PR_CLOCK_STEP_NS || step < -PR_CLOCK_STEP_NS) {
		c->steps++;
		c->stepped = w->real + passed;
		c->step = step;
	}
	c->state = slew                ? PR_CLOCK_SLEWED
		   : !now->known       ? PR_CLOCK_UNKNOWN
		   : now->synchronized ? PR_CLOCK_SYNCHRONIZED
				       : PR_CLOCK_UNSYNCHRONIZED;
	PR_COPY(w, now, real, mono);
	w->begun = true;
	return c->steps != steps;
}

/* ---- trailers ---- */

enum { TRAILER = 16, FCS = 4 };

static bool
is_near(int64_t time, int64_t near)
{
	int64_t off = pr_time_minus(time, near);

	return off < PR_TRAILER_SLACK_NS && off > -PR_TRAILER_SLACK_NS;
}

bool
pr_trailer_time(const uint8_t *frame, size_t len, int64_t near, int64_t *time)
{
	for (size_t fcs = 0; fcs <= FCS && len >= 14 + TRAILER + fcs; fcs += FCS) {
		/* both begin with the frame's first check sequence */
		const uint8_t *at = frame + len - fcs - TRAILER;
		/* Metamako: seconds, nanoseconds, flags, device (2), port */
		uint32_t ns = pr_get_be32(at + 8);

		*time = pr_time_make(pr_get_be32(at + 4), ns);
		if (ns < PR_NS_PER_S && is_near(*time, near))
			return true;
		/* Exablaze: device, port, seconds, 40 bits of a second's fraction, a byte of no meaning */
		uint64_t high = pr_get_be32(at + 10) >> 12;
		uint64_t low =
			(pr_get_be32(at + 10) & 0xfff) << 8 | at[14]; /* 20 bits each */
		uint64_t second = PR_NS_PER_S;

		*time = pr_time_make(pr_get_be32(at + 6),
			(int64_t)((high * second + (low * second >> 20)) >> 20));
		if (is_near(*time, near))
			return true;
	}
	return false;
}
