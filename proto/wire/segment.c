/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/wire/segment_add.h"

void
pr_segment_begin(struct pr_segment_builder *b, void *buf, size_t room, uint16_t flags)
{
	*b = (struct pr_segment_builder){
		.buf = buf, .room = room, .used = PR_SEGMENT_HEADER};
	b->header.flags = flags;
}

uint8_t *
pr_segment_reserve(struct pr_segment_builder *b, const struct pr_packet *p)
{
	return pr_segment_take_room(b, p);
}

bool
pr_segment_add(struct pr_segment_builder *b, const struct pr_packet *p)
{
	return pr_segment_add_here(b, p);
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
