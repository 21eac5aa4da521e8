/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders of the frontier: each block once, each map behind what it tells of; and what balancing over
 * zones does for the slowest stretch, by the production writer on a timed model of a zoned disk.
 */
#include <check.h>
#include <stdio.h>

#include "logger/streamfs/internal.h"
#include "tests/unit/streamfs_sim.h"
#include "tests/unit/streamfs_timed.h"
#include "tests/unit/unit.h"

#define BLOCK 65536
static struct pr_error err;

START_TEST(test_regions)
{
	/* R1 S1 Tn R2 S2 Tn-1 ... of 2 rows a region, 2 regions a zone, and 3 rows over */
	static const uint64_t expected[] = {
		0, 1, 4, 5, 13, 14, 2, 3, 6, 7, 11, 12, 8, 9, 10};
	for (uint64_t i = 0; i < 15; i++)
		ck_assert_uint_eq(sfs_zone_row(i, 15, 2), expected[i]);
	ck_assert_uint_eq(sfs_zone_row(4, 5, 2), 4);
	ck_assert_uint_eq(sfs_zone_region(100000, 1 << 20), 64);
	ck_assert_uint_eq(sfs_zone_region(96, 1 << 20), 2);
	ck_assert_uint_eq(sfs_zone_region(10, 1 << 20), 1);
}
END_TEST

static void
random_root(struct sim_rng *rng, struct sfs_root *root)
{
	static const uint32_t interval[] = {4, 8, 64, 256};
	*root = (struct sfs_root){.map_interval = interval[sim_below(rng, 4)]};
	root->device_count = (uint16_t)(1 + sim_below(rng, 5));
	root->set_count = (uint32_t)(1 + sim_below(rng, 5));
	for (uint32_t i = 0; i < root->set_count; i++) {
		struct sfs_set *s = &root->set[i];
		s->devices = (uint16_t)(1 + sim_below(rng, (1u << root->device_count) - 1));
		s->tier = (uint16_t)sim_below(rng, 3);
		s->blocks = (uint64_t)__builtin_popcount(s->devices) *
			    (1 + sim_below(rng, 300));
		root->blocks += s->blocks;
	}
	root->zone_region = sim_below(rng, 2) ? 1 + (uint32_t)sim_below(rng, 20) : 0;
}

#define HOLDS(condition)                                                                   \
	do {                                                                               \
		if (!(condition))                                                          \
			ck_abort_msg("seed %lu: %s", (unsigned long)seed, #condition);     \
	} while (0)

static void
check_order(const struct sfs_order *o, uint32_t interval, uint64_t seed)
{
	uint8_t *seen = calloc(1, o->blocks);
	for (uint64_t p = 0; p < o->blocks; p++) {
		uint32_t b = sfs_order_block(o, p);
		HOLDS(b < o->blocks && !seen[b]);
		HOLDS(sfs_order_position(o, b) == p);
		seen[b] = 1;
		if (b % interval != interval - 1)
			continue;
		for (uint32_t k = b - (interval - 1); k < b; k++)
			HOLDS(seen[k]);
	}
	free(seen);
}

/* No two blocks in one place. */
static void
check_places(const struct sfs_root *root, const struct sfs_layout *l, uint64_t seed)
{
	uint8_t *seen[SFS_DEVICES_MAX] = {0};
	for (uint16_t d = 0; d < root->device_count; d++)
		seen[d] = calloc(1, l->rows[d] + 1);
	for (uint64_t b = 0; b < root->blocks; b++) {
		uint16_t device;
		uint64_t row;
		sfs_layout_place(l, b, &device, &row);
		HOLDS(device < root->device_count && row < l->rows[device]);
		HOLDS(!seen[device][row]);
		seen[device][row] = 1;
	}
	for (uint16_t d = 0; d < root->device_count; d++)
		free(seen[d]);
}

START_TEST(test_orders)
{
	for (uint64_t seed = 1; seed <= 500; seed++) {
		struct sim_rng rng = {seed};
		struct sfs_root root;
		struct sfs_layout l;
		struct sfs_order o = {0};
		random_root(&rng, &root);
		sfs_layout_make(&l, &root);
		HOLDS(sfs_order_make(&o, &l, root.blocks, root.map_interval,
			      root.zone_region, &err) == 0);
		check_order(&o, root.map_interval, seed);
		check_places(&root, &l, seed);
		sfs_order_free(&o);
	}
}
END_TEST

/* A device that came later works along with the first from the next block on. */
START_TEST(test_sets_side_by_side)
{
	struct sfs_root root = {.device_count = 3, .set_count = 2, .blocks = 1500};
	struct sfs_layout l;
	struct sfs_order o = {0};
	root.set[0] = (struct sfs_set){.blocks = 1000, .devices = 3};
	root.set[1] = (struct sfs_set){.blocks = 500, .devices = 4};
	sfs_layout_make(&l, &root);
	ck_assert_int_eq(sfs_order_make(&o, &l, 1500, 256, 0, &err), 0);
	for (uint64_t p = 0; p < 1494; p += 6) {
		int on[3] = {0};
		for (uint64_t i = 0; i < 6; i++) {
			uint16_t device;
			uint64_t row;
			sfs_layout_place(&l, sfs_order_block(&o, p + i), &device, &row);
			on[device]++;
		}
		for (int d = 0; d < 3; d++)
			ck_assert_msg(on[d] >= 1 && on[d] <= 3, "at %lu: %d of device %d",
				(unsigned long)p, on[d], d);
	}
	sfs_order_free(&o);
}
END_TEST

/* ---- a lap over a zoned disk ---- */

#define ROWS 4800u
struct lap {
	double mean, least; /* bytes a ns; least: of any window of a sixteenth of the lap */
	uint64_t seeks;
};

static struct lap
write_lap(bool zones, double inner)
{
	static uint8_t body[BLOCK - SFS_BLOCK_HEADER - SFS_RECORD_WIDE];
	static double at[ROWS + 1];
	struct timed_disk disk;
	struct sfs_disk handle =
		timed_make(&disk, (ROWS + 8) * (uint64_t)BLOCK, 0.2, inner);
	struct sfs_create_shape shape = {.block_size = BLOCK,
		.interval = SFS_MAP_INTERVAL,
		.utilization = SFS_UTILIZATION,
		.zones = zones};
	struct sfs_open_options o = {.writer = true, .shm_bytes = 8 * BLOCK};
	struct lap lap = {.least = 1e9};
	/* 8 ms, scaled as the regions are against 64 MiB */
	disk.seek = 8e6 * sfs_zone_region(ROWS, BLOCK) * BLOCK / (64 << 20);
	ck_assert_int_eq(sfs_create_shaped(&handle, 1, &shape, &err), 0);
	struct sfs *sfs = sfs_open_disks(&handle, 1, &o, &err);
	ck_assert_msg(sfs != NULL, "%s", err.text);
	ck_assert_int_eq(sfs_stream_open(sfs, "a", 0, 0, &err), 0);
	double begin = disk.now;
	uint64_t count = sfs->root.blocks - sfs->root.blocks / SFS_MAP_INTERVAL,
		 width = count / 16;
	disk.seeks = 0;
	for (uint64_t n = 0; n < count; n++) {
		at[n] = disk.now;
		if (sfs_append(sfs, 0, 1, 2, body, sizeof(body), NULL, &err) != SFS_OK)
			ck_abort_msg("%s", err.text);
		double rate =
			n < width ? 1e9
				  : (double)(width * BLOCK) / (disk.now - at[n - width]);
		lap.least = n >= width + 8 && rate < lap.least ? rate : lap.least;
	}
	lap.mean = (double)(count * BLOCK) / (disk.now - begin);
	lap.seeks = disk.seeks;
	sfs_close(&sfs);
	free(disk.kept);
	return lap;
}

/* Outer tracks twice as fast as inner ones: the paper's disks gained 30 % at their slowest. */
START_TEST(test_balanced)
{
	struct lap plain = write_lap(false, 0.1), zoned = write_lap(true, 0.1);
	printf("slowest sixteenth of a lap against the mean: %.3f in order, %.3f balanced; "
	       "balanced %.3f of in order; seeks %lu and %lu\n",
		plain.least / plain.mean, zoned.least / zoned.mean,
		zoned.least / plain.least, (unsigned long)plain.seeks,
		(unsigned long)zoned.seeks);
	ck_assert_msg(plain.least / plain.mean < 0.75, "%.3f", plain.least / plain.mean);
	ck_assert_msg(zoned.least / zoned.mean > 0.93, "%.3f", zoned.least / zoned.mean);
	ck_assert_msg(zoned.least / plain.least > 1.2, "%.3f", zoned.least / plain.least);
}
END_TEST

static double *measured;
static int64_t
simulated_now(void)
{
	return (int64_t)*measured;
}

START_TEST(test_measured)
{
	static const double inner[] = {0.1, 0.17, 0.18, 0.2, 0.3};
	for (size_t i = 0; i < 5; i++) {
		struct timed_disk disk;
		struct sfs_disk handle =
			timed_make(&disk, UINT64_C(100) << 30, 0.2, inner[i]);
		measured = disk.clock;
		double ratio = sfs_zones_measure(&handle, simulated_now);
		bool differ = ratio > SFS_ZONES_DIFFER || ratio < 1 / SFS_ZONES_DIFFER;
		ck_assert_msg(differ == (i < 2 || i == 4), "inner %.2f: ratio %.3f",
			inner[i], ratio);
		free(disk.kept);
	}
}
END_TEST

static void
fill(TCase *t)
{
	tcase_set_timeout(t, 60);
	tcase_add_test(t, test_regions);
	tcase_add_test(t, test_orders);
	tcase_add_test(t, test_sets_side_by_side);
	tcase_add_test(t, test_balanced);
	tcase_add_test(t, test_measured);
}

int
main(void)
{
	return unit_run("streamfs zones", fill);
}
