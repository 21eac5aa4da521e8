/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "logger/trace_watch.h"
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
put_block(uint32_t type, uint32_t first, uint32_t more, bool big_endian)
{
	put32(type, big_endian);
	put32(16 + more, big_endian);
	put32(first, big_endian);
	/* what it holds looks like blocks of secrets */
	for (uint32_t i = 0; i < more; i += 4)
		put32(10, big_endian);
	put32(16 + more, big_endian);
}

/* Two sections, of either byte order, with one and two blocks of secrets; one block has no body. */
static void
make_trace(void)
{
	used = 0;
	put_block(0x0A0D0D0A, 0x1A2B3C4D, 12, false);
	put_block(1, 1, 4, false);
	put_block(10, 0x544c534b, 40, false);
	put_block(6, 0, 48, false);
	put_block(0x0A0D0D0A, 0x1A2B3C4D, 12, true);
	put_block(10, 0x544c534b, 24, true);
	put32(5, true);
	put32(12, true);
	put32(12, true);
	put_block(10, 0x57474b4c, 0, true);
}

START_TEST(in_pieces)
{
	make_trace();
	for (size_t piece = 1; piece <= used; piece++) {
		struct prl_trace_watch w = {0};

		for (size_t at = 0; at < used; at += piece)
			prl_trace_watch_feed(
				&w, bytes + at, used - at < piece ? used - at : piece);
		ck_assert_uint_eq(w.secrets, 3);
		ck_assert_uint_eq(w.bytes, used);
		ck_assert(!w.over);
	}
}
END_TEST

START_TEST(is_no_pcapng)
{
	struct prl_trace_watch w = {0};

	used = 0;
	put_block(10, 0, 8, false); /* secrets, and no section before them */
	prl_trace_watch_feed(&w, bytes, used);
	ck_assert(w.over);
	ck_assert_uint_eq(w.secrets, 0);
	make_trace();
	bytes[4] = 30; /* no multiple of four */
	w = (struct prl_trace_watch){0};
	prl_trace_watch_feed(&w, bytes, used);
	ck_assert(w.over);
	make_trace();
	bytes[8] = 0; /* no byte order */
	w = (struct prl_trace_watch){0};
	prl_trace_watch_feed(&w, bytes, used);
	ck_assert(w.over);
}
END_TEST

START_TEST(as_a_stream)
{
	char path[] = "/tmp/packrack-watch-XXXXXX", got[sizeof(bytes)];
	struct prl_trace_watch w;
	struct pr_error err = {""};
	int fd = mkstemp(path);
	FILE *f;

	make_trace();
	ck_assert_int_eq(write(fd, bytes, used), (ssize_t)used);
	close(fd);
	f = prl_trace_watch_open(&w, path, &err);
	ck_assert_msg(f != NULL, "%s", err.text);
	ck_assert_uint_eq(fread(got, 1, sizeof(got), f), used);
	ck_assert_mem_eq(got, bytes, used);
	fclose(f);
	ck_assert_uint_eq(w.secrets, 3);
	unlink(path);
	ck_assert_ptr_null(prl_trace_watch_open(&w, path, &err));
	ck_assert_ptr_nonnull(strstr(err.text, path));
}
END_TEST

static void
fill(TCase *t)
{
	tcase_add_test(t, in_pieces);
	tcase_add_test(t, is_no_pcapng);
	tcase_add_test(t, as_a_stream);
}

int
main(void)
{
	return unit_run("trace_watch", fill);
}
