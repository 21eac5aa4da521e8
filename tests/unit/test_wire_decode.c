/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/decode_packets.h"
#include "tests/unit/unit.h"

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

static void
fill(TCase *t)
{
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
}

int
main(void)
{
	return unit_run("wire_decode", fill);
}
