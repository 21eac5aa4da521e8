/* SPDX-License-Identifier: Apache-2.0 */
/* The matcher, one call at a time: what must be told before what, who waits for whom, and logs that lie. */
#include "logger/record_loop.h"
#include "tests/unit/match_sim_run.h"
#include "tests/unit/unit.h"

static void
ask_nobody(void *arg, const struct pr_resend *ask)
{
	(void)arg;
	(void)ask;
}

struct given {
	uint64_t packets, leftovers, lost;
	struct pr_loss last;
};

static void
count_packet(void *arg, uint16_t link, const struct pr_entry *e,
	const struct prl_match_frame *f, uint32_t len)
{
	struct given *g = arg;

	(void)link;
	(void)e;
	(void)f;
	(void)len;
	g->packets++;
}

static void
count_leftover(void *arg, const struct prl_match_frame *f, enum prl_match_fate fate)
{
	struct given *g = arg;

	(void)f;
	(void)fate;
	g->leftovers++;
}

static void
count_lost(void *arg, const struct pr_loss *loss)
{
	struct given *g = arg;

	g->lost += loss->count;
	g->last = *loss;
}

static struct prl_match *
match_create(struct given *g, struct prl_match_options *o)
{
	struct prl_match_calls calls = {
		count_packet, count_lost, count_leftover, ask_nobody, g};
	struct prl_match *m;

	prl_match_defaults(o);
	m = prl_match_create(o, &calls, NULL);
	ck_assert_ptr_nonnull(m);
	return m;
}

static size_t
log_of_three(uint8_t *room, size_t size, const uint8_t **body)
{
	struct pr_tslog_builder b;

	pr_tslog_begin(&b, 0, 0, 2, room, size);
	for (uint64_t i = 2; i < 5; i++) {
		struct pr_entry e = {.seq = i, .ordinal = i - 1, .time = 1, .otime = 1};

		e.fingerprint = (uint32_t)i;
		ck_assert(pr_tslog_add(&b, &e));
	}
	return pr_tslog_finish(&b, body);
}

/* A MARK is stored as soon as its logs are given out: by then their losses must be told. */
START_TEST(test_given_with_its_losses)
{
	struct given g = {0};
	struct pr_gone gone = {.link = 0, .first_log = 1, .last_log = 1};
	struct prl_match_options o;
	struct prl_match *m = match_create(&g, &o);
	uint8_t room[500];
	const uint8_t *body;
	size_t len = log_of_three(room, sizeof(room), &body);

	ck_assert_int_eq(prl_match_tslog(m, body, len, PR_NS_PER_S), 0);
	prl_match_tick(m, PR_NS_PER_S + 4 * o.expire_ns);
	ck_assert(!prl_match_flush_losses(m, 0, 2));
	prl_match_gone(m, &gone, PR_NS_PER_S + 5 * o.expire_ns);
	ck_assert(prl_match_flush_losses(m, 0, 2));
	ck_assert_uint_eq(g.lost, 4);
	prl_match_finish(m);
	prl_match_destroy(&m);
}
END_TEST

/* The last log is gone, and nothing came after it: its seqs are not known. The next seq may be another node's. */
START_TEST(test_last_log_gone)
{
	struct given g = {0};
	struct prl_match_options o;
	struct prl_match *m = match_create(&g, &o);
	uint8_t room[500];
	const uint8_t *body;
	struct pr_tslog_builder b;
	struct pr_entry e = {.seq = 7, .time = 1, .otime = 1};
	size_t len;

	pr_tslog_begin(&b, 0, 0, 1, room, sizeof(room));
	ck_assert(pr_tslog_add(&b, &e));
	len = pr_tslog_finish(&b, &body);
	ck_assert_int_eq(prl_match_tslog(m, body, len, PR_NS_PER_S), 0);
	prl_match_mark(m, 0, 2, PR_NS_PER_S);
	prl_match_finish(m);
	ck_assert_uint_eq(g.lost, 2);
	ck_assert_uint_eq(g.last.reason, PR_LOSS_LOG_GONE);
	ck_assert_uint_eq(g.last.first_seq, 0);
	ck_assert_uint_eq(g.last.last_seq, 0);
	prl_match_destroy(&m);
}
END_TEST

/* A link's log 1, of two entries. */
static void
take_log(struct prl_match *m, uint16_t link, uint64_t ordinal, uint32_t fingerprint,
	int64_t now)
{
	struct pr_entry e = {.seq = 1, .ordinal = ordinal, .time = 1, .otime = 1};
	struct pr_tslog_builder b;
	const uint8_t *body;
	uint8_t room[300];
	size_t len;

	e.fingerprint = fingerprint;
	pr_tslog_begin(&b, link, PR_TSLOG_INTERLEAVED, 1, room, sizeof(room));
	ck_assert(pr_tslog_add(&b, &e));
	e.seq++;
	e.ordinal += 2;
	e.fingerprint++;
	ck_assert(pr_tslog_add(&b, &e));
	len = pr_tslog_finish(&b, &body);
	ck_assert_int_eq(prl_match_tslog(m, body, len, now), 0);
}

/* A log with fingerprints of the other kind than the dispatcher has announced is refused, and asked for again. */
START_TEST(test_other_kind_of_fingerprint)
{
	struct given g = {0};
	struct prl_match_options o;
	struct prl_match *m = match_create(&g, &o);
	struct pr_entry e = {.seq = 1, .time = 1, .otime = 1};
	struct prl_match_stats stats;
	struct pr_tslog_builder b;
	const uint8_t *body;
	uint8_t room[300];

	pr_tslog_begin(&b, 0, PR_TSLOG_WHOLE, 1, room, sizeof(room));
	ck_assert(pr_tslog_add(&b, &e));
	size_t len = pr_tslog_finish(&b, &body);
	ck_assert_int_eq(prl_match_tslog(m, body, len, PR_NS_PER_S), -1);
	prl_match_get_stats(m, &stats);
	ck_assert_uint_eq(stats.logs_bad, 1);
	ck_assert_uint_eq(stats.logs, 0);
	prl_match_finish(m);
	prl_match_destroy(&m);
}
END_TEST

/* Of two alike frames one has got its log: the other is no repeat while its log may be on its way. */
START_TEST(test_slow_log_of_another_link)
{
	struct given g = {0};
	uint8_t data[60] = {1};
	struct prl_match_frame f = {.data = data, .len = sizeof(data), .fingerprint = 7};
	struct prl_match_options o;
	struct prl_match *m = match_create(&g, &o);
	int64_t now = PR_NS_PER_S;

	prl_match_mark(m, 0, 0, now);
	prl_match_note_sent_below(m, 0, now);
	prl_match_frame(m, &f, now);
	prl_match_frame(m, &f, now);
	take_log(m, 1, 1, f.fingerprint, now);
	prl_match_tick(m, now += 10 * o.expire_ns);
	ck_assert_uint_eq(g.packets, 1);
	ck_assert_uint_eq(g.leftovers, 0);
	take_log(m, 0, 0, f.fingerprint, now);
	ck_assert_uint_eq(g.packets, 2);
	prl_match_finish(m);
	ck_assert_uint_eq(g.lost, 2); /* the second of each log */
	prl_match_destroy(&m);
}
END_TEST

/* Ordinals of no log are passed each at its own time: the log of others may be on its way. */
START_TEST(test_passed_one_by_one)
{
	struct given g = {0};
	uint8_t data[60] = {1};
	struct prl_match_frame f = {.data = data, .len = sizeof(data)};
	struct prl_match_options o;
	struct prl_match *m = match_create(&g, &o);
	int64_t now = PR_NS_PER_S;

	for (f.fingerprint = 20; f.fingerprint < 22; f.fingerprint++)
		prl_match_frame(m, &f, now);
	take_log(m, 1, 1, 20, now); /* 1 and 3; of 0 and 2 nobody knows */
	prl_match_tick(m, now += o.hold_ns - o.grace_ns);
	for (f.fingerprint = 30; f.fingerprint < 32; f.fingerprint++)
		prl_match_frame(m, &f, now);
	take_log(m, 2, 5, 30, now); /* 5 and 7; the log of 4 and 6 is on its way */
	prl_match_tick(m, now += o.grace_ns);
	for (f.fingerprint = 40; f.fingerprint < 42; f.fingerprint++)
		prl_match_frame(m, &f, now);
	take_log(m, 0, 4, 40, now);
	prl_match_run(m, now);
	ck_assert_uint_eq(g.packets, 6);
	ck_assert_uint_eq(g.lost, 0);
	prl_match_finish(m);
	prl_match_destroy(&m);
}
END_TEST

/* No log came for long: that of the frame is asked for when the next one has come. */
START_TEST(test_frame_waits_for_an_old_log)
{
	struct given g = {0};
	uint8_t data[60] = {1};
	struct prl_match_frame f = {.data = data, .len = sizeof(data), .fingerprint = 7};
	struct prl_match_options o;
	struct prl_match *m = match_create(&g, &o);
	int64_t now = PR_NS_PER_S;

	prl_match_frame(m, &f, now);
	prl_match_tick(m, now += 2 * o.hold_ns);
	take_log(m, 1, 1, 20, now); /* of the other link: two entries */
	prl_match_mark(m, 0, 1, now);
	prl_match_tick(m, now += o.grace_ns);
	ck_assert_uint_eq(g.leftovers, 0);
	take_log(m, 0, 0, f.fingerprint, now);
	prl_match_run(m, now);
	ck_assert_uint_eq(g.packets, 1);
	prl_match_finish(m);
	prl_match_destroy(&m);
}
END_TEST

/* A capture was stopped and begins again: the first frames are here before the node hears of it. */
START_TEST(test_stopped_and_begun_again)
{
	struct given g = {0};
	uint8_t data[60] = {1};
	struct prl_match_frame f = {.data = data, .len = sizeof(data), .fingerprint = 6};
	struct prl_match_options o;
	struct prl_match *m = match_create(&g, &o);
	int64_t now = PR_NS_PER_S;

	prl_match_frame(m, &f, now); /* of no log */
	prl_match_note_sent_below(m, 0, now += PR_NS_PER_S); /* the last MARK of the stop */
	f.fingerprint = 7;
	prl_match_frame(m, &f, now);
	ck_assert(prl_match_settled(m));
	prl_match_drop_leftovers(m);
	ck_assert_uint_eq(g.leftovers, 1);
	take_log(m, 0, 0, f.fingerprint, now);
	prl_match_run(m, now);
	ck_assert_uint_eq(g.packets, 1);
	prl_match_finish(m);
	prl_match_destroy(&m);
}
END_TEST

/* The logger's thread stood still between a log and the frame behind it. */
START_TEST(test_own_stall_is_no_loss)
{
	struct given g = {0};
	uint8_t data[60] = {1};
	struct prl_match_frame f = {.data = data, .len = sizeof(data), .fingerprint = 7};
	struct prl_stall_clock patience = {0};
	int64_t mono = PR_NS_PER_S;
	struct prl_match_options o;
	struct prl_match *m = match_create(&g, &o);

	take_log(m, 0, 0, f.fingerprint, prl_stall_clock_now(&patience, mono));
	mono += 100 * PR_NS_PER_S;
	prl_match_tick(m, prl_stall_clock_now(&patience, mono));
	prl_match_frame(m, &f, prl_stall_clock_now(&patience, mono));
	prl_match_run(m, prl_stall_clock_now(&patience, mono));
	ck_assert_uint_eq(g.packets, 1);
	ck_assert_uint_eq(g.lost, 0);
	/* Time in which it looks is not left out. */
	for (unsigned i = 0; i < 100; i++)
		prl_match_tick(
			m, prl_stall_clock_now(&patience, mono += 10 * PR_NS_PER_MS));
	ck_assert(prl_match_settled(m));
	ck_assert_uint_eq(g.lost, 1);
	prl_match_finish(m);
	prl_match_destroy(&m);
}
END_TEST

/*
 * The rack interface has no carrier for longer than a frame waits: the log that was lost with it comes when it is back.
 * Not for ever: of a dispatcher that is gone the frame is a stray in the end. _i: it comes back.
 */
START_TEST(test_silence_is_no_loss)
{
	struct given g = {0};
	uint8_t data[60] = {1};
	struct prl_match_frame f = {.data = data, .len = sizeof(data), .fingerprint = 7};
	struct prl_silence_clock clock = {0};
	struct prl_match_options o;
	struct prl_match *m = match_create(&g, &o);
	int64_t mono = PR_NS_PER_S, most = 2 * o.hold_ns, over = mono + o.hold_ns;

	if (!_i)
		over += most + PR_NS_PER_S;
	prl_match_frame(m, &f, prl_silence_clock_now(&clock, mono, true, most));
	take_log(m, 1, 1, 20, prl_silence_clock_now(&clock, mono, true, most));
	for (mono += PR_NS_PER_S; mono < over + PR_NS_PER_S / 5; mono += o.hold_ns / 200)
		prl_match_tick(m, prl_silence_clock_now(&clock, mono, false, most));
	ck_assert_uint_eq(g.leftovers, _i ? 0 : 1);
	take_log(m, 0, 0, f.fingerprint, prl_silence_clock_now(&clock, mono, true, most));
	prl_match_run(m, prl_silence_clock_now(&clock, mono, false, most));
	ck_assert_uint_eq(g.packets, _i);
	prl_match_finish(m);
	prl_match_destroy(&m);
}
END_TEST

/* Well-formed logs whose numbers and ordinals are absurd. */
static void
sim_logs_with_numbers(struct sim *s)
{
	static const uint64_t odd[] = {
		1, 2, 5, 4, 1000, 70000, UINT64_MAX, UINT64_MAX / 2, 3};
	uint8_t room[512];

	for (size_t i = 0; i < 81; i++) {
		struct pr_tslog_builder b;
		struct pr_entry e = {.seq = odd[i / 9] - (odd[i / 9] == UINT64_MAX),
			.ordinal = odd[i % 9] - 1,
			.fingerprint = (uint32_t)i};
		const uint8_t *body;
		size_t len;

		pr_tslog_begin(
			&b, (uint16_t)(i % 2), 0, odd[(i * 7) % 9], room, sizeof(room));
		if (!pr_tslog_add(&b, &e))
			continue;
		len = pr_tslog_finish(&b, &body);
		prl_match_tslog(s->match, body, len, PR_NS_PER_S);
	}
}

START_TEST(test_hostile_logs)
{
	uint8_t body[600];
	struct sim s;
	struct sim_case c = {.seed = 1, .links = 1, .packets = 10};
	uint64_t random = 88172645463325252u;

	sim_begin(&s, &c);
	for (unsigned i = 0; i < 20000; i++) {
		size_t len = sim_random(&random) % sizeof(body);

		for (size_t k = 0; k < len; k++)
			body[k] = (uint8_t)sim_random(&random);
		prl_match_tslog(s.match, body, len, (int64_t)i * 1000);
	}
	sim_logs_with_numbers(&s);
	prl_match_tick(s.match, 10 * PR_NS_PER_S);
	prl_match_finish(s.match);
	sim_end(&s);
}
END_TEST

static void
fill(TCase *tcase)
{
	tcase_add_test(tcase, test_given_with_its_losses);
	tcase_add_test(tcase, test_last_log_gone);
	tcase_add_test(tcase, test_passed_one_by_one);
	tcase_add_test(tcase, test_frame_waits_for_an_old_log);
	tcase_add_test(tcase, test_other_kind_of_fingerprint);
	tcase_add_test(tcase, test_slow_log_of_another_link);
	tcase_add_test(tcase, test_stopped_and_begun_again);
	tcase_add_test(tcase, test_own_stall_is_no_loss);
	tcase_add_loop_test(tcase, test_silence_is_no_loss, 0, 2);
	tcase_add_test(tcase, test_hostile_logs);
}

int
main(void)
{
	return unit_run("match calls", fill);
}
