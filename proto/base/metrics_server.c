/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/metrics_server.h"

#include <arpa/inet.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/clock.h"
#include "proto/base/log.h"

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

/* ---- the address ---- */

/* A port alone, and one behind "localhost:", is on 127.0.0.1. */
static int
parse_address(const char *address, struct sockaddr_storage *out, int *len)
{
	const char *colon = strrchr(address, ':'), *port = colon ? colon + 1 : address;
	size_t host = colon ? (size_t)(colon - address) : 0;
	char text[80];

	*len = sizeof *out;
	if (!*port || strlen(port) > 5 || port[strspn(port, "0123456789")] || host > 64)
		return -1;
	if (host == 0 || (host == 9 && strncmp(address, "localhost", host) == 0))
		snprintf(text, sizeof text, "127.0.0.1:%s", port);
	else if (memchr(address, ':', host) && address[0] != '[')
		return -1; /* an IPv6 address without its brackets */
	else
		snprintf(text, sizeof text, "%s", address);
	/* it refuses port 0, which stands for a free one */
	if (atoi(port) == 0) {
		memcpy(strrchr(text, ':'), ":1", sizeof ":1");
		if (evutil_parse_sockaddr_port(text, (void *)out, len) < 0)
			return -1;
		((struct sockaddr_in *)out)->sin_port = 0; /* at the same place in IPv6 */
		return 0;
	}
	return evutil_parse_sockaddr_port(text, (void *)out, len);
}

int
pr_metrics_check_address(const char *address, struct pr_error *err)
{
	struct sockaddr_storage at;
	int len;

	if (parse_address(address, &at, &len) == 0)
		return 0;
	return pr_error_set(err,
		"--metrics: %s: give ADDRESS:PORT with a numeric address, as in "
		"127.0.0.1:9471, or a port alone",
		address);
}

/* Logs where the listener listens, and warns if other machines can reach it. */
static void
log_address(struct evconnlistener *listener)
{
	struct sockaddr_storage at = {0};
	const struct sockaddr_in *v4 = (const void *)&at;
	const struct sockaddr_in6 *v6 = (const void *)&at;
	socklen_t len = sizeof at;
	char host[INET6_ADDRSTRLEN] = "?", text[80];
	bool loopback;

	getsockname(evconnlistener_get_fd(listener), (void *)&at, &len);
	if (at.ss_family == AF_INET) {
		inet_ntop(AF_INET, &v4->sin_addr, host, sizeof host);
		snprintf(text, sizeof text, "%s:%u", host, ntohs(v4->sin_port));
		loopback = ntohl(v4->sin_addr.s_addr) >> 24 == 127;
	} else {
		inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof host);
		snprintf(text, sizeof text, "[%s]:%u", host, ntohs(v6->sin6_port));
		loopback = IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
	}
	pr_log_info("metrics at http://%s/metrics", text);
	if (!loopback)
		pr_log_warning("--metrics %s: whoever reaches this address may read all "
			       "figures",
			text);
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
on_timeout(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
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

/* Makes a new page if the last one is too old. */
static void
renew_text(struct pr_metrics_server *s)
{
	struct pr_metrics_page *page;

	if (s->text && pr_now_mono() - s->written < FRESH_NS)
		return;
	free(s->text);
	s->text = NULL;
	page = pr_metrics_page_create();
	if (!page)
		return;
	s->call(s->arg, page);
	pr_metrics_process(page);
	s->text = pr_metrics_page_text(page, &s->text_len);
	s->written = pr_now_mono();
	pr_metrics_page_destroy(&page);
}

/* line: the first one, "GET /metrics HTTP/1.1". */
static void
answer(struct connection *c, const char *line)
{
	char method[16] = "", path[64] = "", version[8] = "";

	if (sscanf(line, "%15s %63s HTTP/%7s", method, path, version) != 3)
		return refuse(c, "400 Bad Request", "this is no request\n");
	if (strcmp(method, "GET") != 0)
		return refuse(c, "501 Not Implemented", "only GET is answered\n");
	path[strcspn(path, "?")] = '\0';
	if (strcmp(path, "/metrics") != 0)
		return refuse(c, "404 Not Found", "the metrics are at /metrics\n");
	renew_text(c->server);
	if (!c->server->text)
		return refuse(c, "503 Service Unavailable", "no values: no memory\n");
	reply(c, "200 OK", "version=0.0.4; ", c->server->text, c->server->text_len);
}

static void
on_readable(struct bufferevent *bev, void *arg)
{
	struct evbuffer *in = bufferevent_get_input(bev);
	struct connection *c = arg;
	char *line;

	if (evbuffer_search(in, "\r\n\r\n", 4, NULL).pos < 0) {
		if (evbuffer_get_length(in) >= REQUEST_MAX)
			refuse(c, "413 Too Large", "the request is too long\n");
		return;
	}
	line = evbuffer_readln(in, NULL, EVBUFFER_EOL_CRLF);
	answer(c, line ? line : "");
	free(line);
}

static void
on_written(struct bufferevent *bev, void *arg)
{
	struct connection *c = arg;

	(void)bev;
	if (c->answered)
		close_connection(c);
}

/* The client may have closed its side behind its request: then the answer is on its way. */
static void
on_event(struct bufferevent *bev, short what, void *arg)
{
	struct connection *c = arg;

	(void)bev;
	if (!c->answered || !(what & BEV_EVENT_EOF))
		close_connection(c);
}

static void
on_accept(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *from,
	int len, void *arg)
{
	const struct timeval patience = {.tv_sec = PATIENCE_S};
	struct pr_metrics_server *s = arg;
	struct connection *c = NULL;
	unsigned used = 0;

	(void)from;
	(void)len;
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
	struct pr_metrics_server *s;
	struct sockaddr_storage at;
	int len;

	if (pr_metrics_check_address(address, err) < 0 ||
		parse_address(address, &at, &len) < 0)
		return NULL;
	s = calloc(1, sizeof *s);
	if (!s) {
		pr_error_set(err, "no memory for metrics");
		return NULL;
	}
	s->call = call;
	s->arg = arg;
	s->base = pr_loop_base(loop);
	s->listener = evconnlistener_new_bind(s->base, on_accept, s,
		LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC | LEV_OPT_REUSEABLE,
		CONNECTIONS, (void *)&at, len);
	if (!s->listener) {
		pr_error_errno(err, "--metrics %s", address);
		free(s);
		return NULL;
	}
	log_address(s->listener);
	return s;
}

void
pr_metrics_stop(struct pr_metrics_server **server)
{
	struct pr_metrics_server *s = *server;

	*server = NULL;
	if (!s)
		return;
	for (unsigned i = 0; i < CONNECTIONS; i++)
		if (s->connections[i].bev)
			close_connection(&s->connections[i]);
	evconnlistener_free(s->listener);
	free(s->text);
	free(s);
}
