/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/streamfs_marked.h"
#include "tests/unit/streamfs_sim.h"
#include "tests/unit/unit.h"

/* Deleting from the midst of a stream; the model test holds it against crashes. */
static struct sfs_trimmed
take_out(struct sfs *sfs, int stream, int64_t since, int64_t until)
{
	const struct sfs_delete_range range = {since, until, UINT64_MAX};
	struct sfs_trimmed out, sum = {0};

	do {
		int rc = sfs_delete(sfs, stream, &range, 2, &out, &err);
		ck_assert_msg(rc == SFS_OK, "%s", err.text);
		sum.blocks += out.blocks;
		sum.records += out.records;
		sum.bytes += out.bytes;
	} while (out.more);
	return sum;
}

/* A cursor gives those of 0 .. count - 1 that are not in [first, last], and says once what is between. */
static void
walk(struct sfs *sfs, int stream, unsigned count, unsigned first, unsigned last)
{
	struct sfs_cursor *c = sfs_cursor_open(sfs, stream, NULL, &err);
	unsigned holes = 0, n = 0;
	struct sfs_record r;
	int rc;

	while ((rc = sfs_cursor_next(c, &r, &err)) != 0) {
		if (n == first)
			n = last + 1;
		holes += rc == SFS_DELETED;
		if (rc == SFS_DELETED) {
			ck_assert_ptr_nonnull(strstr(err.text, "were deleted"));
			continue;
		}
		ck_assert_int_eq(rc, 1);
		ck_assert_uint_eq(r.sequence, ++n);
	}
	ck_assert_uint_eq(n == first ? last + 1 : n, count);
	ck_assert_uint_eq(holes, first <= last);
	sfs_cursor_close(&c);
}

static void
look(struct sfs *sfs, int a, const struct sfs_handle *h, unsigned count, unsigned first,
	unsigned last)
{
	static _Alignas(4096) uint8_t room[SFS_BLOCK_MIN];
	struct sfs_record record;
	struct sfs_plan plan;
	const uint8_t *at;

	ck_assert_int_eq(sfs_refresh(sfs, &err), SFS_OK);
	for (unsigned n = 0; n < count; n++) {
		int want = n >= first && n <= last ? SFS_DELETED : SFS_OK;

		ck_assert_int_eq(read_one(sfs, &h[n]), want);
		ck_assert_int_eq(sfs_read_header_of(sfs, &h[n], &record, &err), want);
		ck_assert_int_eq(
			sfs_read_part(sfs, &h[n], 100, 200, room, sizeof(room), &at, &err),
			want);
		if (sfs_read_plan(sfs, &h[n], &plan))
			ck_assert_int_eq(
				sfs_read_planned(&plan, room, sizeof(room), &record), want);
	}
	walk(sfs, a, count, first, last);
	ck_assert_int_eq(sfs_check(sfs, NULL, NULL, NULL, &err), 0);
}

static bool
in_memory(const struct sfs *sfs, int stream, unsigned n)
{
	char text[32];
	int len = snprintf(text, sizeof(text), "<%d.record.%06u>", stream, n);

	return memmem(sfs->shm.header, sfs->shm.size, text, (size_t)len) != NULL;
}

START_TEST(test_middle)
{
	struct sfs *w = open_volume(true), *r = open_volume(false);
	int a = sfs_stream_open(w, "a", 4 * SFS_BLOCK_MIN, 0, &err),
	    b = sfs_stream_open(w, "b", 0, 0, &err);
	struct sfs_stream_info before, info;
	struct sfs_deleted hole;
	struct sfs_handle h[12];

	for (unsigned n = 0; n < 12; n++) {
		h[n] = append(w, a, n);
		append(w, b, n);
	}
	ck_assert_int_eq(sfs_stream_info(w, (size_t)a, &before, &err), SFS_OK);
	look(r, a, h, 12, 1, 0);
	ck_assert(in_memory(w, a, 4));
	/* one that reaches beyond stays; blocks are cut at both ends, and one goes as a whole */
	ck_assert_uint_eq(take_out(w, a, 21, 65).records, 4);
	look(w, a, h, 12, 3, 6);
	look(r, a, h, 12, 3, 6);
	for (unsigned n = 0; n < 12; n++) {
		ck_assert_int_eq(on_disk(a, n), n < 3 || n > 6);
		ck_assert_int_eq(in_memory(w, a, n), n < 3 || n > 6);
		ck_assert(on_disk(b, n));
	}
	ck_assert_int_eq(sfs_stream_info(r, (size_t)a, &info, &err), SFS_OK);
	ck_assert_uint_eq(info.deleted_records, 4);
	ck_assert_uint_eq(info.blocks, before.blocks);
	ck_assert_uint_eq(info.bytes + info.deleted_bytes, before.bytes);
	ck_assert_uint_gt(info.deleted_bytes, 4 * RECORD);
	ck_assert(sfs_stream_deleted(r, a, 1, &hole));
	ck_assert_uint_eq(hole.first, 4);
	ck_assert_uint_eq(hole.last, 7);
	ck_assert_int_eq(hole.min_time, 30);
	ck_assert_int_eq(hole.max_time, 65);
	ck_assert(!sfs_stream_deleted(r, a, 8, &hole));
	ck_assert(!sfs_stream_deleted(r, b, 1, &hole));
	/* the same again has nothing to do */
	ck_assert_uint_eq(take_out(w, a, 21, 65).records, 0);
	sfs_close(&w);
	look(r, a, h, 12, 3, 6);
	sfs_close(&r);
	w = open_volume(true);
	look(w, a, h, 12, 3, 6);
	sfs_close(&w);
}
END_TEST

/* Neighbours are one; and the one that is being filled goes on. */
START_TEST(test_newest)
{
	struct sfs *w = open_volume(true), *r = open_volume(false);
	int a = sfs_stream_open(w, "a", 0, 0, &err);
	struct sfs_volume_info volume;
	struct sfs_handle h[9];

	for (unsigned n = 0; n < 7; n++)
		h[n] = append(w, a, n);
	struct sfs_cursor *c = sfs_cursor_open(r, a, &h[5], &err);
	struct sfs_record record;
	take_out(w, a, 30, 45);
	take_out(w, a, 50, INT64_MAX);
	ck_assert_int_eq(sfs_info(r, &volume, &err), SFS_OK);
	ck_assert_uint_eq(volume.deletions, 1);
	ck_assert_uint_eq(volume.wiping, 0);
	look(r, a, h, 7, 3, 6);
	for (unsigned n = 7; n < 9; n++)
		h[n] = append(w, a, n);
	look(r, a, h, 9, 3, 6);
	/* from a deleted one on, what comes behind it is told and given */
	ck_assert_int_eq(sfs_cursor_next(c, &record, &err), SFS_DELETED);
	ck_assert_int_eq(sfs_cursor_next(c, &record, &err), 1);
	ck_assert_uint_eq(record.sequence, 8);
	sfs_cursor_close(&c);
	c = sfs_cursor_open(r, a, &h[3], &err);
	ck_assert_int_eq(sfs_cursor_next(c, &record, &err), 1);
	ck_assert_uint_eq(record.sequence, 8);
	sfs_cursor_close(&c);
	sfs_close(&r);
	sfs_close(&w);
}
END_TEST

/* What lies at the old end gives its blocks back, and the rest of what was asked for goes as well. */
START_TEST(test_old_end)
{
	struct sfs *w = open_volume(true);
	int a = sfs_stream_open(w, "a", 0, 0, &err);
	const struct sfs_delete_range range = {INT64_MIN, INT64_MAX, 4};
	struct sfs_stream_info info;
	struct sfs_trimmed out;

	for (unsigned n = 0; n < 10; n++)
		append(w, a, n);
	out = take_out(w, a, INT64_MIN, 25);
	ck_assert_uint_eq(out.blocks, 1);
	ck_assert_uint_eq(out.records, 3);
	ck_assert_int_eq(sfs_stream_info(w, (size_t)a, &info, &err), SFS_OK);
	ck_assert_uint_eq(info.first_sequence, 3);
	ck_assert_uint_eq(info.deleted_records, 1);
	/* none behind the fence, and what is there still goes with its block */
	ck_assert_int_eq(sfs_delete(w, a, &range, 0, &out, &err), SFS_OK);
	ck_assert_uint_eq(out.blocks, 1);
	ck_assert_uint_eq(out.records, 1);
	ck_assert_int_eq(sfs_stream_info(w, (size_t)a, &info, &err), SFS_OK);
	ck_assert_uint_eq(info.first_sequence, 5);
	ck_assert_uint_eq(info.deleted_records, 0);
	for (unsigned n = 0; n < 10; n++)
		ck_assert_int_eq(on_disk(a, n), n >= 4);
	sfs_close(&w);
}
END_TEST

/* Recycled, a stretch is forgotten. */
START_TEST(test_recycled)
{
	struct sfs *w = open_volume(true);
	int a = sfs_stream_open(w, "a", 0, 0, &err);
	struct sfs_volume_info volume;
	struct sfs_handle h[20];
	unsigned n = 0;

	for (; n < 20; n++)
		h[n] = append(w, a, n);
	take_out(w, a, 50, 95);
	for (; n < 300; n++)
		append(w, a, n);
	ck_assert_int_eq(sfs_flush(w, &err), SFS_OK);
	ck_assert_int_eq(read_one(w, &h[6]), SFS_EXPIRED);
	sfs_close(&w);
	w = open_volume(false);
	ck_assert_int_eq(sfs_info(w, &volume, &err), SFS_OK);
	ck_assert_uint_eq(volume.deletions, 0);
	sfs_close(&w);
}
END_TEST

/* The device refuses the zeros: gone it is, and the next opening writes them. */
START_TEST(test_erased_later)
{
	const struct sfs_delete_range range = {20, 65, UINT64_MAX};
	struct sfs *w = open_refusing(), *r;
	int a = sfs_stream_open(w, "a", 0, 0, &err);
	struct sfs_volume_info volume;
	struct sfs_trimmed out;
	struct sfs_handle h[12];

	for (unsigned n = 0; n < 12; n++)
		h[n] = append(w, a, n);
	ck_assert_int_eq(sfs_flush(w, &err), SFS_OK);
	writes_left = 1; /* the root */
	ck_assert_int_eq(sfs_delete(w, a, &range, 0, &out, &err), SFS_ERROR);
	ck_assert_ptr_nonnull(strstr(err.text, "cannot write block"));
	writes_left = -1;
	sfs_close_as_killed(&w);
	ck_assert(on_disk(a, 4));
	r = open_volume(false);
	ck_assert_int_eq(sfs_info(r, &volume, &err), SFS_OK);
	ck_assert_uint_eq(volume.wiping, 1);
	look(r, a, h, 12, 2, 6);
	sfs_close(&r);
	w = open_volume(true);
	for (unsigned n = 0; n < 12; n++)
		ck_assert_int_eq(on_disk(a, n), n < 2 || n > 6);
	ck_assert_int_eq(sfs_info(w, &volume, &err), SFS_OK);
	ck_assert_uint_eq(volume.wiping, 0);
	look(w, a, h, 12, 2, 6);
	sfs_close(&w);
}
END_TEST

/* One byte is enough for a record, and each second one goes; on a disk that costs nothing. */
START_TEST(test_too_many)
{
	struct sfs_open_options o = {.writer = true, .shm_bytes = 1 << 20};
	struct sim_rng rng = {1};
	struct sim_disk sim = {0};
	struct sfs_disk disk = sim_make(&sim, 6 << 20, &rng);

	ck_assert_int_eq(
		sfs_create_disks(&disk, 1, SFS_BLOCK_MIN, SFS_MAP_INTERVAL, &err), 0);
	struct sfs *w = sfs_open_disks(&disk, 1, &o, &err);
	int a = sfs_stream_open(w, "a", 0, 0, &err);
	struct sfs_volume_info volume;
	struct sfs_trimmed out;
	unsigned deleted = 0;
	int rc = SFS_OK;

	for (unsigned n = 0; n < 2000; n++)
		ck_assert_int_eq(sfs_append(w, a, n, n, "x", 1, NULL, &err), SFS_OK);
	for (unsigned n = 1; rc == SFS_OK && n < 2000; n += 2, deleted++) {
		const struct sfs_delete_range one = {n, n, UINT64_MAX};
		rc = sfs_delete(w, a, &one, 0, &out, &err);
	}
	ck_assert_int_eq(rc, SFS_ERROR);
	ck_assert_ptr_nonnull(strstr(err.text, "delete one range that spans"));
	ck_assert_uint_ge(--deleted, 850);
	ck_assert_int_eq(sfs_info(w, &volume, &err), SFS_OK);
	ck_assert_uint_eq(volume.deletions, deleted);
	/* what the line says helps */
	ck_assert_uint_eq(take_out(w, a, 1, 1990).records, 1990 - deleted);
	ck_assert_int_eq(sfs_info(w, &volume, &err), SFS_OK);
	ck_assert_uint_eq(volume.deletions, 1);
	ck_assert_int_eq(sfs_check(w, NULL, NULL, NULL, &err), 0);
	sfs_close(&w);
	sim_free(&sim);
}
END_TEST

static void
count_faults(void *arg, const struct sfs_fault *fault)
{
	++*(unsigned *)arg;
	ck_assert_int_eq(fault->kind, SFS_FAULT_RECORD);
	ck_assert_uint_eq(fault->first, 9);
	ck_assert_uint_eq(fault->last, 9);
}

/* A repair knows what was deleted from what is damaged. */
START_TEST(test_beside_damage)
{
	struct sfs *w = open_volume(true);
	int a = sfs_stream_open(w, "a", 0, 0, &err), fd;
	struct sfs_repair_result result;
	struct sfs_handle h[12];
	unsigned faults = 0;

	for (unsigned n = 0; n < 12; n++)
		h[n] = append(w, a, n);
	take_out(w, a, 30, 75);
	uint64_t at = sfs_locate(w, h[8].block).offset;
	sfs_close(&w);
	fd = open(path, O_WRONLY);
	ck_assert_int_eq(pwrite(fd, "damage", 6, (off_t)(at + h[8].offset + 1000)), 6);
	close(fd);
	ck_assert_int_eq(
		sfs_repair(paths, 1, NULL, count_faults, &faults, &result, &err), 0);
	ck_assert_uint_eq(faults, 1);
	ck_assert_uint_eq(result.left, 0);
	w = open_volume(true);
	for (unsigned n = 0; n < 12; n++)
		ck_assert_int_eq(read_one(w, &h[n]), n == 8             ? SFS_EXPIRED
						     : n >= 3 && n <= 7 ? SFS_DELETED
									: SFS_OK);
	sfs_close(&w);
}
END_TEST

START_TEST(test_only_a_writer)
{
	const struct sfs_delete_range all = {INT64_MIN, INT64_MAX, UINT64_MAX};
	struct sfs *w = open_volume(true), *r = open_volume(false);
	struct sfs_trimmed out;

	ck_assert_int_eq(sfs_delete(r, 0, &all, 0, &out, &err), SFS_ERROR);
	ck_assert_ptr_nonnull(strstr(err.text, "reading only"));
	ck_assert_int_eq(sfs_delete(w, 7, &all, 0, &out, &err), SFS_ERROR);
	ck_assert_ptr_nonnull(strstr(err.text, "no stream"));
	sfs_close(&r);
	sfs_close(&w);
}
END_TEST

/*
 * A reader that has read the table when nobody wrote. Without another look at it, what a
 * writer deletes then, and leaves behind, would be damage to it.
 */
START_TEST(test_reader_from_before)
{
	struct sfs *w = open_volume(true);
	int a = sfs_stream_open(w, "a", 0, 0, &err);
	struct sfs_handle h[12];

	for (unsigned n = 0; n < 12; n++)
		h[n] = append(w, a, n);
	sfs_close(&w);
	for (int alive = 0; alive < 2; alive++) {
		unsigned gone = 3 + 2 * alive;
		struct sfs *r = open_volume(false);
		ck_assert_int_eq(read_one(r, &h[gone]), SFS_OK);
		w = open_volume(true);
		take_out(w, a, 10 * gone, 10 * gone + 5);
		if (!alive)
			sfs_close(&w);
		ck_assert_int_eq(read_one(r, &h[gone]), SFS_DELETED);
		ck_assert_int_eq(read_one(r, &h[gone - 1]), SFS_OK);
		if (alive)
			sfs_close(&w);
		sfs_close(&r);
	}
}
END_TEST

static void
fill(TCase *t)
{
	tcase_add_checked_fixture(t, setup, remove_file);
	tcase_add_test(t, test_middle);
	tcase_add_test(t, test_newest);
	tcase_add_test(t, test_old_end);
	tcase_add_test(t, test_recycled);
	tcase_add_test(t, test_erased_later);
	tcase_add_test(t, test_too_many);
	tcase_add_test(t, test_beside_damage);
	tcase_add_test(t, test_only_a_writer);
	tcase_add_test(t, test_reader_from_before);
}

int
main(void)
{
	return unit_run("streamfs delete", fill);
}
