/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "proto/port/trace.h"
#include "tests/unit/unit.h"

static uint8_t bytes[1024];
static size_t used;

static void
put32(uint32_t v, bool big_endian)
{
	for (int i = 0; i < 4; i++)
		bytes[used++] = (uint8_t)(v >> (big_endian ? 24 - 8 * i : 8 * i));
}

static void
put_block(uint32_t type, const uint32_t *words, uint32_t count, bool big_endian)
{
	put32(type, big_endian);
	put32(12 + 4 * count, big_endian);
	for (uint32_t i = 0; i < count; i++)
		put32(words[i], big_endian);
	put32(12 + 4 * count, big_endian);
}

/* A pcapng with one packet and three blocks of secrets, one of which is empty; the bodies of others look like them. */
static void
make_trace(bool big)
{
	const uint32_t section[] = {
		0x1A2B3C4D, big ? 0x00010000 : 0x00000001, 0xffffffff, 0xffffffff};
	const uint32_t interface[] = {big ? 0x00010000 : 0x00000001, 0x10000};
	const uint32_t secrets[] = {0x544c534b, 8, 10, 10};
	const uint32_t packet[] = {0, 0, 5000000, 16, 16, 10, 16, 10, 16};

	used = 0;
	put_block(0x0A0D0D0A, section, 4, big);
	put_block(1, interface, 2, big);
	put_block(10, secrets, 4, big);
	put_block(6, packet, 9, big);
	put_block(10, secrets, 4, big);
	put_block(10, secrets, 0, big);
}

static const char *
store_trace(void)
{
	static char path[32];
	int fd;

	strcpy(path, "/tmp/packrack-trace-XXXXXX");
	fd = mkstemp(path);
	ck_assert_int_eq(write(fd, bytes, used), (ssize_t)used);
	close(fd);
	return path;
}

/* Reads all; PR_SOURCE_END or ERROR, and what was seen on the way. */
static int
read_all(const char *path, struct pr_trace_info *info, struct pr_error *err)
{
	struct pr_trace *t = pr_trace_open(path, err);
	struct pr_packet p;
	int got;

	*info = (struct pr_trace_info){0};
	if (!t)
		return PR_SOURCE_ERROR;
	while ((got = pr_trace_next(t, &p, err)) == PR_SOURCE_PACKET) {
		ck_assert_int_eq(p.time, INT64_C(5000000000));
		ck_assert_uint_eq(p.caplen, 16);
		ck_assert_int_eq(p.linktype, 1);
	}
	*info = *pr_trace_info(t);
	pr_trace_close(&t);
	return got;
}

START_TEST(secrets_are_counted)
{
	struct pr_trace_info info;
	struct pr_error err;

	for (int big = 0; big < 2; big++) {
		const char *path;

		make_trace(big);
		path = store_trace();
		ck_assert_msg(read_all(path, &info, &err) == PR_SOURCE_END, "%s", err.text);
		ck_assert_uint_eq(info.secrets, 3);
		ck_assert_uint_eq(info.packets, 1);
		ck_assert_uint_eq(info.bytes, used);
		ck_assert_uint_eq(info.size, used);
		unlink(path);
	}
}
END_TEST

struct feeding {
	int fd;
	size_t piece;
};

static void *
feed(void *arg)
{
	const struct feeding *f = arg;

	for (size_t at = 0; at < used; at += f->piece) {
		size_t n = used - at < f->piece ? used - at : f->piece;

		ck_assert_int_eq(write(f->fd, bytes + at, n), (ssize_t)n);
		if (f->piece < 20)
			usleep(100);
	}
	close(f->fd);
	return NULL;
}

START_TEST(in_pieces)
{
	static const size_t pieces[] = {1, 3, 7, 12, 13, 64};
	struct pr_trace_info info;
	struct pr_error err;

	make_trace(false);
	for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
		int fds[2], stdin_before = dup(STDIN_FILENO);
		struct feeding f = {.piece = pieces[i]};
		pthread_t thread;

		ck_assert_int_eq(pipe(fds), 0);
		f.fd = fds[1];
		dup2(fds[0], STDIN_FILENO);
		close(fds[0]);
		ck_assert_int_eq(pthread_create(&thread, NULL, feed, &f), 0);
		ck_assert_msg(read_all("-", &info, &err) == PR_SOURCE_END, "%s", err.text);
		pthread_join(thread, NULL);
		dup2(stdin_before, STDIN_FILENO);
		close(stdin_before);
		ck_assert_uint_eq(info.secrets, 3);
		ck_assert_uint_eq(info.bytes, used);
		ck_assert_uint_eq(info.size, 0);
	}
}
END_TEST

START_TEST(damaged)
{
	struct pr_trace_info info;
	struct pr_error err;
	const char *path;

	make_trace(false);
	bytes[4] = 30; /* length of the first block: no multiple of four */
	path = store_trace();
	ck_assert_int_eq(read_all(path, &info, &err), PR_SOURCE_ERROR);
	ck_assert_ptr_nonnull(strstr(err.text, path));
	unlink(path);
	ck_assert_int_eq(read_all(path, &info, &err), PR_SOURCE_ERROR);
	ck_assert_ptr_nonnull(strstr(err.text, path));
	make_trace(false);
	used -= 20; /* within the second block of secrets */
	path = store_trace();
	ck_assert_int_eq(read_all(path, &info, &err), PR_SOURCE_ERROR);
	ck_assert_uint_eq(info.packets, 1);
	ck_assert_ptr_nonnull(strstr(err.text, "packet 2"));
	unlink(path);
}
END_TEST

/* Compresses bytes[from..] in place, as one gzip member or zstd frame. */
static void
pack(bool gzip, size_t from)
{
	uint8_t out[sizeof bytes];
	z_stream z = {.next_in = bytes + from,
		.avail_in = (uInt)(used - from),
		.next_out = out,
		.avail_out = sizeof out};
	size_t len;

	if (gzip) {
		ck_assert_int_eq(deflateInit2(&z, 9, Z_DEFLATED, 16 + MAX_WBITS, 8,
					 Z_DEFAULT_STRATEGY),
			Z_OK);
		ck_assert_int_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
		len = z.total_out;
		deflateEnd(&z);
	} else {
		len = ZSTD_compress(out, sizeof out, bytes + from, used - from, 3);
		ck_assert(!ZSTD_isError(len));
	}
	memcpy(bytes + from, out, len);
	used = from + len;
}

START_TEST(compressed)
{
	bool gzip = _i % 2, two = _i & 2;
	struct pr_trace_info info;
	struct pr_error err;
	const char *path;
	size_t first = 0;

	make_trace(false);
	if (two) { /* as cat(1) makes it of two compressed files */
		uint8_t rest[64];
		size_t len = sizeof rest;

		memcpy(rest, bytes + used - len, len);
		used -= len;
		pack(gzip, 0);
		first = used;
		memcpy(bytes + used, rest, len);
		used += len;
	}
	pack(gzip, first);
	path = store_trace();
	ck_assert_msg(read_all(path, &info, &err) == PR_SOURCE_END, "%s", err.text);
	ck_assert_uint_eq(info.packets, 1);
	ck_assert_uint_eq(info.secrets, 3);
	ck_assert_uint_eq(info.bytes, used);
	ck_assert_uint_eq(info.size, used);
	/* cut off, and damaged */
	for (int cut = 0; cut < 2; cut++) {
		if (!cut) {
			FILE *f = fopen(path, "r+");

			fseek(f, (long)first + (gzip ? 10 : 4), SEEK_SET);
			for (int i = 0; i < 9; i++)
				fputc(0xff, f);
			fclose(f);
		} else {
			unlink(path);
			used -= 5;
			path = store_trace();
		}
		ck_assert_int_eq(read_all(path, &info, &err), PR_SOURCE_ERROR);
		ck_assert_ptr_nonnull(strstr(err.text, path));
		if (cut)
			ck_assert_ptr_nonnull(strstr(err.text, "ends too early"));
	}
	unlink(path);
}
END_TEST

static void
fill(TCase *t)
{
	tcase_add_loop_test(t, compressed, 0, 4);
	tcase_add_test(t, secrets_are_counted);
	tcase_add_test(t, in_pieces);
	tcase_add_test(t, damaged);
}

int
main(void)
{
	return unit_run("port_trace", fill);
}
