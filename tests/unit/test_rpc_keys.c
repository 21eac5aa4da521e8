/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/rpc/admission.h"
#include "tests/unit/key_dir.h"
#include "tests/unit/rpc_lab.h"

static char server_dir[96], client_dir[96], server_key[PR_KEY_TEXT],
	client_key[PR_KEY_TEXT];

static void
make_keys(void)
{
	snprintf(server_dir, sizeof(server_dir), "%s/server", dir);
	snprintf(client_dir, sizeof(client_dir), "%s/client", dir);
	key_dir_make(server_dir, server_key);
	key_dir_make(client_dir, client_key);
	key_dir_write(client_dir, "rack", 0600, "# x\nserver-key %s\n", server_key);
}

/* The client is ann, with this role; "#": with none. */
static void
enroll(const char *role)
{
	key_dir_write(server_dir, "enrolled", 0600, "%sann %s %s\n",
		*role == '#' ? "#" : "", role, client_key);
}

static void
connect_client(struct client *c, const char *keys)
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
	start(&s, &c, server_dir, client_dir);
	ck_assert_int_eq(pr_rpc_send(c.rpc, NULL, &env, &err), 0);
	wait_until(&c.refused, 1);
	ck_assert_ptr_nonnull(strstr(pr_rpc_refusal(c.rpc), "does not admit our key"));
	ck_assert_uint_eq(s.got, 0);
	pr_rpc_destroy(&c.rpc);
	enroll("read"); /* without a restart */
	connect_client(&c, client_dir);
	ck_assert_int_eq(pr_rpc_send(c.rpc, NULL, &env, &err), 0);
	wait_until(&c.got, 1);
	ck_assert_str_eq(s.last.user, "ann");
	ck_assert_uint_eq(s.last.role, PR_ROLE_READ);
	pr_rpc_destroy(&c.rpc);
	s.got = 0;
	connect_client(&c, NULL); /* no keys: refused as well */
	ck_assert_int_eq(pr_rpc_send(c.rpc, NULL, &env, &err), 0);
	wait_until(&c.refused, 1);
	ck_assert_msg(strstr(pr_rpc_refusal(c.rpc), "requires a key") != NULL, "%s",
		pr_rpc_refusal(c.rpc));
	ck_assert_uint_eq(s.got, 0);
	finish(&s, &c);
}
END_TEST

START_TEST(wrong_servers_are_told)
{
	struct server s;
	struct client c;

	make_keys();
	enroll("read");
	key_dir_write(client_dir, "rack", 0600, "server-key %s\n", client_key);
	start(&s, &c, server_dir, client_dir);
	wait_until(&c.refused, 1);
	ck_assert_msg(strstr(pr_rpc_refusal(c.rpc), "is not the server-key") != NULL, "%s",
		pr_rpc_refusal(c.rpc));
	pr_rpc_destroy(&c.rpc);
	pr_rpc_destroy(&s.rpc);
	start(&s, &c, NULL, client_dir); /* it has no keys */
	wait_until(&c.refused, 1);
	ck_assert_msg(
		strstr(pr_rpc_refusal(c.rpc), "does not use keys") ||
			strstr(pr_rpc_refusal(c.rpc), "uses none"), /* who hangs up first */
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
		_exit(rc == -1 && strstr(err.text, "requires a key") ? 0 : 1);
	}
	start(&s, &c, server_dir, client_dir);
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
	enroll("read");
	start(&s, &c, server_dir, client_dir);
	ck_assert_int_eq(pr_rpc_send(c.rpc, NULL, &env, &err), 0);
	wait_until(&c.got, 1);
	peer = s.last;
	ck_assert(pr_rpc_probe(s.rpc, &peer));
	enroll("#"); /* the connection stands */
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
	enroll("operate"); /* the same connection, with its new role */
	ck_assert_int_eq(pr_rpc_send(c.rpc, NULL, &env, &err), 0);
	wait_until(&s.got, 2);
	ck_assert_uint_eq(s.last.role, PR_ROLE_OPERATE);
	finish(&s, &c);
}
END_TEST

static void
fill(TCase *tc)
{
	rpc_lab_cases(tc);
	tcase_add_test(tc, curve_admits_and_refuses);
	tcase_add_test(tc, wrong_servers_are_told);
	tcase_add_test(tc, questions_are_refused_at_once);
	tcase_add_test(tc, a_revoked_key_is_out_at_once);
}

int
main(void)
{
	return unit_run("rpc keys", fill);
}
