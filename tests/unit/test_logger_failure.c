/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "logger/volume_writer.h"
#include "logger/streamfs/internal.h"
#include "proto/base/clock.h"
#include "proto/wire/segment.h"
#include "tests/unit/streamfs_sim.h"
#include "tests/unit/unit.h"

/*
 * A disk that refuses for a while: the writer is suspended and says so, what was durable stays, what
 * it had taken comes through, what it could not take is on the loss list, and it goes on by itself.
 */
#define BLOCK 65536
#define SIZE (256 * (uint64_t)BLOCK)
#define STEP (20 * PR_NS_PER_MS)

static struct sim_rng rng = {7};
static struct sim_disk disk;
static struct sfs_disk handle;
static struct sfs *sfs;
static struct prl_volume_writer *append;
static uint64_t next_seq;
static int64_t now;
static bool sync_fails;

static int
failing_sync(void *arg)
{
	if (sync_fails) {
		errno = EIO;
		return -1;
	}
	return sim_sync(arg);
}

static void
open_volume(void)
{
	struct sfs_open_options o = {.writer = true, .shm_bytes = 12 * BLOCK};
	struct prl_writer_options options = {.segment_age = STEP};
	struct pr_error err = {0};

	sfs = sfs_open_disks(&handle, 1, &o, &err);
	ck_assert_msg(sfs != NULL, "%s", err.text);
	append = prl_writer_create(sfs, &options, &err);
	ck_assert_msg(append != NULL, "%s", err.text);
}

static void
start(void)
{
	static struct sfs_disk_ops ops;
	struct pr_error err = {0};

	handle = sim_make(&disk, SIZE, &rng);
	ops = *handle.ops;
	ops.sync = failing_sync;
	ops.open_queue = inline_open;
	handle.ops = &ops;
	sync_fails = false;
	next_seq = 1;
	now = pr_now_mono();
	ck_assert_int_eq(sfs_create_disks(&handle, 1, BLOCK, 8, &err), 0);
	open_volume();
}

static void
end(void)
{
	prl_writer_destroy(&append);
	sfs_close(&sfs);
	sim_free(&disk);
}

static unsigned
put(unsigned count)
{
	static uint8_t data[1000];
	unsigned taken = 0;

	for (unsigned i = 0; i < count; i++) {
		struct pr_packet p = {.time = (int64_t)next_seq,
			.otime = (int64_t)next_seq,
			.epoch = 9,
			.seq = next_seq,
			.caplen = sizeof(data),
			.len = sizeof(data),
			.linktype = 1,
			.data = data};

		next_seq++;
		taken += prl_writer_put_packet(append, &p) == 0;
	}
	return taken;
}

/* The loop's timer; retries go by the machine's clock, so time passes for them too. */
static void
ticks(unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		struct timespec pause = {0, 5 * PR_NS_PER_MS};

		nanosleep(&pause, NULL);
		now = pr_now_mono();
		prl_writer_tick(append, now);
	}
}

static bool
suspended_within(unsigned count, bool wanted)
{
	for (unsigned i = 0; i < count; i++) {
		if ((prl_writer_suspend_reason(append) != NULL) == wanted)
			return true;
		ticks(1);
	}
	return false;
}

struct found {
	uint64_t packets, last_seq, lost;
};

static void
read_packets(struct found *found)
{
	struct sfs_cursor *c =
		sfs_cursor_open(sfs, sfs_stream_find(sfs, "packets.0"), NULL, NULL);
	struct sfs_record record;
	struct pr_segment_reader r;
	struct pr_packet p;

	while (sfs_cursor_next(c, &record, NULL) == 1) {
		ck_assert_int_eq(pr_segment_open(&r, record.body, record.length, NULL), 0);
		while (pr_segment_next(&r, &p, NULL) == 1) {
			ck_assert_uint_gt(p.seq, found->last_seq);
			found->last_seq = p.seq;
			found->packets++;
		}
	}
	sfs_cursor_close(&c);
}

static void
read_losses(struct found *found)
{
	struct sfs_cursor *c =
		sfs_cursor_open(sfs, sfs_stream_find(sfs, "ledger"), NULL, NULL);
	struct sfs_record record;
	struct pr_ledger_entry e;

	while (sfs_cursor_next(c, &record, NULL) == 1) {
		struct pr_cursor body = pr_cursor_make(record.body, record.length);

		while (pr_ledger_load(&body, &e) == 1) {
			if (e.type != PR_LEDGER_LOSS)
				continue;
			ck_assert_uint_eq(e.u.loss.reason, PR_LOSS_WRITE);
			found->lost += e.u.loss.count;
		}
	}
	sfs_cursor_close(&c);
}

static struct found
look(void)
{
	struct found found = {0};

	read_packets(&found);
	read_losses(&found);
	return found;
}

/* Everything of the process is gone, and of the disk what was not synced. */
static void
power_cut(void)
{
	prl_writer_destroy(&append);
	sfs_close_as_killed(&sfs);
	sim_power_cut(&disk, 0, 0);
	disk.dead = false;
	sync_fails = false;
	open_volume();
}

static void
refuse(bool on, int what)
{
	if (what == 0)
		disk.dead = on;
	else
		sync_fails = on;
}

START_TEST(test_suspend_and_go_on)
{
	struct found found;
	unsigned taken;

	start();
	ck_assert_uint_eq(put(500), 500);
	ck_assert_int_eq(prl_writer_flush(append, NULL), 0);
	refuse(true, _i);
	taken = put(20);
	ck_assert_msg(suspended_within(100, true), "not suspended");
	ck_assert_ptr_nonnull(strstr(prl_writer_suspend_reason(append), "sim"));
	ck_assert_uint_gt(pr_counter_get(&prl_writer_counters(append)->write_errors), 0);
	for (unsigned i = 0; i < 60; i++) { /* all through the retries */
		ticks(1);
		ck_assert_msg(prl_writer_suspend_reason(append) != NULL, "tick %u", i);
	}
	ck_assert_uint_eq(
		pr_counter_get(&prl_writer_counters(append)->packets_durable), 500);
	refuse(false, _i);
	ck_assert_msg(suspended_within(200, false), "not resumed");
	taken += put(500);
	ck_assert_uint_eq(taken, 520);
	ck_assert_int_eq(prl_writer_flush(append, NULL), 0);
	ck_assert_uint_eq(
		pr_counter_get(&prl_writer_counters(append)->packets_durable), 1020);
	power_cut();
	found = look();
	ck_assert_uint_eq(found.packets, 1020);
	ck_assert_uint_eq(found.lost, 0);
	end();
}
END_TEST

/* More than its memory takes: the rest is lost, counted and declared. */
START_TEST(test_overrun)
{
	struct found found;
	uint64_t taken;

	start();
	taken = put(300);
	ck_assert_int_eq(prl_writer_flush(append, NULL), 0);
	refuse(true, _i);
	for (unsigned i = 0; i < 60; i++) {
		taken += put(100);
		ticks(1);
	}
	ck_assert_uint_lt(taken, 6300);
	ck_assert_uint_eq(
		pr_counter_get(&prl_writer_counters(append)->lost_write), 6300 - taken);
	ck_assert_int_eq(prl_writer_flush(append, NULL), -1);
	refuse(false, _i);
	ck_assert_msg(suspended_within(200, false), "not resumed");
	taken += put(100);
	ck_assert_int_eq(prl_writer_flush(append, NULL), 0);
	power_cut();
	found = look();
	ck_assert_uint_eq(found.packets, taken);
	ck_assert_uint_eq(found.packets + found.lost, 6400);
	ck_assert_uint_eq(found.last_seq, 6400);
	end();
}
END_TEST

/* Killed while suspended: what was reported durable is there. */
START_TEST(test_durable_stays)
{
	uint64_t durable;

	start();
	put(2000);
	ck_assert_int_eq(prl_writer_flush(append, NULL), 0);
	refuse(true, _i);
	put(300);
	ticks(40);
	durable = pr_counter_get(&prl_writer_counters(append)->packets_durable);
	ck_assert_uint_eq(durable, 2000);
	power_cut();
	ck_assert_uint_ge(look().packets, durable);
	end();
}
END_TEST

static void
fill(TCase *tcase)
{
	tcase_set_timeout(tcase, 120);
	tcase_add_loop_test(tcase, test_suspend_and_go_on, 0, 2);
	tcase_add_loop_test(tcase, test_overrun, 0, 2);
	tcase_add_loop_test(tcase, test_durable_stays, 0, 2);
}

int
main(void)
{
	return unit_run("logger_failure", fill);
}
