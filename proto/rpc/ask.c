/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <zmq.h>

#include "proto/base/clock.h"
#include "proto/rpc/monitor.h"
#include "proto/rpc/socket.h"

/* One question without a loop: ZeroMQ's own poll waits. */
struct ask {
	const char *endpoint;
	void *ctx, *socket;
	struct pr_monitor *monitor;
	int64_t deadline;
	uint64_t id;
	bool refused;
};

static bool
read_monitor(struct ask *ask)
{
	enum pr_rpc_state state;
	bool news;

	while (pr_monitor_read(ask->monitor, &news, &state))
		if (news && state == PR_RPC_REFUSED)
			ask->refused = true;
	return !ask->refused;
}

/* Waits for the socket; -1 and err when refused or out of time. */
static int
wait_for(struct ask *ask, short events, struct pr_error *err)
{
	zmq_pollitem_t items[] = {
		{.socket = ask->socket, .events = events},
		{.socket = pr_monitor_socket(ask->monitor), .events = ZMQ_POLLIN},
	};

	for (;;) {
		int64_t left = ask->deadline - pr_now_mono();
		if (left <= 0)
			return pr_error_set(err, "no answer from %s", ask->endpoint);
		if (zmq_poll(items, 2, (long)(left / PR_NS_PER_MS) + 1) < 0 &&
			errno != EINTR)
			return pr_error_errno(err, "waiting for %s", ask->endpoint);
		if (items[0].revents & events)
			return 0;
		if (!read_monitor(ask))
			return pr_error_set(err, "%s", pr_monitor_refusal(ask->monitor));
	}
}

/* 1: *reply is the answer; 0: something else came; -1. */
static int
receive(struct ask *ask, Packrack__Envelope **reply, struct pr_error *err)
{
	zmq_msg_t msg;
	int rc = 0;

	zmq_msg_init(&msg);
	if (zmq_msg_recv(&msg, ask->socket, ZMQ_DONTWAIT) < 0)
		return errno == EAGAIN ? 0 : pr_error_errno(err, "%s", ask->endpoint);
	if (zmq_msg_size(&msg) > 0 && !zmq_msg_more(&msg)) {
		*reply = pr_message_unpack(zmq_msg_data(&msg), zmq_msg_size(&msg), err);
		rc = *reply ? 1 : pr_error_prefix(err, "%s", ask->endpoint);
	}
	zmq_msg_close(&msg);
	if (rc == 1 && (*reply)->id != ask->id) {
		pr_message_free(reply);
		rc = 0;
	}
	return rc;
}

static int
converse(struct ask *ask, const Packrack__Envelope *env, Packrack__Envelope **reply,
	struct pr_error *err)
{
	uint8_t *buf;
	size_t len;
	int rc = 0;

	if (zmq_connect(ask->socket, ask->endpoint) < 0)
		return pr_error_errno(err, "cannot connect to %s", ask->endpoint);
	if (wait_for(ask, ZMQ_POLLOUT, err) < 0 ||
		pr_message_pack(env, &buf, &len, err) < 0)
		return -1;
	if (pr_rpc_send_buffer(ask->socket, buf, len) < 0)
		return pr_error_errno(err, "cannot ask %s", ask->endpoint);
	while (rc == 0)
		rc = wait_for(ask, ZMQ_POLLIN, err) < 0 ? -1 : receive(ask, reply, err);
	return rc < 0 ? -1 : 0;
}

int
pr_rpc_ask(const char *endpoint, const struct pr_rpc_keys *keys,
	const Packrack__Envelope *env, int64_t timeout_ns, Packrack__Envelope **reply,
	struct pr_error *err)
{
	struct ask ask = {.endpoint = endpoint,
		.deadline = pr_now_mono() + timeout_ns,
		.id = env->id};
	int rc = -1, linger = 0;

	*reply = NULL;
	if (pr_rpc_reachable(endpoint, err) < 0)
		return -1;
	ask.ctx = zmq_ctx_new();
	if (!ask.ctx)
		return pr_error_errno(err, "cannot ask %s", endpoint);
	ask.socket = pr_rpc_socket(ask.ctx, false, endpoint, keys, err);
	if (ask.socket) {
		zmq_setsockopt(ask.socket, ZMQ_LINGER, &linger, sizeof(linger));
		ask.monitor = pr_monitor_open(ask.ctx, ask.socket, endpoint, keys, err);
		if (ask.monitor)
			rc = converse(&ask, env, reply, err);
		pr_monitor_close(&ask.monitor);
		zmq_close(ask.socket);
	}
	zmq_ctx_term(ask.ctx);
	return rc;
}
