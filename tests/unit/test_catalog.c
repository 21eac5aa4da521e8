/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "indexer/query/catalog.h"
#include "indexer/index/summarize.h"
#include "proto/base/clock.h"
#include "tests/unit/unit.h"

static struct pr_error err;

static struct pri_segment_entry
entry(uint64_t sequence, uint64_t first_seq, uint32_t count, int64_t first, int64_t last)
{
	return (struct pri_segment_entry){.sequence = sequence,
		.first_seq = first_seq,
		.seq_span = count - 1,
		.count = count,
		.first_otime = first,
		.last_otime = last,
		.min_time = first,
		.max_time = last,
		.handle.length = 1000};
}

START_TEST(lanes_do_not_overlap)
{
	struct pri_catalog c = {0};
	struct pri_epoch_series *run = pri_catalog_series(&c, 1, false, 7, 0);
	struct pri_segment_entry list[] = {
		entry(1, 1, 10, 0, 100), /* lane 0 */
		entry(2, 11, 10, 100, 200), /* same otime at the seam, seq decides */
		entry(3, 15, 5, 150, 160), /* late: another lane */
		entry(4, 13, 2, 200, 200), /* late by seq alone */
		entry(5, 30, 5, 300, 400), /* lane 0 again */
	};

	for (size_t i = 0; i < 5; i++)
		ck_assert_int_eq(pri_catalog_add(&c, run, &list[i], &err), 0);
	ck_assert_ptr_eq(pri_catalog_series(&c, 1, false, 7, 0), run);
	ck_assert_ptr_ne(pri_catalog_series(&c, 1, false, 7, 1), run);
	ck_assert_uint_eq(run->run_count, 2);
	ck_assert_uint_eq(run->runs[0]->count, 3);
	ck_assert_uint_eq(run->runs[1]->count, 2);
	ck_assert_uint_eq(pri_sorted_run_search(run->runs[0], 100), 0);
	ck_assert_uint_eq(pri_sorted_run_search(run->runs[0], 101), 1);
	ck_assert_uint_eq(pri_sorted_run_search(run->runs[0], 401), 3);
	ck_assert_uint_eq(c.packets, 32);
	pri_catalog_free(&c);
}
END_TEST

START_TEST(numbers_stay_when_entries_expire)
{
	struct pri_catalog c = {0};
	struct pri_epoch_series *run = pri_catalog_series(&c, 1, false, 7, 0);
	int64_t first, last;

	for (uint64_t i = 0; i < 1000; i++) {
		struct pri_segment_entry e =
			entry(i + 1, i * 10 + 1, 10, (int64_t)i * 10, (int64_t)i * 10 + 9);
		ck_assert_int_eq(pri_catalog_add(&c, run, &e, &err), 0);
		if (i > 100)
			pri_catalog_expire(&c, 1, i - 99, UINT64_MAX);
	}
	struct pri_sorted_run *lane = run->runs[0];
	ck_assert_uint_eq(run->run_count, 1);
	ck_assert_uint_eq(pri_sorted_run_end(lane), 1000);
	ck_assert_uint_eq(lane->base, 899);
	ck_assert_uint_lt(lane->capacity, 300); /* it does not grow with what is gone */
	for (uint64_t n = 899; n < 1000; n++)
		ck_assert_uint_eq(pri_sorted_run_at(lane, n)->sequence, n + 1);
	ck_assert_ptr_null(pri_sorted_run_at(lane, 898));
	ck_assert_ptr_null(pri_sorted_run_at(lane, 1000));
	ck_assert(pri_catalog_times(&c, -1, &first, &last));
	ck_assert_int_eq(first, 8990);
	pri_catalog_expire(&c, 2, UINT64_MAX, UINT64_MAX);
	ck_assert_uint_eq(c.segments, 101);
	pri_catalog_expire(&c, 1, UINT64_MAX, UINT64_MAX);
	ck_assert_uint_eq(c.segments + c.packets + c.bytes, 0);
	ck_assert(!pri_catalog_times(&c, -1, &first, &last));
	pri_catalog_free(&c);
}
END_TEST

/* ---- seqs held ---- */

static bool
holds(const struct pr_summary_run *h, uint64_t seq)
{
	uint64_t at = seq - h->first;

	if (seq < h->first || seq > h->last)
		return false;
	return !h->bits || h->bits[at / 8] >> at % 8 & 1;
}

/* They keep their places, count for nothing, and are counted off once. */
START_TEST(deleted_entries_are_passed_by)
{
	struct pri_catalog c = {0};
	struct pri_epoch_series *run = pri_catalog_series(&c, 1, false, 7, 0);
	int64_t first, last;

	for (uint64_t i = 0; i < 10; i++) {
		struct pri_segment_entry e =
			entry(i + 1, i * 10 + 1, 10, (int64_t)i * 10, (int64_t)i * 10 + 9);
		ck_assert_int_eq(pri_catalog_add(&c, run, &e, &err), 0);
	}
	pri_catalog_delete(&c, 2, 1, 10); /* another stream */
	ck_assert_uint_eq(c.packets, 100);
	pri_catalog_delete(&c, 1, 4, 6);
	pri_catalog_delete(&c, 1, 5, 7);
	ck_assert_uint_eq(c.packets, 60);
	ck_assert_uint_eq(c.segments, 6);
	ck_assert_uint_eq(c.bytes, 6000);
	for (uint64_t n = 0; n < 10; n++) {
		const struct pri_segment_entry *e = pri_sorted_run_at(run->runs[0], n);
		ck_assert_uint_eq(e->sequence, n + 1);
		ck_assert_int_eq(!e->deleted, n < 3 || n > 6);
	}
	pri_catalog_delete(&c, 1, 1, 2);
	pri_catalog_delete(&c, 1, 9, UINT64_MAX);
	ck_assert(pri_catalog_times(&c, -1, &first, &last));
	ck_assert_int_eq(first, 20);
	ck_assert_int_eq(last, 79);
	pri_catalog_expire(
		&c, 1, 9, UINT64_MAX); /* those that were deleted are off already */
	ck_assert_uint_eq(c.segments, 0);
	ck_assert_uint_eq(c.packets, 0);
	ck_assert(!pri_catalog_times(&c, -1, &first, &last));
	pri_catalog_free(&c);
}
END_TEST

START_TEST(stretches_say_what_was_held)
{
	static bool model[400001];
	struct pri_range_builder *s = calloc(1, sizeof(*s));
	struct pri_range_list list = {0};
	uint64_t seq = 0, last = 0;

	srandom(3);
	s->epoch = 9;
	s->link = 4;
	while (seq < 390000) {
		unsigned kind = (unsigned)random() % 1000;
		seq += kind == 0 ? 5000 : kind < 500 ? 1 : 1 + (uint64_t)random() % 8;
		model[seq] = true;
		ck_assert_int_eq(
			pri_range_builder_add(s, seq, (int64_t)seq * 2, &list, &err), 0);
		if (kind == 7)
			pri_range_builder_add(s, seq, 0, &list, &err); /* a second copy */
		if (kind == 8)
			pri_range_builder_end(s, &list, &err);
	}
	pri_range_builder_end(s, &list, &err);
	ck_assert_int_eq(pri_range_builder_end(s, &list, &err), 0);
	for (size_t i = 0; i < list.count; i++) {
		const struct pr_summary_run *h = &list.items[i];
		ck_assert_uint_gt(h->first, last);
		ck_assert_uint_le(h->last - h->first, PRI_RANGE_SPAN - 1);
		ck_assert_int_eq(h->first_otime, (int64_t)h->first * 2);
		ck_assert_int_eq(h->last_otime, (int64_t)h->last * 2);
		ck_assert(holds(h, h->first) && holds(h, h->last));
		for (uint64_t n = last + 1; n < h->first; n++)
			ck_assert(!model[n]);
		for (uint64_t n = h->first; n <= h->last; n++)
			ck_assert_int_eq(holds(h, n), model[n]);
		if (h->bits)
			ck_assert_uint_eq(h->bits_len, (h->last - h->first) / 8 + 1);
		last = h->last;
	}
	ck_assert_uint_eq(last, seq);
	pri_range_list_free(&list);
	free(s);
}
END_TEST

/* ---- the ledger ---- */

static void
take_loss(struct pri_ledger_view *book, uint64_t first, uint64_t last, uint64_t count)
{
	struct pr_ledger_entry e = {.type = PR_LEDGER_LOSS,
		.u.loss = {.epoch = 1,
			.link = 2,
			.first_seq = first,
			.last_seq = last,
			.count = count,
			.first_time = (int64_t)first,
			.last_time = (int64_t)last,
			.reason = PR_LOSS_SWITCH}};

	ck_assert_int_eq(pri_ledger_view_take(book, &e, &err), 0);
}

START_TEST(book_keeps_the_latest)
{
	struct pri_ledger_view book = {0};
	struct pr_ledger_entry e = {.type = PR_LEDGER_MARK};
	const struct pri_series_ledger *f;

	for (uint64_t i = 0; i < 100; i++) {
		e.u.mark = (struct pr_ledger_mark){
			.epoch = 50 - i % 50, .said_until = (int64_t)i};
		e.u.mark.link.link = (uint16_t)(i % 3);
		strcpy(e.u.mark.link.name, "tap\n0");
		ck_assert_int_eq(pri_ledger_view_take(&book, &e, &err), 0);
	}
	for (size_t i = 1; i < book.count; i++)
		ck_assert_uint_le(book.series[i - 1]->epoch, book.series[i]->epoch);
	f = pri_ledger_view_find(&book, 50 - 99 % 50, 99 % 3);
	ck_assert_int_eq(f->mark.said_until, 99);
	ck_assert_str_eq(pri_series_ledger_name(f), "tap?0");
	ck_assert_ptr_null(pri_ledger_view_find(&book, 51, 0));
	e.type = PR_LEDGER_LINK;
	e.u.link = (struct pr_ledger_link){.epoch = 1, .link = 2, .name = "left"};
	ck_assert_int_eq(pri_ledger_view_take(&book, &e, &err), 0);
	ck_assert_str_eq(pri_series_ledger_name(pri_ledger_view_find(&book, 1, 2)), "left");
	ck_assert_uint_eq(pri_ledger_view_find(&book, 1, 2)->port.speed, 0);
	e.type = PR_LEDGER_PORT;
	e.u.port = (struct pr_ledger_port){1, 2, 1000000000, {0}};
	ck_assert_int_eq(pri_ledger_view_take(&book, &e, &err), 0);
	ck_assert_uint_eq(pri_ledger_view_find(&book, 1, 2)->port.speed, 1000000000);
	take_loss(&book, 1, 5, 5);
	take_loss(&book, 6, 6, 1); /* joins it */
	take_loss(&book, 7, 9, 1); /* one of three: does not */
	take_loss(&book, 20, 20, 1);
	f = pri_ledger_view_find(&book, 1, 2);
	ck_assert_uint_eq(f->loss_count, 3);
	ck_assert_uint_eq(f->losses[0].last_seq, 6);
	ck_assert_uint_eq(f->losses[0].count, 6);
	ck_assert_uint_eq(book.missing, 8);
	pri_ledger_view_free(&book);
}
END_TEST

/*
 * A node that hears the dispatcher anew was killed, or its line was cut: it may have lost what was sent to it around
 * then, and does not know it.
 */
START_TEST(killed_between_marks)
{
	struct pri_ledger_view view = {0};
	struct pr_ledger_entry e = {.type = PR_LEDGER_MARK, .u.mark.epoch = 7};
	const struct pr_ledger_entry boot = {
		.type = PR_LEDGER_BOOT, .u.boot.time = 3 * PR_NS_PER_S};
	const int64_t s = PR_NS_PER_S;
	const struct pri_series_ledger *f;

	for (int64_t i = 1; i <= 20; i++) {
		if (i == 11 && _i)
			ck_assert_int_eq(pri_ledger_view_take(&view, &boot, &err), 0);
		e.u.mark.said_until = i * s / 2;
		e.u.mark.link.last_seq = i == 11 ? 0 : 10 * (uint64_t)i;
		e.u.mark.link.last_otime = i == 11 ? PR_TIME_MIN : i * s / 2;
		ck_assert_int_eq(pri_ledger_view_take(&view, &e, &err), 0);
		f = pri_ledger_view_find(&view, 7, 0);
		ck_assert_uint_eq(f->loss_count, i > 11);
	}
	ck_assert_uint_eq(f->losses->count, 0);
	ck_assert_uint_eq(f->losses->reason, _i ? PR_LOSS_UNSAVED : PR_LOSS_SWITCH);
	ck_assert_uint_eq(f->losses->first_seq, 71); /* a second before the last MARK */
	ck_assert_uint_eq(f->losses->last_seq, 120);
	ck_assert_int_eq(f->losses->first_time, 4 * s);
	ck_assert_uint_eq(view.missing, 0);
	ck_assert_uint_eq(pri_series_ledger_unsaved(f, 200, false).first_seq, 0);
	ck_assert_uint_eq(pri_series_ledger_unsaved(f, 200, true).first_seq,
		171); /* killed just now */
	e.type =
		PR_LEDGER_BOOT; /* until it hears the dispatcher the node is unsure as well */
	ck_assert_int_eq(pri_ledger_view_take(&view, &e, &err), 0);
	ck_assert_uint_eq(pri_series_ledger_unsaved(f, 200, false).first_seq, 171);
	pri_ledger_view_free(&view);
}
END_TEST

/*
 * Dispatcher or node had paused: several seconds of otime pass within some ms. What the ledger says of what was durable
 * counts, not the time of the last MARK.
 */
START_TEST(killed_after_a_pause)
{
	struct pri_ledger_view view = {0};
	struct pr_ledger_entry e = {.type = PR_LEDGER_MARK, .u.mark.epoch = 7};
	const struct pr_ledger_entry durable = {
		.type = PR_LEDGER_DURABLE, .u.durable = {7, _i ? 40 : 55, 0}};
	const struct pr_ledger_entry boot = {
		.type = PR_LEDGER_BOOT, .u.boot.time = 30 * PR_NS_PER_S};
	const int64_t s = PR_NS_PER_S;
	const struct pri_series_ledger *f;

	for (int64_t i = 1; i <= 20; i++) {
		e.u.mark.said_until = e.u.mark.link.last_otime = i * s;
		e.u.mark.link.last_seq = 10 * (uint64_t)i;
		ck_assert_int_eq(pri_ledger_view_take(&view, &e, &err), 0);
		if (i == 7) /* then nothing becomes durable any more */
			ck_assert_int_eq(pri_ledger_view_take(&view, &durable, &err), 0);
	}
	ck_assert_int_eq(pri_ledger_view_take(&view, &boot, &err), 0);
	e.u.mark.said_until = e.u.mark.link.last_otime = 31 * s;
	e.u.mark.link.last_seq = 310;
	ck_assert_int_eq(pri_ledger_view_take(&view, &e, &err), 0);
	f = pri_ledger_view_find(&view, 7, 0);
	ck_assert_uint_eq(f->loss_count, 1);
	ck_assert_uint_eq(f->losses->first_seq, _i ? 41 : 56);
	ck_assert_int_eq(f->losses->first_time, _i ? 4 * s : 5 * s);
	ck_assert_uint_eq(f->losses->last_seq, 310);
	pri_ledger_view_free(&view);
}
END_TEST

START_TEST(losses_are_put_together)
{
	struct pr_loss list[101];
	uint64_t sum = 0;
	size_t n;

	memset(list, 0, sizeof(list));
	for (uint64_t i = 0; i < 101; i++)
		list[i] = (struct pr_loss){
			.first_seq = i * 10 + 1, .last_seq = i * 10 + 2, .count = 2};
	n = pri_losses_coalesce(list, 101, 10);
	ck_assert_uint_le(n, 10);
	ck_assert_uint_ge(n, 5);
	for (size_t i = 0; i < n; i++)
		sum += list[i].count;
	ck_assert_uint_eq(sum, 202);
	ck_assert_uint_eq(list[0].first_seq, 1);
	ck_assert_uint_eq(list[n - 1].last_seq, 1002);
}
END_TEST

/* A node that begins for the first time has lost nothing before; one that was started before may have been killed. */
START_TEST(begins_within_the_epoch)
{
	struct pri_ledger_view view = {0};
	struct pr_ledger_entry e = {.type = PR_LEDGER_BOOT};
	const int64_t s = PR_NS_PER_S, begin = 1000 * s;
	struct pri_series_ledger *f;

	e.u.boot.time = begin + s / 2;
	view.record = _i ? 7 : 1;
	ck_assert_int_eq(pri_ledger_view_take(&view, &e, &err), 0);
	e = (struct pr_ledger_entry){.type = PR_LEDGER_MARK,
		.u.mark = {.epoch = 1000ULL << 32, .link.last_otime = PR_TIME_MIN}};
	e.u.mark.said_until = begin + 3 * s;
	ck_assert_int_eq(pri_ledger_view_take(&view, &e, &err), 0);
	f = pri_ledger_view_find(&view, 1000ULL << 32, 0);
	ck_assert_ptr_nonnull(f);
	ck_assert_uint_eq(pri_series_ledger_unsaved(f, 200, false).first_seq, _i ? 1 : 0);
	pri_ledger_view_free(&view);
}
END_TEST

/* What MARKs tell besides the last of them: the seq/otime curve, when packets were dropped, what was not sent. */
START_TEST(marks_tell_times)
{
	struct pri_ledger_view view = {0};
	struct pr_ledger_entry e = {.type = PR_LEDGER_MARK, .u.mark.epoch = 7};
	const int64_t s = INT64_C(1000000000);
	struct pri_series_ledger *f;
	struct pri_seq_time below, above;

	ck_assert_int_eq(pri_ledger_view_take(&view, &e, &err), 0);
	for (int64_t i = 1; i <= 20000; i++) {
		e.u.mark.said_until = i * s + 5;
		e.u.mark.link.last_seq = 10 * (uint64_t)i;
		e.u.mark.link.last_otime = i * s;
		e.u.mark.link.dropped_ring = i < 500 ? 0 : i < 510 ? 3 : 8;
		e.u.mark.link.undelivered_first = i < 300 ? 0 : 2991;
		e.u.mark.link.undelivered_last = i < 300 ? 0 : i < 301 ? 2995 : 2999;
		ck_assert_int_eq(pri_ledger_view_take(&view, &e, &err), 0);
	}
	f = pri_ledger_view_find(&view, 7, 0);
	ck_assert_int_eq(
		f->first_said, s + 5); /* not that of the one before, which says nothing */
	ck_assert_uint_le(f->point_count, PRI_POINTS_MAX);
	pri_series_ledger_points(f, 100 * s, 200 * s, &below, &above);
	ck_assert_int_lt(below.otime, 100 * s);
	ck_assert_int_gt(below.otime, 80 * s);
	ck_assert_uint_eq(below.seq, 10 * (uint64_t)(below.otime / s));
	ck_assert_int_gt(above.otime, 200 * s);
	ck_assert_int_lt(above.otime, 220 * s);
	pri_series_ledger_points(f, INT64_MIN, INT64_MAX, &below, &above);
	ck_assert_uint_eq(below.seq + above.seq, 0);
	ck_assert_uint_eq(pri_series_ledger_drops(f, 600 * s, 700 * s).ring, 0);
	ck_assert_uint_eq(pri_series_ledger_drops(f, 0, 498 * s).ring, 0);
	ck_assert_uint_eq(pri_series_ledger_drops(f, 0, 502 * s).ring, 3);
	ck_assert_uint_eq(pri_series_ledger_drops(f, 505 * s, INT64_MAX).ring, 5);
	ck_assert_uint_eq(pri_series_ledger_drops(f, INT64_MIN, INT64_MAX).ring, 8);
	ck_assert_uint_eq(f->loss_count, 1);
	ck_assert_uint_eq(f->losses[0].first_seq, 2991);
	ck_assert_uint_eq(f->losses[0].last_seq, 2999);
	ck_assert_uint_eq(f->losses[0].reason, PR_LOSS_DISPATCHER);
	ck_assert_uint_eq(view.missing, 0);
	/* an epoch's first drops are not older than it */
	e.u.mark.epoch = UINT64_C(10000) << 32;
	ck_assert_int_eq(pri_ledger_view_take(&view, &e, &err), 0);
	f = pri_ledger_view_find(&view, e.u.mark.epoch, 0);
	ck_assert_uint_eq(pri_series_ledger_drops(f, 0, 9999 * s).ring, 0);
	ck_assert_uint_eq(pri_series_ledger_drops(f, 10000 * s, 60000 * s).ring, 8);
	/* a MARK that tells only that the dispatcher is heard has no time for what was not sent */
	e.u.mark.link.undelivered_last += 9;
	e.u.mark.link.last_otime = PR_TIME_MIN;
	ck_assert_int_eq(pri_ledger_view_take(&view, &e, &err), 0);
	e.u.mark.link.last_otime = 20001 * s;
	ck_assert_int_eq(pri_ledger_view_take(&view, &e, &err), 0);
	ck_assert_uint_eq(f->losses[f->loss_count - 1].last_seq, 3008);
	ck_assert_int_eq(f->losses[f->loss_count - 1].last_time, 20001 * s);
	pri_ledger_view_free(&view);
}
END_TEST

/* A volume that holds ten epochs of a dispatcher that is killed all the time: memory is for these ten, and no others. */
START_TEST(overwritten_epochs_leave)
{
	struct pri_catalog c = {0};
	struct pri_ledger_view view = {0};
	struct pri_epoch_series *asked;
	const int64_t s = INT64_C(1000000000);

	for (uint64_t i = 1; i <= 1000; i++) {
		struct pri_segment_entry segment =
			entry(i, 1, 10, (int64_t)i * s, (int64_t)i * s + 9);
		struct pr_ledger_entry e = {.type = PR_LEDGER_MARK, .u.mark = {.epoch = i}};
		struct pr_ledger_entry lost = {.type = PR_LEDGER_LOSS,
			.u.loss = {.epoch = i,
				.first_seq = 3,
				.last_seq = 3,
				.count = 1,
				.last_time = (int64_t)i * s}};
		int64_t gone = ((int64_t)i - 10) * s + 9;

		view.record = i;
		e.u.mark.link.last_seq = 10;
		e.u.mark.link.last_otime = (int64_t)i * s + 9;
		ck_assert_int_eq(pri_ledger_view_take(&view, &e, &err), 0);
		ck_assert_int_eq(pri_ledger_view_take(&view, &lost, &err), 0);
		asked = pri_catalog_series(&c, 1, false, i, 0);
		ck_assert_int_eq(pri_catalog_add(&c, asked, &segment, &err), 0);
		if (i <= 10)
			continue;
		pri_catalog_expire(&c, 2, i - 9, UINT64_MAX); /* another stream */
		ck_assert_uint_eq(c.series_count, 11);
		pri_catalog_expire(&c, 1, i - 9, UINT64_MAX);
		ck_assert_uint_eq(c.series_count, 10);
		pri_ledger_view_expire(&view, &c, i - 9, gone);
		ck_assert_uint_eq(view.count, 10);
		ck_assert_uint_eq(view.losses, 10);
		ck_assert_uint_eq(view.missing, 10);
		ck_assert_ptr_nonnull(pri_ledger_view_find(&view, i - 9, 0));
	}
	/* the ledger is overwritten before the packets: they keep their name */
	pri_ledger_view_expire(&view, &c, 1001, 995 * s);
	ck_assert_uint_eq(view.count, 10);
	ck_assert_uint_eq(view.losses, 9); /* but the one before all of them */
	/* what a query reads stays until its end; the last one always does */
	c.series[3]->queries++;
	pri_catalog_expire(&c, 1, UINT64_MAX, UINT64_MAX);
	ck_assert_uint_eq(c.series_count, 2);
	ck_assert_ptr_eq(c.series[1], asked);
	c.series[0]->queries--;
	pri_catalog_expire(&c, 1, UINT64_MAX, UINT64_MAX);
	ck_assert_uint_eq(c.series_count, 1);
	pri_ledger_view_expire(&view, &c, 1002, INT64_MIN);
	ck_assert_uint_eq(view.count, 1); /* of the last */
	pri_catalog_free(&c);
	pri_ledger_view_free(&view);
}
END_TEST

static void
fill(TCase *tests)
{
	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, lanes_do_not_overlap);
	tcase_add_test(tests, numbers_stay_when_entries_expire);
	tcase_add_test(tests, deleted_entries_are_passed_by);
	tcase_add_test(tests, stretches_say_what_was_held);
	tcase_add_test(tests, book_keeps_the_latest);
	tcase_add_test(tests, losses_are_put_together);
	tcase_add_loop_test(tests, killed_between_marks, 0, 2);
	tcase_add_loop_test(tests, killed_after_a_pause, 0, 2);
	tcase_add_loop_test(tests, begins_within_the_epoch, 0, 2);
	tcase_add_test(tests, marks_tell_times);
	tcase_add_test(tests, overwritten_epochs_leave);
}

int
main(void)
{
	return unit_run("catalog", fill);
}
