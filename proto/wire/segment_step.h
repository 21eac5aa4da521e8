/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_WIRE_SEGMENT_STEP_H
#define PR_WIRE_SEGMENT_STEP_H

#include <stdatomic.h>

#include "proto/wire/segment.h"

/*
 * pr_segment_next in place, for who goes through each packet of a link's segment (not MIXED) and wants little of
 * it. Both find the same segments damaged.
 */
struct pr_segment_step {
	int64_t time;
	uint32_t seq; /* since the first */
	uint32_t caplen, len;
	const uint8_t *data; /* within the body */
};

struct pr_segment_walk {
	const uint8_t *at, *end;
	uint32_t left;
	uint64_t least; /* that the next seq may be */
	uint64_t most;
};

static inline void
pr_segment_walk_begin(struct pr_segment_walk *w, const struct pr_segment_reader *r)
{
	*w = (struct pr_segment_walk){.at = r->c.at,
		.end = r->c.end,
		.left = r->header.count,
		.most = UINT64_MAX - r->header.first_seq};
}

/* 1, 0 at the end, -1 damaged: then it is over. */
static inline int
pr_segment_walk_next(struct pr_segment_walk *w, struct pr_segment_step *out)
{
	const size_t room = (size_t)(w->end - w->at);
	uint64_t second, third;
	size_t head, need;

	if (w->left == 0)
		return room ? -1 : 0;
	if (room < PR_SEGMENT_PACKET)
		return -1;
	/* once: what lies in shared memory may be another length when it is looked at again */
	out->time = (int64_t)pr_get_le64(w->at);
	second = pr_get_le64(w->at + 8);
	third = pr_get_le64(w->at + 16);
	atomic_signal_fence(memory_order_seq_cst);
	out->seq = (uint32_t)second;
	out->caplen = (uint32_t)(second >> 32);
	out->len = (uint32_t)third;
	head = PR_SEGMENT_PACKET + (third >> 47 & 1) * PR_SEGMENT_OTIME_LEN;
	need = head + (((size_t)out->caplen + 7) & ~(size_t)7);
	/* the first seq is 0; bytes reserved are of a version to come, or damaged */
	if (room < need || third >> 48 || out->seq < w->least || out->seq > w->most ||
		(w->least == 0 && out->seq))
		return -1;
	w->least = (uint64_t)out->seq + 1;
	out->data = w->at + head;
	w->at += need;
	w->left--;
	return 1;
}

#endif
