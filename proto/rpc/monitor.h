/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_RPC_MONITOR_H
#define PR_RPC_MONITOR_H

#include <stdbool.h>

#include "proto/base/error.h"
#include "proto/rpc/rpc.h"

/*
 * A client socket's connection as ZeroMQ tells it, over a socket of its own. CURVE is silent towards
 * the user about who was refused, and why: that is concluded here from how handshakes fail.
 */
struct pr_monitor;

/* keys as given to the socket: only whether there are any, and where, for the texts. */
struct pr_monitor *pr_monitor_open(void *ctx, void *socket, const char *endpoint,
	const struct pr_rpc_keys *keys, struct pr_error *err);
void pr_monitor_close(struct pr_monitor **monitor); /* before its socket */
/* The socket to wait for. */
void *pr_monitor_socket(struct pr_monitor *monitor);
/* Takes one event without blocking; false: none. *news: it changed the state. */
bool pr_monitor_read(struct pr_monitor *monitor, bool *news, enum pr_rpc_state *state);
/* Why it was refused last; "" before. */
const char *pr_monitor_refusal(const struct pr_monitor *monitor);

#endif
