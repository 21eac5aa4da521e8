/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/rpc/socket.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "proto/rpc/keys.h"

/*
 * Credit bounds what is under way; the queues are only a second bound: 64 answers' batches of
 * 256 KiB are 16 MiB a peer.
 */
#define QUEUE_MESSAGES 64
#define LINGER_MS 1000
#define RECONNECT_MS 100
#define RECONNECT_MAX_MS 1000
#define HEARTBEAT_MS 5000
#define HEARTBEAT_TIMEOUT_MS 15000

static int
set_int(void *socket, int option, int value)
{
	return zmq_setsockopt(socket, option, &value, sizeof(value));
}

static int
set_limits(void *socket, bool server, bool tcp)
{
	int64_t max = PR_RPC_MESSAGE_MAX;
	int bad = set_int(socket, ZMQ_SNDHWM, QUEUE_MESSAGES) |
		  set_int(socket, ZMQ_RCVHWM, QUEUE_MESSAGES) |
		  set_int(socket, ZMQ_LINGER, LINGER_MS) |
		  zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &max, sizeof(max));

	if (server)
		bad |= set_int(socket, ZMQ_ROUTER_MANDATORY, 1);
	else
		bad |= set_int(socket, ZMQ_IMMEDIATE, 1) |
		       set_int(socket, ZMQ_RECONNECT_IVL, RECONNECT_MS) |
		       set_int(socket, ZMQ_RECONNECT_IVL_MAX, RECONNECT_MAX_MS);
	if (tcp) /* a dead machine sends no FIN */
		bad |= set_int(socket, ZMQ_HEARTBEAT_IVL, HEARTBEAT_MS) |
		       set_int(socket, ZMQ_HEARTBEAT_TIMEOUT, HEARTBEAT_TIMEOUT_MS) |
		       set_int(socket, ZMQ_IPV6, 1);
	return bad ? -1 : 0;
}

bool
pr_rpc_has_keys(const struct pr_rpc_keys *keys)
{
	return keys && keys->dir;
}

static int
set_server_keys(void *socket, const struct pr_key_pair *pair)
{
	return set_int(socket, ZMQ_CURVE_SERVER, 1) |
	       zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, pair->secret, PR_KEY_TEXT) |
	       zmq_setsockopt(socket, ZMQ_ZAP_DOMAIN, "packrack", 8);
}

static int
set_client_keys(void *socket, const struct pr_key_pair *pair, const char *server)
{
	return zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, server, PR_KEY_TEXT) |
	       zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, pair->public, PR_KEY_TEXT) |
	       zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, pair->secret, PR_KEY_TEXT);
}

static int
set_keys(void *socket, bool server, const char *endpoint, const char *dir,
	struct pr_error *err)
{
	char other[PR_KEY_TEXT] = "";
	struct pr_key_pair pair;
	int bad;

	if (pr_keys_load_pair(dir, &pair, err) < 0)
		return -1;
	if (!server && pr_keys_load_server(dir, endpoint, other, err) < 0) {
		pr_keys_wipe(&pair);
		return -1;
	}
	bad = server ? set_server_keys(socket, &pair)
		     : set_client_keys(socket, &pair, other);
	pr_keys_wipe(&pair);
	return bad ? pr_error_set(err, "keys of %s: ZeroMQ refuses them", dir) : 0;
}

void *
pr_rpc_socket(void *ctx, bool server, const char *endpoint, const struct pr_rpc_keys *keys,
	struct pr_error *err)
{
	void *socket;

	if (pr_rpc_check_endpoint(endpoint, err) < 0)
		return NULL;
	socket = zmq_socket(ctx, server ? ZMQ_ROUTER : ZMQ_DEALER);
	if (!socket || set_limits(socket, server, !pr_rpc_ipc_path(endpoint)) < 0)
		pr_error_set(err, "cannot make a ZeroMQ socket: %s", zmq_strerror(errno));
	else if (!pr_rpc_has_keys(keys) ||
		 set_keys(socket, server, endpoint, keys->dir, err) == 0)
		return socket;
	if (socket)
		zmq_close(socket);
	return NULL;
}

static void
free_buffer(void *data, void *hint)
{
	(void)hint;
	free(data);
}

int
pr_rpc_send_buffer(void *socket, uint8_t *buf, size_t len)
{
	zmq_msg_t msg;
	int saved;

	if (zmq_msg_init_data(&msg, buf, len, free_buffer, NULL) < 0) {
		free(buf);
		return -1;
	}
	if (zmq_msg_send(&msg, socket, ZMQ_DONTWAIT) >= 0)
		return 0;
	saved = errno;
	zmq_msg_close(&msg);
	errno = saved;
	return -1;
}
