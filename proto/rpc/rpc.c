/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/rpc/rpc.h"

#include <errno.h>
#include <event2/event.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zmq.h>

#include "proto/base/log.h"
#include "proto/base/text.h"
#include "proto/rpc/admission.h"
#include "proto/rpc/connections.h"
#include "proto/rpc/socket.h"

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
	bool (*screen)(void *arg, const struct pr_rpc_peer *peer,
		Packrack__Envelope__BodyCase body, struct pr_error *why);
	void *arg;
	void (*watch)(void *arg, enum pr_rpc_state state);
	void *watch_arg;
	uint64_t bad;
	struct pr_error why_bad; /* the last of them */
	int64_t said_not_allowed; /* monotonic; for one user a line a minute at most */
	char said_user[PR_RPC_PEER_MAX];
	void *ctx, *socket;
	int listener; /* a server's descriptor; -1: none */
	zmq_msg_t *received; /* which the callback has; else NULL */
	struct pr_monitor *monitor;
	struct pr_zevent *zevent, *monitor_zevent;
	struct pr_zap *zap;
	struct pr_enrolled *enrolled; /* whom a server with keys admits; NULL without */
	struct pending pending[PENDING_MAX];
	size_t pending_count;
};

/* ---- sending ---- */

/* Sends what a client queued before its connection was made. */
static void
flush_pending(void *arg)
{
	struct pr_rpc *rpc = arg;
	size_t done = 0;

	rpc->connected_once = true;
	while (done < rpc->pending_count) {
		struct pending *p = &rpc->pending[done++];
		if (pr_rpc_send_buffer(rpc->socket, p->buf, p->len) < 0)
			break; /* the connection is lost, with these messages */
	}
	for (; done < rpc->pending_count; done++)
		free(rpc->pending[done].buf);
	rpc->pending_count = 0;
	pr_zevent_check(rpc->zevent);
}

static int
send_as_client(struct pr_rpc *rpc, uint8_t *buf, size_t len, struct pr_error *err)
{
	if (!rpc->connected_once &&
		(rpc->pending_count ||
			!(pr_socket_get(rpc->socket, ZMQ_EVENTS) & ZMQ_POLLOUT))) {
		if (rpc->pending_count == PENDING_MAX) {
			free(buf);
			return pr_error_set(err, "no connection to %s yet", rpc->endpoint);
		}
		rpc->pending[rpc->pending_count++] = (struct pending){buf, len};
		pr_zevent_want_write(rpc->zevent);
		return 0;
	}
	if (pr_rpc_send_buffer(rpc->socket, buf, len) == 0) {
		rpc->connected_once = true;
		return 0;
	}
	/* ZeroMQ does not tell one from the other */
	if (errno == EAGAIN && !rpc->connected)
		errno = ENOTCONN;
	return pr_error_set(err, "%s %s", rpc->endpoint,
		errno == EAGAIN ? "takes nothing more" : "is not connected");
}

static int
send_as_server(struct pr_rpc *rpc, const struct pr_rpc_peer *peer, uint8_t *buf, size_t len,
	struct pr_error *err)
{
	if (zmq_send(rpc->socket, peer->id, peer->len, ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0) {
		int saved = errno;
		free(buf);
		errno = saved;
		return pr_error_set(err, errno == EHOSTUNREACH
						 ? "the peer is gone"
						 : "the peer takes nothing more");
	}
	return pr_rpc_send_buffer(rpc->socket, buf, len) < 0
		       ? pr_error_set(err, "cannot send: %s", zmq_strerror(errno))
		       : 0;
}

void
pr_rpc_refuse(struct pr_rpc *rpc, const struct pr_rpc_peer *peer, uint64_t id,
	const char *text, bool bad_request)
{
	Packrack__Failure failure = PACKRACK__FAILURE__INIT;
	Packrack__Envelope env =
		pr_message_of(id, PACKRACK__ENVELOPE__BODY_FAILURE, &failure);
	uint8_t *buf;
	size_t len;

	failure.text = (char *)text;
	failure.bad_request = bad_request;
	if (pr_message_pack(&env, &buf, &len, NULL) == 0)
		send_as_server(rpc, peer, buf, len, NULL);
	pr_zevent_check(rpc->zevent);
}

bool
pr_rpc_admits(struct pr_rpc *rpc, const struct pr_rpc_peer *peer)
{
	return !rpc->enrolled || pr_enrolled_find(rpc->enrolled, peer->key);
}

int
pr_rpc_send(struct pr_rpc *rpc, const struct pr_rpc_peer *peer,
	const Packrack__Envelope *env, struct pr_error *err)
{
	uint8_t *buf;
	size_t len;
	int rc;

	if (rpc->server != !!peer)
		rc = pr_error_set(err, "a server sends to a peer, a client to none");
	else
		rc = pr_message_pack(env, &buf, &len, err);
	errno = EINVAL;
	if (rc < 0)
		return -1;
	if (peer && !pr_rpc_admits(rpc, peer)) {
		free(buf);
		pr_rpc_refuse(rpc, peer, env->id, PR_ADMIT_REVOKED, true);
		errno = EHOSTUNREACH;
		return pr_error_set(err, "the key of %s was revoked", peer->user);
	}
	rc = peer ? send_as_server(rpc, peer, buf, len, err)
		  : send_as_client(rpc, buf, len, err);
	int saved = errno;
	pr_zevent_check(rpc->zevent);
	errno = saved;
	return rc;
}

int
pr_rpc_pass_on(void *kept, struct pr_rpc *to, const struct pr_rpc_peer *peer)
{
	zmq_msg_t copy;
	int rc = -1;

	errno = EHOSTUNREACH;
	if (pr_rpc_admits(to, peer))
		rc = zmq_send(to->socket, peer->id, peer->len, ZMQ_SNDMORE | ZMQ_DONTWAIT);
	if (rc < 0)
		return -1;
	zmq_msg_init(&copy);
	zmq_msg_copy(&copy, kept);
	rc = zmq_msg_send(&copy, to->socket, ZMQ_DONTWAIT);
	if (rc < 0)
		zmq_msg_close(&copy);
	pr_zevent_check(to->zevent);
	return rc < 0 ? -1 : 0;
}

bool
pr_rpc_probe(struct pr_rpc *rpc, const struct pr_rpc_peer *peer)
{
	if (!pr_rpc_admits(rpc, peer))
		return false;
	int rc = zmq_send(rpc->socket, peer->id, peer->len, ZMQ_SNDMORE | ZMQ_DONTWAIT);
	if (rc >= 0)
		zmq_send(rpc->socket, "", 0, ZMQ_DONTWAIT);
	else if (errno == EAGAIN) /* connected, only slow */
		rc = 0;
	pr_zevent_check(rpc->zevent);
	return rc >= 0;
}

#define SOCKET_UMASK 0117 /* owner and group may ask */
#define OWN_UMASK 0177

/* ---- receiving ---- */

/* What a peer may not send is refused before it is unpacked: that may take long. */
static void
handle(struct pr_rpc *rpc, const struct pr_rpc_peer *peer, zmq_msg_t *msg)
{
	char key[PR_KEY_TEXT];
	Packrack__Envelope head, *env;
	struct pr_error why;
	int64_t now = pr_now_mono();

	if (zmq_msg_size(msg) == 0) /* a probe */
		return;
	pr_message_peek(zmq_msg_data(msg), zmq_msg_size(msg), &head);
	bool allowed = !peer || !head.body_case ||
		       pr_admit_message(rpc->enrolled, peer, head.body_case, &why);
	if (allowed &&
		(!rpc->screen || rpc->screen(rpc->arg, peer, head.body_case, &why))) {
		env = pr_message_unpack(
			zmq_msg_data(msg), zmq_msg_size(msg), &rpc->why_bad);
		rpc->bad += !env;
		rpc->received = msg;
		if (env)
			rpc->call(rpc->arg, peer, env);
		rpc->received = NULL;
		pr_message_free(&env);
		return;
	}
	if (!allowed &&
		(!rpc->said_not_allowed || strcmp(rpc->said_user, peer->user) != 0 ||
			now - rpc->said_not_allowed > 60 * PR_NS_PER_S)) {
		rpc->said_not_allowed = now;
		PR_PRINT(rpc->said_user, "%s", peer->user);
		pr_log_warning("%s: refused %s's %s: %s", rpc->endpoint,
			peer->user[0] ? peer->user : pr_key_text(peer->key, key),
			pr_message_name(&head), why.text);
	}
	pr_rpc_refuse(rpc, peer, head.id, why.text, !allowed);
}

void *
pr_rpc_keep(struct pr_rpc *rpc, ProtobufCBinaryData *part)
{
	zmq_msg_t *kept = malloc(sizeof(*kept));

	if (!kept)
		return NULL;
	zmq_msg_init(kept);
	zmq_msg_copy(kept, rpc->received);
	/* a short message has its bytes inline: they have moved */
	part->data =
		zmq_msg_data(kept) + (part->data - (uint8_t *)zmq_msg_data(rpc->received));
	return kept;
}

void
pr_rpc_release(void *kept)
{
	zmq_msg_close(kept);
	free(kept);
}

/* Frames: the peer's id (servers only), then one envelope; anything else is bad. */
static bool
on_message(void *arg)
{
	struct pr_rpc *rpc = arg;
	struct pr_rpc_peer peer = {.len = 0};
	zmq_msg_t msg;
	bool good = true;

	zmq_msg_init(&msg);
	if (zmq_msg_recv(&msg, rpc->socket, ZMQ_DONTWAIT) < 0)
		return false;
	if (rpc->server) {
		peer.len = zmq_msg_size(&msg);
		good = peer.len > 0 && peer.len <= sizeof(peer.id);
		if (good)
			memcpy(peer.id, zmq_msg_data(&msg), peer.len);
		if (zmq_msg_recv(&msg, rpc->socket, ZMQ_DONTWAIT) < 0)
			return false;
		pr_admit_fill(rpc->enrolled,
			rpc->zap ? zmq_msg_gets(&msg, "User-Id") : NULL, &peer);
		pr_connections_heard(zmq_msg_get(&msg, ZMQ_SRCFD),
			rpc->enrolled && peer.role ? peer.key : NULL, peer.who);
		if (rpc->enrolled)
			PR_PRINT(peer.who, "%s", peer.user);
	}
	if (zmq_msg_more(&msg)) {
		pr_socket_drop_rest(rpc->socket);
		good = false;
	}
	if (good)
		handle(rpc, rpc->server ? &peer : NULL, &msg);
	else {
		pr_error_set(&rpc->why_bad, "a message in several parts");
		rpc->bad++;
	}
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

void
pr_rpc_screen(struct pr_rpc *rpc,
	bool (*screen)(void *arg, const struct pr_rpc_peer *peer,
		Packrack__Envelope__BodyCase body, struct pr_error *why))
{
	rpc->screen = screen;
}

static struct pr_rpc *
rpc_create(bool server, const char *endpoint, const char *keys, pr_rpc_call call, void *arg,
	struct pr_error *err)
{
	struct pr_rpc *rpc = calloc(1, sizeof(*rpc));

	/*
	 * Batches of 256 KiB come and go, in several copies and threads. By default malloc gives such memory
	 * back to the kernel each time, and clearing it anew cost more than all the rest of a merge.
	 */
	mallopt(M_MMAP_THRESHOLD, 2 * PR_RPC_MESSAGE_MAX);
	mallopt(M_TRIM_THRESHOLD, 4 * PR_RPC_MESSAGE_MAX);
	if (rpc) {
		rpc->server = server;
		rpc->listener = -1;
		rpc->call = call;
		rpc->arg = arg;
		rpc->endpoint = strdup(endpoint);
		rpc->ctx = zmq_ctx_new();
	}
	if (!rpc || !rpc->endpoint || !rpc->ctx)
		pr_error_set(err, "no memory for a connection");
	else if ((rpc->socket = pr_rpc_socket(rpc->ctx, server, endpoint, keys, err)))
		return rpc;
	pr_rpc_destroy(&rpc);
	return NULL;
}

static int
rpc_start(struct pr_rpc *rpc, struct event_base *base, struct pr_error *err)
{
	const struct pr_zevent_calls calls = {
		.receive = on_message, .writable = flush_pending, .arg = rpc};

	rpc->zevent = pr_zevent_create(base, rpc->socket, &calls, err);
	return rpc->zevent ? 0 : -1;
}

static struct pr_rpc *
listen_for(bool own, struct pr_loop *loop, const char *endpoint, const char *keys,
	pr_rpc_call call, void *arg, struct pr_error *err)
{
	struct pr_rpc *rpc = rpc_create(true, endpoint, keys, call, arg, err);
	struct event_base *base = pr_loop_base(loop);

	if (rpc)
		rpc->zap = pr_zap_create(base, rpc->ctx, keys, &rpc->enrolled, err);
	if (!rpc || !rpc->zap || pr_rpc_clear_stale(endpoint, err) < 0)
		goto fail;
	/* the socket file must never be open to all */
	mode_t mask = umask(own ? OWN_UMASK : SOCKET_UMASK);
	rpc->listener = pr_rpc_bind(rpc->ctx, rpc->socket, endpoint, own, err);
	umask(mask);
	if (rpc->listener >= 0 && rpc_start(rpc, base, err) == 0)
		return rpc;
fail:
	pr_rpc_destroy(&rpc);
	return NULL;
}

struct pr_rpc *
pr_rpc_listen(struct pr_loop *loop, const char *endpoint, const char *keys,
	pr_rpc_call call, void *arg, struct pr_error *err)
{
	return listen_for(false, loop, endpoint, keys, call, arg, err);
}

struct pr_rpc *
pr_rpc_listen_own(struct pr_loop *loop, const char *endpoint, pr_rpc_call call, void *arg,
	struct pr_error *err)
{
	return listen_for(true, loop, endpoint, NULL, call, arg, err);
}

static struct pr_rpc *
connect_in(struct event_base *base, const char *endpoint, const char *keys,
	pr_rpc_call call, void *arg, struct pr_error *err)
{
	struct pr_rpc *rpc = rpc_create(false, endpoint, keys, call, arg, err);

	if (rpc)
		rpc->monitor =
			pr_monitor_open(rpc->ctx, rpc->socket, rpc->endpoint, keys, err);
	if (rpc && rpc->monitor)
		rpc->monitor_zevent = pr_zevent_create(base, rpc->monitor->socket,
			&(struct pr_zevent_calls){.receive = on_monitor, .arg = rpc}, err);
	if (!rpc || !rpc->monitor_zevent)
		; /* err says why */
	else if (zmq_connect(rpc->socket, endpoint) < 0)
		pr_error_set(err, "cannot connect to %s: %s", endpoint,
			zmq_strerror(zmq_errno()));
	else if (rpc_start(rpc, base, err) == 0)
		return rpc;
	pr_rpc_destroy(&rpc);
	return NULL;
}

struct pr_rpc *
pr_rpc_connect(struct pr_loop *loop, const char *endpoint, const char *keys,
	pr_rpc_call call, void *arg, struct pr_error *err)
{
	return connect_in(pr_loop_base(loop), endpoint, keys, call, arg, err);
}

/* The ZAP handler last: ZeroMQ may ask it until its server is closed. */
void
pr_rpc_destroy(struct pr_rpc **rpc)
{
	struct pr_rpc *r = PR_TAKE(rpc);

	if (!r)
		return;
	pr_zevent_destroy(&r->monitor_zevent);
	pr_zevent_destroy(&r->zevent);
	if (r->listener >= 0)
		pr_connections_unguard(r->listener);
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

const char *
pr_rpc_refusal(const struct pr_rpc *rpc)
{
	return rpc->monitor ? rpc->monitor->refusal.text : "";
}

/* ---- one question without a loop ---- */

/* In an event base of its own, which leaves the signals of the process alone. */
struct ask {
	struct pr_rpc *rpc;
	struct event_base *base;
	uint64_t id;
	bool late;
	Packrack__Envelope *reply;
};

static void
on_reply(void *arg, PR_UNUSED const struct pr_rpc_peer *peer, const Packrack__Envelope *env)
{
	struct ask *ask = arg;

	if (env->id == ask->id && !ask->reply)
		ask->reply = pr_message_copy(&env->base);
}

static void
on_late(PR_UNUSED evutil_socket_t fd, PR_UNUSED short what, void *late)
{
	*(bool *)late = true;
}

int
pr_rpc_ask(const char *endpoint, const char *keys, const Packrack__Envelope *env,
	int64_t timeout_ns, Packrack__Envelope **reply, struct pr_error *err)
{
	const struct timeval timeout = {
		timeout_ns / PR_NS_PER_S, timeout_ns % PR_NS_PER_S / 1000};
	struct ask ask = {.id = env->id};
	int rc = -1;

	*reply = NULL;
	if (pr_rpc_reachable(endpoint, err) < 0)
		return -1;
	ask.base = event_base_new();
	if (!ask.base || event_base_once(ask.base, -1, EV_TIMEOUT, on_late, &ask.late,
				 &timeout) < 0) {
		pr_error_set(err, "no memory for asking %s", endpoint);
		goto out;
	}
	ask.rpc = connect_in(ask.base, endpoint, keys, on_reply, &ask, err);
	if (!ask.rpc)
		goto out;
	pr_socket_set(ask.rpc->socket, ZMQ_LINGER, 0);
	rc = pr_rpc_send(ask.rpc, NULL, env, err);
	while (rc == 0 && !ask.reply) {
		if (*pr_rpc_refusal(ask.rpc))
			rc = pr_error_set(err, "%s", pr_rpc_refusal(ask.rpc));
		else if (ask.rpc->bad)
			rc = pr_error_set(err, "%s: %s", endpoint, ask.rpc->why_bad.text);
		else if (ask.late)
			rc = pr_error_set(err, "no answer from %s", endpoint);
		else if (event_base_loop(ask.base, EVLOOP_ONCE) != 0)
			rc = pr_error_errno(err, "waiting for %s", endpoint);
	}
out:
	pr_rpc_destroy(&ask.rpc);
	if (ask.base)
		event_base_free(ask.base);
	*reply = ask.reply;
	return rc;
}
