/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "indexer/filter/filter.h"
#include "indexer/index/index_key.h"
#include "tests/unit/frames.h"
#include "tests/unit/unit.h"
#include "tests/unit/index_keys.h"

/* ---- what a filter implies ---- */

struct implied {
	const char *filter;
	struct pri_key keys[4];
	bool ether_only;
};

static struct pri_key
number(enum pri_key_kind kind, uint32_t value)
{
	return pri_key_number(kind, value);
}

static size_t
fill(struct implied *t)
{
	size_t n = 0;
	struct pri_key src = pri_key_bytes(PRI_KEY_SRC, v4[0], 4),
		       dst = pri_key_bytes(PRI_KEY_DST, v4[1], 4);

#define ADD(text, ether, ...) t[n++] = (struct implied){text, {__VA_ARGS__}, ether}
	ADD("src host 10.1.2.3", false, src);
	ADD("arp src host 10.1.2.3", true, src, number(PRI_KEY_ETHERTYPE, 0x0806));
	ADD("ip dst host 10.1.9.9", false, dst, number(PRI_KEY_ETHERTYPE, 0x0800));
	ADD("src host 10.1.2.3 and dst host 10.1.9.9", false, src, dst,
		pri_key_pair(v4[1], v4[0], 4), pri_key_bytes(PRI_KEY_NET, v4[0], 2));
	ADD("src net 10.1.2.0/24", false, pri_key_bytes(PRI_KEY_NET, v4[0], 3));
	ADD("dst net 10.0.0.0/8", false, pri_key_bytes(PRI_KEY_NET, v4[0], 1));
	ADD("src host 2001:db8:1:2::1", false, pri_key_bytes(PRI_KEY_SRC, v6[0], 16),
		number(PRI_KEY_ETHERTYPE, 0x86dd), pri_key_bytes(PRI_KEY_NET, v6[0], 6));
	ADD("dst net 2001:db8::/32", false, pri_key_bytes(PRI_KEY_NET, v6[0], 4));
	ADD("dst net 2001:db8:7:2::/64", false, pri_key_bytes(PRI_KEY_NET, v6[1], 8));
	ADD("udp src port 53", false, number(PRI_KEY_SPORT, 53), number(PRI_KEY_PROTO, 17));
	ADD("tcp dst port 80", false, number(PRI_KEY_DPORT, 80), number(PRI_KEY_PROTO, 6));
	ADD("src port 80 and ip proto 132", false, number(PRI_KEY_SPORT, 80));
	ADD("ip6 proto 6", false, number(PRI_KEY_PROTO, 6));
	ADD("src host 10.1.2.3 and dst host 10.1.9.9 and udp src port 53 and dst port 80",
		false, pri_key_pair(v4[1], v4[0], 4), pri_key_service(v4[0], 4, 80),
		pri_key_service(v4[1], 4, 80));
	ADD("host 10.1.2.3 and tcp src port 80", false, pri_key_service(v4[0], 4, 80));
	ADD("dst host 2001:db8:1:2::1 and udp dst port 80", false,
		pri_key_service(v6[0], 16, 80));
	ADD("ip[6:2] & 0x1fff != 0", false, number(PRI_KEY_FRAGMENT, 0));
	ADD("icmp[0] = 0", false, number(PRI_KEY_ICMP, 0), number(PRI_KEY_PROTO, 1));
	ADD("icmp6[0] = 0", false, number(PRI_KEY_ICMP6, 0), number(PRI_KEY_PROTO, 58));
	ADD("ether src 02:00:00:00:00:05", true, pri_key_bytes(PRI_KEY_MAC_SRC, mac, 6));
	ADD("ether dst 02:00:00:00:00:05", true, pri_key_bytes(PRI_KEY_MAC_DST, mac, 6));
	ADD("ether proto 0x8035", true, number(PRI_KEY_ETHERTYPE, 0x8035));
	ADD("ether[12:2] = 38", true, number(PRI_KEY_ETHERTYPE, 38));
	ADD("vlan 5 and src host 10.1.2.3", true, src, number(PRI_KEY_VLAN, 5));
	ADD("vlan and vlan 6 and udp dst port 53", true, number(PRI_KEY_VLAN, 6),
		number(PRI_KEY_DPORT, 53));
	ADD("vlan and vlan and vlan and vlan and vlan and vlan and vlan and vlan 4 and ip "
	    "src "
	    "10.1.2.3",
		true, number(PRI_KEY_VLAN, 4), src);
	ADD("mpls 5 and src host 10.1.2.3", true, number(PRI_KEY_MPLS, 5), src,
		number(PRI_KEY_ETHERTYPE, 0x0800));
	ADD("mpls and mpls 6 and ip6 src host 2001:db8:1:2::1", true,
		number(PRI_KEY_MPLS, 6), pri_key_bytes(PRI_KEY_SRC, v6[0], 16));
	ADD("vlan and mpls and udp src port 53", true, number(PRI_KEY_SPORT, 53));
	ADD("pppoes and src host 10.1.2.3", true, src);
	ADD("pppoes and ip6 and tcp dst port 80", true, number(PRI_KEY_DPORT, 80),
		number(PRI_KEY_ETHERTYPE, 0x86dd));
	ADD("vlan and pppoes and arp", true, number(PRI_KEY_ETHERTYPE, 0x0806));
#undef ADD
	return n;
}

static bool
has_key(const struct pri_key *keys, size_t count, const struct pri_key *wanted)
{
	for (size_t i = 0; i < count; i++)
		if (keys[i].kind == wanted->kind && keys[i].len == wanted->len &&
			!memcmp(keys[i].bytes, wanted->bytes, wanted->len))
			return true;
	return false;
}

static void
check_packet(const struct implied *t, const struct frame *f, uint16_t linktype)
{
	struct pr_packet p = {
		.data = f->data, .caplen = f->len, .len = f->len, .linktype = linktype};
	struct pri_key keys[PRI_KEYS_MAX];
	size_t count = keys_of_packet(&p, keys);

	ck_assert_uint_le(count, PRI_KEYS_MAX);
	for (size_t i = 0; i < COUNT(t->keys) && t->keys[i].kind; i++)
		ck_assert_msg(has_key(keys, count, &t->keys[i]),
			"%s matches on link type %u, key %zu is missing", t->filter,
			linktype, i);
}

#define FRAMES 20000

static void
check_linktype(const struct implied *t, size_t count, uint16_t linktype)
{
	static struct frame frames[FRAMES];
	struct pr_error err;

	for (size_t i = 0; i < FRAMES; i++) {
		make_frame(&frames[i], linktype);
		spoil(&frames[i]);
	}
	for (size_t i = 0; i < count; i++) {
		struct pr_bpf *p;
		size_t matches = 0;

		if (t[i].ether_only && linktype != 1)
			continue;
		p = pri_filter_compile(linktype, t[i].filter, &err);
		ck_assert_msg(p != NULL, "%s: %s", t[i].filter, err.text);
		for (size_t j = 0; j < FRAMES; j++)
			if (pr_bpf_run(p, &(struct pr_packet){.data = frames[j].data,
						  .len = frames[j].len,
						  .caplen = frames[j].len})) {
				check_packet(&t[i], &frames[j], linktype);
				matches++;
			}
		ck_assert_msg(matches > 0, "%s: no packet on link type %u is a test of it",
			t[i].filter, linktype);
		pr_bpf_destroy(&p);
	}
}

START_TEST(what_a_filter_accepts_has_its_keys)
{
	static const uint16_t linktypes[] = {1, 113, 276, 101, 0, 9};
	static struct implied t[64];
	size_t count = fill(t);

	srandom(7);
	for (size_t i = 0; i < COUNT(linktypes); i++)
		check_linktype(t, count, linktypes[i]);
}
END_TEST

START_TEST(keys_of_a_known_packet)
{
	static const uint8_t data[] = {2, 0, 0, 0, 0, 5, 2, 0, 0, 0, 0, 6, /* MACs */
		0x81, 0x00, 0xe0, 0x05, 0x08, 0x00, /* VLAN 5, IPv4 */
		0x45, 0, 0, 28, 0, 1, 0x40, 0, 64, 17, 0, 0, 10, 1, 2, 3, 192, 0, 2, 77,
		0x0f, 0xa0, 0, 53, 0, 8, 0, 0}; /* UDP 4000 -> 53 */
	struct pr_packet p = {
		.data = data, .caplen = sizeof(data), .len = sizeof(data), .linktype = 1};
	const struct pri_key wanted[] = {pri_key_bytes(PRI_KEY_MAC_DST, data, 6),
		pri_key_bytes(PRI_KEY_MAC_SRC, data + 6, 6),
		number(PRI_KEY_ETHERTYPE, 0x8100), number(PRI_KEY_ETHERTYPE, 0x0800),
		number(PRI_KEY_VLAN, 5), number(PRI_KEY_PROTO, 17),
		pri_key_bytes(PRI_KEY_SRC, v4[0], 4), pri_key_bytes(PRI_KEY_NET, v4[0], 1),
		pri_key_bytes(PRI_KEY_NET, v4[0], 2), pri_key_bytes(PRI_KEY_NET, v4[0], 3),
		pri_key_bytes(PRI_KEY_DST, v4[2], 4), pri_key_bytes(PRI_KEY_NET, v4[2], 1),
		pri_key_bytes(PRI_KEY_NET, v4[2], 2), pri_key_bytes(PRI_KEY_NET, v4[2], 3),
		pri_key_pair(v4[0], v4[2], 4), number(PRI_KEY_SPORT, 4000),
		number(PRI_KEY_DPORT, 53)};
	struct pri_key keys[PRI_KEYS_MAX];

	ck_assert_uint_eq(keys_of_packet(&p, keys), COUNT(wanted));
	for (size_t i = 0; i < COUNT(wanted); i++)
		ck_assert_msg(has_key(keys, COUNT(wanted), &wanted[i]), "key %zu", i);
	p.linktype = 147;
	ck_assert_uint_eq(keys_of_packet(&p, keys), 0);
}
END_TEST

/* Hashes stand in volumes: they must not change. */
START_TEST(hashes_are_for_ever)
{
	struct pri_key src = pri_key_bytes(PRI_KEY_SRC, v4[0], 4),
		       either = pri_key_either(&src);
	struct pri_key port = number(PRI_KEY_SPORT, 53), none = number(PRI_KEY_FRAGMENT, 0);

	ck_assert_int_eq(either.kind, PRI_KEY_ADDRESS);
	ck_assert_uint_eq(pri_key_hash(&src), 0x803faf7c3f6b2a49u);
	ck_assert_uint_eq(pri_key_hash(&either), 0x2deec98083d00cd4u);
	ck_assert_uint_eq(pri_key_hash(&port), 0x8edee0e2e467ace4u);
	ck_assert_uint_eq(pri_key_hash(&none), 0xeec802c1e062e70du);
}
END_TEST

START_TEST(too_long_is_no_key)
{
	static const uint8_t zeros[64];

	ck_assert_int_eq(pri_key_bytes(PRI_KEY_SRC, zeros, 64).kind, PRI_KEY_NONE);
}
END_TEST

static void
tests(TCase *tc)
{
	tcase_add_test(tc, what_a_filter_accepts_has_its_keys);
	tcase_add_test(tc, keys_of_a_known_packet);
	tcase_add_test(tc, hashes_are_for_ever);
	tcase_add_test(tc, too_long_is_no_key);
}

int
main(void)
{
	return unit_run("keys", tests);
}
