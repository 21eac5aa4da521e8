/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/index/segment_keys.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "indexer/index/kinds_plain.h"
#include "proto/base/clock.h"
#include "proto/base/room.h"
#include "proto/wire/cursor.h"
#include "proto/wire/segment_step.h"

#define LINE 64 /* of a cache */
#define AHEAD 2048

void
pri_segment_keys_free(struct pri_segment_keys *s)
{
	pri_hashset_free(&s->keys);
	pri_hashset_free(&s->wide);
	pri_header_layouts_free(&s->kinds);
	pri_hosts_free(&s->addresses);
	free(s->series);
	free(s->held);
	free(s->seqs);
	*s = (struct pri_segment_keys){.composites = s->composites};
}

static int
no_memory(struct pr_error *err)
{
	return pr_error_set(err, "no memory for indexing");
}

static void
forget(struct pri_segment_keys *s)
{
	pri_hashset_clear(&s->keys);
	pri_hashset_clear(&s->wide);
	memset(s->buckets, 0, sizeof(s->buckets));
	memset(s->seen_ports, 0, sizeof(s->seen_ports));
	memset(s->seen_protocols, 0, sizeof(s->seen_protocols));
	memset(s->links, 0, sizeof(s->links));
	memset(s->pairs, 0, sizeof(s->pairs));
	memset(s->ports, 0, sizeof(s->ports));
	memset(s->octets, 0, sizeof(s->octets));
	s->sport_min = s->dport_min = UINT16_MAX;
	s->sport_max = s->dport_max = 0;
	s->seq_count = 0;
	s->sockets = s->plain_segments == 0;
	s->plain_segments -= s->plain_segments > 0;
	s->socket_count = 0;
}

static int
prepare(struct pri_segment_keys *s, size_t packets, struct pr_error *err)
{
	if (packets > s->seq_room) {
		free(s->seqs);
		s->seq_room = 0;
		s->seqs = malloc(packets * sizeof(*s->seqs));
		if (!s->seqs)
			return no_memory(err);
		s->seq_room = packets;
	}
	if (pri_header_layouts_begin(&s->kinds, packets) < 0 ||
		pri_hosts_begin(&s->addresses, 2 * packets) < 0)
		return no_memory(err);
	forget(s);
	return 0;
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

	while (span >> width >= PRI_LEVEL1_BUCKETS)
		width++;
	return width;
}

/* The interval of the series that the last packet was in: the next one is, too, as a rule. */
struct interval {
	int64_t first; /* ns */
	uint64_t length;
	struct pri_segment_keys_bucket *bucket;
};

/* A header may lie of its times; what lies outside then counts at the ends. */
static void
find_interval(const struct pri_segment_keys *s, int64_t time, struct interval *out)
{
	int64_t first = second_of(s->header.min_time), now = second_of(time);
	uint64_t at =
		now > first ? ((uint64_t)now - (uint64_t)first) >> s->series_width : 0;

	/* of a second: those that lie outside, and those of long intervals, are looked for more often */
	out->first = (int64_t)((uint64_t)now * PR_NS_PER_S);
	out->length = (uint64_t)PR_NS_PER_S;
	if (at >= PRI_LEVEL1_BUCKETS)
		at = PRI_LEVEL1_BUCKETS - 1;
	out->bucket = (struct pri_segment_keys_bucket *)&s->buckets[at];
}

/* Where a packet begins is only known from the one before it: so all lines are called for, in time. */
static inline void
fetch_ahead(const uint8_t *from, const uint8_t *to)
{
	for (; from < to; from += LINE)
		__builtin_prefetch(from + AHEAD);
}

/*
 * Headers that take several looks are copied out: they must not change between one and the next. A plain
 * packet's take one.
 */
static int
take_other(struct pri_segment_keys *s, const struct pri_linktype_layout *layout,
	struct pri_header_layout *kind, const struct pr_segment_step *step)
{
	struct pr_packet p = {.caplen = step->caplen, .len = step->len};
	uint8_t front[PRI_FIELDS_REACH];

	if (p.caplen > PRI_FIELDS_REACH)
		p.caplen = PRI_FIELDS_REACH;
	memcpy(front, step->data, p.caplen);
	atomic_signal_fence(memory_order_seq_cst);
	p.data = front;
	if (!kind)
		kind = pri_header_layouts_add_other(
			&s->kinds, layout, front, p.caplen, p.len);
	if (kind->packets > 1 || !s->composites.masks[0])
		return 0;
	return pri_segment_keys_composites(s, layout, &p);
}

static inline int
take_packet(struct pri_segment_keys *s, const struct pri_linktype_layout *layout,
	bool ether, const struct pr_segment_step *step)
{
	struct pri_header_layout *kind =
		ether ? pri_header_layouts_add_plain(
				&s->kinds, step->data, step->caplen, step->len)
		      : NULL;

	if (__builtin_expect(kind && (kind->packets > 1 || !s->composites.masks[0]), 1))
		return 0;
	return take_other(s, layout, kind, step);
}

/* -1: no memory; 1: the segment is damaged. */
static int
take_packets(struct pri_segment_keys *s, const struct pr_segment_reader *r)
{
	const struct pri_linktype_layout *layout =
		pri_linktype_layout_find(r->header.linktype);
	const bool ether = layout && layout->ether;
	struct interval interval = {0};
	struct pr_segment_walk walk;
	struct pr_segment_step step;
	const uint8_t *from = r->c.at;
	uint32_t least = UINT32_MAX, most = 0;
	uint64_t *seq = s->seqs;
	int rc;

	s->indexed = layout != NULL;
	s->series_width = series_width(&r->header);
	pr_segment_walk_begin(&walk, r);
	while ((rc = pr_segment_walk_next(&walk, &step)) == 1) {
		fetch_ahead(from, walk.at);
		from = walk.at;
		*seq++ = step.seq;
		least = step.len < least ? step.len : least;
		most = step.len > most ? step.len : most;
		if ((uint64_t)step.time - (uint64_t)interval.first >= interval.length)
			find_interval(s, step.time, &interval);
		interval.bucket->packets++;
		interval.bucket->bytes += step.len;
		if (layout && take_packet(s, layout, ether, &step) < 0)
			return -1;
	}
	s->seq_count = (size_t)(seq - s->seqs);
	s->len_min = least;
	s->len_max = most;
	return rc < 0;
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
encode_series(struct pri_segment_keys *s)
{
	uint64_t last = 0;

	if (pr_room_grow(&s->series, &s->series_room, PRI_LEVEL1_BUCKETS * 3 * VARINT_MAX) <
		0)
		return -1;
	s->series_len = 0;
	for (uint64_t i = 0; i < PRI_LEVEL1_BUCKETS; i++) {
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
put_runs(const struct pri_segment_keys *s, uint8_t *out, size_t max)
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
encode_held(struct pri_segment_keys *s)
{
	uint64_t span = s->seqs[s->seq_count - 1];
	size_t bits = span / 8 + 1, runs = s->seq_count * 2 * VARINT_MAX, room;

	s->held_form = PRI_HELD_ALL;
	s->held_len = 0;
	if (span == s->seq_count - 1)
		return 0;
	room = (bits < runs ? bits : runs) + 2 * VARINT_MAX;
	if (pr_room_grow(&s->held, &s->held_room, room) < 0)
		return -1;
	s->held_form = PRI_HELD_RUNS;
	s->held_len = put_runs(s, s->held, room);
	if (s->held_len <= bits)
		return 0;
	s->held_form = PRI_HELD_BITS;
	s->held_len = bits;
	memset(s->held, 0, bits);
	for (size_t i = 0; i < s->seq_count; i++)
		s->held[s->seqs[i] / 8] |= (uint8_t)(1u << s->seqs[i] % 8);
	return 0;
}

static bool
is_sole(const struct pri_host_stats *a, uint32_t least)
{
	return a->len == 4 && a->packets >= least && a->peer && a->peer != PRI_HOST_SEVERAL;
}

/* false: there are more than can be told. */
static bool
take_soles(struct pri_segment_keys *s, uint32_t least)
{
	const struct pri_host_stats *items = s->addresses.items;

	s->sole_count = 0;
	for (size_t i = 0; i < s->addresses.count; i++) {
		const struct pri_host_stats *a = &items[i], *other;
		bool both;

		if (!is_sole(a, least))
			continue;
		other = &items[a->peer - 1];
		both = other->peer == i + 1;
		if (both && other < a)
			continue;
		if (s->sole_count == PRI_LEVEL1_SOLES)
			return false;
		s->soles[s->sole_count++] = (struct pri_sole){
			pr_get_be32(a->bytes), pr_get_be32(other->bytes), both};
	}
	return true;
}

static void
find_soles(struct pri_segment_keys *s)
{
	if (!take_soles(s, PRI_SEGMENT_KEYS_SOLE))
		take_soles(s, PRI_SEGMENT_KEYS_SOLE_OF_MANY);
}

int
pri_segment_keys_take(
	struct pri_segment_keys *s, const void *body, size_t len, struct pr_error *err)
{
	struct pr_segment_reader r;
	int rc;

	if (pr_segment_open(&r, body, len, err) < 0 || r.header.flags & PR_SEGMENT_MIXED)
		return 1;
	s->header = r.header;
	if (prepare(s, r.header.count, err) < 0)
		return -1;
	rc = take_packets(s, &r);
	if (rc != 0)
		return rc < 0 ? no_memory(err) : 1;
	if (pri_segment_keys_kinds(s) < 0 || encode_series(s) < 0 || encode_held(s) < 0)
		return no_memory(err);
	find_soles(s);
	return 0;
}

void
pri_segment_keys_count_hosts(
	const struct pri_segment_keys *s, struct pri_heavy_hitters *tops)
{
	for (size_t i = 0; i < s->addresses.count; i++) {
		const struct pri_host_stats *a = &s->addresses.items[i];

		pri_heavy_hitters_add(
			tops, a->bytes, a->len, a->hash, a->packets, a->traffic);
	}
}
