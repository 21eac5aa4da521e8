/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/wire/directory.h"

enum {
	INDEX = 0x01,
	LINE = 0x02,
	APART = 0x04,
	HOLES = 0x08,
	OTIMES = 0x10,
	SEGMENT_FLAGS = LINE | APART | HOLES | OTIMES,
};
enum { LINK = 0x08, LEVEL_SHIFT = 1, LEVEL_MASK = 3, INDEX_FLAGS = INDEX | LINK | 6 };

/* Steps are taken modulo 2^64, so none overflows. */
static bool
store_step(struct pr_writer *w, uint64_t from, uint64_t to)
{
	return pr_store_varint(w, pr_zigzag((int64_t)(to - from)));
}

static bool
load_step(struct pr_cursor *c, uint64_t from, uint64_t *out)
{
	uint64_t step;

	if (!pr_load_varint(c, &step))
		return false;
	*out = from + (uint64_t)pr_unzigzag(step);
	return true;
}

static bool
load_time(struct pr_cursor *c, int64_t from, int64_t *out)
{
	uint64_t time;

	if (!load_step(c, (uint64_t)from, &time))
		return false;
	*out = (int64_t)time;
	return true;
}

static bool
load_up_to(struct pr_cursor *c, uint64_t most, uint64_t *out)
{
	return pr_load_varint(c, out) && *out <= most;
}

/* ---- segments ---- */

static bool
segment_valid(const struct pr_directory_segment *s)
{
	return s->first_seq <= s->last_seq && s->min_time <= s->max_time && s->count > 0;
}

static bool
same_line(const struct pr_directory_segment *a, const struct pr_directory_segment *b)
{
	return a->epoch == b->epoch && a->link == b->link && a->linktype == b->linktype;
}

static bool
is_whole(const struct pr_directory_segment *s)
{
	return s->last_seq - s->first_seq == (uint64_t)s->count - 1;
}

static uint8_t
segment_flags(const struct pr_directory_segment *s, const struct pr_directory_segment *last)
{
	uint8_t flags = 0;

	if (!same_line(s, last))
		flags |= LINE;
	if (s->first_seq != last->last_seq + 1)
		flags |= APART;
	if (!is_whole(s))
		flags |= HOLES;
	if (s->first_otime != s->min_time || s->last_otime != s->max_time)
		flags |= OTIMES;
	return flags;
}

static bool
store_line(struct pr_writer *w, const struct pr_directory_segment *s)
{
	return pr_store_le64(w, s->epoch) && pr_store_varint(w, s->link) &&
	       pr_store_varint(w, s->linktype);
}

static bool
store_segment(struct pr_writer *w, const struct pr_directory_segment *s,
	const struct pr_directory_segment *last)
{
	uint8_t flags = segment_flags(s, last);

	if (!segment_valid(s) || !pr_store_u8(w, flags))
		return false;
	if (flags & LINE && !store_line(w, s))
		return false;
	if (flags & APART && !store_step(w, last->last_seq + 1, s->first_seq))
		return false;
	if (flags & HOLES && !pr_store_varint(w, s->last_seq - s->first_seq))
		return false;
	if (flags & OTIMES &&
		(!store_step(w, (uint64_t)s->min_time, (uint64_t)s->first_otime) ||
			!store_step(w, (uint64_t)s->max_time, (uint64_t)s->last_otime)))
		return false;
	return pr_store_varint(w, s->count) &&
	       store_step(w, (uint64_t)last->max_time, (uint64_t)s->min_time) &&
	       pr_store_varint(w, (uint64_t)s->max_time - (uint64_t)s->min_time);
}

static bool
load_line(struct pr_cursor *c, struct pr_directory_segment *s)
{
	uint64_t link, linktype;

	if (!pr_load_le64(c, &s->epoch) || !load_up_to(c, UINT16_MAX, &link) ||
		!load_up_to(c, UINT16_MAX, &linktype))
		return false;
	s->link = (uint16_t)link;
	s->linktype = (uint16_t)linktype;
	return true;
}

/* Differences of what flags say, until the numbers are there that they are from. */
struct differences {
	uint64_t seqs;
	int64_t first_otime, last_otime;
};

static bool
load_differences(struct pr_cursor *c, uint8_t flags, struct differences *d)
{
	if (flags & HOLES && !pr_load_varint(c, &d->seqs))
		return false;
	return !(flags & OTIMES) ||
	       (load_time(c, 0, &d->first_otime) && load_time(c, 0, &d->last_otime));
}

static int64_t
add(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a + (uint64_t)b);
}

/* s holds the entry before. */
static bool
load_segment(struct pr_cursor *c, uint8_t flags, struct pr_directory_segment *s)
{
	struct differences d = {0};
	uint64_t count, length;

	if (flags & ~SEGMENT_FLAGS || (flags & LINE && !load_line(c, s)))
		return false;
	s->first_seq = s->last_seq + 1;
	if (flags & APART && !load_step(c, s->first_seq, &s->first_seq))
		return false;
	if (!load_differences(c, flags, &d) || !load_up_to(c, UINT32_MAX, &count) ||
		!load_time(c, s->max_time, &s->min_time) || !pr_load_varint(c, &length))
		return false;
	s->count = (uint32_t)count;
	s->last_seq = s->first_seq + (flags & HOLES ? d.seqs : count - 1);
	s->max_time = add(s->min_time, (int64_t)length);
	s->first_otime = add(s->min_time, d.first_otime);
	s->last_otime = add(s->max_time, d.last_otime);
	return segment_valid(s);
}

/* ---- indexes ---- */

static bool
index_valid(const struct pr_directory_index *i)
{
	return i->segments > 0 && i->first_sequence <= UINT64_MAX - i->segments &&
	       i->level <= LEVEL_MASK;
}

static bool
store_index(struct pr_writer *w, const struct pr_directory_index *i,
	const struct pr_directory_index *last)
{
	uint8_t flags = (uint8_t)(INDEX | i->level << LEVEL_SHIFT);

	if (i->link != last->link)
		flags |= LINK;
	if (!index_valid(i) || !pr_store_u8(w, flags) ||
		(flags & LINK && !pr_store_varint(w, i->link)))
		return false;
	return store_step(w, last->first_sequence + last->segments, i->first_sequence) &&
	       pr_store_varint(w, i->segments) && pr_store_le64(w, i->check);
}

/* i holds the entry before. */
static bool
load_index(struct pr_cursor *c, uint8_t flags, struct pr_directory_index *i)
{
	uint64_t link, segments;

	if (flags & ~INDEX_FLAGS)
		return false;
	if (flags & LINK) {
		if (!load_up_to(c, UINT16_MAX, &link))
			return false;
		i->link = (uint16_t)link;
	}
	i->level = flags >> LEVEL_SHIFT & LEVEL_MASK;
	if (!load_step(c, i->first_sequence + i->segments, &i->first_sequence) ||
		!load_up_to(c, UINT32_MAX, &segments) || !pr_load_le64(c, &i->check))
		return false;
	i->segments = (uint32_t)segments;
	return index_valid(i);
}

/* ---- entries ---- */

bool
pr_directory_begin(struct pr_directory_coder *coder, struct pr_writer *w)
{
	*coder = (struct pr_directory_coder){0};
	return pr_store_u8(w, PR_DIRECTORY_VERSION);
}

bool
pr_directory_store(struct pr_directory_coder *coder, struct pr_writer *w,
	const struct pr_directory_entry *e)
{
	struct pr_writer to = *w;
	bool is_index = e->kind == PR_DIRECTORY_INDEX;

	if (is_index ? !store_index(&to, &e->u.index, &coder->index)
		     : !store_segment(&to, &e->u.segment, &coder->segment))
		return false;
	if (e->handle_len > PR_DIRECTORY_HANDLE_MAX || !pr_store_u8(&to, e->handle_len) ||
		!pr_store_bytes(&to, e->handle, e->handle_len))
		return false;
	if (is_index)
		coder->index = e->u.index;
	else
		coder->segment = e->u.segment;
	w->at = to.at;
	return true;
}

bool
pr_directory_open(struct pr_directory_coder *coder, struct pr_cursor *c)
{
	uint8_t version;

	*coder = (struct pr_directory_coder){0};
	return pr_load_u8(c, &version) && version == PR_DIRECTORY_VERSION;
}

static bool
load_handle(struct pr_cursor *c, struct pr_directory_entry *out)
{
	const uint8_t *bytes;

	if (!pr_load_u8(c, &out->handle_len) || out->handle_len > PR_DIRECTORY_HANDLE_MAX ||
		!pr_load_bytes(c, &bytes, out->handle_len))
		return false;
	memcpy(out->handle, bytes, out->handle_len);
	return true;
}

static bool
load_entry(struct pr_directory_coder *coder, struct pr_cursor *c,
	struct pr_directory_entry *out)
{
	uint8_t flags;

	if (!pr_load_u8(c, &flags))
		return false;
	out->kind = flags & INDEX ? PR_DIRECTORY_INDEX : PR_DIRECTORY_SEGMENT;
	if (out->kind == PR_DIRECTORY_INDEX) {
		out->u.index = coder->index;
		return load_index(c, flags, &out->u.index) && load_handle(c, out);
	}
	out->u.segment = coder->segment;
	return load_segment(c, flags, &out->u.segment) && load_handle(c, out);
}

int
pr_directory_load(struct pr_directory_coder *coder, struct pr_cursor *c,
	struct pr_directory_entry *out)
{
	const struct pr_cursor entry = *c;

	if (pr_cursor_left(c) == 0)
		return 0;
	if (!load_entry(coder, c, out)) {
		*c = entry; /* who asks again gets the same answer */
		return -1;
	}
	if (out->kind == PR_DIRECTORY_INDEX)
		coder->index = out->u.index;
	else
		coder->segment = out->u.segment;
	return 1;
}
