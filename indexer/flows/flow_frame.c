/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/flows/flow_frame.h"

#include <stdlib.h>
#include <string.h>

#include "indexer/index/packet_fields.h"
#include "proto/base/field_table.h"

enum { TRANSPORT = 20, VERSION = 1 };
enum { SIDE_1_BEGAN = 1, ONE_WAY = 2 };
static const uint8_t magic[4] = {'P', 'F', 'L', VERSION},
		     parts_magic[4] = {'P', 'F', 'P', VERSION};

/* ---- headers ---- */

size_t
pri_flow_frame_headers(const struct pri_flow *flow, uint8_t *frame)
{
	const struct pri_flow_key *k = &flow->key;
	unsigned o = flow->originator;
	bool six = k->address_len == 16;
	size_t at = 12;
	uint8_t *ip;

	memset(frame, 0, PRI_FLOW_HEADERS_MAX);
	if (k->vlan != PRI_FLOW_UNTAGGED) {
		pr_put_be16(frame + at, 0x8100);
		pr_put_be16(frame + at + 2, k->vlan);
		at += 4;
	}
	pr_put_be16(frame + at, six ? PRI_ETHERTYPE_IP6 : PRI_ETHERTYPE_IP);
	ip = frame + at + 2;
	ip[0] = six ? 0x60 : 0x45;
	ip[six ? 6 : 9] = k->protocol;
	memcpy(ip + (six ? 8 : 12), k->address[o], k->address_len);
	memcpy(ip + (six ? 24 : 16), k->address[!o], k->address_len);
	ip += six ? 40 : 20;
	if (pri_has_ports(k->protocol)) {
		pr_put_be16(ip, k->port[o]);
		pr_put_be16(ip + 2, k->port[!o]);
		ip[12] = 0x50;
		ip[13] = flow->side[0].flags | flow->side[1].flags;
	} else {
		pri_flow_icmp(flow, &ip[0], &ip[1]);
	}
	return (size_t)(ip - frame) + TRANSPORT;
}

/* Where IP begins; 0: the frame is too short, or not IP. */
static size_t
ip_at(const uint8_t *frame, size_t len)
{
	size_t at = len > 14 && pr_get_be16(frame + 12) == 0x8100 ? 18 : 14;

	if (len < at)
		return 0;
	return pr_get_be16(frame + at - 2) == PRI_ETHERTYPE_IP    ? at
	       : pr_get_be16(frame + at - 2) == PRI_ETHERTYPE_IP6 ? at
								  : 0;
}

/* Lengths and a hop limit, as programs expect them that show packets. */
static void
finish_headers(const struct pri_flow_key *k, uint8_t *frame, size_t len)
{
	size_t at = ip_at(frame, len);
	bool six = k->address_len == 16;
	uint8_t *ip = frame + at;

	ip[six ? 7 : 8] = 64;
	pr_put_be16(ip + (six ? 4 : 2), (uint16_t)(len - at - (six ? 40 : 0)));
	if (k->protocol == 17)
		pr_put_be16(
			ip + (six ? 40 : 20) + 4, (uint16_t)(len - at - (six ? 40 : 20)));
}

static bool
read_headers(const uint8_t *data, size_t len, struct pri_flow_key *k, unsigned o, size_t at)
{
	const uint8_t *ip = data + at;
	bool six = pr_get_be16(ip - 2) == PRI_ETHERTYPE_IP6;

	if (len < at + (six ? 40 : 20) + TRANSPORT)
		return false;
	k->address_len = six ? 16 : 4;
	k->vlan = at == 18 ? pr_get_be16(data + 14) : PRI_FLOW_UNTAGGED;
	k->protocol = ip[six ? 6 : 9];
	memcpy(k->address[o], ip + (six ? 8 : 12), k->address_len);
	memcpy(k->address[!o], ip + (six ? 24 : 16), k->address_len);
	ip += six ? 40 : 20;
	if (pri_has_ports(k->protocol)) {
		k->port[o] = pr_get_be16(ip);
		k->port[!o] = pr_get_be16(ip + 2);
	}
	return true;
}

/* ---- numbers ---- */

static void
put(struct pr_writer *w, uint64_t v)
{
	if (!pr_store_varint(w, v))
		w->at = w->end; /* cannot be: the frame has room for the longest */
}

static void
put_time(struct pr_writer *w, int64_t time, int64_t none, int64_t base)
{
	put(w, time == none ? 0 : (uint64_t)time - (uint64_t)base + 1);
}

static bool
take_time(struct pr_cursor *c, int64_t *out, int64_t none, int64_t base)
{
	uint64_t v;

	if (!pr_load_varint(c, &v))
		return false;
	*out = v ? (int64_t)((uint64_t)base + (v - 1)) : none;
	return true;
}

static bool
take_port(struct pr_cursor *c, uint16_t *out)
{
	uint64_t v;

	if (!pr_load_varint(c, &v) || v > UINT16_MAX)
		return false;
	*out = (uint16_t)v;
	return true;
}

static void
put_side(struct pr_writer *w, const struct pri_flow_side *s, int64_t base)
{
	put(w, s->packets);
	put(w, s->bytes);
	put(w, s->payload);
	*w->at++ = s->flags;
	*w->at++ = s->icmp_code;
	if (!s->packets)
		return;
	put_time(w, s->first, PRI_FLOW_NEVER, base);
	put_time(w, s->last, INT64_MIN, base);
	put(w, s->first_seq);
	put(w, s->last_seq);
	put_time(w, s->syn, PRI_FLOW_NEVER, base);
	put_time(w, s->syn_ack, PRI_FLOW_NEVER, base);
	put_time(w, s->fin, PRI_FLOW_NEVER, base);
	put_time(w, s->rst, PRI_FLOW_NEVER, base);
}

static bool
take_side(struct pr_cursor *c, struct pri_flow_side *s, int64_t base)
{
	if (!pr_load_varint(c, &s->packets) || !pr_load_varint(c, &s->bytes) ||
		!pr_load_varint(c, &s->payload) || !pr_load_u8(c, &s->flags) ||
		!pr_load_u8(c, &s->icmp_code))
		return false;
	return !s->packets || (take_time(c, &s->first, PRI_FLOW_NEVER, base) &&
				      take_time(c, &s->last, INT64_MIN, base) &&
				      pr_load_varint(c, &s->first_seq) &&
				      pr_load_varint(c, &s->last_seq) &&
				      take_time(c, &s->syn, PRI_FLOW_NEVER, base) &&
				      take_time(c, &s->syn_ack, PRI_FLOW_NEVER, base) &&
				      take_time(c, &s->fin, PRI_FLOW_NEVER, base) &&
				      take_time(c, &s->rst, PRI_FLOW_NEVER, base));
}

/* ---- records ---- */

size_t
pri_flow_frame_write(
	const struct pri_flow *flow, uint64_t missing, uint8_t out[PRI_FLOW_FRAME_MAX])
{
	const struct pri_flow_key *k = &flow->key;
	struct pr_writer w = {.start = out, .end = out + PRI_FLOW_FRAME_MAX};
	int64_t first = pri_flow_first(flow);

	w.at = out + pri_flow_frame_headers(flow, out);
	memcpy(w.at, magic, sizeof(magic));
	pr_put_le64(w.at + sizeof(magic), (uint64_t)first);
	w.at += sizeof(magic) + 8;
	*w.at++ = (flow->originator ? SIDE_1_BEGAN : 0) | (k->one_way ? ONE_WAY : 0);
	put(&w, k->link);
	if (!pri_has_ports(k->protocol)) {
		put(&w, k->port[0]);
		put(&w, k->port[1]);
	}
	put_time(&w, flow->last_syn, INT64_MIN, first);
	put(&w, missing);
	put(&w, flow->sampling);
	for (int i = 0; i < 2; i++)
		put_side(&w, &flow->side[i], first);
	finish_headers(k, out, (size_t)(w.at - out));
	return (size_t)(w.at - out);
}

bool
pri_flow_frame_read(
	const uint8_t *data, size_t len, struct pri_flow *out, uint64_t *missing)
{
	struct pri_flow_key key;
	uint64_t sampling;
	size_t at = ip_at(data, len), body;
	struct pr_cursor c;
	const uint8_t *begin;
	uint8_t bits;
	int64_t first;

	memset(&key, 0, sizeof(key));
	if (!at)
		return false;
	body = at + (pr_get_be16(data + at - 2) == PRI_ETHERTYPE_IP6 ? 40 : 20) + TRANSPORT;
	if (len < body)
		return false;
	c = pr_cursor_make(data + body, len - body);
	if (!pr_load_bytes(&c, &begin, sizeof(magic) + 8) ||
		memcmp(begin, magic, sizeof(magic)) != 0 || !pr_load_u8(&c, &bits) ||
		bits > (SIDE_1_BEGAN | ONE_WAY) ||
		!read_headers(data, len, &key, bits & SIDE_1_BEGAN, at) ||
		!take_port(&c, &key.link))
		return false;
	first = (int64_t)pr_get_le64(begin + sizeof(magic));
	key.one_way = (bits & ONE_WAY) != 0;
	if (!pri_has_ports(key.protocol) &&
		(!take_port(&c, &key.port[0]) || !take_port(&c, &key.port[1])))
		return false;
	pri_flow_begin(out, &key);
	out->originator = bits & SIDE_1_BEGAN;
	if (!take_time(&c, &out->last_syn, INT64_MIN, first) ||
		!pr_load_varint(&c, missing) || !pr_load_varint(&c, &sampling) ||
		sampling > UINT32_MAX)
		return false;
	out->sampling = (uint32_t)sampling;
	return take_side(&c, &out->side[0], first) && take_side(&c, &out->side[1], first) &&
	       pr_cursor_left(&c) == 0 && pri_flow_first(out) == first &&
	       pri_flow_last(out) >= first;
}

/* ---- parts ---- */

enum { PART_ONE_WAY = 1, PART_IP6 = 2, PART_VLAN = 4 };
enum { HEAD = 48, PART_MAX = 320 };

static const struct pr_field head_fields[] = {PR_INTS(pri_flow_parts_head, slice, first,
	last, packets, not_ip, related, truncated, unsure)};
static const struct pr_field_table head_table = PR_FIELD_TABLE(head_fields);

static void
put_head(struct pr_writer *w, const struct pri_flow_parts_head *head)
{
	memcpy(w->at, parts_magic, sizeof(parts_magic));
	w->at += sizeof(parts_magic);
	if (!pr_field_table_store(w, head, &head_table, PR_LITTLE_ENDIAN))
		w->at = w->end; /* cannot be: HEAD is its length */
}

static void
put_part(struct pr_writer *w, const struct pri_flow *f, int64_t base)
{
	const struct pri_flow_key *k = &f->key;
	int64_t first = pri_flow_first(f);
	uint64_t seq = UINT64_MAX;

	*w->at++ = (k->one_way ? PART_ONE_WAY : 0) | (k->address_len == 16 ? PART_IP6 : 0) |
		   (k->vlan != PRI_FLOW_UNTAGGED ? PART_VLAN : 0);
	*w->at++ = k->protocol;
	for (int i = 0; i < 2; i++, w->at += k->address_len)
		memcpy(w->at, k->address[i], k->address_len);
	for (int i = 0; i < 2; i++, w->at += 2)
		pr_put_be16(w->at, k->port[i]);
	put(w, k->link);
	if (k->vlan != PRI_FLOW_UNTAGGED)
		put(w, k->vlan);
	for (int i = 0; i < 2; i++)
		if (f->side[i].packets && f->side[i].first_seq < seq)
			seq = f->side[i].first_seq;
	put(w, (uint64_t)first - (uint64_t)base);
	put(w, seq);
	put_time(w, f->last_syn, INT64_MIN, first);
	for (int i = 0; i < 2; i++) {
		struct pri_flow_side s = f->side[i];

		s.first_seq -= seq;
		s.last_seq -= seq;
		put_side(w, &s, first);
	}
}

static bool
take_key(struct pr_cursor *c, struct pri_flow_key *k)
{
	const uint8_t *bytes;
	uint8_t bits;

	memset(k, 0, sizeof(*k));
	if (!pr_load_u8(c, &bits) || bits > (PART_ONE_WAY | PART_IP6 | PART_VLAN) ||
		!pr_load_u8(c, &k->protocol))
		return false;
	k->one_way = bits & PART_ONE_WAY;
	k->address_len = bits & PART_IP6 ? 16 : 4;
	k->vlan = PRI_FLOW_UNTAGGED;
	for (int i = 0; i < 2; i++) {
		if (!pr_load_bytes(c, &bytes, k->address_len))
			return false;
		memcpy(k->address[i], bytes, k->address_len);
	}
	return pr_load_be16(c, &k->port[0]) && pr_load_be16(c, &k->port[1]) &&
	       take_port(c, &k->link) && (!(bits & PART_VLAN) || take_port(c, &k->vlan));
}

static bool
in_slice(int64_t slice, int64_t first, int64_t last)
{
	return first <= last && first / PRI_FLOW_SLICE_NS == slice &&
	       last / PRI_FLOW_SLICE_NS == slice;
}

static bool
take_part(struct pr_cursor *c, struct pri_flow *out, int64_t slice)
{
	struct pri_flow_key key;
	uint64_t since, seq;
	int64_t first;

	if (!take_key(c, &key) || !pr_load_varint(c, &since) || !pr_load_varint(c, &seq))
		return false;
	first = (int64_t)((uint64_t)(slice * PRI_FLOW_SLICE_NS) + since);
	pri_flow_begin(out, &key);
	if (!take_time(c, &out->last_syn, INT64_MIN, first))
		return false;
	for (int i = 0; i < 2; i++) {
		struct pri_flow_side *s = &out->side[i];

		if (!take_side(c, s, first) ||
			(s->packets && !in_slice(slice, s->first, s->last)))
			return false;
		s->first_seq += s->packets ? seq : 0;
		s->last_seq += s->packets ? seq : 0;
	}
	return pri_flow_first(out) == first &&
	       (out->side[0].packets || out->side[1].packets);
}

bool
pri_flow_parts_open(struct pri_flow_parts_reader *r, const struct pr_packet *packet)
{
	const uint8_t *begin;

	*r = (struct pri_flow_parts_reader){
		.c = pr_cursor_make(packet->data, packet->caplen)};
	if (!pr_load_bytes(&r->c, &begin, sizeof(parts_magic)) ||
		memcmp(begin, parts_magic, sizeof(parts_magic)) != 0 ||
		!pr_field_table_load(&r->c, &r->head, &head_table, PR_LITTLE_ENDIAN))
		return false;
	r->packets = r->head.not_ip;
	return in_slice(r->head.slice, r->head.first, r->head.last) &&
	       packet->otime == pri_flow_slice_last(r->head.slice);
}

int
pri_flow_parts_next(struct pri_flow_parts_reader *r, struct pri_flow *out)
{
	if (pr_cursor_left(&r->c) == 0)
		return r->packets == r->head.packets ? 0 : -1;
	if (!take_part(&r->c, out, r->head.slice))
		return -1;
	r->packets += out->side[0].packets + out->side[1].packets;
	return 1;
}

/* ---- making parts ---- */

enum {
	FRAME_FULL = 64 * 1024,
	FRAME_ROOM = FRAME_FULL + (PRI_FLOW_PARTS_MOST + 1) * PART_MAX
};

struct pri_flow_parts {
	struct pri_flow_table *table; /* its flows end with their slices */
	struct pri_flow_parts_head
		head; /* of the open slice; its counts go with the next frame */
	struct pr_packet ready; /* the frame, if it is sealed; data NULL: it is not */
	size_t len;
	uint8_t frame[FRAME_ROOM];
};

static void
seal_frame(struct pri_flow_parts *p)
{
	struct pri_flow_parts_head *h = &p->head;
	struct pr_writer w = pr_writer_make(p->frame, HEAD);

	h->packets += h->not_ip;
	if (!h->packets)
		return;
	put_head(&w, h);
	p->ready = (struct pr_packet){.time = h->last,
		.otime = pri_flow_slice_last(h->slice),
		.caplen = (uint32_t)p->len,
		.len = (uint32_t)p->len,
		.flags = PR_PACKET_PARTS,
		.data = p->frame};
	h->packets = h->not_ip = h->related = h->truncated = h->unsure = 0;
}

static int
on_part(void *arg, const struct pri_flow *flow, struct pr_error *err)
{
	struct pri_flow_parts *p = arg;
	struct pr_writer w = pr_writer_make(p->frame + p->len, PART_MAX);

	if (p->len + PART_MAX > sizeof(p->frame))
		return pr_error_set(err, "no room for parts of flows: they were not taken");
	put_part(&w, flow, p->head.slice * PRI_FLOW_SLICE_NS);
	p->len += pr_writer_len(&w);
	p->head.packets += (uint32_t)(flow->side[0].packets + flow->side[1].packets);
	return 0;
}

struct pri_flow_parts *
pri_flow_parts_create(size_t flows, uint32_t share, uint32_t shares, struct pr_error *err)
{
	const struct pri_flow_limits limits = {.idle_tcp = -1, /* less than any pause */
		.idle = -1,
		.idle_closed = -1,
		.flows = flows < PRI_FLOW_PARTS_MOST ? flows : PRI_FLOW_PARTS_MOST,
		.share = share,
		.shares = shares};
	struct pri_flow_parts *p = malloc(sizeof(*p));

	if (!p)
		return pr_error_null(err, "no memory for parts of flows");
	p->head = (struct pri_flow_parts_head){.slice = INT64_MIN};
	p->ready.data = NULL;
	p->len = HEAD;
	p->table = pri_flow_table_create(&limits, on_part, p, err);
	if (!p->table)
		pri_flow_parts_destroy(&p);
	return p;
}

void
pri_flow_parts_destroy(struct pri_flow_parts **parts)
{
	struct pri_flow_parts *p = PR_TAKE(parts);

	if (p)
		pri_flow_table_destroy(&p->table);
	free(p);
}

int
pri_flow_parts_advance(struct pri_flow_parts *p, int64_t otime, struct pr_error *err)
{
	if (otime != PRI_FLOW_NEVER && otime / PRI_FLOW_SLICE_NS <= p->head.slice)
		return 0;
	if (pri_flow_table_advance(p->table, otime, err) < 0)
		return -1;
	seal_frame(p);
	p->head.slice = otime / PRI_FLOW_SLICE_NS;
	p->head.first = INT64_MAX;
	p->head.last = INT64_MIN;
	return 0;
}

int
pri_flow_parts_packet(
	struct pri_flow_parts *p, const struct pr_packet *packet, struct pr_error *err)
{
	const struct pri_flow_figures *now = pri_flow_table_figures(p->table), was = *now;

	if (pri_flow_parts_advance(p, packet->otime, err) < 0)
		return -1;
	pr_time_widen(&p->head.first, &p->head.last, packet->otime, packet->otime);
	if (pri_flow_table_packet(p->table, packet, err) < 0)
		return -1;
	if (now->packets == was.packets)
		return 0; /* of another share */
	p->head.not_ip += (uint32_t)(now->not_ip - was.not_ip);
	p->head.related += (packet->flags & PR_PACKET_RELATED) != 0;
	p->head.truncated += (packet->flags & PR_PACKET_CUT) != 0;
	p->head.unsure += (packet->flags & PR_PACKET_MATCH_UNSURE) != 0;
	if (p->len >= FRAME_FULL && !p->ready.data)
		seal_frame(p);
	return 0;
}

bool
pri_flow_parts_take(struct pri_flow_parts *p, struct pr_packet *out)
{
	if (!p->ready.data)
		return false;
	*out = p->ready;
	p->ready.data = NULL;
	p->len = HEAD;
	return true;
}
