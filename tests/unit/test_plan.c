/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <check.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "indexer/composite.h"
#include "indexer/filter.h"
#include "indexer/plan.h"
#include "indexer/program_code.h"
#include "proto/wire/cursor.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))
#define ETHERNET 1

static struct pr_error err;

/* ---- well known filters ---- */

static char *
words_of(uint16_t linktype, const char *filter)
{
	struct pr_program *program = pr_filter_compile(linktype, 0, filter, &err);
	struct pr_plan *plan;
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	ck_assert_msg(program != NULL, "%s: %s", filter, err.text);
	plan = pr_plan_create(program, &err);
	ck_assert_ptr_nonnull(plan);
	pr_plan_print(f, plan, 0);
	fclose(f);
	pr_plan_destroy(&plan);
	pr_program_destroy(&program);
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
		"1.2.3.4\n\tdst host 6.7.8.9\n\tbetween 1.2.3.4 and 6.7.8.9\n"
		"\tprotocol TCP between 1.2.3.4 port 5 and 6.7.8.9 port 10\n"},
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
	struct pr_program *program =
		pr_program_create(1, unchecked, COUNT(unchecked), &err);
	struct pr_plan *plan = pr_plan_create(program, &err);

	for (size_t i = 0; i < plan->key_count; i++)
		ck_assert_uint_ne(plan->keys[i].kind, PR_KEY_SPORT);
	ck_assert_uint_eq(plan->key_count, 2);
	pr_plan_destroy(&plan);
	pr_program_destroy(&program);
}
END_TEST

/* ---- composites of either side ---- */

/* On which side the one packet of a segment has this address and port; 0: it has not both. */
struct one_way {
	uint8_t address[4];
	uint16_t port;
	unsigned host_side, port_side; /* enum pr_part */
};

static bool
any_key(void *arg, const struct pr_key *key)
{
	(void)arg;
	(void)key;
	return true;
}

static bool
any_range(void *arg, const struct pr_plan_range *range)
{
	(void)arg;
	(void)range;
	return true;
}

static bool
is_way(const struct one_way *way, unsigned host, unsigned port, const struct pr_key *key)
{
	struct pr_key a = pr_key_bytes(PR_KEY_SRC, way->address, 4), both, is;
	struct pr_key b = pr_key_number(PR_KEY_SPORT, way->port);
	const struct pr_key *parts[PR_PARTS] = {0};

	parts[host == PR_PART_SRC ? 0 : 1] = &a;
	parts[port == PR_PART_SPORT ? 2 : 3] = &b;
	both = pr_key_parts(parts);
	ck_assert(pr_key_composite(&both, (uint8_t)(host | port), &is));
	return way->host_side == host && way->port_side == port && is.len == key->len &&
	       memcmp(is.bytes, key->bytes, key->len) == 0;
}

/* As an index that has the composites of one address and one port. */
static bool
has_way(void *arg, const struct pr_key *parts)
{
	const struct one_way *way = arg;
	struct pr_key key;

	for (unsigned host = PR_PART_SRC; host <= PR_PART_DST; host *= 2)
		for (unsigned port = PR_PART_SPORT; port <= PR_PART_DPORT; port *= 2)
			if (pr_key_composite(parts, (uint8_t)(host | port), &key) &&
				!is_way(way, host, port, &key))
				return false;
	return true;
}

static bool
may_match(const char *filter, struct one_way *way)
{
	struct pr_program *program = pr_filter_compile(1, 0, filter, &err);
	struct pr_plan_index index = {.has_key = any_key,
		.has_range = any_range,
		.has_parts = has_way,
		.arg = way};
	struct pr_plan *plan;
	uint8_t *scratch;
	bool result;

	ck_assert_msg(program != NULL, "%s: %s", filter, err.text);
	plan = pr_plan_create(program, &err);
	ck_assert_ptr_nonnull(plan);
	scratch = malloc(plan->count);
	result = pr_plan_holds(plan, &index, scratch);
	free(scratch);
	pr_plan_destroy(&plan);
	pr_program_destroy(&program);
	return result;
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
		{"host 192.0.2.7 and dst port 80", {false, true, false, true}},
		{"dst 192.0.2.7 and udp src port 80", {false, false, true, false}},
		{"host 192.0.2.7 and port 80 and port 81", {false, false, false, false}},
		{"host 192.0.2.8 and port 80", {false, false, false, false}},
		{"host 192.0.2.7", {true, true, true, true}},
		{"(host 192.0.2.7 and port 80) or icmp", {true, true, true, true}},
	};
	struct one_way w = {.address = {192, 0, 2, 7}, .port = 80};

	ck_assert(!may_match("host 192.0.2.7 and tcp port 80", &w));
	ck_assert(may_match("host 192.0.2.7 or tcp port 80", &w));
	for (size_t i = 0; i < COUNT(t); i++)
		for (int way = 0; way < 4; way++) {
			w.host_side = way & 2 ? PR_PART_DST : PR_PART_SRC;
			w.port_side = way & 1 ? PR_PART_DPORT : PR_PART_SPORT;
			ck_assert_msg(may_match(t[i].filter, &w) == t[i].expected[way],
				"'%s', way %d", t[i].filter, way);
		}
}
END_TEST

/* ---- a packet's own keys as the index ---- */

struct own {
	struct pr_key keys[PR_KEYS_MAX];
	size_t count;
	struct pr_fields fields;
	bool laid_out;
	uint32_t len;
};

static unsigned composites_asked;

/* Whatever composites an index may have: the packet has all of which the filter fixes all parts. */
static bool
own_parts(void *arg, const struct pr_key *parts)
{
	const struct own *own = arg;
	struct pr_key key, keys[PR_COMPOSITE_KEYS];

	for (unsigned mask = 3; mask < 1u << PR_PARTS; mask++) {
		size_t count, i = 0;

		if (!(mask & (mask - 1)) || !pr_key_composite(parts, (uint8_t)mask, &key))
			continue;
		composites_asked++;
		count = pr_composite_keys(&own->fields, (uint8_t)mask, keys);
		while (i < count && (keys[i].len != key.len ||
					    memcmp(keys[i].bytes, key.bytes, key.len) != 0))
			i++;
		if (i == count)
			return false;
	}
	return true;
}

static bool
own_key(void *arg, const struct pr_key *key)
{
	const struct own *own = arg;

	for (size_t i = 0; i < own->count; i++)
		if (own->keys[i].kind == key->kind && own->keys[i].len == key->len &&
			!memcmp(own->keys[i].bytes, key->bytes, key->len))
			return true;
	return false;
}

static bool
own_range(void *arg, const struct pr_plan_range *r)
{
	const struct own *own = arg;
	const struct pr_fields *f = &own->fields;
	bool ip4 = own->laid_out && f->address_len == 4;
	int64_t value = -1;

	switch (r->number) {
	case PR_NUMBER_LENGTH:
		value = own->len;
		break;
	case PR_NUMBER_SPORT:
		value = f->have & PR_FIELD_SPORT ? f->sport : -1;
		break;
	case PR_NUMBER_DPORT:
		value = f->have & PR_FIELD_DPORT ? f->dport : -1;
		break;
	case PR_NUMBER_SRC4:
		value = ip4 && f->have & PR_FIELD_SRC ? (int64_t)pr_get_be32(f->src) : -1;
		break;
	case PR_NUMBER_DST4:
		value = ip4 && f->have & PR_FIELD_DST ? (int64_t)pr_get_be32(f->dst) : -1;
		break;
	}
	return value >= r->least && value <= r->most;
}

static void
own_of(const struct pr_packet *packet, struct own *own)
{
	const struct pr_layout *layout = pr_layout_find(packet->linktype);

	memset(own, 0, sizeof(*own));
	own->count = pr_keys_of_packet(packet, own->keys);
	own->len = packet->len;
	own->laid_out = layout != NULL;
	if (layout)
		pr_fields_of_packet(layout, packet->data, packet->caplen, &own->fields);
}

static bool
holds(const struct pr_plan *plan, struct own *own)
{
	struct pr_plan_index index = {.has_key = own_key,
		.has_range = own_range,
		.has_parts = own_parts,
		.arg = own};
	uint8_t *scratch = malloc(plan->count);
	bool result = pr_plan_holds(plan, &index, scratch);

	free(scratch);
	return result;
}

/* ---- packets made up, from few values so that filters meet them ---- */

static const uint32_t hosts[] = {
	0x0a000001, 0x0a000102, 0xc0a80001, 0xc0a80002, 0x0a100001};
static const uint16_t ports[] = {53, 80, 443, 1000, 2000};
static const uint8_t protos[] = {6, 17, 132, 1, 58, 44, 47, 0};
static const uint16_t types[] = {0x0800, 0x0800, 0x0800, 0x86dd, 0x86dd, 0x0806, 0x8035,
	0x8100, 0x88a8, 0x9100, 0x8847, 0x8864, 100, 0};
#define PICK(array) ((array)[(size_t)random() % COUNT(array)])
#define PACKET_MAX 160

static size_t
put(uint8_t *p, size_t at, uint32_t value, unsigned size)
{
	for (unsigned i = 0; i < size && at + i < PACKET_MAX; i++)
		p[at + i] = (uint8_t)(value >> 8 * (size - 1 - i));
	return at + size;
}

static void
put_ip6_address(uint8_t *p, size_t at)
{
	put(p, at, 0x20010db8, 4);
	put(p, at + 4, random() % 2 ? 0 : 0x00010002, 4);
	put(p, at + 8, 0, 4);
	put(p, at + 12, (uint32_t)(random() % 3), 4);
}

static void
put_transport(uint8_t *p, size_t at)
{
	put(p, at, PICK(ports), 2);
	put(p, at + 2, PICK(ports), 2);
	if (random() % 3 == 0)
		put(p, at, (uint32_t[]){8, 0, 128, 58, 6}[random() % 5], 1);
	put(p, at + 13, (uint32_t)random(), 1);
}

static void
put_net(uint8_t *p, size_t at, uint16_t type)
{
	unsigned words = random() % 8 ? 5 : (unsigned)random() % 16;

	if (type == 0x0800) {
		put(p, at, 0x40 | words, 1);
		put(p, at + 6, random() % 4 ? 0 : (uint32_t)random() % 0x10000, 2);
		put(p, at + 9, PICK(protos), 1);
		put(p, at + 12, PICK(hosts), 4);
		put(p, at + 16, PICK(hosts), 4);
		put_transport(p, at + 4 * words);
	} else if (type == 0x86dd) {
		put(p, at, 0x60, 1);
		put(p, at + 6, PICK(protos), 1);
		put_ip6_address(p, at + 8);
		put_ip6_address(p, at + 24);
		put_transport(p, at + 40);
	} else if (type == 0x0806 || type == 0x8035) {
		put(p, at + 14, PICK(hosts), 4);
		put(p, at + 24, PICK(hosts), 4);
	}
}

static uint16_t
put_types(uint8_t *p, size_t *at)
{
	uint16_t type = PICK(types);

	for (*at = put(p, *at, type, 2); type == 0x8100 || type == 0x88a8 || type == 0x9100;
		*at = put(p, *at, type, 2)) {
		*at = put(p, *at, (uint32_t)random() % 3 + 5, 2);
		type = PICK(types);
		if (*at > 60)
			type = 0x0800;
	}
	if (type == 0x8864) {
		put(p, *at + 2, 5, 2);
		type = random() % 2 ? 0x0800 : 0x86dd;
		*at = put(p, *at + 6, type == 0x0800 ? 0x21 : 0x57, 2);
	}
	while (type == 0x8847) {
		bool bottom = random() % 2 || *at > 60;
		*at = put(p, *at, ((uint32_t)random() % 3 + 5) << 12 | (bottom ? 0x100 : 0),
			4);
		if (bottom)
			type = random() % 3 ? 0x0800 : 0x86dd;
	}
	return type;
}

static void
make_packet(uint8_t *p, struct pr_packet *out)
{
	static const uint16_t linktypes[] = {1, 1, 1, 1, 1, 113, 276, 101, 0, 9, 105, 12};
	size_t at = 12;
	uint16_t type;

	*out = (struct pr_packet){
		.data = p, .linktype = PICK(linktypes), .caplen = PACKET_MAX};
	for (size_t i = 0; i < PACKET_MAX; i++)
		p[i] = random() % 4 ? 0 : (uint8_t)random();
	if (out->linktype == 1) {
		for (unsigned i = 0; i < 2; i++)
			put(p, put(p, 6 * i, random() % 8 ? 0x0102 : 0xffff, 2),
				0x03040500u + (uint32_t)random() % 3, 4);
		type = put_types(p, &at);
	} else {
		const struct pr_layout *l = pr_layout_find(out->linktype);
		type = random() % 2 ? 0x0800 : 0x86dd;
		at = l ? l->net_at : 0;
		if (l && l->form == PR_TYPE_ETHER)
			put(p, l->type_at, type, 2);
		else if (l && l->form == PR_TYPE_PPP)
			put(p, l->type_at, type == 0x0800 ? 0x21 : 0x57, 2);
		else if (l && l->form == PR_TYPE_FAMILY)
			put(p, 0, random() % 2 ? 2 : 2u << 24, 4);
	}
	put_net(p, at, type);
	if (random() % 3 == 0)
		out->caplen = (uint32_t)random() % PACKET_MAX;
	out->len = out->caplen + (random() % 2 ? 0 : (uint32_t)random() % 1500);
}

/* ---- filters made up ---- */

struct text {
	char bytes[2048];
	size_t used;
};

static void __attribute__((format(printf, 2, 3)))
say(struct text *t, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(t->bytes + t->used, sizeof(t->bytes) - t->used, format, args);
	va_end(args);
	if (n > 0 && t->used + (size_t)n < sizeof(t->bytes))
		t->used += (size_t)n;
}

static const char *
address(char *buf)
{
	struct in_addr a = {htonl(PICK(hosts))};

	return inet_ntop(AF_INET, &a, buf, INET_ADDRSTRLEN);
}

static void
say_load(struct text *t)
{
	static const char *const bases[] = {
		"ether", "ip", "ip6", "tcp", "udp", "arp", "icmp", "icmp6"};
	static const unsigned offsets[] = {
		0, 2, 4, 6, 8, 9, 12, 13, 14, 16, 20, 22, 23, 24, 26, 28, 30, 38, 40};
	static const char *const relations[] = {"=", "!=", ">", "<", ">=", "<="};
	unsigned size = 1u << random() % 3;
	uint32_t value = size == 1   ? (uint32_t[]){6, 17, 10, 0x45, 8, 128}[random() % 6]
			 : size == 2 ? (random() % 2 ? PICK(types) : PICK(ports))
				     : PICK(hosts);

	say(t, "%s[%u:%u]", PICK(bases), PICK(offsets), size);
	if (random() % 3 == 0)
		say(t, " & 0x%x",
			(uint32_t[]){0xff, 0xf0, 0x1fff, 0xffff0000, 0xfffff000, 0xfff,
				1}[random() % 7]);
	else if (random() % 6 == 0)
		say(t, " >> %u", (unsigned)random() % 9);
	say(t, " %s 0x%x", PICK(relations), random() % 5 ? value : 0);
}

static void
say_primitive(struct text *t)
{
	static const char *const sides[] = {
		"", "src ", "dst ", "src or dst ", "src and dst "};
	static const char *const protocols[] = {"", "", "tcp ", "udp ", "sctp "};
	static const char *const words[] = {"ip", "ip6", "arp", "rarp", "tcp", "udp",
		"sctp", "icmp", "icmp6", "vlan", "vlan 5", "vlan 6", "mpls", "mpls 5",
		"mpls 6", "pppoes", "pppoes 5", "ether broadcast", "ether multicast",
		"ip broadcast", "ip multicast", "ip6 multicast", "ip6 protochain 6",
		"ip protochain 6", "tcp[tcpflags] & tcp-syn != 0",
		"icmp[icmptype] = icmp-echo", "icmp6[icmp6type] = 128",
		"ip[6:2] & 0x1fff = 0", "ip[6:2] & 0x1fff != 0", "ip[0] & 0xf != 5",
		"ip6 proto 44", "proto 6", "ip proto 17"};
	static const char *const nets[] = {"10", "10.0", "10.0.0", "10.0.0.0/12",
		"192.168.0.0/30", "10.0.1.0/23", "8.0.0.0/5"};
	char a[INET_ADDRSTRLEN];
	unsigned port = PICK(ports);

	switch (random() % 14) {
	case 11:
	case 12: /* what composites are made of */
		say(t, "(%shost %s and %s%sport %u)", PICK(sides), address(a),
			PICK(protocols), PICK(sides), port);
		break;
	case 0:
	case 1:
		say(t, "%shost %s", PICK(sides), address(a));
		break;
	case 2:
		say(t, "%snet %s", PICK(sides), PICK(nets));
		break;
	case 3:
		say(t, "%s%sport %u", PICK(protocols), PICK(sides), port);
		break;
	case 4:
		say(t, "%s%sportrange %u-%u", PICK(protocols), PICK(sides), port,
			port + 50);
		break;
	case 5:
		say(t, "ip6 %shost 2001:db8::%u", PICK(sides), (unsigned)random() % 3);
		break;
	case 6:
		say(t, "ip6 %snet 2001:db8::/%u", PICK(sides),
			30 + (unsigned)random() % 50);
		break;
	case 7:
		say(t, "ether %shost 1:2:3:4:5:%u",
			PICK(((const char *const[]){"", "src ", "dst "})),
			(unsigned)random() % 3);
		break;
	case 8:
		say(t, "%s %u", random() % 2 ? "less" : "greater",
			(unsigned)random() % 1500);
		break;
	case 9:
	case 10:
		say_load(t);
		break;
	default:
		say(t, "%s", PICK(words));
	}
}

static void
say_filter(struct text *t, unsigned depth)
{
	if (depth == 0 || random() % 4 == 0) {
		say_primitive(t);
		return;
	}
	say(t, random() % 5 ? "(" : "not (");
	say_filter(t, depth - 1);
	say(t, random() % 2 ? ") and (" : ") or (");
	say_filter(t, depth - 1);
	say(t, ")");
}

static unsigned pairs, accepted, denied, held;

static void
compare(const struct pr_program *program, const struct pr_plan *plan,
	const struct pr_packet *packet, struct own *own, const char *what)
{
	bool match = pr_program_run(program, packet->data, packet->len, packet->caplen) !=
		     0,
	     may = holds(plan, own);

	pairs++;
	accepted += match;
	held += may && !match && !pr_plan_is(plan, PR_PLAN_TRUE);
	denied += !may;
	if (match && !may)
		pr_plan_print(stdout, plan, 1);
	ck_assert_msg(!match || may, "a match is denied: '%s', link type %u, captured %u",
		what, packet->linktype, packet->caplen);
}

#define PACKETS 600

static struct pr_packet packets[PACKETS];
static struct own owns[PACKETS];

static void
make_packets(void)
{
	static uint8_t bytes[PACKETS][PACKET_MAX];

	for (size_t i = 0; i < PACKETS; i++) {
		make_packet(bytes[i], &packets[i]);
		own_of(&packets[i], &owns[i]);
	}
}

static void
compare_filter(const char *text, uint16_t linktype)
{
	struct pr_program *program = pr_filter_compile(linktype, 0, text, &err);
	struct pr_plan *plan;

	if (!program)
		return;
	plan = pr_plan_create(program, &err);
	ck_assert_ptr_nonnull(plan);
	ck_assert_uint_eq(plan->linktype, linktype);
	for (size_t i = 0; i < PACKETS; i++)
		if (packets[i].linktype == linktype)
			compare(program, plan, &packets[i], &owns[i], text);
	pr_plan_destroy(&plan);
	pr_program_destroy(&program);
}

/* The program's word on a packet is the oracle: what it accepts its plan must not deny. */
START_TEST(denies_no_match_of_random_filters)
{
	static const uint16_t linktypes[] = {1, 113, 276, 101, 0, 9, 105, 12};

	srandom(getenv("SEED") ? (unsigned)atoi(getenv("SEED")) : 1);
	pairs = accepted = denied = held = 0;
	make_packets();
	for (unsigned i = 0; i < 1500; i++) {
		struct text t = {.used = 0};

		say_filter(&t, 1 + (unsigned)random() % 3);
		for (size_t j = 0; j < COUNT(linktypes); j++)
			compare_filter(t.bytes, linktypes[j]);
	}
	printf("%u composites asked, %u pairs of filter and packet: %u match, %u denied, "
	       "%u allowed for "
	       "nothing\n",
		composites_asked, pairs, accepted, denied, held);
	ck_assert_uint_gt(pairs, 300000);
	ck_assert_uint_gt(composites_asked, 500);
	ck_assert_uint_gt(accepted, 30000);
	ck_assert_uint_gt(denied, 100000);
}
END_TEST

/* ---- programs made up ---- */

static struct pr_insn
random_insn(size_t i, size_t count)
{
	static const uint16_t codes[] = {LD_W_ABS, LD_H_ABS, LD_B_ABS, LD_H_ABS, LD_B_ABS,
		LD_H_IND, LD_B_IND, LD_W_IND, LD_LEN, LD_IMM, LDX_IMM, LDX_MSH, LDX_MSH, ST,
		LD_MEM, LDX_MEM, AND_K, RSH_K, ADD_K, AND_X, TAX, TXA, JA, JEQ_K, JEQ_K,
		JEQ_K, JEQ_K, JEQ_K, JGT_K, JGE_K, JSET_K, JEQ_X, RET_K};
	static const uint32_t offsets[] = {0, 2, 6, 8, 12, 12, 12, 14, 14, 16, 18, 20, 22,
		23, 24, 26, 30, 38, 54, 56, 28, 34};
	static const uint32_t masks[] = {
		0xff, 0xf0, 0x1fff, 0xffff0000, 0xfffff000, 0xfff, 1, 4};
	size_t left = count - 2 - i;
	struct pr_insn in = {.code = PICK(codes)};
	bool jump = (in.code & CLASS_MASK) == CLASS_JMP;

	if (in.code == RET_K && random() % 3)
		in.code = LD_H_ABS;
	in.k = jump                                  ? (random() % 2          ? PICK(types)
							       : random() % 2 ? PICK(hosts)
							       : random() % 2 ? PICK(protos)
									      : PICK(ports))
	       : (in.code & CLASS_MASK) == CLASS_ALU ? PICK(masks)
						     : PICK(offsets);
	if (in.code == JSET_K)
		in.k = PICK(masks);
	if (in.code == RSH_K)
		in.k %= 20;
	if (in.code == ST || in.code == LD_MEM || in.code == LDX_MEM)
		in.k %= PR_PROGRAM_MEMORY;
	if (in.code == RET_K)
		in.k = (uint32_t)random() % 2;
	if (jump) {
		size_t most = left < 6 ? left : 6;
		in.jt = (uint8_t)((size_t)random() % (most + 1));
		in.jf = (uint8_t)((size_t)random() % (most + 1));
		if (in.code == JA)
			in.k = random() % 20
				       ? in.jt
				       : (uint32_t) -
						 (int32_t)((size_t)random() % (i + 1) + 1);
	}
	return in;
}

START_TEST(denies_no_match_of_random_programs)
{
	struct pr_insn insns[80];

	srandom(getenv("SEED") ? (unsigned)atoi(getenv("SEED")) : 2);
	pairs = accepted = denied = held = 0;
	make_packets();
	for (unsigned round = 0; round < 4000; round++) {
		size_t n = 4 + (size_t)random() % 70;
		uint16_t linktype =
			random() % 2 ? 1 : packets[(size_t)random() % PACKETS].linktype;

		for (size_t i = 0; i + 2 < n; i++)
			insns[i] = random_insn(i, n);
		insns[n - 2] = (struct pr_insn){RET_K, 0, 0, 1};
		insns[n - 1] = (struct pr_insn){RET_K, 0, 0, 0};
		struct pr_program *program = pr_program_create(linktype, insns, n, &err);
		ck_assert_msg(program != NULL, "%s", err.text);
		struct pr_plan *plan = pr_plan_create(program, &err);
		for (size_t i = 0; i < PACKETS; i++)
			if (packets[i].linktype == linktype)
				compare(program, plan, &packets[i], &owns[i], "a program");
		pr_plan_destroy(&plan);
		pr_program_destroy(&program);
	}
	printf("%u pairs of program and packet: %u match, %u denied, %u allowed for "
	       "nothing\n",
		pairs, accepted, denied, held);
	ck_assert_uint_gt(accepted, 30000);
	ck_assert_uint_gt(denied, 30000);
}
END_TEST

/* ---- many terms ---- */

#define TERMS 5000

/* src or dst one of so many hosts, as libpcap writes it; it takes minutes for that itself. */
static struct pr_program *
many_hosts(size_t terms)
{
	struct pr_insn *insns = calloc(4 * terms + 8, sizeof(*insns));
	struct pr_program *program;
	size_t n = 0;

	insns[n++] = (struct pr_insn){LD_H_ABS, 0, 0, 12};
	insns[n++] = (struct pr_insn){JEQ_K, 1, 0, 0x0800};
	insns[n++] = (struct pr_insn){RET_K, 0, 0, 0};
	for (unsigned side = 0; side < 2; side++) {
		insns[n++] = (struct pr_insn){LD_W_ABS, 0, 0, 26 + 4 * side};
		for (size_t i = 0; i < terms; i++) {
			insns[n++] =
				(struct pr_insn){JEQ_K, 0, 1, 0x0b000000 + (uint32_t)i};
			insns[n++] = (struct pr_insn){RET_K, 0, 0, 1};
		}
	}
	insns[n++] = (struct pr_insn){RET_K, 0, 0, 0};
	program = pr_program_create(ETHERNET, insns, n, &err);
	free(insns);
	return program;
}

START_TEST(prunes_by_thousands_of_hosts)
{
	struct pr_program *program = many_hosts(TERMS);
	struct pr_plan *plan = pr_plan_create(program, &err);
	uint8_t bytes[PACKET_MAX] = {0};
	struct pr_packet packet = {.data = bytes,
		.caplen = PACKET_MAX,
		.len = PACKET_MAX,
		.linktype = ETHERNET};
	struct own own;

	ck_assert_uint_eq(plan->key_count, 2 * TERMS + 1);
	ck_assert_uint_lt(plan->count, 5 * TERMS);
	put(bytes, 12, 0x0800, 2);
	for (unsigned i = 0; i < 100; i++) {
		uint32_t host = 0x0b000000 + (uint32_t)random() % (2 * TERMS);
		put(bytes, 30, host, 4);
		own_of(&packet, &own);
		ck_assert(holds(plan, &own) == (host < 0x0b000000 + TERMS));
	}
	pr_plan_destroy(&plan);
	pr_program_destroy(&program);
}
END_TEST

/* What a stranger may send: as long as programs may be, with no sense in it. */
START_TEST(takes_hostile_programs)
{
	const size_t n = PR_PROGRAM_MAX;
	struct pr_insn *insns = calloc(n, sizeof(*insns));

	srandom(3);
	for (unsigned round = 0; round < 3; round++) {
		for (size_t i = 0; i + 1 < n; i++) {
			uint32_t k = round ? PICK(hosts) + (uint32_t)random() % 1000
					   : PICK(types);
			size_t left = n - 2 - i;
			uint8_t j =
				(uint8_t)((size_t)random() % (left < 255 ? left + 1 : 256));
			insns[i] = i % (2 + round) == 0
					   ? (struct pr_insn){LD_W_ABS, 0, 0,
						     8 + 4 * ((uint32_t)random() % 8)}
					   : (struct pr_insn){JEQ_K,
						     (uint8_t)(left ? random() % 2 : 0),
						     round == 2 ? j : 0, k};
			if (i < 40 && i % 2)
				insns[i] = (struct pr_insn){JEQ_K, 0, 0, 0x0800};
		}
		insns[n - 1] = (struct pr_insn){RET_K, 0, 0, 1};
		struct pr_program *program = pr_program_create(ETHERNET, insns, n, &err);
		ck_assert_msg(program != NULL, "%s", err.text);
		struct pr_plan *plan = pr_plan_create(program, &err);
		ck_assert_ptr_nonnull(plan);
		ck_assert_uint_lt(plan->count, 2 * PR_PROGRAM_MAX);
		pr_plan_destroy(&plan);
		pr_program_destroy(&program);
	}
	free(insns);
}
END_TEST

int
main(void)
{
	Suite *suite = suite_create("plan");
	TCase *tests = tcase_create("plan");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_set_timeout(tests, 120);
	tcase_add_test(tests, says_what_filters_mean);
	tcase_add_test(tests, takes_no_load_for_more_than_it_is);
	tcase_add_test(tests, address_and_port_come_together);
	tcase_add_test(tests, denies_no_match_of_random_filters);
	tcase_add_test(tests, denies_no_match_of_random_programs);
	tcase_add_test(tests, prunes_by_thousands_of_hosts);
	tcase_add_test(tests, takes_hostile_programs);
	suite_add_tcase(suite, tests);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
