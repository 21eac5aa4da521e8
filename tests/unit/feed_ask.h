/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "indexer/filter/filter.h"
#include "indexer/query/query.h"
#include "tests/unit/feed_volume.h"

/* What a query gives by the index, held against looking at each packet. */

struct answer {
	uint64_t *seqs;
	size_t count;
	uint64_t held; /* seqs said to be held */
	Packrack__End figures;
};

static inline uint64_t
count_held(const struct pri_range_list *list)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < list->count; i++) {
		const struct pr_summary_run *h = &list->items[i];

		if (!h->bits)
			sum += h->last - h->first + 1;
		for (size_t j = 0; h->bits && j < h->bits_len; j++)
			sum += (uint64_t)__builtin_popcount(h->bits[j]);
	}
	return sum;
}

/* all: with a filter that no index knows, so that each packet is looked at. */
static inline struct answer
ask(struct pri_volume *view, const char *filter, bool all)
{
	struct pri_query_spec spec = {.since = PR_TIME_MIN, .until = PR_TIME_MAX};
	struct pr_bpf *program = pri_filter_compile(1, filter, &err);
	struct answer a = {.seqs = malloc(400000 * sizeof(*a.seqs))};
	struct pri_range_list held = {0};
	struct pri_query *q;
	struct pr_packet p;
	int64_t frontier;
	int rc;

	ck_assert(program != NULL);
	if (!all)
		ck_assert_int_eq(pr_bpf_set_add(&spec.programs, program, &err), 0);
	q = pri_query_create(view, &spec, &err);
	ck_assert_msg(q != NULL, "%s", err.text);
	while ((rc = pri_query_next(q, &p, &err)) != PR_SOURCE_END) {
		unit_must(rc != PR_SOURCE_ERROR);
		if (rc == PR_SOURCE_PACKET && (!all || pr_bpf_run(program, &p)))
			a.seqs[a.count++] = p.seq;
	}
	if (all)
		pr_bpf_destroy(&program);
	ck_assert_int_eq(pri_query_take_coverage(q, &held, &frontier, &err), 0);
	a.held = count_held(&held);
	pri_range_list_free(&held);
	a.figures = *pri_query_stats(q);
	pri_query_destroy(&q);
	return a;
}

static const char *const filters[] = {"host 10.0.51.44", "src host 10.1.0.1",
	"net 172.16.20.0/24", "tcp port 5000", "udp", "port 77", "portrange 2000-2003",
	"src portrange 1100-1200", "host 10.0.51.44 or net 172.17.3.0/24",
	"net 10.0.8.0/21 and udp", "greater 990", "host 1.2.3.4", "arp", "not tcp",
	"tcp[13] & 2 != 0", "ether host 00:00:00:00:00:00", "vlan",
	"host 10.0.51.44 and tcp port 443", "host 10.0.51.44 and port 442"};

/* Equal to looking at each packet, with all seqs accounted for; returns segments left out. */
static inline uint64_t
compare_all(struct pri_volume *view, uint64_t *level2)
{
	uint64_t skipped = 0;

	*level2 = 0;
	for (size_t i = 0; i < COUNT(filters); i++) {
		struct answer with = ask(view, filters[i], false),
			      without = ask(view, filters[i], true);

		ck_assert_msg(with.count == without.count, "%s: %zu, not %zu", filters[i],
			with.count, without.count);
		ck_assert_mem_eq(with.seqs, without.seqs, with.count * sizeof(uint64_t));
		ck_assert_msg(with.held == without.held, "%s: %llu held, not %llu",
			filters[i], (unsigned long long)with.held,
			(unsigned long long)without.held);
		ck_assert_uint_eq(with.figures.index_damaged, 0);
		ck_assert_uint_eq(without.figures.skipped_segments, 0);
		skipped += with.figures.skipped_segments;
		*level2 += with.figures.skipped_level2;
		free(with.seqs);
		free(without.seqs);
	}
	return skipped;
}

/* The same for the volume as it is now. */
static inline uint64_t
compare_now(uint64_t *level2)
{
	struct pri_volume *view = open_view();
	uint64_t skipped = compare_all(view, level2);

	pri_volume_close(&view);
	return skipped;
}
