/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include "proto/base/array.h"
#include "proto/rpc/admission.h"
#include "proto/rpc/connections.h"
#include "tests/unit/rpc_lab.h"

START_TEST(asks_and_answers)
{
	struct server s;
	struct client c;
	Packrack__Envelope env = request(7);
	struct stat st;

	start(&s, &c, NULL, NULL);
	ck_assert_int_eq(pr_rpc_send(c.rpc, NULL, &env, &err), 0);
	wait_until(&c.got, 1);
	ck_assert_uint_eq(c.last_id, 7);
	ck_assert_uint_eq(c.connected, 1);
	ck_assert_uint_eq(s.last.role, PR_ROLE_ALL);
	ck_assert_int_eq(stat(endpoint + 6, &st), 0);
	ck_assert_uint_eq(st.st_mode & 0777, 0660);
	finish(&s, &c);
}
END_TEST

/* More than any queue or batch takes, both ways: an edge forgotten would hang it. */
START_TEST(many_messages)
{
	struct server s;
	struct client c;
	unsigned sent = 0, want = 20000;

	start(&s, &c, NULL, NULL);
	wait_until(&c.connected, 1);
	while (sent < want) {
		Packrack__Envelope env = request(sent + 1);
		if (pr_rpc_send(c.rpc, NULL, &env, &err) == 0)
			sent++;
		else
			wait_until(&c.got, c.got + 1);
		if (sent - c.got > 20)
			wait_until(&c.got, sent - 10);
	}
	wait_until(&c.got, want);
	ck_assert_uint_eq(c.last_id, want);
	finish(&s, &c);
}
END_TEST

static Packrack__Envelope
batch_of(Packrack__Batch *batch, uint8_t *data, size_t len)
{
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;

	packrack__batch__init(batch);
	batch->packets.data = data;
	batch->packets.len = len;
	env.body_case = PACKRACK__ENVELOPE__BODY_BATCH;
	env.batch = batch;
	return env;
}

START_TEST(big_messages_and_too_big)
{
	size_t most = PR_RPC_MESSAGE_MAX - 64;
	uint8_t *data = calloc(1, PR_RPC_MESSAGE_MAX + 1);
	struct server s;
	struct client c;
	Packrack__Batch batch;
	Packrack__Envelope env = batch_of(&batch, data, most);

	ck_assert_ptr_nonnull(data);
	start(&s, &c, NULL, NULL);
	for (int i = 0; i < 8; i++)
		ck_assert_int_eq(pr_rpc_send(c.rpc, NULL, &env, &err), 0);
	wait_until(&s.got, 8);
	ck_assert_uint_eq(s.bytes, 8 * most);
	env = batch_of(&batch, data, PR_RPC_MESSAGE_MAX);
	ck_assert_int_eq(pr_rpc_send(c.rpc, NULL, &env, &err), -1);
	ck_assert_ptr_nonnull(strstr(err.text, "batch"));
	finish(&s, &c);
	free(data);
}
END_TEST

/* A queue with a bound: a server nobody reads from says so instead of growing or blocking. */
START_TEST(full_queue_and_peer_gone)
{
	struct server s;
	struct client c;
	Packrack__Batch batch;
	uint8_t *data = calloc(1, 1 << 20);
	Packrack__Envelope hello = request(1), env = batch_of(&batch, data, 1 << 20);
	int sent = 0;
	int64_t deadline;

	start(&s, &c, NULL, NULL);
	ck_assert_int_eq(pr_rpc_send(c.rpc, NULL, &hello, &err), 0);
	wait_until(&c.got, 1);
	while (sent < 1000 && pr_rpc_send(s.rpc, &s.last, &env, &err) == 0)
		sent++;
	ck_assert_int_eq(errno, EAGAIN);
	ck_assert_int_lt(sent, 600); /* a queue of 256 at either end */
	ck_assert_int_ge(sent, 32);
	ck_assert(pr_rpc_probe(s.rpc, &s.last));
	pr_rpc_destroy(&c.rpc);
	deadline = pr_now_mono() + 5 * PR_NS_PER_S;
	while (pr_rpc_probe(s.rpc, &s.last) && pr_now_mono() < deadline)
		wait_until(&s.got, s.got);
	ck_assert(!pr_rpc_probe(s.rpc, &s.last));
	ck_assert_int_eq(pr_rpc_send(s.rpc, &s.last, &env, &err), -1);
	ck_assert_int_ne(errno, EAGAIN);
	pr_rpc_destroy(&s.rpc);
	free(data);
}
END_TEST

START_TEST(server_restarts)
{
	struct server s;
	struct client c;
	Packrack__Envelope env = request(1);

	start(&s, &c, NULL, NULL);
	ck_assert_int_eq(pr_rpc_send(c.rpc, NULL, &env, &err), 0);
	wait_until(&c.got, 1);
	pr_rpc_destroy(&s.rpc);
	wait_until(&c.disconnected, 1);
	/* the loss is known to the monitor a moment before the queue is taken away */
	for (int64_t end = pr_now_mono() + 5 * PR_NS_PER_S; pr_now_mono() < end;)
		if (pr_rpc_send(c.rpc, NULL, &env, &err) < 0)
			break;
	ck_assert_int_eq(pr_rpc_send(c.rpc, NULL, &env, &err), -1);
	s.rpc = pr_rpc_listen(loop, endpoint, NULL, on_server, &s, &err);
	ck_assert_ptr_nonnull(s.rpc);
	wait_until(&c.connected, 2);
	env = request(2);
	ck_assert_int_eq(pr_rpc_send(c.rpc, NULL, &env, &err), 0);
	while (c.last_id != 2)
		wait_until(&c.got, c.got + 1);
	finish(&s, &c);
}
END_TEST

static void
send_raw(void *socket, const void *data, size_t len, int more)
{
	ck_assert_int_ge(zmq_send(socket, data, len, more ? ZMQ_SNDMORE : 0), 0);
}

static bool
read_fully(int fd, uint8_t *buf, size_t len)
{
	size_t have = 0;

	while (have < len) {
		ssize_t n = read(fd, buf + have, len - have);
		if (n <= 0)
			return false;
		have += (size_t)n;
	}
	return true;
}

START_TEST(hostile_peer)
{
	struct server s;
	struct client c;
	Packrack__Envelope env = request(1);
	void *ctx = zmq_ctx_new(), *raw = zmq_socket(ctx, ZMQ_DEALER);
	int linger = 0;
	uint8_t junk[200];

	start(&s, &c, NULL, NULL);
	zmq_setsockopt(raw, ZMQ_LINGER, &linger, sizeof(linger));
	ck_assert_int_eq(zmq_connect(raw, endpoint), 0);
	for (unsigned i = 0; i < 300; i++) {
		for (size_t j = 0; j < sizeof(junk); j++)
			junk[j] = (uint8_t)random();
		send_raw(raw, junk, 1 + i % sizeof(junk), 0);
		send_raw(raw, junk, 3, 1);
		send_raw(raw, junk, 4, 1);
		send_raw(raw, "", 0, 0);
		send_raw(raw, "", 0, 0);
	}
	ck_assert_int_eq(pr_rpc_send(c.rpc, NULL, &env, &err), 0);
	wait_until(&c.got, 1);
	for (int64_t end = pr_now_mono() + 5 * PR_NS_PER_S;
		pr_rpc_bad_messages(s.rpc) < 500 && pr_now_mono() < end;)
		wait_until(&c.got, 1), event_base_loop(pr_loop_base(loop), EVLOOP_NONBLOCK);
	ck_assert_uint_ge(pr_rpc_bad_messages(s.rpc), 500);
	ck_assert_uint_le(pr_rpc_bad_messages(s.rpc), 600);
	zmq_close(raw);
	zmq_ctx_term(ctx);
	finish(&s, &c);
}
END_TEST

/* One that announces a frame of 1 GiB is cut off; the others go on. */
START_TEST(oversize_is_cut_off)
{
	static const uint8_t greeting[64] = {
		0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 0, 'N', 'U', 'L', 'L'};
	static const uint8_t ready[] = {4, 28, 5, 'R', 'E', 'A', 'D', 'Y', 11, 'S', 'o',
		'c', 'k', 'e', 't', '-', 'T', 'y', 'p', 'e', 0, 0, 0, 6, 'D', 'E', 'A', 'L',
		'E', 'R'};
	static const uint8_t small[] = {0, 1, 'x'};
	static const uint8_t huge[] = {2, 0, 0, 0, 0, 0x40, 0, 0, 0, 1, 2, 3};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct server s;
	struct client c;
	Packrack__Envelope env = request(1);
	uint8_t buf[256];
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	ssize_t n;

	start(&s, &c, NULL, NULL);
	strcpy(address.sun_path, endpoint + 6);
	ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	ck_assert_int_eq(write(fd, greeting, 64), 64);
	ck_assert(read_fully(fd, buf, 64));
	ck_assert_int_eq(write(fd, ready, sizeof(ready)), sizeof(ready));
	while (poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 1) == 0)
		event_base_loop(pr_loop_base(loop), EVLOOP_NONBLOCK);
	ck_assert(read_fully(fd, buf, 2)); /* its READY: nothing may be sent before it */
	ck_assert(read_fully(fd, buf + 2, buf[1]));
	ck_assert_int_eq(write(fd, small, sizeof(small)), sizeof(small));
	for (int64_t end = pr_now_mono() + 5 * PR_NS_PER_S;
		pr_rpc_bad_messages(s.rpc) < 1 && pr_now_mono() < end;)
		event_base_loop(pr_loop_base(loop), EVLOOP_NONBLOCK);
	ck_assert_uint_eq(pr_rpc_bad_messages(s.rpc), 1); /* it has a connection */
	ck_assert_int_eq(write(fd, huge, sizeof(huge)), sizeof(huge));
	while ((n = read(fd, buf, sizeof(buf))) > 0)
		;
	ck_assert_int_le(n, 0);
	close(fd);
	ck_assert_int_eq(pr_rpc_send(c.rpc, NULL, &env, &err), 0);
	wait_until(&c.got, 1);
	finish(&s, &c);
}
END_TEST

/*
 * A peer of ZMTP 1.0 names itself first. libzmq keeps the queues of those that take another's
 * name for ever, so such peers are cut off.
 */
START_TEST(old_protocol_is_cut_off)
{
	static const uint8_t old[] = {5, 0, 'n', 'a', 'm', 'e', 5, 0, 't', 'e', 'x', 't'};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int64_t end = pr_now_mono() + 10 * PR_NS_PER_S;
	struct server s;
	struct client c;
	uint8_t buf[64];
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	ssize_t n = 1;

	start(&s, &c, NULL, NULL);
	strcpy(address.sun_path, endpoint + 6);
	ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	ck_assert_int_eq(write(fd, old, sizeof(old)), sizeof(old));
	for (; n > 0 && pr_now_mono() < end; n = recv(fd, buf, sizeof(buf), MSG_DONTWAIT)) {
		while (poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 1) == 0 &&
			pr_now_mono() < end)
			event_base_loop(pr_loop_base(loop), EVLOOP_NONBLOCK);
	}
	ck_assert_int_eq(n, 0);
	ck_assert_uint_eq(pr_rpc_bad_messages(s.rpc), 0);
	close(fd);
	finish(&s, &c);
}
END_TEST

static unsigned
figure(const char *name)
{
	struct pr_counter_table t = pr_connections_figures();

	for (size_t i = 0; i < t.count; i++)
		if (!strcmp(t.rows[i].name, name))
			return pr_counter_read(&t.rows[i], t.base);
	ck_abort_msg("no %s", name);
	return 0;
}

static int
connect_raw(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);

	strcpy(address.sun_path, endpoint + 6);
	for (int64_t end = pr_now_mono() + 5 * PR_NS_PER_S; pr_now_mono() < end;) {
		if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
			return fd;
		ck_assert_int_eq(
			errno, EAGAIN); /* the server has not accepted the last ones yet */
		event_base_loop(pr_loop_base(loop), EVLOOP_NONBLOCK);
	}
	ck_abort_msg("nobody accepts");
	return -1;
}

static void
wait_for_figure(const char *name, unsigned low, unsigned high)
{
	for (int64_t end = pr_now_mono() + 10 * PR_NS_PER_S; pr_now_mono() < end;) {
		if (figure(name) >= low && figure(name) <= high)
			return;
		event_base_loop(pr_loop_base(loop), EVLOOP_NONBLOCK);
	}
	ck_abort_msg("%s is %u, not %u to %u", name, figure(name), low, high);
}

/* One client has asked something; one user's silent connections replace each other, not that one. */
static void
flood(unsigned connections, unsigned limit)
{
	struct server s;
	struct client c, late;
	Packrack__Envelope env = request(1);
	int fds[1000];

	ck_assert_uint_le(connections, PR_COUNT(fds));
	start(&s, &c, NULL, NULL);
	ck_assert_int_eq(pr_rpc_send(c.rpc, NULL, &env, &err), 0);
	wait_until(&c.got, 1);
	for (unsigned i = 0; i < connections; i++)
		fds[i] = connect_raw();
	wait_for_figure("connections", limit, limit);
	wait_for_figure(
		"connections_replaced", connections + 1 - limit, connections + 1 - limit);
	memset(&late, 0, sizeof(late));
	late.rpc = pr_rpc_connect(loop, endpoint, NULL, on_client, &late, &err);
	ck_assert_ptr_nonnull(late.rpc);
	ck_assert_int_eq(pr_rpc_send(late.rpc, NULL, &env, &err), 0);
	wait_until(&late.got, 1);
	ck_assert_int_eq(pr_rpc_send(c.rpc, NULL, &env, &err), 0);
	wait_until(&c.got, 2);
	ck_assert_uint_eq(c.disconnected, 0);
	for (unsigned i = 0; i < connections; i++)
		close(fds[i]);
	wait_for_figure("connections", 2, 2);
	pr_rpc_destroy(&late.rpc);
	finish(&s, &c);
	ck_assert_uint_eq(figure("connections"), 0);
}

START_TEST(silent_connections_replace_each_other)
{
	flood(PR_CONNECTIONS_PEER_MAX + 100, PR_CONNECTIONS_PEER_MAX);
}
END_TEST

static void
limit_descriptors(rlim_t soft, rlim_t hard)
{
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &(struct rlimit){soft, hard}), 0);
}

/* A quarter of half the descriptors: the test's own ends of the connections need the others. */
START_TEST(few_descriptors)
{
	limit_descriptors(128, 400);
	flood(100, 50);
}
END_TEST

/* With none left the waiting connection is closed, and the server goes on: libzmq would end it. */
START_TEST(no_descriptor_left)
{
	struct server s;
	struct client c;
	Packrack__Envelope env = request(1);
	int fds[400], count = 0;
	uint8_t byte;
	int raw;

	limit_descriptors(400, 400);
	start(&s, &c, NULL, NULL);
	ck_assert_int_eq(pr_rpc_send(c.rpc, NULL, &env, &err), 0);
	wait_until(&c.got, 1);
	raw = socket(AF_UNIX, SOCK_STREAM, 0);
	while ((fds[count] = dup(0)) >= 0)
		count++;
	ck_assert_int_eq(errno, EMFILE);
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	strcpy(address.sun_path, endpoint + 6);
	ck_assert_int_eq(connect(raw, (struct sockaddr *)&address, sizeof(address)), 0);
	ck_assert_int_eq(read(raw, &byte, 1), 0);
	ck_assert_uint_eq(figure("connections_refused"), 1);
	ck_assert_int_eq(pr_rpc_send(c.rpc, NULL, &env, &err), 0);
	wait_until(&c.got, 2);
	while (count > 0)
		close(fds[--count]);
	close(raw);
	finish(&s, &c);
}
END_TEST

static void
fill(TCase *tc)
{
	rpc_lab_cases(tc);
	tcase_add_test(tc, asks_and_answers);
	tcase_add_test(tc, many_messages);
	tcase_add_test(tc, big_messages_and_too_big);
	tcase_add_test(tc, full_queue_and_peer_gone);
	tcase_add_test(tc, server_restarts);
	tcase_add_test(tc, hostile_peer);
	tcase_add_test(tc, oversize_is_cut_off);
	tcase_add_test(tc, old_protocol_is_cut_off);
	tcase_add_test(tc, silent_connections_replace_each_other);
	tcase_add_test(tc, few_descriptors);
	tcase_add_test(tc, no_descriptor_left);
}

int
main(void)
{
	return unit_run("rpc", fill);
}
