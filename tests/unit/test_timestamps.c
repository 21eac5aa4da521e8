/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "proto/base/clock.h"
#include "proto/base/cursor.h"
#include "proto/wire/ledger.h"
#include "proto/wire/timestamps.h"
#include "tests/unit/unit.h"
#include "tests/unit/wire_whole.h"

#define BEGUN INT64_C(1700000000000000000)

/* Clocks of which one is true: raw runs, mono is corrected, real is mono and was set. */
struct clocks {
	struct pr_clock_reading now;
	double correction; /* of mono's rate, ppm */
};

static void
pass(struct clocks *c, int64_t ns)
{
	int64_t mono = ns + (int64_t)((double)ns * c->correction / 1e6);

	c->now.raw += ns;
	c->now.mono += mono;
	c->now.real += mono;
}

START_TEST(steps)
{
	struct clocks c = {.now = {BEGUN, 5, 7, true, true}};
	struct pr_clock_watch w = {0};
	struct pr_clock clock = {.timestamps = PR_TIMESTAMP_ADAPTER};
	static const int64_t sets[] = {-2000000000, 1, PR_CLOCK_STEP_NS + 1,
		-PR_CLOCK_STEP_NS - 1, PR_CLOCK_STEP_NS};
	uint32_t counted = 0;

	ck_assert(!pr_clock_look(&w, &c.now, &clock));
	for (int i = 0; i < 1000; i++) {
		pass(&c, 100 * PR_NS_PER_MS);
		int64_t set = i % 100 == 50 ? sets[i / 100 % 5] : 0, before = c.now.real;
		bool large = set > PR_CLOCK_STEP_NS || set < -PR_CLOCK_STEP_NS;

		c.now.real += set;
		ck_assert_int_eq(pr_clock_look(&w, &c.now, &clock), large);
		counted += large;
		ck_assert_uint_eq(clock.steps, counted);
		if (large) {
			ck_assert_int_eq(clock.step, set);
			ck_assert_int_eq(clock.stepped, before);
		}
		ck_assert_int_eq(clock.state, PR_CLOCK_SYNCHRONIZED);
	}
	ck_assert_uint_eq(counted, 6);
	ck_assert_int_eq(clock.timestamps, PR_TIMESTAMP_ADAPTER);
}
END_TEST

/* A crystal that is off by 40 ppm is no slew; a correction by 500 ppm is one until it is over, and no step. */
START_TEST(slews)
{
	struct clocks c = {.now = {BEGUN, 5, 7, true, false}, .correction = 40};
	struct pr_clock_watch w = {0};
	struct pr_clock clock = {0};

	for (int i = 0; i < 600; i++) {
		c.correction = i >= 200 && i < 400 ? (i % 2 ? 500 : 490) : -40;
		pass(&c, 20 * PR_NS_PER_MS);
		ck_assert(!pr_clock_look(&w, &c.now, &clock));
		if (i > 252 && i < 400)
			ck_assert_int_eq(clock.state, PR_CLOCK_SLEWED);
		else if (i < 200 || i > 452)
			ck_assert_int_eq(clock.state, PR_CLOCK_UNSYNCHRONIZED);
	}
	c.now.known = false;
	pr_clock_look(&w, &c.now, &clock);
	ck_assert_int_eq(clock.state, PR_CLOCK_UNKNOWN);
}
END_TEST

/* This machine's own: nobody sets it while a test runs. */
START_TEST(own_clock)
{
	struct pr_clock_watch w = {0};
	struct pr_clock clock = {0};
	struct pr_clock_reading now;
	unsigned read = 0;

	for (int i = 0; i < 2000; i++)
		if (pr_clock_read(&now)) {
			read++;
			pr_clock_look(&w, &now, &clock);
		}
	ck_assert_uint_gt(read, 0);
	ck_assert_uint_eq(clock.steps, 0);
	ck_assert(pr_port_valid(1, &clock));
}
END_TEST

static size_t
with_trailer(uint8_t frame[256], size_t len, bool exablaze, size_t fcs, int64_t time)
{
	uint8_t *at = frame + len;

	for (size_t i = 0; i < len + 24; i++)
		frame[i] = (uint8_t)(rand() >> 7);
	pr_put_be32(at + (exablaze ? 6 : 4), (uint32_t)(time / PR_NS_PER_S));
	if (exablaze) {
		/* rounded up, so that reading it down gives the same nanosecond */
		uint64_t ns = (uint64_t)(time % PR_NS_PER_S), second = PR_NS_PER_S;
		uint64_t high = (ns << 20) / second, rest = (ns << 20) % second;
		uint64_t low = ((rest << 20) + second - 1) / second;

		high += low >> 20;
		low &= 0xfffff;
		pr_put_be32(at + 10, (uint32_t)(high << 12 | low >> 8));
		at[14] = (uint8_t)low;
	} else
		pr_put_be32(at + 8, (uint32_t)(time % PR_NS_PER_S));
	return len + 16 + fcs;
}

START_TEST(trailers)
{
	uint8_t frame[256];
	int64_t time;
	unsigned found = 0;

	for (int i = 0; i < 20000; i++) {
		int64_t at = BEGUN + (int64_t)rand() * 1000 + rand() % 1000;
		int64_t off = (int64_t)(rand() % 9998 - 4999) * 1000000;
		size_t len = with_trailer(
			frame, 14 + (size_t)(rand() % 200), i & 1, i & 2 ? 4 : 0, at);

		ck_assert(pr_trailer_time(frame, len, at + off, &time));
		ck_assert_int_eq(time, at);
		/* random bytes have one of 2^32 seconds, so almost never one that is near */
		found += pr_trailer_time(frame, len, at + INT64_C(6000000000) * 9, &time);
		ck_assert(!pr_trailer_time(frame, 14 + 15, at, &time) || len < 40);
	}
	ck_assert_uint_eq(found, 0);
}
END_TEST

/* What an older version wrote is read, and what it would not understand is not written without need. */
START_TEST(ledger_port)
{
	struct pr_ledger_entry e = {PR_LEDGER_PORT, .u.port = {1, 2, 10000000000, {0}}},
			       got;
	uint8_t bytes[256];
	struct pr_writer w = pr_writer_make(bytes, sizeof(bytes));
	const struct pr_clock clock = {PR_TIMESTAMP_TRAILER, PR_CLOCK_SLEWED, 3, BEGUN, -5};

	ck_assert(pr_ledger_store(&w, &e));
	ck_assert_uint_eq(bytes[1], 1);
	e.u.port.clock = clock;
	e.u.port.speed = 0;
	ck_assert(pr_ledger_store(&w, &e));
	struct pr_cursor c = pr_cursor_make(bytes, pr_writer_len(&w));
	ck_assert_int_eq(pr_ledger_load(&c, &got), 1);
	ck_assert_uint_eq(got.u.port.speed, 10000000000);
	ck_assert(!pr_clock_known(&got.u.port.clock));
	ck_assert_int_eq(pr_ledger_load(&c, &got), 1);
	ck_assert(pr_clock_equal(&got.u.port.clock, &clock));
	ck_assert_int_eq(got.u.port.clock.stepped, BEGUN);
	ck_assert_int_eq(got.u.port.clock.step, -5);
	e.u.port.clock.state = PR_CLOCK_STATES;
	ck_assert(!pr_ledger_store(&w, &e));
}
END_TEST

/* A PORT of an older version has no clock (its golden bytes: test_wire_frame). */
START_TEST(frame_port)
{
	static const uint8_t node[] = {2, 0, 0, 0, 0, 1}, dispatcher[] = {2, 0, 0, 0, 0, 2};
	struct pr_frame f = {.header = {.type = PR_FRAME_PORT, .epoch = 1}}, got;
	const struct pr_clock clock = {
		PR_TIMESTAMP_ADAPTER, PR_CLOCK_SYNCHRONIZED, 1, BEGUN, 7};
	uint8_t bytes[256];

	memcpy(f.dst, node, sizeof(node));
	memcpy(f.src, dispatcher, sizeof(dispatcher));
	f.body.port = (struct pr_port){3, 0, clock};
	size_t len = whole_frame(&f, 0x88b5, NULL, bytes, sizeof(bytes));
	ck_assert_int_eq(pr_frame_decode(bytes, len, 0x88b5, NULL, &got), PR_FRAME_OK);
	ck_assert(pr_clock_equal(&got.body.port.clock, &clock));
	ck_assert_int_eq(got.body.port.clock.stepped, BEGUN);
	ck_assert_int_eq(got.body.port.clock.step, 7);
	f.body.port.clock.timestamps = PR_TIMESTAMP_SOURCES;
	ck_assert_uint_eq(whole_frame(&f, 0x88b5, NULL, bytes, sizeof(bytes)), 0);
}
END_TEST

static void
fill(TCase *t)
{
	tcase_add_test(t, steps);
	tcase_add_test(t, slews);
	tcase_add_test(t, own_clock);
	tcase_add_test(t, trailers);
	tcase_add_test(t, ledger_port);
	tcase_add_test(t, frame_port);
}

int
main(void)
{
	return unit_run("timestamps", fill);
}
