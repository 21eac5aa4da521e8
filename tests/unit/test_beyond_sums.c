/* SPDX-License-Identifier: Apache-2.0 */
/* What a merger makes of the sums of a cutoff that nodes report. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "merger/beyond.h"
#include "tests/unit/unit.h"

static struct pr_error err;

static int
add(struct prm_beyond *b, const char *name, uint64_t seq, uint64_t number, uint64_t packets,
	bool may)
{
	Packrack__Beyond sum = PACKRACK__BEYOND__INIT;

	sum.epoch = 7;
	sum.link = 0xd000 + (uint32_t)(number & 1);
	sum.seq = seq;
	sum.number = number;
	sum.name = (char *)(uintptr_t)name;
	sum.packets = packets;
	sum.bytes = 100 * packets;
	sum.may = may;
	return prm_beyond_add(b, &sum, &err);
}

static Packrack__Completeness *
finish(struct prm_beyond *b)
{
	Packrack__Completeness *out = malloc(sizeof *out);

	packrack__completeness__init(out);
	prm_beyond_finish(b, out);
	ck_assert_uint_eq(b->count + b->class_count, 0);
	return out;
}

static void
check(const Packrack__BeyondClass *c, const char *name, uint64_t packets,
	uint64_t connections, bool at_most)
{
	ck_assert_str_eq(c->name, name);
	ck_assert_uint_eq(c->packets, packets);
	ck_assert_uint_eq(c->bytes, 100 * packets);
	ck_assert_uint_eq(c->connections, connections);
	ck_assert_int_eq(c->at_most, at_most);
}

START_TEST(none)
{
	struct prm_beyond b = {0};
	Packrack__Completeness *out = finish(&b);

	ck_assert_uint_eq(out->n_beyond, 0);
	packrack__completeness__free_unpacked(out, NULL);
	prm_beyond_free(&b);
}
END_TEST

/* Copies of two nodes are one; of a connection there are several sums; the larger class is first. */
START_TEST(by_class)
{
	struct prm_beyond b = {0};

	for (int copy = 0; copy < 2; copy++) {
		ck_assert_int_eq(add(&b, "small", 1, 2, 5, false), 0);
		ck_assert_int_eq(add(&b, "large", 2, 4, 100, false), 0);
		ck_assert_int_eq(add(&b, "large", 3, 4, 10, true), 0);
		ck_assert_int_eq(add(&b, "large", 4, 6, 1, false), 0);
	}
	/* the same numbers, of another link */
	ck_assert_int_eq(add(&b, "small", 1, 3, 7, false), 0);
	Packrack__Completeness *out = finish(&b);
	ck_assert_uint_eq(out->n_beyond, 2);
	check(out->beyond[0], "large", 111, 2, true);
	check(out->beyond[1], "small", 12, 2, false);
	packrack__completeness__free_unpacked(out, NULL);
}
END_TEST

/* In any order, and however often each comes: the same. */
START_TEST(any_order)
{
	enum { SUMS = 1000, CONNECTIONS = 90 };
	static struct {
		uint64_t number, packets;
		const char *name;
	} sums[SUMS];
	static const char *const names[] = {"a", "b", "c"};
	struct prm_beyond b = {0};
	uint64_t packets[3] = {0}, connections[3] = {0};
	bool seen[CONNECTIONS] = {false};

	srand(3 + (unsigned)_i);
	for (int i = 0; i < SUMS; i++) {
		unsigned n = (unsigned)rand() % CONNECTIONS;

		sums[i].number = n;
		sums[i].packets = (uint64_t)rand() % 1000 + 1;
		sums[i].name = names[n % 3];
		packets[n % 3] += sums[i].packets;
		connections[n % 3] += !seen[n];
		seen[n] = true;
	}
	for (int i = 0; i < 3 * SUMS; i++) {
		int at = i < SUMS ? i : rand() % SUMS;

		ck_assert_int_eq(add(&b, sums[at].name, (uint64_t)at + 1, sums[at].number,
					 sums[at].packets, false),
			0);
	}
	Packrack__Completeness *out = finish(&b);
	ck_assert_uint_eq(out->n_beyond, 3);
	for (int i = 0; i < 3; i++) {
		const Packrack__BeyondClass *c = out->beyond[i];
		int k = c->name[0] - 'a';

		check(c, names[k], packets[k], connections[k], false);
		if (i)
			ck_assert_uint_ge(out->beyond[i - 1]->bytes, c->bytes);
	}
	packrack__completeness__free_unpacked(out, NULL);
}
END_TEST

/* More sums than are compared: those beyond it are added, and the class says "at most". */
START_TEST(most)
{
	struct prm_beyond b = {0};

	for (uint64_t i = 0; i < PRM_BEYOND_MOST; i++)
		unit_must(add(&b, i % 2 ? "odd" : "even", i + 1, 2, 1, false) == 0);
	ck_assert_int_eq(add(&b, "odd", 2, 2, 5, false), 0); /* twice: not seen */
	ck_assert_uint_eq(b.count, PRM_BEYOND_MOST);
	Packrack__Completeness *out = finish(&b);
	ck_assert_uint_eq(out->n_beyond, 2);
	check(out->beyond[0], "odd", PRM_BEYOND_MOST / 2 + 5, 2, true);
	check(out->beyond[1], "even", PRM_BEYOND_MOST / 2, 1, false);
	packrack__completeness__free_unpacked(out, NULL);
}
END_TEST

START_TEST(too_many_classes)
{
	struct prm_beyond b = {0};
	char name[16];

	for (int i = 0; i <= PRM_BEYOND_CLASSES_MAX; i++) {
		snprintf(name, sizeof name, "c%d", i);
		ck_assert_int_eq(add(&b, name, (uint64_t)i + 1, 2, 1, false),
			i < PRM_BEYOND_CLASSES_MAX ? 0 : -1);
	}
	ck_assert_str_eq(err.text, "it reported too many classes of a cutoff");
	/* what is there goes on */
	ck_assert_int_eq(add(&b, "c5", 1000, 2, 1, false), 0);
	prm_beyond_free(&b);
	ck_assert_ptr_null(b.classes);
}
END_TEST

/* Classes of two rounds of one question. */
START_TEST(rounds)
{
	Packrack__BeyondClass now = PACKRACK__BEYOND_CLASS__INIT, before = now;

	now.name = (char *)"a";
	before.name = (char *)"b";
	now.packets = before.packets = 3;
	now.bytes = before.bytes = 300;
	now.connections = 1;
	ck_assert(!prm_beyond_same(&now, &before));
	check(&now, "a", 3, 1, false);
	before.name = now.name;
	ck_assert(prm_beyond_same(&now, &before));
	check(&now, "a", 6, 1, false);
	before.connections = 2; /* some of them may be those of now */
	ck_assert(prm_beyond_same(&now, &before));
	check(&now, "a", 9, 3, true);
}
END_TEST

static void
fill(TCase *t)
{
	tcase_add_test(t, none);
	tcase_add_test(t, by_class);
	tcase_add_loop_test(t, any_order, 0, 3);
	tcase_add_test(t, most);
	tcase_add_test(t, too_many_classes);
	tcase_add_test(t, rounds);
}

int
main(void)
{
	return unit_run("beyond sums", fill);
}
