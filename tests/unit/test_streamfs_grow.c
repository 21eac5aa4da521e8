/* SPDX-License-Identifier: Apache-2.0 */
/* Growing: what is held stays, what is new is used, and a power cut within leaves one or the other. */
#include <check.h>
#include <stdio.h>

#include "logger/streamfs/internal.h"
#include "tests/unit/streamfs_sim.h"
#include "tests/unit/unit.h"

#define BLOCK 65536
#define DISKS 4
#define RECORDS 3000
static struct pr_error err;

struct rig {
	struct sim_rng rng;
	struct sim_disk disk[DISKS];
	struct sfs_disk handle[DISKS];
	size_t disks;
	struct sfs *sfs;
	uint64_t appended[2];
	uint32_t length[2][RECORDS];
};

static bool
rig_open(struct rig *r, size_t disks)
{
	struct sfs_open_options o = {.writer = true, .shm_bytes = 6 * BLOCK};
	r->sfs = sfs_open_disks(r->handle, disks, &o, &err);
	return r->sfs != NULL;
}

static void
append(struct rig *r, int count)
{
	uint8_t body[20000];
	for (int i = 0; i < count; i++) {
		int s = sim_below(&r->rng, 4) == 0;
		uint64_t n = ++r->appended[s];
		size_t len = r->length[s][n] = 1 + (uint32_t)sim_below(&r->rng, 20000);
		sim_body(s, n, len, body);
		if (sfs_append(r->sfs, s, (int64_t)n, (int64_t)n, body, len, NULL, &err) !=
			SFS_OK)
			ck_abort_msg("%s", err.text);
	}
}

/* Both streams are whole up to their last record; returns how many records are held. */
static uint64_t
walk(struct rig *r)
{
	uint8_t body[20000];
	uint64_t held = 0;
	for (int s = 0; s < 2; s++) {
		struct sfs_cursor *c = sfs_cursor_open(r->sfs, s, NULL, &err);
		struct sfs_record rec;
		uint64_t last = 0;
		int rc;
		ck_assert_ptr_nonnull(c);
		while ((rc = sfs_cursor_next(c, &rec, &err)) == 1) {
			sim_body(s, rec.sequence, rec.length, body);
			if ((last && rec.sequence != last + 1) ||
				rec.length != r->length[s][rec.sequence] ||
				memcmp(body, rec.body, rec.length) != 0)
				ck_abort_msg("stream %d record %lu", s,
					(unsigned long)rec.sequence);
			last = rec.sequence;
			held++;
		}
		ck_assert_msg(rc == 0, "%d %s", rc, err.text);
		ck_assert_uint_eq(last, r->appended[s]);
		sfs_cursor_close(&c);
	}
	return held;
}

static struct rig *
rig_make(uint64_t seed, size_t disks, uint64_t rows, bool zones)
{
	struct rig *r = calloc(1, sizeof(*r));
	struct sfs_create_shape shape = {.block_size = BLOCK,
		.interval = 8,
		.utilization = SFS_UTILIZATION,
		.zones = zones};
	r->rng.s = seed;
	r->disks = disks;
	for (size_t i = 0; i < DISKS; i++) {
		r->handle[i] = sim_make(&r->disk[i], 140 * BLOCK, &r->rng);
		r->handle[i].size = (8 + rows) * BLOCK;
	}
	ck_assert_int_eq(sfs_create_shaped(r->handle, disks, &shape, &err), 0);
	ck_assert_msg(rig_open(r, disks), "%s", err.text);
	ck_assert_int_eq(sfs_stream_open(r->sfs, "a", 0, 0, &err), 0);
	ck_assert_int_eq(sfs_stream_open(r->sfs, "b", 4 * BLOCK, 0, &err), 1);
	return r;
}

static void
rig_free(struct rig *r)
{
	sim_close(&r->sfs, r->disk, DISKS);
	free(r);
}

/* Adds room to the disks there are, or a disk; as sfs_grow does, the writer is opened for it. */
static int
grow(struct rig *r, uint64_t more, size_t add, uint64_t *blocks)
{
	for (size_t i = 0; i < r->disks; i++) {
		r->handle[i].size += more * BLOCK;
		for (uint16_t d = 0; d < r->sfs->disks; d++)
			if (r->sfs->disk[d].arg == &r->disk[i])
				r->sfs->disk[d].size = r->handle[i].size;
	}
	return sfs_grow_open(r->sfs, r->handle + r->disks, (uint16_t)add, blocks, &err);
}

/* By a reader, which looks at maps and roots too. */
static void
check_all(struct rig *r)
{
	struct sfs_open_options o = {.writer = false};
	struct sfs *sfs = sfs_open_disks(r->handle, r->disks, &o, &err);
	ck_assert_msg(sfs != NULL, "%s", err.text);
	ck_assert_int_eq(sfs_check(sfs, NULL, NULL, NULL, &err), 0);
	sfs_close(&sfs);
}

START_TEST(test_grown)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct sim_rng choice = {seed * 977 + (uint64_t)_i};
		size_t disks = 1 + sim_below(&choice, 2);
		struct rig *r = rig_make(seed, disks, 20 + sim_below(&choice, 20),
			sim_below(&choice, 3) == 0);
		append(r, (int)sim_below(&choice, 600));
		for (int round = 0; round < 3; round++) {
			size_t add = r->disks < DISKS ? sim_below(&choice, 2) : 0;
			uint64_t room = add ? sim_below(&choice, 2) * 10
					    : 1 + sim_below(&choice, 20);
			uint64_t blocks = 0, was = r->sfs->root.blocks, held;
			if (sim_below(&choice, 2)) {
				sfs_close(&r->sfs);
				ck_assert(rig_open(r, r->disks));
			}
			ck_assert_int_eq(sfs_flush(r->sfs, &err), SFS_OK);
			held = walk(r);
			ck_assert_msg(grow(r, room, add, &blocks) == 0, "%s", err.text);
			ck_assert_uint_ge(blocks, add ? 1 : room);
			r->disks += add;
			sfs_close(&r->sfs);
			check_all(r);
			ck_assert_msg(rig_open(r, r->disks), "seed %lu: %s",
				(unsigned long)seed, err.text);
			ck_assert_uint_eq(r->sfs->root.blocks, was + blocks);
			ck_assert_uint_ge(held, walk(r));
			append(r, (int)sim_below(&choice, 200));
			ck_assert_int_eq(sfs_flush(r->sfs, &err), SFS_OK);
			for (size_t i = 0; i < r->disks; i++)
				sim_power_cut(&r->disk[i], 0, 0);
			sfs_close_as_killed(&r->sfs);
			check_all(r);
			ck_assert(rig_open(r, r->disks));
			walk(r);
		}
		rig_free(r);
	}
}
END_TEST

/* A volume that was full takes all of the new room before it recycles what it held. */
START_TEST(test_room_is_used)
{
	struct rig *r = rig_make(5, 1, 40, false);
	struct sfs_volume_info info;
	uint64_t blocks;
	append(r, 600);
	ck_assert_int_eq(grow(r, 0, 1, &blocks), 0);
	r->disks = 2;
	sfs_close(&r->sfs);
	ck_assert(rig_open(r, 2));
	append(r, 600);
	ck_assert_int_eq(sfs_info(r->sfs, &info, &err), SFS_OK);
	ck_assert_uint_eq(info.blocks, 80);
	ck_assert_uint_ge(info.blocks_used, 80 - 80 / 8 - 3 * 2 - 3);
	/* and both disks took part */
	uint64_t first = r->disk[0].writes, second = r->disk[1].writes;
	append(r, 200);
	ck_assert_int_eq(sfs_flush(r->sfs, &err), SFS_OK);
	first = r->disk[0].writes - first;
	second = r->disk[1].writes - second;
	ck_assert_msg(first < 2 * second && second < 2 * first, "%lu and %lu writes",
		(unsigned long)first, (unsigned long)second);
	walk(r);
	rig_free(r);
}
END_TEST

/* The power goes at the n-th write within growing: afterwards it is the old volume, or the new one. */
START_TEST(test_power_cut)
{
	for (size_t add = 0; add < 2; add++) {
		bool grown = false;
		for (int n = 0; n < 60 && !grown; n++) {
			struct rig *r =
				rig_make((uint64_t)_i * 100 + (uint64_t)n, 1, 40, false);
			uint64_t blocks;
			append(r, 300);
			ck_assert_int_eq(sfs_flush(r->sfs, &err), SFS_OK);
			for (size_t i = 0; i < 2; i++)
				r->disk[i].fail_after = n;
			grown = grow(r, add ? 0 : 25, add, &blocks) == 0;
			for (size_t i = 0; i < 2; i++)
				r->disk[i].dead = true;
			sfs_close_as_killed(&r->sfs);
			for (size_t i = 0; i < 2; i++) {
				r->disk[i].dead = false;
				r->disk[i].fail_after = -1;
				sim_power_cut(&r->disk[i],
					grown ? 0 : (unsigned)sim_below(&r->rng, 257), 0);
			}
			bool open = add && rig_open(r, 2);
			if (!open)
				open = rig_open(r, 1);
			ck_assert_msg(open, "after %d writes: %s", n, err.text);
			ck_assert(!grown || r->sfs->root.blocks > 40);
			walk(r);
			append(r, 200);
			walk(r);
			ck_assert_int_eq(sfs_check(r->sfs, NULL, NULL, NULL, &err), 0);
			rig_free(r);
		}
		ck_assert(grown);
	}
}
END_TEST

START_TEST(test_refused)
{
	struct rig *r = rig_make(5, 1, 40, false);
	uint64_t blocks;
	ck_assert_int_lt(grow(r, 0, 0, &blocks), 0);
	ck_assert_ptr_nonnull(strstr(err.text, "nothing has become larger"));
	append(r, 10);
	walk(r);
	rig_free(r);
}
END_TEST

static void
fill(TCase *t)
{
	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, test_grown, 0, 3);
	tcase_add_test(t, test_room_is_used);
	tcase_add_loop_test(t, test_power_cut, 0, 2);
	tcase_add_test(t, test_refused);
}

int
main(void)
{
	return unit_run("streamfs grow", fill);
}
