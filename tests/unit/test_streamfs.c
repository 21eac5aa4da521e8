/* SPDX-License-Identifier: Apache-2.0 */
/* The store by its calls: append, read, recycle, reset, and what is damaged or is no volume. */
#include <fcntl.h>

#include "tests/unit/streamfs_records.h"
#include "tests/unit/unit.h"

START_TEST(test_append_read_reopen)
{
	struct sfs *w = create_open(16 << 20);
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

/* Fills a small volume several times over; every stream keeps its newest, unbroken. */
START_TEST(test_recycling)
{
	struct sfs *w = create_open(4 << 20);
	struct sfs_stream_info info;
	uint64_t first, last;
	int data = sfs_stream_open(w, "data", 0, 0, &err);
	int kept = sfs_stream_open(w, "kept", 8 * 65536, 0, &err);
	struct sfs_handle oldest = append(w, data, 1, 40000),
			  kept_first = append(w, kept, 1, 9000);
	for (uint64_t i = 2; i <= 1000; i++) {
		append(w, data, i, 40000);
		if (i % 20 == 0)
			append(w, kept, i / 20 + 1, 9000);
		if (i % 100 == 0)
			ck_assert_int_eq(sfs_flush(w, &err), SFS_OK);
	}
	first = walk(w, data, 40000, &last);
	ck_assert_uint_eq(last, 1000);
	ck_assert_uint_gt(first, 700);
	ck_assert_int_eq(sfs_stream_info(w, 0, &info, &err), SFS_OK);
	ck_assert_int_eq(info.evicted_until, (int64_t)(first - 1) * 10 + 5);
	ck_assert_uint_eq(info.recycled_records, first - 1);
	/* 51 records of 4.5 KB on average are within the guarantee */
	ck_assert_uint_eq(walk(w, kept, 9000, &last), 1);
	ck_assert_uint_eq(last, 51);
	uint8_t buf[40000];
	size_t len;
	ck_assert_int_eq(
		sfs_read(w, &oldest, buf, sizeof(buf), &len, NULL, &err), SFS_EXPIRED);
	ck_assert_int_eq(
		sfs_read(w, &kept_first, buf, sizeof(buf), &len, NULL, &err), SFS_OK);
	sfs_close(&w);
	w = open_volume(false);
	ck_assert_uint_eq(walk(w, data, 40000, &last), first);
	ck_assert_uint_eq(last, 1000);
	ck_assert_int_eq(sfs_stream_info(w, 0, &info, &err), SFS_OK);
	ck_assert_int_eq(info.evicted_until, (int64_t)(first - 1) * 10 + 5);
	ck_assert_int_eq(
		sfs_read(w, &oldest, buf, sizeof(buf), &len, NULL, &err), SFS_EXPIRED);
	sfs_close(&w);
}
END_TEST

START_TEST(test_guarantees_are_bounded)
{
	struct sfs *w = create_open(4 << 20);
	ck_assert_int_eq(sfs_stream_open(w, "a", 2 << 20, 0, &err), 0);
	ck_assert_int_lt(sfs_stream_open(w, "b", 2 << 20, 0, &err), 0);
	ck_assert_ptr_nonnull(strstr(err.text, "guarantee"));
	ck_assert_int_eq(sfs_stream_open(w, "a", 1 << 20, 0, &err), 0);
	ck_assert_int_eq(sfs_stream_open(w, "b", 2 << 20, 0, &err), 1);
	ck_assert_int_lt(sfs_stream_open(w, "", 0, 0, &err), 0);
	sfs_close(&w);
}
END_TEST

/* Any bit of a handle changed: forged. A handle of another volume: forged. */
START_TEST(test_handles)
{
	struct sfs *w = create_open(4 << 20);
	int a = sfs_stream_open(w, "a", 0, 3, &err);
	struct sfs_handle h = append(w, a, 1, 9000), bad;
	uint8_t text[SFS_HANDLE_BYTES], buf[9000];
	struct sfs_record r;
	size_t len;
	sfs_handle_encode(&h, text);
	for (int bit = 0; bit < SFS_HANDLE_BYTES * 8; bit++) {
		text[bit / 8] ^= (uint8_t)(1 << bit % 8);
		sfs_handle_decode(text, &bad);
		ck_assert_int_eq(
			sfs_read(w, &bad, buf, sizeof(buf), &len, &r, &err), SFS_FORGED);
		text[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	sfs_handle_decode(text, &bad);
	ck_assert_int_eq(sfs_read(w, &bad, buf, sizeof(buf), &len, &r, &err), SFS_OK);
	expect(&r, a, 1, 9000);
	ck_assert_uint_eq(r.permission, 3);
	ck_assert_int_eq(sfs_read(w, &h, buf, r.length - 1, &len, &r, &err), SFS_TOO_BIG);
	ck_assert_int_eq(sfs_read(w, &h, NULL, 0, &len, &r, &err), SFS_OK);
	expect(&r, a, 1, 9000);
	struct sfs_open_options o = {.permission_mask = 1};
	struct sfs *denied = sfs_open(paths, 1, &o, &err);
	ck_assert_int_eq(
		sfs_read(denied, &h, buf, sizeof(buf), &len, &r, &err), SFS_DENIED);
	static _Alignas(4096) uint8_t room[16384];
	const uint8_t *at;
	ck_assert_int_eq(
		sfs_read_part(denied, &h, 0, 1, room, sizeof(room), &at, &err), SFS_DENIED);
	sfs_close(&denied);
	sfs_close(&w);
	struct sfs_create_options again = {.size = 4 << 20, .block_size = 65536};
	ck_assert_int_lt(sfs_create(paths, 1, &again, &err), 0);
	ck_assert_ptr_nonnull(strstr(err.text, "--force"));
	again.force = true;
	ck_assert_int_eq(sfs_create(paths, 1, &again, &err), 0);
	w = open_volume(true);
	ck_assert_int_eq(sfs_read(w, &h, buf, sizeof(buf), &len, &r, &err), SFS_FORGED);
	sfs_close(&w);
}
END_TEST

START_TEST(test_reset)
{
	struct sfs *w = create_open(4 << 20);
	int a = sfs_stream_open(w, "a", 0, 0, &err);
	struct sfs_handle h = append(w, a, 1, 9000);
	uint64_t last;
	uint8_t buf[9000];
	append(w, a, 2, 9000);
	ck_assert_int_eq(sfs_reset(w, &err), SFS_OK);
	ck_assert_int_eq(sfs_read(w, &h, buf, sizeof(buf), NULL, NULL, &err), SFS_EXPIRED);
	append(w, a, 3, 9000);
	sfs_close(&w);
	w = open_volume(true);
	ck_assert_uint_eq(walk(w, a, 9000, &last), 3);
	ck_assert_uint_eq(last, 3);
	ck_assert_int_eq(sfs_read(w, &h, buf, sizeof(buf), NULL, NULL, &err), SFS_EXPIRED);
	sfs_close(&w);
}
END_TEST

/* Many more open streams than slots: none starves, and none wastes a block a record. */
START_TEST(test_many_streams)
{
	enum { STREAMS = 200 };
	struct sfs *w = create_open(32 << 20);
	struct sfs_volume_info info;
	char name[16];
	uint64_t last;
	for (int i = 0; i < STREAMS; i++) {
		snprintf(name, sizeof(name), "packets.%d", i);
		ck_assert_int_eq(sfs_stream_open(w, name, 0, 0, &err), i);
	}
	for (uint64_t n = 1; n <= 12; n++)
		for (int i = 0; i < STREAMS; i++)
			append(w, i, n, 2000);
	ck_assert_int_eq(sfs_info(w, &info, &err), SFS_OK);
	ck_assert_uint_eq(info.blocks_used, STREAMS);
	for (int pass = 0; pass < 2; pass++) {
		for (int i = 0; i < STREAMS; i++) {
			ck_assert_uint_eq(walk(w, i, 2000, &last), 1);
			ck_assert_uint_eq(last, 12);
		}
		sfs_close(&w);
		if (pass == 0)
			w = open_volume(false);
	}
}
END_TEST

static void
poke(off_t at, const void *bytes, size_t len)
{
	int fd = open(path, O_WRONLY);
	ck_assert_int_eq(pwrite(fd, bytes, len, at), (ssize_t)len);
	close(fd);
}

static void
count_fault(void *arg, const struct sfs_fault *fault)
{
	ck_assert_ptr_nonnull(fault->why);
	++*(int *)arg;
}

/* Whatever byte in use is damaged, the check finds it, and reading never gives wrong data. */
START_TEST(test_corruption_is_found)
{
	enum { DATA = 512 * 1024, RECORDS = 60 };
	struct sfs *w = create_open(4 << 20);
	int a = sfs_stream_open(w, "a", 0, 0, &err);
	struct sfs_handle h[RECORDS + 1];
	for (uint64_t n = 1; n <= RECORDS; n++)
		h[n] = append(w, a, n, 8000);
	sfs_close(&w);
	uint64_t x = 1;
	for (int i = 0; i < 150; i++) {
		x = x * 6364136223846793005u + 1442695040888963407u;
		const struct sfs_handle *t = &h[1 + (x >> 33) % RECORDS];
		/* of the record: its header or body */
		uint32_t at = (uint32_t)((x >> 20) % (t->header + t->length));
		off_t where = DATA + (off_t)t->block * 65536 + t->offset + at;
		uint8_t good, bad;
		int fd = open(path, O_RDONLY), faults = 0;
		ck_assert_int_eq(pread(fd, &good, 1, where), 1);
		close(fd);
		bad = good ^ (uint8_t)(1 << (x >> 60) % 8);
		poke(where, &bad, 1);
		struct sfs *r = open_volume(false);
		uint8_t buf[8000];
		struct sfs_record rec;
		size_t len;
		ck_assert_int_gt(sfs_check(r, count_fault, &faults, NULL, &err), 0);
		ck_assert_int_gt(faults, 0);
		ck_assert_int_eq(
			sfs_read(r, t, buf, sizeof(buf), &len, &rec, &err), SFS_CORRUPT);
		struct sfs_cursor *c = sfs_cursor_open(r, a, NULL, &err);
		int rc, seen = 0, corrupt = 0;
		while ((rc = sfs_cursor_next(c, &rec, &err)) != 0) {
			ck_assert(rc == 1 || rc == SFS_CORRUPT);
			corrupt += rc == SFS_CORRUPT;
			seen += rc == 1;
			if (rc == 1)
				expect(&rec, a, rec.sequence, 8000);
		}
		ck_assert_int_eq(corrupt, 1);
		ck_assert_int_eq(seen, RECORDS - 1);
		sfs_cursor_close(&c);
		sfs_close(&r);
		poke(where, &good, 1);
	}
	uint8_t wrong = 0xff;
	poke(DATA + 60, &wrong, 1);
	struct sfs *r = open_volume(false);
	ck_assert_int_ge(sfs_check(r, NULL, NULL, NULL, &err), 1);
	sfs_close(&r);
}
END_TEST

START_TEST(test_not_a_volume)
{
	struct sfs_open_options o = {0};
	ck_assert_ptr_null(sfs_open(paths, 1, &o, &err));
	create(4 << 20, 65536);
	uint32_t version = 7;
	poke(8, &version, 4);
	struct sfs *r = open_volume(false); /* the other copy is good */
	sfs_close(&r);
	poke(256 * 1024 + 8, &version, 4);
	ck_assert_ptr_null(sfs_open(paths, 1, &o, &err));
	ck_assert_ptr_nonnull(strstr(err.text, "version 7"));
	ck_assert_ptr_nonnull(strstr(err.text, path));
	poke(0, "no volume here", 14);
	ck_assert_ptr_null(sfs_open(paths, 1, &o, &err));
	ck_assert_ptr_nonnull(strstr(err.text, "not a StreamFS volume"));
	ck_assert_int_eq(truncate(path, 1 << 20), 0);
	ck_assert_ptr_null(sfs_open(paths, 1, &o, &err));
	struct sfs_create_options c = {.size = 1 << 20};
	ck_assert_int_lt(sfs_create(paths, 1, &c, &err), 0);
	c = (struct sfs_create_options){.size = 4 << 20, .block_size = 100000};
	ck_assert_int_lt(sfs_create(paths, 1, &c, &err), 0);
	ck_assert_ptr_nonnull(strstr(err.text, "power of two"));
}
END_TEST

/* The same by pwrite in a thread. */
START_TEST(test_without_uring)
{
	struct sfs_open_options o = {
		.writer = true, .shm_bytes = 1 << 19, .no_direct = true};
	uint64_t last;
	create(4 << 20, 65536);
	struct sfs *w = sfs_open(paths, 1, &o, &err);
	ck_assert_ptr_nonnull(w);
	int a = sfs_stream_open(w, "a", 0, 0, &err);
	for (uint64_t n = 1; n <= 500; n++)
		append(w, a, n, 20000);
	ck_assert_int_eq(sfs_flush(w, &err), SFS_OK);
	ck_assert_uint_eq(sfs_durable(w, a), 500);
	walk(w, a, 20000, &last);
	ck_assert_uint_eq(last, 500);
	sfs_close(&w);
	w = open_volume(false);
	walk(w, a, 20000, &last);
	ck_assert_uint_eq(last, 500);
	sfs_close(&w);
}
END_TEST

static void
fill(TCase *t)
{
	tcase_add_checked_fixture(t, make_file, remove_file);
	tcase_set_timeout(t, 60);
	tcase_add_test(t, test_append_read_reopen);
	tcase_add_test(t, test_recycling);
	tcase_add_test(t, test_guarantees_are_bounded);
	tcase_add_test(t, test_handles);
	tcase_add_test(t, test_reset);
	tcase_add_test(t, test_many_streams);
	tcase_add_test(t, test_corruption_is_found);
	tcase_add_test(t, test_not_a_volume);
	tcase_add_test(t, test_without_uring);
}

int
main(void)
{
	return unit_run("streamfs", fill);
}
