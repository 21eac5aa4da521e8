/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/level1.h"

#include <string.h>

#include "indexer/signature.h"
#include "proto/wire/cursor.h"

#define TOP_HEADER 16

static size_t
top_len(size_t address)
{
	return TOP_HEADER + address;
}

/* ---- opening ---- */

static bool
within(size_t at, size_t len, size_t end)
{
	return at <= end && end - at >= len;
}

static const uint8_t *
item_at(const struct pr_level1 *l, unsigned index)
{
	return l->body + PR_LEVEL1_HEADER + (size_t)index * PR_LEVEL1_ITEM;
}

static bool
item_valid(const struct pr_level1 *l, unsigned index)
{
	const uint8_t *at = item_at(l, index);
	uint32_t bits = pr_get_le32(at + 12);
	uint64_t len = (uint64_t)bits / 8 + pr_get_le16(at + 16) + pr_get_le32(at + 20);

	return bits % 64 == 0 && bits <= PR_SIGNATURE_BITS_MAX && at[18] < 64 &&
	       at[19] <= PR_HELD_BITS && len <= l->len &&
	       within(pr_get_le32(at + 8), (size_t)len, l->len);
}

static bool
tops_valid(const struct pr_level1 *l)
{
	size_t at = l->tops_at;

	for (unsigned i = 0; i < l->tops; i++) {
		if (!within(at, TOP_HEADER, l->len) ||
			(l->body[at] != 4 && l->body[at] != 16) ||
			!within(at, top_len(l->body[at]), l->len))
			return false;
		at += top_len(l->body[at]);
	}
	return l->tops <= PR_LEVEL1_TOPS_MAX;
}

int
pr_level1_open(struct pr_level1 *l, const void *body, size_t len, struct pr_error *err)
{
	const uint8_t *p = body;

	if (len < PR_LEVEL1_HEADER || pr_get_le32(p) != PR_LEVEL1_MAGIC)
		return pr_error_set(err, "index: not a record of level 1");
	if (pr_get_le16(p + 4) != PR_LEVEL1_VERSION)
		return pr_error_set(err, "index: version %u, this program reads version %u",
			pr_get_le16(p + 4), PR_LEVEL1_VERSION);
	*l = (struct pr_level1){.body = p,
		.len = len,
		.link = pr_get_le16(p + 6),
		.first_sequence = pr_get_le64(p + 8),
		.segments = pr_get_le16(p + 16),
		.tops = pr_get_le16(p + 18),
		.tops_at = pr_get_le32(p + 20),
		.packets_short = pr_get_le32(p + 24),
		.bytes_short = pr_get_le64(p + 32)};
	if (l->segments == 0 || l->segments > PR_LEVEL1_SEGMENTS_MAX ||
		!within(PR_LEVEL1_HEADER, (size_t)l->segments * PR_LEVEL1_ITEM, len))
		return pr_error_set(
			err, "index: %zu bytes cannot hold %u segments", len, l->segments);
	for (unsigned i = 0; i < l->segments; i++)
		if (!item_valid(l, i))
			return pr_error_set(
				err, "index: segment %u lies outside of its record", i);
	return tops_valid(l) ? 0 : pr_error_set(err, "index: heavy hitters are damaged");
}

void
pr_level1_get(const struct pr_level1 *l, unsigned index, struct pr_level1_segment *s)
{
	const uint8_t *at = item_at(l, index);

	*s = (struct pr_level1_segment){.proof = pr_get_le64(at),
		.signature = l->body + pr_get_le32(at + 8),
		.bits = pr_get_le32(at + 12),
		.series_len = pr_get_le16(at + 16),
		.series_width = at[18],
		.held_form = at[19],
		.held_len = pr_get_le32(at + 20),
		.len_min = pr_get_le32(at + 24),
		.len_max = pr_get_le32(at + 28),
		.sport_min = pr_get_le16(at + 32),
		.sport_max = pr_get_le16(at + 34),
		.dport_min = pr_get_le16(at + 36),
		.dport_max = pr_get_le16(at + 38),
		.ports = at + 40,
		.octets = at + 64,
		.composites = l->body + 28};
	s->series = s->signature + s->bits / 8;
	s->held = s->series + s->series_len;
}

size_t
pr_level1_tops(const struct pr_level1 *l, struct pr_level1_top *out)
{
	const uint8_t *at = l->body + l->tops_at;

	for (unsigned i = 0; i < l->tops; i++, at += top_len(at[0])) {
		out[i] = (struct pr_level1_top){.len = at[0],
			.packets = pr_get_le32(at + 4),
			.bytes = pr_get_le64(at + 8)};
		memcpy(out[i].address, at + TOP_HEADER, at[0]);
	}
	return l->tops;
}

/* ---- asking ---- */

bool
pr_level1_has_key(const struct pr_level1_segment *s, const struct pr_key *key)
{
	return s->bits == 0 || pr_signature_test(s->signature, s->bits, pr_key_hash(key));
}

static bool
any_bit(const uint8_t *bits, unsigned from, unsigned to)
{
	for (unsigned i = from; i <= to; i++)
		if (bits[i / 8] & 1u << i % 8)
			return true;
	return false;
}

static bool
overlaps(int64_t least, int64_t most, int64_t min, int64_t max)
{
	return least <= max && most >= min;
}

static bool
has_port(const struct pr_level1_segment *s, int64_t least, int64_t most, uint16_t min,
	uint16_t max)
{
	if (min > max || !overlaps(least, most, min, max))
		return false;
	return any_bit(s->ports, pr_port_interval((uint16_t)(least > min ? least : min)),
		pr_port_interval((uint16_t)(most < max ? most : max)));
}

static bool
has_octet(const struct pr_level1_segment *s, int64_t least, int64_t most)
{
	if (!overlaps(least, most, 0, UINT32_MAX))
		return false;
	return any_bit(s->octets, least > 0 ? (unsigned)(least >> 24) : 0,
		most < UINT32_MAX ? (unsigned)(most >> 24) : 255);
}

bool
pr_level1_has_range(const struct pr_level1_segment *s, enum pr_number number, int64_t least,
	int64_t most)
{
	if (least > most)
		return false;
	if (number == PR_NUMBER_LENGTH)
		return overlaps(least, most, s->len_min, s->len_max);
	if (s->bits == 0)
		return true;
	switch (number) {
	case PR_NUMBER_SPORT:
		return has_port(s, least, most, s->sport_min, s->sport_max);
	case PR_NUMBER_DPORT:
		return has_port(s, least, most, s->dport_min, s->dport_max);
	case PR_NUMBER_SRC4:
	case PR_NUMBER_DST4:
		return has_octet(s, least, most);
	default:
		return true;
	}
}

/* ---- varints: at the end all further ones are 0 ---- */

static bool
get_varint(const uint8_t **at, const uint8_t *end, uint64_t *out)
{
	uint64_t v = 0;

	for (unsigned shift = 0; *at < end && shift < 64; shift += 7) {
		uint8_t byte = *(*at)++;

		v |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80)) {
			*out = v;
			return true;
		}
	}
	return false;
}

void
pr_held_walk_begin(struct pr_held_walk *w, const struct pr_level1_segment *s, uint64_t span)
{
	*w = (struct pr_held_walk){.at = s->held,
		.end = s->held + s->held_len,
		.span = span,
		.form = s->held_form};
	if (w->form == PR_HELD_RUNS)
		w->repeat = 1; /* the first seq itself, a step of 0 */
	if (w->form == PR_HELD_BITS && span / 8 >= s->held_len)
		w->span = s->held_len ? (uint64_t)s->held_len * 8 - 1 : 0;
}

static bool
next_of_runs(struct pr_held_walk *w, uint64_t *seq)
{
	if (!w->repeat &&
		(!get_varint(&w->at, w->end, &w->step) ||
			!get_varint(&w->at, w->end, &w->repeat) || !w->step || !w->repeat))
		return false;
	if (w->step > w->span - w->next)
		return false;
	w->repeat--;
	w->next += w->step;
	*seq = w->next;
	return true;
}

bool
pr_held_walk_next(struct pr_held_walk *w, uint64_t *seq)
{
	if (w->form == PR_HELD_RUNS)
		return next_of_runs(w, seq);
	for (; w->next <= w->span; w->next++)
		if (w->form == PR_HELD_ALL ||
			(w->at != w->end && w->at[w->next / 8] & 1u << w->next % 8)) {
			*seq = w->next++;
			return true;
		}
	return false;
}

bool
pr_level1_series(
	const struct pr_level1_segment *s, size_t *at, struct pr_series_bucket *bucket)
{
	const uint8_t *p = s->series + *at, *end = s->series + s->series_len;
	uint64_t step;

	if (*at == 0)
		bucket->interval = 0;
	if (!get_varint(&p, end, &step) || !get_varint(&p, end, &bucket->packets) ||
		!get_varint(&p, end, &bucket->bytes))
		return false;
	bucket->interval += step;
	*at = (size_t)(p - s->series);
	return true;
}
