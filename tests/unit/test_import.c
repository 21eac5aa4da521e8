/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "logger/import.h"
#include "logger/streamfs/internal.h"
#include "tests/unit/streamfs_sim.h"
#include "tests/unit/unit.h"

/* A trace file into a volume whose disk takes nothing for a while, or ever. */
#define BLOCK 65536
#define PACKETS 6000u
#define LENGTH 1000u
#define REFUSED_MOST 2u /* those that met the suspension */

static struct sim_rng rng = {5};
static struct sim_disk disk;
static struct sfs *sfs;
static struct pr_error err;
static char path[64];
static unsigned looks, looks_until_good;

static void
write_trace(void)
{
	uint32_t head[6] = {0xa1b2c3d4, 4 << 16 | 2, 0, 0, 65535, 1};
	uint8_t data[LENGTH] = {0};
	FILE *f;

	snprintf(path, sizeof(path), "/tmp/import-test.XXXXXX");
	f = fdopen(mkstemp(path), "w");
	ck_assert_ptr_nonnull(f);
	fwrite(head, sizeof(head), 1, f);
	for (uint32_t i = 0; i < PACKETS; i++) {
		uint32_t record[4] = {i, 0, LENGTH, LENGTH};

		fwrite(record, sizeof(record), 1, f);
		fwrite(data, sizeof(data), 1, f);
	}
	ck_assert_int_eq(fclose(f), 0);
}

static void
setup(void)
{
	struct sfs_open_options o = {.writer = true, .shm_bytes = 12 * BLOCK};
	struct sfs_disk handle = sim_make(&disk, 256 * (uint64_t)BLOCK, &rng);

	write_trace();
	ck_assert_int_eq(sfs_create_disks(&handle, 1, BLOCK, 8, &err), 0);
	sfs = sfs_open_disks(&handle, 1, &o, &err);
	ck_assert_msg(sfs != NULL, "%s", err.text);
	looks = 0;
}

static void
teardown(void)
{
	sfs_close(&sfs);
	sim_free(&disk);
	unlink(path);
}

static bool
look(void *arg, const struct prl_import_stats *stats)
{
	(void)arg;
	(void)stats;
	if (++looks == 1)
		disk.dead = true;
	else if (looks == looks_until_good)
		disk.dead = false;
	return true;
}

START_TEST(test_disk_comes_back)
{
	struct prl_import_options o = {.link = -1};
	struct prl_import_stats stats;

	looks_until_good = 30;
	prl_import_file(sfs, path, &o, look, NULL, &stats, &err);
	ck_assert_uint_ge(looks, looks_until_good);
	ck_assert_uint_eq(stats.packets, PACKETS);
	ck_assert_uint_ge(stats.stored, PACKETS - REFUSED_MOST);
	ck_assert_int_eq(sfs_check(sfs, NULL, NULL, NULL, &err), 0);
}
END_TEST

START_TEST(test_disk_stays_away)
{
	struct prl_import_options o = {.link = -1};
	struct prl_import_stats stats;

	looks_until_good = 0;
	ck_assert_int_eq(prl_import_file(sfs, path, &o, look, NULL, &stats, &err), -1);
	ck_assert_msg(strstr(err.text, "recording is suspended"), "%s", err.text);
	ck_assert_uint_lt(stats.packets, PACKETS);
}
END_TEST

static void
fill(TCase *tc)
{
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, test_disk_comes_back);
	tcase_add_test(tc, test_disk_stays_away);
}

int
main(void)
{
	return unit_run("import", fill);
}
