/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "proto/base/loop.h"
#include "proto/rpc/message.h"

/*
 * Requests and replies over ZeroMQ in libevent. A server is a ROUTER that answers each peer; a
 * client is a DEALER that connects (and connects again by itself). All calls from the loop's thread.
 * Messages are checked (proto/rpc/message.h) before anybody sees them.
 */
#define PR_RPC_ENDPOINT_DISPATCHER "ipc:///run/packrack/dispatcher.sock"
#define PR_RPC_ENDPOINT_MERGER "ipc:///run/packrack/merger.sock"
#define PR_RPC_PEER_MAX 64

struct pr_rpc_peer {
	uint8_t id[PR_RPC_PEER_MAX];
	size_t len;
	unsigned role; /* enum pr_role, when this was filled in; PR_ROLE_ALL without keys */
	char user[PR_RPC_PEER_MAX]; /* enrolled name, or "" */
	uint8_t key[32]; /* with keys: the peer's public one */
	/* whom limits count it for: user with keys, else the machine's user or the address */
	char who[PR_RPC_PEER_MAX];
};

/*
 * Must not keep env, nor destroy the rpc. peer is NULL on a client. Bad messages never get here;
 * they are counted. Nor do messages that the peer's key may not send (proto/rpc/admission.h), by the role
 * that it has at that moment: they are answered with a Failure.
 */
typedef void (*pr_rpc_call)(
	void *arg, const struct pr_rpc_peer *peer, const Packrack__Envelope *env);

/*
 * keys: CURVE, with a key directory (proto/rpc/keys.h): a server takes its own pair and whom it admits from it, a
 * client its own pair and the server's public key. Kept: not to be freed before the connection. NULL: plain (only
 * sensible on ipc and loopback; programs say so).
 */
struct pr_rpc *pr_rpc_listen(struct pr_loop *loop, const char *endpoint, const char *keys,
	pr_rpc_call call, void *arg, struct pr_error *err);
/* A local socket for programs of our own user and of root: other users' connections are refused. */
struct pr_rpc *pr_rpc_listen_own(struct pr_loop *loop, const char *endpoint,
	pr_rpc_call call, void *arg, struct pr_error *err);
struct pr_rpc *pr_rpc_connect(struct pr_loop *loop, const char *endpoint, const char *keys,
	pr_rpc_call call, void *arg, struct pr_error *err);
/*
 * Server: asks before each message is unpacked, which may take 15 ms. false: it is refused, and
 * why has a line for the peer.
 */
void pr_rpc_screen(struct pr_rpc *rpc,
	bool (*screen)(void *arg, const struct pr_rpc_peer *peer,
		Packrack__Envelope__BodyCase body, struct pr_error *why));

/* Closes; blocks for up to 1 s for messages that are not sent yet. */
void pr_rpc_destroy(struct pr_rpc **rpc);

/*
 * A client's connection comes and goes; whatever was asked over one that went will not be answered.
 * REFUSED: the server does not admit our key, or its key is not the one that we know, or only one of us
 * uses keys. The connection is tried again anyway. Not called on servers: see pr_rpc_probe.
 */
enum pr_rpc_state { PR_RPC_CONNECTED, PR_RPC_DISCONNECTED, PR_RPC_REFUSED };
void pr_rpc_watch(
	struct pr_rpc *rpc, void (*call)(void *arg, enum pr_rpc_state state), void *arg);

/* Why we were REFUSED last, in one line with what to do; "" before that. */
const char *pr_rpc_refusal(const struct pr_rpc *rpc);

/*
 * Queues a message; never blocks. 0; -1 with errno EAGAIN: the peer's queue is full, try later; -1 with any
 * other errno: this peer gets nothing more. peer is NULL on a client. Messages of a client before its first
 * connection wait for it (64 at most). After a disconnection sending fails until there is a connection
 * again, so that nobody gets stale replies.
 */
int pr_rpc_send(struct pr_rpc *rpc, const struct pr_rpc_peer *peer,
	const Packrack__Envelope *env, struct pr_error *err);
/* A Failure to a peer, whether it is still admitted or not. */
void pr_rpc_refuse(struct pr_rpc *rpc, const struct pr_rpc_peer *peer, uint64_t id,
	const char *text, bool bad_request);

/*
 * Call in a callback: keeps the message that it was given until pr_rpc_release, and moves
 * `part`, which lies in the message, to where its bytes lie then. NULL: no memory.
 */
void *pr_rpc_keep(struct pr_rpc *rpc, ProtobufCBinaryData *part);
void pr_rpc_release(void *kept);
/*
 * Sends a kept message, unchanged, to a peer of the server `to`; it stays kept. Returns as
 * pr_rpc_send.
 */
int pr_rpc_pass_on(void *kept, struct pr_rpc *to, const struct pr_rpc_peer *peer);

/*
 * Server: true if the peer is still there, and admitted. Sends it an empty message, which
 * all receivers ignore. A peer whose key was revoked is gone for all calls; it is sent a
 * Failure in place of the next message.
 */
bool pr_rpc_probe(struct pr_rpc *rpc, const struct pr_rpc_peer *peer);

/*
 * For commands without a loop of their own: connects, sends, waits for the reply with env's id.
 * timeout in ns. -1 on time-out ("no answer from ...") or when nothing can listen there.
 * *reply is freed with pr_message_free.
 */
int pr_rpc_ask(const char *endpoint, const char *keys, const Packrack__Envelope *env,
	int64_t timeout_ns, Packrack__Envelope **reply, struct pr_error *err);

/* Server: true unless the peer's key was revoked. */
bool pr_rpc_admits(struct pr_rpc *rpc, const struct pr_rpc_peer *peer);

bool pr_rpc_peer_equal(const struct pr_rpc_peer *a, const struct pr_rpc_peer *b);
uint64_t pr_rpc_bad_messages(const struct pr_rpc *rpc);

/* Refuses ipc paths over 107 bytes and unknown transports with a clear line. */
int pr_rpc_check_endpoint(const char *endpoint, struct pr_error *err);
/*
 * -1 at once if endpoint is an ipc socket on which nobody listens. 0 for other transports:
 * only a request can tell.
 */
int pr_rpc_reachable(const char *endpoint, struct pr_error *err);
