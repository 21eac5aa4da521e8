/* SPDX-License-Identifier: Apache-2.0 */
/* Records as they are printed: networks of ours, and what is missing while a flow lasted. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "merger/cli/flows/flow_record.h"
#include "tests/unit/unit.h"

static struct pr_error err;

/* ---- networks ---- */

static const struct network_case {
	const char *text;
	bool good;
	const char *in, *out; /* addresses within and outside of it */
} networks[] = {
	{"10.0.0.0/8", true, "10.255.1.2", "11.0.0.1"},
	{"192.168.3.128/25", true, "192.168.3.129", "192.168.3.127"},
	{"192.0.2.7", true, "192.0.2.7", "192.0.2.6"},
	{"0.0.0.0/0", true, "8.8.8.8", "2001:db8::1"},
	{"2001:db8::/33", true, "2001:db8:7fff::1", "2001:db8:8000::1"},
	{"10.0.0.0/33", false, NULL, NULL},
	{"10.0.0/8", false, NULL, NULL},
	{"10.0.0.0/", false, NULL, NULL},
	{"10.0.0.0/8x", false, NULL, NULL},
	{"2001:db8::/129", false, NULL, NULL},
	{"", false, NULL, NULL},
};

static void
flow_of(struct pri_flow *f, const char *src, const char *dst)
{
	struct pri_flow_key key = {.protocol = 6, .address_len = strchr(src, ':') ? 16 : 4};

	inet_pton(key.address_len == 4 ? AF_INET : AF_INET6, src, key.address[0]);
	inet_pton(key.address_len == 4 ? AF_INET : AF_INET6, dst, key.address[1]);
	pri_flow_begin(f, &key);
	f->side[0].packets = 1;
	f->side[0].first = f->side[0].last = PR_NS_PER_S;
}

static const char *
outgoing(const struct flow_context *c, const char *src, const char *dst)
{
	struct pri_flow f;
	struct flow_record r;

	flow_of(&f, src, dst);
	flow_record_make(&r, &f, c);
	return r.outgoing;
}

START_TEST(networks_of_ours)
{
	const struct network_case *n = &networks[_i];
	char *text = (char *)(uintptr_t)n->text;
	const struct pr_string_list texts = {.items = &text, .count = 1};
	struct flow_context c = {.seed = 0};
	const char *far = n->in && strchr(n->in, ':') ? "ff02::1" : "224.0.0.1";

	ck_assert_msg((networks_parse(&c.inside, "--inside", &texts, &err) == 0) == n->good,
		"%s", n->text);
	if (n->good) {
		if (strcmp(n->text, "0.0.0.0/0") != 0)
			ck_assert_str_eq(outgoing(&c, n->in, far), "true");
		ck_assert_str_eq(outgoing(&c, n->in, n->in), "false"); /* both are ours */
		ck_assert_str_eq(outgoing(&c, n->out, n->out), "false");
		ck_assert_str_eq(outgoing(&c, far, n->in), "false");
	}
	networks_free(&c.inside);
}
END_TEST

/* ---- what is missing ---- */

static uint64_t rng;

static uint32_t
below(uint32_t n)
{
	rng = rng * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(rng >> 33) % n;
}

#define LOSSES 40

/* A list, and each range of times against a walk over all of it. */
static void
one_case(uint64_t seed)
{
	Packrack__Completeness c = PACKRACK__COMPLETENESS__INIT;
	Packrack__Loss losses[LOSSES], *all[LOSSES];
	struct flow_losses l;
	uint64_t listed = 0;

	memset(losses, 0, sizeof(losses));
	rng = seed;
	c.missing = all;
	c.n_missing = below(LOSSES);
	c.pending_packets = below(3);
	for (size_t i = 0; i < c.n_missing; i++) {
		losses[i] = (Packrack__Loss)PACKRACK__LOSS__INIT;
		losses[i].link = below(3);
		losses[i].count = 1 + below(9);
		losses[i].first_time = below(8) ? below(100) : INT64_MIN;
		losses[i].last_time =
			below(8) ? losses[i].first_time + (int64_t)below(30) : INT64_MAX;
		listed += losses[i].count;
		all[i] = &losses[i];
	}
	c.missing_packets = listed;
	ck_assert_int_eq(flow_losses_take(&l, &c, &err), 0);
	for (int k = 0; k < 200; k++) {
		uint16_t link = (uint16_t)below(4);
		int64_t first = below(120), last = first + (int64_t)below(40);
		uint64_t want = c.pending_packets;

		for (size_t i = 0; i < c.n_missing; i++)
			if (losses[i].link == link && losses[i].first_time <= last &&
				losses[i].last_time >= first)
				want += losses[i].count;
		unit_must(flow_losses_between(&l, link, first, last) == want);
	}
	flow_losses_free(&l);
}

START_TEST(missing_while_it_lasted)
{
	for (uint64_t seed = 1; seed <= 500; seed++)
		one_case(seed);
}
END_TEST

START_TEST(nothing_is_missing)
{
	const struct flow_losses none = {.count = 0};

	ck_assert_uint_eq(flow_losses_between(&none, 0, INT64_MIN, INT64_MAX), 0);
}
END_TEST

START_TEST(seconds_are_exact)
{
	char buf[32];

	ck_assert_str_eq(flow_seconds(1500000000, buf), "1.500000000");
	ck_assert_str_eq(flow_seconds(-1, buf), "-0.000000001");
	ck_assert_str_eq(flow_seconds(INT64_MIN, buf), "-9223372036.854775808");
}
END_TEST

/* With many zeros, which decide where "::" stands. */
START_TEST(addresses_as_inet_ntop)
{
	uint64_t state = 7;

	for (unsigned k = 0; k < 300000; k++) {
		char got[INET6_ADDRSTRLEN], want[INET6_ADDRSTRLEN];
		unsigned len = k % 4 ? 16 : 4;
		uint8_t bytes[16];

		for (unsigned i = 0; i < 16; i++) {
			state = state * 6364136223846793005u + 1442695040888963407u;
			bytes[i] = state >> 62 ? 0 : (uint8_t)(state >> 40);
			if (k & 8 && i & 1) /* whole words are zero, or all ones */
				bytes[i] = bytes[i - 1] = state >> 61 & 1 ? 0 : bytes[i];
		}
		inet_ntop(len == 4 ? AF_INET : AF_INET6, bytes, want, sizeof(want));
		memset(got, 'x', sizeof(got));
		ck_assert_uint_eq(flow_address_text(bytes, len, got), strlen(want));
		ck_assert_str_eq(got, want);
		for (size_t i = strlen(want); len == 4 && i < INET_ADDRSTRLEN; i++)
			ck_assert_int_eq(got[i], 0);
	}
}
END_TEST

static void
fill(TCase *tests)
{
	tcase_add_test(tests, addresses_as_inet_ntop);
	tcase_add_loop_test(
		tests, networks_of_ours, 0, sizeof(networks) / sizeof(networks[0]));
	tcase_add_test(tests, missing_while_it_lasted);
	tcase_add_test(tests, nothing_is_missing);
	tcase_add_test(tests, seconds_are_exact);
}

int
main(void)
{
	return unit_run("flow record", fill);
}
