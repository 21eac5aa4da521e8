/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_RPC_SOCKET_H
#define PR_RPC_SOCKET_H

#include <stdbool.h>

#include "proto/base/error.h"
#include "proto/rpc/rpc.h"

/* Inside proto/rpc: ZeroMQ sockets as we want them. */

/* The path behind ipc://, or NULL. */
const char *pr_rpc_ipc_path(const char *endpoint);
/* Removes a socket that nobody listens on; -1 when somebody does, or when it is no socket. */
int pr_rpc_clear_stale(const char *endpoint, struct pr_error *err);

/*
 * A socket with our limits and, where keys are given, CURVE; neither bound nor connected. ctx is
 * void * as ZeroMQ has it. NULL and err.
 */
void *pr_rpc_socket(void *ctx, bool server, const char *endpoint,
	const struct pr_rpc_keys *keys, struct pr_error *err);
bool pr_rpc_has_keys(const struct pr_rpc_keys *keys);

/* Hands buf (from malloc) over to ZeroMQ and sends it without blocking; -1 and errno. */
int pr_rpc_send_buffer(void *socket, uint8_t *buf, size_t len);

#endif
