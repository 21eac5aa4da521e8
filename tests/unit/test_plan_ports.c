/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "indexer/index/index_key.h"
#include "indexer/filter/filter.h"
#include "indexer/filter/plan.h"
#include "proto/base/cursor.h"
#include "tests/unit/plan_ask.h"
#include "tests/unit/unit.h"

/* Well-known ports with addresses: a segment that has both, but in different packets, is denied. */

#define COUNT(array) (sizeof(array) / sizeof(*(array)))
#define PACKETS 4
#define KEYS_MAX (PACKETS * PRI_KEYS_MAX)

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
may_match(const char *filter)
{
	const struct pri_plan_index index = {.has_key = has_key, .has_range = has_range};

	return plan_may(filter, &index);
}

static const struct {
	const char *filter;
	bool may;
} filters[] = {
	{"host 192.0.2.1 and port 443", true},
	{"host 192.0.2.2 and port 443", false},
	{"host 10.0.0.1 and port 443", true},
	{"host 10.0.0.2 and port 443", false},
	{"host 10.0.0.2 and tcp port 80", true},
	{"host 10.0.0.1 and tcp port 80", false},
	{"src 192.0.2.2 and src port 80", true},
	{"src 10.0.0.1 and dst port 80", false},
	{"(host 10.0.0.1 and port 80) or (host 10.0.0.2 and port 443)", false},
	{"(host 10.0.0.1 and port 80) or (host 10.0.0.2 and port 80)", true},
	{"port 443 or port 80 and host 10.0.0.1", true},
	{"(host 10.0.0.1 or host 10.0.0.4) and port 80", false},
	{"(host 10.0.0.2 or host 10.0.0.4) and port 80", true},
	/* DNS and other ports are not told apart */
	{"host 10.0.0.1 and port 53", true},
	{"host 192.0.2.2 and port 40000", true},
	{"host 192.0.2.2 and port 40001", false},
};

START_TEST(well_known_ports_come_with_addresses)
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
	tcase_add_test(tests, well_known_ports_come_with_addresses);
}

int
main(void)
{
	return unit_run("plans of ports", fill);
}
