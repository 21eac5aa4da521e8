/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of a link with a cutoff: sums of what it kept back are packets of a link of their own, at the ends of seconds. */
#include "tests/unit/completeness_nodes.h"
#include "tests/unit/unit.h"

#define SECOND INT64_C(1000000000)
#define SUMS 0xd000u /* of link 0 */
#define END_OF(n) ((n)*SECOND + SECOND - 1)

/* Ten packets of link 0, one in each tenth of second 5; all there. */
static void
packets(struct prm_completeness *c)
{
	batch_held(c, 0, 0, 1, 10, 5 * SECOND, 5 * SECOND + 900000000, NULL, 0);
}

static Packrack__Ledger
ledger_of(uint32_t link, uint64_t last_seq, int64_t last_otime, int64_t said_until)
{
	Packrack__Ledger l = ledger(last_seq, last_otime, said_until, false);

	l.link = link;
	return l;
}

/* Two ledgers: of the link, and of its sums. */
static void
end_both(struct prm_completeness *c, Packrack__Ledger *sums, Packrack__Loss *loss,
	Packrack__Evicted *evicted)
{
	Packrack__Ledger l = ledger_of(0, 10, 5 * SECOND + 900000000, 8 * SECOND),
			 *list[] = {&l, sums};
	Packrack__End end = PACKRACK__END__INIT;
	struct pr_error err = {""};

	end.ledgers = list;
	end.n_ledgers = 2;
	end.losses = &loss;
	end.n_losses = loss ? 1 : 0;
	end.evicted = &evicted;
	end.n_evicted = evicted ? 1 : 0;
	ck_assert_msg(prm_completeness_end(c, 0, &end, &err) == 0, "%s", err.text);
}

/* The range ends in the midst of second 5: sums 3 and 4 are of its end, and belong to it; sum 5 is of the next one. */
START_TEST(end_in_a_second)
{
	const int64_t until = 5 * SECOND + 950000000;
	struct prm_completeness *c = make(4 * SECOND, until, 0);
	Packrack__Ledger sums = ledger_of(SUMS, 8, END_OF(6), 8 * SECOND);
	Packrack__Completeness *out;

	prm_completeness_node(c, "a", NULL);
	packets(c);
	/* _i: how many of the four sums are there */
	if (_i)
		batch_held(c, 0, SUMS, 1, (uint64_t)_i, END_OF(4), END_OF(_i < 3 ? 4 : 5),
			NULL, 0);
	sums.above_seq = 5;
	sums.above_otime = END_OF(6);
	end_both(c, &sums, NULL, NULL);
	out = finish(c);
	ck_assert_uint_eq(out->missing_packets, 4 - (unsigned)_i);
	ck_assert_int_eq(out->complete, _i == 4);
	/* sums are no packets of the answer */
	ck_assert_uint_eq(out->held_packets, 10);
	if (_i < 4) {
		ck_assert_uint_eq(out->n_missing, 1);
		ck_assert_uint_eq(out->missing[0]->link, SUMS);
		ck_assert_uint_eq(out->missing[0]->first_seq, (unsigned)_i + 1);
		ck_assert_uint_eq(out->missing[0]->last_seq, 4);
	}
	out_free(out);
}
END_TEST

/* What comes behind a packet at the end of the range's second is not in it: not so of a link of packets. */
START_TEST(what_is_above)
{
	for (unsigned link = 0; link <= SUMS; link += SUMS) {
		struct prm_completeness *c = make(4 * SECOND, 5 * SECOND + 950000000, 0);
		Packrack__Ledger l = ledger_of(link, 4, END_OF(6), 8 * SECOND);
		Packrack__Completeness *out;

		prm_completeness_node(c, "a", NULL);
		batch_held(c, 0, link, 1, 2, 5 * SECOND, 5 * SECOND + 1, NULL, 0);
		/* the third lies at the end of the second: outside for a link, inside for sums */
		l.above_seq = 3;
		l.above_otime = END_OF(5);
		end_with(c, 0, NULL, &l, NULL);
		out = finish(c);
		ck_assert_uint_eq(out->missing_packets, link ? 2 : 0);
		out_free(out);
	}
}
END_TEST

/* The dispatcher was killed in the midst of second 5, or (_i) lived on: of that second nobody knows what it had counted. */
START_TEST(killed_in_a_second)
{
	struct prm_completeness *c = make(4 * SECOND, 5 * SECOND + 300000000, 0);
	Packrack__Ledger sums =
		ledger_of(SUMS, 2, END_OF(4), 5 * SECOND + (_i ? 3 * SECOND : 500000000));
	Packrack__Completeness *out;

	prm_completeness_node(c, "a", NULL);
	batch_held(c, 0, 0, 1, 10, 5 * SECOND, 5 * SECOND + 200000000, NULL, 0);
	batch_held(c, 0, SUMS, 1, 2, END_OF(4), END_OF(4), NULL, 0);
	end_both(c, &sums, NULL, NULL);
	out = finish(c);
	ck_assert_int_eq(out->beyond_until, _i ? 0 : END_OF(4));
	out_free(out);
}
END_TEST

/* A sum that was lost on the way is missing, for its reason. One that is evicted is told. */
START_TEST(lost_and_evicted)
{
	struct prm_completeness *c = make(4 * SECOND, 6 * SECOND - 1, 0);
	Packrack__Ledger sums = ledger_of(SUMS, 4, END_OF(5), 8 * SECOND);
	Packrack__Loss loss = loss_of(4, 4, 1, END_OF(5), END_OF(5));
	Packrack__Evicted gone = PACKRACK__EVICTED__INIT;
	Packrack__Completeness *out;

	loss.link = gone.link = SUMS;
	gone.epoch = 7;
	gone.last_seq = 2;
	gone.until = END_OF(4);
	prm_completeness_node(c, "a", NULL);
	packets(c);
	batch_held(c, 0, SUMS, 3, 3, END_OF(5), END_OF(5), NULL, 0);
	end_both(c, &sums, &loss, &gone);
	out = finish(c);
	ck_assert(!out->complete);
	ck_assert_uint_eq(out->missing_packets, 1);
	ck_assert_uint_eq(out->n_missing, 1);
	ck_assert_str_eq(out->missing[0]->reason, "switch");
	ck_assert_uint_eq(out->missing[0]->link, SUMS);
	ck_assert_uint_eq(out->missing[0]->first_seq, 4);
	ck_assert_uint_eq(out->n_evicted, 1);
	ck_assert_uint_eq(out->evicted[0]->link, SUMS);
	ck_assert_uint_eq(out->evicted[0]->last_seq, 2);
	ck_assert_uint_eq(out->held_packets, 10);
	out_free(out);
}
END_TEST

/* Sums that nodes reported, each once; and up to when they are known, where the link goes on. */
START_TEST(reported)
{
	struct prm_completeness *c = make(4 * SECOND, 6 * SECOND - 1, 0);
	Packrack__Ledger sums = ledger_of(SUMS, 1, END_OF(4), 8 * SECOND);
	Packrack__Beyond sum = PACKRACK__BEYOND__INIT, *list[] = {&sum, &sum};
	Packrack__Batch b = PACKRACK__BATCH__INIT;
	Packrack__Completeness *out;
	struct pr_error err = {""};

	sum.epoch = 7;
	sum.link = SUMS;
	sum.seq = sum.number = 1;
	sum.name = (char *)"bulk";
	sum.packets = 3;
	sum.bytes = 300;
	b.beyond = list;
	b.n_beyond = 2;
	prm_completeness_node(c, "a", NULL);
	packets(c);
	batch_held(c, 0, SUMS, 1, 1, END_OF(4), END_OF(4), NULL, 0);
	ck_assert_int_eq(prm_completeness_batch(c, 0, &b, &err), 0);
	end_both(c, &sums, NULL, NULL);
	out = finish(c);
	ck_assert_uint_eq(out->n_beyond, 1);
	ck_assert_str_eq(out->beyond[0]->name, "bulk");
	ck_assert_uint_eq(out->beyond[0]->packets, 3);
	ck_assert_uint_eq(out->beyond[0]->connections, 1);
	out_free(out);
}
END_TEST

static void
fill(TCase *t)
{
	tcase_add_loop_test(t, end_in_a_second, 0, 5);
	tcase_add_test(t, what_is_above);
	tcase_add_loop_test(t, killed_in_a_second, 0, 2);
	tcase_add_test(t, lost_and_evicted);
	tcase_add_test(t, reported);
}

int
main(void)
{
	return unit_run("completeness beyond", fill);
}
