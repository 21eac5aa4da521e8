/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/rpc/monitor.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "proto/rpc/keys.h"
#include "proto/rpc/socket.h"

#define MONITOR_ENDPOINT "inproc://monitor" /* one monitored socket a context */
#define MONITOR_EVENTS                                                                     \
	(ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED |                          \
		ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |    \
		ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL)
/*
 * A server that cannot read our greeting, as it was made for another's key, hangs up without a word.
 * So does one that just ends: hence more than one.
 */
#define BROKEN_MAX 3

struct pr_monitor {
	void *socket, *monitored;
	bool keyed;
	unsigned broken; /* handshakes in a row that broke off */
	const char *endpoint, *dir; /* kept by the caller */
	struct pr_error refusal;
};

struct pr_monitor *
pr_monitor_open(void *ctx, void *socket, const char *endpoint,
	const struct pr_rpc_keys *keys, struct pr_error *err)
{
	struct pr_monitor *m = calloc(1, sizeof(*m));
	int linger = 0;

	if (!m) {
		pr_error_set(err, "no memory for a connection");
		return NULL;
	}
	m->monitored = socket;
	m->endpoint = endpoint;
	m->keyed = pr_rpc_has_keys(keys);
	m->dir = m->keyed ? keys->dir : "";
	if (zmq_socket_monitor(socket, MONITOR_ENDPOINT, MONITOR_EVENTS) == 0)
		m->socket = zmq_socket(ctx, ZMQ_PAIR);
	if (m->socket &&
		zmq_setsockopt(m->socket, ZMQ_LINGER, &linger, sizeof(linger)) == 0 &&
		zmq_connect(m->socket, MONITOR_ENDPOINT) == 0)
		return m;
	pr_error_set(err, "cannot watch a connection: %s", zmq_strerror(zmq_errno()));
	pr_monitor_close(&m);
	return NULL;
}

void
pr_monitor_close(struct pr_monitor **monitor)
{
	struct pr_monitor *m = *monitor;

	*monitor = NULL;
	if (!m)
		return;
	zmq_socket_monitor(m->monitored, NULL, 0);
	if (m->socket)
		zmq_close(m->socket);
	free(m);
}

void *
pr_monitor_socket(struct pr_monitor *monitor)
{
	return monitor->socket;
}

const char *
pr_monitor_refusal(const struct pr_monitor *monitor)
{
	return monitor->refusal.text;
}

static void
refused(struct pr_monitor *m, uint16_t event)
{
	if (event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH)
		pr_error_set(&m->refusal,
			"%s does not admit our key: enrol %s/public there "
			"(packrack keys enroll)",
			m->endpoint, m->dir);
	else if (!m->keyed)
		pr_error_set(&m->refusal,
			"%s wants keys, and we have none: give --key DIR or "
			"$PACKRACK_KEY; 'packrack keys generate' makes them",
			m->endpoint);
	else if (event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL)
		pr_error_set(&m->refusal,
			"%s has no keys, and we have (%s): is it the right server? "
			"'--key " PR_KEYS_NONE "' goes without",
			m->endpoint, m->dir);
	else
		pr_error_set(&m->refusal,
			"%s has another key than we know it by, or none: see server-key in "
			"%s/rack",
			m->endpoint, m->dir);
}

static bool
state_of(struct pr_monitor *m, uint16_t event, enum pr_rpc_state *state)
{
	switch (event) {
	case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
		m->broken = 0;
		*state = PR_RPC_CONNECTED;
		return true;
	case ZMQ_EVENT_DISCONNECTED:
		*state = PR_RPC_DISCONNECTED;
		return true;
	case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
		if (++m->broken < BROKEN_MAX)
			return false;
		break;
	case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
	case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
		m->broken = 0;
		break;
	default:
		return false;
	}
	refused(m, event);
	*state = PR_RPC_REFUSED;
	return true;
}

/* First frame: event u16, value u32, in the machine's order; then the address. */
bool
pr_monitor_read(struct pr_monitor *m, bool *news, enum pr_rpc_state *state)
{
	zmq_msg_t msg;
	uint16_t event = 0;
	int more;

	zmq_msg_init(&msg);
	if (zmq_msg_recv(&msg, m->socket, ZMQ_DONTWAIT) < 0)
		return false;
	if (zmq_msg_size(&msg) >= sizeof(event))
		memcpy(&event, zmq_msg_data(&msg), sizeof(event));
	more = zmq_msg_more(&msg);
	zmq_msg_close(&msg);
	while (more) {
		zmq_msg_init(&msg);
		more = zmq_msg_recv(&msg, m->socket, ZMQ_DONTWAIT) >= 0 &&
		       zmq_msg_more(&msg);
		zmq_msg_close(&msg);
	}
	*news = state_of(m, event, state);
	return true;
}
