/* SPDX-License-Identifier: Apache-2.0 */
/* Answers about what was moved, evicted or deleted, or lies on a node that is dead. */
#include "tests/unit/completeness_nodes.h"
#include "tests/unit/unit.h"

/* What was moved or deleted leaves an answer complete where another place has it, and is said where it has not. */
START_TEST(test_moved)
{
	for (int gone = 0; gone < 3; gone++) {
		Packrack__Deleted d = PACKRACK__DELETED__INIT;
		Packrack__Evicted e = PACKRACK__EVICTED__INIT;
		Packrack__Ledger l = ledger(10, 100, 0, true);
		struct prm_completeness *c = make(0, INT64_MAX, 0);
		Packrack__Completeness *out;

		d.by = (char *)"ann";
		d.until = 60;
		d.moved_to = (char *)(gone == 2 ? "" : "b");
		e.epoch = 7;
		e.last_seq = 6;
		e.until = 60;
		e.deleted = &d;
		prm_completeness_node(c, "a", NULL);
		prm_completeness_node(c, "b", NULL);
		batch_held(c, 1, 0, gone == 1 ? 2 : 1, 6, gone == 1 ? 20 : 10, 60, NULL, 0);
		batch_held(c, 0, 0, 7, 10, 70, 100, NULL, 0);
		end_with(c, 1, NULL, NULL, NULL);
		end_with(c, 0, NULL, &l, &e);
		out = finish(c);
		ck_assert_int_eq(out->complete, gone != 1);
		ck_assert_uint_eq(out->missing_packets, 0);
		ck_assert_uint_eq(out->n_evicted, gone == 1);
		if (gone == 1)
			ck_assert_str_eq(out->evicted[0]->deleted->by, "ann");
		out_free(out);
	}
}
END_TEST

/* Of some nodes: what none of them knows of lies on others; what they lost is missing. */
START_TEST(test_part)
{
	for (int part = 0; part < 2; part++) {
		struct prm_completeness_options o = {
			.until = INT64_MAX, .partial_scope = part > 0};
		Packrack__Ledger l = ledger(10, 100, 0, true);
		Packrack__Loss loss = loss_of(4, 4, 1, 40, 40);
		struct prm_completeness *c = prm_completeness_create(&o, NULL);
		Packrack__Completeness *out;

		prm_completeness_node(c, "a", NULL);
		batch_held(c, 0, 0, 1, 2, 10, 20, NULL, 0);
		batch_held(c, 0, 0, 8, 10, 80, 100, NULL, 0);
		end_with(c, 0, &loss, &l, NULL);
		out = finish(c);
		ck_assert_uint_eq(out->missing_packets, part ? 1 : 5);
		out_free(out);
	}
}
END_TEST

START_TEST(test_evicted)
{
	Packrack__Evicted e = PACKRACK__EVICTED__INIT;
	Packrack__Ledger l = ledger(10, 100, 0, true);

	e.epoch = 7;
	e.last_seq = 6;
	e.until = 60;
	for (int i = 0; i < 2; i++) {
		struct prm_completeness *c = make(i ? 80 : 0, INT64_MAX, 0);
		Packrack__Completeness *out;

		prm_completeness_node(c, "a", NULL);
		batch_held(c, 0, 0, 8, 10, 80, 100, NULL, 0);
		end_with(c, 0, NULL, &l, &e);
		out = finish(c);
		ck_assert(!out->complete);
		/* nobody knows that 1 to 6 lie before the range */
		ck_assert_uint_eq(out->n_evicted, 1);
		ck_assert_uint_eq(
			out->missing_packets, 1); /* 7: neither evicted nor there */
		out_free(out);
	}
}
END_TEST

/* From the midst: what lies in its seqs is gone and not missing; what lies elsewhere is. */
START_TEST(test_deleted_midst)
{
	Packrack__Deleted by = PACKRACK__DELETED__INIT;
	Packrack__Evicted e = PACKRACK__EVICTED__INIT;
	Packrack__Ledger l = ledger(10, 100, 0, true);

	by.by = (char *)"ann";
	by.until = 60;
	e.epoch = 7;
	e.first_seq = 4;
	e.last_seq = 6;
	e.midst = true;
	e.since = 40;
	e.until = 60;
	e.deleted = &by;
	for (int i = 0; i < 4; i++) { /* all; before it; behind it; what others have */
		struct prm_completeness *c =
			make(i == 2 ? 70 : 0, i == 1 ? 30 : INT64_MAX, 0);
		Packrack__Completeness *out;

		by.moved_to = (char *)(i == 3 ? "b" : "");
		prm_completeness_node(c, "a", NULL);
		batch_held(c, 0, 0, 1, 3, 10, 30, NULL, 0);
		if (i == 3)
			batch_held(c, 0, 0, 4, 6, 40, 60, NULL, 0);
		batch_held(c, 0, 0, 7, 7, 70, 70, NULL, 0);
		batch_held(c, 0, 0, 9, 10, 90, 100, NULL, 0);
		end_with(c, 0, NULL, &l, &e);
		out = finish(c);
		/* nor that 4 to 6 lie outside of it */
		ck_assert_uint_eq(out->n_evicted, i < 3);
		/* 8: nobody deleted that */
		ck_assert_uint_eq(out->missing_packets, i == 1 ? 0 : 1);
		if (i == 0)
			ck_assert_str_eq(out->evicted[0]->deleted->by, "ann");
		out_free(out);
	}
}
END_TEST

START_TEST(test_dead_node)
{
	Packrack__Ledger l = ledger(10, 100, 0, true);
	struct prm_completeness *c = make(INT64_MIN, INT64_MAX, 0);
	Packrack__Completeness *out;

	prm_completeness_node(c, "a", NULL);
	prm_completeness_node(c, "b", NULL);
	batch_held(c, 0, 0, 1, 9, 10, 90, "\x55\x01", 0);
	prm_completeness_failed(c, 1, "went away");
	end_with(c, 0, NULL, &l, NULL);
	out = finish(c);
	ck_assert(!out->complete);
	ck_assert(!out->nodes[1]->answered);
	ck_assert_str_eq(out->nodes[1]->error, "went away");
	ck_assert_uint_eq(out->missing_packets, 5);
	ck_assert_str_eq(out->missing[0]->reason, PRM_MISSING_NO_ANSWER);
	ck_assert_str_eq(out->missing[0]->node, "b");
	out_free(out);
}
END_TEST

static void
fill(TCase *tests)
{
	tcase_add_test(tests, test_moved);
	tcase_add_test(tests, test_part);
	tcase_add_test(tests, test_evicted);
	tcase_add_test(tests, test_deleted_midst);
	tcase_add_test(tests, test_dead_node);
}

int
main(void)
{
	return unit_run("completeness gone", fill);
}
