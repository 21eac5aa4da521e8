/* SPDX-License-Identifier: Apache-2.0 */
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "indexer/filter.h"
#include "indexer/hello.h"
#include "indexer/query_message.h"
#include "indexer/serve.h"
#include "logger/streamfs/streamfs.h"
#include "proto/base/clock.h"
#include "proto/wire/segment.h"
#include "tests/unit/unit.h"

/* An indexer's serving and a merger's socket in one loop. */
#define PACKETS 40000
#define CAPLEN 500

static char dir[64], volume[80], endpoint[96];
static struct pr_error err;
static struct pr_loop *loop;
static struct pr_view *view;
static struct pr_serve *serve;
static struct pr_rpc *node, *merger;

static struct heard {
	struct pr_rpc_peer peer;
	unsigned hellos, batches, ends, failures, bad_requests, lost;
	uint64_t packets, held;
	int64_t frontier, first_packet;
	bool cancelled, limit;
	uint64_t scanned; /* packets that were looked at for the last answer that ended */
	char text[200];
} heard;

static void
write_volume(void)
{
	const char *paths[] = {volume};
	struct sfs_create_options create = {.size = 64 << 20, .block_size = 1 << 20};
	struct sfs_open_options open = {.writer = true, .shm_bytes = 4 << 20};
	static uint8_t buf[PR_SEGMENT_TARGET], data[CAPLEN];
	struct pr_segment_builder b;
	struct sfs *sfs;
	int stream;
	uint64_t seq = 1;

	ck_assert_msg(sfs_create(paths, 1, &create, &err) == 0, "%s", err.text);
	sfs = sfs_open(paths, 1, &open, &err);
	ck_assert_msg(sfs != NULL, "%s", err.text);
	stream = sfs_stream_open(sfs, "packets.0", 0, 0, &err);
	while (seq <= PACKETS) {
		pr_segment_begin(&b, buf, sizeof(buf), 0);
		b.header.epoch = 5;
		b.header.linktype = 1;
		for (; seq <= PACKETS; seq++) {
			struct pr_packet p = {.epoch = 5,
				.seq = seq,
				.time = (int64_t)seq * 1000,
				.otime = (int64_t)seq * 1000,
				.linktype = 1,
				.caplen = CAPLEN,
				.len = CAPLEN,
				.data = data};
			memcpy(data, &seq, sizeof(seq));
			if (!pr_segment_add(&b, &p))
				break;
		}
		size_t len = pr_segment_seal(&b);
		ck_assert_int_eq(sfs_append(sfs, stream, b.header.min_time,
					 b.header.max_time, buf, len, NULL, &err),
			SFS_OK);
	}
	sfs_close(&sfs);
}

static void
hear_batch(const Packrack__Batch *batch)
{
	struct pr_segment_reader r;
	struct pr_packet p;

	heard.batches++;
	heard.frontier = batch->frontier;
	for (size_t i = 0; i < batch->n_held; i++)
		heard.held += batch->held[i]->last - batch->held[i]->first + 1;
	if (!batch->packets.len)
		return;
	if (!heard.first_packet)
		heard.first_packet = pr_now_mono();
	ck_assert_int_eq(
		pr_segment_open(&r, batch->packets.data, batch->packets.len, &err), 0);
	while (pr_segment_next(&r, &p, &err) == 1)
		heard.packets++;
}

static void
on_merger(void *arg, const struct pr_rpc_peer *peer, const Packrack__Envelope *env)
{
	(void)arg;
	heard.peer = *peer;
	switch (env->body_case) {
	case PACKRACK__ENVELOPE__BODY_HELLO:
		heard.hellos++;
		break;
	case PACKRACK__ENVELOPE__BODY_BATCH:
		hear_batch(env->batch);
		break;
	case PACKRACK__ENVELOPE__BODY_END:
		heard.ends++;
		heard.cancelled = env->end->cancelled;
		heard.limit = env->end->limit_reached;
		heard.scanned = env->end->scanned_packets;
		break;
	case PACKRACK__ENVELOPE__BODY_FAILURE:
		heard.failures++;
		heard.bad_requests += env->failure->bad_request != 0;
		snprintf(heard.text, sizeof(heard.text), "%s", env->failure->text);
		break;
	default:
		break;
	}
}

static void
on_node(void *arg, const struct pr_rpc_peer *peer, const Packrack__Envelope *env)
{
	(void)arg;
	pr_serve_message(serve, node, peer, env);
}

static void
on_state(void *arg, enum pr_rpc_state state)
{
	(void)arg;
	if (state == PR_RPC_DISCONNECTED) {
		heard.lost++;
		pr_serve_drop(serve, node);
	}
}

static void
wait_for(const unsigned *value, unsigned want)
{
	int64_t deadline = pr_now_mono() + 60 * PR_NS_PER_S;

	while (*value < want && pr_now_mono() < deadline) {
		const struct timeval slice = {0, 20000};
		event_base_loopexit(pr_loop_base(loop), &slice);
		event_base_loop(pr_loop_base(loop), EVLOOP_ONCE);
	}
	ck_assert_uint_ge(*value, want);
}

static void
turn(int64_t ns)
{
	const struct timeval slice = {0, ns / 1000};

	event_base_loopexit(pr_loop_base(loop), &slice);
	event_base_dispatch(pr_loop_base(loop));
}

/* Long enough for anything that is coming to come. */
static void
settle(void)
{
	int64_t deadline = pr_now_mono() + 150 * PR_NS_PER_MS;

	while (pr_now_mono() < deadline)
		turn(10 * PR_NS_PER_MS);
}

static void
say_hello(void)
{
	struct pr_hello_facts facts = {.name = "log1", .boot = 1};
	struct pr_hello_message *hello = pr_hello_create(view, &facts, &err);
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;

	ck_assert_ptr_nonnull(hello);
	env.body_case = PACKRACK__ENVELOPE__BODY_HELLO;
	env.hello = pr_hello_message(hello);
	ck_assert_int_eq(pr_rpc_send(node, NULL, &env, &err), 0);
	pr_hello_destroy(&hello);
}

static void
begin(void)
{
	const char *paths[] = {volume};

	memset(&heard, 0, sizeof(heard));
	snprintf(dir, sizeof(dir), "/tmp/packrack-serve-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(volume, sizeof(volume), "%s/v", dir);
	snprintf(endpoint, sizeof(endpoint), "ipc://%s/s.sock", dir);
	write_volume();
	loop = pr_loop_create(NULL, &err);
	serve = pr_serve_create(loop, 2, &err);
	view = pr_view_open(paths, 1, 0, &err);
	ck_assert_msg(view != NULL, "%s", err.text);
	pr_serve_set_view(serve, view, NULL);
	merger = pr_rpc_listen(loop, endpoint, NULL, on_merger, NULL, &err);
	node = pr_rpc_connect(loop, endpoint, NULL, on_node, NULL, &err);
	ck_assert(merger && node);
	pr_rpc_watch(node, on_state, NULL);
	say_hello();
	wait_for(&heard.hellos, 1);
}

static void
end(void)
{
	char command[100];

	pr_serve_destroy(&serve);
	pr_rpc_destroy(&node);
	pr_rpc_destroy(&merger);
	pr_view_close(&view);
	pr_loop_destroy(&loop);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	ck_assert_int_eq(system(command), 0);
}

/* ---- asking ---- */

static void
send_to_node(Packrack__Envelope *env)
{
	ck_assert_msg(pr_rpc_send(merger, &heard.peer, env, &err) == 0, "%s", err.text);
}

static void
ask(uint64_t id, const char *filter, uint64_t limit)
{
	static const uint16_t types[] = {1};
	Packrack__Query query = PACKRACK__QUERY__INIT;
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;
	struct pr_programs programs = {0};

	ck_assert_int_eq(pr_filter_compile_all(types, 1, filter, &programs, &err), 0);
	ck_assert_int_eq(pr_query_set_programs(&query, &programs, &err), 0);
	query.since = 0;
	query.until = PR_TIME_MAX;
	query.limit = limit;
	env.id = id;
	env.body_case = PACKRACK__ENVELOPE__BODY_QUERY;
	env.query = &query;
	send_to_node(&env);
	pr_query_message_free(&query);
	pr_programs_free(&programs);
}

static void
give_credit(uint64_t id, uint32_t batches)
{
	Packrack__Credit credit = PACKRACK__CREDIT__INIT;
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;

	credit.batches = batches;
	env.id = id;
	env.body_case = PACKRACK__ENVELOPE__BODY_CREDIT;
	env.credit = &credit;
	send_to_node(&env);
}

static void
cancel(uint64_t id)
{
	Packrack__Cancel body = PACKRACK__CANCEL__INIT;
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;

	env.id = id;
	env.body_case = PACKRACK__ENVELOPE__BODY_CANCEL;
	env.cancel = &body;
	send_to_node(&env);
}

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
	ck_assert_uint_eq(pr_serve_running(serve), 0);
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
	ck_assert_uint_eq(pr_serve_running(serve), 0);
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
	ck_assert_uint_eq(pr_serve_queries(serve), 6);
}
END_TEST

/* Two that give no credit must not keep the third from running. */
START_TEST(stalled_ones_make_room)
{
	ask(1, "", 0);
	ask(2, "", 0);
	ask(3, "", 0);
	give_credit(3, 10000);
	settle();
	ck_assert_uint_eq(heard.ends, 0);
	for (int64_t end_at = pr_now_mono() + 6 * PR_NS_PER_S;
		!heard.ends && pr_now_mono() < end_at;) {
		settle();
		pr_serve_tick(serve);
	}
	ck_assert_uint_eq(heard.ends, 1);
	ck_assert_uint_eq(heard.packets, PACKETS);
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
	pr_serve_set_view(serve, NULL, "the volume is away");
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
	ck_assert_uint_eq(pr_serve_running(serve), 1);
	pr_rpc_destroy(&merger);
	wait_for(&heard.lost, 1);
	ck_assert_uint_eq(pr_serve_running(serve), 0);
	merger = pr_rpc_listen(loop, endpoint, NULL, on_merger, NULL, &err);
	ck_assert_ptr_nonnull(merger);
	/* What is sent while the old connection is taken down may go with it: a node says hello again and again. */
	for (int i = 0; heard.hellos < 2 && i < 100; i++) {
		if (pr_rpc_send(node, NULL, &(Packrack__Envelope)PACKRACK__ENVELOPE__INIT,
			    &err) == 0)
			say_hello();
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
	pr_serve_message(serve, direct, peer, env);
}

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
	env.id = 9;
	env.body_case = PACKRACK__ENVELOPE__BODY_QUERY;
	env.query = &query;
	raw_send(socket, &env);
	credit.batches = 10000;
	env.body_case = PACKRACK__ENVELOPE__BODY_CREDIT;
	env.credit = &credit;
	raw_send(socket, &env);
	settle();
	settle();
	ck_assert_uint_eq(pr_serve_running(serve), 1); /* it waits for room */
	while (!heard.ends && pr_now_mono() < deadline)
		if (!raw_receive(socket))
			turn(PR_NS_PER_MS);
	ck_assert_uint_eq(heard.ends, 1);
	ck_assert_uint_eq(heard.packets, PACKETS);
	zmq_close(socket);
	zmq_ctx_term(ctx);
	pr_rpc_destroy(&direct);
}
END_TEST

static void
fill(TCase *tc)
{
	tcase_add_checked_fixture(tc, begin, end);
	tcase_add_test(tc, gives_all_for_credit);
	tcase_add_test(tc, cancelled_at_once);
	tcase_add_test(tc, a_limit_ends_the_work);
	tcase_add_test(tc, many_share);
	tcase_add_test(tc, stalled_ones_make_room);
	tcase_add_test(tc, refusals_say_why);
	tcase_add_test(tc, full_queue_waits);
	tcase_add_test(tc, dropped_with_the_connection);
}

int
main(void)
{
	return unit_run("serve", fill);
}
