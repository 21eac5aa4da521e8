/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <errno.h>
#include <event2/event.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include "proto/base/clock.h"
#include "proto/rpc/keys.h"
#include "proto/rpc/roles.h"
#include "proto/rpc/rpc.h"

static char dir[64], endpoint[96];
static struct pr_loop *loop;
static struct pr_error err;

/* A server that counts and answers a status request with the sum of what it got. */
struct server {
	struct pr_rpc *rpc;
	struct pr_rpc_peer last;
	unsigned got;
	size_t bytes;
};

struct client {
	struct pr_rpc *rpc;
	unsigned got, connected, disconnected, refused, failures;
	uint64_t last_id;
};

static void
make_place(void)
{
	snprintf(dir, sizeof(dir), "/tmp/packrack-rpc-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(endpoint, sizeof(endpoint), "ipc://%s/s.sock", dir);
	loop = pr_loop_create(NULL, &err);
	ck_assert_ptr_nonnull(loop);
}

static void
remove_place(void)
{
	char command[128];

	pr_loop_destroy(&loop);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	ck_assert_int_eq(system(command), 0);
}

static void
on_server(void *arg, const struct pr_rpc_peer *peer, const Packrack__Envelope *env)
{
	struct server *s = arg;
	Packrack__Envelope out = PACKRACK__ENVELOPE__INIT;
	Packrack__Status status = PACKRACK__STATUS__INIT;

	s->last = *peer;
	s->got++;
	if (env->body_case == PACKRACK__ENVELOPE__BODY_BATCH)
		s->bytes += env->batch->packets.len;
	if (env->body_case != PACKRACK__ENVELOPE__BODY_STATUS_REQUEST)
		return;
	out.id = env->id;
	out.body_case = PACKRACK__ENVELOPE__BODY_STATUS;
	out.status = &status;
	status.program = (char *)"test";
	ck_assert_int_eq(pr_rpc_send(s->rpc, peer, &out, &err), 0);
}

static void
on_client(void *arg, const struct pr_rpc_peer *peer, const Packrack__Envelope *env)
{
	struct client *c = arg;

	ck_assert_ptr_null(peer);
	c->got++;
	c->failures += env->body_case == PACKRACK__ENVELOPE__BODY_FAILURE;
	c->last_id = env->id;
}

static void
on_state(void *arg, enum pr_rpc_state state)
{
	struct client *c = arg;

	c->connected += state == PR_RPC_CONNECTED;
	c->disconnected += state == PR_RPC_DISCONNECTED;
	c->refused += state == PR_RPC_REFUSED;
}

static void
wait_until(const unsigned *value, unsigned want)
{
	int64_t deadline = pr_now_mono() + 10 * PR_NS_PER_S;

	while (*value < want && pr_now_mono() < deadline) {
		const struct timeval slice = {0, 20000};
		event_base_loopexit(pr_loop_base(loop), &slice);
		event_base_loop(pr_loop_base(loop), EVLOOP_ONCE);
	}
	ck_assert_uint_ge(*value, want);
}

static void
start(struct server *s, struct client *c, const struct pr_rpc_keys *server_keys,
	const struct pr_rpc_keys *client_keys)
{
	memset(s, 0, sizeof(*s));
	memset(c, 0, sizeof(*c));
	s->rpc = pr_rpc_listen(loop, endpoint, server_keys, on_server, s, &err);
	ck_assert_msg(s->rpc != NULL, "%s", err.text);
	c->rpc = pr_rpc_connect(loop, endpoint, client_keys, on_client, c, &err);
	ck_assert_msg(c->rpc != NULL, "%s", err.text);
	pr_rpc_watch(c->rpc, on_state, c);
}

static void
finish(struct server *s, struct client *c)
{
	pr_rpc_destroy(&c->rpc);
	pr_rpc_destroy(&s->rpc);
	ck_assert_ptr_null(c->rpc);
}

static Packrack__StatusRequest request_body = PACKRACK__STATUS_REQUEST__INIT;

static Packrack__Envelope
request(uint64_t id)
{
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;

	env.id = id;
	env.body_case = PACKRACK__ENVELOPE__BODY_STATUS_REQUEST;
	env.status_request = &request_body;
	return env;
}

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
	ck_assert_int_lt(sent, 300);
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

/* ---- keys ---- */

static char server_dir[96], client_dir[96];
static const struct pr_rpc_keys server_keys = {server_dir}, client_keys = {client_dir};

static void
write_file(const char *where, const char *name, mode_t mode, const char *fmt, ...)
{
	char path[160];
	va_list args;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", where, name);
	unlink(path);
	f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	va_start(args, fmt);
	vfprintf(f, fmt, args);
	va_end(args);
	fclose(f);
	ck_assert_int_eq(chmod(path, mode), 0);
}

static void
make_keys(void)
{
	char key[PR_KEY_TEXT];

	snprintf(server_dir, sizeof(server_dir), "%s/server", dir);
	snprintf(client_dir, sizeof(client_dir), "%s/client", dir);
	ck_assert_msg(pr_keys_generate(server_dir, &err) == 0, "%s", err.text);
	ck_assert_int_eq(pr_keys_generate(client_dir, &err), 0);
	ck_assert_int_eq(pr_keys_generate(client_dir, &err), -1);
	ck_assert_ptr_nonnull(strstr(err.text, "already"));
	ck_assert_int_eq(pr_keys_load_public(server_dir, key, &err), 0);
	write_file(client_dir, "rack", 0600, "# x\nserver-key %s\n", key);
}

static void
enroll(const char *name, unsigned role)
{
	char key[PR_KEY_TEXT];

	ck_assert_int_eq(pr_keys_load_public(client_dir, key, &err), 0);
	ck_assert_msg(pr_enrol(server_dir, name, role, key, &err) == 0, "%s", err.text);
}

static void
withdraw(const char *name)
{
	unsigned role;

	ck_assert_msg(pr_revoke(server_dir, name, &role, &err) == 0, "%s", err.text);
}

static void
connect_client(struct client *c, const struct pr_rpc_keys *keys)
{
	memset(c, 0, sizeof(*c));
	c->rpc = pr_rpc_connect(loop, endpoint, keys, on_client, c, &err);
	ck_assert_msg(c->rpc != NULL, "%s", err.text);
	pr_rpc_watch(c->rpc, on_state, c);
}

START_TEST(curve_admits_and_refuses)
{
	struct server s;
	struct client c;
	Packrack__Envelope env = request(1);

	make_keys();
	start(&s, &c, &server_keys, &client_keys);
	ck_assert_int_eq(pr_rpc_send(c.rpc, NULL, &env, &err), 0);
	wait_until(&c.refused, 1);
	ck_assert_ptr_nonnull(strstr(pr_rpc_refusal(c.rpc), "does not admit our key"));
	ck_assert_uint_eq(s.got, 0);
	pr_rpc_destroy(&c.rpc);
	enroll("ann", PR_ROLE_READ); /* without a restart */
	connect_client(&c, &client_keys);
	ck_assert_int_eq(pr_rpc_send(c.rpc, NULL, &env, &err), 0);
	wait_until(&c.got, 1);
	ck_assert_str_eq(s.last.user, "ann");
	ck_assert_uint_eq(s.last.role, PR_ROLE_READ);
	pr_rpc_destroy(&c.rpc);
	s.got = 0;
	connect_client(&c, NULL); /* no keys: refused as well */
	ck_assert_int_eq(pr_rpc_send(c.rpc, NULL, &env, &err), 0);
	wait_until(&c.refused, 1);
	ck_assert_msg(strstr(pr_rpc_refusal(c.rpc), "wants keys") != NULL, "%s",
		pr_rpc_refusal(c.rpc));
	ck_assert_uint_eq(s.got, 0);
	finish(&s, &c);
}
END_TEST

START_TEST(wrong_servers_are_told)
{
	char key[PR_KEY_TEXT];
	struct server s;
	struct client c;

	make_keys();
	enroll("ann", PR_ROLE_READ);
	ck_assert_int_eq(pr_keys_load_public(client_dir, key, &err), 0);
	write_file(client_dir, "rack", 0600, "server-key %s\n", key);
	start(&s, &c, &server_keys, &client_keys);
	wait_until(&c.refused, 1);
	ck_assert_msg(strstr(pr_rpc_refusal(c.rpc), "another key") != NULL, "%s",
		pr_rpc_refusal(c.rpc));
	pr_rpc_destroy(&c.rpc);
	pr_rpc_destroy(&s.rpc);
	start(&s, &c, NULL, &client_keys); /* it has no keys */
	wait_until(&c.refused, 1);
	ck_assert_msg(
		strstr(pr_rpc_refusal(c.rpc), "has no keys") ||
			strstr(pr_rpc_refusal(c.rpc), "or none"), /* who hangs up first */
		"%s", pr_rpc_refusal(c.rpc));
	ck_assert_uint_eq(s.got, 0);
	finish(&s, &c);
}
END_TEST

START_TEST(questions_are_refused_at_once)
{
	struct server s;
	struct client c;
	Packrack__Envelope env = request(7), *reply;
	int64_t before = pr_now_mono();
	pid_t child, ended;
	int status, go[2];

	/* before there are threads: what they hold at a fork nobody would give back */
	make_keys();
	ck_assert_int_eq(pipe(go), 0);
	child = fork();
	if (child == 0) {
		char byte;
		if (read(go[0], &byte, 1) != 1)
			_exit(2);
		int rc = pr_rpc_ask(endpoint, NULL, &env, 20 * PR_NS_PER_S, &reply, &err);
		_exit(rc == -1 && strstr(err.text, "wants keys") ? 0 : 1);
	}
	start(&s, &c, &server_keys, &client_keys);
	ck_assert_int_eq(write(go[1], "", 1), 1);
	while ((ended = waitpid(child, &status, WNOHANG)) == 0 &&
		pr_now_mono() - before < 30 * PR_NS_PER_S)
		event_base_loop(pr_loop_base(loop), EVLOOP_NONBLOCK);
	if (ended == 0)
		kill(child, SIGKILL);
	ck_assert_int_eq(ended, child);
	close(go[0]);
	close(go[1]);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	ck_assert_int_lt(pr_now_mono() - before, 15 * PR_NS_PER_S);
	finish(&s, &c);
}
END_TEST

START_TEST(a_revoked_key_is_out_at_once)
{
	struct server s;
	struct client c;
	Packrack__Envelope env = request(1);
	struct pr_rpc_peer peer;

	make_keys();
	enroll("ann", PR_ROLE_READ);
	start(&s, &c, &server_keys, &client_keys);
	ck_assert_int_eq(pr_rpc_send(c.rpc, NULL, &env, &err), 0);
	wait_until(&c.got, 1);
	peer = s.last;
	ck_assert(pr_rpc_probe(s.rpc, &peer));
	withdraw("ann"); /* the connection stands */
	env.id = 2;
	ck_assert_int_eq(pr_rpc_send(c.rpc, NULL, &env, &err), 0);
	wait_until(&c.got, 2);
	ck_assert_uint_eq(c.failures, 1);
	ck_assert_uint_eq(s.got, 1);
	ck_assert(!pr_rpc_probe(s.rpc, &peer));
	env.id = 3; /* what was under way for it */
	ck_assert_int_eq(pr_rpc_send(s.rpc, &peer, &env, &err), -1);
	ck_assert_int_eq(errno, EHOSTUNREACH);
	wait_until(&c.got, 3);
	ck_assert_uint_eq(c.failures, 2);
	ck_assert_uint_eq(c.last_id, 3);
	enroll("ann", PR_ROLE_STEER); /* the same connection, with its new role */
	ck_assert_int_eq(pr_rpc_send(c.rpc, NULL, &env, &err), 0);
	wait_until(&s.got, 2);
	ck_assert_uint_eq(s.last.role, PR_ROLE_STEER);
	finish(&s, &c);
}
END_TEST

/* ---- endpoints and questions without a loop ---- */

START_TEST(endpoints_are_checked)
{
	char longest[140] = "ipc:///";

	memset(longest + 7, 'a', 106);
	ck_assert_int_eq(pr_rpc_check_endpoint(longest, &err), 0);
	longest[7 + 106] = 'a';
	ck_assert_int_eq(pr_rpc_check_endpoint(longest, &err), -1);
	ck_assert_ptr_nonnull(strstr(err.text, "107"));
	ck_assert_int_eq(pr_rpc_check_endpoint("tcp://host:1", &err), 0);
	ck_assert_int_eq(pr_rpc_check_endpoint("tcp://host", &err), -1);
	ck_assert_int_eq(pr_rpc_check_endpoint("host:7", &err), -1);
	ck_assert_int_eq(pr_rpc_check_endpoint("inproc://x", &err), -1);
	ck_assert_int_eq(pr_rpc_check_endpoint("ipc://@x", &err), -1);
}
END_TEST

START_TEST(sockets_of_others_stay)
{
	struct server s;
	struct client c;
	char path[128];
	FILE *f;

	start(&s, &c, NULL, NULL);
	ck_assert_ptr_null(pr_rpc_listen(loop, endpoint, NULL, on_server, &s, &err));
	ck_assert_ptr_nonnull(strstr(err.text, "another program"));
	finish(&s, &c);
	snprintf(path, sizeof(path), "ipc://%s/file", dir);
	f = fopen(path + 6, "w");
	fclose(f);
	ck_assert_ptr_null(pr_rpc_listen(loop, path, NULL, on_server, &s, &err));
	ck_assert_int_eq(access(path + 6, F_OK), 0);
}
END_TEST

/* A crashed server leaves its socket file behind. */
START_TEST(stale_socket_goes)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct server s;
	struct client c;
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	strcpy(address.sun_path, endpoint + 6);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	close(fd);
	ck_assert_int_eq(pr_rpc_reachable(endpoint, &err), -1);
	start(&s, &c, NULL, NULL);
	ck_assert_int_eq(pr_rpc_reachable(endpoint, &err), 0);
	finish(&s, &c);
}
END_TEST

START_TEST(ask_without_a_loop)
{
	struct server s;
	Packrack__Envelope env = request(99), *reply = NULL;
	pid_t child;

	ck_assert_int_eq(pr_rpc_ask(endpoint, NULL, &env, PR_NS_PER_S, &reply, &err), -1);
	ck_assert_ptr_nonnull(strstr(err.text, "nobody listens"));
	memset(&s, 0, sizeof(s));
	s.rpc = pr_rpc_listen(loop, endpoint, NULL, on_server, &s, &err);
	ck_assert_ptr_nonnull(s.rpc);
	ck_assert_int_eq(
		pr_rpc_ask(endpoint, NULL, &env, PR_NS_PER_S / 5, &reply, &err), -1);
	ck_assert_ptr_nonnull(strstr(err.text, "no answer"));
	pr_rpc_destroy(&s.rpc);
	pr_loop_destroy(&loop);
	child = fork();
	if (child == 0) {
		struct pr_loop *own = pr_loop_create(NULL, &err);
		s.rpc = pr_rpc_listen(own, endpoint, NULL, on_server, &s, &err);
		pr_loop_run(own, &err);
		_exit(0);
	}
	for (int64_t end = pr_now_mono() + 5 * PR_NS_PER_S;
		pr_rpc_reachable(endpoint, &err) < 0 && pr_now_mono() < end;)
		usleep(1000);
	ck_assert_msg(pr_rpc_ask(endpoint, NULL, &env, 5 * PR_NS_PER_S, &reply, &err) == 0,
		"%s", err.text);
	ck_assert_uint_eq(reply->id, 99);
	ck_assert_str_eq(reply->status->program, "test");
	pr_message_free(&reply);
	kill(child, SIGKILL);
	loop = pr_loop_create(NULL, &err); /* for the fixture */
}
END_TEST

int
main(void)
{
	Suite *suite = suite_create("rpc");
	TCase *tests = tcase_create("rpc");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_checked_fixture(tests, make_place, remove_place);
	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, asks_and_answers);
	tcase_add_test(tests, many_messages);
	tcase_add_test(tests, big_messages_and_too_big);
	tcase_add_test(tests, full_queue_and_peer_gone);
	tcase_add_test(tests, server_restarts);
	tcase_add_test(tests, hostile_peer);
	tcase_add_test(tests, oversize_is_cut_off);
	tcase_add_test(tests, curve_admits_and_refuses);
	tcase_add_test(tests, wrong_servers_are_told);
	tcase_add_test(tests, questions_are_refused_at_once);
	tcase_add_test(tests, a_revoked_key_is_out_at_once);
	tcase_add_test(tests, endpoints_are_checked);
	tcase_add_test(tests, sockets_of_others_stay);
	tcase_add_test(tests, stale_socket_goes);
	tcase_add_test(tests, ask_without_a_loop);
	suite_add_tcase(suite, tests);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
