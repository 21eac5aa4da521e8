/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/streamfs_marked.h"
#include "tests/unit/unit.h"

/* Deleting a stream's oldest blocks; the model test holds it against crashes. */
static struct sfs_trimmed
trim(struct sfs *sfs, int stream, int64_t until, uint32_t most)
{
	struct sfs_trimmed out;
	int rc = sfs_trim(sfs, stream, until, most, &out, &err);

	ck_assert_msg(rc == SFS_OK, "%s", err.text);
	return out;
}

START_TEST(test_until)
{
	struct sfs *w = open_volume(true), *r = open_volume(false);
	int a = sfs_stream_open(w, "a", 0, 0, &err),
	    b = sfs_stream_open(w, "b", 0, 0, &err);
	struct sfs_handle ha[10], hb[10];
	struct sfs_stream_info info;

	for (unsigned n = 0; n < 10; n++) {
		ha[n] = append(w, a, n);
		hb[n] = append(w, b, n);
	}
	/* the block of 4 and 5 has a later record */
	struct sfs_trimmed out = trim(w, a, 45, 0);
	ck_assert_uint_eq(out.blocks, 2);
	ck_assert_uint_eq(out.records, 4);
	ck_assert(!out.more);
	for (unsigned n = 0; n < 10; n++) {
		ck_assert_int_eq(read_one(w, &ha[n]), n < 4 ? SFS_EXPIRED : SFS_OK);
		ck_assert_int_eq(read_one(r, &ha[n]), n < 4 ? SFS_EXPIRED : SFS_OK);
		ck_assert_int_eq(read_one(r, &hb[n]), SFS_OK);
		ck_assert_int_eq(on_disk(a, n), n >= 4);
		ck_assert(on_disk(b, n));
	}
	ck_assert_int_eq(sfs_stream_info(r, (size_t)a, &info, &err), SFS_OK);
	ck_assert_uint_eq(info.first_sequence, 5);
	ck_assert_int_eq(info.evicted_until, 35);
	/* the same again has nothing to do */
	ck_assert_uint_eq(trim(w, a, 45, 0).blocks, 0);
	sfs_close(&r);
	sfs_close(&w);
}
END_TEST

START_TEST(test_all_goes_and_it_goes_on)
{
	struct sfs *w = open_volume(true);
	int a = sfs_stream_open(w, "a", 4 * SFS_BLOCK_MIN, 0, &err);
	struct sfs_volume_info volume;
	struct sfs_stream_info info;
	struct sfs_handle h;

	for (unsigned n = 0; n < 9; n++)
		append(w, a, n);
	/* guaranteed or not, and the one being filled as well; in steps */
	ck_assert(trim(w, a, INT64_MAX, 2).more);
	ck_assert(trim(w, a, INT64_MAX, 2).more);
	ck_assert(!trim(w, a, INT64_MAX, 2).more);
	for (unsigned n = 0; n < 9; n++)
		ck_assert(!on_disk(a, n));
	h = append(w, a, 9);
	ck_assert_int_eq(read_one(w, &h), SFS_OK);
	sfs_close(&w);

	w = open_volume(true);
	ck_assert_int_eq(sfs_stream_info(w, (size_t)a, &info, &err), SFS_OK);
	ck_assert_uint_eq(info.first_sequence, 10);
	ck_assert_uint_eq(info.last_sequence, 10);
	ck_assert_int_eq(info.evicted_until, 85);
	ck_assert_int_eq(read_one(w, &h), SFS_OK);
	ck_assert_int_eq(sfs_info(w, &volume, &err), SFS_OK);
	ck_assert_uint_eq(volume.wiping, 0);
	ck_assert_int_eq(sfs_check(w, NULL, NULL, NULL, &err), 0);
	sfs_close(&w);
}
END_TEST

/* The rest of a stream's block stays while somebody fills it. */
START_TEST(test_reserved)
{
	struct sfs *w = open_volume(true);
	int a = sfs_stream_open(w, "a", 0, 0, &err);

	for (unsigned n = 0; n < 5; n++)
		append(w, a, n);
	ck_assert_ptr_nonnull(sfs_reserve(w, a, RECORD / 2, &err));
	ck_assert_uint_eq(trim(w, a, INT64_MAX, 0).blocks, 2);
	ck_assert(on_disk(a, 4));
	ck_assert_int_eq(sfs_commit(w, a, 50, 55, 10, NULL, &err), SFS_OK);
	ck_assert_uint_eq(trim(w, a, INT64_MAX, 0).records, 2);
	ck_assert(!on_disk(a, 4));
	sfs_close(&w);
}
END_TEST

START_TEST(test_only_a_writer)
{
	struct sfs *w = open_volume(true), *r = open_volume(false);
	int a = sfs_stream_open(w, "a", 0, 0, &err);
	struct sfs_trimmed out;

	ck_assert_int_eq(sfs_trim(r, a, INT64_MAX, 0, &out, &err), SFS_ERROR);
	ck_assert_ptr_nonnull(strstr(err.text, "reading only"));
	ck_assert_int_eq(sfs_trim(w, 7, INT64_MAX, 0, &out, &err), SFS_ERROR);
	ck_assert_uint_eq(trim(w, a, INT64_MAX, 0).blocks, 0);
	sfs_close(&r);
	sfs_close(&w);
}
END_TEST

/* The device refuses the zeros: what was deleted is gone, and is written over by the next opening. */
START_TEST(test_wiped_later)
{
	struct sfs_volume_info volume;
	struct sfs_trimmed out;
	struct sfs *w = open_refusing();
	int a = sfs_stream_open(w, "a", 0, 0, &err);
	for (unsigned n = 0; n < 5; n++)
		append(w, a, n);
	ck_assert_int_eq(sfs_flush(w, &err), SFS_OK);
	writes_left = 1; /* the root */
	ck_assert_int_eq(sfs_trim(w, a, INT64_MAX, 0, &out, &err), SFS_ERROR);
	ck_assert_ptr_nonnull(strstr(err.text, "cannot write block"));
	ck_assert_int_eq(sfs_info(w, &volume, &err), SFS_OK);
	ck_assert_uint_eq(volume.wiping, 3);
	ck_assert_uint_eq(volume.repairs, 0);
	writes_left = -1;
	sfs_close_as_killed(&w);
	ck_assert(on_disk(a, 0));

	w = open_volume(false);
	ck_assert_int_eq(sfs_info(w, &volume, &err), SFS_OK);
	ck_assert_uint_eq(volume.wiping, 3);
	sfs_close(&w);
	w = open_volume(true);
	ck_assert(!on_disk(a, 0));
	ck_assert_int_eq(sfs_info(w, &volume, &err), SFS_OK);
	ck_assert_uint_eq(volume.wiping, 0);
	sfs_close(&w);
}
END_TEST

static void
fill(TCase *t)
{
	tcase_add_checked_fixture(t, setup, remove_file);
	tcase_add_test(t, test_until);
	tcase_add_test(t, test_all_goes_and_it_goes_on);
	tcase_add_test(t, test_reserved);
	tcase_add_test(t, test_only_a_writer);
	tcase_add_test(t, test_wiped_later);
}

int
main(void)
{
	return unit_run("streamfs trim", fill);
}
