/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/query_ask.h"
#include "tests/unit/unit.h"

/* Queries of a volume while it is written, and after. */

static void
ask_at_random(struct pri_volume *view, unsigned times)
{
	static const char *const filters[] = {"", "udp port 53", "tcp", "host 10.0.0.3",
		"greater 900", "ether[50] = 7 and tcp"};
	static const char *const links[] = {NULL, NULL, NULL, "0", "tap0", "1"};
	int64_t first = model[0].p.time, last = model[model_count - 1].p.otime;

	for (unsigned i = 0; i < times; i++) {
		struct question q = {
			.filter = filters[random() % 6], .link = links[random() % 6]};
		q.since = first - 10 + random() % (last - first + 20);
		q.until = q.since + random() % (i % 2 ? last - first : 20000);
		if (i % 4 == 0)
			q.since = PR_TIME_MIN;
		if (i % 5 == 0)
			q.until = PR_TIME_MAX;
		if (i % 7 == 0)
			q.limit = 1 + (uint64_t)random() % 2000;
		q.parts = !q.limit && i % 3 == 0;
		ask(view, &q);
	}
}

START_TEST(equals_the_list)
{
	struct pri_volume *view;

	srandom((unsigned)_i + 1);
	open_writer(64 << 20);
	w.forget = _i == 0 ? 0 : _i == 1 ? 5 : 1; /* a directory, one with holes, none */
	write_epoch(1, 1000000, 6000, 40);
	write_epoch(3, 1500000, 6000, 100); /* overlaps the first in time */
	write_epoch(2, 90000000, 6000, 70);
	flush_directory();
	sort_model();
	view = open_view();
	refresh(view);
	ck_assert_uint_eq(view->catalog.packets, model_count);
	ask_at_random(view, 40);
	pri_volume_close(&view);
	sfs_close(&w.sfs); /* the same from the device alone */
	view = open_view();
	refresh(view);
	ask_at_random(view, 40);
	pri_volume_close(&view);
}
END_TEST

/* Parts of flows instead of packets, of seconds that begin within the segments. */
START_TEST(parts_have_the_flows)
{
	Packrack__Query query = PACKRACK__QUERY__INIT;
	struct pri_volume *view;

	srandom((unsigned)_i + 30);
	open_writer(64 << 20);
	write_epoch(1, 999850000, 6000, 40);
	write_epoch(3, 999900000, 6000, 100);
	write_epoch(2, 2999850000, 6000, 70);
	flush_directory();
	sort_model();
	ck_assert_int_lt(model[0].p.otime, PR_NS_PER_S);
	ck_assert_int_gt(model[model_count - 1].p.otime, 3 * PR_NS_PER_S);
	view = open_view();
	refresh(view);
	ask_at_random(view, 60);
	query.since = PR_TIME_MIN;
	query.until = PR_TIME_MAX;
	query.fold_flows = true;
	query.shares = 3;
	for (query.share = 0; query.share < 5; query.share += 4)
		ck_assert_ptr_null(pri_answer_create(view, &query, &err));
	ck_assert_str_eq(err.text, "there is no share 4 of 3 of the flows");
	pri_volume_close(&view);
	sfs_close(&w.sfs);
}
END_TEST

START_TEST(whole_segments_equal_the_list)
{
	struct question q = {.filter = "", .link = "0"};
	struct pri_volume *view;
	uint64_t whole = 0;
	int64_t first, last;

	srandom((unsigned)_i + 1);
	open_writer(64 << 20);
	w.least = 250; /* 22 KiB: long enough to be handed on */
	write_epoch(1, 1000000, 20000, _i ? 40 : 100);
	write_epoch(2, 5000000, 10000, 100); /* overlaps the first in time */
	write_epoch(3, 90000000, 10000, 100);
	flush_directory();
	sort_model();
	first = model[0].p.time;
	last = model[model_count - 1].p.otime;
	view = open_view();
	refresh(view);
	for (int i = 0; i < 20; i++) {
		q.since = i < 5 ? PR_TIME_MIN : first + random() % (last - first);
		q.until = i % 3 ? PR_TIME_MAX : q.since / 2 + last / 2;
		whole += ask(view, &q);
	}
	ck_assert_uint_gt(whole, 20);
	pri_volume_close(&view);
	sfs_close(&w.sfs);
}
END_TEST

START_TEST(follows_the_writer)
{
	struct pri_volume *view;

	srandom(9);
	open_writer(64 << 20);
	view = open_view();
	w.forget = 3;
	for (uint64_t epoch = 1; epoch <= 3; epoch++) {
		write_epoch(epoch, (int64_t)epoch * 100000000, 3000, 60);
		if (epoch != 2)
			flush_directory();
		refresh(view);
		sort_model();
		ck_assert_uint_eq(view->catalog.packets, model_count);
		ask_at_random(view, 8);
	}
	pri_volume_close(&view);
	sfs_close(&w.sfs);
}
END_TEST

/* The logger comes and goes and deletes everything; whoever looks must not notice more than that. */
START_TEST(writer_restarts_and_resets)
{
	const char *paths[] = {path};
	struct sfs_open_options open = {.writer = true, .shm_bytes = 1 << 20};
	struct pri_volume *view;

	srandom(21);
	open_writer(64 << 20);
	view = open_view();
	write_epoch(1, 100000000, 3000, 80);
	flush_directory();
	refresh(view);
	sfs_close(&w.sfs);
	refresh(view);
	w.sfs = sfs_open(paths, 1, &open, &err);
	ck_assert_msg(w.sfs != NULL, "%s", err.text);
	write_epoch(2, 200000000, 3000, 80);
	refresh(view);
	sort_model();
	ck_assert_uint_eq(view->catalog.packets, model_count);
	ask_at_random(view, 6);
	ck_assert_int_eq(sfs_reset(w.sfs, &err), 0);
	model_count = 0;
	begin_directory();
	refresh(view);
	ck_assert_uint_eq(view->catalog.packets, 0);
	write_epoch(3, 300000000, 3000, 80);
	flush_directory();
	refresh(view);
	sort_model();
	ck_assert_uint_eq(view->catalog.packets, model_count);
	ck_assert_uint_eq(view->ledger.count, 2);
	ask_at_random(view, 6);
	pri_volume_close(&view);
	sfs_close(&w.sfs);
}
END_TEST

static void
fill(TCase *tests)
{
	tcase_add_checked_fixture(tests, make_volume, remove_volume);
	tcase_set_timeout(tests, 120);
	tcase_add_loop_test(tests, parts_have_the_flows, 0, 3);
	tcase_add_loop_test(tests, equals_the_list, 0, 3);
	tcase_add_loop_test(tests, whole_segments_equal_the_list, 0, 2);
	tcase_add_test(tests, follows_the_writer);
	tcase_add_test(tests, writer_restarts_and_resets);
}

int
main(void)
{
	return unit_run("query", fill);
}
