/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "indexer/query/catalog.h"
#include "logger/delete.h"
#include "logger/volume_writer.h"
#include "proto/base/clock.h"
#include "proto/wire/segment.h"
#include "tests/unit/unit.h"

/* Deleting from a logger's volume: what goes, what stays, and what the ledger says of it. */
#define PACKET 15000 /* four of them fill a block */

static char path[64];
static struct sfs *sfs;
static struct prl_volume_writer *append;
static struct pr_error err;

static void
set_up(void)
{
	struct sfs_create_options create = {
		.size = 8 << 20, .block_size = 65536, .force = true};
	struct sfs_open_options open = {.writer = true, .shm_bytes = 1 << 20};
	struct prl_writer_options options = {0};
	const char *paths[1] = {path};

	snprintf(path, sizeof(path), "/tmp/test_logger_delete.%d", (int)getpid());
	ck_assert_msg(sfs_create(paths, 1, &create, &err) == 0, "%s", err.text);
	sfs = sfs_open(paths, 1, &open, &err);
	ck_assert_msg(sfs != NULL, "%s", err.text);
	append = prl_writer_create(sfs, &options, &err);
	ck_assert_ptr_nonnull(append);
}

static void
tear_down(void)
{
	prl_writer_destroy(&append);
	sfs_close(&sfs);
	unlink(path);
}

static struct pr_packet
packet(uint64_t seq, int64_t time)
{
	static uint8_t data[PACKET];

	return (struct pr_packet){.time = time,
		.otime = time,
		.epoch = 1,
		.seq = seq,
		.caplen = PACKET,
		.len = PACKET,
		.linktype = 1,
		.data = data};
}

static void
record(uint64_t from, uint64_t to, int64_t time)
{
	for (uint64_t seq = from; seq <= to; seq++) {
		struct pr_packet p = packet(seq, time + (int64_t)seq);

		ck_assert_int_eq(prl_writer_put_packet(append, &p), 0);
	}
	ck_assert_int_eq(prl_writer_flush(append, &err), 0);
}

static struct sfs_stream_info
packets(void)
{
	struct sfs_stream_info info;
	int id = sfs_stream_find(sfs, "packets.0");

	ck_assert_int_ge(id, 0);
	ck_assert_int_eq(sfs_stream_info(sfs, (size_t)id, &info, &err), SFS_OK);
	return info;
}

/* All steps; returns segments that went. */
static uint64_t
delete_all(struct prl_delete_order order)
{
	struct prl_deleted out = {.more = true};
	uint64_t segments = 0;

	for (order.step = 0; out.more; order.step++) {
		ck_assert_uint_lt(order.step, 1000);
		ck_assert_msg(prl_delete_step(sfs, append, &order, &out, &err) == 0, "%s",
			err.text);
		ck_assert(order.step || (out.more && !out.segments));
		segments += out.segments;
	}
	return segments;
}

static void
read_ledger(struct pri_ledger_view *book)
{
	struct sfs_cursor *c =
		sfs_cursor_open(sfs, sfs_stream_find(sfs, "ledger"), NULL, &err);
	struct sfs_record r;

	while (sfs_cursor_next(c, &r, &err) == 1) {
		struct pr_cursor body = pr_cursor_make(r.body, r.length);
		struct pr_ledger_entry e;

		while (pr_ledger_load(&body, &e) == 1)
			ck_assert_int_eq(pri_ledger_view_take(book, &e, &err), 0);
	}
	sfs_cursor_close(&c);
}

static const struct pr_ledger_deleted *
word_of(const struct pri_ledger_view *book)
{
	return pri_ledger_view_deletion(book, 0, true, PR_TIME_MIN, PR_TIME_MAX);
}

START_TEST(test_until_and_ledger)
{
	struct prl_delete_order order = {
		.since = PR_TIME_MIN, .until = 1040, .at = 7, .by = "ann"};
	struct pri_ledger_view book = {0};

	record(1, 100, 1000);
	ck_assert_uint_gt(delete_all(order), 0);
	struct sfs_stream_info left = packets();
	ck_assert_int_gt(left.evicted_until, 1025);
	ck_assert_int_le(left.evicted_until, 1040);
	read_ledger(&book);
	const struct pr_ledger_deleted *d = word_of(&book);
	ck_assert_ptr_nonnull(d);
	ck_assert_str_eq(d->by, "ann");
	ck_assert_int_eq(d->since, PR_TIME_MIN);
	ck_assert_int_ge(d->until, left.evicted_until);
	ck_assert_int_le(d->until, 1040);
	ck_assert_uint_eq(d->records, left.recycled_records + left.deleted_records);
	pri_ledger_view_free(&book);

	/* nothing is that old: the ledger forgets that it was announced */
	order.at = 8;
	ck_assert_uint_eq(delete_all(order), 0);
	read_ledger(&book);
	ck_assert_uint_eq(book.deleted_count, 1);
	pri_ledger_view_free(&book);
}
END_TEST

/* Of the midst each segment that lies in it; before and behind all is as it was. */
START_TEST(test_midst)
{
	struct prl_delete_order order = {
		.since = 1030, .until = 1060, .at = 7, .by = "ann"};
	struct pri_ledger_view book = {0};
	struct sfs_deleted hole;

	record(1, 100, 1000);
	struct sfs_stream_info before = packets();
	uint64_t gone = delete_all(order);
	struct sfs_stream_info left = packets();
	ck_assert_uint_gt(gone, 0);
	ck_assert_uint_eq(left.deleted_records, gone);
	ck_assert_uint_eq(left.first_sequence, before.first_sequence);
	ck_assert_uint_eq(left.last_sequence, before.last_sequence);
	ck_assert_int_eq(left.min_time, before.min_time);
	ck_assert_int_eq(left.max_time, before.max_time);
	ck_assert(sfs_stream_deleted(sfs, (int)left.id, 1, &hole));
	ck_assert_int_ge(hole.min_time, 1030);
	ck_assert_int_le(hole.max_time, 1060);
	ck_assert_uint_eq(hole.last + 1 - hole.first, gone);
	read_ledger(&book);
	ck_assert_ptr_null(word_of(&book)); /* no word of what is recycled later */
	const struct pr_ledger_deleted *d =
		pri_ledger_view_deletion(&book, 0, false, 1050, 1050);
	ck_assert_ptr_nonnull(d);
	ck_assert_int_eq(d->since, 1030);
	ck_assert_int_eq(d->until, hole.max_time);
	ck_assert_uint_eq(d->records, gone);
	ck_assert_ptr_null(pri_ledger_view_deletion(&book, 0, false, 1061, PR_TIME_MAX));
	pri_ledger_view_free(&book);
}
END_TEST

/* Segments that came behind the fence stay, however old their packets; and so do other streams. */
START_TEST(test_fence)
{
	struct prl_delete_fence fence = {.stream = "packets.0"};
	struct prl_delete_order order = {.since = PR_TIME_MIN,
		.until = PR_TIME_MAX,
		.at = 7,
		.by = "ann",
		.moved_to = "n2",
		.fenced = true,
		.fences = &fence,
		.fence_count = 1};
	struct pr_packet stray = packet(0, 5);
	struct pri_ledger_view book = {0};

	record(1, 50, 1000);
	fence.last = packets().last_sequence;
	record(51, 60, -5000);
	ck_assert_int_eq(prl_writer_stray(append, &stray), 0);
	ck_assert_uint_gt(delete_all(order), 0);
	struct sfs_stream_info left = packets();
	ck_assert_uint_eq(left.recycled_records + left.deleted_records, fence.last);
	ck_assert_uint_eq(sfs_appended(sfs, (int)left.id), left.last_sequence);
	struct sfs_stream_info strays;
	int id = sfs_stream_find(sfs, "strays");
	ck_assert_int_eq(sfs_stream_info(sfs, (size_t)id, &strays, &err), SFS_OK);
	ck_assert_uint_eq(strays.recycled_records, 0);
	read_ledger(&book);
	ck_assert_str_eq(word_of(&book)->moved_to, "n2");
	pri_ledger_view_free(&book);
}
END_TEST

START_TEST(test_broken_off)
{
	struct prl_delete_order order = {
		.since = PR_TIME_MIN, .until = PR_TIME_MAX, .at = 7, .by = "ann"};
	struct pri_ledger_view book = {0};
	struct prl_deleted out;

	record(1, 50, 1000);
	/* announced: who finds something gone from now on finds this */
	ck_assert_int_eq(prl_delete_step(sfs, append, &order, &out, &err), 0);
	ck_assert(out.more);
	ck_assert_uint_eq(packets().recycled_records, 0);
	read_ledger(&book);
	ck_assert_int_eq(word_of(&book)->until, 1050);
	pri_ledger_view_free(&book);
}
END_TEST

START_TEST(test_store)
{
	static uint8_t room[100000];
	struct pr_segment_builder b;
	struct pr_packet p = packet(9, 90);
	size_t len;

	pr_segment_begin(&b, room, sizeof(room), PR_SEGMENT_MIXED);
	ck_assert(pr_segment_add(&b, &p));
	p = packet(11, 110);
	ck_assert(pr_segment_add(&b, &p));
	len = pr_segment_seal(&b);
	ck_assert_int_eq(prl_writer_put_moved(append, room, len, false, &err), 0);
	ck_assert_int_eq(prl_writer_flush(append, &err), 0);
	ck_assert_int_eq(packets().min_time, 90);
	ck_assert_int_eq(packets().max_time, 110);
	for (size_t cut = 0; cut < len; cut += 997)
		ck_assert_int_eq(prl_writer_put_moved(append, room, cut, false, &err), -1);
	/* what no block takes is refused, and no loss is declared */
	pr_segment_begin(&b, room, sizeof(room), PR_SEGMENT_MIXED);
	p = packet(12, 120);
	p.data = calloc(1, 70000);
	p.caplen = p.len = 70000;
	ck_assert(pr_segment_add(&b, &p));
	len = pr_segment_seal(&b);
	free((void *)(uintptr_t)p.data);
	ck_assert_int_eq(prl_writer_put_moved(append, room, len, false, &err), -1);
	ck_assert_ptr_nonnull(strstr(err.text, "too long"));
	ck_assert_uint_eq(prl_writer_counters(append)->lost_write, 0);
	ck_assert_int_eq(prl_writer_flush(append, &err), 0);
	ck_assert_int_eq(packets().max_time, 110);
}
END_TEST

static void
fill(TCase *tc)
{
	tcase_add_checked_fixture(tc, set_up, tear_down);
	tcase_add_test(tc, test_until_and_ledger);
	tcase_add_test(tc, test_midst);
	tcase_add_test(tc, test_fence);
	tcase_add_test(tc, test_broken_off);
	tcase_add_test(tc, test_store);
}

int
main(void)
{
	return unit_run("logger_delete", fill);
}
