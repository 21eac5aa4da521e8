/* SPDX-License-Identifier: Apache-2.0 */
/* The newest root is damaged behind a crash, and the one before it does not know of all blocks. */
#include <fcntl.h>

#include "tests/unit/streamfs_marked.h"
#include "tests/unit/unit.h"

#define BYTES (6 << 20)

static uint8_t image[BYTES];
static int stream;

/* As the device has it after so many records and a kill; the first is of a writer that came to its end. */
static void
write_and_kill(unsigned records)
{
	struct sfs *w = open_volume(true);
	int fd;

	stream = sfs_stream_open(w, "a", 0, 0, &err);
	append(w, stream, 0);
	sfs_close(&w);
	w = open_volume(true);
	for (unsigned n = 1; n < records; n++)
		append(w, stream, n);
	while (w->w->bytes_in_flight > 0)
		sfs_pump(w, true);
	fd = open(path, O_RDONLY);
	ck_assert_int_eq(pread(fd, image, BYTES, 0), BYTES);
	close(fd);
	sfs_close(&w);
}

static void
put_image(void)
{
	int fd = open(path, O_WRONLY);

	ck_assert_int_eq(pwrite(fd, image, BYTES, 0), BYTES);
	close(fd);
}

/* newest: that copy, else the older one. */
static void
damage_root(bool newest)
{
	bool second = sfs_root_peek(image + SFS_ROOT_BYTES).generation >
		      sfs_root_peek(image).generation;

	image[(second == newest ? SFS_ROOT_BYTES : 0) + 100] ^= 1;
}

/* Records that a reader finds. */
static unsigned
found(void)
{
	struct sfs *r = open_volume(false);
	struct sfs_cursor *c = sfs_cursor_open(r, stream, NULL, &err);
	struct sfs_record record;
	unsigned count = 0;
	int rc;

	while ((rc = sfs_cursor_next(c, &record, &err)) != 0)
		count += rc == 1;
	sfs_cursor_close(&c);
	sfs_close(&r);
	return count;
}

static int
repair(bool force)
{
	const struct sfs_repair_options options = {.force = force};
	struct sfs_repair_result out;

	return sfs_repair(paths, 1, &options, NULL, NULL, &out, &err);
}

/* *all: records that are there while no root is damaged. Returns those that are found with that root damaged. */
static unsigned
crash(unsigned records, bool newest, unsigned *all)
{
	setup();
	write_and_kill(records);
	put_image();
	*all = found();
	damage_root(newest);
	put_image();
	return found();
}

static void
is_unchanged(void)
{
	static uint8_t now[BYTES];
	int fd = open(path, O_RDONLY);

	ck_assert_int_eq(pread(fd, now, BYTES, 0), BYTES);
	close(fd);
	ck_assert(memcmp(image, now, BYTES) == 0);
}

/* How far the roots have come behind the writes is chance: some crash out of several is such a one. */
START_TEST(test_not_without_force)
{
	unsigned all = 0, left = 0, records = 2;

	while ((left = crash(records, true, &all)) == all && records < 100) {
		remove_file();
		records += 3;
	}
	ck_assert_uint_lt(left, all);
	ck_assert_int_lt(repair(false), 0);
	ck_assert_msg(strstr(err.text, "blocks that only it listed") &&
			      strstr(err.text, "--force"),
		"%s", err.text);
	is_unchanged();
	ck_assert_int_eq(repair(true), 0);
	ck_assert_uint_eq(found(), left);
	ck_assert_int_eq(repair(false), 0);
	remove_file();
}
END_TEST

/* Nothing is lost with the older one, and it is written anew. */
START_TEST(test_older_root)
{
	unsigned all, left;

	for (unsigned records = 2; records < 30; records += 3) {
		left = crash(records, false, &all);
		ck_assert_uint_eq(left, all);
		ck_assert_int_eq(repair(false), 0);
		ck_assert_uint_eq(found(), all);
		remove_file();
	}
}
END_TEST

static void
fill(TCase *t)
{
	tcase_add_test(t, test_not_without_force);
	tcase_add_test(t, test_older_root);
}

int
main(void)
{
	return unit_run("streamfs lost root", fill);
}
