/* SPDX-License-Identifier: Apache-2.0 */
/* Flow records: keys, states, ends; and that they are the same whichever node got which packet. */
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <zstd.h>

#include "indexer/filter/filter.h"
#include "indexer/filter/plan.h"
#include "indexer/flows/flow_filter.h"
#include "indexer/flows/flow_parts.h"
#include "proto/port/trace.h"
#include "tests/unit/flow_packed.h"
#include "tests/unit/unit.h"

#define S PR_NS_PER_S
#define MS PR_NS_PER_MS
#define FRAME 128

static struct pr_error err;

/* ---- packets ---- */

struct end {
	uint8_t host;
	uint16_t port;
};

/* An IPv4 packet over Ethernet, with a payload that is not captured. -> bytes captured */
static uint32_t
put_ip(uint8_t *frame, uint8_t protocol, struct end from, struct end to, uint8_t flags,
	uint16_t payload)
{
	uint8_t *ip = frame + 14;
	uint16_t header = protocol == 6 ? 40 : 28;

	memset(frame, 0, FRAME);
	pr_put_be16(frame + 12, 0x0800);
	ip[0] = 0x45;
	pr_put_be16(ip + 2, header + payload);
	ip[9] = protocol;
	ip[12] = ip[16] = 10;
	ip[15] = from.host;
	ip[19] = to.host;
	pr_put_be16(ip + 20, from.port);
	pr_put_be16(ip + 22, to.port);
	ip[32] = 0x50;
	ip[33] = flags;
	return 14 + header;
}

static struct pr_packet
packet_of(const uint8_t *frame, uint32_t len, int64_t time, uint64_t seq)
{
	return (struct pr_packet){.time = time,
		.otime = time,
		.seq = seq,
		.linktype = 1,
		.caplen = len,
		.len = len,
		.data = frame};
}

/* ---- records ---- */

#define RECORDS 50000
struct records {
	struct pri_flow all[RECORDS];
	size_t count;
};

static int
on_flow(void *arg, const struct pri_flow *flow, struct pr_error *e)
{
	struct records *r = arg;

	(void)e;
	ck_assert_uint_lt(r->count, RECORDS);
	r->all[r->count++] = *flow;
	return 0;
}

static int
compare_flows(const void *pa, const void *pb)
{
	const struct pri_flow *a = pa, *b = pb;
	int key = memcmp(&a->key, &b->key, sizeof(a->key));

	return key ? key
		   : (pri_flow_first(a) > pri_flow_first(b)) -
			       (pri_flow_first(a) < pri_flow_first(b));
}

/* ---- states and ends ---- */

#define FIN PRI_FLOW_FIN
#define SYN PRI_FLOW_SYN
#define RST PRI_FLOW_RST
#define ACK PRI_FLOW_ACK

/* Packets of a connection of 1:4000 and 2:80: who sends ('>' is 1), its flags, and when (ms). */
static const struct talk {
	const char *name;
	struct said {
		char who;
		uint8_t flags;
		uint16_t payload;
		int64_t at;
	} said[12];
	const char
		*expected; /* of each record: state, packets sent and received, who began */
} talks[] = {
	{"whole",
		{{'>', SYN, 0, 0}, {'<', SYN | ACK, 0, 1}, {'>', ACK, 0, 2},
			{'>', ACK, 9, 3}, {'<', FIN | ACK, 0, 4}, {'>', FIN | ACK, 0, 5},
			{'<', ACK, 0, 6}},
		"SF 4 3 1;"},
	{"no answer", {{'>', SYN, 0, 0}, {'>', SYN, 0, 1000}, {'>', SYN, 0, 3000}},
		"S0 3 0 1;"},
	{"refused", {{'>', SYN, 0, 0}, {'<', RST | ACK, 0, 1}}, "REJ 1 1 1;"},
	{"open", {{'>', SYN, 0, 0}, {'<', SYN | ACK, 0, 1}, {'>', ACK, 0, 2}}, "S1 2 1 1;"},
	{"its receiver left",
		{{'>', SYN, 0, 0}, {'<', SYN | ACK, 0, 1}, {'>', ACK, 0, 2},
			{'<', FIN | ACK, 0, 3}},
		"S3 2 2 1;"},
	{"who began left",
		{{'>', SYN, 0, 0}, {'<', SYN | ACK, 0, 1}, {'>', FIN | ACK, 0, 2}},
		"S2 2 1 1;"},
	{"reset by who began", {{'>', SYN, 0, 0}, {'<', SYN | ACK, 0, 1}, {'>', RST, 0, 2}},
		"RSTO 2 1 1;"},
	{"reset by its receiver",
		{{'>', SYN, 0, 0}, {'<', SYN | ACK, 0, 1}, {'>', ACK, 5, 2},
			{'<', RST, 0, 3}},
		"RSTR 2 2 1;"},
	{"a SYN and a RST of one end", {{'>', SYN, 0, 0}, {'>', RST, 0, 2}},
		"RSTOS0 2 0 1;"},
	{"a SYN and a FIN of one end", {{'>', SYN, 0, 0}, {'>', FIN, 0, 2}}, "SH 2 0 1;"},
	{"begins with the SYN+ACK", {{'<', SYN | ACK, 0, 0}, {'<', RST, 0, 5}},
		"RSTRH 0 2 1;"},
	{"in the midst, the server first", {{'<', ACK, 100, 0}, {'>', ACK, 0, 1}},
		"OTH 1 1 1;"},
	{"silent for longer than 60 s",
		{{'>', ACK, 1, 0}, {'<', ACK, 1, 500}, {'>', ACK, 1, 60600}},
		"OTH 1 1 1;OTH 1 0 1;"},
	{"silent for less", {{'>', ACK, 1, 0}, {'<', ACK, 1, 500}, {'>', ACK, 1, 60400}},
		"OTH 2 1 1;"},
	{"the same ports again after the end",
		{{'>', SYN, 0, 0}, {'<', RST | ACK, 0, 1}, {'>', SYN, 0, 1500},
			{'<', RST | ACK, 0, 1501}},
		"REJ 1 1 1;REJ 1 1 1;"},
	{"again within the same second",
		{{'>', SYN, 0, 0}, {'<', RST | ACK, 0, 1}, {'>', SYN, 0, 400},
			{'<', RST | ACK, 0, 401}},
		"REJ 2 2 1;"},
};

static void
run_talk(const struct talk *t, const struct pri_flow_limits *limits, struct records *out)
{
	struct pri_flow_table *table = pri_flow_table_create(limits, on_flow, out, &err);
	const struct end ends[2] = {{1, 4000}, {2, 80}};
	uint8_t frame[FRAME];

	ck_assert_ptr_nonnull(table);
	out->count = 0;
	for (size_t i = 0; i < 12 && t->said[i].who; i++) {
		const struct said *s = &t->said[i];
		bool back = s->who == '<';
		uint32_t len =
			put_ip(frame, 6, ends[back], ends[!back], s->flags, s->payload);
		struct pr_packet p = packet_of(frame, len, 100 * S + s->at * MS, i + 1);

		ck_assert_int_eq(pri_flow_table_packet(table, &p, &err), 0);
	}
	ck_assert_int_eq(pri_flow_table_advance(table, PRI_FLOW_NEVER, &err), 0);
	ck_assert_uint_eq(pri_flow_table_figures(table)->open, 0);
	ck_assert_uint_eq(pri_flow_table_figures(table)->flows, out->count);
	pri_flow_table_destroy(&table);
}

START_TEST(states_and_ends)
{
	const struct talk *t = &talks[_i];
	const struct pri_flow_limits limits = {.flows = 0};
	static struct records out;
	char text[200] = "";

	run_talk(t, &limits, &out);
	for (size_t i = 0; i < out.count; i++) {
		const struct pri_flow *f = &out.all[i];
		unsigned o = f->originator;

		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s %d %d %u;",
			pri_flow_state_name(pri_flow_state(f)), (int)f->side[o].packets,
			(int)f->side[!o].packets, f->key.address[o][3]);
	}
	ck_assert_msg(!strcmp(text, t->expected), "%s: %s, expected %s", t->name, text,
		t->expected);
}
END_TEST

START_TEST(limits_are_kept)
{
	static const struct talk longer = {"",
		{{'>', ACK, 1, 0}, {'<', ACK, 1, 30000}, {'>', ACK, 1, 59000},
			{'<', ACK, 1, 61000}},
		""};
	static const struct talk closed = {"", {{'>', FIN, 0, 0}, {'<', ACK, 0, 7000}}, ""};
	struct pri_flow_limits limits = {.active = 60 * S};
	static struct records out;

	run_talk(&longer, &limits, &out);
	ck_assert_uint_eq(out.count, 2); /* given in two parts, cut at a second */
	ck_assert_uint_eq(out.all[0].side[0].packets + out.all[0].side[1].packets, 3);
	limits = (struct pri_flow_limits){.idle_closed = 5 * S};
	run_talk(&closed, &limits, &out);
	ck_assert_uint_eq(out.count, 2);
	limits.idle_closed = 0;
	run_talk(&closed, &limits, &out);
	ck_assert_uint_eq(out.count, 1);
}
END_TEST

/* With room for three the one that was heard least recently ends; no packet is lost. */
START_TEST(room_is_short)
{
	const struct pri_flow_limits limits = {.flows = 3};
	static struct records out;
	struct pri_flow_table *table = pri_flow_table_create(&limits, on_flow, &out, &err);
	uint8_t frame[FRAME];
	uint64_t packets = 0;

	for (uint16_t i = 0; i < 60; i++) {
		uint32_t len = put_ip(
			frame, 17, (struct end){1, i % 5}, (struct end){2, 53}, 0, 10);
		struct pr_packet p = packet_of(frame, len, 10 * S + i * 100 * MS, i + 1);

		ck_assert_int_eq(pri_flow_table_packet(table, &p, &err), 0);
		ck_assert_uint_le(pri_flow_table_figures(table)->open, 3);
	}
	ck_assert_int_eq(pri_flow_table_advance(table, PRI_FLOW_NEVER, &err), 0);
	for (size_t i = 0; i < out.count; i++)
		packets += out.all[i].side[0].packets + out.all[i].side[1].packets;
	ck_assert_uint_eq(packets, 60);
	ck_assert_uint_gt(pri_flow_table_figures(table)->early, 0);
	pri_flow_table_destroy(&table);
}
END_TEST

/* ---- one observer and several nodes ---- */

static uint64_t rng;

static uint32_t
below(uint32_t n)
{
	rng = rng * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(rng >> 33) % n;
}

#define NODES 5
#define SHARES 3
#define FRAMES 4096

/* Frames on their way. */
static struct {
	struct pr_packet packet;
	unsigned share; /* from 0 */
} frames[FRAMES];
static size_t frame_count;

/* Takes what the node has ready. */
static void
take_frame(struct pri_flow_parts *node, unsigned share)
{
	struct pr_packet p;
	uint8_t *copy;

	if (!pri_flow_parts_take(node, &p))
		return;
	unit_must(frame_count < FRAMES && (p.flags & PR_PACKET_PARTS));
	unit_must(!pri_flow_parts_take(node, &(struct pr_packet){0}));
	copy = malloc(p.caplen);
	unit_must(copy);
	p.data = memcpy(copy, p.data, p.caplen);
	frames[frame_count].packet = p;
	frames[frame_count++].share = share;
}

/* Each frame reaches the owner of its share, those of one slice in any order. */
static void
send_frames(struct pri_flow_table **owners)
{
	for (; frame_count; frame_count--) {
		size_t i = below((uint32_t)frame_count);

		for (size_t k = 0; k < frame_count; k++)
			if (frames[k].packet.otime < frames[i].packet.otime)
				i = k;
		unit_must(pri_flow_table_packet(
				  owners[frames[i].share], &frames[i].packet, &err) == 0);
		free((void *)frames[i].packet.data);
		frames[i] = frames[frame_count - 1];
	}
}

/* As a batch has it. */
static struct pri_flow
in_columns(const struct pri_flow *flow)
{
	static struct pri_batch *from, *to;
	struct pri_flow out;
	uint64_t missing;

	if (!from) {
		from = pri_batch_create();
		to = pri_batch_create();
		unit_must(from && to);
	}
	pri_batch_clear(from);
	pri_batch_add(from, flow, 7, false);
	unit_must(batch_again(from, to));
	unit_must(pri_batch_flow(to, 0, &out, &missing) && missing == 7);
	return out;
}

/* The owner ends; another goes on with what was open at that time. */
static void
restart(struct pri_flow_table **owner, const struct pri_flow_limits *limits, int64_t time,
	struct records *out)
{
	static struct records open;

	open.count = 0;
	unit_must(pri_flow_table_open_flows(*owner, on_flow, &open, &err) == 0);
	pri_flow_table_destroy(owner);
	*owner = pri_flow_table_create(limits, on_flow, out, &err);
	unit_must(pri_flow_table_advance(*owner, time, &err) == 0);
	for (size_t i = 0; i < open.count; i++) {
		struct pri_flow flow = in_columns(&open.all[i]);

		unit_must(pri_flow_table_restore(*owner, &flow, &err) == 0);
	}
	unit_must(!open.count || pri_flow_table_restore(*owner, &open.all[0], &err) < 0);
}

static void
random_packet(uint8_t *frame, uint32_t *len)
{
	static const uint8_t flags[] = {ACK, ACK, ACK, SYN, SYN | ACK, FIN | ACK, RST};
	struct end a = {(uint8_t)(1 + below(3)), (uint16_t)(1000 + below(2))};
	struct end b = {(uint8_t)(4 + below(2)), (uint16_t)(below(2) ? 80 : 5000)};
	bool back = below(2);

	*len = put_ip(frame, below(4) ? 6 : 17, back ? b : a, back ? a : b, flags[below(7)],
		(uint16_t)below(1000));
}

/* How packets are spread: in turn, by chance, by connection; all to one. */
static unsigned
node_of(int mode, unsigned nodes, uint64_t seq, const uint8_t *frame)
{
	switch (mode) {
	case 0:
		return seq % nodes;
	case 1:
		return below(nodes);
	case 2:
		return (frame[29] + frame[33] + frame[35] + frame[37]) % nodes;
	default:
		return 0;
	}
}

/* Of random packets. */
static void
some_flows(uint64_t seed, struct records *out)
{
	const struct pri_flow_limits limits = {.flows = 0};
	struct pri_flow_table *t = pri_flow_table_create(&limits, on_flow, out, &err);
	uint8_t frame[FRAME];
	uint32_t len;

	rng = seed;
	for (uint64_t seq = 1; seq <= 40; seq++) {
		struct pr_packet p;

		random_packet(frame, &len);
		p = packet_of(frame, len, (int64_t)seq * 300 * MS, seq);
		unit_must(pri_flow_table_packet(t, &p, &err) == 0);
	}
	unit_must(pri_flow_table_advance(t, PRI_FLOW_NEVER, &err) == 0);
	pri_flow_table_destroy(&t);
}

static void
same_flows(struct records *whole, struct records *parts)
{
	qsort(whole->all, whole->count, sizeof(*whole->all), compare_flows);
	qsort(parts->all, parts->count, sizeof(*parts->all), compare_flows);
	unit_must(whole->count == parts->count && whole->count > 0);
	for (size_t i = 0; i < whole->count; i++) {
		const struct pri_flow *a = &whole->all[i], *b = &parts->all[i];

		unit_must(!memcmp(&a->key, &b->key, sizeof(a->key)) &&
			  a->originator == b->originator && a->last_syn == b->last_syn);
		for (int k = 0; k < 2; k++)
			unit_must(a->side[k].packets == b->side[k].packets &&
				  a->side[k].bytes == b->side[k].bytes &&
				  a->side[k].payload == b->side[k].payload &&
				  a->side[k].first == b->side[k].first &&
				  a->side[k].last == b->side[k].last &&
				  a->side[k].first_seq == b->side[k].first_seq &&
				  a->side[k].last_seq == b->side[k].last_seq &&
				  a->side[k].syn == b->side[k].syn &&
				  a->side[k].syn_ack == b->side[k].syn_ack &&
				  a->side[k].fin == b->side[k].fin &&
				  a->side[k].rst == b->side[k].rst &&
				  a->side[k].flags == b->side[k].flags &&
				  a->side[k].icmp_code == b->side[k].icmp_code);
		unit_must(pri_flow_state(a) == pri_flow_state(b));
	}
}

/* Nodes that make parts, with little room, for owners of a share each; and one observer of all packets. */
struct rack {
	struct pri_flow_limits limits;
	struct pri_flow_table *one, *owners[SHARES];
	struct pri_flow_parts *nodes[NODES][SHARES];
	unsigned count, shares;
	struct records whole, parts;
	uint64_t late; /* of all owners */
};

static void
rack_begin(struct rack *r, uint64_t seed, size_t room)
{
	r->count = 1 + seed % NODES;
	r->shares = 1 + seed % SHARES;
	r->whole.count = r->parts.count = r->late = 0;
	r->one = pri_flow_table_create(&r->limits, on_flow, &r->whole, &err);
	for (unsigned s = 0; s < r->shares; s++) {
		struct pri_flow_limits limits = r->limits;

		limits.share = s + 1;
		limits.shares = r->shares;
		r->owners[s] = pri_flow_table_create(&limits, on_flow, &r->parts, &err);
		for (unsigned n = 0; n < r->count; n++)
			r->nodes[n][s] = pri_flow_parts_create(
				room, s + 1, r->shares == 1 ? 0 : r->shares, &err);
	}
}

static void
rack_advance(struct rack *r, int64_t time)
{
	for (unsigned n = 0; n < r->count; n++)
		for (unsigned s = 0; s < r->shares; s++) {
			unit_must(pri_flow_parts_advance(r->nodes[n][s], time, &err) == 0);
			take_frame(r->nodes[n][s], s);
		}
	send_frames(r->owners);
	for (unsigned s = 0; s < r->shares; s++)
		unit_must(pri_flow_table_advance(r->owners[s], time, &err) == 0);
}

static void
rack_packet(struct rack *r, unsigned node, const struct pr_packet *p)
{
	unit_must(pri_flow_table_packet(r->one, p, &err) == 0);
	for (unsigned s = 0; s < r->shares; s++) {
		unit_must(pri_flow_parts_packet(r->nodes[node][s], p, &err) == 0);
		take_frame(r->nodes[node][s], s);
	}
}

/* Nothing was lost, and the flows are the same. */
static void
rack_end(struct rack *r, bool restarted)
{
	const struct pri_flow_figures *one = pri_flow_table_figures(r->one);
	uint64_t packets = 0, not_ip = 0;

	rack_advance(r, PRI_FLOW_NEVER);
	unit_must(pri_flow_table_advance(r->one, PRI_FLOW_NEVER, &err) == 0);
	for (unsigned s = 0; s < r->shares; s++) {
		const struct pri_flow_figures *f = pri_flow_table_figures(r->owners[s]);

		packets += f->packets;
		not_ip += f->not_ip;
		unit_must(f->late == 0 && (restarted || f->parts_packets == f->packets));
	}
	unit_must(restarted || (packets == one->packets && not_ip == one->not_ip));
	same_flows(&r->whole, &r->parts);
	for (unsigned s = 0; s < r->shares; s++) {
		pri_flow_table_destroy(&r->owners[s]);
		for (unsigned n = 0; n < r->count; n++)
			pri_flow_parts_destroy(&r->nodes[n][s]);
	}
	pri_flow_table_destroy(&r->one);
}

static void
one_case(uint64_t seed)
{
	static struct rack r;
	int64_t time = 1000 * S;
	uint8_t frame[FRAME];
	bool restarts = seed % 7 == 0;
	uint32_t len;

	r.limits = (struct pri_flow_limits){.idle_tcp = 6 * S,
		.idle = 3 * S,
		.active = 12 * S,
		.idle_closed = seed % 2 ? 2 * S : 0};
	rng = seed * 0x9e3779b97f4a7c15u;
	rack_begin(&r, seed, 1 + seed % 5);
	for (uint64_t seq = 1; seq <= 120; seq++) {
		int64_t before = time;
		struct pr_packet p;

		time += below(8) ? below(300) * MS : below(8000) * MS;
		if (time / S != before / S)
			rack_advance(&r, time);
		for (unsigned s = 0; time / S != before / S && restarts && s < r.shares;
			s++)
			if (below(4) == 0) {
				struct pri_flow_limits limits = r.limits;

				limits.share = s + 1;
				limits.shares = r.shares;
				restart(&r.owners[s], &limits, time, &r.parts);
			}
		random_packet(frame, &len);
		frame[12] = below(16) ? frame[12] : 0x99; /* some are not IP */
		p = packet_of(frame, len, time, seq);
		rack_packet(&r, node_of((int)(seed / NODES % 4), r.count, seq, frame), &p);
	}
	rack_end(&r, restarts);
	for (size_t i = 0; i < r.parts.count; i++) {
		const struct pri_flow stored = in_columns(&r.parts.all[i]);

		unit_must(!memcmp(&stored.key, &r.parts.all[i].key, sizeof(stored.key)) &&
			  pri_flow_state(&stored) == pri_flow_state(&r.parts.all[i]));
	}
}

START_TEST(the_same_for_all_nodes)
{
	for (uint64_t seed = 1; seed <= 2000; seed++)
		one_case(seed);
}
END_TEST

/* Traces of networks: parts of one to five nodes, with much room and little. */
START_TEST(the_same_of_real_packets)
{
	static const char *const names[] = {
		"mix-gateway-full-a.pcap", "mta-1year-hdr96-a.pcap"};
	const char *dir =
		getenv("PACKRACK_DATA") ? getenv("PACKRACK_DATA") : "../shared/data";
	static struct rack r;
	char path[PATH_MAX];

	for (uint64_t seed = 0; seed < 6; seed++) {
		struct pr_trace *trace;
		struct pr_packet p;
		int64_t now = INT64_MIN;
		uint64_t seq = 0;

		snprintf(path, sizeof(path), "%s/%s", dir, names[seed % 2]);
		trace = pr_trace_open(path, &err);
		if (!trace) {
			printf("skipped: no captures in %s (set PACKRACK_DATA)\n", dir);
			return;
		}
		rng = seed + 1;
		r.limits = (struct pri_flow_limits){0};
		rack_begin(&r, seed, seed < 3 ? 3 : PRI_FLOW_PARTS_MOST);
		while (pr_trace_next(trace, &p, &err) == PR_SOURCE_PACKET) {
			p.seq = ++seq;
			p.otime = p.time > now ? p.time : now;
			if (p.otime / S != now / S)
				rack_advance(&r, p.otime);
			now = p.otime;
			rack_packet(&r, below(r.count), &p);
		}
		ck_assert_uint_gt(seq, 10000);
		rack_end(&r, false);
		pr_trace_close(&trace);
	}
}
END_TEST

/* ---- columns ---- */

/* All values of all kinds of flows come back, in batches of any size. */
START_TEST(columns_come_back)
{
	struct pri_batch *from = pri_batch_create(), *to = pri_batch_create();
	static struct records out;
	struct pri_flow flow;
	uint64_t missing;

	ck_assert(from && to);
	for (uint64_t seed = 1; seed <= 40; seed++) {
		out.count = 0;
		some_flows(seed, &out);
		pri_batch_clear(from);
		for (size_t i = 0; i < out.count; i++) {
			out.all[i].sampling = (uint32_t)seed % 3 * 1000;
			out.all[i].key.vlan = i % 5 ? PRI_FLOW_UNTAGGED : (uint16_t)i;
			pri_batch_add(from, &out.all[i], i % 7 ? 0 : UINT64_MAX - i, i % 2);
		}
		ck_assert(batch_again(from, to));
		for (size_t i = 0; i < out.count; i++) {
			const struct pri_flow *f = &out.all[i];

			ck_assert(pri_batch_flow(to, i, &flow, &missing));
			ck_assert_mem_eq(&flow.key, &f->key, sizeof(flow.key));
			ck_assert_uint_eq(missing, i % 7 ? 0 : UINT64_MAX - i);
			ck_assert(flow.originator == f->originator &&
				  flow.last_syn == f->last_syn &&
				  flow.sampling == f->sampling);
			for (int k = 0; k < 2; k++)
				ck_assert_mem_eq(&flow.side[k], &f->side[k],
					offsetof(struct pri_flow_side, icmp_code) + 1);
			ck_assert_uint_eq(to->values[PRI_COL_STATE][i], pri_flow_state(f));
			ck_assert_uint_eq(
				(to->values[PRI_COL_BITS][i] & PRI_LEFT_OUT) != 0, i % 2);
		}
	}
	pri_batch_destroy(&from);
	pri_batch_destroy(&to);
}
END_TEST

/* The bytes of a column stay the same; what is shorter, longer or changed is refused, or within the limits. */
START_TEST(columns_are_golden)
{
	static const uint8_t golden[] = {5, 0, 4, 0, 0, 1, 2, 3, 0, 0, 0, 1};
	struct pri_batch *b = pri_batch_create();
	uint64_t least, most, *ports = b->values[PRI_COL_DPORT];
	uint8_t packed[256], bad[256];
	size_t len;

	b->rows = 4;
	b->addresses = 3;
	for (size_t i = 0; i < 4; i++)
		ports[i] = 80 + i + (i == 3 ? 256 : 0);
	len = pri_column_pack(b, PRI_COL_DPORT, &least, &most, packed, sizeof(packed));
	ck_assert(len == sizeof(golden) && least == 80 && most == 339);
	ck_assert_mem_eq(packed, golden, len);
	ck_assert(pri_column_unpack(b, PRI_COL_DPORT, least, most, packed, len));
	ck_assert(ports[0] == 80 && ports[3] == 339);
	ck_assert(!pri_column_unpack(b, PRI_COL_DPORT, least, most - 1, packed, len));
	ck_assert(!pri_column_unpack(b, PRI_COL_DPORT, most, least, packed, len));
	ck_assert(!pri_column_unpack(b, PRI_COL_DPORT, least, least, packed, len));
	ck_assert(!pri_column_unpack(b, PRI_COL_DPORT, least, most, NULL, 0));
	for (size_t n = 1; n < len; n++)
		ck_assert(!pri_column_unpack(b, PRI_COL_DPORT, least, most, packed, n));
	for (size_t bit = 0; bit < 8 * len; bit++) {
		memcpy(bad, packed, len);
		bad[bit / 8] ^= (uint8_t)(1u << bit % 8);
		if (pri_column_unpack(b, PRI_COL_DPORT, least, most, bad, len))
			for (size_t i = 0; i < 4; i++)
				ck_assert(ports[i] <= most);
	}
	/* places of three addresses */
	ck_assert(pri_column_unpack(b, PRI_COL_SRC, 2, 2, NULL, 0));
	ck_assert(!pri_column_unpack(b, PRI_COL_SRC, 3, 3, NULL, 0));
	ck_assert(!pri_column_unpack(
		b, PRI_COL_STATE, PRI_FLOW_STATES, PRI_FLOW_STATES, NULL, 0));
	ck_assert(pri_column_unpack(b, PRI_COL_MISSING, UINT64_MAX, UINT64_MAX, NULL, 0));
	pri_batch_destroy(&b);
}
END_TEST

/* Planes of each kind: of zeros, whole, packed, and few that differ from a value. */
START_TEST(kinds_of_planes)
{
	static const enum pri_column columns[] = {PRI_COL_DPORT, PRI_COL_VLAN};
	static const uint8_t kinds[] = {0xd5, 0xda}; /* the low planes of the first frame */
	static const uint32_t some[] = {3, 160, 8192};
	const size_t n = 9000, room = 6 * n;
	struct pri_batch *b = pri_batch_create();
	uint8_t *packed = malloc(room), *bad = malloc(room);
	uint64_t *expected = malloc(n * sizeof(*expected)), least, most;

	b->rows = n;
	b->addresses = 3;
	for (uint64_t i = 0; i < n;
		i++) /* two, four or some 256 values; 7, but for some; above the first frame */
		expected[i] = i % 2 * 3 + (i * i % 7 % 4 << 8) +
			      (i * i * 2654435761u % 251 << 16) +
			      ((i % 160 ? 7 : i % 256) << 24) + (i >= 8192 ? i << 32 : 0);
	for (size_t c = 0; c < 2; c++) {
		uint64_t *v = b->values[columns[c]];

		memcpy(v, expected, n * sizeof(*v));
		size_t len = pri_column_pack(b, columns[c], &least, &most, packed, room);
		ck_assert(len > 0 && len < room);
		ck_assert_uint_eq(packed[0], kinds[c]);
		ck_assert_uint_eq(packed[1], 0);
		memset(v, 0, n * sizeof(*v));
		ck_assert(pri_column_unpack(b, columns[c], least, most, packed, len));
		ck_assert_mem_eq(v, expected, n * sizeof(*v));
		memset(v, 0, n * sizeof(*v));
		b->only = some;
		b->only_count = 3;
		ck_assert(pri_column_unpack(b, columns[c], least, most, packed, len));
		for (uint64_t i = 0; i < n; i++)
			ck_assert(v[i] ==
				  (i == 3 || i == 160 || i == 8192 ? expected[i] : 0));
		b->only = NULL;
		for (size_t at = 0; at < len; at += at < 64 ? 1 : 97) {
			memcpy(bad, packed, len);
			bad[at] ^= (uint8_t)(1 + at % 255);
			if (pri_column_unpack(b, columns[c], least, most, bad, len))
				for (size_t i = 0; i < n; i++)
					ck_assert(v[i] >= least && v[i] <= most);
			ck_assert(
				!pri_column_unpack(b, columns[c], least, most, packed, at));
		}
	}
	free(packed);
	free(bad);
	free(expected);
	pri_batch_destroy(&b);
}
END_TEST

/* Columns of several frames, and of one as before: all rows, or some of them, come back. */
START_TEST(frames_of_columns)
{
	static const uint32_t some[] = {0, 1, 8191, 8192, 19999};
	const size_t n = 20000, room = 3 * n + 4096;
	struct pri_batch *b = pri_batch_create();
	uint64_t *v = b->values[PRI_COL_VLAN], least, most;
	uint8_t *planes = malloc(3 * n), *packed = malloc(room), *one = malloc(room);
	size_t len, one_len;

#define VALUE(i) (UINT64_C(5) + (i)*i * UINT64_C(2654435761) % 10000000)
	b->rows = n;
	for (uint64_t i = 0; i < n; i++) {
		v[i] = VALUE(i);
		for (int j = 0; j < 3; j++)
			planes[(size_t)j * n + i] = (uint8_t)((v[i] - 5) >> (8 * j));
	}
	len = pri_column_pack(b, PRI_COL_VLAN, &least, &most, packed, room);
	ck_assert(len > 0 && len != SIZE_MAX && least == 5);
	one_len = ZSTD_compress(one, room, planes, 3 * n, 1);
	for (int older = 0; older < 2; older++) {
		const uint8_t *bytes = older ? one : packed;
		size_t size = older ? one_len : len;

		memset(v, 0, n * sizeof(*v));
		ck_assert(pri_column_unpack(b, PRI_COL_VLAN, least, most, bytes, size));
		for (uint64_t i = 0; i < n; i++)
			ck_assert(v[i] == VALUE(i));
		memset(v, 0, n * sizeof(*v));
		b->only = some;
		b->only_count = 5;
		ck_assert(pri_column_unpack(b, PRI_COL_VLAN, least, most, bytes, size));
		for (uint64_t i = 0; i < n; i++)
			ck_assert(v[i] == (i < 2 || i == 8191 || i == 8192 || i == 19999
							  ? VALUE(i)
							  : 0));
		b->only = NULL;
		for (size_t i = 1; i < size; i += 97)
			ck_assert(!pri_column_unpack(
				b, PRI_COL_VLAN, least, most, bytes, size - i));
	}
	memcpy(one, packed, len); /* a frame more than there are rows */
	memcpy(one + len, packed, room - len < len ? room - len : len);
	ck_assert(!pri_column_unpack(b, PRI_COL_VLAN, least, most, one, len + 100));
	free(planes);
	free(packed);
	free(one);
	pri_batch_destroy(&b);
}
END_TEST

static bool
page_has(const uint8_t *bloom, size_t size, unsigned side, const uint8_t *address,
	size_t len)
{
	size_t at = pri_bloom_page(size, side, address, len);

	ck_assert(at % PRI_BLOOM_PAGE == 0 && at < size);
	return pri_bloom_has(bloom + at, PRI_BLOOM_BYTES, side, address, len);
}

START_TEST(bloom_filters)
{
	struct pri_batch *b = pri_batch_create();
	struct pri_flow f = {.key = {.address_len = 4}};
	uint8_t *bloom, six[16] = {0};
	size_t size, wrong = 0;

	for (uint32_t i = 0; i < 20000; i++) {
		pr_put_be32(f.key.address[0], 2 * i);
		pr_put_be32(f.key.address[1], 2 * i + 200000);
		pri_batch_add(b, &f, 0, false);
	}
	pri_batch_end(b);
	bloom = malloc(1 << 20);
	size = pri_batch_bloom(b, 77, bloom);
	ck_assert(size % PRI_BLOOM_PAGE == 0 && size < 2 * 40000 * 102 / 100);
	for (uint32_t i = 0; i < 20000; i++) {
		pr_put_be32(f.key.address[0], 2 * i);
		pr_put_be32(f.key.address[1], 2 * i + 200000);
		ck_assert(page_has(bloom, size, PRI_BLOOM_SRC, f.key.address[0], 4));
		ck_assert(page_has(bloom, size, PRI_BLOOM_DST, f.key.address[1], 4));
		wrong += page_has(bloom, size, PRI_BLOOM_DST, f.key.address[0], 4);
		pr_put_be32(f.key.address[0], 2 * i + 1);
		wrong += page_has(bloom, size, PRI_BLOOM_SRC, f.key.address[0], 4);
		memcpy(six + 12, f.key.address[1], 4);
		wrong += page_has(bloom, size, PRI_BLOOM_DST, six, 16);
	}
	ck_assert_msg(wrong < 60000 / 500, "%zu of 60000", wrong);
	for (size_t at = 0; at < size; at += PRI_BLOOM_PAGE) {
		ck_assert(pri_bloom_page_valid(bloom + at, 77 + at));
		ck_assert(!pri_bloom_page_valid(bloom + at, 76 + at));
		ck_assert(!pri_bloom_page_valid(bloom + at, 77 + at + PRI_BLOOM_PAGE));
		bloom[at + at % PRI_BLOOM_BYTES] ^= 4;
		ck_assert(!pri_bloom_page_valid(bloom + at, 77 + at));
	}
	free(bloom);
	pri_batch_destroy(&b);
}
END_TEST

/* ---- parts ---- */

static void
hex(const uint8_t *bytes, size_t len, char *out)
{
	for (size_t i = 0; i < len; i++)
		sprintf(out + 2 * i, "%02x", bytes[i]);
}

static bool
reads_parts(const struct pr_packet *p)
{
	struct pri_flow_parts_reader r;
	struct pri_flow part;
	int got = -1;

	if (pri_flow_parts_open(&r, p))
		while ((got = pri_flow_parts_next(&r, &part)) > 0)
			for (int i = 0; i < 2; i++)
				unit_must(!part.side[i].packets ||
					  (part.side[i].first / S == r.head.slice &&
						  part.side[i].last / S == r.head.slice));
	return got == 0;
}

/* Parts that nodes send: mergers and clients of other versions read these bytes. */
START_TEST(parts_are_golden)
{
	static const char expected[] =
		"50465001e8030000000000000510a5d4e800000080e9440de90000000400000001000000"
		"01000000010000000100000000060a0000010a000002a01f50ac0205f0a2040101280002"
		"0001010000010000000128001200fcd193ad03fcd193ad03020200fcd193ad0300000011"
		"0a0000010a00000235350080b3ffc403f4a2040001250900000101000000";
	struct pri_flow_parts *parts = pri_flow_parts_create(10, 0, 0, &err);
	struct pri_flow_parts_reader r;
	uint8_t frame[FRAME], copy[512];
	char text[2 * sizeof(copy) + 1];
	struct pri_flow part;
	struct pr_packet p;
	uint32_t len;

	ck_assert_ptr_nonnull(parts);
	len = put_ip(frame, 6, (struct end){1, 4000}, (struct end){2, 80}, SYN, 0);
	p = packet_of(frame, len, 1000 * S + 5, 70000);
	p.flags = PR_PACKET_CUT | PR_PACKET_MATCH_UNSURE | PR_PACKET_FRAGMENT_OF;
	p.link = 300;
	ck_assert_int_eq(pri_flow_parts_packet(parts, &p, &err), 0);
	len = put_ip(frame, 6, (struct end){2, 80}, (struct end){1, 4000}, SYN | ACK, 0);
	p = packet_of(frame, len, 1000 * S + 900 * MS, 70002);
	p.link = 300;
	ck_assert_int_eq(pri_flow_parts_packet(parts, &p, &err), 0);
	memset(frame + 12, 0x99, 2);
	p = packet_of(frame, len, 1000 * S + 950 * MS, 70003);
	ck_assert_int_eq(pri_flow_parts_packet(parts, &p, &err), 0);
	len = put_ip(frame, 17, (struct end){1, 53}, (struct end){2, 53}, 0, 9);
	p = packet_of(frame, len, 1000 * S + 950 * MS, 70004);
	ck_assert_int_eq(pri_flow_parts_packet(parts, &p, &err), 0);
	ck_assert(!pri_flow_parts_take(parts, &p));
	ck_assert_int_eq(pri_flow_parts_advance(parts, 1001 * S, &err), 0);
	ck_assert(pri_flow_parts_take(parts, &p));
	ck_assert_int_eq(p.otime, 1001 * S - 1);
	ck_assert_int_eq(p.time, 1000 * S + 950 * MS);
	ck_assert_uint_lt(p.caplen, sizeof(copy));
	p.data = memcpy(copy, p.data, p.caplen);
	pri_flow_parts_destroy(&parts);
	hex(copy, p.caplen, text);
	ck_assert_str_eq(text, expected);

	ck_assert(pri_flow_parts_open(&r, &p));
	ck_assert_int_eq(r.head.first, 1000 * S + 5);
	ck_assert_uint_eq(r.head.packets, 4);
	ck_assert_uint_eq(r.head.not_ip, 1);
	ck_assert_uint_eq(r.head.related, 1);
	ck_assert_uint_eq(r.head.truncated, 1);
	ck_assert_uint_eq(r.head.unsure, 1);
	ck_assert_int_eq(pri_flow_parts_next(&r, &part), 1);
	ck_assert_int_eq(part.last_syn, 1000 * S + 5);
	ck_assert_int_eq(part.side[1].syn_ack, 1000 * S + 900 * MS);
	ck_assert_uint_eq(part.side[1].first_seq, 70002);
	ck_assert_int_eq(pri_flow_parts_next(&r, &part), 1);
	ck_assert_uint_eq(part.side[0].payload, 9);
	ck_assert_int_eq(pri_flow_parts_next(&r, &part), 0);

	/* shorter or longer, of another version, or in another slice it is damaged */
	for (len = p.caplen; p.caplen-- > 0;)
		ck_assert(!reads_parts(&p));
	p.caplen = len + 1;
	copy[len] = 0;
	ck_assert(!reads_parts(&p));
	p.caplen = len;
	ck_assert(reads_parts(&p));
	for (size_t i = 0; i < len; i++)
		for (unsigned bits = 1; bits < 256; bits++) {
			copy[i] ^= bits;
			unit_must(!reads_parts(&p) || i >= 12); /* magic, slice */
			copy[i] ^= bits;
		}
	p.otime++;
	ck_assert(!reads_parts(&p));
}
END_TEST

/* Keepers of several versions agree on shares; both directions are in one; a new share takes from all, and no other does. */
START_TEST(shares_are_stable)
{
	static const uint32_t golden[] = {2, 3, 2, 1, 3, 2, 3, 3};
	unsigned sizes[4] = {0}, moved = 0;

	for (unsigned i = 0; i < 4000; i++) {
		struct pri_flow_key key = {.address_len = 4, .port = {1, 2}}, back = key;
		uint32_t share;

		pr_put_be32(key.address[0], 0x0a000000 + i);
		pr_put_be32(key.address[1], 0x0a010203 + i * 7919);
		memcpy(back.address[0], key.address[1], 16);
		memcpy(back.address[1], key.address[0], 16);
		back.protocol = 17;
		share = pri_flow_share(&key, 3);
		unit_must(share >= 1 && share <= 3 && share == pri_flow_share(&back, 3));
		unit_must(pri_flow_share(&key, 1) == 1);
		unit_must(pri_flow_share(&key, 4) == share || pri_flow_share(&key, 4) == 4);
		moved += pri_flow_share(&key, 4) == 4;
		sizes[share]++;
		if (i < 8)
			ck_assert_uint_eq(share, golden[i]);
	}
	for (unsigned n = 1; n <= 3; n++)
		ck_assert(sizes[n] > 4000 / 3 - 150 && sizes[n] < 4000 / 3 + 150);
	ck_assert(moved > 1000 - 150 && moved < 1000 + 150);
}
END_TEST

/* ---- plans ---- */

static bool
is_of_flow(void *arg, const struct pri_key *key)
{
	const struct pri_flow *f = arg;
	unsigned o = f->originator;

	if (key->kind != PRI_KEY_SRC && key->kind != PRI_KEY_DST)
		return true;
	return key->len == f->key.address_len &&
	       !memcmp(key->bytes, f->key.address[key->kind == PRI_KEY_SRC ? o : !o],
		       key->len);
}

static bool
any_range(void *arg, const struct pri_plan_range *range)
{
	(void)arg;
	(void)range;
	return true;
}

/* A filter's plan holds of all flows that the filter matches, and tells addresses apart. */
START_TEST(plans_of_filters)
{
	static const char *const texts[] = {"tcp", "bytes > 100", "not bytes > 100 and udp",
		"state = S0 or port 80", "bytes > 1 and packets > 2 and not duration > 1s",
		"not (host 10.0.0.1)", "ether[6] = 0 and bytes > 10", "host 10.0.0.1",
		"src host 10.0.0.2 and bytes > 1", "host 10.0.0.1 and host 10.0.0.4",
		"host 10.0.0.1 and tcp port 80 or dst net 10.0.0.0/30"};
	static struct records out;
	size_t excluded = 0;
	uint8_t scratch[1000];

	out.count = 0;
	for (uint64_t seed = 1; seed <= 20; seed++)
		some_flows(seed, &out);
	for (size_t t = 0; t < sizeof(texts) / sizeof(*texts); t++) {
		struct pri_flow_filter *f = pri_flow_filter_create(texts[t], &err);
		struct pri_plan *plan = pri_flow_filter_plan(f, &err);

		ck_assert(plan && plan->count < sizeof(scratch));
		for (size_t i = 0; i < out.count; i++) {
			const struct pri_plan_index index = {
				is_of_flow, any_range, NULL, &out.all[i]};
			bool holds = pri_plan_holds(plan, &index, scratch);

			ck_assert_msg(!pri_flow_filter_match(f, &out.all[i]) || holds, "%s",
				texts[t]);
			excluded += !holds;
		}
		pri_plan_destroy(&plan);
		pri_flow_filter_destroy(&f);
	}
	ck_assert_uint_gt(excluded, 100);
}
END_TEST

/* ---- keys ---- */

/* The ID of RSVP between 10.1.12.1 and 10.1.12.2, from the specification's baselines. */
START_TEST(community_id_of_no_ports)
{
	struct pri_flow_key k = {.protocol = 46, .address_len = 4};
	char id[PRI_COMMUNITY_ID_MAX];

	memcpy(k.address[0], "\x0a\x01\x0c\x01", 4);
	memcpy(k.address[1], "\x0a\x01\x0c\x02", 4);
	pri_community_id(&k, 0, id);
	ck_assert_str_eq(id, "1:KHlLkgoJW7ifUTyTSgyVfkFHzKw=");
	pri_community_id(&k, 1, id);
	ck_assert_str_eq(id, "1:rYir8gphR31noO9iDRQmF/BteEI=");
}
END_TEST

/* What lies before the Ethertype of IPv4. VLAN: of the outermost tag. */
static const struct below_ip {
	const char *name, *bytes;
	size_t len;
	uint16_t linktype, vlan;
} lower[] = {
#define WIFI M "\1\2\3\4\5\10\0\0" /* three addresses, a number */
#define M "\1\2\3\4\5\6\1\2\3\4\5\7"
	{"Ethernet", M "\x08\x00", 14, 1, PRI_FLOW_UNTAGGED},
	{"802.1Q", M "\x81\x00\x20\x05\x08\x00", 18, 1, 5},
	{"802.1ad", M "\x88\xa8\x00\x07\x81\x00\x00\x05\x08\x00", 22, 1, 7},
	{"MPLS", M "\x88\x47\x00\x01\x01\x40", 18, 1, PRI_FLOW_UNTAGGED},
	{"PPPoE", M "\x88\x64\x11\x00\x00\x01\x00\x20\x00\x21", 22, 1, PRI_FLOW_UNTAGGED},
	{"VN-Tag", M "\x89\x26\x00\x00\x00\x33\x81\x00\x00\x09\x08\x00", 24, 1, 9},
	{"PBB", M "\x81\x00\x00\x03\x88\xe7\x00\x00\x00\x01" M "\x08\x00", 36, 1, 3},
	{"FabricPath", M "\x89\x03\x00\x01" M "\x08\x00", 30, 1, PRI_FLOW_UNTAGGED},
	{"802.11", "\x08\x01\0\0" WIFI "\xaa\xaa\x03\0\0\0\x08\x00", 32, 105,
		PRI_FLOW_UNTAGGED},
	{"802.11 with QoS, radiotap",
		"\0\0\x08\0\0\0\0\0\x88\x01\0\0" WIFI "\0\0\xaa\xaa\x03\0\0\0\x08\x00", 42,
		127, PRI_FLOW_UNTAGGED},
	{"PPP", "\xff\x03\x00\x21", 4, 9, PRI_FLOW_UNTAGGED},
	{"PPP without address", "\x00\x21", 2, 9, PRI_FLOW_UNTAGGED},
	{"raw IP", "", 0, 101, PRI_FLOW_UNTAGGED},
};

START_TEST(below_ip)
{
	const struct below_ip *b = &lower[_i];
	uint8_t frame[FRAME], bytes[2 * FRAME];
	struct pri_flow_packet out;
	struct pr_packet p;
	uint32_t len =
		put_ip(frame, 6, (struct end){2, 4000}, (struct end){1, 80}, SYN, 0) - 14;

	memcpy(bytes, b->bytes, b->len);
	memcpy(bytes + b->len, frame + 14, len);
	p = packet_of(bytes, (uint32_t)b->len + len, S, 1);
	p.linktype = b->linktype;
	ck_assert_msg(pri_flow_packet_parse(&p, &out), "%s", b->name);
	ck_assert_uint_eq(out.key.port[0], 80);
	ck_assert_uint_eq(out.key.port[1], 4000);
	ck_assert_uint_eq(out.side, 1);
	ck_assert_uint_eq(out.key.vlan, b->vlan);
	ck_assert_uint_eq(out.flags, SYN);
	ck_assert_uint_eq(out.bytes, 40);
	for (p.caplen = 0; p.caplen < b->len + 20; p.caplen++)
		ck_assert_msg(!pri_flow_packet_parse(&p, &out), "%s, %u bytes", b->name,
			p.caplen);
	for (; p.caplen < b->len + len; p.caplen++)
		ck_assert(pri_flow_packet_parse(&p, &out));
}
END_TEST

START_TEST(lengths)
{
	uint8_t frame[FRAME];
	struct pri_flow_packet out;
	uint32_t len =
		put_ip(frame, 6, (struct end){2, 4000}, (struct end){1, 80}, ACK, 1000);
	struct pr_packet p = packet_of(frame, len, S, 1);

	p.len = 1054;
	ck_assert(pri_flow_packet_parse(&p, &out));
	ck_assert_uint_eq(out.bytes, 1040);
	ck_assert_uint_eq(out.payload, 1000);
	pr_put_be16(frame + 16, 0); /* left to the card: as long as the packet was */
	p.len = 5054;
	ck_assert(pri_flow_packet_parse(&p, &out));
	ck_assert_uint_eq(out.bytes, 5040);
	ck_assert_uint_eq(out.payload, 5000);
	pr_put_be16(frame + 20, 100); /* a later fragment: its bytes are no ports */
	ck_assert(pri_flow_packet_parse(&p, &out));
	ck_assert_uint_eq(out.key.port[0] | out.key.port[1], 0);
}
END_TEST

/* A ping and its answer: who began has sent the type 8, in whichever order parts come. */
START_TEST(icmp_of_who_began)
{
	for (int order = 0; order < 2; order++) {
		const struct pri_flow_limits limits = {.flows = 0};
		static struct records out;
		struct pri_flow_table *table =
			pri_flow_table_create(&limits, on_flow, &out, &err);
		struct pri_flow_filter *echo =
			pri_flow_filter_create("icmp[icmptype] = icmp-echo", &err);
		struct pri_flow parts[2];
		uint8_t type = 99, code = 99;

		out.count = 0;
		for (int i = 0; i < 2; i++) {
			uint8_t frame[FRAME];
			uint32_t len =
				put_ip(frame, 1, (struct end){i ? 2 : 1, i ? 0 : 0x0800},
					(struct end){i ? 1 : 2, 7}, 0, 20);
			struct pr_packet p = packet_of(frame, len, S + i * MS, i + 1);
			struct pri_flow_packet f;

			ck_assert(pri_flow_packet_parse(&p, &f));
			pri_flow_begin(&parts[i], &f.key);
			pri_flow_add_packet(&parts[i], &f, p.otime, p.seq);
		}
		ck_assert_ptr_nonnull(echo);
		for (int i = 0; i < 2; i++)
			ck_assert_int_eq(
				pri_flow_table_part(table, &parts[i ^ order], &err), 0);
		ck_assert_int_eq(pri_flow_table_advance(table, PRI_FLOW_NEVER, &err), 0);
		ck_assert_uint_eq(out.count, 1);
		pri_flow_icmp(&out.all[0], &type, &code);
		ck_assert_uint_eq(type, 8);
		ck_assert_uint_eq(code, 0);
		ck_assert(pri_flow_filter_match(echo, &out.all[0]));
		pri_flow_filter_destroy(&echo);
		pri_flow_table_destroy(&table);
	}
}
END_TEST

/* Times that lie further apart than a number can say. */
START_TEST(times_at_the_ends)
{
	const struct pri_flow_limits limits = {.flows = 0};
	static struct records out;
	struct pri_flow_table *table = pri_flow_table_create(&limits, on_flow, &out, &err);
	const int64_t times[] = {INT64_MIN + 1, 0, INT64_MAX - 1};
	uint8_t frame[FRAME];

	for (int i = 0; i < 3; i++) {
		uint32_t len =
			put_ip(frame, 17, (struct end){1, 5}, (struct end){2, 53}, 0, 10);
		struct pr_packet p = packet_of(frame, len, times[i], (uint64_t)i + 1);

		ck_assert_int_eq(pri_flow_table_packet(table, &p, &err), 0);
	}
	ck_assert_int_eq(pri_flow_table_advance(table, PRI_FLOW_NEVER, &err), 0);
	ck_assert_uint_eq(out.count, 3);
	pri_flow_table_destroy(&table);
}
END_TEST

/* ---- filters ---- */

static const struct filtered {
	const char *text;
	int expected; /* of the flow below: 1 matches; -1: refused */
} filters[] = {
	{"", 1},
	{"tcp", 1},
	{"udp", 0},
	{"src host 10.0.0.1", 1}, /* who began */
	{"dst host 10.0.0.1", 0},
	{"host 10.0.0.2 and dst port 80", 1},
	{"bytes > 299", 1},
	{"bytes > 1M", 0},
	{"bytes_sent = 140 and bytes_recv = 160", 1},
	{"packets >= 5 && packets_sent<=3", 1},
	{"not (state = SF) or duration > 1h", 0},
	{"state == sf", 1},
	{"state != S0 and payload = 100", 1},
	{"duration >= 6ms and duration < 7ms", 1},
	{"tcp[tcpflags] & tcp-syn != 0", 1},
	{"vlan", 0},
	{"bytes", -1},
	{"bytes > ten", -1},
	{"state > S0", -1},
	{"state = S9", -1},
	{"greater 100", -1},
	{"len > 5", -1},
	{"host 10.0.0.1 and", -1},
	{"not pppoes and packets > 0", -1}, /* it would move where attributes stand */
	{"bytes > 0000000000000000000000000000000000000000000000000000000000000000000001",
		-1},
};

START_TEST(filters_match)
{
	const struct filtered *f = &filters[_i];
	static const struct talk whole = {"",
		{{'>', SYN, 0, 0}, {'<', SYN | ACK, 0, 1}, {'>', ACK, 20, 3},
			{'<', FIN | ACK, 80, 4}, {'>', FIN | ACK, 0, 6}},
		""};
	const struct pri_flow_limits limits = {.flows = 0};
	struct pri_flow_filter *filter = pri_flow_filter_create(f->text, &err);
	static struct records out;

	ck_assert_msg(!filter == (f->expected < 0), "%s: %s", f->text, err.text);
	run_talk(&whole, &limits, &out);
	ck_assert_uint_eq(out.count, 1);
	if (filter)
		ck_assert_msg(pri_flow_filter_match(filter, &out.all[0]) == f->expected,
			"%s", f->text);
	pri_flow_filter_destroy(&filter);
}
END_TEST

static void
fill(TCase *tests)
{
	tcase_add_loop_test(tests, states_and_ends, 0, sizeof(talks) / sizeof(talks[0]));
	tcase_add_test(tests, limits_are_kept);
	tcase_add_test(tests, room_is_short);
	tcase_add_test(tests, the_same_for_all_nodes);
	tcase_add_test(tests, the_same_of_real_packets);
	tcase_add_test(tests, parts_are_golden);
	tcase_add_test(tests, shares_are_stable);
	tcase_add_test(tests, columns_come_back);
	tcase_add_test(tests, columns_are_golden);
	tcase_add_test(tests, kinds_of_planes);
	tcase_add_test(tests, frames_of_columns);
	tcase_add_test(tests, bloom_filters);
	tcase_add_test(tests, plans_of_filters);
	tcase_add_test(tests, community_id_of_no_ports);
	tcase_add_loop_test(tests, below_ip, 0, sizeof(lower) / sizeof(lower[0]));
	tcase_add_test(tests, lengths);
	tcase_add_test(tests, icmp_of_who_began);
	tcase_add_test(tests, times_at_the_ends);
	tcase_add_loop_test(tests, filters_match, 0, sizeof(filters) / sizeof(filters[0]));
}

int
main(void)
{
	return unit_run("flows", fill);
}
