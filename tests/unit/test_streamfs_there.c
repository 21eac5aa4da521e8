/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/streamfs_marked.h"
#include "tests/unit/unit.h"

/* Records read where they lie in the writer's memory, and those that do not stay there. */
static struct sfs *w, *r;
static int a, b;
static struct sfs_cursor *c;

static void
begin(void)
{
	setup();
	w = open_volume(true);
	a = sfs_stream_open(w, "a", 4 * SFS_BLOCK_MIN, 0, &err);
	b = sfs_stream_open(w, "b", 0, 0, &err);
	r = open_volume(false);
	c = sfs_cursor_open(r, a, NULL, &err);
	ck_assert_ptr_nonnull(c);
}

static void
end(void)
{
	sfs_cursor_close(&c);
	sfs_close(&r);
	sfs_close(&w);
	remove_file();
}

static void
expect(const struct sfs_record *record, unsigned n)
{
	char text[32];
	int len = snprintf(text, sizeof(text), "<%d.record.%06u>", a, n);

	ck_assert_uint_eq(record->sequence, n + 1);
	ck_assert_uint_eq(record->length, RECORD);
	ck_assert_int_eq(record->min_time, n * 10);
	ck_assert_int_eq(record->max_time, n * 10 + 5);
	for (size_t i = 0; i + 20 < RECORD; i += 20)
		ck_assert_mem_eq(record->body + i, text, (size_t)len);
	ck_assert_int_eq(read_one(w, &record->handle), SFS_OK);
}

static bool
in_memory(const struct sfs *sfs, const uint8_t *p)
{
	const uint8_t *from = sfs->shm.data;

	return p >= from && p < from + (size_t)sfs->shm.slots * sfs->shm.block_size;
}

static void
next_is(unsigned n)
{
	struct sfs_record record;

	ck_assert_msg(sfs_cursor_next(c, &record, &err) == 1, "%s", err.text);
	expect(&record, n);
	ck_assert(!in_memory(r, record.body));
}

static struct sfs_record
there_is(unsigned n)
{
	struct sfs_record record;

	ck_assert_int_eq(sfs_cursor_peek_shared(c, &record), 1);
	ck_assert(in_memory(r, record.body));
	expect(&record, n);
	return record;
}

/* Of so many records the first is passed, and the next one found where it lies. */
static struct sfs_record
begin_with(unsigned count)
{
	for (unsigned n = 0; n < count; n++)
		append(w, a, n);
	next_is(0);
	return there_is(1);
}

/* What was found there has gone. */
static void
is_gone(const struct sfs_record *record)
{
	struct sfs_record other;

	ck_assert(!sfs_cursor_confirm(c, record));
	ck_assert_int_eq(sfs_cursor_peek_shared(c, &other), 0);
}

/* From block to block, and no further than the writer is; the first place is sfs_cursor_next's to find. */
START_TEST(test_follows)
{
	struct sfs_record record;

	append(w, a, 0);
	ck_assert_int_eq(sfs_cursor_peek_shared(c, &record), 0);
	next_is(0);
	for (unsigned n = 1; n < 30; n++) {
		ck_assert_int_eq(sfs_cursor_peek_shared(c, &record), 0);
		append(w, a, n);
		append(w, b, n);
		record = there_is(n);
		there_is(n); /* looking passes nothing */
		ck_assert(sfs_cursor_confirm(c, &record));
		ck_assert(!sfs_cursor_confirm(c, &record));
	}
	ck_assert_int_eq(sfs_cursor_next(c, &record, &err), 0);
	append(w, a, 30);
	append(w, a, 31);
	next_is(30);
	record = there_is(31);
	ck_assert(sfs_cursor_confirm(c, &record));
	ck_assert_int_eq(sfs_cursor_next(c, &record, &err), 0);
}
END_TEST

/* Its slot goes to another block: the record lies on the device alone. */
START_TEST(test_slot_taken)
{
	struct sfs_record record = begin_with(3);

	for (unsigned n = 0; n < 40; n++)
		append(w, b, n);
	is_gone(&record);
	next_is(1);
	append(w, a, 3);
	next_is(2);
	record = there_is(3);
	ck_assert(sfs_cursor_confirm(c, &record));
}
END_TEST

/* The block is recycled. */
START_TEST(test_recycled)
{
	struct sfs_record record = begin_with(2);

	for (unsigned n = 2; n < 300; n++)
		append(w, a, n);
	is_gone(&record);
	ck_assert_int_eq(sfs_cursor_next(c, &record, &err), SFS_EXPIRED);
}
END_TEST

/* Of a block in which something is erased nothing is read in place, and what was read does not count. */
START_TEST(test_deleted)
{
	const struct sfs_delete_range range = {25, 35, UINT64_MAX};
	struct sfs_record record = begin_with(6);
	struct sfs_trimmed out;

	ck_assert(sfs_cursor_confirm(c, &record));
	record = there_is(2);
	ck_assert_int_eq(sfs_delete(w, a, &range, 2, &out, &err), SFS_OK);
	ck_assert_uint_eq(out.records, 1);
	is_gone(&record);
	next_is(2);
	ck_assert_int_eq(sfs_cursor_next(c, &record, &err), SFS_DELETED);
	next_is(4);
	append(w, a, 6);
	next_is(5);
	record = there_is(6);
	ck_assert(sfs_cursor_confirm(c, &record));
}
END_TEST

/* A reader that is not given a record is not shown it. */
START_TEST(test_permission)
{
	struct sfs_open_options o = {.permission_mask = 1};
	struct sfs *other = sfs_open(paths, 1, &o, &err);
	struct sfs_record record;

	ck_assert_ptr_nonnull(other);
	append(w, a, 0);
	struct sfs_cursor *cursor = sfs_cursor_open(other, a, NULL, &err);
	ck_assert_int_eq(sfs_cursor_next(cursor, &record, &err), 1);
	ck_assert_int_eq(sfs_permission_set(w, "a", 6, &err), 0);
	append(w, a, 1);
	ck_assert_int_eq(sfs_cursor_peek_shared(cursor, &record), 0);
	ck_assert_int_eq(sfs_cursor_next(cursor, &record, &err), SFS_DENIED);
	sfs_cursor_close(&cursor);
	sfs_close(&other);
}
END_TEST

/* A header that is not as it was written is sfs_cursor_next's to tell of. */
START_TEST(test_damaged)
{
	struct sfs_record record;

	for (unsigned n = 0; n < 4; n++)
		append(w, a, n);
	next_is(0);
	next_is(1);
	record = there_is(2);
	w->shm.data[record.body - r->shm.data - 8] ^= 1;
	ck_assert_int_eq(sfs_cursor_peek_shared(c, &record), 0);
	ck_assert_int_eq(sfs_cursor_next(c, &record, &err), SFS_CORRUPT);
	next_is(3);
}
END_TEST

static void
fill(TCase *t)
{
	tcase_add_checked_fixture(t, begin, end);
	tcase_add_test(t, test_follows);
	tcase_add_test(t, test_slot_taken);
	tcase_add_test(t, test_recycled);
	tcase_add_test(t, test_deleted);
	tcase_add_test(t, test_permission);
	tcase_add_test(t, test_damaged);
}

int
main(void)
{
	return unit_run("streamfs there", fill);
}
