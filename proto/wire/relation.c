/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/wire/relation.h"

#include <xxhash.h>

#include "proto/base/array.h"
#include "proto/base/cursor.h"
#include "proto/wire/decode.h"

/* The frame to which the offsets in headers refer. */
struct bytes {
	const uint8_t *data;
	size_t len;
};

static bool
is_ip(const struct pr_headers *h)
{
	return h->flags & (PR_DECODE_IP4 | PR_DECODE_IP6);
}

/* ---- keys ---- */

enum { KEY_FRAGMENT = 1, KEY_PACKET = 2 };

#define KEY_BYTES 52

static size_t
put(uint8_t *to, size_t at, const void *from, size_t len)
{
	memcpy(to + at, from, len);
	return at + len;
}

static size_t
put_addresses(uint8_t *to, size_t at, const struct pr_headers *h)
{
	size_t len = h->flags & PR_DECODE_IP4 ? 4 : 16;

	at = put(to, at, h->src, len);
	return put(to, at, h->dst, len);
}

/* In IPv6 only the first fragment tells the protocol for sure. */
static bool
fragment_key(const struct pr_headers *h, uint64_t *key)
{
	uint8_t bytes[KEY_BYTES] = {KEY_FRAGMENT}, id[4];
	size_t at = 1;

	if (!is_ip(h) || !(h->flags & PR_DECODE_FRAGMENT))
		return false;
	bytes[at++] = h->flags & PR_DECODE_IP4 ? h->protocol : 0;
	pr_put_be32(id, h->fragment_id);
	at = put_addresses(bytes, at, h);
	at = put(bytes, at, id, sizeof id);
	*key = XXH3_64bits(bytes, at);
	return true;
}

static bool
packet_key(const struct pr_headers *h, const struct bytes *b, uint64_t *key)
{
	uint8_t bytes[KEY_BYTES] = {KEY_PACKET}, id[2];
	const uint8_t *l4 = b->data + h->l4_offset;
	size_t at = 1;

	if (!is_ip(h) || h->flags & PR_DECODE_FRAGMENT_LATER || !h->l4_offset ||
		b->len < 8 || h->l4_offset > b->len - 8)
		return false;
	bytes[at++] = h->protocol;
	pr_put_be16(id, h->flags & PR_DECODE_IP4 ? h->fragment_id : 0);
	at = put(bytes, at, id, sizeof id);
	at = put_addresses(bytes, at, h);
	/* the bytes of the transport header that stay as they are from hop to hop */
	if (h->protocol == PR_IP_ICMP || h->protocol == PR_IP_ICMP6) {
		at = put(bytes, at, l4, 2);
		at = put(bytes, at, l4 + 4, 4);
	} else {
		at = put(bytes, at, l4,
			h->protocol == PR_IP_UDP || h->protocol == PR_IP_UDPLITE ? 6 : 8);
	}
	*key = XXH3_64bits(bytes, at);
	return true;
}

/* ---- noting ---- */

void
pr_relations_free(struct pr_relations *r)
{
	PR_FREE(r, keys, spans, slots);
	*r = (struct pr_relations){.keys = NULL};
}

enum { SLOTS = 1 << 19 }; /* more than three a key */

static int
note_key(struct pr_relations *r, uint64_t key, int64_t time, struct pr_error *err)
{
	size_t at = key % SLOTS;

	if (!r->keys) /* what is not used yet takes no memory */
		r->keys = calloc(PR_RELATION_KEYS_MAX, sizeof *r->keys);
	if (!r->slots)
		r->slots = calloc(SLOTS, sizeof *r->slots);
	if (!r->keys || !r->slots)
		return pr_error_set(err, "no memory for related packets");
	while (r->slots[at] && r->keys[r->slots[at] - 1].key != key)
		at = (at + 1) % SLOTS;
	struct pr_relation_key *k = r->slots[at] ? &r->keys[r->slots[at] - 1] : NULL;
	if (k && time >= k->first && pr_time_minus(time, k->last) <= PR_RELATION_WINDOW) {
		k->last = PR_MAX(time, k->last);
		return 0;
	}
	if (r->count == PR_RELATION_KEYS_MAX)
		return pr_error_set(err, "too many packets match to look for related ones: "
					 "use a narrower filter, or a shorter time range");
	r->keys[r->count++] = (struct pr_relation_key){key, time, time};
	r->slots[at] = r->count;
	return 0;
}

PR_ORDER(by_time, struct pr_relation_span, first)

/* Joins spans that touch. */
static void
join_spans(struct pr_relations *r)
{
	size_t kept = 0;

	PR_SORT(r->spans, r->span_count, by_time);
	for (size_t i = 0; i < r->span_count; i++) {
		struct pr_relation_span *last = kept ? &r->spans[kept - 1] : NULL;

		if (last && r->spans[i].first <= last->last) {
			last->last = PR_MAX(r->spans[i].last, last->last);
		} else {
			r->spans[kept++] = r->spans[i];
		}
	}
	r->span_count = kept;
}

/* Halves the number of spans: joins each with the next. */
static void
halve_spans(struct pr_relations *r)
{
	size_t kept = 0;

	for (size_t i = 0; i < r->span_count; i += 2) {
		r->spans[kept].first = r->spans[i].first;
		r->spans[kept++].last = r->spans[i + 1 < r->span_count ? i + 1 : i].last;
	}
	r->span_count = kept;
}

static int
note_headers(struct pr_relations *r, const struct pr_headers *h, const struct bytes *b,
	int64_t time, struct pr_error *err)
{
	uint64_t key;

	if (fragment_key(h, &key) && note_key(r, key, time, err) < 0)
		return -1;
	return packet_key(h, b, &key) && note_key(r, key, time, err) < 0 ? -1 : 0;
}

int
pr_relations_note(struct pr_relations *r, const struct pr_packet *p, struct pr_error *err)
{
	const struct bytes b = {p->data, p->caplen};
	struct pr_relation_span *last = r->span_count ? &r->spans[r->span_count - 1] : NULL;
	int64_t from = pr_time_minus(p->time, PR_RELATION_WINDOW);
	int64_t until = pr_time_minus(p->time, -PR_RELATION_WINDOW);
	struct pr_decoded d;

	pr_decode(p->linktype, p->data, p->caplen, &d);
	if (note_headers(r, &d.outer, &b, p->time, err) < 0 ||
		(d.outer.flags & PR_DECODE_TUNNEL &&
			note_headers(r, &d.inner, &b, p->time, err) < 0))
		return -1;
	if (last && from <= last->last && from >= last->first) {
		last->last = PR_MAX(until, last->last);
		return 0;
	}
	if (PR_ARRAY_ADD(r->spans, r->span_count, (struct pr_relation_span){from, until}) <
		0)
		return pr_error_set(err, "no memory for related packets");
	if (r->span_count > 2 * PR_RELATION_SPANS_MAX) {
		join_spans(r);
		if (r->span_count > PR_RELATION_SPANS_MAX)
			halve_spans(r);
	}
	return 0;
}

PR_ORDER(by_key, struct pr_relation_key, key, first)

void
pr_relations_finish(struct pr_relations *r)
{
	free(r->slots);
	r->slots = NULL;
	PR_SORT(r->keys, r->count, by_key);
	join_spans(r);
	while (r->span_count > PR_RELATION_SPANS_MAX)
		halve_spans(r);
}

bool
pr_relations_valid(const struct pr_relations *r)
{
	for (size_t i = 0; i < r->count; i++)
		if (r->keys[i].first > r->keys[i].last ||
			(i > 0 && by_key(&r->keys[i - 1], &r->keys[i]) > 0))
			return false;
	for (size_t i = 0; i < r->span_count; i++)
		if (r->spans[i].first > r->spans[i].last ||
			(i > 0 && r->spans[i].first <= r->spans[i - 1].last))
			return false;
	return true;
}

/* ---- testing ---- */

bool
pr_relations_overlap(const struct pr_relations *r, int64_t first, int64_t last)
{
	/* the first span that ends at or behind `first` */
	size_t at = PR_ARRAY_SEARCH(r->span_count, r->spans[mid].last < first);

	return at < r->span_count && r->spans[at].first <= last;
}

static bool
has(const struct pr_relations *r, uint64_t key, int64_t time)
{
	size_t at = PR_ARRAY_SEARCH(r->count, r->keys[mid].key < key);

	for (; at < r->count && r->keys[at].key == key; at++)
		if (pr_time_minus(r->keys[at].first, time) <= PR_RELATION_WINDOW &&
			pr_time_minus(time, r->keys[at].last) <= PR_RELATION_WINDOW)
			return true;
	return false;
}

static bool
has_fragment(const struct pr_relations *r, const struct pr_headers *h, int64_t time)
{
	uint64_t key;

	return fragment_key(h, &key) && has(r, key, time);
}

static bool
has_packet(const struct pr_relations *r, const struct pr_headers *h, const struct bytes *b,
	int64_t time)
{
	uint64_t key;

	return packet_key(h, b, &key) && has(r, key, time);
}

/* Is it an error that quotes a packet whose keys are known? */
static bool
quotes(const struct pr_relations *r, const struct pr_headers *h, const struct pr_packet *p)
{
	struct bytes quoted;
	struct pr_decoded d;

	if (!pr_decode_quoted(h, p->data, p->caplen, &d))
		return false;
	quoted.data = p->data + h->payload_offset;
	quoted.len = p->caplen - h->payload_offset;
	return has_fragment(r, &d.outer, p->time) ||
	       has_packet(r, &d.outer, &quoted, p->time);
}

uint16_t
pr_relations_test(const struct pr_relations *r, const struct pr_packet *p)
{
	const struct bytes b = {p->data, p->caplen};
	struct pr_decoded d;

	pr_decode(p->linktype, p->data, p->caplen, &d);
	bool tunnel = d.outer.flags & PR_DECODE_TUNNEL;
	bool tagged =
		d.outer.vlan_count || d.outer.mpls_count || d.outer.ethertype == 0x8864;
	if ((tunnel && (has_packet(r, &d.inner, &b, p->time) ||
			       has_fragment(r, &d.inner, p->time))) ||
		(tagged && has_packet(r, &d.outer, &b, p->time)))
		return PR_PACKET_COPY_OF;
	if (has_fragment(r, &d.outer, p->time))
		return PR_PACKET_FRAGMENT_OF;
	if (quotes(r, &d.outer, p) || (tunnel && quotes(r, &d.inner, p)))
		return PR_PACKET_ERROR_ABOUT;
	return 0;
}

const char *
pr_relation_text(uint16_t flags)
{
	return flags & PR_PACKET_FRAGMENT_OF ? "related: a fragment of a matching packet"
	       : flags & PR_PACKET_ERROR_ABOUT
		       ? "related: an error that quotes a matching packet"
	       : flags & PR_PACKET_COPY_OF
		       ? "related: an encapsulated copy of a matching packet"
		       : NULL;
}
