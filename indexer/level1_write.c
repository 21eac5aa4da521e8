/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "indexer/level1.h"
#include "indexer/signature.h"
#include "indexer/sketch.h"
#include "proto/wire/cursor.h"

#define TOP_BYTES 32

void
pr_level1_begin(struct pr_level1_writer *w)
{
	w->used = 0;
	w->segments = 0;
}

void
pr_level1_free(struct pr_level1_writer *w)
{
	free(w->data);
	*w = (struct pr_level1_writer){0};
}

static size_t
fixed(unsigned segments)
{
	return PR_LEVEL1_HEADER + (size_t)segments * PR_LEVEL1_ITEM +
	       PR_LEVEL1_TOPS_MAX * TOP_BYTES;
}

size_t
pr_level1_size(const struct pr_level1_writer *w)
{
	return fixed(w->segments) + w->used;
}

static int
make_room(struct pr_level1_writer *w, size_t more)
{
	size_t room = w->used + more;
	uint8_t *grown;

	if (room <= w->room)
		return 0;
	room += room / 2;
	grown = realloc(w->data, room);
	if (!grown)
		return -1;
	w->data = grown;
	w->room = room;
	return 0;
}

/* What may not fit is the signature: better more false positives than none at all. */
static uint32_t
bits_for(const struct pr_sketch *s, size_t room)
{
	uint32_t bits = s->indexed ? pr_signature_bits(s->keys.count) : 0;
	size_t least = s->series_len + s->held_len;

	if (least >= room)
		return 0;
	room = (room - least) * 8 & ~(size_t)63;
	return bits < room ? bits : (uint32_t)room;
}

static void
put_item(uint8_t *at, uint64_t proof, const struct pr_sketch *s, uint32_t bits, size_t data)
{
	memset(at, 0, PR_LEVEL1_ITEM);
	pr_put_le64(at, proof);
	pr_put_le32(at + 8, (uint32_t)data); /* made absolute at the end */
	pr_put_le32(at + 12, bits);
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
	memcpy(at + 40, s->ports, PR_LEVEL1_PORTS);
	memcpy(at + 64, s->octets, PR_LEVEL1_OCTETS);
}

static void
put_data(uint8_t *at, const struct pr_sketch *s, uint32_t bits)
{
	memset(at, 0, bits / 8);
	for (size_t i = 0; bits && i < s->keys.count; i++)
		pr_signature_add(at, bits, s->keys.items[i]);
	memcpy(at + bits / 8, s->series, s->series_len);
	if (s->held_len)
		memcpy(at + bits / 8 + s->series_len, s->held, s->held_len);
}

int
pr_level1_add(struct pr_level1_writer *w, uint64_t sequence, uint64_t proof,
	const struct pr_sketch *s, size_t max)
{
	size_t least = fixed(w->segments + 1) + w->used;
	uint32_t bits = bits_for(s, max > least ? max - least : 0);
	size_t len = bits / 8 + s->series_len + s->held_len;

	if (w->segments == PR_LEVEL1_SEGMENTS_MAX)
		return 0;
	if (w->segments && (least + len > max ||
				   (s->indexed && bits < pr_signature_bits(s->keys.count))))
		return 0;
	if (make_room(w, len) < 0)
		return -1;
	if (w->segments == 0)
		w->first_sequence = sequence;
	put_item(
		w->items + (size_t)w->segments++ * PR_LEVEL1_ITEM, proof, s, bits, w->used);
	put_data(w->data + w->used, s, bits);
	w->used += len;
	return 1;
}

static uint8_t *
put_top(uint8_t *at, const struct pr_level1_top *top)
{
	pr_put_le32(at, top->len);
	pr_put_le32(at + 4, top->packets);
	pr_put_le64(at + 8, top->bytes);
	memcpy(at + 16, top->address, top->len);
	return at + 16 + top->len;
}

size_t
pr_level1_finish(const struct pr_level1_writer *w, uint16_t link,
	const struct pr_level1_top *tops, size_t top_count, uint32_t packets_short,
	uint64_t bytes_short, uint8_t *out)
{
	size_t items = (size_t)w->segments * PR_LEVEL1_ITEM,
	       data = PR_LEVEL1_HEADER + items;
	uint8_t *at = out + data + w->used;

	memset(out, 0, PR_LEVEL1_HEADER);
	pr_put_le32(out, PR_LEVEL1_MAGIC);
	pr_put_le16(out + 4, PR_LEVEL1_VERSION);
	pr_put_le16(out + 6, link);
	pr_put_le64(out + 8, w->first_sequence);
	pr_put_le16(out + 16, (uint16_t)w->segments);
	pr_put_le16(out + 18, (uint16_t)top_count);
	pr_put_le32(out + 20, (uint32_t)(data + w->used));
	pr_put_le32(out + 24, packets_short);
	memcpy(out + 28, w->composites.masks, sizeof(w->composites.masks));
	pr_put_le64(out + 32, bytes_short);
	memcpy(out + PR_LEVEL1_HEADER, w->items, items);
	memcpy(out + data, w->data, w->used);
	for (uint8_t *item = out + PR_LEVEL1_HEADER; item < out + data;
		item += PR_LEVEL1_ITEM)
		pr_put_le32(item + 8, pr_get_le32(item + 8) + (uint32_t)data);
	for (size_t i = 0; i < top_count; i++)
		at = put_top(at, &tops[i]);
	return (size_t)(at - out);
}
