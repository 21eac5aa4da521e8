/* SPDX-License-Identifier: Apache-2.0 */
/* What filters say of a sum of packets that a cutoff kept back. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "indexer/filter/filter.h"
#include "indexer/query/beyond.h"
#include "tests/unit/plan_filters.h"
#include "tests/unit/unit.h"

#define ETHERNET 1

static struct pr_error err;

/* ---- known filters ---- */

static const struct pr_connection tcp4 = {.address = {{10, 0, 0, 1}, {192, 168, 0, 1}},
					  .port = {1000, 80},
					  .vlan = PR_UNTAGGED,
					  .protocol = 6,
					  .address_len = 4},
				  tagged = {.address = {{10, 0, 0, 1}, {192, 168, 0, 1}},
					  .port = {1000, 53},
					  .vlan = 5,
					  .protocol = 17,
					  .address_len = 4},
				  udp6 = {.address = {{0x20, 1, 0x0d, 0xb8, [15] = 1},
						  {0x20, 1, 0x0d, 0xb8, [15] = 2}},
					  .port = {1000, 53},
					  .vlan = PR_UNTAGGED,
					  .protocol = 17,
					  .address_len = 16},
				  icmp = {.address = {{10, 0, 0, 1}, {192, 168, 0, 1}},
					  .vlan = PR_UNTAGGED,
					  .protocol = 1,
					  .address_len = 4};

/* Of each sum: Y, N, or ? (may). */
static const struct {
	const char *filter, *want; /* tcp4, tagged, udp6, icmp */
} known[] = {
	{"", "YYYY"},
	{"ip", "YNNY"},
	{"ip6", "NNYN"},
	{"arp", "NNNN"},
	{"tcp", "YNNN"},
	{"udp", "NNYN"},
	{"icmp", "NNNY"},
	{"not tcp", "NYYY"},
	{"host 10.0.0.1", "YNNY"},
	{"src host 10.0.0.1", "YNNY"},
	{"dst host 10.0.0.1", "NNNN"},
	{"net 192.168.0.0/16", "YNNY"},
	{"host 10.0.0.9", "NNNN"},
	{"ip6 host 2001:db8::2", "NNYN"},
	{"port 80", "YNNN"},
	{"src port 80", "NNNN"},
	{"udp port 53", "NNYN"},
	{"portrange 60-90", "YNNN"},
	{"portrange 1-52", "NNNN"},
	{"tcp and host 10.0.0.1 and not port 80", "NNNN"},
	{"vlan", "NYNN"},
	{"vlan 5", "NYNN"},
	{"vlan 6", "NNNN"},
	{"vlan and udp port 53 and host 10.0.0.1", "NYNN"},
	/* what a packet alone has */
	{"tcp[13] & 2 != 0", "?NNN"},
	{"tcp port 80 and tcp[13] & 2 != 0", "?NNN"},
	{"tcp port 81 and tcp[13] & 2 != 0", "NNNN"},
	{"greater 100", "????"},
	{"less 100 and tcp", "?NNN"},
	{"ether host 1:2:3:4:5:6", "????"},
	{"host 10.0.0.1 and ether host 1:2:3:4:5:6", "?NN?"},
	{"ip[8] = 64", "?NN?"},
	{"icmp[0] = 8", "NNN?"},
	{"after @1", "????"},
	{"tcp and before @1", "?NNN"},
	{"udp or before @1", "??Y?"},
	/* flags of fragments are a packet's own, where a fragment begins is not */
	{"ip[6] & 0x40 != 0", "?NN?"},
	{"ip[6:2] & 0x1fff = 0", "YNNY"},
};

static struct pr_packet
sum_of(const struct pr_connection *c, uint8_t frame[PR_BEYOND_MAX])
{
	const struct pr_beyond b = {.connection = *c,
		.number = 1,
		.packets = 1,
		.bytes = 100,
		.first = 7 * SECOND,
		.last = 7 * SECOND,
		.name = "c"};

	return (struct pr_packet){.data = frame,
		.caplen = (uint32_t)pr_beyond_store(&b, frame),
		.len = PR_BEYOND_MAX,
		.linktype = ETHERNET,
		.time = 8 * SECOND - 1};
}

static char
letter(enum pri_beyond_match match)
{
	return match == PRI_BEYOND_YES ? 'Y' : match == PRI_BEYOND_NO ? 'N' : '?';
}

START_TEST(known_filters)
{
	const struct pr_connection *connections[] = {&tcp4, &tagged, &udp6, &icmp};
	struct pr_bpf_set set = {NULL, 0};
	struct pri_plans plans = {0}, none = {0};
	uint8_t frame[PR_BEYOND_MAX];
	char is[8] = "", without[8] = "";

	if (*known[_i].filter) {
		struct pr_bpf *program =
			pri_filter_compile(ETHERNET, known[_i].filter, &err);

		ck_assert_msg(program != NULL, "%s: %s", known[_i].filter, err.text);
		ck_assert_int_eq(pr_bpf_set_add(&set, program, &err), 0);
		ck_assert_int_eq(pri_plans_create(&set, NULL, &plans, &err), 0);
	}
	for (size_t i = 0; i < COUNT(connections); i++) {
		struct pr_packet sum = sum_of(connections[i], frame);

		is[i] = letter(pri_beyond_match(&set, &plans, &sum));
		without[i] = letter(pri_beyond_match(&set, &none, &sum));
		/* of another link type, or cut off: none */
		if (!*known[_i].filter)
			continue;
		sum.linktype = 101;
		ck_assert_int_eq(pri_beyond_match(&set, &plans, &sum), PRI_BEYOND_NO);
		sum.linktype = ETHERNET;
		sum.caplen = PR_BEYOND_AT - 1;
		ck_assert_int_eq(pri_beyond_match(&set, &plans, &sum), PRI_BEYOND_NO);
	}
	ck_assert_msg(!strcmp(is, known[_i].want), "'%s': %s, not %s", known[_i].filter, is,
		known[_i].want);
	/* plans tell more, and nothing else */
	for (size_t i = 0; is[i]; i++)
		ck_assert(without[i] == is[i] || without[i] == '?');
	pri_plans_free(&plans);
	pr_bpf_set_free(&set);
}
END_TEST

/* ---- random ones ---- */

static struct pr_connection
random_connection(void)
{
	struct pr_connection c = {
		.vlan = random() % 3 ? PR_UNTAGGED : (uint16_t)(5 + random() % 3),
		.protocol = PICK(protos),
		.address_len = random() % 3 ? 4 : 16};

	for (int i = 0; i < 2; i++) {
		if (c.address_len == 4)
			put(c.address[i], 0, PICK(hosts), 4);
		else
			put_ip6_address(c.address[i], 0);
		if (c.protocol == 6 || c.protocol == 17 || c.protocol == 132)
			c.port[i] = PICK(ports);
	}
	return c;
}

/* A packet of the connection: all else is by chance (but IP options, and the priority of a tag). */
static struct pr_packet
random_packet(const struct pr_connection *c, uint8_t bytes[PACKET_MAX])
{
	uint8_t headers[PR_HEADERS_MAX] = {0};
	size_t at = pr_headers_put(c, headers), net = c->vlan == PR_UNTAGGED ? 14 : 18;
	bool six = c->address_len == 16,
	     ports_too = c->protocol == 6 || c->protocol == 17 || c->protocol == 132;

	for (size_t i = 0; i < PACKET_MAX; i++)
		bytes[i] = random() % 3 ? 0 : (uint8_t)random();
	if (random() % 2)
		put(bytes, put(bytes, 0, 0x0102, 2), 0x03040500u + (uint32_t)random() % 3,
			4);
	memcpy(bytes + 12, headers + 12, net - 12);
	bytes[net] = (uint8_t)(headers[net] | (six ? random() % 16 : 0));
	bytes[net + (six ? 6 : 9)] = c->protocol;
	memcpy(bytes + net + (six ? 8 : 12), headers + net + (six ? 8 : 12), six ? 32 : 8);
	if (!six) {
		bytes[net] = 0x45;
		put(bytes, net + 6, (uint32_t)(random() % 3 ? random() % 8 << 13 : 0), 2);
	}
	if (ports_too)
		memcpy(bytes + at, headers + at, 4);
	return (struct pr_packet){.data = bytes,
		.caplen = PACKET_MAX,
		.len = PACKET_MAX + (uint32_t)random() % 1000,
		.linktype = ETHERNET,
		.time = PICK(times)};
}

static unsigned answers[3];

static void
compare_filter(const char *filter)
{
	struct pr_bpf_set set = {NULL, 0};
	struct pri_plans plans = {0};
	struct pr_bpf *program = pri_filter_compile(ETHERNET, filter, &err);

	if (!program)
		return;
	unit_must(pr_bpf_set_add(&set, program, &err) == 0);
	unit_must(pri_plans_create(&set, NULL, &plans, &err) == 0);
	for (int i = 0; i < 40; i++) {
		const struct pr_connection c = random_connection();
		uint8_t frame[PR_BEYOND_MAX], bytes[PACKET_MAX];
		const struct pr_packet sum = sum_of(&c, frame);
		enum pri_beyond_match match = pri_beyond_match(&set, &plans, &sum);

		answers[match]++;
		for (int k = 0; k < 8; k++) {
			struct pr_packet p = random_packet(&c, bytes);
			bool is = pr_bpf_set_match(&set, &p);

			if (match != PRI_BEYOND_MAY && is != (match == PRI_BEYOND_YES))
				ck_abort_msg("'%s': the sum is %c, a packet of it %d",
					filter, letter(match), is);
		}
	}
	pri_plans_free(&plans);
	pr_bpf_set_free(&set);
}

/* NO: no packet of it matches. YES: all do. */
START_TEST(random_filters)
{
	srandom(getenv("SEED") ? (unsigned)atoi(getenv("SEED")) : 1 + (unsigned)_i);
	memset(answers, 0, sizeof answers);
	for (unsigned i = 0; i < 1500; i++) {
		struct text t = {.used = 0};

		say_filter(&t, 1 + (unsigned)random() % 3);
		compare_filter(t.bytes);
	}
	ck_assert_uint_gt(answers[PRI_BEYOND_NO], 5000);
	ck_assert_uint_gt(answers[PRI_BEYOND_YES], 2000);
	ck_assert_uint_gt(answers[PRI_BEYOND_MAY], 2000);
}
END_TEST

/* ---- programs of which some bytes are known ---- */

START_TEST(run_known)
{
	static const struct {
		const char *filter;
		int unknown,
			known; /* the byte that is not known, or -1; else the result: 0, 1 */
	} cases[] = {
		{"ether[12] = 8", 12, -1},
		{"ether[12] = 8", 13, 1},
		{"ether[12:2] = 0x800", 13, -1},
		{"ether[12:2] = 0x806", 14, 0},
		{"ether[12] = 8 or ether[30] = 1", 30, 1},
		{"ether[12] = 9 or ether[30] = 1", 30, -1},
		{"ether[12] = 9 and ether[30] = 1", 30, 0},
		{"ether[12] = 8 and ether[30] = 1", 30, -1},
		/* behind what is captured */
		{"ether[200] = 1", 0, -1},
		{"len > 5", 0, -1},
		{"after @1", 0, -1},
		/* the length of an IP header is that of a sum, whatever is known of it */
		{"tcp port 80", 14, 1},
		{"tcp port 80", 34, -1},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		uint8_t frame[PR_BEYOND_MAX];
		struct pr_packet p = sum_of(&tcp4, frame);
		struct pr_bpf *program =
			pri_filter_compile(ETHERNET, cases[i].filter, &err);
		bool all[PR_BEYOND_MAX], unknown;

		ck_assert_msg(program != NULL, "%s: %s", cases[i].filter, err.text);
		memset(all, true, sizeof all);
		all[cases[i].unknown] = false;
		uint32_t result = pr_bpf_run_known(program, &p, all, &unknown);
		ck_assert_msg(unknown == (cases[i].known < 0), "%s", cases[i].filter);
		if (!unknown) {
			ck_assert_int_eq(result != 0, cases[i].known);
			ck_assert_uint_eq(result, pr_bpf_run(program, &p));
		}
		pr_bpf_destroy(&program);
	}
}
END_TEST

static void
fill(TCase *t)
{
	tcase_add_loop_test(t, known_filters, 0, COUNT(known));
	tcase_add_loop_test(t, random_filters, 0, 3);
	tcase_add_test(t, run_known);
}

int
main(void)
{
	return unit_run("beyond match", fill);
}
