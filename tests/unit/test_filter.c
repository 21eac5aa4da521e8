/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <pcap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "indexer/filter/filter.h"
#include "proto/base/array.h"
#include "proto/base/cursor.h"
#include "tests/unit/unit.h"

#define TERMS 80

/* count terms of `form` (with one %u) joined by `by` */
static char *
join(const char *form, const char *by, unsigned count)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	for (unsigned i = 0; i < count; i++) {
		fputs(i ? by : "", f);
		fprintf(f, form, i);
	}
	fclose(f);
	return text;
}

static size_t
parts_of(const char *form, const char *by, unsigned count)
{
	char *text = join(form, by, count);
	size_t n;
	char *parts = pri_filter_split(text, &n);

	n = parts ? n : 0;

	free(parts);
	free(text);
	return n;
}

START_TEST(test_where_it_is_cut)
{
	char *text = join("host 10.0.0.%u", "\n or\t", PRI_FILTER_SPLIT_MIN + 1);
	size_t count;
	char *parts = pri_filter_split(text, &count), *part = parts;

	ck_assert_uint_eq(count, PRI_FILTER_SPLIT_MIN / PRI_FILTER_PART + 1);
	ck_assert_int_eq(strncmp(part, "host 10.0.0.0\n or", 17), 0);
	ck_assert_ptr_nonnull(strstr(part, "10.0.0.15"));
	ck_assert_ptr_null(strstr(part, "10.0.0.16"));
	part += strlen(part) + 1;
	ck_assert_int_eq(strncmp(part, " \thost 10.0.0.16", 16), 0);
	for (size_t i = 2; i < count; i++)
		part += strlen(part) + 1;
	ck_assert_ptr_nonnull(strstr(part, "10.0.0.48"));
	free(parts);
	free(text);
	ck_assert_uint_eq(parts_of("host 10.0.0.%u", " or ", PRI_FILTER_SPLIT_MIN), 0);
	ck_assert_uint_eq(parts_of("(net 10.%u and (tcp or udp))", " or ", TERMS), 5);
	ck_assert_uint_eq(parts_of("not ( src host 10.0.0.%u )", " or ", TERMS), 5);
	ck_assert_uint_eq(
		parts_of("(host 10.0.0.%u and link[64:4] = 1)", " or ", TERMS), 5);
}
END_TEST

static void
spreads(const char *text, const char *expected)
{
	char *made = pri_filter_spread(text);

	if (expected)
		ck_assert_str_eq(made, expected);
	else
		ck_assert_ptr_null(made);
	free(made);
}

START_TEST(test_what_is_spread)
{
	spreads("host 10.0.0.1", "host 10.0.0.1");
	spreads("src host (10.0.0.1 or fe80::1)", "src host 10.0.0.1 or src host fe80::1");
	spreads("tcp port 80 or\t443 or udp dst port( 53 )",
		"tcp port 80 or tcp port 443 or udp dst port 53");
	spreads("net 10.0.0.0/8 or (192.0.2.0/24)", "net 10.0.0.0/8 or net 192.0.2.0/24");
	for (const char *const *t = (const char *const[]){"", "10.0.0.1", "host", "host (",
		     "host ()", "host (10.0.0.1", "host 10.0.0.1)", "host 10.0.0.1 or",
		     "host 10.0.0.1 and 10.0.0.2", "host 10.0.0.1 or not 10.0.0.2",
		     "host (10.0.0.1 or port 80)", "host (10.0.0.1 and 10.0.0.2)",
		     "tcp or host 10.0.0.1", "host a or b", "host 10.0.0.1 || 10.0.0.2",
		     "not host 10.0.0.1", "src dst host net port 1", "vlan 1 or 2",
		     "host ((10.0.0.1) or 10.0.0.2)", NULL};
		*t; t++)
		spreads(*t, NULL);
}
END_TEST

/* Each of these means something else, or something unknown, when it is cut. */
START_TEST(test_where_it_is_not)
{
	char *text, *more;
	size_t count;

	ck_assert_uint_eq(
		parts_of("10.0.0.%u", " or ", TERMS), 0); /* takes host from before */
	ck_assert_uint_eq(parts_of("host 10.0.0.%u", " or not ", 2), 0);
	ck_assert_uint_eq(parts_of("host 10.0.0.%u and tcp", " or ", TERMS), 0);
	ck_assert_uint_eq(parts_of("host 10.0.0.%u", " || ", TERMS), 0);
	ck_assert_uint_eq(parts_of("host 10.0.0.%u && tcp", " or ", TERMS), 0);
	ck_assert_uint_eq(parts_of("tcp port %u or vlan", " or ", TERMS), 0);
	ck_assert_uint_eq(parts_of("host 10.0.0.%u)", " or ", TERMS), 0);
	ck_assert_uint_eq(parts_of("(host 10.0.0.%u", " or ", TERMS), 0);
	ck_assert_uint_eq(parts_of("ip[%u] = 1", " or ", TERMS), 0);
	ck_assert_uint_eq(parts_of("host 10.0.0.%u and ip[1] = 1", " or ", TERMS), 0);
	ck_assert_uint_eq(parts_of("(host 10.0.0.%u and ip[1]&&vlan)", " or ", TERMS), 0);
	text = join("host 10.0.0.%u", " or ", TERMS);
	ck_assert_int_gt(asprintf(&more, "%s and tcp", text), 0);
	ck_assert_ptr_null(pri_filter_split(more, &count));
	free(more);
	free(text);
}
END_TEST

static uint32_t
libpcap_says(
	const struct bpf_program *code, const uint8_t *data, uint32_t len, uint32_t cap)
{
	const struct pcap_pkthdr header = {.caplen = cap, .len = len};

	return (uint32_t)pcap_offline_filter(code, &header, data);
}

/* IPv4 and ARP, with addresses that the filter has, nearly has, and has not; cut off anywhere. */
static uint32_t
make_packet(uint8_t packet[64])
{
	memset(packet, 0, 64);
	pr_put_be16(packet + 12, random() % 4 ? 0x0800 : random() % 2 ? 0x0806 : 0x8035);
	packet[14] = 0x45;
	packet[23] = random() % 2 ? 6 : 17;
	for (int i = 0, at = packet[13] ? 28 : 26; i < 2; i++, at += packet[13] ? 10 : 4)
		pr_put_be32(packet + at, 0x0a000000u + (uint32_t)(random() % (3 * TERMS)));
	pr_put_be16(packet + 34, (uint16_t)(random() % (3 * TERMS)));
	pr_put_be16(packet + 36, (uint16_t)(random() % (3 * TERMS)));
	return random() % 4 ? 64 : (uint32_t)random() % 64;
}

/* first, terms, last */
static void
equal_list(const char *first, const char *form, const char *last)
{
	char *terms = join(form, " or ", TERMS), *text = NULL;
	char *parts;
	size_t count;
	struct pr_error err;
	struct pr_bpf *program;
	pcap_t *pcap = pcap_open_dead(DLT_EN10MB, 262144);
	struct bpf_program code;
	uint8_t packet[64];
	unsigned hits = 0;

	ck_assert_int_gt(asprintf(&text, "%s%s%s", first, terms, last), 0);
	parts = pri_filter_split(text, &count);
	ck_assert_ptr_nonnull(parts);
	ck_assert_uint_gt(count, 1);
	program = pri_filter_compile(1, text, &err);
	ck_assert_msg(program != NULL, "%s", err.text);
	ck_assert_int_eq(pcap_compile(pcap, &code, text, 1, 0), 0);
	for (unsigned i = 0; i < 20000; i++) {
		uint32_t cap = make_packet(packet);
		uint32_t said = pr_bpf_run(program,
			&(struct pr_packet){.data = packet, .len = 64, .caplen = cap});

		ck_assert_int_eq(said > 0, libpcap_says(&code, packet, 64, cap) > 0);
		hits += said > 0;
	}
	ck_assert_uint_gt(hits, 1000);
	ck_assert_uint_lt(hits, 19000);
	pcap_freecode(&code);
	pcap_close(pcap);
	pr_bpf_destroy(&program);
	free(parts);
	free(text);
	free(terms);
}

static void
equal(const char *form)
{
	equal_list("", form, "");
}

START_TEST(test_parts_accept_what_the_whole_does)
{
	srandom(4);
	equal("host 10.0.0.%u");
	equal("(dst host 10.0.0.%u and not tcp)");
	equal("src port %u");
	equal_list("host (", "10.0.0.%u", ")");
	equal_list("ip src ", "10.0.0.%u", " or (10.0.0.99) or udp port 5");
	equal_list("arp net ( ", "10.0.0.%u/32", ") or dst host 10.0.0.99 or 10.0.0.100");
	equal_list("tcp dst port ", "%u", "");
}
END_TEST

START_TEST(test_a_part_that_libpcap_refuses)
{
	char *text = join("port 100%u", " or ", TERMS); /* 10070 is a port, so is 10079 */
	struct pr_error err = {""};
	struct pr_bpf *program = pri_filter_compile(1, text, &err);

	ck_assert_msg(program != NULL, "%s", err.text);
	pr_bpf_destroy(&program);
	free(text);
	text = join("host 10.0.0.%u0", " or ", TERMS); /* 10.0.0.260 is no address */
	program = pri_filter_compile(1, text, &err);
	ck_assert_ptr_null(program);
	ck_assert_ptr_nonnull(strstr(err.text, "filter 'host 10.0.0.00 or host"));
	free(text);
}
END_TEST

/* The packet, with so many tags before its Ethertype. */
static bool
tagged_matches(const struct pr_bpf *program, const uint8_t packet[64], unsigned tags)
{
	uint8_t copy[64 + 4 * 3];

	memcpy(copy, packet, 12);
	for (unsigned i = 0; i < tags; i++)
		pr_put_be32(
			copy + 12 + 4 * i, (i + 1 < tags ? 0x88a80000u : 0x81000000u) + 7);
	memcpy(copy + 12 + 4 * tags, packet + 12, 52);
	return pr_bpf_run(program, &(struct pr_packet){.data = copy,
					   .len = 64 + 4 * tags,
					   .caplen = 64 + 4 * tags}) > 0;
}

/* What matches without tags does so behind one or two, and in parts as whole; other link types have none. */
START_TEST(test_behind_tags)
{
	const uint16_t types[] = {1, 101};
	char *terms = join("host 10.0.0.%u", " or ", _i ? TERMS : 3);
	struct pr_bpf *plain = pri_filter_compile(1, terms, NULL);
	struct pr_bpf_set out = {0};
	struct pr_error err = {""};
	uint8_t packet[64];
	unsigned hits = 0;

	ck_assert_msg(pri_filter_compile_all(types, 2, terms, true, &out, &err) == 0, "%s",
		err.text);
	ck_assert_ptr_nonnull(pr_bpf_set_find(&out, 101));
	for (unsigned i = 0; i < 5000; i++) {
		const struct pr_bpf *program = pr_bpf_set_find(&out, 1);

		make_packet(packet);
		bool matches = tagged_matches(plain, packet, 0);
		for (unsigned tags = 0; tags <= 3; tags++)
			ck_assert_int_eq(tagged_matches(program, packet, tags),
				matches && tags <= 2);
		ck_assert(!tagged_matches(plain, packet, 1));
		hits += matches;
	}
	ck_assert_uint_gt(hits, 100);
	ck_assert_uint_lt(hits, 4900);
	pr_bpf_set_free(&out);
	pr_bpf_destroy(&plain);
	free(terms);
}
END_TEST

/* What libpcap does not take, and where: `at` ends the message. */
static const struct {
	const char *text, *at;
} wrong[] = {
	{"tcp port 80 and hsot 192.0.2.1", "unknown port 'hsot', at word 5: hsot"},
	{"prot tcp", "syntax error, at word 1: prot"},
	{"tcp prt 5", "syntax error, at word 2: prt"},
	{"(tcp or udp)) and ip", "syntax error, at word 6: )"},
	{"(tcp or udp", "syntax error, at its end"},
	{"tcp and", "syntax error, at its end"},
	{"after @5 and tcp or before @7 and prt 5", ", at word 7: prt"},
	{"port 70000 or tcp", "65535, at word 2: 70000"},
	{"net 192.0.2.1/24", "\"192.0.2.1/24\", at word 2: 192.0.2.1/24"},
	{"tcp and udp", "expression rejects all packets"},
};

START_TEST(says_where)
{
	const uint16_t ethernet = 1;
	struct pr_bpf_set set = {0};
	struct pr_error err[2] = {{""}, {""}};
	size_t len = strlen(wrong[_i].at);

	ck_assert_int_eq(pri_filter_check(&ethernet, 1, wrong[_i].text, &err[0]), -1);
	ck_assert_int_eq(
		pri_filter_compile_all(&ethernet, 1, wrong[_i].text, false, &set, &err[1]),
		-1);
	for (int i = 0; i < 2; i++)
		ck_assert_msg(strlen(err[i].text) > len &&
				      !strcmp(err[i].text + strlen(err[i].text) - len,
					      wrong[_i].at),
			"%s", err[i].text);
}
END_TEST

START_TEST(test_check)
{
	const uint16_t types[] = {1, 105};
	struct pr_error err = {""};

	ck_assert_int_eq(pri_filter_check(types, 2, "tcp port 80", &err), 0);
	ck_assert_int_eq(pri_filter_check(types, 2, "wlan type mgt", &err), 0);
	ck_assert_int_eq(pri_filter_check(types, 1, "wlan type mgt", &err), -1);
	ck_assert_int_eq(pri_filter_check(types, 2, "tcp prot 80", &err), -1);
	ck_assert_ptr_nonnull(strstr(err.text, "tcp prot 80"));
}
END_TEST

/* libpcap's own recursion over one of 5,000 terms goes deeper than the 8 MB that a thread has. */
START_TEST(test_one_that_is_too_long_for_a_link_type)
{
	const uint16_t types[] = {1, 105};
	char *text = join("host 10.0.%u.1", " or ", 256), *rest;
	struct pr_bpf_set out = {0};
	struct pr_error err = {""};
	size_t len = strlen(text);

	ck_assert_int_eq(pri_filter_compile_all(types, 2, text, false, &out, &err), 0);
	ck_assert_uint_eq(out.count, 2);
	pr_bpf_set_free(&out);
	rest = malloc(20 * (len + 4) + 1);
	*rest = 0;
	for (int i = 0; i < 20; i++)
		strcat(strcat(rest, i ? " or " : ""), text);
	ck_assert_int_eq(pri_filter_compile_all(types, 1, rest, false, &out, &err), 0);
	pr_bpf_set_free(&out);
	ck_assert_int_eq(pri_filter_compile_all(types, 2, rest, false, &out, &err), -1);
	ck_assert_msg(
		strstr(err.text, "for IEEE802_11: filter of ") != NULL, "%s", err.text);
	pr_bpf_set_free(&out);
	free(rest);
	free(text);
}
END_TEST

/* Of 300 KB in one piece; libpcap would be at it for hours. */
START_TEST(test_one_that_is_too_long_as_a_whole)
{
	char *text = join("10.0.0.%u", " or ", 20000);
	struct pr_error err = {""};

	memcpy(text, "net ", 4);
	ck_assert_ptr_null(pri_filter_compile(1, text, &err));
	ck_assert_msg(strstr(err.text, "bytes are too many") != NULL, "%s", err.text);
	free(text);
}
END_TEST

static void
fill(TCase *tc)
{
	tcase_add_test(tc, test_where_it_is_cut);
	tcase_add_test(tc, test_where_it_is_not);
	tcase_add_test(tc, test_what_is_spread);
	tcase_add_test(tc, test_parts_accept_what_the_whole_does);
	tcase_add_loop_test(tc, test_behind_tags, 0, 2);
	tcase_add_test(tc, test_a_part_that_libpcap_refuses);
	tcase_add_loop_test(tc, says_where, 0, PR_COUNT(wrong));
	tcase_add_test(tc, test_check);
	tcase_add_test(tc, test_one_that_is_too_long_for_a_link_type);
	tcase_add_test(tc, test_one_that_is_too_long_as_a_whole);
}

int
main(void)
{
	return unit_run("filter", fill);
}
