/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "proto/rpc/rpc.h"

/*
 * Inside proto/rpc: ZeroMQ sockets with our settings, in libevent, and their connections.
 */

/* ---- sockets ---- */

/* Removes a socket that nobody listens on; -1 when somebody does, or when it is no socket. */
int pr_rpc_clear_stale(const char *endpoint, struct pr_error *err);

/*
 * A socket with our limits and, where keys are given, CURVE; neither bound nor connected. ctx is
 * void * as ZeroMQ has it. NULL and err.
 */
void *pr_rpc_socket(void *ctx, bool server, const char *endpoint, const char *keys,
	struct pr_error *err);

/* Binds a server's socket; which connections it accepts: connections.h. Its descriptor, or -1. */
int pr_rpc_bind(
	void *ctx, void *socket, const char *endpoint, bool own, struct pr_error *err);

/* Sets an option that is a number. 0 or -1. */
int pr_socket_set(void *socket, int option, int value);
/* 0: also when it cannot be had. */
int pr_socket_get(void *socket, int option);
/* Drops the remaining frames of the last message. */
void pr_socket_drop_rest(void *socket);
/* Hands buf (from malloc) over to ZeroMQ and sends it without blocking; -1 and errno. */
int pr_rpc_send_buffer(void *socket, uint8_t *buf, size_t len);

/* ---- in libevent ---- */

struct event_base;

/*
 * A ZeroMQ socket in libevent; nothing else touches ZMQ_FD. That descriptor is
 * edge-triggered, so it reports changes only. receive is called while the socket has
 * messages; each call takes one, without blocking. Between batches the loop serves its
 * other events.
 */

struct pr_zevent_calls {
	bool (*receive)(void *arg); /* false: there was none after all */
	void (*writable)(void *arg); /* once after each pr_zevent_want_write; may be NULL */
	void *arg;
};

struct pr_zevent *pr_zevent_create(struct event_base *base, void *socket,
	const struct pr_zevent_calls *calls, struct pr_error *err);
void pr_zevent_destroy(struct pr_zevent **zevent); /* not the socket */
/* Call after each send: sending also changes the state, and may consume the edge. */
void pr_zevent_check(struct pr_zevent *zevent);
void pr_zevent_want_write(struct pr_zevent *zevent);

/* ---- connections of a client ---- */

/*
 * The state of a client socket's connection, from ZeroMQ's monitor socket. CURVE does not
 * report why a client was refused: that is concluded here from how handshakes fail.
 */
struct pr_monitor {
	void *socket; /* to wait for */
	struct pr_error refusal; /* why it was refused last; "" before */
	/* socket.c's */
	void *monitored;
	unsigned broken; /* handshakes in a row that broke off */
	const char *endpoint, *dir; /* kept by the caller; dir NULL: no keys */
};

/* keys as given to the socket, for the texts; they stay the caller's. */
struct pr_monitor *pr_monitor_open(void *ctx, void *socket, const char *endpoint,
	const char *keys, struct pr_error *err);
void pr_monitor_close(struct pr_monitor **monitor); /* before its socket */
/* Takes one event without blocking; false: none. *news: it changed the state. */
bool pr_monitor_read(struct pr_monitor *monitor, bool *news, enum pr_rpc_state *state);
