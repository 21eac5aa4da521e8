/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/metrics_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/base/log.h"
#include "tests/unit/unit.h"

enum { CLIENTS = 4, ASKED = 6 };

struct rig {
	struct pr_loop *loop;
	struct pr_metrics_server *server;
	uint16_t port;
	uint64_t calls; /* the loop's thread's alone: the sanitizer for threads looks on */
	atomic_uint answered, running;
};

static int
dial(const struct rig *rig)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(rig->port)};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	ck_assert_int_eq(connect(fd, (const void *)&to, sizeof to), 0);
	return fd;
}

/* All that comes until the other end closes. */
static void
hear(int fd, char *out, size_t size)
{
	size_t len = 0;
	ssize_t n;

	while (len < size - 1 && (n = recv(fd, out + len, size - 1 - len, 0)) > 0)
		len += (size_t)n;
	out[len] = '\0';
	close(fd);
}

#define PR_COUNTED struct rig
static const struct pr_counter_row rows[] = {PR_COUNTER_AS(calls, "matched",
	"matched_packets_total", "Frames that found their entry in a log.")};
#undef PR_COUNTED

static void
put_values(void *arg, struct pr_metrics_page *page)
{
	struct rig *rig = arg;
	char node[32];

	snprintf(node, sizeof node, "call %llu", (unsigned long long)++rig->calls);
	pr_metrics_label(page, {"node", node});
	pr_metrics_table(page, "packrack_logger_", PR_COUNTER_TABLE(rows, rig));
}

/* A port that is free; somebody may take it before we do, so several are tried. */
static void
rig_open(struct rig *rig)
{
	*rig = (struct rig){0};
	pr_log_open("test", PR_LOG_ERROR, PR_LOG_AUTO);
	rig->loop = pr_loop_create(NULL, NULL);
	for (int i = 0; i < 20 && !rig->server; i++) {
		struct sockaddr_in at = {.sin_family = AF_INET};
		socklen_t len = sizeof at;
		int fd = socket(AF_INET, SOCK_STREAM, 0);
		char text[32];

		at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		ck_assert_int_eq(bind(fd, (const void *)&at, len), 0);
		ck_assert_int_eq(getsockname(fd, (void *)&at, &len), 0);
		close(fd);
		rig->port = ntohs(at.sin_port);
		snprintf(text, sizeof text, "%u", rig->port);
		rig->server = pr_metrics_serve(rig->loop, text, put_values, rig, NULL);
	}
	ck_assert_ptr_nonnull(rig->server);
}

static void
rig_close(struct rig *rig)
{
	pr_metrics_stop(&rig->server);
	pr_loop_destroy(&rig->loop);
}

static void *
client(void *arg)
{
	static const char request[] = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
	struct rig *rig = arg;

	for (int i = 0; i < ASKED; i++) {
		unsigned long long in_label, value;
		char text[8192], *at;
		int fd = dial(rig);

		ck_assert_int_eq(
			send(fd, request, strlen(request), 0), (int)strlen(request));
		hear(fd, text, sizeof text);
		ck_assert_msg(strncmp(text, "HTTP/1.1 200 OK\r\n", 17) == 0, "%s", text);
		at = strstr(text, "{node=\"call ");
		ck_assert_ptr_nonnull(at);
		/* a page is of one call, whole */
		ck_assert_int_eq(
			sscanf(at, "{node=\"call %llu\"} %llu\n", &in_label, &value), 2);
		ck_assert_uint_eq(in_label, value);
		ck_assert_ptr_nonnull(strstr(text, "\nprocess_cpu_seconds_total "));
		atomic_fetch_add(&rig->answered, 1);
		usleep(30000); /* pages grow old meanwhile */
	}
	if (atomic_fetch_sub(&rig->running, 1) == 1)
		pr_loop_break(rig->loop);
	return NULL;
}

START_TEST(clients_at_once)
{
	pthread_t threads[CLIENTS];
	struct rig rig;

	rig_open(&rig);
	rig.running = CLIENTS;
	for (int i = 0; i < CLIENTS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, client, &rig), 0);
	ck_assert_int_eq(pr_loop_run(rig.loop, NULL), 0);
	for (int i = 0; i < CLIENTS; i++)
		pthread_join(threads[i], NULL);
	ck_assert_uint_eq(rig.answered, CLIENTS * ASKED);
	/* those that came together were answered by one call */
	ck_assert_uint_ge(rig.calls, 1);
	ck_assert_uint_lt(rig.calls, CLIENTS * ASKED);
	rig_close(&rig);
}
END_TEST

/* Whoever waits when the program ends is told, and nothing is left. */
START_TEST(ends_with_requests_open)
{
	static const char request[] = "GET /metrics HTTP/1.1\r\n\r\n";
	struct rig rig;
	char text[4096];
	int open_one, half, silent;

	rig_open(&rig);
	open_one = dial(&rig);
	half = dial(&rig);
	silent = dial(&rig);
	ck_assert_int_gt(send(open_one, request, strlen(request), 0), 0);
	ck_assert_int_gt(send(half, request, 9, 0), 0);
	usleep(50000); /* the loop never turns: nobody answers */
	rig_close(&rig);
	hear(open_one, text, sizeof text);
	ck_assert_ptr_null(strstr(text, "200 OK"));
	hear(half, text, sizeof text);
	ck_assert_str_eq(text, "");
	hear(silent, text, sizeof text);
	ck_assert_str_eq(text, "");
	ck_assert_uint_eq(rig.calls, 0);
}
END_TEST

START_TEST(address_in_use)
{
	struct pr_error err;
	struct rig rig;
	char text[32];

	rig_open(&rig);
	snprintf(text, sizeof text, "127.0.0.1:%u", rig.port);
	ck_assert_ptr_null(pr_metrics_serve(rig.loop, text, put_values, &rig, &err));
	ck_assert_ptr_nonnull(strstr(err.text, "--metrics 127.0.0.1:"));
	ck_assert_ptr_nonnull(strstr(err.text, "in use"));
	rig_close(&rig);
}
END_TEST

static void
fill(TCase *tc)
{
	tcase_add_test(tc, clients_at_once);
	tcase_add_test(tc, ends_with_requests_open);
	tcase_add_test(tc, address_in_use);
}

int
main(void)
{
	return unit_run("metrics server", fill);
}
