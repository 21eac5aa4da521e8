/* SPDX-License-Identifier: Apache-2.0 */
/* A device that fails for a while: recording is suspended, said, and goes on; nothing is lost. */
#include "tests/unit/streamfs_rig.h"
#include "tests/unit/unit.h"

#define BLOCK 65536
#define BLOCKS 80
static int
append(struct rig *r, size_t len)
{
	uint8_t body[20000];
	memset(body, (int)(r->n + 1), len);
	int rc = sfs_append(r->sfs, 0, (int64_t)r->n, (int64_t)r->n, body, len, NULL, &err);
	r->n += rc == SFS_OK;
	return rc;
}

static void
expect_all(struct rig *r, size_t len)
{
	struct sfs_cursor *c = sfs_cursor_open(r->sfs, 0, NULL, &err);
	struct sfs_record rec;
	uint8_t body[20000];
	uint64_t n = 0;
	while (sfs_cursor_next(c, &rec, &err) == 1) {
		ck_assert_uint_eq(rec.sequence, ++n);
		ck_assert_uint_eq(rec.length, len);
		memset(body, (int)n, len);
		ck_assert(memcmp(rec.body, body, len) == 0);
	}
	ck_assert_uint_eq(n, r->n);
	sfs_cursor_close(&c);
}

/* Writes fail from now on, or no more. */
static void
break_device(struct rig *r, bool on)
{
	r->disk.dead = on;
}

START_TEST(test_suspended_and_resumed)
{
	struct rig *r = rig_make((uint64_t)_i + 1, BLOCK, BLOCKS);
	for (int i = 0; i < 5; i++)
		ck_assert_int_eq(append(r, 9000), SFS_OK);
	ck_assert_int_eq(sfs_flush(r->sfs, &err), SFS_OK);
	break_device(r, true);
	/* goes on while there is memory, then says so, and does not hang */
	int rc = SFS_OK;
	for (int i = 0; i < 200 && rc == SFS_OK; i++) {
		rc = append(r, 9000);
		sfs_tick(r->sfs, r->now += 200000000, &err);
	}
	ck_assert_int_eq(rc, SFS_ERROR);
	ck_assert_uint_gt(r->n, 20);
	ck_assert_int_eq(sfs_flush(r->sfs, &err), SFS_ERROR);
	ck_assert_ptr_nonnull(strstr(err.text, "suspended"));
	ck_assert_uint_eq(sfs_durable(r->sfs, 0), 5);
	ck_assert_int_eq(sfs_tick(r->sfs, r->now += 200000000, &err), SFS_ERROR);
	expect_all(r, 9000);
	break_device(r, false);
	for (int i = 0; i < 50 && sfs_durable(r->sfs, 0) < r->n; i++)
		sfs_tick(r->sfs, r->now += 200000000, &err);
	ck_assert_uint_eq(sfs_durable(r->sfs, 0), r->n);
	ck_assert_int_eq(sfs_tick(r->sfs, r->now += 200000000, &err), SFS_OK);
	for (int i = 0; i < 20; i++)
		ck_assert_int_eq(append(r, 9000), SFS_OK);
	ck_assert_int_eq(sfs_flush(r->sfs, &err), SFS_OK);
	r->disk.dead = true;
	sfs_close_as_killed(&r->sfs);
	r->disk.dead = false;
	sim_power_cut(&r->disk, 0, 64);
	rig_open(r);
	expect_all(r, 9000);
	ck_assert_int_eq(sfs_check(r->sfs, NULL, NULL, NULL, &err), 0);
	rig_free(r);
}
END_TEST

/* Any one write fails once, whichever it is: data, map, root. */
START_TEST(test_each_write_fails_once)
{
	struct rig *r = rig_make(7, BLOCK, BLOCKS);
	int rc = SFS_OK, errors = 0;
	r->disk.fail_after = _i;
	for (int i = 0; i < 60; i++) {
		for (int tries = 0; tries < 20; tries++) {
			rc = append(r, 20000);
			if (rc == SFS_OK)
				break;
			errors++;
			sfs_tick(r->sfs, r->now += 200000000, &err);
		}
		ck_assert_msg(rc == SFS_OK, "record %d: %s", i, err.text);
		sfs_tick(r->sfs, r->now += 50000000, &err);
	}
	for (int i = 0; i < 20 && sfs_flush(r->sfs, &err) != SFS_OK; i++)
		;
	ck_assert_uint_eq(sfs_durable(r->sfs, 0), r->n);
	expect_all(r, 20000);
	rig_free(r);
}
END_TEST

START_TEST(test_full_of_guarantees)
{
	struct rig *r = rig_make(3, BLOCK, BLOCKS);
	uint64_t data = r->sfs->root.blocks - r->sfs->root.blocks / 8, most = data * 9 / 10;
	struct sfs_stream_info info;
	ck_assert_int_lt(sfs_stream_open(r->sfs, "a", (most + 1) * BLOCK, 0, &err), 0);
	ck_assert_int_eq(sfs_stream_open(r->sfs, "a", most * BLOCK, 0, &err), 0);
	for (int i = 0; i < 1000; i++)
		ck_assert_msg(append(r, 20000) == SFS_OK, "%d: %s", i, err.text);
	ck_assert_int_eq(sfs_stream_info(r->sfs, 0, &info, &err), SFS_OK);
	ck_assert_uint_ge(info.blocks, most);
	/* a volume that promises more than it has says that it is full, every time */
	r->sfs->table.stream[0].guarantee = 2 * data * BLOCK;
	int rc = SFS_OK;
	for (int i = 0; i < 300 && rc == SFS_OK; i++)
		rc = append(r, 20000);
	for (int i = 0; i < 30; i++)
		ck_assert_int_eq(append(r, 20000), SFS_FULL);
	r->sfs->table.stream[0].guarantee = 0;
	ck_assert_int_eq(append(r, 20000), SFS_OK);
	rig_free(r);
}
END_TEST

/* How often a reader still meets the root under way, another time other bytes; below 0: damaged for good. */
static int bytes_in_flight;
static const struct sfs_disk_ops *beneath;

static ssize_t
read_under_way(void *arg, void *buf, size_t len, uint64_t offset)
{
	ssize_t n = beneath->read(arg, buf, len, offset);
	if (offset < 2 * SFS_ROOT_BYTES && bytes_in_flight != 0)
		((uint8_t *)buf)[100] ^=
			bytes_in_flight > 0 ? (uint8_t)bytes_in_flight-- : 1;
	return n;
}

static struct sfs *
open_under_way(const struct rig *r, int reads)
{
	struct sfs_open_options o = {0};
	static struct sfs_disk_ops ops;
	struct sfs_disk handle = r->handle;
	beneath = r->handle.ops;
	ops = *beneath;
	ops.read = read_under_way;
	handle.ops = &ops;
	bytes_in_flight = reads;
	struct sfs *sfs = sfs_open_disks(&handle, 1, &o, &err);
	bytes_in_flight = 0;
	return sfs;
}

/* A slow reader may meet each of the two copies while it is written. */
START_TEST(test_root_under_way)
{
	struct rig *r = rig_make(9, BLOCK, BLOCKS);
	ck_assert_int_eq(append(r, 9000), SFS_OK);
	sfs_close(&r->sfs);
	struct sfs *reader = open_under_way(r, 30);
	ck_assert_msg(reader != NULL, "%s", err.text);
	sfs_close_as_killed(&reader);
	ck_assert_ptr_null(open_under_way(r, -1));
	ck_assert_ptr_nonnull(strstr(err.text, "the root is damaged (checksum)"));
	rig_open(r);
	expect_all(r, 9000);
	rig_free(r);
}
END_TEST

static void
fill(TCase *t)
{
	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, test_suspended_and_resumed, 0, 10);
	tcase_add_loop_test(t, test_each_write_fails_once, 0, 60);
	tcase_add_test(t, test_full_of_guarantees);
	tcase_add_test(t, test_root_under_way);
}

int
main(void)
{
	return unit_run("streamfs faults", fill);
}
