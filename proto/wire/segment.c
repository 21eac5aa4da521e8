/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/wire/segment.h"

static size_t
padded(size_t len)
{
	return (len + 7) & ~(size_t)7;
}

void
pr_segment_begin(struct pr_segment_builder *b, void *buf, size_t room, uint16_t flags)
{
	*b = (struct pr_segment_builder){
		.buf = buf, .room = room, .used = PR_SEGMENT_HEADER};
	b->header.flags = flags;
}

static bool
may_follow(const struct pr_segment_builder *b, const struct pr_packet *p)
{
	const struct pr_segment_header *h = &b->header;
	if (p->flags & PR_SEGMENT_OTIME || h->count == UINT32_MAX)
		return false;
	if (h->flags & PR_SEGMENT_MIXED || h->count == 0)
		return true;
	return p->epoch == h->epoch && p->link == h->link && p->linktype == h->linktype &&
	       p->seq > b->last_seq && p->seq - h->first_seq <= UINT32_MAX;
}

static void
count_packet(struct pr_segment_builder *b, const struct pr_packet *p)
{
	struct pr_segment_header *h = &b->header;
	if (h->count++ == 0) {
		if (!(h->flags & PR_SEGMENT_MIXED)) {
			h->linktype = p->linktype;
			h->link = p->link;
			h->epoch = p->epoch;
			h->first_seq = p->seq;
		}
		h->min_time = h->max_time = p->time;
		h->first_otime = p->otime;
	}
	h->min_time = p->time < h->min_time ? p->time : h->min_time;
	h->max_time = p->time > h->max_time ? p->time : h->max_time;
	h->last_otime = p->otime;
	b->last_seq = p->seq;
}

/* Everything of a packet but its data; returns where the data goes. */
static uint8_t *
put_packet(uint8_t *at, const struct pr_packet *p, const struct pr_segment_header *h)
{
	bool mixed = h->flags & PR_SEGMENT_MIXED, otime = p->otime != p->time;

	pr_put_le64(at, (uint64_t)p->time);
	pr_put_le32(at + 8, mixed ? 0 : (uint32_t)(p->seq - h->first_seq));
	pr_put_le32(at + 12, p->caplen);
	pr_put_le32(at + 16, p->len);
	pr_put_le16(at + 20, (uint16_t)(p->flags | (otime ? PR_SEGMENT_OTIME : 0)));
	pr_put_le16(at + 22, 0);
	at += PR_SEGMENT_PACKET;
	if (otime) {
		pr_put_le64(at, (uint64_t)p->otime);
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

uint8_t *
pr_segment_reserve(struct pr_segment_builder *b, const struct pr_packet *p)
{
	size_t need = PR_SEGMENT_PACKET + (p->otime != p->time ? PR_SEGMENT_OTIME_LEN : 0) +
		      (b->header.flags & PR_SEGMENT_MIXED ? PR_SEGMENT_MIXED_LEN : 0) +
		      padded(p->caplen);

	if (b->room < b->used || b->room - b->used < need || !may_follow(b, p))
		return NULL;
	count_packet(b, p);
	uint8_t *data = put_packet(b->buf + b->used, p, &b->header);
	b->used += need;
	/* The padding is the last word's rest: the data comes over its beginning. */
	if (p->caplen % 8)
		memset(b->buf + b->used - 8, 0, 8);
	return data;
}

bool
pr_segment_add(struct pr_segment_builder *b, const struct pr_packet *p)
{
	uint8_t *data = pr_segment_reserve(b, p);
	if (!data)
		return false;
	if (p->caplen)
		memcpy(data, p->data, p->caplen);
	return true;
}

size_t
pr_segment_seal(struct pr_segment_builder *b)
{
	const struct pr_segment_header *h = &b->header;
	uint8_t *p = b->buf;

	if (h->count == 0)
		return 0;
	pr_put_le32(p, PR_SEGMENT_MAGIC);
	pr_put_le16(p + 4, PR_SEGMENT_VERSION);
	pr_put_le16(p + 6, h->linktype);
	pr_put_le64(p + 8, h->epoch);
	pr_put_le16(p + 16, h->link);
	pr_put_le16(p + 18, h->flags);
	pr_put_le32(p + 20, h->count);
	pr_put_le64(p + 24, h->first_seq);
	pr_put_le64(p + 32, (uint64_t)h->min_time);
	pr_put_le64(p + 40, (uint64_t)h->max_time);
	pr_put_le64(p + 48, (uint64_t)h->first_otime);
	pr_put_le64(p + 56, (uint64_t)h->last_otime);
	return b->used;
}
