/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Segments that other threads read and filter: each is handed over as it is in the volume and with the
 * verdicts of the filter, in whatever order it is taken, dropped or left; a damaged one is not.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "indexer/query/scans.h"
#include "proto/wire/segment.h"
#include "tests/unit/unit.h"

enum { SEGMENTS = 200, PACKETS = 300, LENGTH = 60 };

static struct pr_error err;
static char path[64];
static struct sfs_handle handles[SEGMENTS];
static struct pr_bpf_set programs;

/* Accepts packets whose first byte is even. */
static void
make_program(void)
{
	static const struct pr_insn even[] = {
		{.code = 0x30, .k = 0}, /* ldb [0] */
		{.code = 0x45, .jt = 1, .jf = 0, .k = 1}, /* jset #1 */
		{.code = 0x06, .k = 1},
		{.code = 0x06, .k = 0},
	};
	struct pr_bpf *p = pr_bpf_create(1, even, 4, &err);

	ck_assert_msg(p != NULL, "%s", err.text);
	ck_assert_int_eq(pr_bpf_set_add(&programs, p, &err), 0);
}

static uint8_t
first_byte(unsigned segment, unsigned packet)
{
	return (uint8_t)((segment * 7 + packet * packet) % 251);
}

static void
append_segment(struct sfs *w, int stream, unsigned segment)
{
	static uint8_t buf[65536];
	struct pr_segment_builder b;
	uint8_t data[LENGTH] = {0};

	pr_segment_begin(&b, buf, sizeof(buf), 0);
	for (unsigned i = 0; i < PACKETS; i++) {
		struct pr_packet p = {.time = segment * 1000 + i,
			.otime = segment * 1000 + i,
			.epoch = 1,
			.seq = 1 + (uint64_t)segment * PACKETS + i,
			.linktype = 1,
			.len = LENGTH,
			.caplen = LENGTH,
			.data = data};
		data[0] = first_byte(segment, i);
		ck_assert(pr_segment_add(&b, &p));
	}
	ck_assert_int_eq(sfs_append(w, stream, 0, 1, buf, pr_segment_seal(&b),
				 &handles[segment], &err),
		SFS_OK);
}

static void
setup(void)
{
	const char *paths[] = {path};
	struct sfs_create_options create = {
		.size = 32 << 20, .block_size = 65536, .force = true};
	struct sfs_open_options open = {.writer = true};
	struct sfs *w;
	int stream;

	snprintf(path, sizeof(path), "/tmp/packrack-scans.XXXXXX");
	close(mkstemp(path));
	ck_assert_int_eq(sfs_create(paths, 1, &create, &err), 0);
	w = sfs_open(paths, 1, &open, &err);
	ck_assert_msg(w != NULL, "%s", err.text);
	stream = sfs_stream_open(w, "packets.0", 0, 0, &err);
	for (unsigned i = 0; i < SEGMENTS; i++)
		append_segment(w, stream, i);
	sfs_close(&w);
	make_program();
}

static void
teardown(void)
{
	unlink(path);
	pr_bpf_set_free(&programs);
}

static struct sfs *
open_reader(void)
{
	const char *paths[] = {path};
	const struct sfs_open_options open = {.no_direct = true};
	struct sfs *sfs = sfs_open(paths, 1, &open, &err);

	ck_assert_msg(sfs != NULL, "%s", err.text);
	return sfs;
}

static struct pri_scan *
begin(struct sfs *sfs, struct pri_scans *scans, unsigned segment)
{
	struct sfs_plan plan;

	ck_assert_int_eq(sfs_read_plan(sfs, &handles[segment], &plan), 1);
	return pri_scans_begin(scans, &plan, &handles[segment]);
}

struct taken {
	struct pri_read_buffer buffer;
	struct pri_matches matches;
};

static void
free_taken(struct taken *t)
{
	free(t->buffer.bytes);
	pri_matches_free(&t->matches);
}

static void
take(struct pri_scans *scans, struct pri_scan *scan, unsigned segment, struct taken *t)
{
	struct pr_segment_reader reader;
	struct pr_packet p;
	const uint8_t *body;

	ck_assert(pri_scan_take(scans, scan, &t->buffer, &body, &t->matches));
	ck_assert_int_eq(pr_segment_open(&reader, body, handles[segment].length, &err), 0);
	ck_assert_uint_eq(t->matches.judged, PACKETS);
	for (unsigned i = 0; i < PACKETS; i++) {
		ck_assert_int_eq(pr_segment_next(&reader, &p, &err), 1);
		ck_assert_uint_eq(p.seq, 1 + (uint64_t)segment * PACKETS + i);
		ck_assert_int_eq(t->matches.bits[i / 8] >> i % 8 & 1,
			first_byte(segment, i) % 2 == 0);
	}
	ck_assert(t->matches.sound);
	ck_assert_uint_eq(t->matches.last_seq, p.seq);
	for (unsigned i = 0, k = 0; i < PACKETS; i++) {
		if (first_byte(segment, i) % 2)
			continue;
		reader = t->matches.places[k++];
		ck_assert_int_eq(pr_segment_next(&reader, &p, &err), 1);
		ck_assert_uint_eq(p.seq, 1 + (uint64_t)segment * PACKETS + i);
	}
}

/* As a query does: some are under way, and the oldest is taken. */
START_TEST(in_order)
{
	struct sfs *sfs = open_reader();
	struct pri_scans *scans = pri_scans_create(&programs);
	struct pri_scan *flying[SEGMENTS];
	struct taken t = {0};
	unsigned begun = 0;

	for (unsigned i = 0; i < SEGMENTS; i++) {
		while (begun < SEGMENTS && pri_scans_free(scans) > 0) {
			flying[begun] = begin(sfs, scans, begun);
			ck_assert_ptr_nonnull(flying[begun]);
			begun++;
		}
		ck_assert_uint_le(begun - i, PRI_SCANS_AHEAD);
		take(scans, flying[i], i, &t);
	}
	ck_assert_uint_eq(pri_scans_free(scans), PRI_SCANS_AHEAD);
	free_taken(&t);
	pri_scans_destroy(&scans);
	sfs_close(&sfs);
}
END_TEST

/* The youngest first, some dropped, and some left when all ends: of two queries at once. */
START_TEST(in_any_order)
{
	struct sfs *sfs = open_reader();
	struct taken t = {0};

	for (unsigned round = 0; round + 2 * PRI_SCANS_AHEAD < SEGMENTS; round += 5) {
		struct pri_scans *scans[2] = {
			pri_scans_create(&programs), pri_scans_create(&programs)};
		struct pri_scan *flying[2][PRI_SCANS_AHEAD];

		for (unsigned i = 0; i < PRI_SCANS_AHEAD; i++)
			for (unsigned k = 0; k < 2; k++)
				flying[k][i] = begin(sfs, scans[k], round + k + i);
		ck_assert_ptr_null(begin(sfs, scans[0], 0)); /* no more than that */
		for (unsigned i = PRI_SCANS_AHEAD; i-- > round % 4;) {
			take(scans[1], flying[1][i], round + 1 + i, &t);
			if (i % 2)
				pri_scan_drop(scans[0], flying[0][i]);
		}
		pri_scans_destroy(&scans[0]);
		pri_scans_destroy(&scans[1]);
	}
	free_taken(&t);
	sfs_close(&sfs);
}
END_TEST

/* Not as the handle says: whoever asked reads it again, and learns why. */
START_TEST(damaged)
{
	struct sfs *sfs = open_reader();
	struct pri_scans *scans = pri_scans_create(&programs);
	struct pri_scan *scan[3];
	struct taken t = {0};
	struct sfs_plan plan;
	const uint8_t *body = NULL;

	ck_assert_int_eq(sfs_read_plan(sfs, &handles[1], &plan), 1);
	ck_assert_int_eq(truncate(path, 0), 0);
	for (unsigned i = 0; i < 3; i++)
		scan[i] = pri_scans_begin(scans, &plan, &handles[1]);
	for (unsigned i = 0; i < 3; i++)
		ck_assert(!pri_scan_take(scans, scan[i], &t.buffer, &body, &t.matches));
	ck_assert_ptr_null(body);
	free_taken(&t);
	pri_scans_destroy(&scans);
	sfs_close(&sfs);
}
END_TEST

START_TEST(what_is_in_memory_has_no_plan)
{
	const char *paths[] = {path};
	const struct sfs_open_options open = {.writer = true};
	struct sfs *w = sfs_open(paths, 1, &open, &err), *sfs;
	struct sfs_plan plan;

	ck_assert_msg(w != NULL, "%s", err.text);
	append_segment(w, sfs_stream_find(w, "packets.0"), 0);
	sfs = open_reader();
	ck_assert_int_eq(sfs_read_plan(sfs, &handles[0], &plan), 0);
	ck_assert_int_eq(sfs_read_plan(sfs, &handles[0], NULL), 0);
	ck_assert_int_eq(sfs_read_plan(sfs, &handles[1], NULL), 1);
	ck_assert_int_eq(sfs_read_plan(sfs, &handles[1], &plan), 1);
	handles[1].proof++;
	handles[1].block++;
	ck_assert_int_eq(sfs_read_plan(sfs, &handles[1], &plan), 0); /* forged */
	sfs_close(&sfs);
	sfs_close(&w);
}
END_TEST

static void
fill(TCase *tc)
{
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, in_order);
	tcase_add_test(tc, in_any_order);
	tcase_add_test(tc, damaged);
	tcase_add_test(tc, what_is_in_memory_has_no_plan);
}

int
main(void)
{
	return unit_run("scans", fill);
}
