/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "indexer/index/index_key.h"
#include "indexer/filter/filter.h"
#include "indexer/filter/plan.h"
#include "proto/wire/cursor.h"
#include "tests/unit/plan_ask.h"
#include "tests/unit/port_keys.h"
#include "tests/unit/unit.h"

/* Ports with addresses and protocols: a segment that has them all, but in different packets, is denied. */

#define COUNT(array) (sizeof(array) / sizeof(*(array)))
#define PACKETS 4
#define KEYS_MAX (PACKETS * (PRI_KEYS_MAX + PORT_KEYS_MAX))

/* 10.0.0.x talk to 192.0.2.x. */
static const struct one {
	uint8_t protocol, src[4], dst[4];
	uint16_t sport, dport;
} packets[PACKETS] = {
	{6, {10, 0, 0, 1}, {192, 0, 2, 1}, 40000, 443},
	{6, {192, 0, 2, 2}, {10, 0, 0, 2}, 80, 50000},
	{17, {10, 0, 0, 3}, {192, 0, 2, 3}, 40000, 53},
	{17, {10, 0, 0, 4}, {192, 0, 2, 4}, 7000, 9000},
};

/* The segment: what level 1 knows of it, without an error. */
static struct {
	struct pri_key keys[KEYS_MAX];
	size_t count;
} segment;

static void
add_packet(const struct one *p)
{
	uint8_t frame[42] = {[12] = 8, [14] = 0x45, [23] = p->protocol};
	const struct pri_linktype_layout *layout = pri_linktype_layout_find(1);
	struct pri_packet_fields fields;

	memcpy(frame + 26, p->src, 4);
	memcpy(frame + 30, p->dst, 4);
	pr_put_be16(frame + 34, p->sport);
	pr_put_be16(frame + 36, p->dport);
	pri_packet_fields_parse(layout, frame, sizeof(frame), &fields);
	segment.count += pri_keys_of_fields(&fields, segment.keys + segment.count);
	segment.count += port_keys(&fields, segment.keys + segment.count);
}

static bool
has_key(void *arg, const struct pri_key *key)
{
	(void)arg;
	for (size_t i = 0; i < segment.count; i++)
		if (segment.keys[i].kind == key->kind && segment.keys[i].len == key->len &&
			!memcmp(segment.keys[i].bytes, key->bytes, key->len))
			return true;
	return false;
}

static bool
has_range(void *arg, const struct pri_plan_range *r)
{
	(void)arg;
	for (size_t i = 0; i < PACKETS; i++) {
		uint16_t port =
			r->number == PRI_NUMBER_SPORT ? packets[i].sport : packets[i].dport;
		if (port >= r->least && port <= r->most)
			return true;
	}
	return false;
}

static bool
has_side(const struct pri_key *parts, unsigned side)
{
	unsigned left = pri_key_parts_ports(parts, side);
	struct pri_key keys[PRI_PORT_KEYS_MAX];

	for (unsigned i = 0; i < left; i++) {
		size_t count = pri_key_port_keys(parts, side, i, keys), have = 0;

		while (have < count && has_key(NULL, &keys[have]))
			have++;
		if (have == count)
			return true;
	}
	return left == 0;
}

static bool
has_parts(void *arg, const struct pri_key *parts)
{
	(void)arg;
	return has_side(parts, 0) && has_side(parts, 1);
}

static bool
may_match(const char *filter)
{
	const struct pri_plan_index index = {
		.has_key = has_key, .has_range = has_range, .has_parts = has_parts};

	return plan_may(filter, &index);
}

static const struct {
	const char *filter;
	bool may;
} filters[] = {
	/* whose port it is */
	{"host 192.0.2.1 and port 40000", true},
	{"host 192.0.2.2 and port 40000", false},
	{"host 192.0.2.2 and dst port 50000", true},
	{"host 192.0.2.2 and src port 50000", false},
	{"host 10.0.0.4 and port 9000", true},
	{"host 10.0.0.4 and port 50000", false},
	{"src 10.0.0.4 and src port 9000", false},
	{"(host 10.0.0.1 or host 10.0.0.2) and port 9000", false},
	{"(host 10.0.0.1 or host 10.0.0.4) and port 9000", true},
	/* short ranges */
	{"host 192.0.2.1 and portrange 440-445", true},
	{"host 192.0.2.2 and portrange 440-445", false},
	{"portrange 78-81 and host 10.0.0.2", true},
	{"portrange 78-81 and host 10.0.0.1", false},
	{"host 10.0.0.1 and portrange 39998-40001", true},
	{"host 10.0.0.2 and portrange 39998-40001", false},
	{"host 192.0.2.4 and src portrange 6998-7001", true},
	{"host 192.0.2.4 and dst portrange 6998-7001", false},
	{"host 10.0.0.3 and portrange 52-54", true},
	{"src 192.0.2.2 and portrange 79-81 and portrange 49999-50001", true},
	{"src 192.0.2.2 and portrange 79-81 and portrange 7000-7002", false},
	/* too long a one is not told apart */
	{"host 10.0.0.1 and portrange 45000-60000", true},
	/* of which protocol */
	{"tcp port 50000", true},
	{"udp port 50000", false},
	{"port 50000", true},
	{"tcp src port 50000", false},
	{"udp port 443 or tcp port 443", true},
	{"udp port 443 or tcp port 7000", false},
	{"udp and (port 443 or port 80)", false},
	{"udp and (port 443 or port 9000)", true},
	{"udp portrange 49999-50002", false},
	{"tcp portrange 49999-50002", true},
	{"ip proto 17 and ip[20:2] = 40000 and ip[6:2] & 0x1fff = 0", true},
};

START_TEST(ports_come_with_addresses_and_protocols)
{
	for (size_t i = 0; i < PACKETS; i++)
		add_packet(&packets[i]);
	for (size_t i = 0; i < COUNT(filters); i++)
		ck_assert_msg(may_match(filters[i].filter) == filters[i].may, "'%s'",
			filters[i].filter);
}
END_TEST

static void
fill(TCase *tests)
{
	tcase_add_test(tests, ports_come_with_addresses_and_protocols);
}

int
main(void)
{
	return unit_run("plans of ports", fill);
}
