/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/index/level1.h"

#include "indexer/index/level1_pages.h"
#include "indexer/index/segment_keys.h"
#include "proto/base/field_table.h"

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

static const struct pr_field item_rows[] = {
	PR_INTS(pri_level1_segment, proof, data_at, keyed), PR_ZEROS(3),
	PR_INTS(pri_level1_segment, series_len, series_width, held_form, held_len, len_min,
		len_max, sport_min, sport_max),
	PR_INTS(pri_level1_segment, dport_min, dport_max, ports, octets)};
static const struct pr_field_table item_fields = PR_FIELD_TABLE(item_rows);

#define COMPOSITES 28
static const struct pr_field head_rows[] = {PR_ZEROS(6),
	PR_INTS(pri_level1, link, first_sequence, segments, tops, tops_at, packets_short),
	PR_ZEROS(4), PR_INTS(pri_level1, bytes_short, pages, low_bits, hash_bits),
	PR_ZEROS(2), PR_INTS(pri_level1, check)};
static const struct pr_field_table head_fields = PR_FIELD_TABLE(head_rows);

static const uint8_t *
page_lens(const struct pri_level1 *l)
{
	return item_at(l, l->segments);
}

static bool
items_valid(const struct pri_level1 *l, size_t total)
{
	size_t at = pri_level1_head(l->segments, l->pages), len, least;
	bool keyed = false;

	for (unsigned i = 0; i < l->segments; i++) {
		const uint8_t *item = item_at(l, i);

		len = (size_t)pr_get_le16(item + 16) + pr_get_le32(item + 20);
		keyed |= item[12];
		if (item[18] >= 64 || item[19] > PRI_HELD_BITS ||
			!within(pr_get_le32(item + 8), len, total))
			return false;
	}
	for (uint32_t i = 0; i <= l->pages; i++, at += len) {
		len = pr_get_le16(page_lens(l) + 2 * i);
		least = i < l->pages ? PAGE_HEADER : RESERVED_PAGE;
		if (len < least || !within(at, len, total))
			return false;
	}
	/* a record without keyed segments needs no pages */
	return (l->pages || !keyed) && l->low_bits <= PRI_LEVEL1_LOW_MAX &&
	       l->hash_bits > 0 && l->hash_bits <= 32;
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
	struct pr_cursor c = pr_cursor_make(body, len);

	if (len < PRI_LEVEL1_HEADER || len > total || pr_get_le32(p) != PRI_LEVEL1_MAGIC)
		return pr_error_set(err, "index: not a record of level 1");
	if (pr_get_le16(p + 4) != PRI_LEVEL1_VERSION)
		return pr_error_set(err, "index: version %u, this program reads version %u",
			pr_get_le16(p + 4), PRI_LEVEL1_VERSION);
	*l = (struct pri_level1){.body = p, .len = len, .whole = len == total};
	size_t head = pri_level1_head_of(p);
	if (!pr_field_table_load(&c, l, &head_fields, PR_LITTLE_ENDIAN) ||
		l->segments == 0 || l->segments > PRI_LEVEL1_SEGMENTS_MAX ||
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
	struct pr_cursor c = pr_cursor_make(item_at(l, index), PRI_LEVEL1_ITEM);

	*s = (struct pri_level1_segment){.index = index,
		.composites = l->body + COMPOSITES,
		.series = l->body,
		.held = l->body};
	if (!pr_field_table_load(&c, s, &item_fields, PR_LITTLE_ENDIAN))
		s->keyed = false; /* cannot happen: an item has all its bytes */
	if (!l->whole) {
		s->series_len = 0;
		s->held_len = 0;
		return;
	}
	s->series = l->body + s->data_at;
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
	return any_bit(s->ports, pri_port_interval((uint16_t)PR_MAX(least, min)),
		pri_port_interval((uint16_t)PR_MIN(most, max)));
}

bool
pri_level1_has_range(const struct pri_level1_segment *s, enum pri_number number,
	int64_t least, int64_t most)
{
	if (least > most)
		return false;
	if (number == PRI_NUMBER_LENGTH)
		return overlaps(least, most, s->len_min, s->len_max);
	if (!s->keyed || number == PRI_NUMBER_TIME)
		return true;
	if (number == PRI_NUMBER_SPORT)
		return has_port(s, least, most, s->sport_min, s->sport_max);
	if (number == PRI_NUMBER_DPORT)
		return has_port(s, least, most, s->dport_min, s->dport_max);
	return overlaps(least, most, 0, UINT32_MAX) &&
	       any_bit(s->octets, least > 0 ? least >> 24 : 0,
		       most < UINT32_MAX ? most >> 24 : 255);
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

bool
pri_held_walk_next(struct pri_held_walk *w, uint64_t *seq)
{
	struct pr_cursor c = {w->at, w->end};

	if (w->form == PRI_HELD_RUNS) {
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
	*at = c.at - s->series;
	return true;
}

/* ---- writing ---- */

#define TOP_BYTES 32
#define LOW_WANTED 8 /* low bits of a hash that must fit in a record of several segments */

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
	PR_FREE(w, data, hashes);
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

	return PR_MIN(size, PR_MAX(w->max, fixed_size(w)));
}

/* ---- one segment more ---- */

static void
put_segment(struct pri_level1_writer *w, uint64_t proof, const struct pri_segment_keys *s)
{
	struct pri_level1_segment *item = &w->items[w->segments];
	size_t count = s->item.keyed ? s->keys.count : 0;

	*item = s->item;
	item->proof = proof;
	item->data_at = w->used;
	memcpy(w->data + w->used, s->series, item->series_len);
	w->used += item->series_len;
	if (item->held_len)
		memcpy(w->data + w->used, s->held, item->held_len);
	w->used += item->held_len;
	if (count)
		memcpy(w->hashes + w->count, s->keys.items, count * sizeof(*w->hashes));
	w->count += count;
	w->ends[w->segments++] = w->count;
}

int
pri_level1_add(struct pri_level1_writer *w, uint64_t sequence, uint64_t proof,
	const struct pri_segment_keys *s, size_t max)
{
	size_t used = w->used, count = w->count;

	if (w->segments == PRI_LEVEL1_SEGMENTS_MAX)
		return 0;
	if (PR_ARRAY_RESERVE(w->data, w->room,
		    w->used + s->item.series_len + s->item.held_len) < 0 ||
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

/* The head without its check; its items' data is at `data`. */
static void
put_head(const struct pri_level1_writer *w, const struct pri_level1 *l, size_t data,
	uint8_t *out)
{
	struct pr_writer to = pr_writer_make(
		out, PRI_LEVEL1_HEADER + (size_t)w->segments * PRI_LEVEL1_ITEM);
	bool fits = pr_field_table_store(&to, l, &head_fields, PR_LITTLE_ENDIAN);

	for (unsigned i = 0; i < w->segments; i++) {
		struct pri_level1_segment item = w->items[i];

		item.data_at += data;
		item.keyed = l->pages && item.keyed;
		fits &= pr_field_table_store(&to, &item, &item_fields, PR_LITTLE_ENDIAN);
	}
	(void)fits; /* there is room for all */
	pr_put_le32(out, PRI_LEVEL1_MAGIC);
	pr_put_le16(out + 4, PRI_LEVEL1_VERSION);
	memcpy(out + COMPOSITES, w->composites.masks, sizeof(w->composites.masks));
}

size_t
pri_level1_finish(
	struct pri_level1_writer *w, uint16_t link, struct pr_tally *hitters, uint8_t *out)
{
	uint8_t *lens = out + PRI_LEVEL1_HEADER + (size_t)w->segments * PRI_LEVEL1_ITEM;
	struct pri_level1_keys keys;
	const Packrack__Tally *sums = pr_tally_total(hitters);
	struct pri_level1 l = {.link = link,
		.first_sequence = w->first_sequence,
		.segments = w->segments,
		.packets_short = PR_MIN(sums->slack_packets, UINT32_MAX),
		.bytes_short = sums->slack_bytes};
	size_t len, tops;

	pr_tally_cut(hitters, PRI_LEVEL1_TOPS_MAX);
	const struct pr_tally_item *top = pr_tally_items(hitters, &tops);
	l.tops = tops;
	pri_level1_keys_sort(&keys, w->hashes, w->ends, w->segments,
		w->max > fixed_size(w) ? w->max - fixed_size(w) : 0);
	PR_COPY(&l, &keys, pages, low_bits, hash_bits);
	uint8_t *pages = lens + 2 * (keys.pages + 1);
	uint8_t *data = pages + pri_level1_keys_put(&keys, pages, lens) + RESERVED_PAGE;
	pr_put_le16(lens + 2 * keys.pages, RESERVED_PAGE);
	memcpy(data, w->data, w->used);
	uint8_t *at = data + w->used;
	l.tops_at = at - out;
	put_head(w, &l, data - out, out);
	l.check = head_check(out, pages - out);
	pr_put_le64(out + CHECKED, l.check);
	for (uint32_t i = 0; i <= keys.pages; i++, pages += len) {
		len = pr_get_le16(lens + 2 * i);
		pr_put_le64(pages, page_check(l.check, i, pages, len));
	}
	for (; tops-- > 0; top++) {
		pr_put_le32(at, top->len);
		pr_put_le32(at + 4, PR_MIN(top->packets, UINT32_MAX));
		pr_put_le64(at + 8, top->bytes);
		memcpy(at + TOP_HEADER, top->key, top->len);
		at += top_len(top->len);
	}
	return at - out;
}
