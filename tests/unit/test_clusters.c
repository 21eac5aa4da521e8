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
#define ETHERNET 2
#define WLAN 106
#define BLOCKS 6 /* two sizes, and three link types: one is not told */

static struct pr_error err;
static struct prm_clusters *clusters;
static struct pr_summary summary[SUMMARIES];
static struct prm_cluster_slot place[SUMMARIES];
static uint8_t *body[SUMMARIES];

/* Not told, Ethernet, or 802.11. */
static uint32_t
linktype(unsigned i)
{
	return (uint32_t[]){0, ETHERNET, WLAN}[i / 3 % 3];
}

static void
add(unsigned i)
{
	place[i] = prm_clusters_add(
		clusters, i < IN_CLUSTER ? "rack" : "", 5, linktype(i), &summary[i]);
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
	clusters = prm_clusters_create(1 << 20);
	for (unsigned i = 0; i < SUMMARIES; i++) {
		make_summary(i);
		add(i);
	}
}

static void
end(void)
{
	for (unsigned i = 0; i < SUMMARIES; i++) {
		prm_clusters_remove(clusters, place[i]);
		free(body[i]);
	}
	ck_assert_uint_eq(prm_clusters_count(clusters), 0);
	ck_assert_uint_eq(prm_clusters_bytes(clusters), 0);
	prm_clusters_destroy(&clusters);
}

/* What each summary says by itself is what its cluster does. true: none of Ethernet may match. */
static bool
ask(const Packrack__Query *query)
{
	struct prm_cluster_cache asked = {0};
	struct prm_lookups l;
	bool none;

	ck_assert_int_eq(prm_lookups_init(&l, query), 0);
	for (unsigned i = 0; i < SUMMARIES; i++) {
		bool may =
			prm_lookups_may(&l, linktype(i), summary[i].bits, summary[i].log2);

		ck_assert(may || linktype(i) == ETHERNET);
		ck_assert(prm_clusters_exclude(clusters, place[i], &l, &asked) ==
			  (i < IN_CLUSTER && !may));
	}
	ck_assert_uint_eq(asked.tested, BLOCKS);
	none = asked.excluded == 2;
	prm_lookups_free(&l);
	prm_cluster_cache_free(&asked);
	return none;
}

START_TEST(a_cluster_is_asked_as_one)
{
	uint32_t op[] = {2, 2, 3}, left[] = {0, 1, 0}, right[] = {0, 0, 1};
	uint64_t hash[2];
	uint32_t anything = 1, zero = 0;
	Packrack__Lookups lookups = PACKRACK__LOOKUPS__INIT, wlan = PACKRACK__LOOKUPS__INIT,
			  *list[] = {&wlan, &lookups};
	Packrack__Program program = PACKRACK__PROGRAM__INIT,
			  *programs[] = {&program, &program};
	Packrack__Query q = PACKRACK__QUERY__INIT;
	unsigned none = 0;

	wlan.linktype = WLAN - 1;
	wlan.n_op = wlan.n_left = wlan.n_right = 1;
	wlan.op = &anything;
	wlan.left = wlan.right = &zero;
	lookups.linktype = ETHERNET - 1;
	lookups.n_op = lookups.n_left = lookups.n_right = 3;
	lookups.n_hash = 2;
	lookups.op = op;
	lookups.left = left;
	lookups.right = right;
	lookups.hash = hash;
	q.programs = programs;
	q.lookups = list;
	q.n_programs = q.n_lookups = 2;
	for (unsigned i = 0; i < 2000; i++) {
		hash[0] = hash_of(draw(4000));
		hash[1] = hash_of(draw(4000));
		none += ask(&q);
	}
	ck_assert_uint_gt(none, 500); /* all of the cluster, with two tests */
}
END_TEST

START_TEST(a_place_that_is_free_is_used_again)
{
	ck_assert_uint_eq(prm_clusters_count(clusters), BLOCKS);
	prm_clusters_remove(clusters, place[0]);
	add(0);
	ck_assert_uint_eq(prm_clusters_count(clusters), BLOCKS);
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
