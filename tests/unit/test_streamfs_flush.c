/* SPDX-License-Identifier: Apache-2.0 */
/* When what was appended goes to the device, and what that costs in padding. */
#include "tests/unit/streamfs_rig.h"
#include "tests/unit/unit.h"

#define BLOCK (1u << 20)
#define HALF 100000000 /* ns, of the usual flush interval */

static uint8_t body[BLOCK];

static struct sfs_handle
append(struct rig *r, size_t len)
{
	struct sfs_handle h;
	ck_assert_int_eq(sfs_append(r->sfs, 0, 5, 5, body, len, &h, &err), SFS_OK);
	return h;
}

/* The disk takes its time with what it was given. */
static void
settle(struct rig *r)
{
	for (int i = 0; i < 1000; i++)
		ck_assert_int_eq(sfs_tick(r->sfs, r->now, &err), SFS_OK);
	ck_assert_int_eq(r->sfs->w->state, SFS_IDLE);
}

/* Half a flush interval goes by. */
static void
half_interval(struct rig *r)
{
	r->now += HALF;
	settle(r);
}

START_TEST(test_slow_stream_is_durable_within_the_interval)
{
	struct rig *r = rig_make(0, BLOCK, 20);
	half_interval(r);
	for (uint64_t n = 1; n <= 20; n++) {
		append(r, n * 700);
		half_interval(r);
		half_interval(r);
		ck_assert_uint_eq(sfs_durable(r->sfs, 0), n);
	}
	rig_free(r);
}
END_TEST

/* Its sectors fill by themselves in time: none is padded, and nothing waits for more than two flushes. */
START_TEST(test_stream_that_goes_on_is_not_padded)
{
	struct rig *r = rig_make(0, BLOCK, 20);
	struct sfs_handle last = append(r, 6000);
	for (uint64_t n = 2; n <= 100; n++) {
		half_interval(r);
		struct sfs_handle h = append(r, 5000 + n * 10);
		ck_assert_uint_eq(h.block, last.block);
		ck_assert_uint_eq(
			h.offset, last.offset + sfs_record_size(last.header, last.length));
		ck_assert_uint_ge(sfs_durable(r->sfs, 0) + 2, n);
		last = h;
	}
	ck_assert_int_eq(sfs_flush(r->sfs, &err), SFS_OK);
	ck_assert_uint_eq(sfs_durable(r->sfs, 0), 100);
	rig_free(r);
}
END_TEST

/* Then one sync each three quarters of an interval does, and takes all. */
START_TEST(test_much_is_synced_less_often)
{
	struct rig *r = rig_make(0, BLOCK, 40);
	half_interval(r);
	int64_t flushed = 0;
	uint64_t n = 0;
	for (int i = 0; i < 13; i++) { /* quarters of an interval */
		for (int j = 0; j < 2; j++, n++)
			append(r, 210000 + n);
		r->now += HALF / 2;
		settle(r);
		flushed = i % 3 ? flushed : r->now;
		ck_assert_int_eq(r->sfs->w->last_flush, flushed);
		ck_assert_uint_ge(sfs_durable(r->sfs, 0) + 6, n);
		if (i > 0 && i % 3 == 0)
			ck_assert_uint_eq(sfs_durable(r->sfs, 0), n);
	}
	rig_free(r);
}
END_TEST

/* A block is written as it fills; the device does not wait for its end, nor for a flush. */
START_TEST(test_block_is_written_as_it_fills)
{
	struct rig *r = rig_make(0, BLOCK, 20);
	append(r, 9900);
	ck_assert_int_eq(sfs_flush(r->sfs, &err), SFS_OK);
	settle(r);
	uint64_t before = r->disk.writes;
	for (int i = 0; i < 75; i++)
		append(r, 9900);
	settle(r);
	ck_assert_uint_eq(r->disk.writes, before + 1);
	ck_assert_uint_eq(sfs_durable(r->sfs, 0), 1);
	rig_free(r);
}
END_TEST

/* What a record costs beside its body: 32 bytes, and 32 more in the first of each sixteenth of a block. */
START_TEST(test_header_sizes)
{
	struct rig *r = rig_make(0, BLOCK, 20);
	uint32_t part = BLOCK / SFS_WIDE_PARTS, before = UINT32_MAX;
	for (int i = 0; i < 500; i++) {
		struct sfs_handle h = append(r, 3000);
		uint32_t now = h.offset / part + (uint32_t)h.block * SFS_WIDE_PARTS;
		ck_assert_uint_eq(
			h.header, now == before ? SFS_RECORD_HEADER : SFS_RECORD_WIDE);
		before = now;
	}
	struct sfs_handle h;
	struct sfs_record out;
	/* times too far apart for the small one */
	ck_assert_int_eq(
		sfs_append(r->sfs, 0, 5, 5 + (INT64_C(1) << 32), body, 3, &h, &err),
		SFS_OK);
	ck_assert_uint_eq(h.header, SFS_RECORD_WIDE);
	ck_assert_int_eq(sfs_read(r->sfs, &h, NULL, 0, NULL, &out, &err), SFS_OK);
	ck_assert_int_eq(out.max_time - out.min_time, INT64_C(1) << 32);
	ck_assert_int_eq(
		sfs_append(r->sfs, 0, INT64_MAX, INT64_MIN, body, 3, &h, &err), SFS_OK);
	ck_assert_int_eq(sfs_read_header_of(r->sfs, &h, &out, &err), SFS_OK);
	ck_assert(out.min_time == INT64_MAX && out.max_time == INT64_MIN);
	ck_assert_uint_eq(out.sequence, 502);
	rig_free(r);
}
END_TEST

static void
fill(TCase *t)
{
	tcase_add_test(t, test_slow_stream_is_durable_within_the_interval);
	tcase_add_test(t, test_stream_that_goes_on_is_not_padded);
	tcase_add_test(t, test_much_is_synced_less_often);
	tcase_add_test(t, test_block_is_written_as_it_fills);
	tcase_add_test(t, test_header_sizes);
}

int
main(void)
{
	return unit_run("streamfs flush", fill);
}
