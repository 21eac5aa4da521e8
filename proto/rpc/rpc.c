/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/rpc/rpc_internal.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zmq.h>

#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/rpc/socket.h"

#define SOCKET_UMASK 0117 /* owner and group may ask */

struct pr_enrolled *
pr_rpc_enrolled(struct pr_rpc *rpc)
{
	return rpc->zap ? pr_zap_enrolled(rpc->zap) : NULL;
}

/* ---- receiving ---- */

static bool
peer_from_id(struct pr_rpc_peer *peer, zmq_msg_t *id)
{
	memset(peer, 0, sizeof(*peer));
	peer->len = zmq_msg_size(id);
	if (peer->len == 0 || peer->len > sizeof(peer->id))
		return false;
	memcpy(peer->id, zmq_msg_data(id), peer->len);
	return true;
}

static void
refuse(struct pr_rpc *rpc, const struct pr_rpc_peer *peer, const Packrack__Envelope *env,
	const char *why)
{
	char key[PR_KEY_TEXT];
	int64_t now = pr_now_mono();

	rpc->not_allowed++;
	if (!rpc->said_not_allowed || strcmp(rpc->said_user, peer->user) != 0 ||
		now - rpc->said_not_allowed > 60 * PR_NS_PER_S) {
		rpc->said_not_allowed = now;
		snprintf(rpc->said_user, sizeof(rpc->said_user), "%s", peer->user);
		pr_log_warning("%s: refused %s's %s: %s", rpc->endpoint,
			peer->user[0] ? peer->user : pr_key_text(peer->key, key),
			pr_message_name(env), why);
	}
	pr_rpc_fail(rpc, peer, env->id, why);
}

static void
handle(struct pr_rpc *rpc, const struct pr_rpc_peer *peer, zmq_msg_t *msg)
{
	Packrack__Envelope *env;
	struct pr_error why;

	if (zmq_msg_size(msg) == 0) /* a probe */
		return;
	env = pr_message_unpack(zmq_msg_data(msg), zmq_msg_size(msg), NULL);
	if (!env) {
		rpc->bad++;
		return;
	}
	if (peer && !pr_admit_message(pr_rpc_enrolled(rpc), peer, env->body_case, &why))
		refuse(rpc, peer, env, why.text);
	else
		rpc->call(rpc->arg, peer, env);
	pr_message_free(&env);
}

static void
drop_rest(void *socket)
{
	zmq_msg_t rest;
	bool more = true;

	while (more) {
		zmq_msg_init(&rest);
		more = zmq_msg_recv(&rest, socket, ZMQ_DONTWAIT) >= 0 &&
		       zmq_msg_more(&rest);
		zmq_msg_close(&rest);
	}
}

/* Frames: the peer's id (servers only), then one envelope; anything else is bad. */
static bool
on_message(void *arg)
{
	struct pr_rpc *rpc = arg;
	struct pr_rpc_peer peer;
	zmq_msg_t msg;
	bool good = true;

	zmq_msg_init(&msg);
	if (zmq_msg_recv(&msg, rpc->socket, ZMQ_DONTWAIT) < 0)
		return false;
	if (rpc->server) {
		good = peer_from_id(&peer, &msg);
		if (zmq_msg_recv(&msg, rpc->socket, ZMQ_DONTWAIT) < 0)
			return false;
		pr_admit_fill(pr_rpc_enrolled(rpc),
			rpc->zap ? zmq_msg_gets(&msg, "User-Id") : NULL, &peer);
	}
	if (zmq_msg_more(&msg)) {
		drop_rest(rpc->socket);
		good = false;
	}
	if (good)
		handle(rpc, rpc->server ? &peer : NULL, &msg);
	else
		rpc->bad++;
	zmq_msg_close(&msg);
	return true;
}

/* ---- coming and going ---- */

static bool
on_monitor(void *arg)
{
	struct pr_rpc *rpc = arg;
	enum pr_rpc_state state;
	bool news;

	if (!pr_monitor_read(rpc->monitor, &news, &state))
		return false;
	if (news)
		rpc->connected = state == PR_RPC_CONNECTED;
	if (news && rpc->watch)
		rpc->watch(rpc->watch_arg, state);
	return true;
}

void
pr_rpc_watch(
	struct pr_rpc *rpc, void (*call)(void *arg, enum pr_rpc_state state), void *arg)
{
	rpc->watch = call;
	rpc->watch_arg = arg;
}

/*
 * Batches of 256 KiB come and go, in several copies and threads. By default malloc gives such memory
 * back to the kernel each time, and clearing it anew cost more than all the rest of a merge.
 */
static void
keep_memory(void)
{
	mallopt(M_MMAP_THRESHOLD, 2 * PR_RPC_MESSAGE_MAX);
	mallopt(M_TRIM_THRESHOLD, 4 * PR_RPC_MESSAGE_MAX);
}

static struct pr_rpc *
rpc_create(bool server, const char *endpoint, pr_rpc_call call, void *arg,
	struct pr_error *err)
{
	struct pr_rpc *rpc = calloc(1, sizeof(*rpc));

	keep_memory();
	if (rpc) {
		rpc->server = server;
		rpc->call = call;
		rpc->arg = arg;
		rpc->endpoint = strdup(endpoint);
		rpc->ctx = zmq_ctx_new();
	}
	if (rpc && rpc->endpoint && rpc->ctx)
		return rpc;
	pr_error_set(err, "no memory for a connection");
	pr_rpc_destroy(&rpc);
	return NULL;
}

static int
rpc_start(struct pr_rpc *rpc, struct pr_loop *loop, struct pr_error *err)
{
	const struct pr_zevent_calls calls = {
		.receive = on_message, .writable = pr_rpc_flush, .arg = rpc};

	rpc->zevent = pr_zevent_create(pr_loop_base(loop), rpc->socket, &calls, err);
	return rpc->zevent ? 0 : -1;
}

static int
bind_endpoint(struct pr_rpc *rpc, struct pr_error *err)
{
	mode_t mask;
	int rc;

	if (pr_rpc_clear_stale(rpc->endpoint, err) < 0)
		return -1;
	mask = umask(SOCKET_UMASK); /* the socket file must never be open to all */
	rc = zmq_bind(rpc->socket, rpc->endpoint);
	umask(mask);
	if (rc < 0)
		return pr_error_set(err, "cannot listen on %s: %s", rpc->endpoint,
			zmq_strerror(zmq_errno()));
	return 0;
}

struct pr_rpc *
pr_rpc_listen(struct pr_loop *loop, const char *endpoint, const struct pr_rpc_keys *keys,
	pr_rpc_call call, void *arg, struct pr_error *err)
{
	struct pr_rpc *rpc = rpc_create(true, endpoint, call, arg, err);

	if (!rpc)
		return NULL;
	rpc->socket = pr_rpc_socket(rpc->ctx, true, endpoint, keys, err);
	if (!rpc->socket)
		goto fail;
	if (pr_rpc_has_keys(keys)) {
		rpc->zap = pr_zap_create(pr_loop_base(loop), rpc->ctx, keys->dir, err);
		if (!rpc->zap)
			goto fail;
	}
	if (bind_endpoint(rpc, err) == 0 && rpc_start(rpc, loop, err) == 0)
		return rpc;
fail:
	pr_rpc_destroy(&rpc);
	return NULL;
}

struct pr_rpc *
pr_rpc_connect(struct pr_loop *loop, const char *endpoint, const struct pr_rpc_keys *keys,
	pr_rpc_call call, void *arg, struct pr_error *err)
{
	struct pr_rpc *rpc = rpc_create(false, endpoint, call, arg, err);

	if (!rpc)
		return NULL;
	rpc->socket = pr_rpc_socket(rpc->ctx, false, endpoint, keys, err);
	if (rpc->socket)
		rpc->monitor =
			pr_monitor_open(rpc->ctx, rpc->socket, rpc->endpoint, keys, err);
	if (!rpc->monitor)
		goto fail;
	rpc->monitor_zevent =
		pr_zevent_create(pr_loop_base(loop), pr_monitor_socket(rpc->monitor),
			&(struct pr_zevent_calls){.receive = on_monitor, .arg = rpc}, err);
	if (!rpc->monitor_zevent)
		goto fail;
	if (zmq_connect(rpc->socket, endpoint) < 0)
		pr_error_set(err, "cannot connect to %s: %s", endpoint,
			zmq_strerror(zmq_errno()));
	else if (rpc_start(rpc, loop, err) == 0)
		return rpc;
fail:
	pr_rpc_destroy(&rpc);
	return NULL;
}

/* The ZAP handler last: ZeroMQ may ask it until its server is closed. */
void
pr_rpc_destroy(struct pr_rpc **rpc)
{
	struct pr_rpc *r = *rpc;

	if (!r)
		return;
	pr_zevent_destroy(&r->monitor_zevent);
	pr_zevent_destroy(&r->zevent);
	if (r->socket) {
		pr_monitor_close(&r->monitor);
		zmq_close(r->socket);
	}
	pr_zap_destroy(&r->zap);
	if (r->ctx)
		zmq_ctx_term(r->ctx);
	for (size_t i = 0; i < r->pending_count; i++)
		free(r->pending[i].buf);
	free(r->endpoint);
	free(r);
	*rpc = NULL;
}

bool
pr_rpc_peer_equal(const struct pr_rpc_peer *a, const struct pr_rpc_peer *b)
{
	return a->len == b->len && !memcmp(a->id, b->id, a->len);
}

uint64_t
pr_rpc_bad_messages(const struct pr_rpc *rpc)
{
	return rpc->bad;
}

uint64_t
pr_rpc_not_allowed(const struct pr_rpc *rpc)
{
	return rpc->not_allowed;
}

const char *
pr_rpc_refusal(const struct pr_rpc *rpc)
{
	return rpc->monitor ? pr_monitor_refusal(rpc->monitor) : "";
}
