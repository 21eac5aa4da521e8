/* SPDX-License-Identifier: Apache-2.0 */
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/listener.h>
#include <stdlib.h>

#include "proto/base/clock.h"
#include "proto/base/metrics_internal.h"

#define LOOK_NS (50 * PR_NS_PER_MS)

/*
 * libevent 2.1 takes as many connections as come, and gives each time anew for every byte that it sends.
 * It asks us for each connection's bufferevent, though: we hold a reference, so that we may look later
 * whether it is still in use (one that was freed has no callbacks), and since when.
 */
struct held {
	struct bufferevent *bev;
	int64_t since; /* monotonic */
};

struct pr_metrics_guard {
	struct event_base *base;
	struct evconnlistener *listener;
	struct event *timer;
	/* one batch of accepts may pass the bound before the listener stops */
	struct held held[2 * PR_METRICS_CONNECTIONS];
	unsigned count;
};

static bool
in_use(struct bufferevent *bev)
{
	bufferevent_data_cb readable, writable;
	bufferevent_event_cb event;
	void *arg;

	bufferevent_getcb(bev, &readable, &writable, &event, &arg);
	return readable || writable || event;
}

/* The server sees the end of the line, and frees all that belongs to it. */
static void
hang_up(struct bufferevent *bev)
{
	evutil_socket_t fd = bufferevent_getfd(bev);

	if (fd >= 0)
		shutdown(fd, SHUT_RDWR);
}

static void
look_later(struct pr_metrics_guard *g)
{
	struct timeval later = {.tv_usec = LOOK_NS / 1000};

	if (!event_pending(g->timer, EV_TIMEOUT, NULL))
		event_add(g->timer, &later);
}

static void
look(evutil_socket_t fd, short what, void *arg)
{
	struct pr_metrics_guard *g = arg;
	int64_t now = pr_now_mono();

	(void)fd;
	(void)what;
	for (unsigned i = g->count; i-- > 0;) {
		struct held *h = &g->held[i];

		if (!in_use(h->bev)) {
			bufferevent_decref(h->bev);
			*h = g->held[--g->count];
		} else if (now - h->since > PR_METRICS_PATIENCE_NS) {
			hang_up(h->bev);
		}
	}
	if (g->count < PR_METRICS_CONNECTIONS)
		evconnlistener_enable(g->listener);
	if (g->count)
		look_later(g);
}

static struct bufferevent *
on_connection(struct event_base *base, void *arg)
{
	struct pr_metrics_guard *g = arg;
	struct bufferevent *bev = bufferevent_socket_new(base, -1, 0);

	if (!bev || g->count == 2 * PR_METRICS_CONNECTIONS)
		return bev;
	bufferevent_incref(bev);
	g->held[g->count++] = (struct held){bev, pr_now_mono()};
	if (g->count >= PR_METRICS_CONNECTIONS)
		evconnlistener_disable(g->listener);
	look_later(g); /* as yet it has no callbacks */
	return bev;
}

struct pr_metrics_guard *
pr_metrics_guard_create(struct event_base *base, struct evhttp *http,
	struct evconnlistener *listener, struct pr_error *err)
{
	struct pr_metrics_guard *g = calloc(1, sizeof *g);

	if (g) {
		g->base = base;
		g->listener = listener;
		g->timer = evtimer_new(base, look, g);
	}
	if (!g || !g->timer) {
		free(g);
		pr_error_set(err, "no memory for connections");
		return NULL;
	}
	evhttp_set_bevcb(http, on_connection, g);
	return g;
}

void
pr_metrics_guard_destroy(struct pr_metrics_guard **guard)
{
	struct pr_metrics_guard *g = *guard;

	*guard = NULL;
	if (!g)
		return;
	for (unsigned i = 0; i < g->count; i++)
		bufferevent_decref(g->held[i].bev);
	event_free(g->timer);
	free(g);
}
