/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/loop.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/thread.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "proto/base/log.h"

enum { SIGNALS = 3 };
static const int loop_signals[SIGNALS] = {SIGTERM, SIGINT, SIGHUP};

struct pr_loop {
	struct event_base *base;
	struct event *signals[SIGNALS];
	struct pr_loop_calls calls;
	struct pr_timer *watchdog; /* or NULL */
	struct pr_timer *trim;
	bool stopping;
	int late; /* a signal that came when the loop had ended; -1: it has not */
	_Atomic bool broken; /* libevent forgets a break that comes before the run */
};

static void
on_signal(evutil_socket_t sig, PR_UNUSED short what, void *arg)
{
	struct pr_loop *loop = arg;

	if (loop->late >= 0) {
		loop->late = sig;
	} else if (sig == SIGHUP) {
		if (loop->calls.reload)
			loop->calls.reload(loop->calls.arg);
	} else if (loop->stopping || !loop->calls.stop) {
		pr_loop_break(loop);
	} else {
		loop->stopping = true;
		loop->calls.stop(loop->calls.arg);
	}
}

static void
on_watchdog(PR_UNUSED void *arg)
{
	pr_notify("WATCHDOG=1");
}

/*
 * systemd restarts a service whose loop no longer reports. Reports twice as often as
 * required, as sd_watchdog_enabled(3) advises.
 */
static int
add_watchdog(struct pr_loop *loop, struct pr_error *err)
{
	const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
	unsigned long long n = usec ? strtoull(usec, NULL, 10) / 2 : 0;

	if (n == 0 || n > INT64_MAX / 1000 ||
		(pid && strtoll(pid, NULL, 10) != (long long)getpid()))
		return 0;
	loop->watchdog = pr_timer_create(loop, (int64_t)n * 1000, on_watchdog, NULL, err);
	return loop->watchdog ? 0 : pr_error_prefix(err, "systemd's watchdog");
}

/*
 * malloc keeps what was freed below something that is still in use, for ever: a busy minute
 * would show in a daemon's memory from then on.
 */
#define TRIM_NS (60 * PR_NS_PER_S)

static void
on_trim(PR_UNUSED void *arg)
{
	malloc_trim(0);
}

/* libevent's own lines would not have the format of the log. */
static void
on_libevent(int severity, const char *text)
{
	if (severity >= EVENT_LOG_WARN)
		pr_log_with(severity == EVENT_LOG_WARN ? PR_LOG_WARNING : PR_LOG_ERROR,
			PR_LOG_FIELDS({"library", "libevent"}), "%s", text);
	else
		pr_log_debug("libevent: %s", text);
}

struct pr_loop *
pr_loop_create(const struct pr_loop_calls *calls, struct pr_error *err)
{
	struct pr_loop *loop = calloc(1, sizeof *loop);

	if (!loop)
		return pr_error_null(err, "no memory for an event loop");
	if (calls)
		loop->calls = *calls;
	loop->late = -1;
	event_set_log_callback(on_libevent);
	/* before the first base, so that other threads may break the loop and wake events */
	if (evthread_use_pthreads() < 0 || !(loop->base = event_base_new())) {
		pr_error_set(err, "cannot make an event loop");
		pr_loop_destroy(&loop);
		return NULL;
	}
	for (int i = 0; i < SIGNALS; i++) {
		int sig = loop_signals[i];
		struct event *e = evsignal_new(loop->base, sig, on_signal, loop);

		loop->signals[i] = e;
		if (!e || event_add(e, NULL) < 0) {
			pr_error_set(err, "cannot watch for signal %d", sig);
			pr_loop_destroy(&loop);
			return NULL;
		}
	}
	signal(SIGPIPE, SIG_IGN);
	loop->trim = pr_timer_create(loop, TRIM_NS, on_trim, NULL, err);
	if (!loop->trim || add_watchdog(loop, err) < 0)
		pr_loop_destroy(&loop);
	return loop;
}

void
pr_loop_destroy(struct pr_loop **loop)
{
	struct pr_loop *l = PR_TAKE(loop);
	sigset_t all, before;

	if (!l)
		return;
	/* what libevent has caught and not told yet is for who had the signal before */
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	l->late = 0;
	if (l->base)
		event_base_loop(l->base, EVLOOP_NONBLOCK);
	int late = l->stopping ? 0 : l->late;
	for (int i = 0; i < SIGNALS; i++)
		if (l->signals[i])
			event_free(l->signals[i]);
	pr_timer_destroy(&l->watchdog);
	pr_timer_destroy(&l->trim);
	if (l->base)
		event_base_free(l->base);
	free(l);
	if (late)
		raise(late);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

struct event_base *
pr_loop_base(struct pr_loop *loop)
{
	return loop->base;
}

int
pr_loop_run(struct pr_loop *loop, struct pr_error *err)
{
	if (loop->broken)
		return 0;
	if (event_base_dispatch(loop->base) < 0)
		return pr_error_errno(err, "the event loop failed");
	return 0;
}

void
pr_loop_break(struct pr_loop *loop)
{
	loop->broken = true;
	event_base_loopbreak(loop->base);
}

struct pr_timer {
	struct event *event;
	int64_t every;
	void (*call)(void *arg);
	void *arg;
};

static void
on_timer(PR_UNUSED evutil_socket_t fd, PR_UNUSED short what, void *arg)
{
	struct pr_timer *timer = arg;

	timer->call(timer->arg);
}

struct pr_timer *
pr_timer_create(struct pr_loop *loop, int64_t every_ns, void (*call)(void *arg), void *arg,
	struct pr_error *err)
{
	struct pr_timer *timer = calloc(1, sizeof *timer);

	if (!timer)
		return pr_error_null(err, "no memory for a timer");
	timer->call = call;
	timer->arg = arg;
	timer->event = event_new(loop->base, -1, EV_PERSIST, on_timer, timer);
	if (!timer->event || pr_timer_every(timer, every_ns) < 0) {
		pr_error_set(err, "cannot make a timer");
		pr_timer_destroy(&timer);
	}
	return timer;
}

int
pr_timer_every(struct pr_timer *timer, int64_t every_ns)
{
	struct timeval every = {
		.tv_sec = every_ns / PR_NS_PER_S, .tv_usec = every_ns % PR_NS_PER_S / 1000};

	if (timer->every == every_ns)
		return 0;
	timer->every = every_ns;
	return event_add(timer->event, &every);
}

void
pr_timer_destroy(struct pr_timer **timer)
{
	struct pr_timer *t = PR_TAKE(timer);

	if (!t)
		return;
	if (t->event)
		event_free(t->event);
	free(t);
}

/* Ignores errors: a daemon must not fail because its supervisor does not listen. */
void
pr_notify(const char *state)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int saved = errno;
	size_t len = path ? strlen(path) : 0;

	if (len < 2 || len >= sizeof to.sun_path || (path[0] != '/' && path[0] != '@'))
		return;
	memcpy(to.sun_path, path, len);
	if (path[0] == '@')
		to.sun_path[0] = '\0';
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd >= 0) {
		sendto(fd, state, strlen(state), MSG_NOSIGNAL, &to,
			(socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
		close(fd);
	}
	errno = saved;
}
