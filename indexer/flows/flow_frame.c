/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/flows/flow_frame.h"

#include <string.h>

#include "indexer/index/packet_fields.h"
#include "proto/base/cursor.h"

enum { TRANSPORT = 20, VERSION = 1 };
enum { SIDE_1_BEGAN = 1, ONE_WAY = 2 };
static const uint8_t magic[4] = {'P', 'F', 'L', VERSION};

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
