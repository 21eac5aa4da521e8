/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "indexer/feed.h"
#include "indexer/filter.h"
#include "indexer/query.h"
#include "logger/append.h"
#include "proto/base/clock.h"
#include "proto/wire/cursor.h"
#include "tests/unit/unit.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))
#define EPOCH 77
#define VOLUME_BYTES (20u << 20)

static struct pr_error err;
static char path[64];
static struct sfs *sfs;
static struct pr_append *append;
static uint64_t seq;

static uint32_t
pick(uint32_t n)
{
	return (uint32_t)random() % n;
}

/* ---- a volume ---- */

static void
open_writer(void)
{
	const char *paths[] = {path};
	const struct sfs_open_options o = {.writer = true, .no_direct = true};
	const struct pr_append_options ao = {0};

	sfs = sfs_open(paths, 1, &o, &err);
	ck_assert_msg(sfs != NULL, "%s", err.text);
	append = pr_append_create(sfs, &ao, &err);
	ck_assert(append != NULL);
}

static void
close_writer(void)
{
	ck_assert_int_eq(pr_append_flush(append, &err), 0);
	pr_append_destroy(&append);
	sfs_close(&sfs);
}

static void
begin(void)
{
	const char *paths[] = {path};
	const struct sfs_create_options o = {
		.size = VOLUME_BYTES, .block_size = 512 * 1024, .force = true};

	snprintf(path, sizeof(path), "/tmp/packrack-feed-%d", getpid());
	ck_assert_int_eq(sfs_create(paths, 1, &o, &err), 0);
	srandom(1);
	seq = 0;
	open_writer();
}

static void
end(void)
{
	unlink(path);
}

/* Neighbours have addresses of their own: what one segment holds, few others do. */
static void
put_packets(unsigned count, unsigned step)
{
	uint8_t d[120];

	for (unsigned i = 0; i < count; i++) {
		struct pr_packet p = {.epoch = EPOCH,
			.linktype = 1,
			.data = d,
			.caplen = 100,
			.len = 100 + pick(900)};

		seq += step ? step : 1 + pick(3);
		p.seq = seq;
		p.time = p.otime = (int64_t)seq * 1000000;
		memset(d, 0, sizeof(d));
		pr_put_be16(d + 12, 0x0800);
		d[14] = 0x45;
		d[23] = pick(10) ? 6 : 17;
		pr_put_be32(d + 26, 0x0a000000 + (uint32_t)seq * 131 + pick(2));
		pr_put_be32(d + 30, 0xac100000 + (uint32_t)(seq / 4) * 517 + pick(3));
		pr_put_be16(d + 34, (uint16_t)(1024 + seq % 60000));
		pr_put_be16(d + 36, (uint16_t)(pick(50) ? 443 : pick(1000)));
		unit_must(pr_append_packet(append, &p) == 0);
		if (i % 64 == 0)
			pr_append_tick(append, pr_now_mono());
	}
}

/* ---- indexing ---- */

static unsigned refuse; /* the sink, so many times */
static unsigned level[4]; /* records by level */

static int
sink(void *arg, const struct pr_index_record *r)
{
	const struct pr_index_body body = {.link = r->link,
		.level = r->level,
		.first_sequence = r->first_sequence,
		.check = r->check,
		.segments = r->segments,
		.min_time = r->min_time,
		.max_time = r->max_time,
		.body = r->body,
		.len = r->len};

	(void)arg;
	if (refuse) {
		refuse--;
		return 1;
	}
	ck_assert_msg(pr_append_index(append, &body, &err) == 0, "%s", err.text);
	level[r->level]++;
	return 0;
}

static struct pr_view *
open_view(void)
{
	const char *paths[] = {path};
	struct pr_view *view =
		pr_view_open(paths, 1, PR_VIEW_CACHED | PR_VIEW_SUMMARIES, &err);

	ck_assert_msg(view != NULL, "%s", err.text);
	ck_assert_int_eq(pr_view_refresh(view, true, INT64_MAX, &err), 0);
	return view;
}

/* Indexes what is there; returns how many segments that were. */
static uint64_t
index_all(bool group)
{
	struct pr_view *view = open_view();
	struct pr_feed *feed = pr_feed_create(view, sink, NULL, &err);
	struct pr_feed_figures f;

	do
		while (pr_feed_step(feed, INT64_MAX, &err) > 0)
			;
	while (pr_feed_finish(feed, group, &err) == 0);
	while (pr_feed_step(feed, INT64_MAX, &err) > 0)
		;
	ck_assert_int_eq(pr_feed_finish(feed, group, &err), 1);
	pr_feed_figures(feed, &f);
	ck_assert_uint_eq(f.behind, 0);
	ck_assert_uint_eq(f.built.damaged, 0);
	pr_feed_destroy(&feed);
	pr_view_close(&view);
	return f.built.segments;
}

/* ---- asking ---- */

struct answer {
	uint64_t *seqs;
	size_t count;
	uint64_t held; /* seqs said to be held */
	struct pr_query_figures figures;
};

static uint64_t
count_held(const struct pr_held_list *list)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < list->count; i++) {
		const struct pr_held *h = &list->items[i];

		if (!h->bits)
			sum += h->last - h->first + 1;
		for (size_t j = 0; h->bits && j < h->bits_len; j++)
			sum += (uint64_t)__builtin_popcount(h->bits[j]);
	}
	return sum;
}

/* all: with a filter that no index knows, so that each packet is looked at. */
static struct answer
ask(struct pr_view *view, const char *filter, bool all)
{
	struct pr_query_spec spec = {.since = PR_TIME_MIN, .until = PR_TIME_MAX};
	struct pr_program *program = pr_filter_compile(1, 0, filter, &err);
	struct answer a = {.seqs = malloc(400000 * sizeof(*a.seqs))};
	struct pr_held_list held = {0};
	struct pr_query *q;
	struct pr_packet p;
	int64_t frontier;
	int rc;

	ck_assert(program != NULL);
	if (!all)
		ck_assert_int_eq(pr_programs_add(&spec.programs, program, &err), 0);
	q = pr_query_create(view, &spec, &err);
	ck_assert_msg(q != NULL, "%s", err.text);
	while ((rc = pr_query_next(q, &p, &err)) != PR_SOURCE_END) {
		unit_must(rc != PR_SOURCE_ERROR);
		if (rc == PR_SOURCE_PACKET &&
			(!all || pr_program_run(program, p.data, p.len, p.caplen)))
			a.seqs[a.count++] = p.seq;
	}
	if (all)
		pr_program_destroy(&program);
	ck_assert_int_eq(pr_query_take_held(q, &held, &frontier, &err), 0);
	a.held = count_held(&held);
	pr_held_list_free(&held);
	a.figures = *pr_query_figures(q);
	pr_query_destroy(&q);
	return a;
}

static const char *const filters[] = {"host 10.0.51.44", "src host 10.1.0.1",
	"net 172.16.20.0/24", "tcp port 5000", "udp", "port 77", "portrange 2000-2003",
	"src portrange 1100-1200", "host 10.0.51.44 or net 172.17.3.0/24",
	"net 10.0.8.0/21 and udp", "greater 990", "host 1.2.3.4", "arp", "not tcp",
	"tcp[13] & 2 != 0", "ether host 00:00:00:00:00:00", "vlan",
	"host 10.0.51.44 and tcp port 443", "host 10.0.51.44 and port 442"};

/* Equal to looking at each packet, with all seqs accounted for; returns segments left out. */
static uint64_t
compare_all(struct pr_view *view, uint64_t *level2)
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

START_TEST(answers_are_the_same_with_less_reading)
{
	struct pr_view *view;
	uint64_t level2, segments;

	put_packets(45000, 1);
	put_packets(5000, 4); /* in turn */
	put_packets(5000, 0); /* by flow */
	pr_append_flush(append, &err);
	segments = index_all(true);
	pr_append_flush(append, &err);
	ck_assert_uint_gt(level[1], 15);
	ck_assert_uint_eq(level[2], 1);
	view = open_view();
	ck_assert_uint_gt(compare_all(view, &level2), segments * COUNT(filters) / 2);
	ck_assert_uint_gt(level2, segments * COUNT(filters) / 4);
	pr_view_close(&view);
	close_writer();
	view = open_view(); /* and from the device alone */
	compare_all(view, &level2);
	pr_view_close(&view);
}
END_TEST

START_TEST(what_is_not_indexed_is_read)
{
	struct pr_view *view;
	uint64_t level2;

	put_packets(8000, 1);
	pr_append_flush(append, &err);
	index_all(true);
	put_packets(8000, 1);
	pr_append_flush(append, &err);
	view = open_view();
	ck_assert_uint_gt(compare_all(view, &level2), 100);
	ck_assert_uint_eq(level2, 0); /* too little for a group */
	pr_view_close(&view);
	close_writer();
}
END_TEST

START_TEST(it_goes_on_where_it_ended)
{
	uint64_t first, level2;
	struct pr_view *view;

	put_packets(8000, 1);
	pr_append_flush(append, &err);
	refuse = 5;
	first = index_all(false);
	ck_assert_uint_gt(first, 5);
	pr_append_flush(append, &err);
	ck_assert_uint_eq(index_all(false), 0);
	close_writer();
	open_writer();
	put_packets(4000, 1);
	pr_append_flush(append, &err);
	ck_assert_uint_lt(index_all(false), first);
	pr_append_flush(append, &err);
	view = open_view();
	ck_assert_uint_gt(compare_all(view, &level2), 0);
	pr_view_close(&view);
	close_writer();
}
END_TEST

/* The logger takes one record at a time: the last ones come to it though no segment follows. */
START_TEST(what_was_refused_is_offered_again)
{
	struct pr_feed *feed;
	struct pr_view *view;

	put_packets(1500, 1);
	pr_append_flush(append, &err);
	view = open_view();
	feed = pr_feed_create(view, sink, NULL, &err);
	while (pr_feed_step(feed, INT64_MAX, &err) > 0)
		;
	level[1] = level[3] = 0;
	refuse = 1;
	ck_assert_int_eq(pr_feed_finish(feed, false, &err), 0);
	ck_assert_uint_eq(level[1], 0);
	ck_assert_int_eq(pr_feed_step(feed, INT64_MAX, &err), 0);
	ck_assert_uint_eq(level[1], 1);
	refuse = 1;
	ck_assert_int_eq(pr_feed_finish(feed, false, &err), 0);
	ck_assert_int_eq(pr_feed_step(feed, INT64_MAX, &err), 0);
	ck_assert_uint_eq(level[3], 1);
	pr_feed_destroy(&feed);
	pr_view_close(&view);
	close_writer();
}
END_TEST

/* Whoever was killed leaves records of level 1 that no group tells of: they are not made again. */
START_TEST(lost_groups_are_made_again)
{
	unsigned records;
	struct pr_view *view;
	uint64_t level2, first;

	put_packets(46000, 1);
	pr_append_flush(append, &err);
	first = index_all(false);
	pr_append_flush(append, &err);
	records = level[1];
	ck_assert_uint_gt(records, 15);
	ck_assert_uint_eq(level[2], 0);
	put_packets(4000, 1);
	pr_append_flush(append, &err);
	ck_assert_uint_gt(index_all(true), first);
	pr_append_flush(append, &err);
	ck_assert_uint_eq(level[2], 1);
	ck_assert_uint_gt(level[1], records);
	ck_assert_uint_lt(level[1], records + 4);
	ck_assert_uint_eq(index_all(true), 0);
	view = open_view();
	ck_assert_uint_gt(compare_all(view, &level2), first * COUNT(filters) / 2);
	ck_assert_uint_gt(level2, first * COUNT(filters) / 4);
	pr_view_close(&view);
	close_writer();
}
END_TEST

/* Numbers of segments begin anew: an index of the old ones would hide the new. */
START_TEST(a_reset_volume_has_no_index)
{
	struct pr_view *view;
	uint64_t level2;

	put_packets(12000, 1);
	pr_append_flush(append, &err);
	index_all(true);
	pr_append_flush(append, &err);
	view = open_view();
	ck_assert_int_eq(pr_append_reset(append, &err), 0);
	put_packets(11000, 1);
	pr_append_flush(append, &err);
	ck_assert_int_eq(pr_view_refresh(view, true, INT64_MAX, &err), 0);
	compare_all(view, &level2);
	pr_view_close(&view);
	view = open_view();
	compare_all(view, &level2);
	pr_view_close(&view);
	ck_assert_uint_gt(index_all(true), 5);
	pr_append_flush(append, &err);
	view = open_view();
	ck_assert_uint_gt(compare_all(view, &level2), 0);
	pr_view_close(&view);
	close_writer();
}
END_TEST

/* The frontier comes round: old data goes, and its index with it or after it. */
START_TEST(recycled_segments_are_no_harm)
{
	struct pr_view *view;
	uint64_t level2;

	for (int i = 0; i < 7; i++) {
		put_packets(20000, 1);
		pr_append_flush(append, &err);
		index_all(i % 4 == 3);
	}
	pr_append_flush(append, &err);
	view = open_view();
	ck_assert_uint_gt(compare_all(view, &level2), 200);
	pr_view_close(&view);
	close_writer();
}
END_TEST

/* A record of the index that is about other segments than it says is not believed. */
START_TEST(an_index_of_others_is_not_believed)
{
	struct pr_index_book book = {0};
	const struct sfs_handle handle = {0};
	struct pr_directory_index e = {
		.first_sequence = 5, .segments = 3, .link = 1, .level = 1};
	struct pr_index_stream *s;

	for (uint64_t i = 5; i < 12; i++)
		ck_assert_int_eq(pr_index_book_proof(&book, 1, i, 100 + i, &err), 0);
	ck_assert_int_eq(pr_index_book_take(&book, &e, &handle, &err), 0);
	s = pr_index_book_find(&book, 1);
	ck_assert_uint_eq(pr_index_uncovered(s, 1, 5), 5); /* a wrong check */
	ck_assert(pr_index_check(s, 5, 3, &e.check));
	ck_assert_int_eq(pr_index_book_take(&book, &e, &handle, &err), 0);
	ck_assert_uint_eq(s->level[0].count, 1);
	ck_assert_uint_eq(pr_index_uncovered(s, 1, 5), 8);
	e.first_sequence = 7; /* after a crash: what it overlaps was about lost segments */
	ck_assert_int_eq(pr_index_book_take(&book, &e, &handle, &err), 0);
	ck_assert_uint_eq(s->level[0].count, 1);
	ck_assert(pr_index_find(s, 1, 6) == NULL);
	ck_assert(pr_index_find(s, 1, 9) != NULL);
	ck_assert(pr_index_find(s, 1, 10) == NULL);
	e.first_sequence = 4;
	ck_assert_int_eq(pr_index_book_take(&book, &e, &handle, &err), 0);
	ck_assert_uint_eq(s->level[0].count, 2);
	pr_index_book_expire(&book, 1, 7);
	ck_assert_uint_eq(s->level[0].count, 1);
	ck_assert(pr_index_find(s, 1, 7) != NULL);
	pr_index_book_expire(&book, 1, UINT64_MAX);
	ck_assert_uint_eq(s->level[0].count, 0);
	pr_index_book_free(&book);
}
END_TEST

START_TEST(the_volume_refuses_what_cannot_be)
{
	struct pr_index_body b = {
		.level = 1, .first_sequence = 1, .segments = 1, .body = "x", .len = 1};
	struct pr_index_body bad;

	put_packets(300, 1);
	pr_append_flush(append, &err);
	ck_assert_int_eq(pr_append_index(append, &b, &err), 0);
	bad = b;
	bad.link = 9;
	ck_assert_int_eq(pr_append_index(append, &bad, &err), -1);
	bad = b;
	bad.level = 4;
	ck_assert_int_eq(pr_append_index(append, &bad, &err), -1);
	bad = b;
	bad.first_sequence = 0;
	ck_assert_int_eq(pr_append_index(append, &bad, &err), -1);
	bad = b;
	bad.first_sequence = UINT64_MAX;
	ck_assert_int_eq(pr_append_index(append, &bad, &err), -1);
	bad = b;
	bad.segments = 1000000;
	ck_assert_int_eq(pr_append_index(append, &bad, &err), -1);
	bad = b;
	bad.len = 1 << 20;
	ck_assert_int_eq(pr_append_index(append, &bad, &err), -1);
	bad = b;
	bad.min_time = 1;
	ck_assert_int_eq(pr_append_index(append, &bad, &err), -1);
	close_writer();
}
END_TEST

static void
tests(TCase *tc)
{
	tcase_add_checked_fixture(tc, begin, end);
	tcase_set_timeout(tc, 60); /* the machine may be busy */
	tcase_add_test(tc, answers_are_the_same_with_less_reading);
	tcase_add_test(tc, what_is_not_indexed_is_read);
	tcase_add_test(tc, it_goes_on_where_it_ended);
	tcase_add_test(tc, what_was_refused_is_offered_again);
	tcase_add_test(tc, lost_groups_are_made_again);
	tcase_add_test(tc, a_reset_volume_has_no_index);
	tcase_add_test(tc, recycled_segments_are_no_harm);
	tcase_add_test(tc, an_index_of_others_is_not_believed);
	tcase_add_test(tc, the_volume_refuses_what_cannot_be);
}

int
main(void)
{
	return unit_run("feed", tests);
}
