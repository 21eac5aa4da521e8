/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "proto/base/array.h"
#include "proto/base/cursor.h"
#include "proto/wire/beyond.h"
#include "tests/unit/unit.h"

/* ---- the frame of a sum ---- */

static const uint8_t golden[] = {
	0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x81, 0, 0, 7, 0x08, 0, /* Ethernet, VLAN 7 */
	0x45, 0, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 10, 1, 0, 1, 10, 2, 0, 2, /* TCP, IPv4 */
	0x03, 0xe8, 0, 80, /* ports 1000 to 80 */
	0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
	0, 0, 0, 0, 0, 0, 0, 0, 0, 0, /* to byte 80 */
	'C', 'U', 'T', 'B', 1, /* magic, version */
	4, 'b', 'u', 'l', 'k', /* class */
	5, 0, 0, 0, 0, 0, 0, 0x80, /* connection */
	3, 0, 0, 0, 0, 0, 0, 0, /* packets */
	0x94, 0x11, 0, 0, 0, 0, 0, 0, /* bytes: 4500 */
	0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, /* first: -1 */
	0, 0, 0, 0, 0, 0, 0, 1, /* last: 2^56 */
};

START_TEST(golden_frame)
{
	struct pr_beyond b = {.connection = {.address = {{10, 1, 0, 1}, {10, 2, 0, 2}},
				      .port = {1000, 80},
				      .vlan = 7,
				      .protocol = 6,
				      .address_len = 4},
		.number = UINT64_C(0x8000000000000005),
		.packets = 3,
		.bytes = 4500,
		.first = -1,
		.last = INT64_C(1) << 56,
		.name = "bulk"};
	uint8_t frame[PR_BEYOND_MAX], copy[sizeof golden];
	struct pr_beyond out = {.connection = b.connection};
	struct pr_packet p = {.data = golden, .caplen = sizeof golden};

	ck_assert_uint_eq(pr_beyond_store(&b, frame), sizeof golden);
	ck_assert_mem_eq(frame, golden, sizeof golden);
	ck_assert(pr_beyond_load(&p, &out));
	ck_assert_mem_eq(&out, &b, sizeof b);
	/* whatever is cut off it, or added, makes it none */
	p.data = copy;
	memcpy(copy, golden, sizeof golden);
	for (p.caplen = 0; p.caplen < sizeof golden; p.caplen++)
		ck_assert(!pr_beyond_load(&p, &out));
	p.data = frame;
	p.caplen = sizeof golden + 1;
	ck_assert(!pr_beyond_load(&p, &out));
	/* magic, version, a length that does not fit, a byte of the name that is none, last before first */
	static const struct {
		size_t at;
		uint8_t value;
	} faults[] = {{80, 'D'}, {84, 0}, {84, 3}, {85, 5}, {85, 3}, {86, 7},
		{sizeof golden - 1, 0xf0}};
	for (size_t i = 0; i < PR_COUNT(faults); i++) {
		memcpy(copy, golden, sizeof golden);
		copy[faults[i].at] = faults[i].value;
		p = (struct pr_packet){.data = copy, .caplen = sizeof copy};
		ck_assert(!pr_beyond_load(&p, &out));
	}
	/* version 2: behind more than one tag */
	memcpy(copy, golden, sizeof golden);
	copy[84] = 2;
	p = (struct pr_packet){.data = copy, .caplen = sizeof copy};
	ck_assert(pr_beyond_load(&p, &out) && out.encapsulated);
	p.data = golden;
	ck_assert(pr_beyond_load(&p, &out) && !out.encapsulated);
}
END_TEST

/* The longest there is: IPv6, a tag, a name of 64 bytes. And the shortest. */
START_TEST(sizes)
{
	struct pr_beyond b = {.connection = {.vlan = 0, .protocol = 6, .address_len = 16},
				 .last = 1},
			 out;
	uint8_t frame[PR_BEYOND_MAX];
	struct pr_packet p = {.data = frame};

	memset(b.name, 'n', PR_NAME_MAX);
	ck_assert_uint_eq(pr_beyond_store(&b, frame), PR_BEYOND_MAX);
	p.caplen = PR_BEYOND_MAX;
	ck_assert(pr_beyond_load(&p, &out));
	ck_assert_str_eq(out.name, b.name);
	memset(&b, 0, sizeof b);
	b.connection.vlan = PR_UNTAGGED;
	b.connection.address_len = 4;
	ck_assert_uint_eq(pr_beyond_store(&b, frame), PR_BEYOND_AT + 6 + 40);
	p.caplen = PR_BEYOND_AT + 6 + 40;
	ck_assert(pr_beyond_load(&p, &out));
	ck_assert_str_eq(out.name, "");
}
END_TEST

/* Where the transport header begins, and what stands before it. */
START_TEST(headers)
{
	struct pr_connection c = {.port = {0x1234, 53}, .vlan = 0xfff, .protocol = 17};
	static const struct {
		uint8_t address_len;
		uint16_t vlan;
		size_t ip, at;
	} cases[] = {{4, PR_UNTAGGED, 14, 34}, {4, 0, 18, 38}, {16, PR_UNTAGGED, 14, 54},
		{16, 0xfff, 18, 58}};

	memset(c.address[0], 0xaa, 16);
	memset(c.address[1], 0xbb, 16);
	for (size_t i = 0; i < PR_COUNT(cases); i++) {
		uint8_t frame[PR_HEADERS_MAX] = {0};
		bool six = cases[i].address_len == 16;
		const uint8_t *ip = frame + cases[i].ip, *addresses = ip + (six ? 8 : 12);

		c.address_len = cases[i].address_len;
		c.vlan = cases[i].vlan;
		ck_assert_uint_eq(pr_headers_put(&c, frame), cases[i].at);
		ck_assert_uint_eq(pr_get_be16(ip - 2), six ? 0x86dd : 0x0800);
		ck_assert_uint_eq(*ip, six ? 0x60 : 0x45);
		ck_assert_uint_eq(ip[six ? 6 : 9], 17);
		ck_assert_mem_eq(addresses, c.address[0], c.address_len);
		ck_assert_mem_eq(addresses + c.address_len, c.address[1], c.address_len);
		ck_assert_mem_eq(frame + cases[i].at, "\x12\x34\0\x35", 4);
		if (c.vlan != PR_UNTAGGED) {
			ck_assert_uint_eq(pr_get_be16(frame + 12), 0x8100);
			ck_assert_uint_eq(pr_get_be16(frame + 14), c.vlan);
		}
	}
}
END_TEST

START_TEST(last_of_second)
{
	static const struct {
		int64_t of, is;
	} cases[] = {
		{0, 999999999},
		{999999999, 999999999},
		{1000000000, 1999999999},
		{-1, -1},
		{-2, -1},
		{-1000000000, -1},
		{-1000000001, -1000000001},
		{INT64_C(1700000000123456789), INT64_C(1700000000999999999)},
		/* the seconds at both ends of time are cut off */
		{INT64_MAX, INT64_MAX},
		{INT64_MAX - 854775807, INT64_MAX},
		{INT64_MAX - 854775808, INT64_MAX - 854775808},
		{INT64_MIN, INT64_MIN + 854775807},
		{INT64_MIN + 854775807, INT64_MIN + 854775807},
		{INT64_MIN + 854775808, INT64_MIN + 854775808 + 999999999},
	};

	for (size_t i = 0; i < PR_COUNT(cases); i++)
		ck_assert_int_eq(pr_beyond_last(cases[i].of), cases[i].is);
}
END_TEST

static void
fill(TCase *t)
{
	tcase_add_test(t, golden_frame);
	tcase_add_test(t, sizes);
	tcase_add_test(t, headers);
	tcase_add_test(t, last_of_second);
}

int
main(void)
{
	return unit_run("wire_beyond", fill);
}
