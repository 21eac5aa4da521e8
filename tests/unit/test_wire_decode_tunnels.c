/* SPDX-License-Identifier: Apache-2.0 */
/* Headers within others: tags, MPLS, PPPoE, GRE, and tunnels in tunnels. */
#include "tests/unit/decode_packets.h"
#include "tests/unit/unit.h"

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

static void
fill(TCase *t)
{
	tcase_add_test(t, tags);
	tcase_add_test(t, mpls);
	tcase_add_test(t, pppoe);
	tcase_add_test(t, tunnels_in_tunnels);
	tcase_add_test(t, gre);
}

int
main(void)
{
	return unit_run("wire_decode tunnels", fill);
}
