/* SPDX-License-Identifier: Apache-2.0 */
#include "dispatcher/nodes.h"

#include <stdio.h>
#include <string.h>

#include "proto/base/clock.h"
#include "tests/unit/node_join.h"
#include "tests/unit/unit.h"

static struct prd_nodes nodes;
static struct prd_spread spread;

static struct prd_node *
add(unsigned n, uint64_t rate, uint64_t disk_free, uint64_t buffer)
{
	struct pr_ann ann = {
		.write_rate = rate, .disk_free = disk_free, .buffer_size = buffer};
	const uint8_t mac[PR_MAC_LEN] = {2, 0, 0, 0, 1, (uint8_t)n};
	struct prd_node *node;

	snprintf(ann.name, sizeof ann.name, "n%u", n);
	node = node_join(&nodes, mac, n + 1, &ann, 0);
	ck_assert_ptr_nonnull(node);
	return node;
}

static void
begin(enum prd_spread_mode mode, bool strict)
{
	prd_nodes_init(&nodes, 1, 1, 1508);
	prd_spread_init(&spread, mode, strict, &nodes);
}

/* A UDP packet between two of many hosts; dir swaps the ends. */
static size_t
packet(uint8_t *p, unsigned flow, bool dir)
{
	static const uint8_t head[42] = {
		[12] = 8, [14] = 0x45, [17] = 60, [22] = 64, [23] = 17};
	uint8_t a[6] = {10, 0, (uint8_t)(flow >> 8), (uint8_t)flow, 4, 0},
		b[6] = {10, 9, 9, 9, 0, 53};

	memset(p, 0, 74);
	memcpy(p, head, sizeof head);
	memcpy(p + 26, dir ? a : b, 4);
	memcpy(p + 30, dir ? b : a, 4);
	memcpy(p + 34, dir ? a + 4 : b + 4, 2);
	memcpy(p + 36, dir ? b + 4 : a + 4, 2);
	p[39] = 40;
	return 74;
}

static struct prd_node *
pick(const uint8_t *data, size_t len)
{
	struct prd_node *out[2];

	ck_assert_int_eq(prd_spread_pick(&spread, 1, data, len, out), PRD_SPREAD_OK);
	ck_assert_ptr_null(out[1]);
	return out[0];
}

START_TEST(round_robin)
{
	uint8_t p[74];
	size_t len = packet(p, 1, true);
	struct prd_node *n[3], *out[2];

	begin(PRD_SPREAD_ROUND_ROBIN, false);
	ck_assert_int_eq(prd_spread_pick(&spread, 1, p, len, out), PRD_SPREAD_NONE);
	for (unsigned i = 0; i < 3; i++)
		n[i] = add(i, 0, 0, 1 << 20);
	for (unsigned i = 0; i < 9; i++)
		ck_assert_ptr_eq(pick(p, len), n[i % 3]);
	prd_node_leave(&nodes, n[1], PRD_NODE_GONE);
	ck_assert_ptr_eq(pick(p, len), n[0]);
	ck_assert_ptr_eq(pick(p, len), n[2]);
	ck_assert_ptr_eq(pick(p, len), n[0]);
	/* the one that comes back has waited longest, but not so that it gets all */
	nodes.list[1]->phase = PRD_NODE_ACTIVE;
	nodes.change_count++;
	ck_assert_ptr_eq(pick(p, len), n[2]);
	ck_assert_ptr_eq(pick(p, len), n[0]);
	ck_assert_ptr_eq(pick(p, len), n[1]);
	prd_nodes_free(&nodes);
}
END_TEST

START_TEST(copies)
{
	uint8_t p[74];
	size_t len = packet(p, 1, true);
	struct prd_node *out[2];
	unsigned count[4] = {0};

	begin((enum prd_spread_mode)_i, false);
	add(0, 0, 0, 1 << 20);
	ck_assert_int_eq(prd_spread_pick(&spread, 2, p, len, out), PRD_SPREAD_OK);
	ck_assert_ptr_nonnull(out[0]);
	ck_assert_ptr_null(out[1]);
	for (unsigned i = 1; i < 4; i++)
		add(i, 0, 0, 1 << 20);
	for (unsigned i = 0; i < 4000; i++) {
		len = packet(p, i, i % 2);
		ck_assert_int_eq(prd_spread_pick(&spread, 2, p, len, out), PRD_SPREAD_OK);
		ck_assert_ptr_nonnull(out[1]);
		ck_assert_ptr_ne(out[0], out[1]);
		count[out[0]->number]++;
		count[out[1]->number]++;
	}
	for (unsigned i = 0; i < 4; i++)
		ck_assert_uint_gt(count[i], 1500);
	prd_nodes_free(&nodes);
}
END_TEST

START_TEST(weighted)
{
	uint8_t p[74];
	size_t len = packet(p, 1, true);
	unsigned count[3] = {0}, in_a_row = 0, most = 0;
	const struct prd_node *last = NULL;

	begin(PRD_SPREAD_WEIGHTED, false);
	add(0, 100, 1000, 1 << 20);
	add(1, 50, 1000, 1 << 20);
	add(2, 100, 0, 1 << 20); /* full: it recycles, and counts for a tenth */
	for (unsigned i = 0; i < 16000; i++) {
		struct prd_node *n = pick(p, len);

		count[n->number]++;
		in_a_row = n == last ? in_a_row + 1 : 1;
		most = in_a_row > most ? in_a_row : most;
		last = n;
	}
	ck_assert_uint_ge(count[0], 9900);
	ck_assert_uint_le(count[0], 10100);
	ck_assert_uint_ge(count[1], 4900);
	ck_assert_uint_le(count[1], 5100);
	ck_assert_uint_gt(count[2], 900);
	ck_assert_uint_le(most, 3);
	prd_nodes_free(&nodes);
}
END_TEST

START_TEST(flow)
{
	enum { FLOWS = 4000 };
	static unsigned before[FLOWS];
	unsigned count[5] = {0}, moved = 0;
	uint8_t p[74];

	begin(PRD_SPREAD_FLOW, false);
	for (unsigned i = 0; i < 5; i++)
		add(i, 0, 0, 1 << 20);
	for (unsigned f = 0; f < FLOWS; f++) {
		before[f] = pick(p, packet(p, f, true))->number;
		ck_assert_uint_eq(pick(p, packet(p, f, false))->number, before[f]);
		count[before[f]]++;
	}
	for (unsigned i = 0; i < 5; i++)
		ck_assert_uint_gt(count[i], FLOWS / 10);
	prd_node_leave(&nodes, nodes.list[2], PRD_NODE_GONE);
	for (unsigned f = 0; f < FLOWS; f++) {
		unsigned after = pick(p, packet(p, f, true))->number;

		ck_assert_uint_ne(after, 2);
		moved += after != before[f];
		if (before[f] != 2)
			ck_assert_uint_eq(after, before[f]);
	}
	ck_assert_uint_eq(moved, count[2]);
	prd_nodes_free(&nodes);
}
END_TEST

/* Strict: full nodes are passed over, then waited for; otherwise they get it all the same. */
START_TEST(full)
{
	enum prd_spread_mode mode = (enum prd_spread_mode)(_i % 3);
	bool strict = _i < 3;
	struct prd_node *out[2];
	uint8_t p[74];
	unsigned sent = 0;

	begin(mode, strict);
	add(0, 0, 0, 1000);
	add(1, 0, 0, 100000);
	for (; sent < 2000; sent++) {
		size_t len = packet(p, sent, true);

		if (prd_spread_pick(&spread, 1, p, len, out) == PRD_SPREAD_FULL)
			break;
		prd_node_sent(out[0], len);
	}
	ck_assert_int_eq(strict, sent < 2000);
	if (strict)
		for (unsigned i = 0; i < 2; i++)
			ck_assert_uint_le(nodes.list[i]->window.sent_cost,
				nodes.list[i]->window.size);
	if (strict && mode != PRD_SPREAD_FLOW)
		ck_assert_uint_ge(sent, 99000 / (74 + PRD_FRAME_COST));
	prd_nodes_free(&nodes);
}
END_TEST

static void
fill(TCase *tc)
{
	tcase_add_test(tc, round_robin);
	tcase_add_loop_test(tc, copies, 0, 3);
	tcase_add_test(tc, weighted);
	tcase_add_test(tc, flow);
	tcase_add_loop_test(tc, full, 0, 6);
}

int
main(void)
{
	return unit_run("dispatcher spread", fill);
}
