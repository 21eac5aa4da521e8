/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "tests/unit/completeness_nodes.h"
#include "tests/unit/draw.h"
#include "tests/unit/unit.h"

static uint32_t number; /* of the case */

/* ck_assert costs a system call: not for each packet */
#define MUST(condition)                                                                    \
	do                                                                                 \
		if (!(condition))                                                          \
			ck_abort_msg("case %u: %s", number, #condition);                   \
	while (0)

/* The list of missing packets says the same as each seq by itself, and its sums are exact. */

#define SEQS 3000
#define CAUSES 4
#define SECOND INT64_C(1000000000)
#define MINUTE (60 * SECOND)

static Packrack__Completeness *
list_new(void)
{
	Packrack__Completeness *out = malloc(sizeof(*out));

	ck_assert_ptr_nonnull(out);
	packrack__completeness__init(out);
	return out;
}

static void
add(Packrack__Completeness *out, uint64_t first, uint64_t last, int cause, int64_t time)
{
	static const char *const reasons[CAUSES] = {
		"switch", "switch", "write", "no_answer"};
	static const char *const nodes[CAUSES] = {"a", "b", "b", "c"};
	Packrack__Loss l = loss_of(first, last, last - first + 1, time, time);

	l.ranges = 1;
	l.reason = (char *)reasons[cause];
	l.node = (char *)nodes[cause];
	MUST(prm_losses_add(out, &l) == 0);
}

static uint64_t
hash(const Packrack__Loss *l)
{
	return (uint64_t)l->reason[0] * 3 + (uint64_t)l->node[0];
}

/* The sums of list and classes are those of the answer. */
static void
check_sums(const Packrack__Completeness *out, uint64_t packets, uint64_t ranges)
{
	uint64_t packets_told = 0, ranges_told = 0;

	for (size_t i = 0; i < out->n_missing + out->n_missing_classes; i++) {
		const Packrack__Loss *l =
			i < out->n_missing ? out->missing[i]
					   : out->missing_classes[i - out->n_missing];
		uint64_t length = l->count / l->ranges;

		packets_told += l->count;
		ranges_told += l->ranges;
		MUST(l->first_time <= l->last_time);
		if (l->step)
			MUST(l->count == length * l->ranges && l->ranges > 2 &&
				l->last_seq - l->first_seq + 1 ==
					(l->ranges - 1) * l->step + length);
		else if (l->ranges == 1)
			MUST(l->count == l->last_seq - l->first_seq + 1);
	}
	ck_assert_uint_eq(packets_told, packets);
	ck_assert_uint_eq(ranges_told, ranges);
	ck_assert_uint_eq(out->missing_packets, packets);
	ck_assert_uint_eq(out->missing_ranges, ranges);
	ck_assert_uint_le(out->n_missing, PRM_COMPLETENESS_LIST_MAX);
	ck_assert_uint_le(out->n_missing_classes, PRM_COMPLETENESS_CLASSES_MAX + 1);
}

/* What each seq is lost for: cycles of nodes, runs and single packets, one after the other and mixed. */
static void
draw_losses(uint8_t cause[SEQS + 2])
{
	memset(cause, 0, SEQS + 2);
	for (uint32_t kinds = 1 + draw(6); kinds; kinds--) {
		uint32_t at = 1 + draw(SEQS), end = at + draw(SEQS), step = 2 + draw(9);
		uint32_t width = 1 + draw(step - 1), odd = draw(3) ? 0 : draw(60);
		uint8_t c = (uint8_t)(1 + draw(CAUSES));

		for (; at <= SEQS && at <= end; at += step + (odd && !draw(odd)))
			for (uint32_t i = 0; i < width && at + i <= SEQS; i++)
				cause[at + i] = c;
	}
}

START_TEST(test_expand)
{
	static const uint64_t hashes[] = {
		's' * 3 + 'a', 's' * 3 + 'b', 'w' * 3 + 'b', 'n' * 3 + 'c'};
	static uint8_t cause[SEQS + 2];
	uint64_t entries = 0, all = 0;

	for (number = 1; number <= 1000; number++) {
		Packrack__Completeness *out = list_new();
		uint64_t packets = 0, ranges = 0;

		seed = number;
		draw_losses(cause);
		for (uint64_t seq = 1, last; seq <= SEQS; seq = last + 1) {
			for (last = seq; cause[seq] && cause[last + 1] == cause[seq];
				last++)
				;
			if (!cause[seq])
				continue;
			add(out, seq, last, cause[seq] - 1, (int64_t)seq);
			packets += last - seq + 1;
			ranges++;
		}
		prm_losses_sort(out);
		check_sums(out, packets, ranges);
		entries += out->n_missing;
		all += ranges;
		for (size_t i = 0; i < out->n_missing; i++)
			for (uint64_t seq = 1; seq <= SEQS; seq++) {
				const Packrack__Loss *l = out->missing[i];
				uint8_t was = cause[seq];

				if (!loss_has(l, seq))
					continue;
				MUST(was && (int64_t)seq >= l->first_time &&
					hash(l) == hashes[was - 1]);
				cause[seq] = 0;
			}
		for (uint64_t seq = 1; seq <= SEQS; seq++)
			MUST(!cause[seq]);
		out_free(out);
	}
	ck_assert_uint_lt(entries * 4, all);
}
END_TEST

/* More than fits: by cause and minute; then by cause; then together. Sums are exact all the time. */
START_TEST(test_classes)
{
	Packrack__Completeness *out = list_new();
	uint64_t seq = 1, packets = 0, n = 0, by_cause[CAUSES] = {0}, told = 0;

	for (; n < 50000; n++) {
		uint64_t length = 1 + draw(3);
		int cause = (int)draw(CAUSES - 1);

		add(out, seq, seq + length - 1, cause, (int64_t)n * SECOND);
		packets += length;
		by_cause[cause] += length;
		seq += length + 1 + draw(1000);
		if (n % 7919 == 0)
			check_sums(out, packets, n + 1);
	}
	check_sums(out, packets, n);
	ck_assert_uint_eq(out->n_missing, PRM_COMPLETENESS_LIST_MAX);
	ck_assert_uint_gt(out->n_missing_classes, 500);
	for (size_t i = 0; i < out->n_missing_classes; i++)
		if (out->missing_classes[i]->last_time < 15000 * SECOND)
			ck_assert_int_le(out->missing_classes[i]->last_time -
						 out->missing_classes[i]->first_time,
				MINUTE);
	prm_losses_shorten(out, 1000);
	ck_assert_uint_eq(out->n_missing, 1000);
	check_sums(out, packets, n);
	for (size_t i = 0; i < 1000; i++)
		told += hash(out->missing[i]) == 's' * 3 + 'a' ? out->missing[i]->count : 0;
	for (size_t i = 0; i < out->n_missing_classes; i++)
		told += hash(out->missing_classes[i]) == 's' * 3 + 'a'
				? out->missing_classes[i]->count
				: 0;
	ck_assert_uint_eq(told, by_cause[0]);
	out_free(out);
}
END_TEST

/* A node's reasons and names are its own words: as many causes as it likes. */
START_TEST(test_many_causes)
{
	Packrack__Completeness *out = list_new();
	Packrack__Loss l = loss_of(1, 1, 1, 0, 0);
	char reason[16];

	l.ranges = 1;
	for (uint64_t n = 0; n < 30000; n++) {
		l.link = n % 100;
		l.first_seq = l.last_seq = 1 + n;
		snprintf(reason, sizeof(reason), "r%d", (int)n);
		l.reason = reason;
		MUST(prm_losses_add(out, &l) == 0);
	}
	check_sums(out, 30000, 30000);
	ck_assert_str_eq(out->missing_classes[out->n_missing_classes - 1]->reason,
		PRM_MISSING_ONE_OF);
	out_free(out);
}
END_TEST

/* Node n of `nodes` holds each seq that `who` gives it. */
static void
tell_held(struct prm_completeness *c, uint64_t seqs, int nodes, int (*who)(uint64_t seq))
{
	char bits[1024 / 8];

	for (uint64_t first = 1; first <= seqs; first += 1024)
		for (int n = 0; n < nodes; n++) {
			uint64_t low = 0, high = 0;

			memset(bits, 0, sizeof(bits));
			for (uint64_t i = 0; i < 1024 && first + i <= seqs; i++)
				if (who(first + i) == n) {
					low = low ? low : first + i;
					high = first + i;
				}
			for (uint64_t s = low; s && s <= high; s++)
				if (who(s) == n)
					bits[(s - low) / 8] |= (char)(1 << (s - low) % 8);
			if (low)
				batch_held(c, n, 0, low, high, (int64_t)low * 10000,
					(int64_t)high * 10000, bits,
					(int64_t)(first + 1024) * 10000);
		}
}

static int
of_three(uint64_t seq)
{
	return (int)(seq % 3);
}

/* Three nodes in turn, and one of them is lost: a million of three million packets, 10 us apart. */
START_TEST(test_lost_node)
{
	struct prm_completeness *c = make(INT64_MIN, INT64_MAX, 0);
	Packrack__Ledger l = ledger(3000000, INT64_C(30000000000), 0, true);
	Packrack__Completeness *out;

	for (int n = 0; n < 3; n++)
		prm_completeness_node(c, (const char *[]){"a", "b", "c"}[n], NULL);
	prm_completeness_failed(c, 2, "gone");
	tell_held(c, 3000000, 2, of_three);
	end_with(c, 0, NULL, &l, NULL);
	end_with(c, 1, NULL, &l, NULL);
	out = finish(c);
	ck_assert_uint_eq(out->n_missing, 1);
	ck_assert_uint_eq(out->missing[0]->first_seq, 2);
	ck_assert_uint_eq(out->missing[0]->last_seq, 2999999);
	ck_assert_uint_eq(out->missing[0]->step, 3);
	ck_assert_uint_eq(out->missing[0]->ranges, 1000000);
	ck_assert_str_eq(out->missing[0]->reason, PRM_MISSING_NO_ANSWER);
	ck_assert_str_eq(out->missing[0]->node, "c");
	check_sums(out, 1000000, 1000000);
	out_free(out);
}
END_TEST

static int
at_random(uint64_t seq)
{
	uint64_t x = seq * UINT64_C(0x9e3779b97f4a7c15);

	return x >> 60 > 4 ? (int)(x >> 40 & 1) : -1;
}

/* More holes than are kept: their causes become fewer, their sums not. */
START_TEST(test_holes_beyond)
{
	struct prm_completeness *c = make(INT64_MIN, INT64_MAX, 0);
	Packrack__Ledger l = ledger(1600000, INT64_C(16000000000), 0, true);
	Packrack__Completeness *out;
	uint64_t packets = 0, ranges = 0;

	for (uint64_t seq = 1; seq <= 1600000; seq++)
		if (at_random(seq) < 0) {
			packets++;
			ranges += seq == 1 || at_random(seq - 1) >= 0;
		}
	prm_completeness_node(c, "a", NULL);
	prm_completeness_node(c, "b", NULL);
	tell_held(c, 1600000, 2, at_random);
	end_with(c, 0, NULL, &l, NULL);
	end_with(c, 1, NULL, &l, NULL);
	out = finish(c);
	ck_assert_uint_gt(ranges, 2 * PRM_COMPLETENESS_GAPS_MAX);
	ck_assert_uint_eq(out->n_missing, PRM_COMPLETENESS_LIST_MAX);
	check_sums(out, packets, ranges);
	out_free(out);
}
END_TEST

static void
fill(TCase *tests)
{
	tcase_set_timeout(tests, 120);
	tcase_add_test(tests, test_expand);
	tcase_add_test(tests, test_classes);
	tcase_add_test(tests, test_many_causes);
	tcase_add_test(tests, test_lost_node);
	tcase_add_test(tests, test_holes_beyond);
}

int
main(void)
{
	return unit_run("losses", fill);
}
