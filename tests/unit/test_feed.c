/* SPDX-License-Identifier: Apache-2.0 */
/* Indexing a volume that grows, ends, is reset and comes round: answers stay the same, with less reading. */
#include "tests/unit/feed_ask.h"

START_TEST(answers_are_the_same_with_less_reading)
{
	uint64_t level2, segments;

	put_packets(45000, 1);
	put_packets(5000, 4); /* in turn */
	put_packets(5000, 0); /* by flow */
	prl_writer_flush(append, &err);
	segments = index_all(true);
	prl_writer_flush(append, &err);
	ck_assert_uint_gt(level[1], 15);
	ck_assert_uint_eq(level[2], 1);
	ck_assert_uint_gt(compare_now(&level2), segments * COUNT(filters) / 2);
	ck_assert_uint_gt(level2, segments * COUNT(filters) / 4);
	close_writer();
	/* and from the device alone */
	compare_now(&level2);
}
END_TEST

START_TEST(what_is_not_indexed_is_read)
{
	uint64_t level2;

	put_packets(8000, 1);
	prl_writer_flush(append, &err);
	index_all(true);
	put_packets(8000, 1);
	prl_writer_flush(append, &err);
	ck_assert_uint_gt(compare_now(&level2), 100);
	ck_assert_uint_eq(level2, 0); /* too little for a group */
	close_writer();
}
END_TEST

START_TEST(it_goes_on_where_it_ended)
{
	uint64_t first, level2;

	put_packets(8000, 1);
	prl_writer_flush(append, &err);
	refuse = 5;
	first = index_all(false);
	ck_assert_uint_gt(first, 5);
	prl_writer_flush(append, &err);
	ck_assert_uint_eq(index_all(false), 0);
	close_writer();
	open_writer();
	put_packets(4000, 1);
	prl_writer_flush(append, &err);
	ck_assert_uint_lt(index_all(false), first);
	prl_writer_flush(append, &err);
	ck_assert_uint_gt(compare_now(&level2), 0);
	close_writer();
}
END_TEST

/* The logger takes one record at a time: the last ones come to it though no segment follows. */
START_TEST(what_was_refused_is_offered_again)
{
	struct pri_index_follower *feed;
	struct pri_volume *view;

	put_packets(1500, 1);
	prl_writer_flush(append, &err);
	view = open_view();
	feed = pri_follower_create(view, NULL, sink, NULL, &err);
	while (pri_follower_step(feed, INT64_MAX, &err) > 0)
		;
	level[1] = level[3] = 0;
	refuse = 1;
	ck_assert_int_eq(pri_follower_finish(feed, false, &err), 0);
	ck_assert_uint_eq(level[1], 0);
	ck_assert_int_eq(pri_follower_step(feed, INT64_MAX, &err), 0);
	ck_assert_uint_eq(level[1], 1);
	refuse = 1;
	ck_assert_int_eq(pri_follower_finish(feed, false, &err), 0);
	ck_assert_int_eq(pri_follower_step(feed, INT64_MAX, &err), 0);
	ck_assert_uint_eq(level[3], 1);
	pri_follower_destroy(&feed);
	pri_volume_close(&view);
	close_writer();
}
END_TEST

/* Whoever was killed leaves records of level 1 that no group tells of: they are not made again. */
START_TEST(lost_groups_are_made_again)
{
	unsigned records;
	uint64_t level2, first;

	put_packets(46000, 1);
	prl_writer_flush(append, &err);
	first = index_all(false);
	prl_writer_flush(append, &err);
	records = level[1];
	ck_assert_uint_gt(records, 15);
	ck_assert_uint_eq(level[2], 0);
	put_packets(4000, 1);
	prl_writer_flush(append, &err);
	ck_assert_uint_gt(index_all(true), first);
	prl_writer_flush(append, &err);
	ck_assert_uint_eq(level[2], 1);
	ck_assert_uint_gt(level[1], records);
	ck_assert_uint_lt(level[1], records + 4);
	ck_assert_uint_eq(index_all(true), 0);
	ck_assert_uint_gt(compare_now(&level2), first * COUNT(filters) / 2);
	ck_assert_uint_gt(level2, first * COUNT(filters) / 4);
	close_writer();
}
END_TEST

/* Numbers of segments begin anew: an index of the old ones would hide the new. */
START_TEST(a_reset_volume_has_no_index)
{
	struct pri_volume *view;
	uint64_t level2;

	put_packets(12000, 1);
	prl_writer_flush(append, &err);
	index_all(true);
	prl_writer_flush(append, &err);
	view = open_view();
	ck_assert_int_eq(prl_writer_reset(append, &err), 0);
	put_packets(11000, 1);
	prl_writer_flush(append, &err);
	ck_assert_int_eq(pri_volume_refresh(view, true, INT64_MAX, &err), 0);
	compare_all(view, &level2);
	pri_volume_close(&view);
	compare_now(&level2);
	ck_assert_uint_gt(index_all(true), 5);
	prl_writer_flush(append, &err);
	ck_assert_uint_gt(compare_now(&level2), 0);
	close_writer();
}
END_TEST

/* The frontier comes round: old data goes, and its index with it or after it. */
START_TEST(recycled_segments_are_no_harm)
{
	uint64_t level2;

	for (int i = 0; i < 7; i++) {
		put_packets(20000, 1);
		prl_writer_flush(append, &err);
		index_all(i % 4 == 3);
	}
	prl_writer_flush(append, &err);
	ck_assert_uint_gt(compare_now(&level2), 200);
	close_writer();
}
END_TEST

/* A record of the index that is about other segments than it says is not believed. */
START_TEST(an_index_of_others_is_not_believed)
{
	struct pri_index_map book = {0};
	const struct sfs_handle handle = {0};
	struct pr_directory_index e = {
		.first_sequence = 5, .segments = 3, .link = 1, .level = 1};
	struct pri_index_stream *s;

	for (uint64_t i = 5; i < 12; i++)
		ck_assert_int_eq(pri_index_map_proof(&book, 1, i, 100 + i, &err), 0);
	ck_assert_int_eq(pri_index_map_take(&book, &e, &handle, &err), 0);
	s = pri_index_map_find(&book, 1);
	ck_assert_uint_eq(pri_index_uncovered(s, 1, 5), 5); /* a wrong check */
	ck_assert(pri_index_check(s, 5, 3, &e.check));
	ck_assert_int_eq(pri_index_map_take(&book, &e, &handle, &err), 0);
	ck_assert_uint_eq(s->level[0].count, 1);
	ck_assert_uint_eq(pri_index_uncovered(s, 1, 5), 8);
	e.first_sequence = 7; /* after a crash: what it overlaps was about lost segments */
	ck_assert_int_eq(pri_index_map_take(&book, &e, &handle, &err), 0);
	ck_assert_uint_eq(s->level[0].count, 1);
	ck_assert(pri_index_find(s, 1, 6) == NULL);
	ck_assert(pri_index_find(s, 1, 9) != NULL);
	ck_assert(pri_index_find(s, 1, 10) == NULL);
	e.first_sequence = 4;
	ck_assert_int_eq(pri_index_map_take(&book, &e, &handle, &err), 0);
	ck_assert_uint_eq(s->level[0].count, 2);
	pri_index_map_expire(&book, 1, 7);
	ck_assert_uint_eq(s->level[0].count, 1);
	ck_assert(pri_index_find(s, 1, 7) != NULL);
	pri_index_map_expire(&book, 1, UINT64_MAX);
	ck_assert_uint_eq(s->level[0].count, 0);
	pri_index_map_free(&book);
}
END_TEST

START_TEST(the_volume_refuses_what_cannot_be)
{
	struct pr_index_record b = {
		.level = 1, .first_sequence = 1, .segments = 1, .body = "x", .len = 1};
	struct pr_index_record bad;

	put_packets(300, 1);
	prl_writer_flush(append, &err);
	ck_assert_int_eq(prl_writer_index(append, &b, &err), 0);
	bad = b;
	bad.link = 9;
	ck_assert_int_eq(prl_writer_index(append, &bad, &err), -1);
	bad = b;
	bad.level = 4;
	ck_assert_int_eq(prl_writer_index(append, &bad, &err), -1);
	bad = b;
	bad.first_sequence = 0;
	ck_assert_int_eq(prl_writer_index(append, &bad, &err), -1);
	bad = b;
	bad.first_sequence = UINT64_MAX;
	ck_assert_int_eq(prl_writer_index(append, &bad, &err), -1);
	bad = b;
	bad.segments = 1000000;
	ck_assert_int_eq(prl_writer_index(append, &bad, &err), -1);
	bad = b;
	bad.len = 1 << 20;
	ck_assert_int_eq(prl_writer_index(append, &bad, &err), -1);
	bad = b;
	bad.min_time = 1;
	ck_assert_int_eq(prl_writer_index(append, &bad, &err), -1);
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
