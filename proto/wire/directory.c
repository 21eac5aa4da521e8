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
	return pr_store_varint(w, pr_zigzag(to - from));
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
store_segment(struct pr_writer *w, const struct pr_directory_segment *s,
	const struct pr_directory_segment *last)
{
	bool line = s->epoch != last->epoch || s->link != last->link ||
		    s->linktype != last->linktype;
	bool apart = s->first_seq != last->last_seq + 1;
	bool holes = s->last_seq - s->first_seq != (uint64_t)s->count - 1;
	bool otimes = s->first_otime != s->min_time || s->last_otime != s->max_time;

	if (!segment_valid(s) ||
		!pr_store_u8(w, (line ? LINE : 0) | (apart ? APART : 0) |
					(holes ? HOLES : 0) | (otimes ? OTIMES : 0)))
		return false;
	if (line && (!pr_store_le64(w, s->epoch) || !pr_store_varint(w, s->link) ||
			    !pr_store_varint(w, s->linktype)))
		return false;
	if (apart && !store_step(w, last->last_seq + 1, s->first_seq))
		return false;
	if (holes && !pr_store_varint(w, s->last_seq - s->first_seq))
		return false;
	if (otimes && (!store_step(w, s->min_time, s->first_otime) ||
			      !store_step(w, s->max_time, s->last_otime)))
		return false;
	return pr_store_varint(w, s->count) && store_step(w, last->max_time, s->min_time) &&
	       pr_store_varint(w, (uint64_t)s->max_time - (uint64_t)s->min_time);
}

/* s holds the entry before. */
static bool
load_segment(struct pr_cursor *c, uint8_t flags, struct pr_directory_segment *s)
{
	uint64_t link, linktype, count, seqs = 0, begin = 0, end = 0, from, length;

	if (flags & ~SEGMENT_FLAGS)
		return false;
	if (flags & LINE) {
		if (!pr_load_le64(c, &s->epoch) || !load_up_to(c, UINT16_MAX, &link) ||
			!load_up_to(c, UINT16_MAX, &linktype))
			return false;
		s->link = link;
		s->linktype = linktype;
	}
	s->first_seq = s->last_seq + 1;
	if (flags & APART && !load_step(c, s->first_seq, &s->first_seq))
		return false;
	/* differences from numbers that are read below */
	if ((flags & HOLES && !pr_load_varint(c, &seqs)) ||
		(flags & OTIMES && (!load_step(c, 0, &begin) || !load_step(c, 0, &end))))
		return false;
	if (!load_up_to(c, UINT32_MAX, &count) || !load_step(c, s->max_time, &from) ||
		!pr_load_varint(c, &length))
		return false;
	s->count = count;
	s->last_seq = s->first_seq + (flags & HOLES ? seqs : count - 1);
	s->min_time = from;
	s->max_time = from + length;
	s->first_otime = from + begin;
	s->last_otime = from + length + end;
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
	uint8_t flags = INDEX | i->level << LEVEL_SHIFT;

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
		i->link = link;
	}
	i->level = flags >> LEVEL_SHIFT & LEVEL_MASK;
	if (!load_step(c, i->first_sequence + i->segments, &i->first_sequence) ||
		!load_up_to(c, UINT32_MAX, &segments) || !pr_load_le64(c, &i->check))
		return false;
	i->segments = segments;
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

int
pr_directory_load(struct pr_directory_coder *coder, struct pr_cursor *c,
	struct pr_directory_entry *out)
{
	struct pr_cursor at = *c; /* *c moves on success only: -1 stays -1 */
	const uint8_t *bytes;
	uint8_t flags;
	bool good;

	if (!pr_load_u8(&at, &flags))
		return 0;
	if (flags & INDEX) {
		out->kind = PR_DIRECTORY_INDEX;
		out->u.index = coder->index;
		good = load_index(&at, flags, &out->u.index);
	} else {
		out->kind = PR_DIRECTORY_SEGMENT;
		out->u.segment = coder->segment;
		good = load_segment(&at, flags, &out->u.segment);
	}
	if (!good || !pr_load_u8(&at, &out->handle_len) ||
		out->handle_len > PR_DIRECTORY_HANDLE_MAX ||
		!pr_load_bytes(&at, &bytes, out->handle_len))
		return -1;
	memcpy(out->handle, bytes, out->handle_len);
	*c = at;
	if (flags & INDEX)
		coder->index = out->u.index;
	else
		coder->segment = out->u.segment;
	return 1;
}
