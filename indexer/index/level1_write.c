/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "indexer/index/level1_format.h"
#include "indexer/index/level1_keys.h"
#include "indexer/index/segment_keys.h"
#include "proto/wire/cursor.h"

_Static_assert(
	SOLES_HEADER + SOLE * PRI_LEVEL1_SEGMENTS_MAX * PRI_LEVEL1_SOLES <= UINT16_MAX,
	"the bytes of soles");

#define TOP_BYTES 32
#define LOW_WANTED 8 /* bits that there must be room for, of a record of several segments */

void
pri_level1_begin(struct pri_level1_writer *w)
{
	w->used = 0;
	w->count = 0;
	w->segments = 0;
	w->sole_count = w->recent_count = 0;
}

void
pri_level1_free(struct pri_level1_writer *w)
{
	free(w->data);
	free(w->hashes);
	*w = (struct pri_level1_writer){0};
}

static size_t
fixed(const struct pri_level1_writer *w)
{
	return pri_level1_head(w->segments, 0) + PRI_LEVEL1_TOPS_MAX * TOP_BYTES +
	       SOLES_HEADER + SOLE * w->sole_count + w->used;
}

size_t
pri_level1_size(const struct pri_level1_writer *w)
{
	size_t size =
		fixed(w) + pri_level1_keys_bound(w->count, w->segments, PRI_LEVEL1_LOW_MAX);

	return size < w->max ? size : w->max > fixed(w) ? w->max : fixed(w);
}

/* ---- one segment more ---- */

static int
make_room(struct pri_level1_writer *w, size_t more, size_t hashes)
{
	size_t room = w->used + more, hash_room = w->count + hashes;
	uint64_t *grown_hashes;
	uint8_t *grown;

	if (room > w->room) {
		room += room / 2;
		grown = realloc(w->data, room);
		if (!grown)
			return -1;
		w->data = grown;
		w->room = room;
	}
	if (hash_room > w->hash_room) {
		hash_room += hash_room / 2;
		grown_hashes = realloc(w->hashes, 2 * hash_room * sizeof(*grown_hashes));
		if (!grown_hashes)
			return -1;
		w->hashes = grown_hashes;
		w->hash_room = hash_room;
	}
	return 0;
}

static void
put_item(uint8_t *at, uint64_t proof, const struct pri_segment_keys *s, size_t data)
{
	memset(at, 0, PRI_LEVEL1_ITEM);
	pr_put_le64(at, proof);
	pr_put_le32(at + 8, (uint32_t)data); /* made absolute at the end */
	at[13] = s->indexed && s->sockets;
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

/* Has the segment before this, too? Then it is one with that. */
static bool
extend_sole(struct pri_level1_writer *w, const struct pri_sole *sole)
{
	for (size_t i = 0; i < w->recent_count; i++) {
		const struct pri_sole *recent = &w->soles[w->recent[i]].sole;

		if (recent->a != sole->a || recent->other != sole->other ||
			recent->both != sole->both)
			continue;
		w->soles[w->recent[i]].last = (uint8_t)w->segments;
		return true;
	}
	return false;
}

static void
add_soles(struct pri_level1_writer *w, const struct pri_segment_keys *s)
{
	size_t count = s->indexed ? s->sole_count : 0, at = w->sole_count, kept = 0;

	for (size_t i = 0; i < count; i++) {
		if (extend_sole(w, &s->soles[i]))
			continue;
		w->soles[w->sole_count].sole = s->soles[i];
		w->soles[w->sole_count].first = (uint8_t)w->segments;
		w->soles[w->sole_count++].last = (uint8_t)w->segments;
	}
	for (size_t i = 0; i < w->recent_count; i++)
		if (w->soles[w->recent[i]].last == w->segments)
			w->recent[kept++] = w->recent[i];
	for (; at < w->sole_count; at++)
		w->recent[kept++] = (uint16_t)at;
	w->recent_count = kept;
}

/* The last segment is none of this record. */
static void
drop_soles(struct pri_level1_writer *w, size_t count)
{
	w->sole_count = count;
	for (size_t i = 0; i < count; i++)
		if (w->soles[i].last == w->segments)
			w->soles[i].last--;
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
	add_soles(w, s);
	w->ends[w->segments] = w->count;
	w->keyed[w->segments++] = s->indexed;
}

int
pri_level1_add(struct pri_level1_writer *w, uint64_t sequence, uint64_t proof,
	const struct pri_segment_keys *s, size_t max)
{
	size_t used = w->used, count = w->count, soles = w->sole_count;

	if (w->segments == PRI_LEVEL1_SEGMENTS_MAX)
		return 0;
	if (make_room(w, s->series_len + s->held_len, s->keys.count) < 0)
		return -1;
	if (w->segments == 0)
		w->first_sequence = sequence;
	put_segment(w, proof, s);
	w->max = max;
	if (w->segments == 1 ||
		fixed(w) + pri_level1_keys_bound(w->count, w->segments, LOW_WANTED) <= max)
		return 1;
	w->segments--;
	drop_soles(w, soles);
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

static size_t
put_soles(const struct pri_level1_writer *w, uint8_t *out)
{
	uint8_t *at = out + SOLES_HEADER;

	for (size_t i = 0; i < w->sole_count; i++, at += SOLE) {
		pr_put_be32(at, w->soles[i].sole.a);
		pr_put_be32(at + 4, w->soles[i].sole.other);
		at[8] = w->soles[i].first | (w->soles[i].sole.both ? SOLE_BOTH : 0);
		at[9] = w->soles[i].last;
	}
	return (size_t)(at - out);
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
	const struct pri_level1_top *tops, size_t top_count, uint32_t packets_short,
	uint64_t bytes_short, uint8_t *out)
{
	uint8_t *lens = out + PRI_LEVEL1_HEADER + (size_t)w->segments * PRI_LEVEL1_ITEM;
	uint8_t *pages, *data, *at;
	struct pri_level1_keys keys;
	uint64_t check;
	size_t soles;

	pri_level1_keys_sort(&keys, w->hashes, w->ends, w->segments,
		w->max > fixed(w) ? w->max - fixed(w) : 0);
	pages = lens + 2 * (keys.pages + 1);
	data = pages + pri_level1_keys_put(&keys, pages, lens);
	soles = put_soles(w, data);
	pr_put_le16(lens + 2 * keys.pages, (uint16_t)soles);
	data += soles;
	at = data + w->used;
	put_header(w, &keys, link, out);
	put_items(w, keys.pages > 0, out + PRI_LEVEL1_HEADER, (size_t)(data - out));
	memcpy(data, w->data, w->used);
	pr_put_le16(out + 18, (uint16_t)top_count);
	pr_put_le32(out + 20, (uint32_t)(at - out));
	pr_put_le32(out + 24, packets_short);
	pr_put_le64(out + 32, bytes_short);
	check = head_check(out, (size_t)(pages - out));
	pr_put_le64(out + 48, check);
	check_pages(check, lens, keys.pages, pages);
	for (size_t i = 0; i < top_count; i++)
		at = put_top(at, &tops[i]);
	return (size_t)(at - out);
}
