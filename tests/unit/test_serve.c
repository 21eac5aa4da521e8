/* SPDX-License-Identifier: Apache-2.0 */
/* Serving queries: credit, cancelling, sharing, refusing, and connections that go. */
#include <zmq.h>

#include "tests/unit/serve_lab.h"

START_TEST(gives_all_for_credit)
{
	int64_t asked = pr_now_mono();

	ask(1, "", 0);
	give_credit(1, 1);
	wait_for(&heard.batches, 1);
	ck_assert_int_lt(heard.first_packet - asked, 5 * PR_NS_PER_S);
	ck_assert_uint_lt(
		heard.packets, 100); /* the first one is small, so that it is soon there */
	settle();
	ck_assert_uint_eq(heard.batches, 1); /* no more than was asked for */
	give_credit(1, 2);
	wait_for(&heard.batches, 3);
	settle();
	ck_assert_uint_eq(heard.batches, 3);
	give_credit(1, 10000);
	wait_for(&heard.ends, 1);
	ck_assert_uint_eq(heard.packets, PACKETS);
	ck_assert_uint_eq(heard.held, PACKETS);
	ck_assert_int_eq(heard.frontier, PR_TIME_MAX);
	ck_assert(!heard.cancelled);
	ck_assert_uint_eq(served().queries_running, 0);
}
END_TEST

START_TEST(cancelled_at_once)
{
	ask(1, "", 0);
	give_credit(1, 3);
	wait_for(&heard.batches, 3);
	cancel(1);
	wait_for(&heard.ends, 1);
	ck_assert(heard.cancelled);
	ck_assert_uint_ge(heard.scanned, heard.packets);
	ck_assert_uint_lt(heard.scanned, PACKETS / 2); /* the rest was never looked at */
	ask(2, "", 0); /* not yet begun */
	cancel(2);
	wait_for(&heard.ends, 2);
	ck_assert(heard.cancelled);
	give_credit(1, 100); /* nobody's */
	settle();
	ck_assert_uint_eq(heard.batches, 3);
	ck_assert_uint_eq(served().queries_running, 0);
}
END_TEST

START_TEST(a_limit_ends_the_work)
{
	ask(1, "", 7);
	give_credit(1, 100);
	wait_for(&heard.ends, 1);
	ck_assert(heard.limit);
	ck_assert_uint_eq(heard.packets, 7);
	ck_assert_uint_eq(heard.scanned, 7);
}
END_TEST

START_TEST(many_share)
{
	for (uint64_t id = 1; id <= 6; id++) {
		ask(id, id % 2 ? "ether[0] = 7" : "", id % 3 ? 0 : 50);
		give_credit(id, 10000);
	}
	wait_for(&heard.ends, 6);
	ck_assert_uint_eq(heard.failures, 0);
	ck_assert_uint_eq(served().queries, 6);
}
END_TEST

/* As long as a filter may be: of 100,000 sources, and no packet has one of them. */
static void
ask_longest(uint64_t id)
{
	static struct pr_insn insns[PR_BPF_MAX];
	struct pr_bpf_set programs = {0};
	size_t last = PR_BPF_MAX - 2;

	insns[0] = (struct pr_insn){0x20, 0, 0, 26}; /* ld [26] */
	insns[1] = (struct pr_insn){0x15, 0, 0, 0};
	for (size_t i = 2; i < PR_BPF_MAX; i += 2) {
		insns[i] = (struct pr_insn){0x15, 0, i < last, 0x0b000000 + (uint32_t)i};
		insns[i + 1] = (struct pr_insn){0x06, 0, 0, i < last}; /* ret */
	}
	programs.items = calloc(1, sizeof(*programs.items));
	programs.items[programs.count++] = pr_bpf_create(1, insns, PR_BPF_MAX, &err);
	ck_assert_msg(programs.items[0] != NULL, "%s", err.text);
	ask_programs(id, &programs, 0);
}

static int64_t last_tick, longest; /* of this thread's CPU: the machine may be loaded */

static void
on_tick(void *arg)
{
	struct timespec cpu;
	int64_t now;

	(void)arg;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
	now = cpu.tv_sec * PR_NS_PER_S + cpu.tv_nsec;
	if (last_tick && now - last_tick > longest)
		longest = now - last_tick;
	last_tick = now;
}

/* The longest filters, and another one's query beside them: nothing holds the loop. */
START_TEST(long_filters_hold_nothing)
{
	struct pr_timer *timer;
	int64_t until, asked;

	ask_longest(1);
	give_credit(1, 1000);
	turn(PR_NS_PER_MS);
	timer = pr_timer_create(loop, PR_NS_PER_MS, on_tick, NULL, &err);
	for (until = pr_now_mono() + 1500 * PR_NS_PER_MS; pr_now_mono() < until;)
		turn(10 * PR_NS_PER_MS);
	ck_assert_uint_eq(heard.ends, 0);
	asked = pr_now_mono();
	ask(2, "", 7);
	give_credit(2, 100);
	wait_for(&heard.ends, 1);
	ck_assert_uint_eq(heard.packets, 7);
	ck_assert_int_lt(pr_now_mono() - asked, 20 * PR_NS_PER_S);
	cancel(1);
	wait_for(&heard.ends, 2);
	ck_assert(heard.cancelled);
	ask_longest(3);
	last_tick = 0; /* that was this test's own work */
	turn(20 * PR_NS_PER_MS);
	cancel(3); /* while it is being planned */
	wait_for(&heard.ends, 3);
	ck_assert_int_lt(
		longest, 400 * PR_NS_PER_MS); /* the message itself takes some 50 */
	pr_timer_destroy(&timer);
}
END_TEST

/* A filter that takes some time a packet, and then accepts it or not. */
static void
ask_slow(uint64_t id, bool accept)
{
	enum { STEPS = 3000 };
	static struct pr_insn insns[STEPS];
	struct pr_bpf_set programs = {0};

	for (size_t i = 0; i < STEPS; i++)
		insns[i] = (struct pr_insn){0x04, 0, 0, 1}; /* add #1 */
	insns[STEPS - 1] = (struct pr_insn){0x06, 0, 0, accept}; /* ret */
	programs.items = calloc(1, sizeof(*programs.items));
	programs.items[programs.count++] = pr_bpf_create(1, insns, STEPS, &err);
	ck_assert_msg(programs.items[0] != NULL, "%s", err.text);
	ask_programs(id, &programs, 0);
	give_credit(id, 10000);
}

/* Whoever asks much at once delays the own answers: another's comes before most of them. */
START_TEST(users_take_turns)
{
	pri_serve_destroy(&serve);
	make_serve(16);
	pri_serve_set_volume(serve, view, NULL);
	asker = "ann";
	for (uint64_t id = 1; id <= 6; id++)
		ask_slow(id, false);
	asker = "bob";
	ask_slow(7, true);
	while (heard.packets < PACKETS)
		turn(10 * PR_NS_PER_MS);
	ck_assert_uint_le(heard.ends, 4);
	wait_for(&heard.ends, 7);
	ck_assert_uint_eq(heard.failures, 0);
}
END_TEST

/* Two that give no credit must not keep the third from running. */
START_TEST(stalled_ones_make_room)
{
	ask(1, "", 0);
	ask(2, "", 0);
	ask(3, "", 0);
	give_credit(3, 10000);
	queries_are(2, 1);
	ck_assert_uint_eq(heard.ends, 0);
	for (int64_t end_at = pr_now_mono() + 60 * PR_NS_PER_S;
		!heard.ends && pr_now_mono() < end_at;) {
		settle();
		pri_serve_tick(serve);
	}
	ck_assert_uint_eq(heard.ends, 1);
	ck_assert_uint_eq(heard.packets, PACKETS);
}
END_TEST

/* One user's queries leave a place of four free, and go behind those of a user who has none. */
START_TEST(one_user_leaves_room)
{
	pri_serve_destroy(&serve);
	make_serve(4);
	pri_serve_set_volume(serve, view, NULL);
	asker = "ann";
	for (uint64_t id = 1; id <= 6; id++)
		ask(id, "", 0);
	queries_are(3, 3);
	asker = "bob";
	ask(7, "", 0);
	give_credit(7, 10000);
	wait_for(&heard.ends, 1);
	ck_assert_uint_eq(heard.packets, PACKETS);
}
END_TEST

/* What memory has is answered while all places are taken by queries that read the disk, of the same user. */
START_TEST(memory_waits_for_no_disk)
{
	struct sfs *writer = open_writer();

	append_packets(writer, PACKETS + 1, PACKETS + 100);
	ck_assert_int_eq(pri_volume_refresh(view, true, INT64_MAX, &err), 0);
	ck_assert(!pri_volume_in_memory(view, PACKETS * 1000, PR_TIME_MAX));
	ck_assert(pri_volume_in_memory(view, PACKETS * 1000 + 1, PR_TIME_MAX));
	for (uint64_t id = 1; id <= 4; id++)
		ask_slow(id, false);
	queries_are(2, 2);
	since = PACKETS * 1000 + 1;
	for (uint64_t id = 5; id <= 7; id++) {
		ask(id, "", 0);
		give_credit(id, 100);
	}
	wait_for(&heard.ends, 3);
	ck_assert_uint_eq(heard.packets, 3 * 100);
	ck_assert_uint_eq(served().queries_running, 2);
	ck_assert_uint_eq(served().queries_waiting, 2);
	since = 0;
	wait_for(&heard.ends, 7);
	ck_assert_uint_eq(heard.failures, 0);
	sfs_close(&writer);
}
END_TEST

START_TEST(refusals_say_why)
{
	Packrack__Query query = PACKRACK__QUERY__INIT;
	Packrack__Program program = PACKRACK__PROGRAM__INIT, *programs[] = {&program};
	Packrack__Instruction in = PACKRACK__INSTRUCTION__INIT, *ins[] = {&in};
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;

	in.code = 5; /* a jump out of the program */
	in.k = 100;
	program.instructions = ins;
	program.n_instructions = 1;
	query.programs = programs;
	query.n_programs = 1;
	env.id = 1;
	env.body_case = PACKRACK__ENVELOPE__BODY_QUERY;
	env.query = &query;
	send_to_node(&env);
	wait_for(&heard.failures, 1);
	ck_assert_uint_eq(heard.bad_requests, 1);
	ck_assert_ptr_nonnull(strstr(heard.text, "instruction 0"));
	ask(2, "", 0);
	ask(2, "", 0);
	wait_for(&heard.failures, 2);
	ck_assert_uint_eq(heard.bad_requests, 2);
	pri_serve_set_volume(serve, NULL, "the volume is away");
	wait_for(&heard.failures, 3); /* the one that was running */
	ask(3, "", 0);
	wait_for(&heard.failures, 4);
	ck_assert_str_eq(heard.text, "the volume is away");
	ck_assert_uint_eq(heard.bad_requests, 2);
}
END_TEST

START_TEST(dropped_with_the_connection)
{
	ask(1, "", 0);
	give_credit(1, 2);
	wait_for(&heard.batches, 2);
	ck_assert_uint_eq(served().queries_running, 1);
	pr_rpc_destroy(&merger);
	wait_for(&heard.lost, 1);
	ck_assert_uint_eq(served().queries_running, 0);
	merger = pr_rpc_listen(loop, endpoint, NULL, on_merger, NULL, &err);
	ck_assert_ptr_nonnull(merger);
	/*
	 * A hello that is sent while the old connection is taken down fails or is lost: a node sends it again and
	 * again.
	 */
	for (int i = 0; heard.hellos < 2 && i < 100; i++) {
		try_hello();
		settle();
	}
	ck_assert_uint_ge(heard.hellos, 2);
	heard.packets = 0;
	ask(1, "", 0);
	give_credit(1, 10000);
	wait_for(&heard.ends, 1);
	ck_assert_uint_eq(heard.packets, PACKETS);
}
END_TEST

/* ---- an asker that gives more credit than its queue takes ---- */

static void
raw_send(void *socket, Packrack__Envelope *env)
{
	uint8_t *buf;
	size_t len;

	ck_assert_int_eq(pr_message_pack(env, &buf, &len, &err), 0);
	ck_assert_int_eq(zmq_send(socket, buf, len, 0), (int)len);
	free(buf);
}

static bool
raw_receive(void *socket)
{
	Packrack__Envelope *env;
	zmq_msg_t msg;
	int rc;

	zmq_msg_init(&msg);
	rc = zmq_msg_recv(&msg, socket, ZMQ_DONTWAIT);
	if (rc > 0) {
		env = pr_message_unpack(zmq_msg_data(&msg), zmq_msg_size(&msg), &err);
		ck_assert_msg(env != NULL, "%s", err.text);
		on_merger(NULL, &heard.peer, env);
		pr_message_free(&env);
	}
	zmq_msg_close(&msg);
	return rc >= 0;
}

static struct pr_rpc *direct;

static void
on_direct(void *arg, const struct pr_rpc_peer *peer, const Packrack__Envelope *env)
{
	(void)arg;
	pri_serve_message(serve, direct, peer, env);
}

#define FULL_QUERIES 8 /* answers of more batches than a queue takes */

START_TEST(full_queue_waits)
{
	Packrack__Query query = PACKRACK__QUERY__INIT;
	Packrack__Credit credit = PACKRACK__CREDIT__INIT;
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;
	void *ctx = zmq_ctx_new(), *socket = zmq_socket(ctx, ZMQ_DEALER);
	int few = 1;
	char place[110];
	int64_t deadline = pr_now_mono() + 60 * PR_NS_PER_S;

	snprintf(place, sizeof(place), "ipc://%s/direct", dir);
	direct = pr_rpc_listen(loop, place, NULL, on_direct, NULL, &err);
	ck_assert_ptr_nonnull(direct);
	zmq_setsockopt(socket, ZMQ_RCVHWM, &few, sizeof(few));
	ck_assert_int_eq(zmq_connect(socket, place), 0);
	query.until = PR_TIME_MAX;
	credit.batches = 10000;
	for (env.id = 9; env.id < 9 + FULL_QUERIES; env.id++) {
		env.body_case = PACKRACK__ENVELOPE__BODY_QUERY;
		env.query = &query;
		raw_send(socket, &env);
		env.body_case = PACKRACK__ENVELOPE__BODY_CREDIT;
		env.credit = &credit;
		raw_send(socket, &env);
	}
	while (!served().queries_running && pr_now_mono() < deadline)
		turn(10 * PR_NS_PER_MS);
	settle();
	ck_assert_uint_ge(served().queries_running, 1); /* it waits for room */
	while (heard.ends < FULL_QUERIES && pr_now_mono() < deadline)
		if (!raw_receive(socket))
			turn(PR_NS_PER_MS);
	ck_assert_uint_eq(heard.ends, FULL_QUERIES);
	ck_assert_uint_eq(heard.packets, FULL_QUERIES * PACKETS);
	zmq_close(socket);
	zmq_ctx_term(ctx);
	pr_rpc_destroy(&direct);
}
END_TEST

static void
fill(TCase *tc)
{
	tcase_add_checked_fixture(tc, begin, end);
	tcase_add_test(tc, long_filters_hold_nothing);
	tcase_add_test(tc, gives_all_for_credit);
	tcase_add_test(tc, cancelled_at_once);
	tcase_add_test(tc, a_limit_ends_the_work);
	tcase_add_test(tc, many_share);
	tcase_add_test(tc, users_take_turns);
	tcase_add_test(tc, stalled_ones_make_room);
	tcase_add_test(tc, one_user_leaves_room);
	tcase_add_test(tc, memory_waits_for_no_disk);
	tcase_add_test(tc, refusals_say_why);
	tcase_add_test(tc, full_queue_waits);
	tcase_add_test(tc, dropped_with_the_connection);
}

int
main(void)
{
	return unit_run("serve", fill);
}
