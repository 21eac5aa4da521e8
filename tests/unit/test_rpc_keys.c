/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/rpc/keys.h"
#include "proto/rpc/admission.h"
#include "tests/unit/rpc_lab.h"

static char server_dir[96], client_dir[96];

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

/* The server is to look at its list with the next message. */
static void
until_looked_at(void)
{
	int64_t until = pr_now_mono() + PR_ENROLLED_LOOK_NS;

	while (pr_now_mono() < until)
		;
}

static void
enroll(const char *name, unsigned role)
{
	char key[PR_KEY_TEXT];

	ck_assert_int_eq(pr_keys_load_public(client_dir, key, &err), 0);
	ck_assert_msg(pr_enrol(server_dir, name, role, key, &err) == 0, "%s", err.text);
	until_looked_at();
}

static void
withdraw(const char *name)
{
	unsigned role;

	ck_assert_msg(pr_revoke(server_dir, name, &role, &err) == 0, "%s", err.text);
	until_looked_at();
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
	enroll("ann", PR_ROLE_READ); /* without a restart */
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
	char key[PR_KEY_TEXT];
	struct server s;
	struct client c;

	make_keys();
	enroll("ann", PR_ROLE_READ);
	ck_assert_int_eq(pr_keys_load_public(client_dir, key, &err), 0);
	write_file(client_dir, "rack", 0600, "server-key %s\n", key);
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
	enroll("ann", PR_ROLE_READ);
	start(&s, &c, server_dir, client_dir);
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
	enroll("ann", PR_ROLE_OPERATE); /* the same connection, with its new role */
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
