/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/completeness_nodes.h"
#include "tests/unit/unit.h"

/* Answers of few packets, each with one thing that lacks. */

START_TEST(test_whole)
{
	Packrack__Ledger l = ledger(20, 200, 0, true);
	struct prm_completeness *c = make(INT64_MIN, INT64_MAX, 0);
	Packrack__Completeness *out;

	prm_completeness_node(c, "a", NULL);
	prm_completeness_node(c, "b", NULL);
	batch_held(c, 0, 0, 1, 19, 10, 190, "\x55\x55\x05", 0);
	batch_held(c, 1, 0, 2, 20, 20, 200, "\x55\x55\x05", 0);
	end_with(c, 0, NULL, &l, NULL);
	end_with(c, 1, NULL, &l, NULL);
	out = finish(c);
	ck_assert(out->complete);
	ck_assert_uint_eq(out->held_packets, 20);
	ck_assert_uint_eq(out->missing_packets, 0);
	ck_assert_uint_eq(out->n_nodes, 2);
	out_free(out);
}
END_TEST

/* A node that is gone takes nothing with it that others have, if these have the ledger. */
START_TEST(test_node_gone)
{
	for (int lacks = 0; lacks < 2; lacks++)
		for (int accounted = 0; accounted < 2; accounted++) {
			Packrack__Ledger l = ledger(lacks ? 21 : 20, 200, 0, true);
			struct prm_completeness *c = make(INT64_MIN, INT64_MAX, 0);
			Packrack__Completeness *out;

			prm_completeness_node(c, "a", NULL);
			prm_completeness_node(c, "b", NULL);
			batch_held(c, 0, 0, 1, 20, 10, 200, NULL, 0);
			end_with(c, 0, NULL, &l, NULL);
			prm_completeness_failed(c, 1, "gone");
			ck_assert_str_eq(prm_completeness_answer(c, 1)->error, "gone");
			ck_assert_str_eq(prm_completeness_answer(c, 0)->error, "");
			if (accounted)
				prm_completeness_answer(c, 1)->accounted = true;
			out = finish(c);
			ck_assert_int_eq(out->complete, accounted && !lacks);
			ck_assert_uint_eq(out->missing_packets, lacks);
			ck_assert(!out->nodes[1]->answered);
			ck_assert_int_eq(out->nodes[1]->accounted, accounted);
			out_free(out);
		}
}
END_TEST

START_TEST(test_loss_explains)
{
	Packrack__Ledger l = ledger(10, 100, 0, true);
	Packrack__Loss loss = loss_of(4, 5, 2, 41, 51);
	struct prm_completeness *c = make(INT64_MIN, INT64_MAX, 0);
	Packrack__Completeness *out;

	prm_completeness_node(c, "a", NULL);
	batch_held(c, 0, 0, 1, 10, 10, 100, "\xe7\x02", 0);
	end_with(c, 0, &loss, &l, NULL);
	out = finish(c);
	ck_assert(!out->complete);
	ck_assert_uint_eq(out->missing_packets, 3);
	ck_assert_uint_eq(out->n_missing, 2);
	ck_assert_str_eq(out->missing[1]->reason, "switch");
	ck_assert_str_eq(out->missing[1]->node, "a");
	ck_assert_uint_eq(out->missing[1]->first_seq, 4);
	ck_assert_int_eq(out->missing[1]->first_time, 41);
	ck_assert_str_eq(out->missing[0]->reason, PRM_MISSING_UNKNOWN);
	ck_assert_uint_eq(out->missing[0]->first_seq, 9);
	ck_assert_int_eq(out->missing[0]->first_time, 10);
	ck_assert_int_eq(out->missing[0]->last_time, 100);
	out_free(out);
}
END_TEST

/* Of one node that is asked alone (--node): holes may be other nodes' packets, unless it has lost them for certain. */
START_TEST(test_one_node_asked)
{
	struct prm_completeness_options o = {.since = INT64_MIN,
		.until = INT64_MAX,
		.now = NOW,
		.partial_scope = _i & 1};
	Packrack__Ledger l = ledger(10, 100, 0, true);
	Packrack__Loss loss = loss_of(4, 5, _i & 2 ? 2 : 0, 41, 51);
	struct prm_completeness *c = prm_completeness_create(&o, NULL);
	Packrack__Completeness *out;

	prm_completeness_node(c, "a", NULL);
	batch_held(c, 0, 0, 1, 10, 10, 100, "\xe7\x03", 0); /* not 4, 5 */
	end_with(c, 0, &loss, &l, NULL);
	out = finish(c);
	ck_assert_uint_eq(out->missing_packets, _i == 1 ? 0 : 2);
	out_free(out);
}
END_TEST

/* Identical frames: 2 of 3..8 are missing, whichever the node called so. */
START_TEST(test_loss_without_choice)
{
	Packrack__Ledger l = ledger(10, 100, 0, true);
	Packrack__Loss loss = loss_of(3, 8, 2, 30, 80);
	struct prm_completeness *c = make(INT64_MIN, INT64_MAX, 0);
	Packrack__Completeness *out;

	prm_completeness_node(c, "a", NULL);
	batch_held(c, 0, 0, 1, 10, 10, 100, "\x6f\x03", 0); /* not 5, 8 */
	end_with(c, 0, &loss, &l, NULL);
	out = finish(c);
	ck_assert_uint_eq(out->missing_packets, 2);
	ck_assert_uint_eq(out->n_missing, 2);
	ck_assert_uint_eq(out->missing[0]->first_seq, 5);
	ck_assert_uint_eq(out->missing[1]->first_seq, 8);
	ck_assert_uint_eq(out->missing[1]->last_seq, 8);
	ck_assert_uint_eq(out->missing[1]->among_first, 3);
	ck_assert_uint_eq(out->missing[1]->among_last, 8);
	out_free(out);
}
END_TEST

/* A limit ends the answer at its fifth packet, in the midst of a range: what is missing before that counts. */
START_TEST(test_limit)
{
	struct pr_packet fifth = {.epoch = 7, .seq = 6, .otime = 60};
	Packrack__Ledger l = ledger(10, 100, 0, true);

	for (int part = 0; part < 3;
		part++) { /* a hole before it; one behind it; no ledger */
		struct prm_completeness *c = make(0, INT64_MAX, 0);
		Packrack__Completeness *out;

		prm_completeness_node(c, "a", NULL);
		batch_held(
			c, 0, 0, 1, 10, 10, 100, part == 0 ? "\xef\x03" : "\x7f\x03", 80);
		prm_completeness_truncate(c, &fifth);
		end_with(c, 0, NULL, part < 2 ? &l : NULL, NULL);
		out = finish(c);
		ck_assert_uint_eq(out->missing_packets, part == 0);
		ck_assert_uint_eq(out->n_unobserved, part == 2);
		ck_assert_int_eq(out->complete, part == 1);
		out_free(out);
	}
}
END_TEST

/* Nodes lost some of the same seqs: each hole may be any of theirs, and no other node's. */
START_TEST(test_losses_of_several)
{
	static const char *const names[] = {"a", "b", "c", "d"};
	static const uint64_t holes[] = {3, 4, 5, 7, 8};
	static const char *const said[] = {"a", "a (switch), b (switch)",
		"a (switch), b (switch), c (switch)", "b (switch), c (switch)", "c"};
	Packrack__Ledger l = ledger(10, 100, 0, true);
	struct prm_completeness *c = make(INT64_MIN, INT64_MAX, 0);
	Packrack__Completeness *out;

	for (int i = 0; i < 4; i++)
		prm_completeness_node(c, names[i], NULL);
	batch_held(c, 3, 0, 1, 10, 10, 100, "\x23\x03", 0);
	for (uint64_t i = 0; i < 4; i++) {
		Packrack__Loss loss = loss_of(3 + i, 6 + i, i == 1 ? 1 : 2, 30, 80);

		end_with(c, (int)i, i < 3 ? &loss : NULL, &l, NULL);
	}
	out = finish(c);
	ck_assert_uint_eq(out->missing_packets, 5);
	ck_assert_uint_eq(out->n_missing, 5);
	for (size_t i = 0; i < 5; i++)
		for (size_t k = 0; k < 5; k++)
			if (out->missing[i]->first_seq == holes[k])
				ck_assert_str_eq(out->missing[i]->node, said[k]);
	out_free(out);
}
END_TEST

/* Nodes name each seq that they have lost, others have overwritten all of that time, and one was killed in it. */
START_TEST(test_losses_with_bits)
{
	static const char *const names[] = {"a", "b", "c"};
	Packrack__Ledger l = ledger(10, 100, 0, true);
	struct prm_completeness *c = make(INT64_MIN, INT64_MAX, 0);
	Packrack__Evicted gone = PACKRACK__EVICTED__INIT;
	Packrack__Loss killed = loss_of(2, 9, 0, 20, 90);
	Packrack__Completeness *out;

	killed.reason = (char *)"unsaved";
	gone.epoch = 7;
	gone.first_seq = 1;
	gone.last_seq = 8;
	gone.until = 80;
	gone.stream = (char *)"packets.0";
	for (int i = 0; i < 3; i++)
		prm_completeness_node(c, names[i], NULL);
	batch_held(c, 0, 0, 1, 10, 10, 100, "\x01\x02", 0); /* 1 and 10 */
	for (uint64_t i = 0; i < 2; i++) {
		Packrack__Loss loss = loss_of(2 + i, 5 + i, 2, 20 + i, 80);

		loss.bits = 9;
		end_with(c, (int)i, &loss, &l, i ? &gone : NULL);
	}
	end_with(c, 2, &killed, &l, NULL);
	out = finish(c);
	ck_assert_uint_eq(out->missing_packets, 8);
	for (size_t i = 0; i < out->n_missing; i++) {
		const Packrack__Loss *m = out->missing[i];
		bool of_a = m->first_seq == 2 || m->first_seq == 5,
		     of_b = m->first_seq == 3 || m->first_seq == 6;

		ck_assert_str_eq(m->node, of_a   ? "a"
					  : of_b ? "b"
					  : m->first_seq == 9
						  ? "c"
						  : "c (unsaved), b (overwritten)");
		ck_assert_uint_eq(m->among_last, 0);
	}
	out_free(out);
}
END_TEST

/*
 * All nodes have overwritten the begin, where one was killed once: what it may have lost then lies before the oldest packet,
 * and a range without since is complete.
 */
START_TEST(test_killed_before_the_range)
{
	Packrack__Ledger l = ledger(10, 100, 0, true);
	struct prm_completeness *c = make(INT64_MIN, INT64_MAX, 0);
	Packrack__Evicted gone = PACKRACK__EVICTED__INIT;
	Packrack__Loss killed = loss_of(2, 4, 0, 20, 40);
	Packrack__Completeness *out;

	killed.reason = (char *)"unsaved";
	gone.epoch = 7;
	gone.first_seq = 1;
	gone.last_seq = 8;
	gone.until = 80;
	gone.stream = (char *)"packets.0";
	prm_completeness_node(c, "a", NULL);
	prm_completeness_node(c, "b", NULL);
	batch_held(c, 0, 0, 9, 10, 90, 100, NULL, 0);
	end_with(c, 0, &killed, &l, &gone);
	end_with(c, 1, NULL, &l, &gone);
	out = finish(c);
	ck_assert_uint_eq(out->missing_packets, 0);
	ck_assert(out->complete);
	out_free(out);
}
END_TEST

/*
 * A node has overwritten its packets up to some time, and was killed soon after that: what it had not written then is not
 * hidden by what it has overwritten, though nobody knows where in the seqs the one ends and the other begins.
 */
START_TEST(test_killed_after_the_overwritten)
{
	Packrack__Ledger l = ledger(10, 100, 0, true);
	struct prm_completeness *c = make(35, INT64_MAX, 0);
	Packrack__Evicted gone = PACKRACK__EVICTED__INIT;
	Packrack__Loss killed = loss_of(4, 7, 0, 35, 75);
	Packrack__Completeness *out;

	killed.reason = (char *)"unsaved";
	gone.epoch = 7;
	gone.first_seq = 1;
	gone.last_seq = 6;
	gone.until = 40;
	gone.stream = (char *)"packets.0";
	prm_completeness_node(c, "a", NULL);
	prm_completeness_node(c, "b", NULL);
	batch_held(c, 1, 0, 8, 10, 80, 100, NULL, 0);
	end_with(c, 0, &killed, &l, &gone);
	end_with(c, 1, NULL, &l, NULL);
	out = finish(c);
	ck_assert_uint_eq(out->missing_packets, 4);
	ck_assert_str_eq(out->missing[0]->node, "a (unsaved), a (overwritten)");
	ck_assert_uint_eq(out->missing[0]->last_seq, 6);
	ck_assert_str_eq(out->missing[1]->reason, "unsaved");
	ck_assert_uint_eq(out->n_evicted, 1);
	out_free(out);
}
END_TEST

/* All that was asked for is overwritten: that is said, and no more of the time when it was captured. */
START_TEST(test_all_overwritten)
{
	Packrack__Ledger l = ledger(10, 100, 100, true);
	struct prm_completeness *c = make(INT64_MIN, 70, 0);
	Packrack__Evicted gone = PACKRACK__EVICTED__INIT;
	uint32_t reason = PR_UNOBSERVED_NO_CARRIER;
	int64_t since = 20, until = 30;
	char *by = (char *)"";
	Packrack__Completeness *out;

	l.n_unobserved_reason = l.n_unobserved_since = l.n_unobserved_until =
		l.n_unobserved_by = 1;
	l.unobserved_reason = &reason;
	l.unobserved_since = &since;
	l.unobserved_until = &until;
	l.unobserved_by = &by;
	gone.epoch = 7;
	gone.first_seq = 1;
	gone.last_seq = 8;
	gone.until = 80;
	gone.stream = (char *)"packets.0";
	prm_completeness_node(c, "a", NULL);
	end_with(c, 0, NULL, &l, &gone);
	out = finish(c);
	ck_assert(!out->complete);
	ck_assert_uint_eq(out->n_evicted, 1);
	ck_assert_uint_eq(out->n_unobserved, 0);
	out_free(out);
}
END_TEST

/* The same of what was deleted after the node had been started again: it begins later than what was not written. */
START_TEST(test_killed_before_the_deleted)
{
	Packrack__Ledger l = ledger(10, 100, 0, true);
	struct prm_completeness *c = make(20, INT64_MAX, 0);
	Packrack__Deleted by = PACKRACK__DELETED__INIT;
	Packrack__Evicted gone = PACKRACK__EVICTED__INIT;
	Packrack__Loss killed = loss_of(4, 7, 0, 35, 75);
	Packrack__Completeness *out;

	killed.reason = (char *)"unsaved";
	by.by = (char *)"ann";
	by.until = 110;
	gone.epoch = 7;
	gone.first_seq = 4;
	gone.last_seq = 9;
	gone.midst = true;
	gone.since = 78;
	gone.until = 110;
	gone.deleted = &by;
	gone.stream = (char *)"packets.0";
	prm_completeness_node(c, "a", NULL);
	prm_completeness_node(c, "b", NULL);
	batch_held(c, 1, 0, 1, 3, 10, 30, NULL, 0);
	batch_held(c, 1, 0, 10, 10, 100, 100, NULL, 0);
	end_with(c, 0, &killed, &l, &gone);
	end_with(c, 1, NULL, &l, NULL);
	out = finish(c);
	ck_assert_uint_eq(out->missing_packets, 4);
	ck_assert_str_eq(out->missing[0]->node, "a (unsaved), a (overwritten)");
	ck_assert_uint_eq(out->n_evicted, 1);
	out_free(out);
}
END_TEST

/* Bits without the last seq, with all of them, or of more than 64 seqs contradict themselves. */
START_TEST(test_bad_bits)
{
	const uint64_t bits[] = {1, 0x1f, UINT64_MAX, 9}, last[] = {5, 5, 65, 70};

	for (size_t i = 0; i < 4; i++) {
		struct prm_completeness *c = make(INT64_MIN, INT64_MAX, 0);
		Packrack__Loss loss = loss_of(2, last[i], 2, 20, 80), *list = &loss;
		Packrack__End end = PACKRACK__END__INIT;

		prm_completeness_node(c, "a", NULL);
		loss.bits = bits[i];
		end.losses = &list;
		end.n_losses = 1;
		ck_assert_int_eq(prm_completeness_end(c, 0, &end, NULL), -1);
		prm_completeness_destroy(&c);
	}
}
END_TEST

/* Lost before the range, as its time tells: nothing is missing from the answer. */
START_TEST(test_loss_outside)
{
	Packrack__Ledger l = ledger(10, 100, 0, true);
	Packrack__Loss loss = loss_of(3, 3, 1, 30, 30);
	struct prm_completeness *c = make(40, INT64_MAX, 0);
	Packrack__Held h = PACKRACK__HELD__INIT, *list = &h;
	Packrack__Batch b = PACKRACK__BATCH__INIT;
	Packrack__Completeness *out;

	prm_completeness_node(c, "a", NULL);
	h.epoch = 7;
	h.first = h.last = 2;
	h.first_otime = h.last_otime = 20;
	b.edge = &list;
	b.n_edge = 1;
	ck_assert_int_eq(prm_completeness_batch(c, 0, &b, NULL), 0);
	batch_held(c, 0, 0, 4, 10, 40, 100, NULL, 0);
	end_with(c, 0, &loss, &l, NULL);
	out = finish(c);
	ck_assert(out->complete);
	ck_assert_uint_eq(out->held_packets, 7);
	out_free(out);
}
END_TEST

/* A stretch that reaches beyond the range says of a hole in it no more than where it is. */
START_TEST(test_edges_bound_what_is_missing)
{
	struct prm_completeness *c = make(1000, 2000, 0);
	/* 5..25 without 7, 9..12, 18..21, 23 */
	const char bits[] = {0x0b, 0x1f, 0x1a};
	Packrack__Completeness *out;

	ck_assert_int_eq(prm_completeness_node(c, "a", NULL), 0);
	ck_assert_int_eq(prm_completeness_node(c, "b", NULL), 1);
	batch_edge(c, 1, 10, 999);
	batch_edge(c, 1, 20, 2001);
	batch_edge(c, 1, 3, 100);
	batch_held(c, 0, 0, 5, 25, 900, 2100, bits, INT64_MAX);
	prm_completeness_bounds_only(c);
	end_with(c, 0, NULL, NULL, NULL);
	end_with(c, 1, NULL, NULL, NULL);
	out = finish(c);
	ck_assert_uint_eq(out->missing_packets, 4);
	ck_assert_uint_eq(out->n_missing, 2);
	ck_assert_uint_eq(out->missing[0]->first_seq, 11);
	ck_assert_uint_eq(out->missing[0]->last_seq, 12);
	ck_assert_uint_eq(out->missing[1]->first_seq, 18);
	ck_assert_uint_eq(out->missing[1]->last_seq, 19);
	ck_assert_uint_eq(out->held_packets, 5);
	ck_assert(out->held_at_most);
	out_free(out);
}
END_TEST

/* All is deleted, and MARKs tell which seqs were captured in the range: what lies before or behind it is not missing. */
START_TEST(test_points_bound_what_is_missing)
{
	struct prm_completeness *c = make(1000, 2000, 0);
	Packrack__Ledger l = ledger(1000, 5000, 5001, false);
	Packrack__Completeness *out;

	l.below_seq = 40;
	l.below_otime = 990;
	l.above_seq = 50;
	l.above_otime = 2010;
	prm_completeness_node(c, "a", NULL);
	end_with(c, 0, NULL, &l, NULL);
	out = finish(c);
	ck_assert_uint_eq(out->missing_packets, 9);
	ck_assert_uint_eq(out->missing[0]->first_seq, 41);
	ck_assert_uint_eq(out->missing[0]->last_seq, 49);
	out_free(out);
}
END_TEST

START_TEST(test_tail)
{
	Packrack__Ledger dead = ledger(10, 100, 150, false);
	Packrack__Ledger outlived = ledger(10, 100, INT64_C(3000000000), false);
	Packrack__Ledger live = ledger(10, 100, NOW - 1, false);
	Packrack__Ledger behind = ledger(8, 80, NOW - 2, false);

	for (int i = 0; i < 3; i++) {
		struct prm_completeness *c = make(INT64_MIN, INT64_MAX, 0);
		Packrack__Ledger *last = i == 2 ? &outlived : &dead;
		Packrack__Completeness *out;

		prm_completeness_node(c, "a", NULL);
		prm_completeness_node(c, "b", NULL);
		batch_held(c, 0, 0, 1, 8, 10, 80, NULL, 0);
		end_with(c, 0, NULL, i == 1 ? &live : last, NULL);
		end_with(c, 1, NULL, i == 1 ? &behind : last, NULL);
		out = finish(c);
		ck_assert(!out->complete);
		ck_assert_uint_eq(out->missing_packets, i == 1 ? 0 : 2);
		ck_assert_uint_eq(out->pending_packets, i == 1 ? 2 : 0);
		if (i !=
			1) /* a dispatcher that has lived on for seconds had delivered them */
			ck_assert_str_eq(out->missing[0]->reason,
				i ? PRM_MISSING_UNKNOWN : PRM_MISSING_UNDELIVERED);
		out_free(out);
	}
}
END_TEST

/* A node may know of a loss before any MARK declares its packets, and the dispatcher die then. */
START_TEST(test_loss_beyond_ledger)
{
	for (int with_ledger = 0; with_ledger < 2; with_ledger++) {
		Packrack__Ledger l = ledger(10, 100, 0, false);
		Packrack__Loss loss = loss_of(11, 12, 2, 110, 120);
		struct prm_completeness *c = make(0, INT64_MAX, 0);
		Packrack__Completeness *out;

		prm_completeness_node(c, "a", NULL);
		batch_held(c, 0, 0, 1, 10, 10, 100, NULL, 0);
		end_with(c, 0, &loss, with_ledger ? &l : NULL, NULL);
		out = finish(c);
		ck_assert(!out->complete);
		ck_assert_uint_eq(out->missing_packets, 2);
		ck_assert_str_eq(out->missing[0]->reason, "switch");
		out_free(out);
	}
}
END_TEST

/* The same of a link of which nothing else is known, and one after the range's end. */
START_TEST(test_loss_alone)
{
	Packrack__Loss loss = loss_of(1, 2, 2, 110, 120);
	struct prm_completeness *c = make(100, 200, 0);
	Packrack__Completeness *out;

	prm_completeness_node(c, "a", NULL);
	end_with(c, 0, &loss, NULL, NULL);
	out = finish(c);
	ck_assert(!out->complete);
	ck_assert_uint_eq(out->missing_packets, 2);
	out_free(out);
	c = make(0, 100, 0);
	prm_completeness_node(c, "a", NULL);
	end_with(c, 0, &loss, NULL, NULL);
	out = finish(c);
	ck_assert_uint_eq(out->missing_packets, 0);
	/* and nobody has confirmed the range */
	ck_assert(!out->complete);
	ck_assert_uint_eq(out->n_unobserved, 1);
	ck_assert_str_eq(out->unobserved[0]->reason, PRM_UNOBSERVED_UNKNOWN);
	out_free(out);
}
END_TEST

/* A dispatcher that has just begun has said nothing yet: that is not known yet, and later it is gone. */
START_TEST(test_just_begun)
{
	const int64_t begun = 2000 * PR_NS_PER_S;

	for (int later = 0; later < 2; later++) {
		struct prm_completeness_options o = {.since = begun,
			.until = begun + PR_NS_PER_S / 10,
			.now = begun + (later ? 60 * PR_NS_PER_S : PR_NS_PER_S / 5)};
		struct prm_completeness *c = prm_completeness_create(&o, NULL);
		Packrack__Ledger l = ledger(0, 0, 0, false);
		Packrack__Completeness *out;

		l.epoch = UINT64_C(2000) << 32;
		prm_completeness_node(c, "a", NULL);
		end_with(c, 0, NULL, &l, NULL);
		out = finish(c);
		ck_assert(!out->complete);
		ck_assert_uint_eq(out->n_unobserved, 1);
		ck_assert_str_eq(out->unobserved[0]->reason,
			later ? PRM_UNOBSERVED_GONE : PRM_UNOBSERVED_UNKNOWN);
		out_free(out);
	}
}
END_TEST

/* A node that was cut off knows less well when packets were dropped; one that heard of them too late knows of none. */
START_TEST(test_drops_of_several)
{
	struct prm_completeness *c = make(_i == 2 ? INT64_MIN : 10, 90, 0);
	Packrack__Ledger l = ledger(10, 100, 100, false);
	Packrack__Completeness *out;

	prm_completeness_node(c, "a", NULL);
	prm_completeness_node(c, "b", NULL);
	prm_completeness_node(c, "c", NULL);
	batch_held(c, 0, 0, 1, 10, 10, 100, NULL, 0);
	l.dropped_kernel = 7;
	end_with(c, 0, NULL, &l, NULL);
	l.dropped_kernel = _i == 1 ? 4 : 0;
	end_with(c, 1, NULL, &l, NULL);
	l.said_until = l.last_otime = 80;
	l.last_seq = 8;
	l.dropped_kernel = 0;
	end_with(c, 2, NULL, &l, NULL);
	out = finish(c);
	/* of a range without a begin each counts from its own oldest packet */
	ck_assert_uint_eq(out->dropped_packets, _i == 2 ? 7 : _i ? 4 : 0);
	ck_assert_int_eq(out->complete, !_i);
	out_free(out);
}
END_TEST

/* Of a range that all nodes have overwritten it is not said what was dropped: nobody has its times any more. */
START_TEST(test_drops_of_the_overwritten)
{
	struct prm_completeness *c = make(10, 90, 0);
	Packrack__Ledger l = ledger(100, 1000, 1000, false);
	Packrack__Evicted gone = PACKRACK__EVICTED__INIT;
	Packrack__Completeness *out;

	gone.epoch = 7;
	gone.last_seq = 50;
	l.dropped_kernel = 7;
	for (int i = 0; i < 2; i++) {
		gone.until = i ? _i ? 80 : 200 : 100;
		prm_completeness_node(c, i ? "b" : "a", NULL);
		end_with(c, i, NULL, &l, &gone);
	}
	out = finish(c);
	ck_assert_uint_eq(out->dropped_packets, _i ? 7 : 0);
	ck_assert(!out->complete);
	ck_assert_uint_gt(out->n_evicted, 0);
	out_free(out);
}
END_TEST

START_TEST(test_drops)
{
	Packrack__Ledger l = ledger(10, 100, 0, true);
	struct prm_completeness *c = make(INT64_MIN, INT64_MAX, 0);
	Packrack__Completeness *out;

	l.dropped_kernel = 5;
	l.dropped_ring = 1;
	prm_completeness_node(c, "a", NULL);
	batch_held(c, 0, 0, 1, 10, 10, 90, NULL, 0);
	end_with(c, 0, NULL, &l, NULL);
	out = finish(c);
	ck_assert(!out->complete);
	ck_assert_uint_eq(out->missing_packets, 0);
	ck_assert_uint_eq(out->dropped_packets, 6);
	out_free(out);
}
END_TEST

START_TEST(test_hostile)
{
	static const struct {
		uint64_t first, last;
		size_t bits;
		int64_t t0, t1;
	} bad[] = {{0, 5, 0, 0, 0}, {5, 4, 0, 0, 0}, {1, UINT64_MAX, 0, 0, 0},
		{1, 16, 1, 0, 0}, {1, 16, 3, 0, 0}, {1, 2, 0, 5, 4}};
	struct prm_completeness *c = make(INT64_MIN, INT64_MAX, 0);
	uint8_t bits[8] = {1};

	prm_completeness_node(c, "a", NULL);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		Packrack__Held h = PACKRACK__HELD__INIT, *list = &h;
		Packrack__Batch b = PACKRACK__BATCH__INIT;
		struct pr_error err = {""};

		h.first = bad[i].first;
		h.last = bad[i].last;
		h.bits.data = bits;
		h.bits.len = bad[i].bits;
		h.first_otime = bad[i].t0;
		h.last_otime = bad[i].t1;
		b.held = &list;
		b.n_held = 1;
		ck_assert_int_eq(prm_completeness_batch(c, 0, &b, &err), -1);
		ck_assert_str_ne(err.text, "");
	}
	/* absurd, and yet no work */
	batch_held(c, 0, 0, 1, UINT64_MAX - 1, 0, 1, NULL, 0);
	batch_held(c, 0, 1, UINT64_MAX - 1, UINT64_MAX - 1, 0, 1, NULL, 0);
	end_with(c, 0, NULL, NULL, NULL);
	out_free(finish(c));
}
END_TEST

static void
fill(TCase *tests)
{
	tcase_add_test(tests, test_whole);
	tcase_add_test(tests, test_node_gone);
	tcase_add_test(tests, test_loss_explains);
	tcase_add_loop_test(tests, test_one_node_asked, 0, 4);
	tcase_add_test(tests, test_loss_without_choice);
	tcase_add_test(tests, test_limit);
	tcase_add_test(tests, test_losses_of_several);
	tcase_add_test(tests, test_losses_with_bits);
	tcase_add_test(tests, test_killed_before_the_range);
	tcase_add_test(tests, test_killed_after_the_overwritten);
	tcase_add_test(tests, test_killed_before_the_deleted);
	tcase_add_test(tests, test_all_overwritten);
	tcase_add_test(tests, test_bad_bits);
	tcase_add_test(tests, test_loss_outside);
	tcase_add_test(tests, test_edges_bound_what_is_missing);
	tcase_add_test(tests, test_points_bound_what_is_missing);
	tcase_add_test(tests, test_tail);
	tcase_add_test(tests, test_loss_beyond_ledger);
	tcase_add_test(tests, test_loss_alone);
	tcase_add_test(tests, test_just_begun);
	tcase_add_test(tests, test_drops);
	tcase_add_loop_test(tests, test_drops_of_the_overwritten, 0, 2);
	tcase_add_loop_test(tests, test_drops_of_several, 0, 3);
	tcase_add_test(tests, test_hostile);
}

int
main(void)
{
	return unit_run("completeness", fill);
}
