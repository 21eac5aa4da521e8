/* SPDX-License-Identifier: Apache-2.0 */
/* Devices that are missing when a volume is opened, or fail while it is written. */
#include <check.h>
#include <stdio.h>

#include "logger/streamfs/internal.h"
#include "tests/unit/streamfs_sim.h"
#include "tests/unit/unit.h"

#define BLOCK 65536
#define DISKS 3
#define RECORDS 4000
#define STREAMS 3
static struct pr_error err;

struct rig {
	uint64_t seed;
	struct sim_rng rng;
	struct sim_disk disk[DISKS];
	struct sfs_disk handle[DISKS];
	struct sfs *sfs;
	int64_t now;
	bool cut_clean; /* the cut takes all that was not synced, and the failed disk is back */
	uint64_t appended[STREAMS];
	uint32_t length[STREAMS][RECORDS];
	bool there[STREAMS][RECORDS]; /* as the last walk found it */
	uint16_t on[STREAMS][RECORDS]; /* the device that it lies on */
};
#define HOLDS(r, condition)                                                                \
	do {                                                                               \
		if (!(condition))                                                          \
			ck_abort_msg("seed %lu: %s (%s)", (unsigned long)(r)->seed,        \
				#condition, err.text);                                     \
	} while (0)

static bool
rig_open(struct rig *r, size_t first, size_t count, bool writer, bool degraded)
{
	struct sfs_open_options o = {
		.writer = writer, .degraded = degraded, .shm_bytes = 8 * BLOCK};
	r->sfs = sfs_open_disks(r->handle + first, count, &o, &err);
	return r->sfs != NULL;
}

static struct rig *
rig_make(uint64_t seed, size_t disks, bool degraded)
{
	struct rig *r = calloc(1, sizeof(*r));
	r->seed = r->rng.s = seed;
	for (size_t i = 0; i < DISKS; i++)
		r->handle[i] = sim_make(&r->disk[i], 40 * BLOCK, &r->rng);
	ck_assert_int_eq(sfs_create_disks(r->handle, disks, BLOCK, 8, &err), 0);
	HOLDS(r, rig_open(r, 0, disks, true, degraded));
	HOLDS(r, sfs_stream_open(r->sfs, "a", 0, 0, &err) == 0);
	HOLDS(r, sfs_stream_open(r->sfs, "b", 9 * BLOCK, 0, &err) == 1);
	HOLDS(r, sfs_stream_open(r->sfs, "c", 9 * BLOCK, 0, &err) == 2);
	return r;
}

static void
rig_free(struct rig *r)
{
	sim_close(&r->sfs, r->disk, DISKS);
	free(r);
}

static void
append(struct rig *r, int s, bool reserve)
{
	static uint8_t body[30000];
	uint64_t n = ++r->appended[s];
	size_t len = r->length[s][n] = 1 + (uint32_t)sim_below(&r->rng, 30000);
	sim_body(s, n, len, body);
	int64_t t = (int64_t)n;
	if (!reserve) {
		HOLDS(r, sfs_append(r->sfs, s, t, t, body, len, NULL, &err) == SFS_OK);
		return;
	}
	uint8_t *to = sfs_reserve(r->sfs, s, len, &err);
	HOLDS(r, to != NULL);
	append(r, (s + 1) % STREAMS, false); /* others go on meanwhile */
	sim_body(s, n, len, to);
	HOLDS(r, sfs_commit(r->sfs, s, t, t, len, NULL, &err) == SFS_OK);
}

static void
append_some(struct rig *r, int count)
{
	for (int i = 0; i < count; i++) {
		append(r, (int)sim_below(&r->rng, STREAMS), sim_below(&r->rng, 8) == 0);
		if (sim_below(&r->rng, 20) == 0)
			sfs_tick(r->sfs, r->now += 100000000, &err);
	}
}

/* Every record that comes is what was appended, in order; gaps are said. How many there are. */
static uint64_t
walk(struct rig *r, bool gaps)
{
	static uint8_t body[30000];
	uint64_t held = 0;
	memset(r->there, 0, sizeof(r->there));
	for (int s = 0; s < STREAMS; s++) {
		struct sfs_cursor *c = sfs_cursor_open(r->sfs, s, NULL, &err);
		struct sfs_record rec;
		uint64_t last = 0;
		bool said = true;
		int rc;
		while ((rc = sfs_cursor_next(c, &rec, &err)) == 1 || rc == SFS_CORRUPT) {
			said = said || rc == SFS_CORRUPT;
			if (rc != 1)
				continue;
			sim_body(s, rec.sequence, rec.length, body);
			HOLDS(r, rec.sequence > last && rec.sequence <= r->appended[s]);
			HOLDS(r, rec.sequence == last + 1 || last == 0 || (gaps && said));
			HOLDS(r, rec.length == r->length[s][rec.sequence]);
			HOLDS(r, memcmp(body, rec.body, rec.length) == 0);
			uint64_t row;
			sfs_layout_place(&r->sfs->layout, rec.handle.block,
				&r->on[s][rec.sequence], &row);
			r->there[s][rec.sequence] = true;
			last = rec.sequence;
			said = false;
			held++;
		}
		HOLDS(r, rc == 0);
		sfs_cursor_close(&c);
	}
	return held;
}

static void
count_fault(void *arg, const struct sfs_fault *fault)
{
	(void)fault;
	++*(int *)arg;
}

/* What lay on a device that is no more is told as that, and not of a block that is there. */
static void
expect_lost(void *arg, const struct sfs_fault *fault)
{
	struct rig *r = arg;
	HOLDS(r, fault->kind == SFS_FAULT_MISSING && fault->device == NULL);
	HOLDS(r, fault->block == SFS_NO_BLOCK || !sfs_block_there(r->sfs, fault->block));
	HOLDS(r, strstr(fault->why, "on a device that was left out"));
	HOLDS(r, fault->first > 0 && fault->last >= fault->first);
}

START_TEST(test_missing)
{
	struct rig *r = rig_make(3, 2, false);
	struct sfs_volume_info info;
	char text[400];
	int faults = 0;
	append_some(r, 80);
	sfs_close(&r->sfs);
	HOLDS(r, rig_open(r, 0, 2, false, false));
	uint64_t all = walk(r, false);
	HOLDS(r, !sfs_degraded(r->sfs, text, sizeof(text)));
	sfs_close(&r->sfs);
	/* read with what is there */
	HOLDS(r, rig_open(r, 1, 1, false, false));
	HOLDS(r, sfs_degraded(r->sfs, text, sizeof(text)));
	ck_assert_ptr_nonnull(strstr(text, "device 1 of 2 is missing (not named): 32"));
	uint64_t half = walk(r, true);
	ck_assert_msg(half > all / 4 && half < all * 3 / 4, "%lu of %lu",
		(unsigned long)half, (unsigned long)all);
	ck_assert_int_gt(sfs_check(r->sfs, count_fault, &faults, NULL, &err), 0);
	ck_assert_int_gt(faults, 0);
	sfs_close(&r->sfs);
	/* not written, unless told so */
	HOLDS(r, !rig_open(r, 1, 1, true, false));
	ck_assert_ptr_nonnull(strstr(err.text, "--degraded"));
	HOLDS(r, rig_open(r, 1, 1, true, true));
	HOLDS(r, !sfs_degraded(r->sfs, text, sizeof(text)));
	HOLDS(r, sfs_losses(r->sfs, text, sizeof(text)));
	ck_assert_ptr_nonnull(strstr(text, "without 1 of the volume's 2 devices"));
	HOLDS(r, sfs_info(r->sfs, &info, &err) == SFS_OK);
	ck_assert_uint_eq(info.devices_lost, 1);
	ck_assert_uint_eq(r->sfs->root.device[0].lost_records, all - half);
	ck_assert_uint_eq(walk(r, true), half);
	append_some(r, 30);
	sfs_close(&r->sfs);
	HOLDS(r, rig_open(r, 1, 1, false, false));
	ck_assert_int_gt(sfs_check(r->sfs, expect_lost, r, NULL, &err), 0);
	sfs_close(&r->sfs);
	HOLDS(r, rig_open(r, 1, 1, true, true));
	append_some(r, 300);
	sfs_close(&r->sfs);
	/* it is lost for good: what it held does not come back */
	HOLDS(r, rig_open(r, 0, 2, true, false));
	ck_assert_uint_eq(r->sfs->lost, 1);
	walk(r, true);
	append_some(r, 50);
	walk(r, true);
	rig_free(r);
}
END_TEST

/* What is durable and not on the lost device is there after a power cut, and nothing else is amiss. */
static void
cut_and_compare(struct rig *r, uint16_t failed)
{
	static bool before[STREAMS][RECORDS];
	uint64_t durable[STREAMS];
	for (int s = 0; s < STREAMS; s++)
		durable[s] = sfs_durable(r->sfs, s);
	walk(r, true);
	memcpy(before, r->there, sizeof(before));
	for (size_t i = 0; i < DISKS; i++)
		r->disk[i].dead = true;
	sfs_close_as_killed(&r->sfs);
	for (size_t i = 0; i < DISKS; i++) {
		r->disk[i].dead = false;
		r->disk[i].fail_after = -1;
		sim_power_cut(&r->disk[i],
			r->cut_clean ? 0 : (unsigned)sim_below(&r->rng, 257), 0);
	}
	/* without the failed one, or with it as it was when it failed */
	struct sfs_disk kept = r->handle[failed];
	if (!r->cut_clean && sim_below(&r->rng, 2))
		r->handle[failed] = r->handle[failed ? 0 : 1];
	bool without = r->handle[failed].arg != kept.arg;
	struct sfs_disk some[DISKS];
	size_t n = 0;
	for (uint16_t i = 0; i < DISKS; i++)
		if (!without || i != failed)
			some[n++] = r->handle[i];
	r->handle[failed] = kept;
	struct sfs_open_options o = {
		.writer = true, .degraded = true, .shm_bytes = 8 * BLOCK};
	r->sfs = sfs_open_disks(some, n, &o, &err);
	HOLDS(r, r->sfs != NULL);
	walk(r, true);
	for (int s = 0; s < STREAMS; s++) {
		uint64_t first = 1, recycled = 0; /* opening may take some of the oldest */
		while (first <= durable[s] && !r->there[s][first])
			recycled += before[s][first++];
		HOLDS(r, recycled < 60);
		for (uint64_t q = first; q <= durable[s]; q++)
			if (before[s][q] && !r->there[s][q] &&
				!(without && r->on[s][q] == failed))
				ck_abort_msg(
					"seed %lu: stream %d record %lu of %lu durable "
					"is gone, first %lu",
					(unsigned long)r->seed, s, (unsigned long)q,
					(unsigned long)durable[s], (unsigned long)first);
	}
	for (int s = 0; s < STREAMS; s++)
		r->appended[s] = sfs_appended(r->sfs, s);
}

START_TEST(test_fails_while_written)
{
	for (uint64_t seed = 1; seed <= 40; seed++) {
		struct rig *r = rig_make(seed + (uint64_t)_i * 1000, DISKS, true);
		uint16_t failed = (uint16_t)sim_below(&r->rng, DISKS);
		char text[400];
		append_some(r, (int)sim_below(&r->rng, 300));
		r->disk[failed].fail_after = (int)sim_below(&r->rng, 10);
		append_some(r, (int)sim_below(&r->rng, 20));
		r->disk[failed].dead = true;
		if (sim_below(&r->rng, 2))
			append_some(r, (int)sim_below(&r->rng, 200));
		/* the moments at which a loss is being settled are short */
		for (uint64_t n = sim_below(&r->rng, 30); n > 0; n--) {
			append(r, (int)sim_below(&r->rng, STREAMS), false);
			sfs_tick(r->sfs, r->now += 100000000, &err);
		}
		if (sim_below(&r->rng, 3) == 0) {
			HOLDS(r, sfs_flush(r->sfs, &err) == SFS_OK);
			HOLDS(r, sfs_flush(r->sfs, &err) == SFS_OK);
			for (int s = 0; s < STREAMS; s++)
				HOLDS(r, sfs_durable(r->sfs, s) == r->appended[s]);
			HOLDS(r, sfs_losses(r->sfs, text, sizeof(text)));
			HOLDS(r, strstr(text, "Input/output error") != NULL);
		}
		if (sim_below(&r->rng, 2))
			append_some(r, (int)sim_below(&r->rng, 30));
		cut_and_compare(r, failed);
		append_some(r, 100);
		walk(r, true);
		rig_free(r);
	}
}
END_TEST

/* The disk goes while a root is written that knows nothing of it; the power before the next one is. */
START_TEST(test_fails_beside_a_root)
{
	for (uint64_t seed = 1; seed <= 200; seed++) {
		struct rig *r = rig_make(seed, DISKS, true);
		uint16_t failed = (uint16_t)sim_below(&r->rng, DISKS);
		r->cut_clean = true;
		append_some(r, 20 + (int)sim_below(&r->rng, 40));
		for (int i = 0; i < 100 && r->sfs->w->state < SFS_ROOT_WRITING; i++) {
			append(r, (int)sim_below(&r->rng, STREAMS), false);
			sfs_tick(r->sfs, r->now += 100000000, &err);
		}
		r->disk[failed].dead = true;
		for (int i = 0; i < 60; i++) {
			append(r, (int)sim_below(&r->rng, STREAMS), false);
			sfs_tick(r->sfs, r->now += 100000000, &err);
			if (r->sfs->lost && r->sfs->w->state >= SFS_ROOT_WRITING &&
				sim_below(&r->rng, 2))
				break;
		}
		cut_and_compare(r, failed);
		rig_free(r);
	}
}
END_TEST

/* Without being told so it is suspended, as ever, and the last one left always is. */
START_TEST(test_not_told)
{
	for (int told = 0; told < 2; told++) {
		struct rig *r = rig_make(9, told ? 1 : 2, told);
		append_some(r, 20);
		r->disk[0].dead = true;
		HOLDS(r, sfs_flush(r->sfs, &err) == SFS_ERROR);
		ck_assert_ptr_nonnull(strstr(err.text, "suspended"));
		r->disk[0].dead = false;
		for (int64_t i = 1; i < 20; i++)
			sfs_tick(r->sfs, i * 200000000, &err);
		HOLDS(r, sfs_flush(r->sfs, &err) == SFS_OK);
		ck_assert_uint_eq(r->sfs->lost, 0);
		rig_free(r);
	}
}
END_TEST

static void
fill(TCase *t)
{
	tcase_set_timeout(t, 60);
	tcase_add_test(t, test_missing);
	tcase_add_loop_test(t, test_fails_while_written, 0, 3);
	tcase_add_test(t, test_fails_beside_a_root);
	tcase_add_test(t, test_not_told);
}

int
main(void)
{
	return unit_run("streamfs devices", fill);
}
