/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/listener.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/metrics_internal.h"

#define LOOP_PATIENCE_S 2 /* for the daemon's loop to put its values in */
#define IDLE_S 3
#define NICE 10

struct pr_metrics_server {
	/* the loop's thread */
	pr_metrics_call call;
	void *arg;
	struct event *asked_event;

	/* between the two: eventfds, and a page on its way */
	int asked, told;
	_Atomic(struct pr_metrics_page *) page;
	atomic_bool stopping;

	/* the server's thread */
	pthread_t thread;
	bool started;
	struct event_base *base;
	struct evhttp *http;
	struct pr_metrics_guard *guard;
	struct event *told_event, *late_event;
	struct evhttp_request *waiting[2 * PR_METRICS_CONNECTIONS];
	unsigned waiting_count;
	char *text; /* the last page */
	size_t text_len;
	int64_t written; /* when, monotonic */
};

static void
ring(int fd)
{
	uint64_t one = 1;

	while (write(fd, &one, sizeof one) < 0 && errno == EINTR)
		;
}

static void
silence(int fd)
{
	uint64_t count;

	while (read(fd, &count, sizeof count) < 0 && errno == EINTR)
		;
}

/* ---- the loop's thread ---- */

static void
on_asked(evutil_socket_t fd, short what, void *arg)
{
	struct pr_metrics_server *s = arg;
	struct pr_metrics_page *page = pr_metrics_page_create();

	(void)what;
	silence(fd);
	if (!page)
		return; /* the scrape is told that we do not answer */
	s->call(s->arg, page);
	page = atomic_exchange(&s->page, page);
	pr_metrics_page_destroy(&page); /* one that nobody took */
	ring(s->told);
}

/* ---- the server's thread ---- */

static void
reply(struct evhttp_request *req, int code, const char *reason, const char *text,
	size_t len)
{
	struct evkeyvalq *headers = evhttp_request_get_output_headers(req);
	struct evbuffer *body = evbuffer_new();

	evhttp_add_header(headers, "Content-Type",
		code == HTTP_OK ? "text/plain; version=0.0.4; charset=utf-8"
				: "text/plain; charset=utf-8");
	evhttp_add_header(headers, "Connection", "close");
	evhttp_add_header(headers, "X-Content-Type-Options", "nosniff");
	if (body)
		evbuffer_add(body, text, len);
	evhttp_send_reply(req, code, reason, body);
	if (body)
		evbuffer_free(body);
}

static void
refuse(struct evhttp_request *req, int code, const char *reason, const char *text)
{
	reply(req, code, reason, text, strlen(text));
}

static void
answer_all(struct pr_metrics_server *s)
{
	evtimer_del(s->late_event);
	for (unsigned i = 0; i < s->waiting_count; i++)
		if (s->text)
			reply(s->waiting[i], HTTP_OK, "OK", s->text, s->text_len);
		else
			refuse(s->waiting[i], HTTP_SERVUNAVAIL, "Service Unavailable",
				"no values: the program is out of memory, or does not "
				"answer\n");
	s->waiting_count = 0;
}

static void
forget_text(struct pr_metrics_server *s)
{
	free(s->text);
	s->text = NULL;
}

static void
on_told(evutil_socket_t fd, short what, void *arg)
{
	struct pr_metrics_server *s = arg;
	struct pr_metrics_page *page;

	(void)what;
	silence(fd);
	if (atomic_load(&s->stopping)) {
		event_base_loopbreak(s->base);
		return;
	}
	page = atomic_exchange(&s->page, NULL);
	if (!page)
		return;
	forget_text(s);
	pr_metrics_process(page);
	s->text = pr_metrics_page_text(page, &s->text_len);
	s->written = pr_now_mono();
	pr_metrics_page_destroy(&page);
	answer_all(s);
}

static void
on_late(evutil_socket_t fd, short what, void *arg)
{
	struct pr_metrics_server *s = arg;

	(void)fd;
	(void)what;
	forget_text(s);
	answer_all(s);
}

static void
on_metrics(struct evhttp_request *req, void *arg)
{
	struct pr_metrics_server *s = arg;
	struct timeval patience = {.tv_sec = LOOP_PATIENCE_S};

	if (s->text && pr_now_mono() - s->written < PR_METRICS_FRESH_NS) {
		reply(req, HTTP_OK, "OK", s->text, s->text_len);
		return;
	}
	if (s->waiting_count == sizeof s->waiting / sizeof s->waiting[0]) {
		refuse(req, HTTP_SERVUNAVAIL, "Service Unavailable", "too many scrapes\n");
		return;
	}
	s->waiting[s->waiting_count++] = req;
	if (s->waiting_count > 1)
		return; /* asked already */
	evtimer_add(s->late_event, &patience);
	ring(s->asked);
}

static void
on_other(struct evhttp_request *req, void *arg)
{
	(void)arg;
	refuse(req, HTTP_NOTFOUND, "Not Found", "the metrics are at /metrics\n");
}

static void *
run(void *arg)
{
	struct pr_metrics_server *s = arg;

	setpriority(
		PRIO_PROCESS, 0, NICE); /* of this thread, on Linux: packets come first */
	event_base_dispatch(s->base);
	return NULL;
}

/* ---- life ---- */

static int
start_thread(struct pr_metrics_server *s, struct pr_error *err)
{
	sigset_t all, old;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&s->thread, NULL, run, s);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	errno = rc;
	s->started = rc == 0;
	return rc ? pr_error_errno(err, "cannot start a thread for metrics") : 0;
}

static int
listen_at(const char *address, struct pr_error *err)
{
	struct sockaddr_storage at;
	char text[80];
	socklen_t len;
	int fd, one = 1;

	if (pr_metrics_resolve(address, &at, &len, err) < 0)
		return -1;
	fd = socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 &&
		bind(fd, (const void *)&at, len) == 0 &&
		listen(fd, PR_METRICS_CONNECTIONS) == 0 &&
		getsockname(fd, (void *)&at, &len) == 0) {
		pr_metrics_address_text(&at, text, sizeof text);
		pr_log_info("metrics at http://%s/metrics", text);
		if (!pr_metrics_loopback(&at))
			pr_log_warning("--metrics %s: whoever reaches this address may "
				       "read all figures",
				text);
		return fd;
	}
	pr_error_errno(err, "--metrics %s", address);
	if (fd >= 0)
		close(fd);
	return -1;
}

static int
open_http(struct pr_metrics_server *s, const char *address, struct pr_error *err)
{
	struct evconnlistener *listener;
	int fd = listen_at(address, err);

	if (fd < 0)
		return -1;
	s->base = event_base_new();
	s->http = s->base ? evhttp_new(s->base) : NULL;
	listener = s->http ? evconnlistener_new(
				     s->base, NULL, NULL, LEV_OPT_CLOSE_ON_FREE, 0, fd)
			   : NULL;
	if (!listener || !evhttp_bind_listener(s->http, listener)) {
		if (listener)
			evconnlistener_free(listener);
		else
			close(fd);
		return pr_error_set(err, "no memory for metrics");
	}
	evhttp_set_max_headers_size(s->http, PR_METRICS_REQUEST_MAX);
	evhttp_set_max_body_size(s->http, 0);
	evhttp_set_allowed_methods(s->http, EVHTTP_REQ_GET);
	evhttp_set_timeout(s->http, IDLE_S);
	evhttp_set_cb(s->http, "/metrics", on_metrics, s);
	evhttp_set_gencb(s->http, on_other, s);
	s->guard = pr_metrics_guard_create(s->base, s->http, listener, err);
	return s->guard ? 0 : -1;
}

static int
open_events(struct pr_metrics_server *s, struct pr_loop *loop, struct pr_error *err)
{
	s->asked = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	s->told = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->asked < 0 || s->told < 0)
		return pr_error_errno(err, "no event descriptors for metrics");
	s->asked_event =
		event_new(pr_loop_base(loop), s->asked, EV_READ | EV_PERSIST, on_asked, s);
	s->told_event = event_new(s->base, s->told, EV_READ | EV_PERSIST, on_told, s);
	s->late_event = evtimer_new(s->base, on_late, s);
	if (!s->asked_event || !s->told_event || !s->late_event ||
		event_add(s->asked_event, NULL) < 0 || event_add(s->told_event, NULL) < 0)
		return pr_error_set(err, "no memory for metrics");
	return 0;
}

struct pr_metrics_server *
pr_metrics_serve(struct pr_loop *loop, const char *address, pr_metrics_call call, void *arg,
	struct pr_error *err)
{
	struct pr_metrics_server *s = calloc(1, sizeof *s);

	if (!s) {
		pr_error_set(err, "no memory for metrics");
		return NULL;
	}
	s->call = call;
	s->arg = arg;
	s->asked = s->told = -1;
	if (open_http(s, address, err) < 0 || open_events(s, loop, err) < 0 ||
		start_thread(s, err) < 0)
		pr_metrics_stop(&s);
	return s;
}

static void
free_event(struct event *event)
{
	if (event)
		event_free(event);
}

void
pr_metrics_stop(struct pr_metrics_server **server)
{
	struct pr_metrics_server *s = *server;
	struct pr_metrics_page *page;

	*server = NULL;
	if (!s)
		return;
	if (s->started) {
		atomic_store(&s->stopping, true);
		ring(s->told);
		pthread_join(s->thread, NULL);
	}
	forget_text(s);
	if (s->started)
		answer_all(s); /* their requests would be nobody's */
	if (s->http)
		evhttp_free(s->http);
	pr_metrics_guard_destroy(&s->guard);
	free_event(s->asked_event);
	free_event(s->told_event);
	free_event(s->late_event);
	if (s->base)
		event_base_free(s->base);
	page = atomic_exchange(&s->page, NULL);
	pr_metrics_page_destroy(&page);
	if (s->asked >= 0)
		close(s->asked);
	if (s->told >= 0)
		close(s->told);
	free(s);
}
