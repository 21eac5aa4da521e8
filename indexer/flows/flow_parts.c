/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/flows/flow_parts.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/array.h"
#include "proto/base/field_table.h"

/* ---- numbers: one function writes and reads, so that both agree ---- */

struct coder {
	struct pr_writer *out; /* NULL: reads */
	struct pr_cursor in;
	bool bad;
};

static void
code(struct coder *c, uint64_t *v)
{
	/* writing cannot fail: there is room for the longest */
	if (!(c->out ? pr_store_varint(c->out, *v) : pr_load_varint(&c->in, v)))
		c->bad = true;
}

static void
code_bytes(struct coder *c, uint8_t *bytes, size_t len)
{
	const uint8_t *from;

	if (c->out) {
		memcpy(c->out->at, bytes, len);
		c->out->at += len;
	} else if (pr_load_bytes(&c->in, &from, len)) {
		memcpy(bytes, from, len);
	} else {
		c->bad = true;
	}
}

static void
code_u16(struct coder *c, uint16_t *v)
{
	uint64_t wide = *v;

	code(c, &wide);
	c->bad |= wide > UINT16_MAX;
	*v = (uint16_t)wide;
}

static void
code_time(struct coder *c, int64_t *time, int64_t none, int64_t base)
{
	uint64_t v = *time == none ? 0 : (uint64_t)*time - (uint64_t)base + 1;

	code(c, &v);
	*time = v ? (int64_t)((uint64_t)base + (v - 1)) : none;
}

static void
code_side(struct coder *c, struct pri_flow_side *s, int64_t base)
{
	code(c, &s->packets);
	if (!s->packets)
		return;
	code(c, &s->bytes);
	code(c, &s->payload);
	code_bytes(c, &s->flags, 1);
	code_bytes(c, &s->icmp_code, 1);
	if (c->bad)
		return;
	code_time(c, &s->first, PRI_FLOW_NEVER, base);
	code_time(c, &s->last, INT64_MIN, base);
	code(c, &s->first_seq);
	code(c, &s->last_seq);
	if (!(s->flags & (PRI_FLOW_SYN | PRI_FLOW_FIN | PRI_FLOW_RST)))
		return;
	int64_t *const events[] = {&s->syn, &s->syn_ack, &s->fin, &s->rst};
	for (size_t i = 0; i < PR_COUNT(events); i++)
		code_time(c, events[i], PRI_FLOW_NEVER, base);
}

/* ---- parts ---- */

enum { PART_ONE_WAY = 1, PART_IP6 = 2, PART_VLAN = 4, PART_BITS = 7 };
enum { HEAD = 48, PART_MAX = 320 };

#define MAGIC 0x01504650
static const struct pr_field head_fields[] = {PR_INT(pri_flow_parts_head, magic),
	PR_INTS(pri_flow_parts_head, slice, first, last, packets, not_ip, related,
		truncated, unsure)};
static const struct pr_field_table head_table = PR_FIELD_TABLE(head_fields);

static void
code_key(struct coder *c, struct pri_flow_key *k)
{
	uint8_t bits = (k->one_way ? PART_ONE_WAY : 0) |
		       (k->address_len == 16 ? PART_IP6 : 0) |
		       (k->vlan != PRI_FLOW_UNTAGGED ? PART_VLAN : 0);

	code_bytes(c, &bits, 1);
	c->bad |= bits > PART_BITS;
	k->one_way = bits & PART_ONE_WAY;
	k->address_len = bits & PART_IP6 ? 16 : 4;
	code_bytes(c, &k->protocol, 1);
	for (int i = 0; i < 2; i++)
		code_bytes(c, k->address[i], k->address_len);
	for (int i = 0; i < 2; i++)
		code_u16(c, &k->port[i]);
	code_u16(c, &k->link);
	if (bits & PART_VLAN)
		code_u16(c, &k->vlan);
	else
		k->vlan = PRI_FLOW_UNTAGGED;
}

static bool
in_slice(int64_t slice, int64_t first, int64_t last)
{
	return first <= last && first / PRI_FLOW_SLICE_NS == slice &&
	       last / PRI_FLOW_SLICE_NS == slice;
}

static void
code_part(struct coder *c, struct pri_flow *f, int64_t slice)
{
	const uint64_t base = (uint64_t)(slice * PRI_FLOW_SLICE_NS);
	uint64_t since = (uint64_t)pri_flow_first(f) - base, seq = UINT64_MAX;

	for (int i = 0; i < 2; i++)
		if (f->side[i].packets && f->side[i].first_seq < seq)
			seq = f->side[i].first_seq;
	code(c, &since);
	code(c, &seq);
	int64_t first = (int64_t)(base + since);
	code_time(c, &f->last_syn, INT64_MIN, first);
	for (int i = 0; i < 2; i++) {
		struct pri_flow_side *s = &f->side[i];

		s->first_seq -= c->out ? seq : 0;
		s->last_seq -= c->out ? seq : 0;
		code_side(c, s, first);
		s->first_seq += seq;
		s->last_seq += seq;
		c->bad |= s->packets && !in_slice(slice, s->first, s->last);
	}
	c->bad |=
		pri_flow_first(f) != first || (!f->side[0].packets && !f->side[1].packets);
}

bool
pri_flow_parts_open(struct pri_flow_parts_reader *r, const struct pr_packet *packet)
{
	*r = (struct pri_flow_parts_reader){
		.c = pr_cursor_make(packet->data, packet->caplen)};
	if (!pr_field_table_load(&r->c, &r->head, &head_table, PR_LITTLE_ENDIAN))
		return false;
	r->packets = r->head.not_ip;
	return r->head.magic == MAGIC &&
	       in_slice(r->head.slice, r->head.first, r->head.last) &&
	       packet->otime == pri_flow_slice_last(r->head.slice);
}

int
pri_flow_parts_next(struct pri_flow_parts_reader *r, struct pri_flow *out)
{
	struct coder c = {.in = r->c};
	struct pri_flow_key key = {.protocol = 0};

	if (pr_cursor_left(&r->c) == 0)
		return r->packets == r->head.packets ? 0 : -1;
	code_key(&c, &key);
	pri_flow_begin(out, &key);
	code_part(&c, out, r->head.slice);
	r->c = c.in;
	r->packets += pri_flow_packets(out);
	return c.bad ? -1 : 1;
}

/* ---- making parts ---- */

enum {
	FRAME_FULL = 64 * 1024,
	FRAME_ROOM = FRAME_FULL + (PRI_FLOW_PARTS_MOST + 1) * PART_MAX
};

struct pri_flow_parts {
	struct pri_flow_table *table; /* its flows end with their slices */
	/* of the open slice; its counts go with the next frame */
	struct pri_flow_parts_head head;
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
	if (!pr_field_table_store(&w, h, &head_table, PR_LITTLE_ENDIAN))
		return; /* cannot be: HEAD is its length */
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
	struct coder c = {.out = &w};
	struct pri_flow part = *flow;

	if (p->len + PART_MAX > sizeof(p->frame))
		return pr_error_set(err, "no room for parts of flows: they were not taken");
	code_key(&c, &part.key);
	code_part(&c, &part, p->head.slice);
	p->len += pr_writer_len(&w);
	p->head.packets += (uint32_t)pri_flow_packets(flow);
	return 0;
}

struct pri_flow_parts *
pri_flow_parts_create(size_t flows, uint32_t share, uint32_t shares, struct pr_error *err)
{
	const struct pri_flow_limits limits = {.idle_tcp = -1, /* less than any pause */
		.idle = -1,
		.idle_closed = -1,
		.flows = PR_MIN(flows, PRI_FLOW_PARTS_MOST),
		.share = share,
		.shares = shares};
	struct pri_flow_parts *p = malloc(sizeof(*p));

	if (!p)
		return pr_error_null(err, "no memory for parts of flows");
	p->head = (struct pri_flow_parts_head){.magic = MAGIC, .slice = INT64_MIN};
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

	if (packet->otime / PRI_FLOW_SLICE_NS < p->head.slice)
		return pr_error_set(err, "packets are not in order");
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
