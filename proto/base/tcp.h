/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <event2/listener.h>
#include <stdbool.h>

#include "proto/base/error.h"

/*
 * An address to listen on: ADDRESS:PORT, [ADDRESS6]:PORT, or PORT alone and localhost:PORT,
 * which are on 127.0.0.1. Addresses are numbers; other names are not resolved. Port 0: the
 * kernel chooses one.
 */

/* -1: text is not such an address. *loopback: only this machine can reach it. */
int pr_tcp_check(const char *text, bool *loopback, struct pr_error *err);
/*
 * A listening socket of SOCK_STREAM, or one of SOCK_DGRAM; close-on-exec, blocking; -1. any: PORT alone is that of all
 * addresses, IPv4 and IPv6; an address in brackets is of IPv6 only.
 */
int pr_listen(const char *text, int type, bool any, struct pr_error *err);
/* One of SOCK_STREAM in the loop: call gets each connection. NULL: err, and errno. */
struct evconnlistener *pr_tcp_serve(struct event_base *base, const char *text,
	evconnlistener_cb call, void *arg, struct pr_error *err);
/* Where a socket listens or its peer is, as ADDRESS:PORT; "?" when it cannot be told. Returns buf. */
#define PR_TCP_TEXT 64
char *pr_tcp_name(int fd, bool peer, char buf[PR_TCP_TEXT]);
