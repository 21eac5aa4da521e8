/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/rpc/zevent.h"

#include <event2/event.h>
#include <stdlib.h>
#include <zmq.h>

#include "proto/base/clock.h"

/* What is at hand is taken in turns with the loop's other events, such as an interrupt. */
#define ZEVENT_BATCH 32
#define ZEVENT_NS (10 * PR_NS_PER_MS)

struct pr_zevent {
	void *socket;
	struct pr_zevent_calls calls;
	struct event *fd_event;
	bool want_write;
	struct event *
		again; /* a timer of 0: event_active would starve the loop's other events */
};

static int
socket_events(void *socket)
{
	int events = 0;
	size_t len = sizeof(events);

	return zmq_getsockopt(socket, ZMQ_EVENTS, &events, &len) < 0 ? 0 : events;
}

static void
run_again(struct pr_zevent *z)
{
	const struct timeval at_once = {0, 0};

	event_add(z->again, &at_once);
}

static void
on_wake(evutil_socket_t fd, short what, void *arg)
{
	struct pr_zevent *z = arg;
	int events = socket_events(z->socket);
	int64_t until = pr_now_mono() + ZEVENT_NS;

	(void)fd;
	(void)what;
	for (int i = 0; i < ZEVENT_BATCH && events & ZMQ_POLLIN; i++) {
		if (!z->calls.receive(z->calls.arg) || pr_now_mono() >= until)
			break;
		events = socket_events(z->socket);
	}
	if (events & ZMQ_POLLOUT && z->want_write) {
		z->want_write = false;
		z->calls.writable(z->calls.arg);
	}
	pr_zevent_check(z);
}

void
pr_zevent_check(struct pr_zevent *z)
{
	int events = socket_events(z->socket);

	if (events & ZMQ_POLLIN || (events & ZMQ_POLLOUT && z->want_write))
		run_again(z);
}

void
pr_zevent_want_write(struct pr_zevent *z)
{
	z->want_write = true;
	pr_zevent_check(z);
}

struct pr_zevent *
pr_zevent_create(struct event_base *base, void *socket, const struct pr_zevent_calls *calls,
	struct pr_error *err)
{
	struct pr_zevent *z = calloc(1, sizeof(*z));
	int fd = -1;
	size_t len = sizeof(fd);

	if (!z) {
		pr_error_set(err, "no memory");
		return NULL;
	}
	z->socket = socket;
	z->calls = *calls;
	if (zmq_getsockopt(socket, ZMQ_FD, &fd, &len) == 0) {
		z->fd_event = event_new(base, fd, EV_READ | EV_PERSIST, on_wake, z);
		z->again = evtimer_new(base, on_wake, z);
	}
	if (!z->fd_event || !z->again || event_add(z->fd_event, NULL) < 0) {
		pr_error_set(err, "cannot watch a ZeroMQ socket");
		pr_zevent_destroy(&z);
		return NULL;
	}
	run_again(z); /* the first edge may have passed before we looked */
	return z;
}

void
pr_zevent_destroy(struct pr_zevent **zevent)
{
	struct pr_zevent *z = *zevent;

	if (!z)
		return;
	if (z->fd_event)
		event_free(z->fd_event);
	if (z->again)
		event_free(z->again);
	free(z);
	*zevent = NULL;
}
