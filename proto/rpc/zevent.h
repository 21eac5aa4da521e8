/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_RPC_ZEVENT_H
#define PR_RPC_ZEVENT_H

#include <stdbool.h>

#include "proto/base/error.h"

struct event_base;

/*
 * A ZeroMQ socket in libevent; nothing else touches ZMQ_FD. That descriptor is edge-triggered and
 * tells of changes only: receive is called (one message each, without blocking) while the socket
 * has any, in batches between which the loop serves its other events.
 */
struct pr_zevent;

struct pr_zevent_calls {
	bool (*receive)(void *arg); /* false: there was none after all */
	void (*writable)(void *arg); /* once after each pr_zevent_want_write; may be NULL */
	void *arg;
};

struct pr_zevent *pr_zevent_create(struct event_base *base, void *socket,
	const struct pr_zevent_calls *calls, struct pr_error *err);
void pr_zevent_destroy(struct pr_zevent **zevent); /* not the socket */
/* After each send: sending moves the state too, and the edge may be gone. */
void pr_zevent_check(struct pr_zevent *zevent);
void pr_zevent_want_write(struct pr_zevent *zevent);

#endif
