/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>

#include "proto/wire/segment.h"

/* Inlined copies of the calls in segment.h, for code that adds or reads each packet. */

/* ---- adding ---- */

static inline bool
pr_segment_may_follow(const struct pr_segment_builder *b, const struct pr_packet *p)
{
	const struct pr_segment_header *h = &b->header;
	if (p->flags & PR_SEGMENT_OTIME || h->count == UINT32_MAX)
		return false;
	if (h->flags & PR_SEGMENT_MIXED || h->count == 0)
		return true;
	return p->epoch == h->epoch && p->link == h->link && p->linktype == h->linktype &&
	       p->seq > b->last_seq && p->seq - h->first_seq <= UINT32_MAX;
}

static inline void
pr_segment_count(struct pr_segment_builder *b, const struct pr_packet *p)
{
	struct pr_segment_header *h = &b->header;
	if (h->count++ == 0) {
		if (!(h->flags & PR_SEGMENT_MIXED)) {
			PR_COPY(h, p, linktype, link, epoch);
			h->first_seq = p->seq;
		}
		h->min_time = h->max_time = p->time;
		h->first_otime = p->otime;
	}
	pr_time_widen(&h->min_time, &h->max_time, p->time, p->time);
	h->last_otime = p->otime;
	b->last_seq = p->seq;
}

/* Everything of a packet but its data; returns where the data goes. */
static inline uint8_t *
pr_segment_put_fields(
	uint8_t *at, const struct pr_packet *p, const struct pr_segment_header *h)
{
	bool mixed = h->flags & PR_SEGMENT_MIXED, otime = p->otime != p->time;
	uint32_t seq = mixed ? 0 : (uint32_t)(p->seq - h->first_seq);
	uint16_t flags = (uint16_t)(p->flags | (otime ? PR_SEGMENT_OTIME : 0));

	/* two fields a store */
	pr_put_le64(at, p->time);
	pr_put_le64(at + 8, seq | (uint64_t)p->caplen << 32);
	pr_put_le64(at + 16, p->len | (uint64_t)flags << 32);
	at += PR_SEGMENT_PACKET;
	if (otime) {
		pr_put_le64(at, p->otime);
		at += PR_SEGMENT_OTIME_LEN;
	}
	if (mixed) {
		pr_put_le64(at, p->epoch);
		pr_put_le64(at + 8, p->seq);
		pr_put_le16(at + 16, p->link);
		pr_put_le16(at + 18, p->linktype);
		pr_put_le32(at + 20, 0);
		at += PR_SEGMENT_MIXED_LEN;
	}
	return at;
}

/* Room for a packet's data in place, for writers that receive into it; NULL: as pr_segment_add. */
static inline uint8_t *
pr_segment_take_room(struct pr_segment_builder *b, const struct pr_packet *p)
{
	size_t need = PR_SEGMENT_PACKET + (p->otime != p->time ? PR_SEGMENT_OTIME_LEN : 0) +
		      (b->header.flags & PR_SEGMENT_MIXED ? PR_SEGMENT_MIXED_LEN : 0) +
		      (((size_t)p->caplen + 7) & ~(size_t)7);

	if (b->room < b->used || b->room - b->used < need || !pr_segment_may_follow(b, p))
		return NULL;
	pr_segment_count(b, p);
	uint8_t *data = pr_segment_put_fields(b->buf + b->used, p, &b->header);
	b->used += need;
	/* Zeros the last word for the padding; then the data overwrites its beginning. */
	if (p->caplen % 8)
		memset(b->buf + b->used - 8, 0, 8);
	return data;
}

/* As pr_segment_add. */
static inline bool
pr_segment_add_here(struct pr_segment_builder *b, const struct pr_packet *p)
{
	uint8_t *data = pr_segment_take_room(b, p);
	if (!data)
		return false;
	if (p->caplen)
		memcpy(data, p->data, p->caplen);
	return true;
}

/* ---- reading ---- */

/* A packet as it stands in a segment. */
struct pr_segment_step {
	int64_t time, otime;
	uint32_t seq; /* since the first */
	uint32_t caplen, len;
	uint16_t flags;
	const uint8_t *data; /* within the body */
};

/* The packet at `at`. Returns its bytes, padding included; 0: there are fewer, or it is damaged or of a version to come. */
static inline size_t
pr_segment_load(const uint8_t *at, size_t room, bool mixed, struct pr_segment_step *out)
{
	if (room < PR_SEGMENT_PACKET)
		return 0;
	/* reads once: in shared memory a second read may give another length */
	out->time = pr_get_le64(at);
	uint64_t second = pr_get_le64(at + 8);
	uint64_t third = pr_get_le64(at + 16);
	atomic_signal_fence(memory_order_seq_cst);
	out->seq = second;
	out->caplen = second >> 32;
	out->len = third;
	out->flags = third >> 32;
	size_t head = PR_SEGMENT_PACKET + (third >> 47 & 1) * PR_SEGMENT_OTIME_LEN +
		      mixed * PR_SEGMENT_MIXED_LEN;
	size_t need = head + (((size_t)out->caplen + 7) & ~(size_t)7);
	if (room < need || third >> 48)
		return 0;
	out->otime = out->flags & PR_SEGMENT_OTIME
			     ? (int64_t)pr_get_le64(at + PR_SEGMENT_PACKET)
			     : out->time;
	out->data = at + head;
	return need;
}

/*
 * pr_segment_next for segments of one link (not MIXED). Must refuse exactly what
 * pr_segment_next refuses; a test compares them.
 */
struct pr_segment_walk {
	const uint8_t *at, *end;
	uint32_t left;
	uint64_t least; /* least value of the next seq */
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
	const size_t room = w->end - w->at;

	if (w->left == 0)
		return room ? -1 : 0;
	size_t len = pr_segment_load(w->at, room, false, out);
	/* the first seq is 0 */
	if (!len || out->seq < w->least || out->seq > w->most ||
		(w->least == 0 && out->seq))
		return -1;
	w->least = (uint64_t)out->seq + 1;
	w->at += len;
	w->left--;
	return 1;
}
