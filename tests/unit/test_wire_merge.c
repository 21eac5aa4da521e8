/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "proto/wire/source.h"
#include "tests/unit/unit.h"

/* An input of the test: packets from an array, WAITs between them by chance or by script. */
struct vector {
	struct pr_source source;
	const struct pr_packet *packets;
	int count, at;
	int wait_one_in; /* 0: never */
	int wait_at; /* waits here until released, -1 never */
	int fail_at; /* ERROR here, -1 never */
	int *destroyed;
};

static int
vector_next(struct pr_source *source, struct pr_packet *out, struct pr_error *err)
{
	struct vector *v = (struct vector *)source;
	if (v->at == v->fail_at)
		return pr_error_set(err, "input broke at %d", v->at);
	if (v->at == v->wait_at || (v->wait_one_in && rand() % v->wait_one_in == 0))
		return PR_SOURCE_WAIT;
	if (v->at == v->count)
		return PR_SOURCE_END;
	*out = v->packets[v->at++];
	return PR_SOURCE_PACKET;
}

static void
vector_destroy(struct pr_source *source)
{
	struct vector *v = (struct vector *)source;
	if (v->destroyed)
		++*v->destroyed;
	free(v);
}

static struct vector *
vector(const struct pr_packet *packets, int count)
{
	struct vector *v = calloc(1, sizeof *v);
	v->source.next = vector_next;
	v->source.destroy = vector_destroy;
	v->packets = packets;
	v->count = count;
	v->wait_at = v->fail_at = -1;
	return v;
}

static struct pr_source *
merge_of(struct vector *a, struct vector *b)
{
	struct pr_error err;
	struct pr_source *m = pr_merge_create(&err);
	ck_assert_ptr_nonnull(m);
	ck_assert_int_eq(pr_merge_add(m, &a->source, &err), 0);
	if (b)
		ck_assert_int_eq(pr_merge_add(m, &b->source, &err), 0);
	return m;
}

static void
expect(struct pr_source *m, int result, uint64_t seq)
{
	struct pr_packet p = {0};
	struct pr_error err;
	ck_assert_int_eq(pr_source_next(m, &p, &err), result);
	if (result == PR_SOURCE_PACKET)
		ck_assert_uint_eq(p.seq, seq);
}

static struct pr_packet
packet(int64_t otime, uint64_t seq)
{
	return (struct pr_packet){.otime = otime, .time = otime, .seq = seq, .epoch = 1};
}

START_TEST(order_of_packets)
{
	/* each greater than the one before, by one field */
	const struct pr_packet p[] = {
		{.otime = INT64_MIN, .link = 9, .epoch = 9, .seq = 9},
		{.otime = -1, .link = 9, .epoch = 9, .seq = 9},
		{.otime = 1, .link = 0, .epoch = 9, .seq = 9},
		{.otime = 1, .link = 1, .epoch = 8, .seq = 9},
		{.otime = 1, .link = 1, .epoch = UINT64_MAX, .seq = 2},
		{.otime = 1, .link = 1, .epoch = UINT64_MAX, .seq = UINT64_MAX},
		{.otime = INT64_MAX, .link = 0, .epoch = 0, .seq = 0},
	};
	for (int i = 0; i < 7; i++)
		for (int k = 0; k < 7; k++) {
			int c = pr_packet_compare(&p[i], &p[k]);
			ck_assert_int_eq((c > 0) - (c < 0), (i > k) - (i < k));
		}
}
END_TEST

START_TEST(no_inputs)
{
	struct pr_source *m = pr_merge_create(NULL);
	expect(m, PR_SOURCE_END, 0);
	expect(m, PR_SOURCE_END, 0);
	pr_source_destroy(&m);
	pr_source_destroy(&m);
}
END_TEST

START_TEST(waits_for_all)
{
	const struct pr_packet a[] = {packet(1, 1), packet(3, 3)}, b[] = {packet(2, 2)};
	struct vector *va = vector(a, 2), *vb = vector(b, 1);
	struct pr_source *m = merge_of(va, vb);

	vb->wait_at = 0;
	expect(m, PR_SOURCE_WAIT, 0);
	expect(m, PR_SOURCE_WAIT, 0);
	vb->wait_at = 1;
	expect(m, PR_SOURCE_PACKET, 1);
	expect(m, PR_SOURCE_PACKET, 2);
	expect(m, PR_SOURCE_WAIT, 0); /* b may still say 2.5 */
	va->wait_at = 2;
	expect(m, PR_SOURCE_WAIT, 0);
	vb->wait_at = -1;
	expect(m, PR_SOURCE_PACKET, 3);
	expect(m, PR_SOURCE_WAIT, 0);
	va->wait_at = -1;
	expect(m, PR_SOURCE_END, 0);
	pr_source_destroy(&m);
}
END_TEST

START_TEST(copies_are_given_once)
{
	struct pr_packet a[] = {packet(1, 1), packet(2, 2), packet(3, 3)};
	struct pr_packet b[] = {packet(1, 1), packet(2, 2), packet(4, 4)};
	struct pr_packet out;
	/* the second copy is the first input's for seq 1, the second's for seq 2 */
	a[0].flags = b[1].flags = PR_PACKET_SECOND;
	struct pr_source *m = merge_of(vector(a, 3), vector(b, 3));

	for (uint64_t seq = 1; seq <= 4; seq++) {
		ck_assert_int_eq(pr_source_next(m, &out, NULL), PR_SOURCE_PACKET);
		ck_assert_uint_eq(out.seq, seq);
		ck_assert_uint_eq(out.flags, 0);
	}
	expect(m, PR_SOURCE_END, 0);
	pr_source_destroy(&m);
}
END_TEST

START_TEST(near_copies_are_not_copies)
{
	struct pr_packet a[] = {packet(1, 1), packet(1, 2), packet(2, 3)};
	struct pr_packet b[] = {packet(1, 1), packet(1, 2), packet(2, 4)};
	b[0].epoch = b[1].epoch = 2;
	struct pr_source *m = merge_of(vector(a, 3), vector(b, 3));
	const uint64_t seqs[] = {1, 2, 1, 2, 3, 4};

	for (int i = 0; i < 6; i++)
		expect(m, PR_SOURCE_PACKET, seqs[i]);
	expect(m, PR_SOURCE_END, 0);
	pr_source_destroy(&m);
	/* strays of two nodes that have counted alike */
	for (int i = 0; i < 3; i++)
		a[i].flags = PR_PACKET_STRAY;
	m = merge_of(vector(a, 3), vector(a, 3));
	for (int i = 0; i < 6; i++)
		expect(m, PR_SOURCE_PACKET, (uint64_t)(1 + i / 2));
	expect(m, PR_SOURCE_END, 0);
	pr_source_destroy(&m);
}
END_TEST

START_TEST(input_added_later)
{
	const struct pr_packet a[] = {packet(1, 1), packet(4, 4), packet(7, 7)};
	const struct pr_packet b[] = {
		packet(1, 1), packet(4, 4), packet(5, 5), packet(6, 6)};
	struct pr_source *m = merge_of(vector(a, 3), NULL);

	expect(m, PR_SOURCE_PACKET, 1);
	expect(m, PR_SOURCE_PACKET, 4);
	ck_assert_int_eq(pr_merge_add(m, &vector(b + 1, 3)->source, NULL), 0);
	expect(m, PR_SOURCE_PACKET, 5); /* 4 has been given */
	for (int i = 0; i < 20; i++)
		ck_assert_int_eq(pr_merge_add(m, &vector(b + 3, 1)->source, NULL), 0);
	expect(m, PR_SOURCE_PACKET, 6);
	expect(m, PR_SOURCE_PACKET, 7);
	expect(m, PR_SOURCE_END, 0);
	const struct pr_packet late = packet(8, 8);
	ck_assert_int_eq(pr_merge_add(m, &vector(&late, 1)->source, NULL), 0);
	expect(m, PR_SOURCE_PACKET, 8);
	expect(m, PR_SOURCE_END, 0);
	pr_source_destroy(&m);
}
END_TEST

START_TEST(error_stays)
{
	const struct pr_packet a[] = {packet(1, 1), packet(3, 3)}, b[] = {packet(2, 2)};
	struct vector *va = vector(a, 2);
	int destroyed = 0;
	struct pr_source *m = merge_of(va, vector(b, 1));
	struct pr_packet out;
	struct pr_error err;

	va->fail_at = 1;
	va->destroyed = &destroyed;
	expect(m, PR_SOURCE_PACKET, 1);
	for (int i = 0; i < 3; i++) {
		memset(&err, 0, sizeof err);
		ck_assert_int_eq(pr_source_next(m, &out, &err), PR_SOURCE_ERROR);
		ck_assert_str_eq(err.text, "input broke at 1");
	}
	ck_assert_int_eq(pr_source_next(m, &out, NULL), PR_SOURCE_ERROR);
	ck_assert_int_eq(destroyed, 0);
	pr_source_destroy(&m);
	ck_assert_int_eq(destroyed, 1);
}
END_TEST

static int
compare(const void *a, const void *b)
{
	return pr_packet_compare(a, b);
}

#define TOTAL 8000

/* Any packets over any number of inputs come out as a sort says, some of them twice put in. */
START_TEST(property_as_sorted)
{
	static struct pr_packet all[TOTAL], parts[40][TOTAL];
	int counts[40] = {0}, destroyed = 0, waits = 0, got, inputs = 1 + _i * 3;
	struct pr_packet out;

	srand(1 + (unsigned)_i);
	for (int i = 0; i < TOTAL; i++)
		all[i] = (struct pr_packet){.otime = rand() % 3000 - 1000,
			.link = (uint16_t)(rand() % 3),
			.epoch = (uint64_t)(rand() % 2),
			.seq = (uint64_t)i};
	qsort(all, TOTAL, sizeof all[0], compare);
	for (int i = 0; i < TOTAL; i++) {
		int in = rand() % inputs, copy = rand() % inputs;
		parts[in][counts[in]++] = all[i];
		if (copy != in) {
			parts[copy][counts[copy]] = all[i];
			parts[copy][counts[copy]++].flags = PR_PACKET_SECOND;
		}
	}
	struct pr_source *m = pr_merge_create(NULL);
	for (int i = 0; i < inputs; i++) {
		struct vector *v = vector(parts[i], counts[i]);
		v->wait_one_in = _i % 2 ? 5 : 0;
		v->destroyed = &destroyed;
		ck_assert_int_eq(pr_merge_add(m, &v->source, NULL), 0);
	}
	for (int i = 0; i < TOTAL; i++) {
		while ((got = pr_source_next(m, &out, NULL)) == PR_SOURCE_WAIT)
			waits++;
		ck_assert_int_eq(got, PR_SOURCE_PACKET);
		ck_assert_uint_eq(out.seq, all[i].seq);
		ck_assert_uint_eq(out.flags, 0);
	}
	while ((got = pr_source_next(m, &out, NULL)) == PR_SOURCE_WAIT)
		waits++;
	ck_assert_int_eq(got, PR_SOURCE_END);
	ck_assert_int_eq(waits > 0, _i % 2);
	ck_assert_int_eq(destroyed, inputs);
	pr_source_destroy(&m);
	ck_assert_int_eq(destroyed, inputs);
}
END_TEST

static void
fill(TCase *t)
{
	tcase_add_test(t, order_of_packets);
	tcase_add_test(t, no_inputs);
	tcase_add_test(t, waits_for_all);
	tcase_add_test(t, copies_are_given_once);
	tcase_add_test(t, near_copies_are_not_copies);
	tcase_add_test(t, input_added_later);
	tcase_add_test(t, error_stays);
	tcase_add_loop_test(t, property_as_sorted, 0, 13);
}

int
main(void)
{
	return unit_run("wire_merge", fill);
}
