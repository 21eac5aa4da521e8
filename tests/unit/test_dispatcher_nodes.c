/* SPDX-License-Identifier: Apache-2.0 */
#include "dispatcher/nodes.h"

#include <stdio.h>
#include <string.h>

#include "proto/base/clock.h"
#include "tests/unit/unit.h"

enum { EPOCH = 77, OWN = 4242, MTU = 1508 };
static struct prd_nodes nodes;
static int64_t now;
static uint64_t number;

static void
set_up(void)
{
	prd_nodes_init(&nodes, EPOCH, OWN, MTU);
	now = 100 * PR_NS_PER_S;
	number = 0;
}

static void
tear_down(void)
{
	prd_nodes_free(&nodes);
}

static void
mac_of(unsigned n, uint8_t mac[PR_MAC_LEN])
{
	const uint8_t m[PR_MAC_LEN] = {2, 0, 0, 0, (uint8_t)(n >> 8), (uint8_t)n};

	memcpy(mac, m, PR_MAC_LEN);
}

static enum prd_ann_result
announce(unsigned n, uint32_t nonce, struct prd_node **node)
{
	struct pr_frame_header h = {
		.type = PR_FRAME_ANN, .sender_nonce = nonce, .number = number};
	struct pr_ann ann = {.buffer_size = 100000, .mtu = 9000};
	uint8_t mac[PR_MAC_LEN];

	number++;
	h.number = number;
	snprintf(ann.name, sizeof ann.name, "n%u", n);
	mac_of(n, mac);
	return prd_nodes_ann(&nodes, mac, &h, &ann, now, node);
}

static struct prd_node *hear(
	unsigned n, enum pr_frame_type type, uint32_t nonce, enum prd_ann_result *how);

/* Announces itself and confirms it, as a node that is there does. */
static enum prd_ann_result
join(unsigned n, uint32_t nonce, struct prd_node **node)
{
	enum prd_ann_result how;

	ck_assert_int_eq(announce(n, nonce, node), PRD_ANN_PENDING);
	*node = hear(n, PR_FRAME_STATUS, nonce, &how);
	return how;
}

static struct prd_node *
hear(unsigned n, enum pr_frame_type type, uint32_t nonce, enum prd_ann_result *how)
{
	struct pr_frame f = {.header = {.type = (uint8_t)type,
				     .sender_nonce = nonce,
				     .receiver_nonce = OWN,
				     .epoch = EPOCH,
				     .number = number}};

	number++;
	f.header.number = number;
	mac_of(n, f.src);
	return prd_nodes_accept_frame(&nodes, &f, now, how);
}

START_TEST(join_and_silence)
{
	struct prd_node *a, *b;
	enum prd_ann_result how;

	ck_assert_int_eq(join(1, 11, &a), PRD_ANN_NEW);
	ck_assert_int_eq(join(2, 22, &b), PRD_ANN_NEW);
	ck_assert_uint_eq(a->number, 0);
	ck_assert_uint_eq(b->number, 1);
	ck_assert_uint_eq(a->mtu, MTU);
	ck_assert_int_eq(announce(1, 11, &a), PRD_ANN_KNOWN);
	ck_assert_uint_eq(prd_nodes_active(&nodes), 2);
	now += PRD_NODE_SILENCE - 1;
	ck_assert_ptr_null(prd_nodes_next_silent(&nodes, now, PRD_NODE_SILENCE));
	ck_assert_ptr_eq(hear(2, PR_FRAME_STATUS, 22, &how), b);
	now += 1;
	ck_assert_ptr_eq(prd_nodes_next_silent(&nodes, now, PRD_NODE_SILENCE), a);
	ck_assert_ptr_null(prd_nodes_next_silent(&nodes, now, PRD_NODE_SILENCE));
	ck_assert(!prd_node_usable(a));
	/* only late, not restarted: it goes on where it was */
	a->next_ordinal = 5;
	ck_assert_ptr_eq(hear(1, PR_FRAME_STATUS, 11, &how), a);
	ck_assert_int_eq(how, PRD_ANN_BACK);
	ck_assert_uint_eq(a->next_ordinal, 5);
	prd_node_leave(&nodes, a, PRD_NODE_QUIT);
	ck_assert_ptr_nonnull(hear(1, PR_FRAME_STATUS, 11, &how));
	ck_assert(!prd_node_usable(a)); /* a late STATUS does not undo QUIT */
	ck_assert_int_eq(announce(1, 11, &a), PRD_ANN_BACK);
	ck_assert(prd_node_usable(a));
}
END_TEST

START_TEST(restart)
{
	struct prd_node *a, *again;
	enum prd_ann_result how;

	join(1, 11, &a);
	a->next_ordinal = 9;
	/* while it lives, a new nonce must prove itself: the frame may be an old one */
	ck_assert_int_eq(announce(1, 12, &again), PRD_ANN_PENDING);
	ck_assert_uint_eq(a->nonce, 11);
	ck_assert_ptr_eq(hear(1, PR_FRAME_STATUS, 11, &how), a);
	ck_assert_int_eq(how, PRD_ANN_KNOWN);
	ck_assert_ptr_eq(hear(1, PR_FRAME_STATUS, 12, &how), a);
	ck_assert_int_eq(how, PRD_ANN_RESTART);
	ck_assert_uint_eq(a->nonce, 12);
	ck_assert_uint_eq(a->next_ordinal, 0);
	ck_assert_ptr_null(hear(1, PR_FRAME_STATUS, 11, &how));
	ck_assert_int_eq(announce(1, 11, &again), PRD_ANN_REFUSED); /* given up for good */
	prd_node_leave(&nodes, a, PRD_NODE_GONE);
	ck_assert_int_eq(join(1, 13, &again), PRD_ANN_RESTART);
	ck_assert_uint_eq(a->nonce, 13);
}
END_TEST

/* A frame that was recorded in an earlier run has its nonce and numbers, and a good tag. */
START_TEST(recorded)
{
	struct prd_node *a;
	enum prd_ann_result how;
	uint64_t first = number;

	ck_assert_int_eq(announce(1, 7, &a), PRD_ANN_PENDING);
	ck_assert_ptr_null(a);
	ck_assert_uint_eq(nodes.count, 0); /* nobody to send packets to */
	number = first;
	ck_assert_int_eq(announce(1, 7, &a), PRD_ANN_REFUSED);
	ck_assert_uint_eq(nodes.refused_replay, 1);
	ck_assert_int_eq(join(1, 11, &a), PRD_ANN_NEW); /* the true one */
	for (unsigned i = 0; i < 2 * PRD_NODES_MAX; i++)
		announce(1, 1000 + i, &a);
	ck_assert_uint_eq(a->nonce, 11);
	ck_assert_ptr_eq(hear(1, PR_FRAME_STATUS, 11, &how), a);
	ck_assert_ptr_null(hear(1, PR_FRAME_STATUS, 7, &how)); /* pushed out */
	ck_assert_ptr_null(hear(1, PR_FRAME_QUIT, 1000 + 2 * PRD_NODES_MAX - 1, &how));
	prd_node_leave(&nodes, a, PRD_NODE_GONE);
	now += PRD_NODE_SILENCE;
	prd_nodes_expire_announced(&nodes, now);
	ck_assert_uint_eq(nodes.refused_unconfirmed, 2 * PRD_NODES_MAX + 1);
	ck_assert_ptr_null(hear(1, PR_FRAME_STATUS, 1000 + 2 * PRD_NODES_MAX - 1, &how));
	ck_assert_uint_eq(prd_nodes_active(&nodes), 0);
}
END_TEST

START_TEST(refusals)
{
	struct prd_node *a;
	enum prd_ann_result how;
	struct pr_frame f = {.header = {.type = PR_FRAME_STATUS,
				     .sender_nonce = 11,
				     .receiver_nonce = OWN,
				     .epoch = EPOCH,
				     .number = 5000}};
	struct pr_frame bad;

	join(1, 11, &a);
	mac_of(1, f.src);
	ck_assert_ptr_eq(prd_nodes_accept_frame(&nodes, &f, now, &how), a);
	ck_assert_ptr_null(prd_nodes_accept_frame(&nodes, &f, now, &how)); /* replayed */
	ck_assert_uint_eq(nodes.refused_replay, 1);
	bad = f;
	bad.header.number++;
	bad.header.epoch++;
	ck_assert_ptr_null(prd_nodes_accept_frame(&nodes, &bad, now, &how));
	bad.header.epoch--;
	bad.header.receiver_nonce = 1;
	ck_assert_ptr_null(prd_nodes_accept_frame(&nodes, &bad, now, &how));
	bad.header.receiver_nonce = OWN;
	bad.header.sender_nonce = 99;
	ck_assert_ptr_null(prd_nodes_accept_frame(&nodes, &bad, now, &how));
	bad.header.sender_nonce = 11;
	bad.src[5] ^= 1;
	ck_assert_ptr_null(prd_nodes_accept_frame(&nodes, &bad, now, &how));
	ck_assert_uint_eq(nodes.refused_stale, 4);
	bad.src[5] ^= 1;
	ck_assert_ptr_eq(prd_nodes_accept_frame(&nodes, &bad, now, &how), a);
	prd_node_leave(&nodes, a, PRD_NODE_DISCONNECTED);
	ck_assert_int_eq(announce(1, 11, &a), PRD_ANN_REFUSED);
	ck_assert_int_eq(join(0, 11, &a), PRD_ANN_NEW); /* 02:00:.. is a good MAC */
}
END_TEST

START_TEST(full_table)
{
	struct prd_node *node;
	enum prd_ann_result how;
	struct pr_frame_header h = {.sender_nonce = 1, .number = 1};
	struct pr_ann ann = {.name = "x"};
	const uint8_t group[PR_MAC_LEN] = {3, 0, 0, 0, 0, 1}, none[PR_MAC_LEN] = {0};

	for (unsigned i = 0; i < PRD_NODES_MAX; i++)
		ck_assert_int_eq(join(i + 1, i + 1, &node), PRD_ANN_NEW);
	announce(999, 999, &node);
	ck_assert_ptr_null(hear(999, PR_FRAME_STATUS, 999, &how));
	ck_assert_uint_eq(nodes.refused_full, 1);
	ck_assert_int_eq(
		prd_nodes_ann(&nodes, group, &h, &ann, now, &node), PRD_ANN_REFUSED);
	ck_assert_int_eq(
		prd_nodes_ann(&nodes, none, &h, &ann, now, &node), PRD_ANN_REFUSED);
	ck_assert_ptr_eq(prd_nodes_by_name(&nodes, "n3"), nodes.list[2]);
	ck_assert_ptr_null(prd_nodes_by_name(&nodes, "n9999"));
}
END_TEST

/* Against a model that remembers every frame: never more allowed than the model allows. */
START_TEST(window)
{
	enum { FRAMES = 20000 };
	static size_t cost[FRAMES];
	struct pr_status s = {0};
	struct prd_node *a;
	uint64_t sent = 0, settled = 0, held = 0, waits = 0;

	srandom((unsigned)_i);
	join(1, 11, &a);
	while (sent < FRAMES) {
		size_t len = 60 + (size_t)random() % 1455;

		if (prd_node_has_room(a, len)) {
			cost[sent] = len + PRD_FRAME_COST;
			held += cost[sent];
			ck_assert_uint_le(held, a->window.size);
			ck_assert_uint_eq(prd_node_sent(a, len), sent);
			sent++;
			continue;
		}
		/* not stingy either: a quarter of the buffer may be held back unseen */
		waits++;
		ck_assert_uint_gt(held, a->window.size / 4);
		settled += 1 + (uint64_t)random() % (sent - settled);
		for (held = 0, s.ordinal_settled = settled; s.ordinal_settled < sent;)
			held += cost[s.ordinal_settled++];
		s.ordinal_settled = settled;
		prd_node_status(&nodes, a, &s);
		if (held == 0)
			ck_assert(prd_node_has_room(
				a, 100000000)); /* one frame always goes */
		else if (!prd_node_has_room(a, 60))
			settled = s.ordinal_settled = sent, prd_node_status(&nodes, a, &s),
			held = 0;
	}
	ck_assert_uint_gt(waits, 10);
	s.ordinal_settled = sent + 1; /* says more than it can know */
	prd_node_status(&nodes, a, &s);
	ck_assert_uint_le(a->window.acknowledged, sent);
}
END_TEST

START_TEST(suspended)
{
	struct pr_status s = {.state = PR_NODE_SUSPENDED};
	struct prd_node *a;
	uint64_t change_count;

	join(1, 11, &a);
	change_count = nodes.change_count;
	prd_node_status(&nodes, a, &s);
	ck_assert(!prd_node_usable(a));
	ck_assert_uint_ne(nodes.change_count, change_count);
	s.state = PR_NODE_RUNNING;
	prd_node_status(&nodes, a, &s);
	ck_assert(prd_node_usable(a));
}
END_TEST

static void
fill(TCase *tc)
{
	tcase_add_checked_fixture(tc, set_up, tear_down);
	tcase_add_test(tc, join_and_silence);
	tcase_add_test(tc, restart);
	tcase_add_test(tc, recorded);
	tcase_add_test(tc, refusals);
	tcase_add_test(tc, full_table);
	tcase_add_loop_test(tc, window, 0, 5);
	tcase_add_test(tc, suspended);
}

int
main(void)
{
	return unit_run("dispatcher nodes", fill);
}
