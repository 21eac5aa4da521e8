/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/rpc/monitor.h"

#include <stdint.h>
#include <string.h>
#include <zmq.h>

#define MONITOR_ENDPOINT "inproc://monitor" /* one monitored socket a context */
#define MONITOR_EVENTS                                                                     \
	(ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED |                          \
		ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |    \
		ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL)

void *
pr_monitor_open(void *ctx, void *socket, struct pr_error *err)
{
	void *monitor = NULL;
	int linger = 0;

	if (zmq_socket_monitor(socket, MONITOR_ENDPOINT, MONITOR_EVENTS) == 0)
		monitor = zmq_socket(ctx, ZMQ_PAIR);
	if (monitor && zmq_setsockopt(monitor, ZMQ_LINGER, &linger, sizeof(linger)) == 0 &&
		zmq_connect(monitor, MONITOR_ENDPOINT) == 0)
		return monitor;
	pr_error_set(err, "cannot watch a connection: %s", zmq_strerror(zmq_errno()));
	if (monitor)
		zmq_close(monitor);
	return NULL;
}

void
pr_monitor_close(void *socket, void **monitor)
{
	if (!*monitor)
		return;
	zmq_socket_monitor(socket, NULL, 0);
	zmq_close(*monitor);
	*monitor = NULL;
}

static bool
state_of(uint16_t event, enum pr_rpc_state *state)
{
	switch (event) {
	case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
		*state = PR_RPC_CONNECTED;
		return true;
	case ZMQ_EVENT_DISCONNECTED:
		*state = PR_RPC_DISCONNECTED;
		return true;
	case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
	case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
		*state = PR_RPC_REFUSED;
		return true;
	default: /* no detail: the connection broke during the handshake; not settled */
		return false;
	}
}

/* First frame: event u16, value u32, in the machine's order; then the address. */
bool
pr_monitor_read(void *monitor, bool *news, enum pr_rpc_state *state)
{
	zmq_msg_t msg;
	uint16_t event = 0;
	int more;

	zmq_msg_init(&msg);
	if (zmq_msg_recv(&msg, monitor, ZMQ_DONTWAIT) < 0)
		return false;
	if (zmq_msg_size(&msg) >= sizeof(event))
		memcpy(&event, zmq_msg_data(&msg), sizeof(event));
	more = zmq_msg_more(&msg);
	zmq_msg_close(&msg);
	while (more) {
		zmq_msg_init(&msg);
		more = zmq_msg_recv(&msg, monitor, ZMQ_DONTWAIT) >= 0 && zmq_msg_more(&msg);
		zmq_msg_close(&msg);
	}
	*news = state_of(event, state);
	return true;
}
