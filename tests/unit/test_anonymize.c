/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <string.h>

#include "proto/base/cursor.h"
#include "proto/wire/anonymize.h"
#include "tests/unit/unit.h"

static struct pr_error err;

/* Key and results of the sample that Crypto-PAn 1.0 comes with, and of yacryptopan's README. */
static const uint8_t sample_key[PR_ADDRESS_KEY] = {21, 34, 23, 141, 51, 164, 207, 128, 19,
	10, 91, 22, 73, 144, 125, 16, 216, 152, 143, 131, 121, 121, 101, 39, 98, 87, 76, 45,
	42, 132, 34, 2};
static const uint8_t other_key[PR_ADDRESS_KEY + 1] = "32-char-str-for-AES-key-and-pad.";

START_TEST(test_addresses)
{
	static const struct {
		const uint8_t *key;
		const char *from, *to;
	} golden[] = {{sample_key, "128.11.68.132", "135.242.180.132"},
		{sample_key, "129.118.74.4", "134.136.186.123"},
		{sample_key, "130.132.252.244", "133.68.164.234"},
		{sample_key, "141.223.7.43", "141.167.8.160"},
		{sample_key, "141.233.145.108", "141.129.237.235"},
		{sample_key, "152.163.225.39", "151.140.114.167"},
		{other_key, "192.0.2.1", "192.0.125.244"}};
	char text[INET6_ADDRSTRLEN];
	uint8_t a[16];

	for (int again = 0; again < 2; again++)
		for (size_t i = 0; i < sizeof(golden) / sizeof(*golden); i++) {
			struct pr_address_map *m =
				pr_address_map_create(golden[i].key, &err);

			ck_assert(inet_pton(AF_INET, golden[i].from, a) == 1);
			pr_address_map(m, a, 4);
			ck_assert_str_eq(
				inet_ntop(AF_INET, a, text, sizeof(text)), golden[i].to);
			pr_address_map_destroy(&m);
		}
}
END_TEST

/* Each pair of results has as many first bits in common as the pair has; what is remembered does not matter. */
START_TEST(test_prefix)
{
	struct pr_address_map *m = pr_address_map_create(sample_key, &err), *fresh;
	uint8_t from[200][16], to[200][16], again[16];

	srand(18);
	for (size_t len = 4; len <= 16; len += 12) {
		for (int i = 0; i < 200; i++) {
			for (int j = 0; j < 16; j++)
				from[i][j] = (uint8_t)(j < i % 16 ? 10 : rand());
			memcpy(to[i], from[i], 16);
			pr_address_map(m, to[i], len);
			memcpy(again, from[i], 16);
			pr_address_map(m, again, len);
			ck_assert_mem_eq(again, to[i], len);
		}
		for (int i = 0; i < 200; i++)
			for (int j = 0; j < i; j++)
				for (size_t bit = 0; bit < 8 * len; bit++) {
					uint8_t mask = (uint8_t)(0x80 >> bit % 8);
					bool was = (from[i][bit / 8] ^ from[j][bit / 8]) &
						   mask;

					unit_must(was ==
						  (bool)((to[i][bit / 8] ^ to[j][bit / 8]) &
							  mask));
					if (was)
						break;
				}
		fresh = pr_address_map_create(sample_key, &err);
		memcpy(again, from[7], 16);
		pr_address_map(fresh, again, len);
		ck_assert_mem_eq(again, to[7], len);
		pr_address_map_destroy(&fresh);
	}
	pr_address_map_destroy(&m);
}
END_TEST

START_TEST(test_macs)
{
	struct pr_address_map *m = pr_address_map_create(sample_key, &err);
	uint8_t a[6] = {0, 1, 2, 3, 4, 5}, b[6] = {1, 0, 0x5e, 1, 2, 3}, all[6];

	memset(all, 255, 6);
	pr_address_map_mac(m, a);
	pr_address_map_mac(m, b);
	pr_address_map_mac(m, all);
	ck_assert_uint_eq(a[0] & 3, 2);
	ck_assert_uint_eq(b[0] & 3, 3);
	ck_assert_uint_eq(all[0] & all[5], 255);
	ck_assert(memcmp(a, "\0\1\2\3\4\5", 6) != 0);
	pr_address_map_destroy(&m);
}
END_TEST

static void
run(const char *policy_text, uint16_t linktype, uint8_t *data, struct pr_packet *p)
{
	struct pr_anonymize_policy policy;

	ck_assert_msg(pr_anonymize_policy_parse(&policy, policy_text, "policy", &err) == 0,
		"%s", err.text);
	struct pr_anonymizer *a = pr_anonymizer_create(&policy, sample_key, &err);
	p->linktype = linktype;
	p->time = 1000;
	pr_anonymize(a, p, data);
	pr_anonymizer_destroy(&a);
	pr_anonymize_policy_free(&policy);
}

static uint16_t
ones(const uint8_t *p, size_t len, uint32_t s)
{
	for (size_t i = 0; i < len; i++)
		s += i % 2 ? p[i] : (uint32_t)p[i] << 8;
	while (s >> 16)
		s = (s & 0xffff) + (s >> 16);
	return (uint16_t)s;
}

/* UDP of 5 bytes, with right checksums; wrong: of UDP one too many. */
static struct pr_packet
make_udp(uint8_t data[33], unsigned wrong)
{
	static const uint8_t bytes[33] = {69, 0, 0, 33, 1, 2, 0, 0, 64, 17, 0, 0, 128, 11,
		68, 132, 129, 118, 74, 4, 4, 0, 8, 0, 0, 13, 0, 0, 'h', 'e', 'l', 'l', 'o'};

	memcpy(data, bytes, 33);
	pr_put_be16(data + 10, (uint16_t)~ones(data, 20, 0));
	pr_put_be16(data + 26, (uint16_t)(~ones(data + 12, 21, 17 + 13) + wrong));
	return (struct pr_packet){.caplen = 33, .len = 33};
}

START_TEST(test_checksums)
{
	uint8_t data[33];

	for (unsigned wrong = 0; wrong < 2; wrong++) {
		struct pr_packet p = make_udp(data, wrong);

		run("payload = keep", 101, data, &p);
		ck_assert_uint_eq(p.caplen, 33);
		ck_assert_uint_eq(ones(data, 20, 0), 0xffff);
		ck_assert_int_eq(ones(data + 12, 21, 17 + 13) == 0xffff, !wrong);
		p = make_udp(data, wrong);
		run("payload = zero\nchecksums = zero", 101, data, &p);
		ck_assert_uint_eq(pr_get_be16(data + 10) | pr_get_be16(data + 26), 0);
		ck_assert_mem_eq(data + 28, "\0\0\0\0\0", 5);
		p = make_udp(data, wrong);
		run("payload = cut\nshift = -1s\nports = map", 101, data, &p);
		ck_assert_uint_eq(p.caplen, 28);
		ck_assert_uint_eq(
			pr_get_be16(data + 26), 0); /* it would tell of the payload */
		ck_assert_int_eq(p.time, 1000 - 1000000000);
		ck_assert(pr_get_be16(data + 20) != 1024 || pr_get_be16(data + 22) != 2048);
	}
}
END_TEST

/* What is not understood goes, also behind the end of a packet. */
START_TEST(test_blank)
{
	uint8_t data[60];
	struct pr_packet p = make_udp(data, 0);

	memset(data + 33, 'x', 27);
	p.caplen = p.len = 60;
	run("payload = keep", 101, data, &p);
	for (int i = 33; i < 60; i++)
		ck_assert_uint_eq(data[i], 0);
	p = make_udp(data, 0);
	data[9] = 89; /* OSPF */
	run("payload = keep", 101, data, &p);
	for (int i = 20; i < 33; i++)
		ck_assert_uint_eq(data[i], 0);
	p = make_udp(data, 0);
	run("", 147, data, &p);
	ck_assert_uint_eq(p.caplen, 0);
	p = make_udp(data, 0);
	p.caplen = 19; /* half a header */
	run("payload = zero", 101, data, &p);
	ck_assert(ones(data, 19, 0) == 0);
}
END_TEST

/* DNS over TCP: a segment from the midst of a message has no header; what stands there could be a name. */
START_TEST(test_dns_tcp)
{
	uint8_t data[80] = {69, 0, 0, 80, 1, 2, 0, 0, 64, 6, 0, 0, 128, 11, 68, 132, 129,
		118, 74, 4, 0, 53, 8, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 16};
	struct pr_packet p = {.caplen = 80, .len = 80};

	memset(data + 40, 'n', 40);
	run("payload = keep", 101, data, &p);
	for (int i = 40; i < 80; i++)
		ck_assert_uint_eq(data[i], 0);
	/* a whole one is followed: a question for `name`, whose letters change */
	static const uint8_t question[] = {0, 22, 7, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 4,
		'n', 'a', 'm', 'e', 0, 0, 1, 0, 1};
	p = (struct pr_packet){.caplen = 64, .len = 64};
	data[3] = 64;
	memcpy(data + 40, question, sizeof(question));
	run("payload = keep", 101, data, &p);
	ck_assert_mem_eq(data + 40, question, 15);
	ck_assert_mem_eq(data + 59, question + 19, 5);
	ck_assert(memcmp(data + 55, "name", 4) != 0);
}
END_TEST

START_TEST(test_policies)
{
	struct pr_anonymize_policy policy;

	ck_assert_int_eq(pr_anonymize_policy_parse(&policy,
				 "# for the lab; shift = 9h\npayload = keep\ntunnels = "
				 "blank\nshift = 2h",
				 "p", &err),
		0);
	ck_assert_int_eq(policy.payload, PR_PAYLOAD_KEEP);
	ck_assert_int_eq(policy.tunnels, 1);
	ck_assert_int_eq(policy.shift, INT64_C(7200000000000));
	pr_anonymize_policy_free(&policy);
	for (const char *const *bad = (const char *const[]){"payload = all", "x = 1",
		     "shift = soon", "payload", NULL};
		*bad; bad++) {
		ck_assert_int_eq(pr_anonymize_policy_parse(&policy, *bad, "p", &err), -1);
		ck_assert_int_eq(strncmp(err.text, "p: ", 3), 0);
		pr_anonymize_policy_free(&policy);
	}
}
END_TEST

static void
fill(TCase *tc)
{
	tcase_add_test(tc, test_addresses);
	tcase_add_test(tc, test_prefix);
	tcase_add_test(tc, test_macs);
	tcase_add_test(tc, test_checksums);
	tcase_add_test(tc, test_blank);
	tcase_add_test(tc, test_dns_tcp);
	tcase_add_test(tc, test_policies);
}

int
main(void)
{
	return unit_run("anonymize", fill);
}
