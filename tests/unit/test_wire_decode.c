/* SPDX-License-Identifier: Apache-2.0 */
/* Headers of packets as they are by themselves: IP, transports, link types, and what is malformed. */
#include "tests/unit/decode_packets.h"
#include "tests/unit/unit.h"

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
	tcase_add_test(t, other_transports);
	tcase_add_test(t, fragments);
	tcase_add_test(t, malformed);
	tcase_add_test(t, link_types);
}

int
main(void)
{
	return unit_run("wire_decode", fill);
}
