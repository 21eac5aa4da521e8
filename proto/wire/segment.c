/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/wire/segment.h"

#include "proto/base/field_table.h"
#include "proto/wire/segment_inline.h"

/* The header behind magic and version. */
#define FIELDS_AT 6
static const struct pr_field header_items[] = {
	PR_INTS(pr_segment_header, linktype, epoch, link, flags, count, first_seq, min_time,
		max_time),
	PR_INTS(pr_segment_header, first_otime, last_otime)};
static const struct pr_field_table header_fields = PR_FIELD_TABLE(header_items);

/* ---- writing ---- */

void
pr_segment_begin(struct pr_segment_builder *b, void *buf, size_t room, uint16_t flags)
{
	*b = (struct pr_segment_builder){
		.buf = buf, .room = room, .used = PR_SEGMENT_HEADER};
	b->header.flags = flags;
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
	struct pr_writer w = pr_writer_make(p + FIELDS_AT, PR_SEGMENT_HEADER - FIELDS_AT);

	if (h->count == 0)
		return 0;
	pr_put_le32(p, PR_SEGMENT_MAGIC);
	pr_put_le16(p + 4, PR_SEGMENT_VERSION);
	return pr_field_table_store(&w, h, &header_fields, PR_LITTLE_ENDIAN) ? b->used : 0;
}

/* ---- reading ---- */

int
pr_segment_peek(
	const void *body, size_t len, struct pr_segment_header *out, struct pr_error *err)
{
	const uint8_t *p = body;

	if (len < PR_SEGMENT_HEADER)
		return pr_error_set(
			err, "segment: %zu bytes, too short for its header", len);
	if (pr_get_le32(p) != PR_SEGMENT_MAGIC)
		return pr_error_set(err, "segment: magic is 0x%08x, not 0x%08x",
			pr_get_le32(p), PR_SEGMENT_MAGIC);
	if (pr_get_le16(p + 4) != PR_SEGMENT_VERSION)
		return pr_error_set(err,
			"segment: version %u, this program reads version %u",
			pr_get_le16(p + 4), PR_SEGMENT_VERSION);
	struct pr_cursor c = pr_cursor_make(p + FIELDS_AT, PR_SEGMENT_HEADER - FIELDS_AT);
	if (!pr_field_table_load(&c, out, &header_fields, PR_LITTLE_ENDIAN) ||
		out->flags & ~PR_SEGMENT_MIXED)
		return pr_error_set(err, "segment: unknown flags 0x%04x", out->flags);
	if (out->count == 0 || out->min_time > out->max_time)
		return pr_error_set(err, "segment: header of %u packets contradicts itself",
			out->count);
	return 0;
}

int
pr_segment_open(
	struct pr_segment_reader *r, const void *body, size_t len, struct pr_error *err)
{
	*r = (struct pr_segment_reader){.c = pr_cursor_make(body, 0)};
	if (pr_segment_peek(body, len, &r->header, err) < 0)
		return -1;
	r->c = pr_cursor_make(
		(const uint8_t *)body + PR_SEGMENT_HEADER, len - PR_SEGMENT_HEADER);
	r->left = r->header.count;
	if (r->left > pr_cursor_left(&r->c) / PR_SEGMENT_PACKET)
		return pr_error_set(
			err, "segment: %zu bytes cannot hold %u packets", len, r->left);
	return 0;
}

static bool
load_packet(struct pr_segment_reader *r, struct pr_packet *p)
{
	bool mixed = r->header.flags & PR_SEGMENT_MIXED;
	struct pr_segment_step s;
	size_t len = pr_segment_load(r->c.at, pr_cursor_left(&r->c), mixed, &s);

	if (!len)
		return false;
	r->c.at += len;
	PR_COPY(p, &s, time, otime, caplen, len, data);
	p->flags = s.flags & (uint16_t)~PR_SEGMENT_OTIME;
	p->seq = r->header.first_seq + s.seq;
	PR_COPY(p, &r->header, epoch, link, linktype);
	if (mixed) {
		const uint8_t *at = s.data - PR_SEGMENT_MIXED_LEN;

		p->epoch = pr_get_le64(at);
		p->seq = pr_get_le64(at + 8);
		p->link = pr_get_le16(at + 16);
		p->linktype = pr_get_le16(at + 18);
	}
	return true;
}

static int
corrupt(struct pr_segment_reader *r, struct pr_error *err, const char *what)
{
	uint32_t at = r->header.count - r->left;
	r->left = UINT32_MAX; /* stays corrupt: there is nothing behind the cursor */
	r->c.at = r->c.end;
	return pr_error_set(err, "segment: packet %u of %u %s", at, r->header.count, what);
}

int
pr_segment_next(struct pr_segment_reader *r, struct pr_packet *out, struct pr_error *err)
{
	if (r->left == 0) {
		if (pr_cursor_left(&r->c) == 0)
			return 0;
		return corrupt(r, err, "is the last, and bytes are left over");
	}
	if (!load_packet(r, out))
		return corrupt(
			r, err, "is longer than the segment, or not of this version");
	bool first = r->left == r->header.count;
	if (!(r->header.flags & PR_SEGMENT_MIXED)) {
		if (first ? out->seq != r->header.first_seq : out->seq <= r->last_seq)
			return corrupt(r, err, "has a seq out of order");
		r->last_seq = out->seq;
	}
	r->left--;
	return 1;
}
