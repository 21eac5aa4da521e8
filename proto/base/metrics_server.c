/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/metrics_server.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/tcp.h"

#define CONNECTIONS 16
#define PATIENCE_S 5 /* of a connection, from accept to close */
#define REQUEST_MAX 8192 /* bytes, headers included */
#define FRESH_NS (100 * PR_NS_PER_MS) /* a page this young answers the next request, too */

struct connection {
	struct pr_metrics_server *server;
	struct bufferevent *bev; /* NULL: the slot is free */
	struct event *timer;
	bool answered;
};

struct pr_metrics_server {
	pr_metrics_call call;
	void *arg;
	struct event_base *base;
	struct evconnlistener *listener;
	struct connection connections[CONNECTIONS];
	char *text; /* the last page, or NULL */
	size_t text_len;
	int64_t written; /* when, monotonic ns */
};

int
pr_metrics_check_address(const char *address, struct pr_error *err)
{
	bool loopback;

	if (pr_tcp_check(address, &loopback, NULL) == 0)
		return 0;
	return pr_error_set(err,
		"--metrics: %s: give ADDRESS:PORT with a numeric address, as in "
		"127.0.0.1:9471, or a port alone",
		address);
}

/* ---- a connection ---- */

static void
close_connection(struct connection *c)
{
	bufferevent_free(c->bev);
	if (c->timer)
		event_free(c->timer);
	c->bev = NULL;
	evconnlistener_enable(c->server->listener);
}

static void
on_timeout(PR_UNUSED evutil_socket_t fd, PR_UNUSED short what, void *arg)
{
	close_connection(arg);
}

static void
reply(struct connection *c, const char *status, const char *type, const char *text,
	size_t len)
{
	struct evbuffer *out = bufferevent_get_output(c->bev);

	c->answered = true;
	bufferevent_disable(c->bev, EV_READ);
	evbuffer_add_printf(out,
		"HTTP/1.1 %s\r\nContent-Type: text/plain; %scharset=utf-8\r\n"
		"Content-Length: %zu\r\nConnection: close\r\n"
		"X-Content-Type-Options: nosniff\r\n\r\n",
		status, type, len);
	evbuffer_add(out, text, len);
}

static void
refuse(struct connection *c, const char *status, const char *text)
{
	reply(c, status, "", text, strlen(text));
}

/* line: the first one, "GET /metrics HTTP/1.1". */
static void
answer(struct connection *c, const char *line)
{
	char method[16] = "", path[64] = "", version[8] = "";
	struct pr_metrics_server *s = c->server;

	if (sscanf(line, "%15s %63s HTTP/%7s", method, path, version) != 3)
		return refuse(c, "400 Bad Request", "this is no request\n");
	if (strcmp(method, "GET") != 0)
		return refuse(c, "501 Not Implemented", "only GET is answered\n");
	path[strcspn(path, "?")] = '\0';
	if (strcmp(path, "/metrics") != 0)
		return refuse(c, "404 Not Found", "the metrics are at /metrics\n");
	if (!s->text || pr_now_mono() - s->written >= FRESH_NS) {
		struct pr_metrics_page *page = pr_metrics_page_create();

		free(s->text);
		s->text = NULL;
		if (page) {
			s->call(s->arg, page);
			pr_metrics_process(page);
			s->text = pr_metrics_page_text(page, &s->text_len);
			s->written = pr_now_mono();
			pr_metrics_page_destroy(&page);
		}
	}
	if (!s->text)
		return refuse(c, "503 Service Unavailable", "no values: no memory\n");
	reply(c, "200 OK", "version=0.0.4; ", s->text, s->text_len);
}

static void
on_readable(struct bufferevent *bev, void *arg)
{
	struct evbuffer *in = bufferevent_get_input(bev);
	struct connection *c = arg;

	if (evbuffer_search(in, "\r\n\r\n", 4, NULL).pos < 0) {
		if (evbuffer_get_length(in) >= REQUEST_MAX)
			refuse(c, "413 Too Large", "the request is too long\n");
		return;
	}
	char *line = evbuffer_readln(in, NULL, EVBUFFER_EOL_CRLF);
	answer(c, line ? line : "");
	free(line);
}

static void
on_written(PR_UNUSED struct bufferevent *bev, void *arg)
{
	struct connection *c = arg;

	if (c->answered)
		close_connection(c);
}

/* The client may have closed its side behind its request: then the answer is on its way. */
static void
on_event(PR_UNUSED struct bufferevent *bev, short what, void *arg)
{
	struct connection *c = arg;

	if (!c->answered || !(what & BEV_EVENT_EOF))
		close_connection(c);
}

static void
on_accept(struct evconnlistener *listener, evutil_socket_t fd,
	PR_UNUSED struct sockaddr *from, PR_UNUSED int len, void *arg)
{
	const struct timeval patience = {.tv_sec = PATIENCE_S};
	struct pr_metrics_server *s = arg;
	struct connection *c = NULL;
	unsigned used = 0;

	for (unsigned i = 0; i < CONNECTIONS; i++) {
		used += s->connections[i].bev != NULL;
		if (!s->connections[i].bev)
			c = &s->connections[i];
	}
	if (used >= CONNECTIONS - 1)
		evconnlistener_disable(listener);
	if (!c || !(c->bev = bufferevent_socket_new(s->base, fd, BEV_OPT_CLOSE_ON_FREE))) {
		evutil_closesocket(fd);
		return;
	}
	c->server = s;
	c->answered = false;
	c->timer = evtimer_new(s->base, on_timeout, c);
	bufferevent_setcb(c->bev, on_readable, on_written, on_event, c);
	bufferevent_setwatermark(c->bev, EV_READ, 0, REQUEST_MAX);
	if (!c->timer || evtimer_add(c->timer, &patience) < 0 ||
		bufferevent_enable(c->bev, EV_READ | EV_WRITE) < 0)
		close_connection(c);
}

/* ---- the server ---- */

struct pr_metrics_server *
pr_metrics_serve(struct pr_loop *loop, const char *address, pr_metrics_call call, void *arg,
	struct pr_error *err)
{
	char name[PR_TCP_TEXT];
	bool loopback;

	if (pr_tcp_check(address, &loopback, err) < 0)
		return NULL;
	struct pr_metrics_server *s = calloc(1, sizeof *s);
	if (s) {
		s->call = call;
		s->arg = arg;
		s->base = pr_loop_base(loop);
		s->listener = pr_tcp_serve(s->base, address, on_accept, s, err);
	}
	if (!s || !s->listener) {
		pr_error_errno(err, "--metrics %s", address);
		free(s);
		return NULL;
	}
	pr_tcp_name(evconnlistener_get_fd(s->listener), false, name);
	pr_log_info("metrics at http://%s/metrics", name);
	if (!loopback)
		pr_log_warning("--metrics %s: whoever reaches this address may read all "
			       "figures",
			name);
	return s;
}

void
pr_metrics_stop(struct pr_metrics_server **server)
{
	struct pr_metrics_server *s = PR_TAKE(server);

	if (!s)
		return;
	for (unsigned i = 0; i < CONNECTIONS; i++)
		if (s->connections[i].bev)
			close_connection(&s->connections[i]);
	evconnlistener_free(s->listener);
	free(s->text);
	free(s);
}
