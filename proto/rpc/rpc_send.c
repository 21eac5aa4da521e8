/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <zmq.h>

#include "proto/rpc/rpc_internal.h"
#include "proto/rpc/socket.h"

void
pr_rpc_flush(void *arg)
{
	struct pr_rpc *rpc = arg;
	size_t done = 0;

	rpc->connected_once = true;
	while (done < rpc->pending_count) {
		struct pending *p = &rpc->pending[done++];
		if (pr_rpc_send_buffer(rpc->socket, p->buf, p->len) < 0)
			break; /* the connection went already: they are lost like any on it */
	}
	for (; done < rpc->pending_count; done++)
		free(rpc->pending[done].buf);
	rpc->pending_count = 0;
	pr_zevent_check(rpc->zevent);
}

static int
keep_pending(struct pr_rpc *rpc, uint8_t *buf, size_t len, struct pr_error *err)
{
	if (rpc->pending_count == PENDING_MAX) {
		free(buf);
		return pr_error_set(err, "no connection to %s yet", rpc->endpoint);
	}
	rpc->pending[rpc->pending_count++] = (struct pending){buf, len};
	pr_zevent_want_write(rpc->zevent);
	return 0;
}

static bool
can_send(void *socket)
{
	int events = 0;
	size_t len = sizeof(events);

	return zmq_getsockopt(socket, ZMQ_EVENTS, &events, &len) == 0 &&
	       events & ZMQ_POLLOUT;
}

static int
send_as_client(struct pr_rpc *rpc, uint8_t *buf, size_t len, struct pr_error *err)
{
	if (!rpc->connected_once && (rpc->pending_count || !can_send(rpc->socket)))
		return keep_pending(rpc, buf, len, err);
	if (pr_rpc_send_buffer(rpc->socket, buf, len) == 0) {
		rpc->connected_once = true;
		return 0;
	}
	if (errno == EAGAIN &&
		!rpc->connected) /* ZeroMQ does not tell one from the other */
		errno = ENOTCONN;
	return pr_error_set(err, "%s %s", rpc->endpoint,
		errno == EAGAIN ? "takes nothing more" : "is not connected");
}

static int
send_as_server(struct pr_rpc *rpc, const struct pr_rpc_peer *peer, uint8_t *buf, size_t len,
	struct pr_error *err)
{
	int rc = zmq_send(rpc->socket, peer->id, peer->len, ZMQ_SNDMORE | ZMQ_DONTWAIT);

	if (rc < 0) {
		int saved = errno;
		free(buf);
		errno = saved;
		if (errno == EHOSTUNREACH)
			return pr_error_set(err, "the peer is gone");
		return pr_error_set(err, "the peer takes nothing more");
	}
	return pr_rpc_send_buffer(rpc->socket, buf, len) < 0
		       ? pr_error_set(err, "cannot send: %s", zmq_strerror(errno))
		       : 0;
}

void
pr_rpc_fail(
	struct pr_rpc *rpc, const struct pr_rpc_peer *peer, uint64_t id, const char *text)
{
	Packrack__Failure failure = PACKRACK__FAILURE__INIT;
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;
	uint8_t *buf;
	size_t len;

	failure.text = (char *)(uintptr_t)text;
	failure.bad_request = true;
	env.id = id;
	env.body_case = PACKRACK__ENVELOPE__BODY_FAILURE;
	env.failure = &failure;
	if (pr_message_pack(&env, &buf, &len, NULL) == 0)
		send_as_server(rpc, peer, buf, len, NULL);
	pr_zevent_check(rpc->zevent);
}

bool
pr_rpc_admits(struct pr_rpc *rpc, const struct pr_rpc_peer *peer)
{
	return pr_admit_still(pr_rpc_enrolled(rpc), peer);
}

int
pr_rpc_send(struct pr_rpc *rpc, const struct pr_rpc_peer *peer,
	const Packrack__Envelope *env, struct pr_error *err)
{
	uint8_t *buf;
	size_t len;
	int rc, saved;

	if (rpc->server != !!peer || pr_message_pack(env, &buf, &len, err) < 0) {
		errno = EINVAL;
		return rpc->server != !!peer
			       ? pr_error_set(
					 err, "a server sends to a peer, a client to none")
			       : -1;
	}
	if (peer && !pr_rpc_admits(rpc, peer)) {
		free(buf);
		pr_rpc_fail(rpc, peer, env->id, PR_ADMIT_REVOKED);
		errno = EHOSTUNREACH;
		return pr_error_set(err, "the key of %s was revoked", peer->user);
	}
	rc = peer ? send_as_server(rpc, peer, buf, len, err)
		  : send_as_client(rpc, buf, len, err);
	saved = errno;
	pr_zevent_check(rpc->zevent);
	errno = saved;
	return rc;
}

bool
pr_rpc_probe(struct pr_rpc *rpc, const struct pr_rpc_peer *peer)
{
	int rc = -1;

	if (!pr_rpc_admits(rpc, peer))
		return false;
	rc = zmq_send(rpc->socket, peer->id, peer->len, ZMQ_SNDMORE | ZMQ_DONTWAIT);
	if (rc >= 0)
		zmq_send(rpc->socket, "", 0, ZMQ_DONTWAIT);
	else if (errno == EAGAIN) /* there, and slow */
		rc = 0;
	pr_zevent_check(rpc->zevent);
	return rc >= 0;
}
