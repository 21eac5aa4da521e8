/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "indexer/index/index_key.h"
#include "indexer/filter/filter.h"
#include "indexer/filter/plan.h"
#include "proto/wire/bpf_code.h"
#include "tests/unit/plan_ask.h"
#include "tests/unit/unit.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static struct pr_error err;

/* ---- well known filters ---- */

static char *
words_of(uint16_t linktype, const char *filter)
{
	struct pr_bpf *program = pri_filter_compile(linktype, filter, &err);
	struct pri_plan *plan;
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	ck_assert_msg(program != NULL, "%s: %s", filter, err.text);
	plan = pri_plan_create(program, NULL, &err);
	ck_assert_ptr_nonnull(plan);
	pri_plan_print(f, plan, 0);
	fclose(f);
	pri_plan_destroy(&plan);
	pr_bpf_destroy(&program);
	return text;
}

#define ANYTHING "anything: packets are looked at one by one\n"
#define TYPES_VLAN "any of\n\ttype VLAN\n\ttype QinQ\n\ttype 0x9100\n"

static const struct {
	uint16_t linktype;
	const char *filter, *words;
} known[] = {
	{1, "", ANYTHING},
	{1, "host 192.0.2.7", "host 192.0.2.7\n"},
	{1, "src host 192.0.2.7", "src host 192.0.2.7\n"},
	{1, "arp host 192.0.2.7", "all of\n\ttype ARP\n\thost 192.0.2.7\n"},
	{1, "ip host 192.0.2.7", "all of\n\ttype IPv4\n\thost 192.0.2.7\n"},
	{1, "host 192.0.2.7 and port 53", "all of\n\tport 53\n\thost 192.0.2.7\n"},
	{1, "port 53", "port 53\n"},
	{1, "tcp port 80", "all of\n\tprotocol TCP\n\tport 80\n"},
	{1, "udp dst port 53", "all of\n\tprotocol UDP\n\tdst port 53\n"},
	{1, "portrange 10-20", "port 10-20\n"},
	{1, "tcp", "protocol TCP\n"},
	{1, "ip proto 47", "all of\n\ttype IPv4\n\tprotocol 47\n"},
	{1, "net 10.0.0.0/8", "net 10.0.0.0/8\n"},
	{1, "net 10.16.0.0/12",
		"all of\n\tnet 10.0.0.0/8\n\thost "
		"10.16.0.0-10.31.255.255\n"},
	{1, "ip6 host 2001:db8::1", "host 2001:db8::1\n"},
	{1, "ip6 net 2001:db8:1::/48", "net 2001:db8:1::/48\n"},
	{1, "ip6 net 2001:db8:1:2::/64", "net 2001:db8:1:2::/64\n"},
	{1, "ip6 host 2001:db8::1 or ip6 host 2001:db8::2",
		"any of\n\thost 2001:db8::1\n\thost 2001:db8::2\n"},
	{1, "host 192.0.2.7 and host 192.0.2.8",
		"all of\n\tbetween 192.0.2.7 and 192.0.2.8\n\tany of\n"
		"\t\tall of\n\t\t\tsrc host 192.0.2.7\n\t\t\tdst host 192.0.2.8\n"
		"\t\tall of\n\t\t\tsrc host 192.0.2.8\n\t\t\tdst host 192.0.2.7\n"},
	{1,
		"tcp and src host 1.2.3.4 and src port 5 and dst host 6.7.8.9 and "
		"dst "
		"port 10",
		"all of\n\tprotocol TCP\n\tsrc port 5\n\tdst port 10\n\tsrc host "
		"1.2.3.4\n\tdst host 6.7.8.9\n\tbetween 1.2.3.4 and 6.7.8.9\n"},
	{1, "ether host 1:2:3:4:5:6", "ether host 01:02:03:04:05:06\n"},
	{1, "ether broadcast", "ether dst ff:ff:ff:ff:ff:ff\n"},
	{1, "vlan", TYPES_VLAN},
	{1, "vlan 5 and host 192.0.2.7", "all of\n\tVLAN 5\n\thost 192.0.2.7\n"},
	{1, "vlan and vlan and ip6 host 2001:db8::1",
		"all of\n\thost 2001:db8::1\n\tany of\n\t\ttype VLAN\n"
		"\t\ttype QinQ\n\t\ttype 0x9100\n"},
	{1, "mpls 7 and mpls 8 and tcp port 80",
		"all of\n\ttype MPLS\n\tMPLS label 7\n\tMPLS label 8\n\tprotocol "
		"TCP\n\tport 80\n"},
	{1, "pppoes 5 and host 192.0.2.7", "all of\n\ttype PPPoE\n\thost 192.0.2.7\n"},
	{1, "less 100", "length 0-100\n"},
	{1, "greater 100", "length 100 and more\n"},
	{1, "len > 100 and len < 200 and not port 22", "length 101-199\n"},
	{1, "ip[6:2] & 0x1fff != 0", "later IPv4 fragment\n"},
	{1, "icmp[icmptype] = icmp-echo", "ICMP type 8\n"},
	{1, "icmp6[icmp6type] = icmp6-echo", "ICMPv6 type 128\n"},
	{1, "not host 192.0.2.7", ANYTHING},
	{1, "not tcp and host 192.0.2.7", "host 192.0.2.7\n"},
	{1, "ip[12:4] & 0xffff0000 = 0xc0000000",
		"all of\n\ttype IPv4\n\tnet 192.0.0.0/16\n"},
	/* the tests that give a load its meaning must stand before it */
	{1, "ether[26:4] = 0xc0000207", ANYTHING},
	{1, "ether[12:2] = 0x800 and ether[26:4] = 0xc0000207",
		"all of\n\ttype IPv4\n\tsrc host 192.0.2.7\n"},
	{1, "ether[26:4] = 0xc0000207 or ip", ANYTHING},
	/* where not all of an address is read, it may not all have been captured */
	{1, "ip[12] = 10 and ip[13] & 0xf0 = 16",
		"all of\n\ttype IPv4\n\tnet 10.0.0.0/8\n"},
	{1, "ip6 protochain 6", "type IPv6\n"},
	{113, "host 192.0.2.7 and port 53", "all of\n\tport 53\n\thost 192.0.2.7\n"},
	{276, "ip6 host 2001:db8::1", "host 2001:db8::1\n"},
	{101, "host 192.0.2.7 and tcp port 80",
		"all of\n\tprotocol TCP\n\tport 80\n\thost 192.0.2.7\n"},
	{9, "udp port 53", "all of\n\tprotocol UDP\n\tport 53\n"},
	{105, "host 192.0.2.7", ANYTHING},
};

START_TEST(says_what_filters_mean)
{
	for (size_t i = 0; i < COUNT(known); i++) {
		char *words = words_of(known[i].linktype, known[i].filter);

		ck_assert_msg(!strcmp(words, known[i].words), "'%s' on %u gives\n%snot\n%s",
			known[i].filter, known[i].linktype, words, known[i].words);
		free(words);
	}
}
END_TEST

/* A fragment's bytes at the place of ports are none; and what is behind a loop is not looked at. */
START_TEST(takes_no_load_for_more_than_it_is)
{
	static const struct pr_insn unchecked[] = {{LD_H_ABS, 0, 0, 12},
		{JEQ_K, 0, 6, 0x800}, {LD_B_ABS, 0, 0, 23}, {JEQ_K, 0, 4, 6},
		{LDX_MSH, 0, 0, 14}, {LD_H_IND, 0, 0, 14}, {JEQ_K, 0, 1, 80},
		{RET_K, 0, 0, 1}, {RET_K, 0, 0, 0}};
	struct pr_bpf *program = pr_bpf_create(1, unchecked, COUNT(unchecked), &err);
	struct pri_plan *plan = pri_plan_create(program, NULL, &err);

	for (size_t i = 0; i < plan->key_count; i++)
		ck_assert_uint_ne(plan->keys[i].kind, PRI_KEY_SPORT);
	ck_assert_uint_eq(plan->key_count, 2);
	pri_plan_destroy(&plan);
	pr_bpf_destroy(&program);
}
END_TEST

/* ---- composites of either side ---- */

/* On which side the one packet of a segment has this address and port; 0: it has not both. */
struct one_way {
	uint8_t address[4];
	uint16_t port;
	unsigned host_side, port_side; /* enum pri_part */
};

static bool
any_key(void *arg, const struct pri_key *key)
{
	(void)arg;
	(void)key;
	return true;
}

static bool
any_range(void *arg, const struct pri_plan_range *range)
{
	(void)arg;
	(void)range;
	return true;
}

static bool
is_way(const struct one_way *way, unsigned host, unsigned port, const struct pri_key *key)
{
	struct pri_key a = pri_key_bytes(PRI_KEY_SRC, way->address, 4), both, is;
	struct pri_key b = pri_key_number(PRI_KEY_SPORT, way->port);
	const struct pri_key *parts[PRI_PARTS] = {0};

	parts[host == PRI_PART_SRC ? 0 : 1] = &a;
	parts[port == PRI_PART_SPORT ? 2 : 3] = &b;
	both = pri_key_parts(parts);
	ck_assert(pri_key_composite(&both, (uint8_t)(host | port), &is));
	return way->host_side == host && way->port_side == port && is.len == key->len &&
	       memcmp(is.bytes, key->bytes, key->len) == 0;
}

/* As an index that has the composites of one address and one port. */
static bool
has_way(void *arg, const struct pri_key *parts)
{
	const struct one_way *way = arg;
	struct pri_key key;

	for (unsigned host = PRI_PART_SRC; host <= PRI_PART_DST; host *= 2)
		for (unsigned port = PRI_PART_SPORT; port <= PRI_PART_DPORT; port *= 2)
			if (pri_key_composite(parts, (uint8_t)(host | port), &key) &&
				!is_way(way, host, port, &key))
				return false;
	return true;
}

static bool
may_match(const char *filter, struct one_way *way)
{
	const struct pri_plan_index index = {.has_key = any_key,
		.has_range = any_range,
		.has_parts = has_way,
		.arg = way};

	return plan_may(filter, &index);
}

/* Each in the segment, but not in one packet, is not enough: whatever side they are asked for on. */
START_TEST(address_and_port_come_together)
{
	static const struct {
		const char *filter;
		bool expected[4]; /* src sport, src dport, dst sport, dst dport */
	} t[] = {
		{"host 192.0.2.7 and tcp port 80", {true, true, true, true}},
		{"src 192.0.2.7 and tcp port 80", {true, true, false, false}},
		{"src 192.0.2.7 and tcp src port 80", {true, false, false, false}},
		{"host 192.0.2.7 and dst port 80", {false, true, false, true}},
		{"dst 192.0.2.7 and udp src port 80", {false, false, true, false}},
		{"dst 192.0.2.7 and src port 80 and dst port 81",
			{false, false, false, false}},
		{"host 192.0.2.8 and port 80", {false, false, false, false}},
		{"host 192.0.2.7", {true, true, true, true}},
		{"(host 192.0.2.7 and port 80) or icmp", {true, true, true, true}},
	};
	struct one_way w = {.address = {192, 0, 2, 7}, .port = 80};

	ck_assert(!may_match("host 192.0.2.7 and tcp port 80", &w));
	ck_assert(may_match("host 192.0.2.7 or tcp port 80", &w));
	for (size_t i = 0; i < COUNT(t); i++)
		for (int way = 0; way < 4; way++) {
			w.host_side = way & 2 ? PRI_PART_DST : PRI_PART_SRC;
			w.port_side = way & 1 ? PRI_PART_DPORT : PRI_PART_SPORT;
			ck_assert_msg(may_match(t[i].filter, &w) == t[i].expected[way],
				"'%s', way %d", t[i].filter, way);
		}
}
END_TEST

static void
fill(TCase *tests)
{
	tcase_add_test(tests, says_what_filters_mean);
	tcase_add_test(tests, takes_no_load_for_more_than_it_is);
	tcase_add_test(tests, address_and_port_come_together);
}

int
main(void)
{
	return unit_run("plan", fill);
}
