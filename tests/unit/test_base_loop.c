/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/loop.h"

#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "tests/unit/unit.h"

struct seen {
	struct pr_loop *loop;
	int stops, reloads, ticks, break_at;
};

static void
on_stop(void *arg)
{
	struct seen *seen = arg;

	seen->stops++;
}

static void
on_reload(void *arg)
{
	struct seen *seen = arg;

	seen->reloads++;
	kill(getpid(), SIGTERM);
}

static void
on_tick(void *arg)
{
	struct seen *seen = arg;

	if (++seen->ticks == seen->break_at)
		pr_loop_break(seen->loop);
	if (seen->stops == 1)
		kill(getpid(), SIGINT);
}

START_TEST(timer_repeats)
{
	struct seen seen = {.break_at = 3};
	int64_t start = pr_now_mono();
	struct pr_timer *timer;

	seen.loop = pr_loop_create(NULL, NULL);
	timer = pr_timer_create(seen.loop, 10 * PR_NS_PER_MS, on_tick, &seen, NULL);
	ck_assert_ptr_nonnull(timer);
	ck_assert_int_eq(pr_loop_run(seen.loop, NULL), 0);
	ck_assert_int_eq(seen.ticks, 3);
	ck_assert_int_ge(pr_now_mono() - start, 20 * PR_NS_PER_MS);
	pr_timer_destroy(&timer);
	ck_assert_ptr_null(timer);
	pr_loop_destroy(&seen.loop);
	ck_assert_ptr_null(seen.loop);
}
END_TEST

/* SIGHUP reloads; the first SIGTERM asks for an end, the next SIGINT makes one; SIGPIPE is nothing. */
START_TEST(signals)
{
	struct seen seen = {.break_at = -1};
	struct pr_loop_calls calls = {on_stop, on_reload, &seen};
	struct pr_timer *timer;

	seen.loop = pr_loop_create(&calls, NULL);
	timer = pr_timer_create(seen.loop, 5 * PR_NS_PER_MS, on_tick, &seen, NULL);
	kill(getpid(), SIGPIPE);
	kill(getpid(), SIGHUP);
	ck_assert_int_eq(pr_loop_run(seen.loop, NULL), 0);
	ck_assert_int_eq(seen.reloads, 1);
	ck_assert_int_eq(seen.stops, 1);
	pr_timer_destroy(&timer);
	pr_loop_destroy(&seen.loop);
}
END_TEST

START_TEST(stop_breaks_without_a_call)
{
	struct pr_loop *loop = pr_loop_create(NULL, NULL);

	kill(getpid(), SIGHUP);
	kill(getpid(), SIGINT);
	ck_assert_int_eq(pr_loop_run(loop, NULL), 0);
	pr_loop_destroy(&loop);
}
END_TEST

START_TEST(break_before_run)
{
	struct pr_loop *loop = pr_loop_create(NULL, NULL);

	pr_loop_break(loop);
	ck_assert_int_eq(pr_loop_run(loop, NULL), 0);
	pr_loop_destroy(&loop);
}
END_TEST

/* At an abstract address, as systemd may give one, and at a path. */
static volatile sig_atomic_t told;

static void
on_signal(int number)
{
	told = number;
}

/* A signal that came when nobody looked any more is for who had it before. */
START_TEST(late_signal)
{
	struct pr_loop *loop;

	signal(SIGTERM, on_signal);
	loop = pr_loop_create(NULL, NULL);
	kill(getpid(), SIGTERM);
	ck_assert_int_eq(told, 0);
	pr_loop_destroy(&loop);
	ck_assert_int_eq(told, SIGTERM);
	told = 0;
	loop = pr_loop_create(NULL, NULL);
	pr_loop_destroy(&loop);
	ck_assert_int_eq(told, 0);
	signal(SIGTERM, SIG_DFL);
}
END_TEST

START_TEST(notify)
{
	char name[64], text[64] = "";
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_DGRAM, 0);

	snprintf(name, sizeof name, "@packrack-test-%d", (int)getpid());
	memcpy(to.sun_path + 1, name + 1, strlen(name) - 1);
	ck_assert_int_eq(
		bind(fd, (struct sockaddr *)&to,
			(socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name))),
		0);
	unsetenv("NOTIFY_SOCKET");
	pr_notify("READY=1");
	ck_assert_int_lt(recv(fd, text, sizeof text, MSG_DONTWAIT), 0);
	setenv("NOTIFY_SOCKET", name, 1);
	pr_notify("READY=1");
	ck_assert_int_eq(recv(fd, text, sizeof text, MSG_DONTWAIT), 7);
	ck_assert_str_eq(text, "READY=1");
	setenv("NOTIFY_SOCKET", "/nowhere/at/all", 1);
	pr_notify("READY=1");
	close(fd);
}
END_TEST

static struct pr_loop *watched;
static int watched_fd;

static void
on_word(void *arg)
{
	char text[64] = "";

	if (recv(watched_fd, text, sizeof text, MSG_DONTWAIT) <= 0)
		return;
	ck_assert_str_eq(text, "WATCHDOG=1");
	if (++*(int *)arg == 3)
		pr_loop_break(watched);
}

static void
break_loop(void *arg)
{
	pr_loop_break(arg);
}

/* The loop of the process that systemd named says that it turns; that of another says nothing. */
START_TEST(watchdog)
{
	char name[64], mine[32];
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	struct pr_timer *timer;
	int words = 0;

	watched_fd = socket(AF_UNIX, SOCK_DGRAM, 0);
	snprintf(name, sizeof name, "@packrack-test-w%d", (int)getpid());
	snprintf(mine, sizeof mine, "%d", (int)getpid());
	memcpy(to.sun_path + 1, name + 1, strlen(name) - 1);
	ck_assert_int_eq(
		bind(watched_fd, (struct sockaddr *)&to,
			(socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name))),
		0);
	setenv("NOTIFY_SOCKET", name, 1);
	setenv("WATCHDOG_USEC", "20000", 1);
	setenv("WATCHDOG_PID", mine, 1);
	watched = pr_loop_create(NULL, NULL);
	timer = pr_timer_create(watched, 5 * 1000 * 1000, on_word, &words, NULL);
	ck_assert_int_eq(pr_loop_run(watched, NULL), 0);
	ck_assert_int_eq(words, 3);
	pr_timer_destroy(&timer);
	pr_loop_destroy(&watched);

	while (recv(watched_fd, name, sizeof name, MSG_DONTWAIT) > 0)
		; /* what came after the third */
	setenv("WATCHDOG_PID", "1", 1);
	watched = pr_loop_create(NULL, NULL);
	timer = pr_timer_create(watched, 60 * 1000 * 1000, break_loop, watched, NULL);
	ck_assert_int_eq(pr_loop_run(watched, NULL), 0);
	ck_assert_int_lt(recv(watched_fd, name, sizeof name, MSG_DONTWAIT), 0);
	pr_timer_destroy(&timer);
	pr_loop_destroy(&watched);
	close(watched_fd);
}
END_TEST

static void
fill(TCase *tc)
{
	tcase_add_test(tc, timer_repeats);
	tcase_add_test(tc, signals);
	tcase_add_test(tc, stop_breaks_without_a_call);
	tcase_add_test(tc, break_before_run);
	tcase_add_test(tc, late_signal);
	tcase_add_test(tc, notify);
	tcase_add_test(tc, watchdog);
}

int
main(void)
{
	return unit_run("base loop", fill);
}
