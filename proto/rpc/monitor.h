/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_RPC_MONITOR_H
#define PR_RPC_MONITOR_H

#include <stdbool.h>

#include "proto/base/error.h"
#include "proto/rpc/rpc.h"

/* A client socket's connection as ZeroMQ tells it, over a socket of its own. */
void *pr_monitor_open(void *ctx, void *socket, struct pr_error *err);
void pr_monitor_close(void *socket, void **monitor);
/* Takes one event without blocking; false: none. *news: it changed the state. */
bool pr_monitor_read(void *monitor, bool *news, enum pr_rpc_state *state);

#endif
