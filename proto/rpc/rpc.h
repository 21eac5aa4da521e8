/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_RPC_RPC_H
#define PR_RPC_RPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/error.h"
#include "proto/base/loop.h"
#include "proto/rpc/packrack.pb-c.h"

/*
 * ZeroMQ in libevent: this file is the only one that touches ZMQ_FD. A server is a ROUTER that
 * answers each peer; a client is a DEALER that connects (and connects again by itself). All calls
 * from the loop's thread. Messages are length-checked before they are unpacked.
 */
#define PR_RPC_MESSAGE_MAX (4 * 1024 * 1024)
#define PR_RPC_ENDPOINT_DISPATCHER "ipc:///run/packrack/dispatcher.sock"
#define PR_RPC_ENDPOINT_MERGER "ipc:///run/packrack/merger.sock"
#define PR_RPC_PEER_MAX 64

struct pr_rpc_peer {
	uint8_t id[PR_RPC_PEER_MAX];
	size_t len;
	char role[16];  /* with keys: node, read or steer; without: steer */
	char user[PR_RPC_PEER_MAX]; /* enrolled name, or "" */
};

/* CURVE. All NULL: plain (only sensible on ipc and loopback; programs say so). Files are checked for mode. */
struct pr_rpc_keys {
	const char *secret_file;   /* own key pair */
	const char *server_file;   /* client: the server's public key */
	const char *enrolled_file; /* server: lines "NAME ROLE PUBLICKEY" */
};

struct pr_rpc;

/* Must not keep env. peer is NULL on a client. Bad messages never get here; they are counted. */
typedef void (*pr_rpc_call)(void *arg, const struct pr_rpc_peer *peer, const Packrack__Envelope *env);

struct pr_rpc *pr_rpc_listen(struct pr_loop *loop, const char *endpoint, const struct pr_rpc_keys *keys,
	pr_rpc_call call, void *arg, struct pr_error *err);
struct pr_rpc *pr_rpc_connect(struct pr_loop *loop, const char *endpoint, const struct pr_rpc_keys *keys,
	pr_rpc_call call, void *arg, struct pr_error *err);
void pr_rpc_destroy(struct pr_rpc **rpc);

/* Sends; never blocks: -1 when the peer is gone or its queue is full. peer NULL on a client. */
int pr_rpc_send(struct pr_rpc *rpc, const struct pr_rpc_peer *peer, const Packrack__Envelope *env,
	struct pr_error *err);

/*
 * For commands without a loop of their own: sends, runs a private loop until call returned true for a
 * reply with env's id or the deadline (ns, monotonic) has passed. -1 on time-out ("no answer from ...").
 */
int pr_rpc_ask(const char *endpoint, const struct pr_rpc_keys *keys, const Packrack__Envelope *env,
	int64_t timeout_ns, Packrack__Envelope **reply, struct pr_error *err);

bool pr_rpc_peer_equal(const struct pr_rpc_peer *a, const struct pr_rpc_peer *b);
uint64_t pr_rpc_bad_messages(const struct pr_rpc *rpc);

/* Refuses ipc paths over 107 bytes and unknown transports with a clear line. */
int pr_rpc_check_endpoint(const char *endpoint, struct pr_error *err);

#endif
