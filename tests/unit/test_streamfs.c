/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "logger/streamfs/streamfs.h"

static char path[64];
static struct pr_error err;

static void
setup(void)
{
	snprintf(path, sizeof(path), "/tmp/sfs-test.XXXXXX");
	close(mkstemp(path));
}

static void
teardown(void)
{
	unlink(path);
}

static void
create(uint64_t size, uint32_t block_size)
{
	const char *paths[] = {path};
	struct sfs_create_options o = {.size = size, .block_size = block_size};
	ck_assert_msg(sfs_create(paths, 1, &o, &err) == 0, "%s", err.text);
}

static struct sfs *
open_volume(bool writer)
{
	const char *paths[] = {path};
	struct sfs_open_options o = {.writer = writer, .shm_bytes = 1 << 20};
	struct sfs *sfs = sfs_open(paths, 1, &o, &err);
	ck_assert_msg(sfs != NULL, "%s", err.text);
	return sfs;
}

/* The body that record n of a stream has: its length and bytes follow from both. */
static size_t
make_body(uint8_t *to, uint32_t stream, uint64_t n, size_t most)
{
	uint64_t x = n * 0x9e3779b97f4a7c15u + stream * 77777u + 1;
	size_t len = (x >> 20) % most;
	for (size_t i = 0; i < len; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		to[i] = (uint8_t)x;
	}
	return len;
}

static struct sfs_handle
append(struct sfs *sfs, int stream, uint64_t n, size_t most)
{
	static uint8_t body[1 << 20];
	struct sfs_handle h;
	size_t len = make_body(body, (uint32_t)stream, n, most);
	int rc = sfs_append(
		sfs, stream, (int64_t)n * 10, (int64_t)n * 10 + 5, body, len, &h, &err);
	ck_assert_msg(rc == SFS_OK, "record %lu: %s", (unsigned long)n, err.text);
	return h;
}

static void
expect(const struct sfs_record *r, int stream, uint64_t n, size_t most)
{
	static uint8_t body[1 << 20];
	size_t len = make_body(body, (uint32_t)stream, n, most);
	ck_assert_uint_eq(r->sequence, n);
	ck_assert_int_eq(r->min_time, (int64_t)n * 10);
	ck_assert_int_eq(r->max_time, (int64_t)n * 10 + 5);
	ck_assert_uint_eq(r->length, len);
	ck_assert(len == 0 || memcmp(r->body, body, len) == 0);
}

/* Reads a stream from its oldest record; returns the first sequence, *last the last. */
static uint64_t
walk(struct sfs *sfs, int stream, size_t most, uint64_t *last)
{
	struct sfs_cursor *c = sfs_cursor_open(sfs, stream, NULL, &err);
	struct sfs_record r;
	uint64_t first = 0;
	int rc;
	ck_assert_ptr_nonnull(c);
	*last = 0;
	while ((rc = sfs_cursor_next(c, &r, &err)) == 1) {
		if (first == 0)
			first = r.sequence;
		else
			ck_assert_uint_eq(r.sequence, *last + 1);
		*last = r.sequence;
		expect(&r, stream, r.sequence, most);
	}
	ck_assert_msg(rc == 0, "%d %s", rc, err.text);
	sfs_cursor_close(&c);
	return first;
}

START_TEST(test_append_read_reopen)
{
	create(16 << 20, 65536);
	struct sfs *w = open_volume(true);
	int a = sfs_stream_open(w, "a", 0, 0, &err),
	    b = sfs_stream_open(w, "b", 0, 0, &err);
	ck_assert_int_eq(a, 0);
	ck_assert_int_eq(b, 1);
	struct sfs *r = open_volume(false);
	struct sfs_handle last;
	uint64_t n;
	for (uint64_t i = 1; i <= 300; i++) {
		append(w, a, i, 5000);
		last = append(w, b, i, 20000);
	}
	for (int pass = 0; pass < 4; pass++) {
		struct sfs *from = pass == 0 ? w : r;
		ck_assert_uint_eq(walk(from, a, 5000, &n), 1);
		ck_assert_uint_eq(n, 300);
		ck_assert_uint_eq(walk(from, b, 20000, &n), 1);
		ck_assert_uint_eq(n, 300);
		uint8_t buf[20000];
		struct sfs_record rec;
		size_t len;
		ck_assert_int_eq(
			sfs_read(from, &last, buf, sizeof(buf), &len, &rec, &err), SFS_OK);
		expect(&rec, b, 300, 20000);
		if (pass == 1)
			sfs_close(&w);
		if (pass == 2) {
			sfs_close(&r);
			r = open_volume(false);
		}
	}
	uint64_t records;
	ck_assert_int_eq(sfs_check(r, NULL, NULL, &records, &err), 0);
	ck_assert_uint_eq(records, 600);
	sfs_close(&r);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("streamfs");
	TCase *t = tcase_create("volume");
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, test_append_read_reopen);
	suite_add_tcase(s, t);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? 1 : 0;
}
