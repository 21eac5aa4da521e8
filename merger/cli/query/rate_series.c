/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/query/rate_series.h"

#include "indexer/query/tally_key.h"
#include "proto/base/clock.h"

void
rate_step(const struct pr_tally_item *item, int64_t step, struct rate_stretch *out)
{
	int64_t interval = pri_tally_key_interval_of(item), end;

	*out = (struct rate_stretch){.steps = 1,
		.packets = item->packets,
		.bytes = item->bytes,
		.peak_packets = item->packets,
		.peak_bytes = item->bytes};
	if (__builtin_mul_overflow(interval, step, &out->first))
		out->first = interval < 0 ? PR_TIME_MIN : PR_TIME_MAX;
	if (__builtin_mul_overflow(interval, step, &end) ||
		__builtin_add_overflow(end, step - 1, &end))
		end = interval < 0 ? out->first + step - 1 : PR_TIME_MAX;
	out->last = end;
	out->peak_first = out->first;
}

static void
extend(struct rate_stretch *s, const struct rate_stretch *step, bool by_packets)
{
	s->last = step->last;
	s->steps++;
	s->packets += step->packets;
	s->bytes += step->bytes;
	if (by_packets ? step->packets > s->peak_packets : step->bytes > s->peak_bytes)
		s->peak_first = step->first;
	if (step->packets > s->peak_packets)
		s->peak_packets = step->packets;
	if (step->bytes > s->peak_bytes)
		s->peak_bytes = step->bytes;
}

/* A step that is busy, at or behind w->at; w->at then stands behind it. */
static bool
next_busy(struct rate_walk *w, struct rate_stretch *out)
{
	size_t count;
	const struct pr_tally_item *items = pr_tally_items(w->tally, &count);

	while (w->at < count) {
		rate_step(&items[w->at++], w->step, out);
		if (rate_limit_exceeded(w->limit, out->packets, out->bytes, w->step))
			return true;
	}
	return false;
}

static bool
next_stretch(struct rate_walk *w, struct rate_stretch *out)
{
	struct rate_stretch step;

	if (!next_busy(w, out))
		return false;
	for (size_t before = w->at; next_busy(w, &step); before = w->at) {
		if (out->last == PR_TIME_MAX || step.first != out->last + 1) {
			w->at = before; /* quiet steps between cost a second look, no more */
			break;
		}
		extend(out, &step, w->limit->packets);
	}
	return true;
}

bool
rate_next(struct rate_walk *w, struct rate_stretch *out)
{
	while (next_stretch(w, out)) {
		unsigned __int128 lasts = (unsigned __int128)out->steps * (uint64_t)w->step;

		if (lasts >= (unsigned __int128)w->at_least)
			return true;
	}
	return false;
}
