/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/rpc_lab.h"

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

static void
fill(TCase *tc)
{
	rpc_lab_cases(tc);
	tcase_add_test(tc, endpoints_are_checked);
	tcase_add_test(tc, sockets_of_others_stay);
	tcase_add_test(tc, stale_socket_goes);
	tcase_add_test(tc, ask_without_a_loop);
}

int
main(void)
{
	return unit_run("rpc endpoint", fill);
}
