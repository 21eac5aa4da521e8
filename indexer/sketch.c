/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/sketch.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "proto/base/clock.h"
#include "proto/wire/segment.h"

/* Packets whose fields are equal. */
struct pr_kind {
	struct pr_fields fields;
	uint64_t hash;
	uint64_t packets, bytes;
};

void
pr_sketch_free(struct pr_sketch *s)
{
	pr_hashset_free(&s->keys);
	pr_hashset_free(&s->wide);
	free(s->series);
	free(s->held);
	free(s->kinds);
	free(s->slots);
	free(s->seqs);
	*s = (struct pr_sketch){.composites = s->composites};
}

static int
no_memory(struct pr_error *err)
{
	return pr_error_set(err, "no memory for indexing");
}

/* ---- kinds of packets ---- */

static size_t
slots_for(size_t kinds)
{
	size_t slots = 64;

	while (slots < 2 * kinds)
		slots *= 2;
	return slots;
}

/* Room for so many packets, all different, at once: then nothing can fail on the way. */
static int
prepare(struct pr_sketch *s, size_t packets, struct pr_error *err)
{
	size_t slots = slots_for(packets);

	if (packets > s->kind_room) {
		free(s->kinds);
		free(s->seqs);
		s->kind_room = 0;
		s->kinds = malloc(packets * sizeof(*s->kinds));
		s->seqs = malloc(packets * sizeof(*s->seqs));
		if (!s->kinds || !s->seqs)
			return no_memory(err);
		s->kind_room = packets;
	}
	if (slots > s->slot_room) {
		free(s->slots);
		s->slot_room = 0;
		s->slots = malloc(slots * sizeof(*s->slots));
		if (!s->slots)
			return no_memory(err);
		s->slot_room = slots;
	}
	memset(s->slots, 0, slots * sizeof(*s->slots));
	memset(s->buckets, 0, sizeof(s->buckets));
	pr_hashset_clear(&s->keys);
	pr_hashset_clear(&s->wide);
	s->kind_count = s->seq_count = 0;
	return 0;
}

/* The bytes are compared too: whoever makes two kinds of one hash must not hide one of them. */
static void
count_kind(struct pr_sketch *s, size_t slots, const struct pr_fields *f, uint32_t len)
{
	size_t bytes = pr_fields_bytes(f), at;
	uint64_t hash = XXH3_64bits(f, bytes);
	struct pr_kind *k;

	for (at = hash & (slots - 1); s->slots[at]; at = (at + 1) & (slots - 1)) {
		k = &s->kinds[s->slots[at] - 1];
		if (k->hash == hash && !memcmp(&k->fields, f, bytes)) {
			k->packets++;
			k->bytes += len;
			return;
		}
	}
	k = &s->kinds[s->kind_count++];
	s->slots[at] = (uint32_t)s->kind_count;
	k->fields = *f;
	k->hash = hash;
	k->packets = 1;
	k->bytes = len;
}

/* ---- packets ---- */

/* Whole seconds, rounded down, also before 1970. */
static int64_t
second_of(int64_t time)
{
	return time / PR_NS_PER_S - (time % PR_NS_PER_S < 0);
}

static uint8_t
series_width(const struct pr_segment_header *h)
{
	uint64_t span = (uint64_t)second_of(h->max_time) - (uint64_t)second_of(h->min_time);
	uint8_t width = 0;

	while (span >> width >= PR_LEVEL1_BUCKETS)
		width++;
	return width;
}

/* A header may lie of its times; what lies outside then counts at the ends. */
static void
count_time(
	struct pr_sketch *s, const struct pr_segment_header *h, const struct pr_packet *p)
{
	int64_t first = second_of(h->min_time), now = second_of(p->time);
	uint64_t at =
		now > first ? ((uint64_t)now - (uint64_t)first) >> s->series_width : 0;

	if (at >= PR_LEVEL1_BUCKETS)
		at = PR_LEVEL1_BUCKETS - 1;
	s->buckets[at].packets++;
	s->buckets[at].bytes += p->len;
}

static void
count_length(struct pr_sketch *s, uint32_t len)
{
	if (len < s->len_min)
		s->len_min = len;
	if (len > s->len_max)
		s->len_max = len;
}

static int
take_packets(struct pr_sketch *s, struct pr_segment_reader *r, size_t slots)
{
	const struct pr_layout *layout = pr_layout_find(r->header.linktype);
	uint64_t first = r->header.first_seq;
	struct pr_fields fields;
	struct pr_packet p;
	int rc;

	s->indexed = layout != NULL;
	s->len_min = UINT32_MAX;
	s->len_max = 0;
	s->series_width = series_width(&r->header);
	while ((rc = pr_segment_next(r, &p, NULL)) == 1) {
		s->seqs[s->seq_count++] = p.seq - first;
		count_length(s, p.len);
		count_time(s, &r->header, &p);
		if (!layout)
			continue;
		pr_fields_of_packet(layout, p.data, p.caplen, &fields);
		count_kind(s, slots, &fields, p.len);
	}
	return rc;
}

/* ---- keys ---- */

static int
add_key(struct pr_sketch *s, const struct pr_key *key)
{
	uint64_t hash = pr_key_hash(key);
	struct pr_key either;
	int rc = pr_hashset_add(&s->keys, hash);

	if (rc != 1 || key->kind == PR_KEY_FLOW)
		return rc;
	either = pr_key_either(key);
	if (either.kind != key->kind)
		hash = pr_key_hash(&either);
	return pr_hashset_add(&s->wide, hash);
}

/* Level 2 has none of them, so they do not go into wide. */
static int
add_composites(struct pr_sketch *s, const struct pr_fields *f)
{
	struct pr_key keys[PR_COMPOSITE_KEYS];

	for (size_t i = 0; i < PR_COMPOSITES_MAX && s->composites.masks[i]; i++) {
		size_t count = pr_composite_keys(f, s->composites.masks[i], keys);

		for (size_t j = 0; j < count; j++)
			if (pr_hashset_add(&s->keys, pr_key_hash(&keys[j])) < 0)
				return -1;
	}
	return 0;
}

static void
set_bit(uint8_t *bits, unsigned at)
{
	bits[at / 8] |= (uint8_t)(1u << at % 8);
}

static void
count_port(struct pr_sketch *s, uint16_t port, uint16_t *least, uint16_t *most)
{
	if (port < *least)
		*least = port;
	if (port > *most)
		*most = port;
	set_bit(s->ports, pr_port_interval(port));
}

static void
count_numbers(struct pr_sketch *s, const struct pr_fields *f)
{
	if (f->have & PR_FIELD_SPORT)
		count_port(s, f->sport, &s->sport_min, &s->sport_max);
	if (f->have & PR_FIELD_DPORT)
		count_port(s, f->dport, &s->dport_min, &s->dport_max);
	if (f->address_len == 4 && f->have & PR_FIELD_SRC)
		set_bit(s->octets, f->src[0]);
	if (f->address_len == 4 && f->have & PR_FIELD_DST)
		set_bit(s->octets, f->dst[0]);
}

static int
take_kinds(struct pr_sketch *s, struct pr_error *err)
{
	struct pr_key keys[PR_KEYS_MAX];
	struct pr_fields none = {0};
	const struct pr_fields *last = &none;

	s->sport_min = s->dport_min = UINT16_MAX;
	s->sport_max = s->dport_max = 0;
	memset(s->ports, 0, sizeof(s->ports));
	memset(s->octets, 0, sizeof(s->octets));
	for (size_t i = 0; i < s->kind_count; i++) {
		const struct pr_kind *k = &s->kinds[i];
		size_t count = pr_keys_but(&k->fields, last, keys);

		for (size_t j = 0; j < count; j++)
			if (add_key(s, &keys[j]) < 0)
				return no_memory(err);
		if (add_composites(s, &k->fields) < 0)
			return no_memory(err);
		count_numbers(s, &k->fields);
		last = &k->fields;
	}
	return 0;
}

/* ---- what is encoded ---- */

#define VARINT_MAX 10

static size_t
put_varint(uint8_t *at, uint64_t v)
{
	size_t n = 0;

	for (; v >= 0x80; v >>= 7)
		at[n++] = (uint8_t)(v | 0x80);
	at[n++] = (uint8_t)v;
	return n;
}

static int
grow(uint8_t **buf, size_t *room, size_t want)
{
	uint8_t *grown;

	if (want <= *room)
		return 0;
	grown = realloc(*buf, want);
	if (!grown)
		return -1;
	*buf = grown;
	*room = want;
	return 0;
}

static int
encode_series(struct pr_sketch *s)
{
	uint64_t last = 0;

	if (grow(&s->series, &s->series_room, PR_LEVEL1_BUCKETS * 3 * VARINT_MAX) < 0)
		return -1;
	s->series_len = 0;
	for (uint64_t i = 0; i < PR_LEVEL1_BUCKETS; i++) {
		if (!s->buckets[i].packets)
			continue;
		s->series_len += put_varint(s->series + s->series_len, i - last);
		s->series_len +=
			put_varint(s->series + s->series_len, s->buckets[i].packets);
		s->series_len += put_varint(s->series + s->series_len, s->buckets[i].bytes);
		last = i;
	}
	return 0;
}

static size_t
put_runs(const struct pr_sketch *s, uint8_t *out, size_t max)
{
	size_t used = 0;

	for (size_t i = 1; i < s->seq_count;) {
		uint64_t step = s->seqs[i] - s->seqs[i - 1], repeat = 0;

		for (; i < s->seq_count && s->seqs[i] - s->seqs[i - 1] == step; i++)
			repeat++;
		if (used + 2 * VARINT_MAX > max)
			return SIZE_MAX;
		used += put_varint(out + used, step);
		used += put_varint(out + used, repeat);
	}
	return used;
}

/* Spread in turn gives runs, by flow gives bits; whatever is shorter. */
static int
encode_held(struct pr_sketch *s)
{
	uint64_t span = s->seqs[s->seq_count - 1];
	size_t bits = span / 8 + 1, runs = s->seq_count * 2 * VARINT_MAX, room;

	s->held_form = PR_HELD_ALL;
	s->held_len = 0;
	if (span == s->seq_count - 1)
		return 0;
	room = (bits < runs ? bits : runs) + 2 * VARINT_MAX;
	if (grow(&s->held, &s->held_room, room) < 0)
		return -1;
	s->held_form = PR_HELD_RUNS;
	s->held_len = put_runs(s, s->held, room);
	if (s->held_len <= bits)
		return 0;
	s->held_form = PR_HELD_BITS;
	s->held_len = bits;
	memset(s->held, 0, bits);
	for (size_t i = 0; i < s->seq_count; i++)
		s->held[s->seqs[i] / 8] |= (uint8_t)(1u << s->seqs[i] % 8);
	return 0;
}

int
pr_sketch_segment(struct pr_sketch *s, const void *body, size_t len, struct pr_error *err)
{
	struct pr_segment_reader r;

	if (pr_segment_open(&r, body, len, err) < 0 || r.header.flags & PR_SEGMENT_MIXED)
		return 1;
	if (prepare(s, r.header.count, err) < 0)
		return -1;
	if (take_packets(s, &r, slots_for(r.header.count)) < 0)
		return 1;
	if (take_kinds(s, err) < 0)
		return -1;
	return encode_series(s) < 0 || encode_held(s) < 0 ? no_memory(err) : 0;
}

/* ---- heavy hitters ---- */

/* A packet from an address to itself counts once. */
static void
count_tops(struct pr_tops *tops, const struct pr_kind *k)
{
	const struct pr_fields *f = &k->fields;
	bool src = f->have & PR_FIELD_SRC, dst = f->have & PR_FIELD_DST;

	if (src)
		pr_tops_add(tops, f->src, f->address_len, k->packets, k->bytes);
	if (dst && !(src && !memcmp(f->src, f->dst, f->address_len)))
		pr_tops_add(tops, f->dst, f->address_len, k->packets, k->bytes);
}

void
pr_sketch_tops(const struct pr_sketch *s, struct pr_tops *tops)
{
	for (size_t i = 0; i < s->kind_count; i++)
		count_tops(tops, &s->kinds[i]);
}
