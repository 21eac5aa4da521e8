/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "tests/unit/builder_add.h"
#include "proto/wire/segment.h"
#include "tests/unit/unit.h"

/* Segments that are indexed where they lie, in memory that others write. */
#define RECORD_MAX (1 << 20)

static uint8_t body[4096];
static size_t len;
static unsigned records, answers;
static struct pr_error err;

static int
take(void *arg, const struct pr_index_record *record)
{
	(void)arg;
	(void)record;
	records++;
	return 0;
}

static bool
says(void *arg)
{
	answers++;
	return *(bool *)arg;
}

static void
make_segment(void)
{
	uint8_t frame[60] = {[12] = 8, [14] = 0x45, [23] = 17, [26] = 10, [30] = 10};
	struct pr_segment_builder b;

	pr_segment_begin(&b, body, sizeof(body), 0);
	for (uint8_t i = 0; i < 20; i++) {
		struct pr_packet p = {.seq = 1 + i,
			.linktype = 1,
			.caplen = sizeof(frame),
			.len = sizeof(frame),
			.data = frame};

		frame[29] = i;
		ck_assert(pr_segment_add(&b, &p));
	}
	len = pr_segment_seal(&b);
}

/* What was overwritten while it was read, or seems damaged, is not added. */
START_TEST(only_what_was_whole_counts)
{
	struct pri_builder *b = pri_builder_create(0, RECORD_MAX, take, NULL, &err);
	const struct pri_builder_figures *f = pri_builder_figures(b);
	bool whole = false;

	make_segment();
	ck_assert_int_eq(pri_builder_add_shared(b, 4, 9, body, len, says, &whole, &err), 2);
	ck_assert_uint_eq(answers, 1);
	whole = true;
	ck_assert_int_eq(
		pri_builder_add_shared(b, 4, 9, body, len - 1, says, &whole, &err), 2);
	ck_assert_uint_eq(f->segments, 0);
	ck_assert_uint_eq(f->damaged, 0);
	ck_assert_int_eq(pri_builder_finish(b, PRI_BUILDER_ALL, &err), 1);
	ck_assert_uint_eq(records, 0);
	ck_assert_int_eq(pri_builder_add_shared(b, 4, 9, body, len, says, &whole, &err), 1);
	ck_assert_int_eq(pri_builder_add(b, 5, 9, body, len, &err), 1);
	ck_assert_uint_eq(f->segments, 2);
	ck_assert_uint_eq(f->packets, 40);
	ck_assert_int_eq(pri_builder_add(b, 6, 9, body, len - 1, &err), 1);
	ck_assert_uint_eq(f->damaged, 1);
	ck_assert_int_eq(pri_builder_finish(b, PRI_BUILDER_ALL, &err), 1);
	ck_assert_uint_gt(records, 0);
	pri_builder_destroy(&b);
}
END_TEST

static void
tests(TCase *tc)
{
	tcase_add_test(tc, only_what_was_whole_counts);
}

int
main(void)
{
	return unit_run("builder there", tests);
}
