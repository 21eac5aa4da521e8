/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/index/level1.h"

#include <stdlib.h>
#include <string.h>

#include "indexer/index/level1_pages.h"
#include "indexer/index/segment_keys.h"
#include "proto/base/array.h"
#include "proto/base/cursor.h"

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
item_at(const struct pri_level1 *l, unsigned index)
{
	return l->body + PRI_LEVEL1_HEADER + (size_t)index * PRI_LEVEL1_ITEM;
}

static bool
item_valid(const struct pri_level1 *l, unsigned index, size_t total)
{
	const uint8_t *at = item_at(l, index);
	uint64_t len = (uint64_t)pr_get_le16(at + 16) + pr_get_le32(at + 20);

	return at[18] < 64 && at[19] <= PRI_HELD_BITS && len <= total &&
	       within(pr_get_le32(at + 8), (size_t)len, total);
}

static const uint8_t *
page_lens(const struct pri_level1 *l)
{
	return item_at(l, l->segments);
}

/* If no segment is keyed, there need not be pages. */
static bool
pages_valid(const struct pri_level1 *l, size_t total)
{
	size_t at = pri_level1_head(l->segments, l->pages), len, least;

	for (uint32_t i = 0; i <= l->pages; i++, at += len) {
		len = pr_get_le16(page_lens(l) + 2 * i);
		least = i < l->pages ? PAGE_HEADER : RESERVED_PAGE;
		if (len < least || !within(at, len, total))
			return false;
	}
	return l->low_bits <= PRI_LEVEL1_LOW_MAX && l->hash_bits > 0 && l->hash_bits <= 32;
}

static bool
items_valid(const struct pri_level1 *l, size_t total)
{
	bool keyed = false;

	for (unsigned i = 0; i < l->segments; i++) {
		keyed |= item_at(l, i)[12];
		if (!item_valid(l, i, total))
			return false;
	}
	return (l->pages || !keyed) && pages_valid(l, total);
}

static bool
tops_valid(const struct pri_level1 *l)
{
	size_t at = l->tops_at;

	for (unsigned i = 0; i < l->tops; i++) {
		if (!within(at, TOP_HEADER, l->len) ||
			(l->body[at] != 4 && l->body[at] != 16) ||
			!within(at, top_len(l->body[at]), l->len))
			return false;
		at += top_len(l->body[at]);
	}
	return l->tops <= PRI_LEVEL1_TOPS_MAX;
}

static void
take_header(struct pri_level1 *l, const uint8_t *p)
{
	l->link = pr_get_le16(p + 6);
	l->first_sequence = pr_get_le64(p + 8);
	l->segments = pr_get_le16(p + 16);
	l->tops = pr_get_le16(p + 18);
	l->tops_at = pr_get_le32(p + 20);
	l->packets_short = pr_get_le32(p + 24);
	l->bytes_short = pr_get_le64(p + 32);
	l->pages = pr_get_le16(p + 40);
	l->low_bits = pr_get_le16(p + 42);
	l->hash_bits = pr_get_le16(p + 44);
	l->check = pr_get_le64(p + 48);
}

size_t
pri_level1_head_of(const void *header)
{
	const uint8_t *p = header;

	return pri_level1_head(pr_get_le16(p + 16), pr_get_le16(p + 40));
}

int
pri_level1_open(struct pri_level1 *l, const void *body, size_t len, size_t total,
	struct pr_error *err)
{
	const uint8_t *p = body;
	size_t head;

	if (len < PRI_LEVEL1_HEADER || len > total || pr_get_le32(p) != PRI_LEVEL1_MAGIC)
		return pr_error_set(err, "index: not a record of level 1");
	if (pr_get_le16(p + 4) != PRI_LEVEL1_VERSION)
		return pr_error_set(err, "index: version %u, this program reads version %u",
			pr_get_le16(p + 4), PRI_LEVEL1_VERSION);
	*l = (struct pri_level1){.body = p, .len = len, .whole = len == total};
	take_header(l, p);
	head = pri_level1_head_of(p);
	if (l->segments == 0 || l->segments > PRI_LEVEL1_SEGMENTS_MAX ||
		l->pages > PRI_LEVEL1_PAGES_MAX || len < head)
		return pr_error_set(
			err, "index: %zu bytes cannot hold %u segments", len, l->segments);
	if (head_check(p, head) != l->check || !items_valid(l, total))
		return pr_error_set(err, "index: the head of a record is damaged");
	return !l->whole || tops_valid(l)
		       ? 0
		       : pr_error_set(err, "index: heavy hitters are damaged");
}

void
pri_level1_get(const struct pri_level1 *l, unsigned index, struct pri_level1_segment *s)
{
	const uint8_t *at = item_at(l, index);

	*s = (struct pri_level1_segment){.proof = pr_get_le64(at),
		.index = (uint16_t)index,
		.keyed = at[12],
		.series_width = at[18],
		.held_form = at[19],
		.len_min = pr_get_le32(at + 24),
		.len_max = pr_get_le32(at + 28),
		.sport_min = pr_get_le16(at + 32),
		.sport_max = pr_get_le16(at + 34),
		.dport_min = pr_get_le16(at + 36),
		.dport_max = pr_get_le16(at + 38),
		.ports = at + 40,
		.octets = at + 64,
		.composites = l->body + 28,
		.series = l->body,
		.held = l->body};
	if (!l->whole)
		return;
	s->series_len = pr_get_le16(at + 16);
	s->held_len = pr_get_le32(at + 20);
	s->series = l->body + pr_get_le32(at + 8);
	s->held = s->series + s->series_len;
}

size_t
pri_level1_tops(const struct pri_level1 *l, struct pri_level1_top *out)
{
	const uint8_t *at = l->body + l->tops_at;

	for (unsigned i = 0; i < l->tops; i++, at += top_len(at[0])) {
		out[i] = (struct pri_level1_top){.len = at[0],
			.packets = pr_get_le32(at + 4),
			.bytes = pr_get_le64(at + 8)};
		memcpy(out[i].address, at + TOP_HEADER, at[0]);
	}
	return l->tops;
}

/* ---- asking ---- */

uint32_t
pri_level1_page_of(const struct pri_level1 *l, uint64_t signature)
{
	return page_of(signature, l->pages);
}

size_t
pri_level1_page_at(const struct pri_level1 *l, uint32_t page, size_t *len)
{
	const uint8_t *lens = page_lens(l);
	size_t at = pri_level1_head(l->segments, l->pages);

	for (uint32_t i = 0; i < page; i++)
		at += pr_get_le16(lens + 2 * i);
	*len = pr_get_le16(lens + 2 * page);
	return at;
}

bool
pri_level1_page_valid(
	const struct pri_level1 *l, uint32_t page, const uint8_t *bytes, size_t len)
{
	return page_check(l->check, page, bytes, len) == pr_get_le64(bytes);
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
has_port(const struct pri_level1_segment *s, int64_t least, int64_t most, uint16_t min,
	uint16_t max)
{
	if (min > max || !overlaps(least, most, min, max))
		return false;
	return any_bit(s->ports, pri_port_interval((uint16_t)(least > min ? least : min)),
		pri_port_interval((uint16_t)(most < max ? most : max)));
}

static bool
has_octet(const struct pri_level1_segment *s, int64_t least, int64_t most)
{
	if (!overlaps(least, most, 0, UINT32_MAX))
		return false;
	return any_bit(s->octets, least > 0 ? (unsigned)(least >> 24) : 0,
		most < UINT32_MAX ? (unsigned)(most >> 24) : 255);
}

bool
pri_level1_has_range(const struct pri_level1_segment *s, enum pri_number number,
	int64_t least, int64_t most)
{
	if (least > most)
		return false;
	if (number == PRI_NUMBER_LENGTH)
		return overlaps(least, most, s->len_min, s->len_max);
	if (!s->keyed)
		return true;
	switch (number) {
	case PRI_NUMBER_SPORT:
		return has_port(s, least, most, s->sport_min, s->sport_max);
	case PRI_NUMBER_DPORT:
		return has_port(s, least, most, s->dport_min, s->dport_max);
	case PRI_NUMBER_SRC4:
	case PRI_NUMBER_DST4:
		return has_octet(s, least, most);
	default:
		return true;
	}
}

bool
pri_level1_item_has(
	const struct pri_level1_segment *s, const struct pri_key *key, bool *has)
{
	int64_t first = (int64_t)key->bytes[0] << 24;

	if (key->kind != PRI_KEY_NET || key->len != 1)
		return false;
	*has = pri_level1_has_range(s, PRI_NUMBER_SRC4, first, first | 0xffffff);
	return true;
}

/* ---- series and held seqs ---- */

void
pri_held_walk_begin(
	struct pri_held_walk *w, const struct pri_level1_segment *s, uint64_t span)
{
	*w = (struct pri_held_walk){.at = s->held,
		.end = s->held + s->held_len,
		.span = span,
		.form = s->held_form};
	if (w->form == PRI_HELD_RUNS)
		w->repeat = 1; /* the first seq itself, a step of 0 */
	if (w->form == PRI_HELD_BITS && span / 8 >= s->held_len)
		w->span = s->held_len ? (uint64_t)s->held_len * 8 - 1 : 0;
}

static bool
next_of_runs(struct pri_held_walk *w, uint64_t *seq)
{
	struct pr_cursor c = {w->at, w->end};

	if (!w->repeat &&
		(!pr_load_varint(&c, &w->step) || !pr_load_varint(&c, &w->repeat) ||
			!w->step || !w->repeat))
		return false;
	w->at = c.at;
	if (w->step > w->span - w->next)
		return false;
	w->repeat--;
	w->next += w->step;
	*seq = w->next;
	return true;
}

bool
pri_held_walk_next(struct pri_held_walk *w, uint64_t *seq)
{
	if (w->form == PRI_HELD_RUNS)
		return next_of_runs(w, seq);
	for (; w->next <= w->span; w->next++)
		if (w->form == PRI_HELD_ALL ||
			(w->at != w->end && w->at[w->next / 8] & 1u << w->next % 8)) {
			*seq = w->next++;
			return true;
		}
	return false;
}

bool
pri_level1_series(
	const struct pri_level1_segment *s, size_t *at, struct pri_series_bucket *bucket)
{
	struct pr_cursor c = pr_cursor_make(s->series + *at, s->series_len - *at);
	uint64_t step;

	if (*at == 0)
		bucket->interval = 0;
	if (!pr_load_varint(&c, &step) || !pr_load_varint(&c, &bucket->packets) ||
		!pr_load_varint(&c, &bucket->bytes))
		return false;
	bucket->interval += step;
	*at = (size_t)(c.at - s->series);
	return true;
}

/* ---- writing ---- */

#define TOP_BYTES 32
#define LOW_WANTED 8 /* bits that there must be room for, of a record of several segments */

void
pri_level1_begin(struct pri_level1_writer *w)
{
	w->used = 0;
	w->count = 0;
	w->segments = 0;
}

void
pri_level1_free(struct pri_level1_writer *w)
{
	free(w->data);
	free(w->hashes);
	*w = (struct pri_level1_writer){0};
}

static size_t
fixed_size(const struct pri_level1_writer *w)
{
	return pri_level1_head(w->segments, 0) + PRI_LEVEL1_TOPS_MAX * TOP_BYTES +
	       RESERVED_PAGE + w->used;
}

size_t
pri_level1_size(const struct pri_level1_writer *w)
{
	size_t size = fixed_size(w) +
		      pri_level1_keys_bound(w->count, w->segments, PRI_LEVEL1_LOW_MAX);

	return size < w->max ? size : w->max > fixed_size(w) ? w->max : fixed_size(w);
}

/* ---- one segment more ---- */

static void
put_item(uint8_t *at, uint64_t proof, const struct pri_segment_keys *s, size_t data)
{
	memset(at, 0, PRI_LEVEL1_ITEM);
	pr_put_le64(at, proof);
	pr_put_le32(at + 8, (uint32_t)data); /* made absolute at the end */
	pr_put_le16(at + 16, (uint16_t)s->series_len);
	at[18] = s->series_width;
	at[19] = s->held_form;
	pr_put_le32(at + 20, (uint32_t)s->held_len);
	pr_put_le32(at + 24, s->len_min);
	pr_put_le32(at + 28, s->len_max);
	pr_put_le16(at + 32, s->sport_min);
	pr_put_le16(at + 34, s->sport_max);
	pr_put_le16(at + 36, s->dport_min);
	pr_put_le16(at + 38, s->dport_max);
	memcpy(at + 40, s->ports, PRI_LEVEL1_PORTS);
	memcpy(at + 64, s->octets, PRI_LEVEL1_OCTETS);
}

static void
put_segment(struct pri_level1_writer *w, uint64_t proof, const struct pri_segment_keys *s)
{
	size_t count = s->indexed ? s->keys.count : 0;

	put_item(w->items + (size_t)w->segments * PRI_LEVEL1_ITEM, proof, s, w->used);
	memcpy(w->data + w->used, s->series, s->series_len);
	w->used += s->series_len;
	if (s->held_len)
		memcpy(w->data + w->used, s->held, s->held_len);
	w->used += s->held_len;
	if (count)
		memcpy(w->hashes + w->count, s->keys.items, count * sizeof(*w->hashes));
	w->count += count;
	w->ends[w->segments] = w->count;
	w->keyed[w->segments++] = s->indexed;
}

int
pri_level1_add(struct pri_level1_writer *w, uint64_t sequence, uint64_t proof,
	const struct pri_segment_keys *s, size_t max)
{
	size_t used = w->used, count = w->count;

	if (w->segments == PRI_LEVEL1_SEGMENTS_MAX)
		return 0;
	if (PR_ARRAY_RESERVE(w->data, w->room, w->used + s->series_len + s->held_len) < 0 ||
		PR_ARRAY_RESERVE(w->hashes, w->hash_room, 2 * (w->count + s->keys.count)) <
			0)
		return -1;
	if (w->segments == 0)
		w->first_sequence = sequence;
	put_segment(w, proof, s);
	w->max = max;
	if (w->segments == 1 ||
		fixed_size(w) + pri_level1_keys_bound(w->count, w->segments, LOW_WANTED) <=
			max)
		return 1;
	w->segments--;
	w->used = used;
	w->count = count;
	return 0;
}

/* ---- the record ---- */

static void
check_pages(uint64_t check, const uint8_t *lens, uint32_t pages, uint8_t *at)
{
	for (uint32_t i = 0; i <= pages; i++) {
		size_t len = pr_get_le16(lens + 2 * i);

		pr_put_le64(at, page_check(check, i, at, len));
		at += len;
	}
}

static void
put_items(const struct pri_level1_writer *w, bool pages, uint8_t *at, size_t data)
{
	memcpy(at, w->items, (size_t)w->segments * PRI_LEVEL1_ITEM);
	for (unsigned i = 0; i < w->segments; i++, at += PRI_LEVEL1_ITEM) {
		pr_put_le32(at + 8, pr_get_le32(at + 8) + (uint32_t)data);
		at[12] = pages && w->keyed[i];
	}
}

static uint8_t *
put_top(uint8_t *at, const struct pri_level1_top *top)
{
	pr_put_le32(at, top->len);
	pr_put_le32(at + 4, top->packets);
	pr_put_le64(at + 8, top->bytes);
	memcpy(at + 16, top->address, top->len);
	return at + 16 + top->len;
}

static void
put_header(const struct pri_level1_writer *w, const struct pri_level1_keys *keys,
	uint16_t link, uint8_t *out)
{
	memset(out, 0, PRI_LEVEL1_HEADER);
	pr_put_le32(out, PRI_LEVEL1_MAGIC);
	pr_put_le16(out + 4, PRI_LEVEL1_VERSION);
	pr_put_le16(out + 6, link);
	pr_put_le64(out + 8, w->first_sequence);
	pr_put_le16(out + 16, (uint16_t)w->segments);
	memcpy(out + 28, w->composites.masks, sizeof(w->composites.masks));
	pr_put_le16(out + 40, (uint16_t)keys->pages);
	pr_put_le16(out + 42, (uint16_t)keys->low_bits);
	pr_put_le16(out + 44, (uint16_t)keys->hash_bits);
}

size_t
pri_level1_finish(struct pri_level1_writer *w, uint16_t link,
	const struct pri_heavy_hitters *hitters, uint8_t *out)
{
	uint8_t *lens = out + PRI_LEVEL1_HEADER + (size_t)w->segments * PRI_LEVEL1_ITEM;
	uint8_t *pages, *data, *at;
	struct pri_level1_keys keys;
	struct pri_level1_top tops[PRI_LEVEL1_TOPS_MAX];
	size_t top_count = pri_heavy_hitters_best(hitters, tops);
	uint64_t check, packets = hitters->packets_short;

	pri_level1_keys_sort(&keys, w->hashes, w->ends, w->segments,
		w->max > fixed_size(w) ? w->max - fixed_size(w) : 0);
	pages = lens + 2 * (keys.pages + 1);
	data = pages + pri_level1_keys_put(&keys, pages, lens);
	pr_put_le16(lens + 2 * keys.pages, RESERVED_PAGE);
	data += RESERVED_PAGE;
	at = data + w->used;
	put_header(w, &keys, link, out);
	put_items(w, keys.pages > 0, out + PRI_LEVEL1_HEADER, (size_t)(data - out));
	memcpy(data, w->data, w->used);
	pr_put_le16(out + 18, (uint16_t)top_count);
	pr_put_le32(out + 20, (uint32_t)(at - out));
	pr_put_le32(out + 24, packets < UINT32_MAX ? (uint32_t)packets : UINT32_MAX);
	pr_put_le64(out + 32, hitters->bytes_short);
	check = head_check(out, (size_t)(pages - out));
	pr_put_le64(out + 48, check);
	check_pages(check, lens, keys.pages, pages);
	for (size_t i = 0; i < top_count; i++)
		at = put_top(at, &tops[i]);
	return (size_t)(at - out);
}
