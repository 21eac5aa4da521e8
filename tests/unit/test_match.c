/* SPDX-License-Identifier: Apache-2.0 */
/* The matcher behind a faulty switch: what is stored and what is told as lost, by the switch's own count. */
#include "tests/unit/match_sim_run.h"
#include "tests/unit/unit.h"

/* Every case: what holds whatever the switch did. */
static void
check_always(const struct sim *s)
{
	ck_assert_msg(
		s->bad[0] == '\0', "seed %llu: %s", (unsigned long long)s->c.seed, s->bad);
	ck_assert_msg(s->frames_out == s->frames_in,
		"seed %llu: %llu frames in, %llu given back", (unsigned long long)s->c.seed,
		(unsigned long long)s->frames_in, (unsigned long long)s->frames_out);
	ck_assert_msg(s->stored + s->lost == s->c.packets,
		"seed %llu: %llu stored + %llu lost of %u", (unsigned long long)s->c.seed,
		(unsigned long long)s->stored, (unsigned long long)s->lost, s->c.packets);
	ck_assert_uint_eq(s->stored + s->leftovers, s->frames_in);
}

/* Missing is what the switch lost or damaged, and nothing else. */
static void
check_exact(const struct sim *s)
{
	check_always(s);
	ck_assert_msg(s->lost == s->dropped + s->corrupted,
		"seed %llu: %llu lost, switch dropped %llu and damaged %llu",
		(unsigned long long)s->c.seed, (unsigned long long)s->lost,
		(unsigned long long)s->dropped, (unsigned long long)s->corrupted);
	ck_assert_uint_eq(s->strays, s->corrupted);
	ck_assert_uint_eq(s->duplicates, s->doubled);
}

static void
run_exact(struct sim_case c, unsigned cases)
{
	for (unsigned i = 0; i < cases; i++) {
		struct sim s;

		c.seed++;
		sim_run(&s, &c);
		check_exact(&s);
	}
}

START_TEST(test_clean)
{
	run_exact((struct sim_case){.seed = 1, .links = 1, .packets = 600}, 50);
	run_exact((struct sim_case){.seed = 1000, .links = 3, .packets = 600}, 50);
}
END_TEST

START_TEST(test_clean_takes_the_fast_path)
{
	struct sim_case c = {.seed = 5, .links = 1, .packets = 2000};
	struct sim s;

	sim_run(&s, &c);
	check_exact(&s);
	ck_assert_uint_lt(s.stats.searched, 100); /* at the ends of logs only */
}
END_TEST

START_TEST(test_loss)
{
	run_exact(
		(struct sim_case){.seed = 1, .links = 1, .packets = 800, .loss = 10}, 100);
	run_exact((struct sim_case){.seed = 500, .links = 1, .packets = 800, .loss = 100},
		200);
	run_exact((struct sim_case){.seed = 900, .links = 2, .packets = 800, .loss = 100},
		100);
	run_exact(
		(struct sim_case){.seed = 2000, .links = 1, .packets = 3000, .burst = 500},
		60);
}
END_TEST

START_TEST(test_identical)
{
	run_exact(
		(struct sim_case){
			.seed = 1, .links = 1, .packets = 800, .loss = 10, .alike = 50},
		100);
	run_exact((struct sim_case){.seed = 300,
			  .links = 1,
			  .packets = 2500,
			  .loss = 100,
			  .alike = 50,
			  .run = 1000},
		40);
	run_exact(
		(struct sim_case){
			.seed = 400, .links = 1, .packets = 800, .loss = 100, .alike = 500},
		100);
	run_exact((struct sim_case){.seed = 700,
			  .links = 1,
			  .packets = 2500,
			  .burst = 500,
			  .alike = 100,
			  .run = 1000},
		40);
}
END_TEST

START_TEST(test_reordering)
{
	run_exact((struct sim_case){.seed = 1, .links = 1, .packets = 800, .reorder = 50},
		100);
	run_exact((struct sim_case){.seed = 300,
			  .links = 1,
			  .packets = 800,
			  .reorder = 200,
			  .loss = 50},
		150);
	run_exact((struct sim_case){.seed = 600,
			  .links = 2,
			  .packets = 800,
			  .reorder = 100,
			  .loss = 50,
			  .alike = 50},
		150);
	run_exact((struct sim_case){.seed = 900,
			  .links = 1,
			  .packets = 2500,
			  .reorder = 50,
			  .loss = 20,
			  .alike = 50,
			  .run = 1000},
		40);
}
END_TEST

START_TEST(test_duplicates)
{
	run_exact((struct sim_case){.seed = 1, .links = 1, .packets = 800, .dup = 50}, 100);
	run_exact((struct sim_case){.seed = 200,
			  .links = 1,
			  .packets = 800,
			  .dup = 50,
			  .loss = 50,
			  .reorder = 50},
		150);
	run_exact(
		(struct sim_case){
			.seed = 500, .links = 2, .packets = 800, .dup = 50, .loss = 20},
		100);
}
END_TEST

START_TEST(test_damage_and_padding)
{
	run_exact((struct sim_case){.seed = 1, .links = 1, .packets = 800, .corrupt = 50},
		100);
	run_exact((struct sim_case){.seed = 200, .links = 1, .packets = 800, .pad = 100},
		100);
	run_exact((struct sim_case){.seed = 400, .links = 1, .packets = 800, .pad = 1000},
		50);
	run_exact((struct sim_case){.seed = 450,
			  .links = 1,
			  .packets = 2500,
			  .pad = 50,
			  .alike = 50,
			  .run = 1000},
		40);
	run_exact((struct sim_case){.seed = 600,
			  .links = 1,
			  .packets = 800,
			  .pad = 300,
			  .loss = 50,
			  .corrupt = 20,
			  .reorder = 50},
		150);
	run_exact(
		(struct sim_case){
			.seed = 800, .links = 2, .packets = 800, .pad = 300, .loss = 50},
		50);
}
END_TEST

START_TEST(test_lost_logs)
{
	run_exact(
		(struct sim_case){.seed = 1, .links = 1, .packets = 1500, .log_loss = 100},
		60);
	run_exact((struct sim_case){.seed = 100,
			  .links = 1,
			  .packets = 1500,
			  .log_loss = 500,
			  .loss = 20},
		60);
	run_exact((struct sim_case){.seed = 200,
			  .links = 3,
			  .packets = 1500,
			  .log_loss = 200,
			  .loss = 20,
			  .reorder = 20},
		60);
	run_exact((struct sim_case){.seed = 300,
			  .links = 1,
			  .packets = 2500,
			  .log_loss = 300,
			  .alike = 50,
			  .run = 1000},
		30);
	run_exact((struct sim_case){.seed = 400,
			  .links = 3,
			  .packets = 1500,
			  .log_loss = 200,
			  .loss = 20,
			  .alike = 50,
			  .reorder = 20},
		100);
}
END_TEST

/* With everything at once identical frames and doubles cannot always be told: sums must hold all the same. */
START_TEST(test_everything)
{
	struct sim_case c = {.seed = 1,
		.packets = 1200,
		.loss = 20,
		.burst = 60,
		.dup = 10,
		.reorder = 20,
		.corrupt = 5,
		.pad = 20,
		.alike = 50,
		.run = 100,
		.log_loss = 100,
		.log_gone = 100};

	for (unsigned i = 0; i < 400; i++) {
		struct sim s;

		c.seed++;
		c.links = 1 + i % 3;
		sim_run(&s, &c);
		check_always(&s);
		ck_assert_uint_le(
			s.stored, s.c.packets - s.dropped - s.corrupted + s.doubled);
	}
}
END_TEST

START_TEST(test_gone_logs_are_losses)
{
	uint64_t gone = 0;

	for (unsigned i = 0; i < 60; i++) {
		struct sim_case c = {.seed = 50 + i,
			.links = 1 + i % 2,
			.packets = 1500,
			.log_loss = 100,
			.log_gone = 1000};
		struct sim s;

		sim_run(&s, &c);
		check_always(&s);
		gone += s.stats.logs_gone;
		ck_assert_uint_eq(s.strays, s.lost);
	}
	ck_assert_uint_gt(gone, 20);
}
END_TEST

/* A gap on one link does not hold the other one up. */
START_TEST(test_links_are_independent)
{
	struct sim_case c = {.seed = 9, .links = 2, .packets = 1000, .hold_log = 1};
	struct sim s;

	sim_run(&s, &c);
	check_exact(&s);
	ck_assert_uint_gt(s.stored_while_held, 400);
}
END_TEST

/*
 * The same packets on several links, as taps along one way see them: a frame may go to another link's
 * entry whose log came sooner, and its own entry must find the frame that is left, wherever it lies.
 */
START_TEST(test_links_carry_the_same)
{
	struct sim_case c = {
		.seed = 1, .links = 20, .packets = 9000, .turn = 64, .large_logs = true};

	run_exact(c, 3);
	c.links = 5;
	run_exact(c, 3);
	c.large_logs = false;
	run_exact(c, 10);
	c.loss = 20;
	c.reorder = 20;
	c.log_loss = 100;
	run_exact(c, 10);
}
END_TEST

/*
 * All frames of some time come once more, while packets that are byte for byte like them are
 * captured anew: a copy may have the entry, but no entry is lost.
 */
START_TEST(test_replay)
{
	struct sim_case c = {.seed = 1,
		.links = 1,
		.packets = 20000,
		.run = 333,
		.every = 1500,
		.replay = 200,
		.record = 1000};

	for (unsigned i = 0; i < 12; i++) {
		struct sim s;

		c.seed++;
		c.record = 1000 << i % 4;
		c.replay = 200 + i / 4 * 250;
		sim_run(&s, &c);
		check_always(&s);
		ck_assert_uint_eq(s.lost, 0);
	}
}
END_TEST

START_TEST(test_little_room)
{
	struct sim_case c = {.seed = 3,
		.links = 1,
		.packets = 60000,
		.room = 8192,
		.mute = true,
		.log_loss = 20};
	struct sim s;

	sim_run(&s, &c);
	check_always(&s);
	ck_assert_uint_gt(s.stored, 40000);
}
END_TEST

static void
fill(TCase *tcase)
{
	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, test_clean);
	tcase_add_test(tcase, test_clean_takes_the_fast_path);
	tcase_add_test(tcase, test_loss);
	tcase_add_test(tcase, test_identical);
	tcase_add_test(tcase, test_reordering);
	tcase_add_test(tcase, test_duplicates);
	tcase_add_test(tcase, test_damage_and_padding);
	tcase_add_test(tcase, test_lost_logs);
	tcase_add_test(tcase, test_everything);
	tcase_add_test(tcase, test_gone_logs_are_losses);
	tcase_add_test(tcase, test_links_are_independent);
	tcase_add_test(tcase, test_links_carry_the_same);
	tcase_add_test(tcase, test_replay);
	tcase_add_test(tcase, test_little_room);
}

int
main(void)
{
	return unit_run("match", fill);
}
