/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the root of a clean close says of blocks that no map knows yet: opening reads no headers then, and
 * finds what it would have found by them.
 */
#include <stdio.h>

#include "logger/streamfs/internal.h"
#include "tests/unit/streamfs_sim.h"
#include "tests/unit/unit.h"

enum { BLOCK = SFS_BLOCK_MIN, INTERVAL = 128, BLOCKS = 300, STREAMS = 3 };
#define DISK_SIZE (2 * SFS_ROOT_BYTES + (uint64_t)BLOCKS * BLOCK)

static struct pr_error err;
static struct sim_rng rng;
static struct sim_disk disk;
static uint64_t headers; /* reads of one sector at a block's start */
static uint64_t appended[STREAMS];

static ssize_t
read_counted(void *arg, void *buf, size_t len, uint64_t offset)
{
	headers += len == SFS_SECTOR && offset >= 2 * SFS_ROOT_BYTES &&
		   (offset - 2 * SFS_ROOT_BYTES) % BLOCK == 0;
	return sim_read(arg, buf, len, offset);
}

static struct sfs_disk
handle(void)
{
	static const struct sfs_disk_ops ops = {.read = read_counted,
		.write = sim_write,
		.sync = sim_sync,
		.open_queue = inline_open};
	return (struct sfs_disk){
		.ops = &ops, .arg = &disk, .size = DISK_SIZE, .fd = -1, .path = "sim"};
}

static struct sfs *
open_volume(bool writer)
{
	struct sfs_open_options o = {.writer = writer, .shm_bytes = 8 * BLOCK};
	struct sfs_disk d = handle();
	headers = 0;
	struct sfs *sfs = sfs_open_disks(&d, 1, &o, &err);
	ck_assert_msg(sfs != NULL, "%s", err.text);
	return sfs;
}

static void
setup(void)
{
	struct sfs_disk d = sim_make(&disk, DISK_SIZE, &rng);
	memset(appended, 0, sizeof(appended));
	ck_assert_msg(sfs_create_disks(&d, 1, BLOCK, INTERVAL, &err) == 0, "%s", err.text);
}

static void
teardown(void)
{
	sim_free(&disk);
}

/* Records that nearly fill a block each, in all streams but mostly in the first. */
static void
append_blocks(struct sfs *w, unsigned count)
{
	static uint8_t body[BLOCK / 2 + 1000];
	static const char *const name[STREAMS] = {"s0", "s1", "s2"};
	for (int k = 0; k < STREAMS; k++)
		if (sfs_stream_find(w, name[k]) < 0)
			ck_assert_int_eq(sfs_stream_open(w, name[k], 0, 0, &err), k);
	for (unsigned i = 0; i < count; i++) {
		int s = i % 7 == 3 ? 1 : i % 11 == 5 ? 2 : 0;
		memset(body, (int)(++appended[s] % 251), sizeof(body));
		ck_assert_msg(sfs_append(w, s, (int64_t)appended[s], (int64_t)appended[s],
				      body, sizeof(body), NULL, &err) == SFS_OK,
			"%s", err.text);
	}
}

/* Every record from the oldest that is held up to the last appended; returns how many. */
static uint64_t
expect_all(struct sfs *r)
{
	struct sfs_record record;
	uint64_t all = 0;
	for (int s = 0; s < STREAMS; s++) {
		uint64_t last = 0;
		struct sfs_cursor *c = sfs_cursor_open(r, s, NULL, &err);
		ck_assert_ptr_nonnull(c);
		while (sfs_cursor_next(c, &record, &err) == 1) {
			ck_assert(last == 0 || record.sequence == last + 1);
			last = record.sequence;
			ck_assert_int_eq(record.body[0], (int)(last % 251));
			all++;
		}
		ck_assert_uint_eq(last, appended[s]);
		sfs_cursor_close(&c);
	}
	return all;
}

static void
same_tables(const struct sfs *a, const struct sfs *b)
{
	for (uint64_t i = 0; i < BLOCKS; i++) {
		const struct sfs_entry *x = &a->table.entry[i], *y = &b->table.entry[i];
		ck_assert_int_eq(sfs_entry_holds(x), sfs_entry_holds(y));
		if (!sfs_entry_holds(x))
			continue;
		ck_assert_uint_eq(x->generation, y->generation);
		ck_assert_uint_eq(x->first_sequence, y->first_sequence);
		ck_assert_uint_eq(x->records, y->records);
		ck_assert_uint_eq(x->end, y->end);
		ck_assert_int_eq(x->min_time, y->min_time);
		ck_assert_int_eq(x->max_time, y->max_time);
	}
}

/* Close after close, over more than a lap: all is found, and no header is read. */
START_TEST(test_no_headers)
{
	uint64_t all = 0;
	for (unsigned i = 0; i < 120; i++) {
		struct sfs *w = open_volume(true);
		append_blocks(w, 1 + i % 5);
		sfs_close(&w);
		struct sfs *r = open_volume(false);
		ck_assert_uint_ne(r->root.flags & SFS_ROOT_LISTED, 0);
		ck_assert_msg(headers == 0, "%lu headers read", (unsigned long)headers);
		all = expect_all(r);
		sfs_close(&r);
	}
	ck_assert_uint_gt(all, BLOCKS / 2);
	ck_assert_uint_gt(appended[0] + appended[1] + appended[2], BLOCKS);
}
END_TEST

/* The table is what headers and maps make it. */
START_TEST(test_same_as_headers)
{
	for (unsigned i = 0; i < 25; i++) {
		struct sfs *w = open_volume(true);
		append_blocks(w, 1 + i % 9);
		sfs_close(&w);
		struct sfs *listed = open_volume(false);
		struct sfs *r = open_volume(false);
		r->root.flags &= ~SFS_ROOT_LISTED;
		struct sfs_stream *streams = calloc(SFS_STREAMS_MAX, sizeof(*streams));
		ck_assert_int_eq(sfs_root_load(r, streams, &err), 0);
		r->root.flags &= ~SFS_ROOT_LISTED;
		headers = 0;
		ck_assert_int_eq(sfs_recover(r, streams, &err), 0);
		ck_assert_uint_gt(headers, 0);
		free(streams);
		same_tables(listed, r);
		sfs_close(&listed);
		sfs_close(&r);
	}
}
END_TEST

/* A check finds nothing behind a root that is shorter than the one whose place it took. */
START_TEST(test_check)
{
	uint64_t records;
	for (unsigned i = 0; i < 3; i++) {
		struct sfs *w = open_volume(true);
		append_blocks(w, i == 0 ? 100 : 40);
		sfs_close(&w);
		struct sfs *r = open_volume(false);
		ck_assert_int_eq(sfs_check(r, NULL, NULL, &records, &err), 0);
		ck_assert_uint_eq(records, expect_all(r));
		sfs_close(&r);
	}
}
END_TEST

static void
fill(TCase *tc)
{
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, test_no_headers);
	tcase_add_test(tc, test_same_as_headers);
	tcase_add_test(tc, test_check);
}

int
main(void)
{
	return unit_run("streamfs listed", fill);
}
