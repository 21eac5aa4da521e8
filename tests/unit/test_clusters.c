/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdlib.h>

#include "merger/clusters.h"
#include "tests/unit/draw.h"
#include "tests/unit/unit.h"

/* Summaries of nodes, of two sizes: all but the last two are of a cluster. */
#define SUMMARIES 20
#define IN_CLUSTER 18
#define KEYS_MAX 400

static struct pr_error err;
static struct pr_clusters *clusters;
static struct pr_summary summary[SUMMARIES];
static struct pr_clusters_place place[SUMMARIES];
static uint8_t *body[SUMMARIES];

static void
add(unsigned i)
{
	place[i] = pr_clusters_add(clusters, i < IN_CLUSTER ? "rack" : "", 5, &summary[i]);
	ck_assert(!place[i].block == (i >= IN_CLUSTER));
}

static void
make_summary(unsigned i)
{
	const struct pr_summary_span span = {.segments = 1, .first_seq = 1, .last_seq = 1};
	size_t count = i % 3 ? KEYS_MAX / 2 : KEYS_MAX, len;
	uint64_t hashes[KEYS_MAX];

	for (unsigned j = 0; j < count; j++)
		hashes[j] = hash_of(draw(3000));
	body[i] = malloc(pr_summary_size(count, NULL, 0));
	len = pr_summary_write(&span, hashes, count, NULL, 0, 10, body[i]);
	ck_assert_int_eq(pr_summary_open(&summary[i], body[i], len, &err), 0);
}

static void
begin(void)
{
	seed = 6;
	clusters = pr_clusters_create(1 << 20);
	for (unsigned i = 0; i < SUMMARIES; i++) {
		make_summary(i);
		add(i);
	}
}

static void
end(void)
{
	for (unsigned i = 0; i < SUMMARIES; i++) {
		pr_clusters_remove(clusters, place[i]);
		free(body[i]);
	}
	ck_assert_uint_eq(pr_clusters_count(clusters), 0);
	ck_assert_uint_eq(pr_clusters_bytes(clusters), 0);
	pr_clusters_destroy(&clusters);
}

/* For both keys: what each summary says by itself is what its cluster does. true: none may match. */
static bool
ask(const Packrack__Query *query)
{
	struct pr_clusters_asked asked = {0};
	struct pr_lookups l;
	bool none;

	ck_assert_int_eq(pr_lookups_init(&l, query), 0);
	for (unsigned i = 0; i < SUMMARIES; i++) {
		bool may = pr_lookups_may(&l, summary[i].bits, summary[i].log2);

		ck_assert(pr_clusters_exclude(clusters, place[i], &l, &asked) ==
			  (i < IN_CLUSTER && !may));
	}
	ck_assert_uint_eq(asked.tested, 3); /* 12 of one size, 6 of the other */
	none = asked.excluded == 3;
	pr_lookups_free(&l);
	pr_clusters_asked_free(&asked);
	return none;
}

START_TEST(a_cluster_is_asked_as_one)
{
	uint32_t op[] = {2, 2, 3}, left[] = {0, 1, 0}, right[] = {0, 0, 1};
	uint64_t hash[2];
	Packrack__Lookups lookups = PACKRACK__LOOKUPS__INIT, *list[] = {&lookups};
	Packrack__Program program = PACKRACK__PROGRAM__INIT, *programs[] = {&program};
	Packrack__Query q = PACKRACK__QUERY__INIT;
	unsigned none = 0;

	lookups.n_op = lookups.n_left = lookups.n_right = 3;
	lookups.n_hash = 2;
	lookups.op = op;
	lookups.left = left;
	lookups.right = right;
	lookups.hash = hash;
	q.programs = programs;
	q.lookups = list;
	q.n_programs = q.n_lookups = 1;
	for (unsigned i = 0; i < 2000; i++) {
		hash[0] = hash_of(draw(4000));
		hash[1] = hash_of(draw(4000));
		none += ask(&q);
	}
	ck_assert_uint_gt(none, 500); /* all of the cluster, with three tests */
}
END_TEST

START_TEST(a_place_that_is_free_is_used_again)
{
	ck_assert_uint_eq(pr_clusters_count(clusters), 3);
	pr_clusters_remove(clusters, place[0]);
	add(0);
	ck_assert_uint_eq(pr_clusters_count(clusters), 3);
}
END_TEST

static void
fill(TCase *tc)
{
	tcase_add_checked_fixture(tc, begin, end);
	tcase_add_test(tc, a_cluster_is_asked_as_one);
	tcase_add_test(tc, a_place_that_is_free_is_used_again);
}

int
main(void)
{
	return unit_run("clusters", fill);
}
