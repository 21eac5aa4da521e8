/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_RPC_RPC_INTERNAL_H
#define PR_RPC_RPC_INTERNAL_H

#include "proto/rpc/admit.h"
#include "proto/rpc/monitor.h"
#include "proto/rpc/rpc.h"
#include "proto/rpc/zap.h"
#include "proto/rpc/zevent.h"

/* rpc.c receives, rpc_send.c sends. */
#define PENDING_MAX 64

struct pending {
	uint8_t *buf;
	size_t len;
};

struct pr_rpc {
	bool server;
	bool connected_once, connected;
	char *endpoint;
	pr_rpc_call call;
	void *arg;
	void (*watch)(void *arg, enum pr_rpc_state state);
	void *watch_arg;
	uint64_t bad, not_allowed;
	int64_t said_not_allowed; /* monotonic; for one user a line a minute at most */
	char said_user[PR_RPC_PEER_MAX];
	void *ctx, *socket;
	struct pr_monitor *monitor;
	struct pr_zevent *zevent, *monitor_zevent;
	struct pr_zap *zap;
	struct pending pending[PENDING_MAX];
	size_t pending_count;
};

/* Whom a server with keys admits; NULL without. */
struct pr_enrolled *pr_rpc_enrolled(struct pr_rpc *rpc);
/* What a client was given to send before its connection stood. */
void pr_rpc_flush(void *rpc);
/* A Failure to a peer, whether it is still admitted or not. */
void pr_rpc_fail(
	struct pr_rpc *rpc, const struct pr_rpc_peer *peer, uint64_t id, const char *text);

#endif
