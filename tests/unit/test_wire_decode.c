/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "proto/wire/cursor.h"
#include "proto/wire/decode.h"

/* A packet under construction, header behind header. */
struct packet {
	uint8_t data[1024];
	size_t len;
};

static void
put(struct packet *p, const void *bytes, size_t len)
{
	ck_assert_uint_le(p->len + len, sizeof p->data);
	memcpy(p->data + p->len, bytes, len);
	p->len += len;
}

#define PUT(p, ...)                                                                        \
	put(p, (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

static void
ethernet(struct packet *p, uint16_t type)
{
	PUT(p, 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, (uint8_t)(type >> 8), (uint8_t)type);
}

/* 10.0.0.1 to 10.0.0.2, with payload bytes to come */
static void
ip4(struct packet *p, uint8_t protocol, uint16_t fragment, uint16_t payload)
{
	uint16_t total = (uint16_t)(payload + 20);
	PUT(p, 0x45, 0, (uint8_t)(total >> 8), (uint8_t)total, 0x12, 0x34,
		(uint8_t)(fragment >> 8), (uint8_t)fragment, 64, protocol, 0, 0, 10, 0, 0,
		1, 10, 0, 0, 2);
}

/* fd00::1 to fd00::2 */
static void
ip6(struct packet *p, uint8_t next, uint16_t payload)
{
	PUT(p, 0x60, 0, 0, 0, (uint8_t)(payload >> 8), (uint8_t)payload, next, 63);
	PUT(p, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1);
	PUT(p, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2);
}

static void
udp(struct packet *p, uint16_t from, uint16_t to)
{
	PUT(p, (uint8_t)(from >> 8), (uint8_t)from, (uint8_t)(to >> 8), (uint8_t)to, 0, 8,
		0, 0);
}

/* 1000 to 80, SYN and ACK, four bytes of options */
static void
tcp(struct packet *p)
{
	PUT(p, 0x03, 0xe8, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x60, 0x12, 0, 0, 0, 0, 0, 0, 1,
		1, 1, 0);
}

/* Decodes a copy of exactly len bytes, so that a read behind it is seen by the sanitizers. */
static void
decode_len(uint16_t linktype, const struct packet *p, size_t len, struct pr_decoded *d)
{
	uint8_t *copy = malloc(len ? len : 1);
	memcpy(copy, p->data, len);
	memset(d, 0xee, sizeof *d);
	pr_decode(linktype, copy, len, d);
	(void)pr_flow_hash(d, copy, len, 1);
	free(copy);
}

static bool
same(const struct pr_headers *a, const struct pr_headers *b)
{
	return memcmp(a, b, sizeof *a) == 0;
}

/*
 * Decodes p whole, then each of its beginnings: these never show a header that the whole has not,
 * and say that they are cut as long as the headers go on (needed bytes of them).
 */
static struct pr_decoded
decode_as(uint16_t linktype, const struct packet *p, size_t needed)
{
	struct pr_decoded d, part;

	decode_len(linktype, p, p->len, &d);
	for (size_t len = 0; len < p->len; len++) {
		decode_len(linktype, p, len, &part);
		unsigned flags = part.tunnels ? part.inner.flags : part.outer.flags;
		ck_assert_msg(!!(flags & PR_DECODE_TRUNCATED) == (len < needed),
			"%zu bytes of %zu", len, needed);
		ck_assert_int_eq(flags & PR_DECODE_MALFORMED, 0);
		ck_assert_uint_le(part.tunnels, d.tunnels);
		if (len >= needed)
			ck_assert(
				same(&part.outer, &d.outer) && same(&part.inner, &d.inner));
	}
	ck_assert_int_eq(d.outer.flags & (PR_DECODE_TRUNCATED | PR_DECODE_MALFORMED), 0);
	return d;
}

static struct pr_decoded
decode(const struct packet *p)
{
	return decode_as(1, p, p->len);
}

START_TEST(tcp_over_ip4)
{
	struct packet p = {.len = 0};
	ethernet(&p, 0x0800);
	ip4(&p, 6, 0x4000, 24 + 3);
	tcp(&p);
	size_t headers = p.len;
	PUT(&p, 'a', 'b', 'c', 0, 0, 0); /* three of them padding */
	struct pr_decoded d = decode_as(1, &p, headers);

	ck_assert_uint_eq(d.outer.flags, PR_DECODE_IP4 | PR_DECODE_PORTS);
	ck_assert_uint_eq(d.outer.ethertype, 0x0800);
	ck_assert_uint_eq(d.outer.protocol, 6);
	ck_assert_uint_eq(d.outer.ttl, 64);
	ck_assert_uint_eq(d.outer.src_port, 1000);
	ck_assert_uint_eq(d.outer.dst_port, 80);
	ck_assert_uint_eq(d.outer.tcp_flags, 0x12);
	ck_assert_uint_eq(d.outer.ip_offset, 14);
	ck_assert_uint_eq(d.outer.l4_offset, 34);
	ck_assert_uint_eq(d.outer.payload_offset, 58);
	ck_assert_uint_eq(d.outer.ip_length, 47);
	ck_assert_mem_eq(d.outer.src, "\x0a\0\0\1", 4);
	ck_assert_mem_eq(d.outer.dst, "\x0a\0\0\2", 4);
	ck_assert_uint_eq(d.tunnels, 0);
}
END_TEST

START_TEST(ip4_options_and_no_length)
{
	struct packet p = {.len = 0};
	ethernet(&p, 0x0800);
	ip4(&p, 17, 0, 8 + 8);
	p.data[14] = 0x47;
	PUT(&p, 1, 1, 1, 1, 1, 1, 1, 0);
	udp(&p, 5353, 53);
	struct pr_decoded d = decode(&p);

	ck_assert_uint_eq(d.outer.l4_offset, 42);
	ck_assert_uint_eq(d.outer.src_port, 5353);
	p.data[16] = p.data[17] = 0; /* segmentation offload */
	d = decode(&p);
	ck_assert_uint_eq(d.outer.src_port, 5353);
	ck_assert_uint_eq(d.outer.ip_length, 0);
}
END_TEST

START_TEST(ip6_extensions)
{
	struct packet p = {.len = 0};
	ethernet(&p, 0x86dd);
	ip6(&p, 0, 8 + 24 + 16 + 24 + 8 + 8);
	PUT(&p, 43, 0, 1, 4, 0, 0, 0, 0); /* hop-by-hop */
	PUT(&p, 60, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
	PUT(&p, 51, 1, 1, 4, 0, 0, 0, 0, 1, 4, 0, 0, 0, 0, 0, 0); /* destination */
	PUT(&p, 135, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9,
		9); /* AH */
	PUT(&p, 17, 0, 0, 0, 0, 0, 0, 0); /* mobility */
	udp(&p, 1, 2);
	struct pr_decoded d = decode(&p);

	ck_assert_uint_eq(d.outer.flags, PR_DECODE_IP6 | PR_DECODE_PORTS);
	ck_assert_uint_eq(d.outer.protocol, 17);
	ck_assert_uint_eq(d.outer.ttl, 63);
	ck_assert_uint_eq(d.outer.l4_offset, 14 + 40 + 80);
	ck_assert_uint_eq(d.outer.dst_port, 2);
	ck_assert_uint_eq(d.outer.dst[15], 2);
	ck_assert_uint_eq(d.outer.ip_length, 40 + 88);
}
END_TEST

START_TEST(too_many_extensions)
{
	struct packet p = {.len = 0};
	struct pr_decoded d;
	ethernet(&p, 0x86dd);
	ip6(&p, 60, 0);
	for (int i = 0; i < 40; i++)
		PUT(&p, 60, 0, 1, 4, 0, 0, 0, 0);
	decode_len(1, &p, p.len, &d);
	ck_assert_uint_eq(d.outer.flags, PR_DECODE_IP6 | PR_DECODE_MALFORMED);
}
END_TEST

START_TEST(tags)
{
	struct packet p = {.len = 0};
	ethernet(&p, 0x88a8);
	PUT(&p, 0x20, 0x64, 0x81, 0x00, 0xf0, 0x01, 0x91, 0x00, 0x0f, 0xff, 0x81, 0x00);
	PUT(&p, 0, 4, 0x81, 0, 0, 5, 0x08, 0x06);
	PUT(&p, 0, 1, 8, 0); /* ARP is not looked into */
	struct pr_decoded d = decode_as(1, &p, 34);

	ck_assert_uint_eq(d.outer.flags, 0);
	ck_assert_uint_eq(d.outer.ethertype, 0x0806);
	ck_assert_uint_eq(d.outer.vlan_count, 4); /* as many as there is room for */
	ck_assert_uint_eq(d.outer.vlan[0], 100);
	ck_assert_uint_eq(d.outer.vlan[1], 1);
	ck_assert_uint_eq(d.outer.vlan[2], 4095);
	ck_assert_uint_eq(d.outer.vlan[3], 4);

	struct packet q = {.len = 0};
	ethernet(&q, 0x8100);
	for (int i = 0; i < 100; i++)
		PUT(&q, 0, 1, 0x81, 0);
	decode_len(1, &q, q.len, &d);
	ck_assert_uint_eq(d.outer.flags, PR_DECODE_MALFORMED);
	q.len = 0;
	ethernet(&q, 46); /* 802.3 length */
	d = decode(&q);
	ck_assert_uint_eq(d.outer.ethertype, 0);
}
END_TEST

START_TEST(mpls)
{
	struct packet p = {.len = 0};
	ethernet(&p, 0x8847);
	PUT(&p, 0x00, 0x01, 0x00, 0x40, 0xff, 0xff, 0xf1,
		0x40); /* labels 16 and 2^20 - 1 */
	size_t bottom = p.len;
	ip6(&p, 17, 8);
	udp(&p, 7, 9);
	struct pr_decoded d = decode(&p);
	ck_assert_uint_eq(d.outer.mpls_count, 2);
	ck_assert_uint_eq(d.outer.mpls[0], 16);
	ck_assert_uint_eq(d.outer.mpls[1], 0xfffff);
	ck_assert_uint_eq(d.outer.dst_port, 9);

	p.len = bottom;
	ip4(&p, 17, 0, 8);
	udp(&p, 7, 9);
	ck_assert_uint_eq(decode(&p).outer.flags, PR_DECODE_IP4 | PR_DECODE_PORTS);
	p.data[bottom] = 0; /* a pseudowire's control word */
	decode_len(1, &p, p.len, &d);
	ck_assert_uint_eq(d.outer.flags, 0);
	p.len = 14;
	for (int i = 0; i < 100; i++)
		PUT(&p, 0, 1, 0, 64);
	decode_len(1, &p, p.len, &d);
	ck_assert_uint_eq(d.outer.flags, PR_DECODE_MALFORMED);
	ck_assert_uint_eq(d.outer.mpls_count, 4);
}
END_TEST

START_TEST(pppoe)
{
	struct packet p = {.len = 0};
	ethernet(&p, 0x8864);
	PUT(&p, 0x11, 0, 0, 1, 0, 30, 0x00, 0x21);
	ip4(&p, 17, 0, 8);
	udp(&p, 7, 9);
	ck_assert_uint_eq(decode(&p).outer.dst_port, 9);
	p.data[21] = 0x57;
	p.len = 22;
	ip6(&p, 17, 8);
	udp(&p, 7, 9);
	ck_assert_uint_eq(decode(&p).outer.flags, PR_DECODE_IP6 | PR_DECODE_PORTS);
	p.data[20] = 0xc0; /* LCP */
	struct pr_decoded d = decode_as(1, &p, 22);
	ck_assert_uint_eq(d.outer.flags, 0);
	p.data[14] = 0x21;
	decode_len(1, &p, p.len, &d);
	ck_assert_uint_eq(d.outer.flags, PR_DECODE_MALFORMED);
}
END_TEST

START_TEST(other_transports)
{
	static const struct {
		uint8_t protocol;
		size_t header;
		bool ports;
	} cases[] = {{132, 12, true}, {33, 12, true}, {136, 8, true}, {1, 8, false},
		{58, 8, false}};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct packet p = {.len = 0};
		ethernet(&p, 0x0800);
		ip4(&p, cases[i].protocol, 0, (uint16_t)cases[i].header);
		PUT(&p, 8, 3, 0x12, 0xb5, 0, 0, 0, 1);
		p.len += cases[i].header - 8;
		struct pr_decoded d = decode(&p);
		ck_assert_uint_eq(d.outer.payload_offset, 34 + cases[i].header);
		ck_assert_int_eq(!!(d.outer.flags & PR_DECODE_PORTS), cases[i].ports);
		ck_assert_uint_eq(d.outer.dst_port, cases[i].ports ? 0x12b5 : 0);
		ck_assert_uint_eq(d.outer.icmp_type, cases[i].ports ? 0 : 8);
		ck_assert_uint_eq(d.outer.icmp_code, cases[i].ports ? 0 : 3);
	}
	struct packet p = {.len = 0}; /* ESP: nothing more to see */
	ethernet(&p, 0x86dd);
	ip6(&p, 50, 4);
	PUT(&p, 1, 2, 3, 4);
	struct pr_decoded d = decode_as(1, &p, 54);
	ck_assert_uint_eq(d.outer.flags, PR_DECODE_IP6);
	ck_assert_uint_eq(d.outer.protocol, 50);
}
END_TEST

START_TEST(tunnels_in_tunnels)
{
	struct packet p = {.len = 0};
	struct pr_decoded d;

	ethernet(&p, 0x0800);
	ip4(&p, 17, 0, 8 + 8 + 14 + 4 + 20 + 8);
	udp(&p, 55555, 4789);
	PUT(&p, 0x08, 0, 0, 0, 0, 1, 2, 0); /* VXLAN */
	ethernet(&p, 0x8100);
	PUT(&p, 0, 9, 0x08, 0x00);
	ip4(&p, 17, 0, 8);
	udp(&p, 1, 2);
	d = decode(&p);
	ck_assert_uint_eq(d.tunnels, 1);
	ck_assert_uint_eq(
		d.outer.flags, PR_DECODE_IP4 | PR_DECODE_PORTS | PR_DECODE_TUNNEL);
	ck_assert_uint_eq(d.outer.dst_port, 4789);
	ck_assert_uint_eq(d.outer.vlan_count, 0);
	ck_assert_uint_eq(d.inner.vlan[0], 9);
	ck_assert_uint_eq(d.inner.src_port, 1);
	ck_assert_uint_eq(d.inner.ip_offset, 14 + 20 + 16 + 18);
	p.data[42] = 0; /* no network identifier */
	d = decode_as(1, &p, 50);
	ck_assert_uint_eq(d.tunnels, 0);

	p.len = 14; /* 6in4 in which there is 4in6 */
	ip4(&p, 41, 0, 40 + 20 + 8);
	ip6(&p, 4, 20 + 8);
	ip4(&p, 17, 0, 8);
	udp(&p, 1, 2);
	d = decode(&p);
	ck_assert_uint_eq(d.tunnels, 2);
	ck_assert_uint_eq(d.outer.protocol, 41);
	ck_assert_uint_eq(d.inner.flags, PR_DECODE_IP4 | PR_DECODE_PORTS);
	ck_assert_uint_eq(d.inner.ttl, 64);

	p.len = 14; /* five deep: the fifth stays closed */
	for (uint16_t i = 0; i < 6; i++)
		ip4(&p, i == 5 ? 17 : 4, 0, (uint16_t)(8 + 20 * (5 - i)));
	udp(&p, 1, 2);
	decode_len(1, &p, p.len, &d);
	ck_assert_uint_eq(d.tunnels, 4);
	ck_assert_uint_eq(d.inner.ip_offset, 14 + 80);
	ck_assert_uint_eq(d.inner.flags, PR_DECODE_IP4);
	ck_assert_uint_eq(d.inner.protocol, 4);
}
END_TEST

START_TEST(gre)
{
	static const struct {
		uint8_t head[4];
		size_t options;
		bool frame;
	} cases[] = {
		{{0x00, 0x00, 0x08, 0x00}, 0, false},
		{{0xb0, 0x00, 0x08, 0x00}, 12, false}, /* checksum, key, sequence */
		{{0x20, 0x00, 0x65, 0x58}, 4, true}, /* NVGRE */
		{{0x00, 0x00, 0x88, 0xbe}, 0, true}, /* ERSPAN I, II, III */
		{{0x10, 0x00, 0x88, 0xbe}, 12, true},
		{{0x10, 0x00, 0x22, 0xeb}, 16, true},
		{{0x10, 0x00, 0x22, 0xeb}, 16 + 8, true},
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct packet p = {.len = 0};
		size_t inner = 4 + cases[i].options + (cases[i].frame ? 14 : 0) + 28;
		ethernet(&p, 0x0800);
		ip4(&p, 47, 0, (uint16_t)inner);
		put(&p, cases[i].head, 4);
		p.len += cases[i].options;
		if (cases[i].options == 16 + 8)
			p.data[34 + 4 + 15] = 1; /* O: a subheader follows */
		if (cases[i].frame)
			ethernet(&p, 0x0800);
		ip4(&p, 17, 0, 8);
		udp(&p, 1, 2);
		struct pr_decoded d = decode(&p);
		ck_assert_uint_eq(d.tunnels, 1);
		ck_assert_uint_eq(d.inner.dst_port, 2);
		ck_assert_uint_eq(d.inner.ethertype, 0x0800);
		ck_assert_uint_eq(d.outer.flags, PR_DECODE_IP4 | PR_DECODE_TUNNEL);
	}
	struct packet p = {.len = 0}; /* PPTP's is left closed */
	ethernet(&p, 0x0800);
	ip4(&p, 47, 0, 8);
	PUT(&p, 0x20, 0x01, 0x88, 0x0b, 0, 0, 0, 0);
	ck_assert_uint_eq(decode_as(1, &p, 38).tunnels, 0);
}
END_TEST

START_TEST(fragments)
{
	struct pr_decoded d;
	uint64_t hashes[4];
	for (int i = 0; i < 4; i++) {
		struct packet p = {.len = 0};
		uint16_t part = (uint16_t[]){0x2000, 185, 0x2000, 185}[i];
		if (i < 2) {
			ethernet(&p, 0x0800);
			ip4(&p, 17, part, 8);
		} else {
			ethernet(&p, 0x86dd);
			ip6(&p, 44, 16);
			/* more, or offset 185 * 8 */
			PUT(&p, 17, 0, i == 2 ? 0 : 0x05, i == 2 ? 1 : 0xc8, 0, 1, 2, 3);
		}
		udp(&p, 1, 2);
		d = decode_as(1, &p, i % 2 ? p.len - 8 : p.len);
		ck_assert(d.outer.flags & PR_DECODE_FRAGMENT);
		ck_assert_int_eq(!!(d.outer.flags & PR_DECODE_FRAGMENT_LATER), i % 2);
		ck_assert_int_eq(!!(d.outer.flags & PR_DECODE_PORTS), i % 2 == 0);
		ck_assert_uint_eq(d.outer.fragment_id, i < 2 ? 0x1234 : 0x10203);
		hashes[i] = pr_flow_hash(&d, p.data, p.len, 5);
	}
	ck_assert_uint_eq(hashes[0], hashes[1]);
	ck_assert_uint_eq(hashes[2], hashes[3]);
	/* an atomic fragment is none */
	struct packet p = {.len = 0};
	ethernet(&p, 0x86dd);
	ip6(&p, 44, 16);
	PUT(&p, 17, 0, 0, 0, 0, 1, 2, 3);
	udp(&p, 1, 2);
	ck_assert_uint_eq(decode(&p).outer.flags, PR_DECODE_IP6 | PR_DECODE_PORTS);
}
END_TEST

START_TEST(malformed)
{
	static const struct {
		size_t at;
		uint8_t value;
		unsigned flags;
	} cases[] = {
		{14, 0x65, PR_DECODE_MALFORMED}, /* version */
		{14, 0x44, PR_DECODE_MALFORMED}, /* header of 16 */
		{17, 19, PR_DECODE_MALFORMED}, /* total length */
		{17, 20, PR_DECODE_IP4 | PR_DECODE_MALFORMED}, /* no room for TCP */
		{17, 24, PR_DECODE_IP4 | PR_DECODE_PORTS | PR_DECODE_MALFORMED},
		{46, 0x40,
			PR_DECODE_IP4 | PR_DECODE_PORTS |
				PR_DECODE_MALFORMED}, /* TCP offset */
		{46, 0xf0, PR_DECODE_IP4 | PR_DECODE_PORTS | PR_DECODE_TRUNCATED},
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct packet p = {.len = 0};
		struct pr_decoded d;
		ethernet(&p, 0x0800);
		ip4(&p, 6, 0, 24);
		tcp(&p);
		p.data[cases[i].at] = cases[i].value;
		decode_len(1, &p, p.len, &d);
		ck_assert_msg(d.outer.flags == cases[i].flags, "case %zu: 0x%x", i,
			d.outer.flags);
	}
}
END_TEST

START_TEST(link_types)
{
	static const struct {
		uint16_t linktype;
		uint8_t head[20];
		size_t len;
		bool v6;
	} cases[] = {
		{101, {0}, 0, false},
		{101, {0}, 0, true},
		{228, {0}, 0, false},
		{229, {0}, 0, true},
		{0, {2, 0, 0, 0}, 4, false},
		{0, {0, 0, 0, 2}, 4, false},
		{0, {30, 0, 0, 0}, 4, true},
		{0, {0, 0, 0, 24}, 4, true},
		{108, {0, 0, 0, 2}, 4, false},
		{113, {0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0, 0x08, 0x00}, 16, false},
		{113, {0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0, 0x86, 0xdd}, 16, true},
		{276, {0x08, 0x00, 0, 0, 0, 0, 0, 1, 0, 1, 0, 6}, 20, false},
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct packet p = {.len = 0};
		put(&p, cases[i].head, cases[i].len);
		if (cases[i].v6)
			ip6(&p, 17, 8);
		else
			ip4(&p, 17, 0, 8);
		udp(&p, 1, 2);
		struct pr_decoded d = decode_as(cases[i].linktype, &p, p.len);
		ck_assert_uint_eq(d.outer.flags,
			PR_DECODE_PORTS | (cases[i].v6 ? PR_DECODE_IP6 : PR_DECODE_IP4));
		ck_assert_uint_eq(d.outer.ip_offset, cases[i].len);
		decode_len(147, &p, p.len, &d); /* nobody's */
		ck_assert_uint_eq(d.outer.flags, 0);
	}
	struct packet p = {.data = {7, 0, 0, 0}, .len = 30};
	ck_assert_uint_eq(decode_as(0, &p, 4).outer.flags, 0);
}
END_TEST

/* A random packet of random layers, right up to a random end. */
static void
random_packet(struct packet *p)
{
	static const uint16_t types[] = {
		0x0800, 0x86dd, 0x8100, 0x88a8, 0x8847, 0x8864, 0x0806};
	static const uint8_t protocols[] = {
		6, 17, 1, 58, 132, 47, 4, 41, 44, 0, 43, 60, 51, 50};
	p->len = 14 + (size_t)(rand() % 200);
	for (size_t i = 0; i < p->len; i++)
		p->data[i] = (uint8_t)(rand() % 4 ? rand() : 0);
	size_t at = 12;
	uint16_t type;
	do {
		type = types[rand() % 7];
		pr_put_be16(p->data + at, type);
		at += 4;
	} while ((type & 0xfff) == 0x100 || type == 0x88a8);
	at -= 2;
	for (int i = 0; i < 4 && at + 60 < sizeof p->data; i++) {
		bool v6 = type == 0x86dd;
		p->data[at] =
			(uint8_t)((v6 ? 0x60 : 0x40) | (rand() % 8 ? 5 : rand() % 16));
		pr_put_be16(p->data + at + (v6 ? 4 : 2), (uint16_t)(20 + rand() % 200));
		p->data[at + (v6 ? 6 : 9)] = protocols[rand() % 14];
		if (!v6)
			pr_put_be16(p->data + at + 6, (uint16_t)(rand() % 5 ? 0 : rand()));
		at += v6 ? 40 : 20;
		type = rand() % 2 ? 0x0800 : 0x86dd;
	}
	if (p->len > sizeof p->data)
		p->len = sizeof p->data;
}

/* No bytes may hurt; what is said to be there lies within them. */
START_TEST(property_in_bounds)
{
	static const uint16_t linktypes[] = {
		1, 1, 1, 0, 101, 108, 113, 228, 229, 276, 9999};
	struct packet p;
	struct pr_decoded d;
	int tunnels = 0, ports = 0;

	srand(21 + (unsigned)_i);
	for (int i = 0; i < 10000; i++) {
		random_packet(&p);
		decode_len(linktypes[rand() % 11], &p, p.len, &d);
		const struct pr_headers *all[] = {&d.outer, &d.inner};
		for (int k = 0; k < 2; k++) {
			ck_assert_uint_le(all[k]->ip_offset, p.len);
			ck_assert_uint_le(all[k]->l4_offset, p.len);
			ck_assert_uint_le(all[k]->payload_offset, p.len);
			ck_assert_uint_le(all[k]->vlan_count, 4);
			ck_assert_uint_le(all[k]->mpls_count, 4);
			ports += !!(all[k]->flags & PR_DECODE_PORTS);
		}
		ck_assert_uint_le(d.tunnels, 4);
		ck_assert_int_eq(d.tunnels > 0, !!(d.outer.flags & PR_DECODE_TUNNEL));
		tunnels += d.tunnels;
	}
	ck_assert_int_gt(tunnels, 30); /* or the random packets test nothing */
	ck_assert_int_gt(ports, 100);
}
END_TEST

static void
swap(uint8_t *a, uint8_t *b, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		uint8_t t = a[i];
		a[i] = b[i];
		b[i] = t;
	}
}

/* The answer to any packet hashes like it: MACs, addresses and ports the other way round. */
START_TEST(property_hash_is_symmetric)
{
	struct packet p;
	struct pr_decoded d, back;
	int ports = 0;

	srand(31 + (unsigned)_i);
	for (int i = 0; i < 10000; i++) {
		random_packet(&p);
		decode_len(1, &p, p.len, &d);
		uint64_t seed = (uint64_t)rand(),
			 there = pr_flow_hash(&d, p.data, p.len, seed);
		swap(p.data, p.data + 6, 6);
		const struct pr_headers *h = &d.outer;
		if (h->flags & PR_DECODE_IP4)
			swap(p.data + h->ip_offset + 12, p.data + h->ip_offset + 16, 4);
		if (h->flags & PR_DECODE_IP6)
			swap(p.data + h->ip_offset + 8, p.data + h->ip_offset + 24, 16);
		if (h->flags & PR_DECODE_PORTS) {
			swap(p.data + h->l4_offset, p.data + h->l4_offset + 2, 2);
			ports++;
		}
		decode_len(1, &p, p.len, &back);
		ck_assert_uint_eq(pr_flow_hash(&back, p.data, p.len, seed), there);
		ck_assert_uint_ne(pr_flow_hash(&back, p.data, p.len, seed + 1), there);
	}
	ck_assert_int_gt(ports, 100);
}
END_TEST

START_TEST(hash_tells_flows_apart)
{
	struct packet p = {.len = 0};
	struct pr_decoded d;
	ethernet(&p, 0x0800);
	ip4(&p, 17, 0, 8);
	udp(&p, 1, 2);
	static const size_t at[] = {23, 26, 33, 35, 37}; /* protocol, addresses, ports */
	uint64_t hashes[6];
	for (size_t i = 0; i < 6; i++) {
		struct packet q = p;
		if (i)
			q.data[at[i - 1]] ^= i == 1 ? 17 ^ 136 : 0x10;
		decode_len(1, &q, q.len, &d);
		hashes[i] = pr_flow_hash(&d, q.data, q.len, 3);
		for (size_t k = 0; k < i; k++)
			ck_assert_uint_ne(hashes[i], hashes[k]);
	}
	/* MACs, identification, payload and what hides behind the tunnel do not count */
	p.data[0] ^= 1, p.data[6] ^= 3, p.data[19] ^= 1;
	decode_len(1, &p, p.len, &d);
	ck_assert_uint_eq(pr_flow_hash(&d, p.data, p.len, 3), hashes[0]);
	/* without IP: the MACs, either way, and the Ethertype */
	p.data[12] = 0x90;
	decode_len(1, &p, p.len, &d);
	uint64_t there = pr_flow_hash(&d, p.data, p.len, 3);
	swap(p.data, p.data + 6, 6);
	ck_assert_uint_eq(pr_flow_hash(&d, p.data, p.len, 3), there);
	p.data[5] ^= 4;
	ck_assert_uint_ne(pr_flow_hash(&d, p.data, p.len, 3), there);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("wire_decode");
	TCase *t = tcase_create("decode");
	tcase_add_test(t, tcp_over_ip4);
	tcase_add_test(t, ip4_options_and_no_length);
	tcase_add_test(t, ip6_extensions);
	tcase_add_test(t, too_many_extensions);
	tcase_add_test(t, tags);
	tcase_add_test(t, mpls);
	tcase_add_test(t, pppoe);
	tcase_add_test(t, other_transports);
	tcase_add_test(t, tunnels_in_tunnels);
	tcase_add_test(t, gre);
	tcase_add_test(t, fragments);
	tcase_add_test(t, malformed);
	tcase_add_test(t, link_types);
	tcase_add_loop_test(t, property_in_bounds, 0, 4);
	tcase_add_loop_test(t, property_hash_is_symmetric, 0, 4);
	tcase_add_test(t, hash_tells_flows_apart);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
