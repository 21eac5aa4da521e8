/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/plan_own.h"

/* For test_plan_random.c and test_filter_time.c: packets made up. */

#define COUNT(array) (sizeof(array) / sizeof(*(array)))
#define PICK(array) ((array)[(size_t)random() % COUNT(array)])

/* From few values, so that filters meet them. */
static const uint32_t hosts[] = {
	0x0a000001, 0x0a000102, 0xc0a80001, 0xc0a80002, 0x0a100001};
static const uint16_t ports[] = {53, 80, 443, 1000, 2000};
static const uint8_t protos[] = {6, 17, 132, 1, 58, 44, 47, 0};
static const uint16_t types[] = {0x0800, 0x0800, 0x0800, 0x86dd, 0x86dd, 0x0806, 0x8035,
	0x8100, 0x88a8, 0x9100, 0x8847, 0x8864, 100, 0};
#define SECOND INT64_C(1000000000)
static const int64_t times[] = {INT64_MIN, -1, 0, 5 * SECOND, 5 * SECOND + 1,
	1763685600 * SECOND, 1763685600 * SECOND + 300, 1763685601 * SECOND,
	1763689999 * SECOND, INT64_MAX};
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

static inline uint16_t
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

static inline void
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
		const struct pri_linktype_layout *l =
			pri_linktype_layout_find(out->linktype);
		type = random() % 2 ? 0x0800 : 0x86dd;
		at = l ? l->net_at : 0;
		if (l && l->form == PRI_TYPE_ETHER)
			put(p, l->type_at, type, 2);
		else if (l && l->form == PRI_TYPE_PPP)
			put(p, l->type_at, type == 0x0800 ? 0x21 : 0x57, 2);
		else if (l && l->form == PRI_TYPE_FAMILY)
			put(p, 0, random() % 2 ? 2 : 2u << 24, 4);
	}
	put_net(p, at, type);
	if (random() % 3 == 0)
		out->caplen = (uint32_t)random() % PACKET_MAX;
	out->len = out->caplen + (random() % 2 ? 0 : (uint32_t)random() % 1500);
	out->time = PICK(times);
}

/* whole: nothing of them is cut off. */
static inline void
make_packets(uint8_t (*bytes)[PACKET_MAX], struct pr_packet *packets, struct own *owns,
	size_t count, bool whole)
{
	for (size_t i = 0; i < count; i++) {
		make_packet(bytes[i], &packets[i]);
		if (whole)
			packets[i].caplen = packets[i].len = PACKET_MAX;
		own_of(&packets[i], &owns[i]);
	}
}
