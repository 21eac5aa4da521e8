/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/index/segment_keys.h"

#include "proto/wire/segment_inline.h"

/* ---- adding keys ---- */

/* Adds keys to a sketch, whose sets have room, in place. */

PRI_IN_PLACE bool
add(struct pri_segment_keys *s, enum pri_key_kind kind, const void *bytes, size_t len)
{
	uint64_t hash = pri_key_hash_bytes(kind, bytes, len);

	if (!pri_hashset_put(&s->keys, hash))
		return false;
	pri_hashset_push(&s->wide, hash);
	return true;
}

PRI_IN_PLACE void
add_mac(struct pri_segment_keys *s, enum pri_key_kind kind, const uint8_t *mac)
{
	uint64_t either = pri_key_hash_bytes(PRI_KEY_MAC, mac, 6);

	if (pri_hashset_put(
		    &s->keys, pri_signature_hash(pri_key_hash_bytes(kind, mac, 6), either)))
		pri_hashset_put(&s->wide, either);
}

static inline void
add_number2(struct pri_segment_keys *s, enum pri_key_kind kind, uint16_t number)
{
	uint8_t bytes[2];

	pr_put_be16(bytes, number);
	add(s, kind, bytes, 2);
}

static inline bool
test_and_set(uint8_t *bits, unsigned at)
{
	uint8_t bit = 1u << at % 8;
	bool was = bits[at / 8] & bit;

	bits[at / 8] |= bit;
	return was;
}

/* ---- addresses and ports ---- */

/*
 * Adds the prefixes of an address. If the longer prefix is known, so are the shorter ones.
 * The one of one byte is stored as an octet in level 1.
 */
PRI_IN_PLACE void
add_nets(struct pri_segment_keys *s, const uint8_t *address, size_t len)
{
	if (len == 4) {
		if (add(s, PRI_KEY_NET, address, 3))
			add(s, PRI_KEY_NET, address, 2);
		if (!test_and_set(s->item.octets, address[0]))
			pri_hashset_push(
				&s->wide, pri_key_hash_bytes(PRI_KEY_NET, address, 1));
	} else if (add(s, PRI_KEY_NET, address, 8) && add(s, PRI_KEY_NET, address, 6)) {
		add(s, PRI_KEY_NET, address, 4);
	}
}

/* Adds an address. side and len are constants. Returns its index. */
PRI_IN_PLACE uint32_t
add_address(struct pri_segment_keys *s, const uint8_t *bytes, size_t len, unsigned side)
{
	enum pri_key_kind kind = side == PRI_HOST_SRC ? PRI_KEY_SRC : PRI_KEY_DST;
	uint64_t either = pri_key_hash_bytes(PRI_KEY_ADDRESS, bytes, len);
	uint32_t at = pri_hosts_find_or_add(&s->hosts, either, bytes, len);
	struct pri_host_stats *a = &s->hosts.items[at];

	if (a->sides & side)
		return at;
	pri_hashset_push(
		&s->keys, pri_signature_hash(pri_key_hash_bytes(kind, bytes, len), either));
	if (!a->sides) {
		pri_hashset_push(&s->wide, either);
		add_nets(s, bytes, len);
	}
	a->sides |= side;
	return at;
}

/* Of one header layout; an address that sends to itself counts once. NULL: there is none. */
static inline void
count_addresses(const struct pri_header_layout *layout, struct pri_host_stats *src,
	struct pri_host_stats *dst)
{
	if (src) {
		src->packets += layout->packets;
		src->traffic += layout->bytes;
	}
	if (dst && dst != src) {
		dst->packets += layout->packets;
		dst->traffic += layout->bytes;
	}
}

/* bytes: as in the packet. */
PRI_IN_PLACE void
add_port(struct pri_segment_keys *s, const uint8_t *bytes, bool source, bool tcp)
{
	uint16_t port = pr_get_be16(bytes);
	uint64_t *seen = &s->seen_ports[port / 16];
	unsigned shift = port % 16 * 4u;
	uint16_t *least = source ? &s->item.sport_min : &s->item.dport_min;
	uint16_t *most = source ? &s->item.sport_max : &s->item.dport_max;
	uint8_t key[3] = {bytes[0], bytes[1], tcp ? 6 : 17};
	unsigned bit = 1u << (2 * tcp + source);
	uint64_t was = *seen >> shift;

	if (was & bit)
		return;
	*seen |= (uint64_t)bit << shift;
	uint64_t either = pri_key_hash_bytes(PRI_KEY_PORT, bytes, 2);
	pri_hashset_push(&s->keys,
		pri_signature_hash(
			pri_key_hash_bytes(source ? PRI_KEY_SPORT : PRI_KEY_DPORT, key, 3),
			either));
	if (!(was & 15))
		pri_hashset_push(&s->wide, either);
	*least = port < *least ? port : *least;
	*most = port > *most ? port : *most;
	test_and_set(s->item.ports, pri_port_interval(port));
}

/* As memcmp. */
PRI_IN_PLACE int
compare(const uint8_t *a, const uint8_t *b, size_t len)
{
	if (len != 4)
		return memcmp(a, b, len);
	uint32_t x = pr_get_be32(a);
	uint32_t y = pr_get_be32(b);
	return x < y ? -1 : x > y;
}

/* len is a constant, here and below. */
PRI_IN_PLACE void
add_pair(struct pri_segment_keys *s, const uint8_t *src, const uint8_t *dst, size_t len)
{
	bool swap = compare(src, dst, len) > 0;
	uint8_t pair[2 * 16];

	memcpy(pair, swap ? dst : src, len);
	memcpy(pair + len, swap ? src : dst, len);
	add(s, PRI_KEY_PAIR, pair, 2 * len);
}

/* ports: both, as in the packet. */
PRI_IN_PLACE void
add_services(struct pri_segment_keys *s, const uint8_t *src, const uint8_t *dst, size_t len,
	const uint8_t *ports)
{
	uint8_t service[16 + 2];

	for (int i = 0; i < 4; i++) {
		const uint8_t *port = ports + i / 2 * 2;

		if (!pri_port_is_service(pr_get_be16(port)))
			continue;
		memcpy(service, i % 2 ? dst : src, len);
		memcpy(service + len, port, 2);
		add(s, PRI_KEY_SERVICE, service, len + 2);
	}
}

/*
 * Adds the keys of a header layout: the same as pri_keys_of_fields, but as hashes, and
 * without keys that another layout has added. Keys known to be new are added without a
 * look-up. A key that has the same hash in both sets is looked up once: if it is new in
 * `keys`, it is new in `wide`.
 */
#define MOST (PRI_KEYS_MAX + 4)

/* ---- plain layouts ---- */

static void
add_link(struct pri_segment_keys *s, const struct pri_header_layout *layout)
{
	const uint16_t inner = pri_header_layout_version(layout) == 4 ? 0x0800 : 0x86dd;
	uint8_t bytes[16];

	pr_put_le64(bytes, layout->id[0]);
	pr_put_le64(bytes + 8, layout->id[1]);
	add_mac(s, PRI_KEY_MAC_DST, bytes);
	add_mac(s, PRI_KEY_MAC_SRC, bytes + 6);
	add_number2(s, PRI_KEY_ETHERTYPE, inner);
	if (pr_get_be16(bytes + 12) == inner)
		return;
	add_number2(s, PRI_KEY_ETHERTYPE, pr_get_be16(bytes + 12));
	add_number2(s, PRI_KEY_VLAN, layout->id[1] >> 48);
}

/* at: both addresses; len is a constant; ports: both, as in the packet. */
PRI_IN_PLACE void
add_hosts(struct pri_segment_keys *s, const struct pri_header_layout *layout,
	const uint8_t *at, size_t len, const uint8_t *ports)
{
	uint8_t protocol = layout->id[2] >> 8;
	uint32_t src = add_address(s, at, len, PRI_HOST_SRC),
		 dst = add_address(s, at + len, len, PRI_HOST_DST);

	count_addresses(layout, &s->hosts.items[src], &s->hosts.items[dst]);
	add_pair(s, at, at + len, len);
	if (!pri_has_ports(protocol))
		return;
	add_services(s, at, at + len, len, ports);
	add_port(s, ports, true, protocol == 6);
	add_port(s, ports + 2, false, protocol == 6);
}

static __attribute__((flatten)) void
ip_keys(struct pri_segment_keys *s, const struct pri_header_layout *layout)
{
	uint8_t at[8], ports[4];

	pr_put_le64(at, layout->id[2] >> 32 | layout->id[3] << 32);
	pr_put_le32(ports, layout->id[3] >> 32);
	add_hosts(s, layout, at, 4, ports);
}

static __attribute__((flatten)) void
ip6_keys(struct pri_segment_keys *s, const struct pri_header_layout *layout,
	const uint64_t *more)
{
	uint8_t at[32], ports[4];

	pr_put_le32(ports, layout->id[2] >> 32);
	pr_put_le64(at, layout->id[3]);
	for (size_t i = 0; i < PRI_HEADER_LAYOUT_MORE; i++)
		pr_put_le64(at + 8 + 8 * i, more[i]);
	add_hosts(s, layout, at, 16, ports);
}

/* ---- other layouts ---- */

static void
any_keys(struct pri_segment_keys *s, const struct pri_packet_fields *f,
	const struct pri_header_layout *layout)
{
	struct pri_key keys[PRI_KEYS_MAX];
	struct pri_host_stats *src = NULL, *dst = NULL;
	bool tcp = f->protos[0] == 6;

	for (size_t i = 0, count = pri_keys_of_fields(f, keys); i < count; i++) {
		const struct pri_key *key = &keys[i];
		const uint8_t *bytes = key->bytes;

		switch (key->kind) {
		case PRI_KEY_SRC:
			src = &s->hosts.items[add_address(
				s, bytes, key->len, PRI_HOST_SRC)];
			break;
		case PRI_KEY_DST:
			dst = &s->hosts.items[add_address(
				s, bytes, key->len, PRI_HOST_DST)];
			break;
		case PRI_KEY_SPORT:
		case PRI_KEY_DPORT:
			add_port(s, bytes, key->kind == PRI_KEY_SPORT, tcp);
			break;
		case PRI_KEY_MAC_SRC:
		case PRI_KEY_MAC_DST:
			add_mac(s, key->kind, bytes);
			break;
		default:
			/* a prefix of one byte was added with its address */
			if (key->kind != PRI_KEY_NET || key->len > 1)
				add(s, key->kind, bytes, key->len);
		}
	}
	count_addresses(layout, src, dst);
}

/*
 * Adds the keys of all header layouts, and the traffic of their addresses. -1: no memory.
 */
static int
make_keys(struct pri_segment_keys *s)
{
	for (size_t i = 0; i < s->layouts.count; i++) {
		const struct pri_header_layout *layout = &s->layouts.items[i];

		if (pri_hashset_prepare(&s->keys, MOST) < 0 ||
			pri_hashset_prepare(&s->wide, MOST) < 0)
			return -1;
		unsigned version = pri_header_layout_version(layout);
		if (!version) {
			any_keys(s, pri_header_layout_fields(&s->layouts, layout), layout);
			continue;
		}
		add_link(s, layout);
		uint8_t protocol = layout->id[2] >> 8;
		if (!test_and_set(s->seen_protocols, protocol))
			add(s, PRI_KEY_PROTO, &protocol, 1);
		if (version == 4)
			ip_keys(s, layout);
		else
			ip6_keys(s, layout, s->layouts.more[i]);
	}
	return 0;
}

/* The composite keys of a packet. Level 2 has none of them, so they do not go into wide. -1: no memory. */
static int
make_composites(struct pri_segment_keys *s, const struct pri_linktype_layout *linktype,
	const struct pr_packet *packet)
{
	struct pri_key keys[PRI_COMPOSITE_KEYS];
	struct pri_packet_fields f;

	if (pri_hashset_prepare(&s->keys, PRI_COMPOSITES_MAX * PRI_COMPOSITE_KEYS) < 0)
		return -1;
	pri_packet_fields_parse(linktype, packet->data, packet->caplen, &f);
	for (size_t i = 0; i < PRI_COMPOSITES_MAX && s->composites.masks[i]; i++) {
		size_t count = pri_composite_keys(&f, s->composites.masks[i], keys);

		for (size_t j = 0; j < count; j++)
			pri_hashset_put(&s->keys, pri_key_hash(&keys[j]));
	}
	return 0;
}

void
pri_segment_keys_free(struct pri_segment_keys *s)
{
	pri_hashset_free(&s->keys);
	pri_hashset_free(&s->wide);
	pri_header_layouts_free(&s->layouts);
	pri_hosts_free(&s->hosts);
	PR_FREE(s, series, held, seqs);
	*s = (struct pri_segment_keys){.composites = s->composites};
}

/* ---- packets ---- */

/* Whole seconds, rounded down, also before 1970. */
static int64_t
second_of(int64_t time)
{
	return time / PR_NS_PER_S - (time % PR_NS_PER_S < 0);
}

/*
 * The bucket of the series for a packet of this time. *first: the beginning of its second,
 * in ns. If a segment's header has wrong times, packets outside them count in the first or
 * last bucket.
 */
static struct pri_segment_keys_bucket *
find_bucket(struct pri_segment_keys *s, int64_t time, int64_t *first)
{
	int64_t least = second_of(s->header.min_time), now = second_of(time);
	uint64_t at = now > least ? (now - (uint64_t)least) >> s->item.series_width : 0;

	*first = (uint64_t)now * PR_NS_PER_S;
	return &s->buckets[PR_MIN(at, PRI_LEVEL1_BUCKETS - 1)];
}

/*
 * Copies a packet's headers before parsing: parsing reads bytes more than once, and they
 * must not change in between. Plain packets are read once, and need no copy. Not inlined,
 * as the loop over packets is faster without it.
 */
static __attribute__((noinline)) int
take_other(struct pri_segment_keys *s, const struct pri_linktype_layout *linktype,
	struct pri_header_layout *layout, const struct pr_segment_step *step)
{
	struct pr_packet p = {
		.caplen = PR_MIN(step->caplen, PRI_FIELDS_REACH), .len = step->len};
	uint8_t front[PRI_FIELDS_REACH];

	memcpy(front, step->data, p.caplen);
	atomic_signal_fence(memory_order_seq_cst);
	p.data = front;
	if (!layout)
		layout = pri_header_layouts_add_other(
			&s->layouts, linktype, front, p.caplen, p.len);
	if (layout->packets > 1 || !s->composites.masks[0])
		return 0;
	return make_composites(s, linktype, &p);
}

static inline int
take_packet(struct pri_segment_keys *s, const struct pri_linktype_layout *linktype,
	bool ether, const struct pr_segment_step *step)
{
	struct pri_header_layout *layout =
		ether ? pri_header_layouts_add_plain(
				&s->layouts, step->data, step->caplen, step->len)
		      : NULL;

	if (__builtin_expect(layout && (layout->packets > 1 || !s->composites.masks[0]), 1))
		return 0;
	return take_other(s, linktype, layout, step);
}

#define LINE 64 /* bytes of a cache line */
#define AHEAD 2048

/* -1: no memory; 1: the segment is damaged. */
static int
take_packets(struct pri_segment_keys *s, const struct pr_segment_reader *r)
{
	const struct pri_linktype_layout *linktype =
		pri_linktype_layout_find(r->header.linktype);
	const bool ether = linktype && linktype->ether;
	const uint64_t span = (uint64_t)second_of(r->header.max_time) -
			      (uint64_t)second_of(r->header.min_time);
	/* bucket of the previous packet; the next one is usually in the same second */
	struct pri_segment_keys_bucket *bucket = s->buckets;
	int64_t first = INT64_MIN;
	struct pr_segment_walk walk;
	struct pr_segment_step step;
	const uint8_t *from = r->c.at;
	uint32_t least = UINT32_MAX, most = 0;
	uint64_t *seq = s->seqs;
	int rc;

	s->item.keyed = linktype != NULL;
	while (span >> s->item.series_width >= PRI_LEVEL1_BUCKETS)
		s->item.series_width++;
	pr_segment_walk_begin(&walk, r);
	while ((rc = pr_segment_walk_next(&walk, &step)) == 1) {
		/*
		 * a packet's place is known only from the one before it, so all cache lines
		 * are prefetched
		 */
		for (; from < walk.at; from += LINE)
			__builtin_prefetch(from + AHEAD);
		from = walk.at;
		*seq++ = step.seq;
		least = PR_MIN(step.len, least);
		most = PR_MAX(step.len, most);
		if ((uint64_t)step.time - (uint64_t)first >= PR_NS_PER_S)
			bucket = find_bucket(s, step.time, &first);
		bucket->packets++;
		bucket->bytes += step.len;
		if (linktype && take_packet(s, linktype, ether, &step) < 0)
			return -1;
	}
	s->seq_count = seq - s->seqs;
	s->item.len_min = least;
	s->item.len_max = most;
	return rc < 0;
}

/* ---- what is encoded ---- */

#define VARINT_MAX 10

static int
encode_series(struct pri_segment_keys *s)
{
	uint64_t last = 0;

	if (PR_ARRAY_RESERVE(
		    s->series, s->series_room, PRI_LEVEL1_BUCKETS * 3 * VARINT_MAX) < 0)
		return -1;
	struct pr_writer w = pr_writer_make(s->series, s->series_room);
	for (uint64_t i = 0; i < PRI_LEVEL1_BUCKETS; i++) {
		if (!s->buckets[i].packets)
			continue;
		if (!pr_store_varint(&w, i - last) ||
			!pr_store_varint(&w, s->buckets[i].packets) ||
			!pr_store_varint(&w, s->buckets[i].bytes))
			return -1;
		last = i;
	}
	s->item.series_len = pr_writer_len(&w);
	return 0;
}

/*
 * Encodes the held seqs as runs or bits, whichever is shorter. Round-robin distribution
 * favours runs, distribution by flow favours bits.
 */
static int
encode_held(struct pri_segment_keys *s)
{
	uint64_t span = s->seqs[s->seq_count - 1];
	size_t bits = span / 8 + 1;
	bool fits = true;

	if (span == s->seq_count - 1)
		return 0;
	if (PR_ARRAY_RESERVE(s->held, s->held_room, bits) < 0)
		return -1;
	struct pr_writer w = pr_writer_make(s->held, bits);
	s->item.held_form = PRI_HELD_RUNS;
	for (size_t i = 1; i < s->seq_count && fits;) {
		uint64_t step = s->seqs[i] - s->seqs[i - 1], repeat = 0;

		for (; i < s->seq_count && s->seqs[i] - s->seqs[i - 1] == step; i++)
			repeat++;
		fits = pr_store_varint(&w, step) && pr_store_varint(&w, repeat);
	}
	if (fits) {
		s->item.held_len = pr_writer_len(&w);
		return 0;
	}
	s->item.held_form = PRI_HELD_BITS;
	s->item.held_len = bits;
	memset(s->held, 0, bits);
	for (size_t i = 0; i < s->seq_count; i++)
		s->held[s->seqs[i] / 8] |= 1u << s->seqs[i] % 8;
	return 0;
}

int
pri_segment_keys_take(
	struct pri_segment_keys *s, const void *body, size_t len, struct pr_error *err)
{
	struct pr_segment_reader r;

	if (pr_segment_open(&r, body, len, err) < 0 || r.header.flags & PR_SEGMENT_MIXED)
		return 1;
	s->header = r.header;
	pri_hashset_clear(&s->keys);
	pri_hashset_clear(&s->wide);
	memset(s->buckets, 0, sizeof(s->buckets));
	memset(s->seen_ports, 0, sizeof(s->seen_ports));
	memset(s->seen_protocols, 0, sizeof(s->seen_protocols));
	s->item = (struct pri_level1_segment){.sport_min = UINT16_MAX,
		.dport_min = UINT16_MAX,
		.held_form = PRI_HELD_ALL};
	s->seq_count = 0;
	int rc =
		PR_ARRAY_RESERVE(s->seqs, s->seq_room, r.header.count) < 0 ||
				pri_header_layouts_begin(&s->layouts, r.header.count) < 0 ||
				pri_hosts_begin(&s->hosts, 2 * (size_t)r.header.count) < 0
			? -1
			: take_packets(s, &r);
	if (rc == 0 && (make_keys(s) < 0 || encode_series(s) < 0 || encode_held(s) < 0))
		rc = -1;
	return rc < 0 ? pr_error_set(err, "no memory for indexing") : rc;
}
