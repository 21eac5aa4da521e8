/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/rpc/socket.h"

#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <zmq.h>

#include "proto/rpc/connections.h"
#include "proto/rpc/keys.h"

/* ---- endpoints ---- */

#define PATH_LIMIT (sizeof(((struct sockaddr_un *)0)->sun_path) - 1)

/* The path behind ipc://, or NULL. */
static const char *
ipc_path(const char *endpoint)
{
	return strncmp(endpoint, "ipc://", 6) ? NULL : endpoint + 6;
}

int
pr_rpc_check_endpoint(const char *endpoint, struct pr_error *err)
{
	const char *path = ipc_path(endpoint), *colon;

	if (!strncmp(endpoint, "tcp://", 6)) {
		colon = strrchr(endpoint + 6, ':');
		if (colon && colon != endpoint + 6 && colon[1])
			return 0;
		return pr_error_set(err,
			"endpoint %s: a port is missing, as in tcp://host:7400", endpoint);
	}
	if (!path)
		return pr_error_set(
			err, "endpoint %s: give ipc://PATH or tcp://HOST:PORT", endpoint);
	if (!*path || *path == '@' || *path == '*')
		return pr_error_set(
			err, "endpoint %s: ipc:// needs the path of a socket", endpoint);
	if (strlen(path) > PATH_LIMIT)
		return pr_error_set(err,
			"endpoint %s: its path has %zu bytes, a socket's at most %zu; use "
			"a shorter directory",
			endpoint, strlen(path), PATH_LIMIT);
	return 0;
}

/* 0: somebody listens. -1 and errno otherwise. */
static int
try_connect(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), rc;

	if (fd < 0)
		return -1;
	memcpy(address.sun_path, path, strlen(path));
	rc = connect(fd, &address, sizeof(address));
	if (rc < 0 && errno == EAGAIN) /* a full backlog: somebody listens */
		rc = 0;
	pr_close(fd);
	return rc;
}

int
pr_rpc_reachable(const char *endpoint, struct pr_error *err)
{
	const char *path = ipc_path(endpoint);

	if (pr_rpc_check_endpoint(endpoint, err) < 0)
		return -1;
	if (path && try_connect(path) < 0)
		return pr_error_errno(err, "nobody listens on %s", endpoint);
	return 0;
}

/*
 * ZeroMQ unlinks whatever lies at the path, be it a file of the user's or the socket of another
 * program that lives: so look first.
 */
int
pr_rpc_clear_stale(const char *endpoint, struct pr_error *err)
{
	const char *path = ipc_path(endpoint);
	struct stat st;

	if (!path || lstat(path, &st) < 0)
		return 0;
	if (!S_ISSOCK(st.st_mode))
		return pr_error_set(
			err, "%s exists and is not a socket: give another path", path);
	if (try_connect(path) == 0)
		return pr_error_set(err, "another program listens on %s already", path);
	if (errno != ECONNREFUSED)
		return pr_error_errno(err, "%s", path);
	if (unlink(path) < 0 && errno != ENOENT)
		return pr_error_errno(err, "cannot remove the stale socket %s", path);
	return 0;
}

/* ---- sockets ---- */

#define MONITOR_ENDPOINT "inproc://monitor" /* one monitored socket a context */

/*
 * Credit bounds what is under way: 40 batches of 256 KiB to a client that merges. The queues are only a second bound.
 * They are longer, as ZeroMQ learns in steps of half a queue what a peer has read.
 */
#define QUEUE_MESSAGES 128
#define LINGER_MS 1000 /* what is unsent at the end may take */
#define RECONNECT_MS 100 /* the first pause; each is longer than the one before */
#define RECONNECT_MAX_MS 1000
#define HEARTBEAT_MS 5000
#define HEARTBEAT_TIMEOUT_MS 15000
#define HANDSHAKE_MS 5000 /* for a connection to say who it is, before it is closed */
/* Connections that wait in the kernel: a burst must not keep others out. */
#define BACKLOG 1024

int
pr_socket_set(void *socket, int option, int value)
{
	return zmq_setsockopt(socket, option, &value, sizeof(value));
}

static int
set_limits(void *socket, bool server, bool tcp)
{
	int64_t max = PR_RPC_MESSAGE_MAX;
	int bad = pr_socket_set(socket, ZMQ_SNDHWM, QUEUE_MESSAGES) |
		  pr_socket_set(socket, ZMQ_RCVHWM, QUEUE_MESSAGES) |
		  pr_socket_set(socket, ZMQ_LINGER, LINGER_MS) |
		  zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &max, sizeof(max));

	if (server)
		bad |= zmq_setsockopt(socket, ZMQ_ZAP_DOMAIN, "packrack", 8) |
		       pr_socket_set(socket, ZMQ_ROUTER_MANDATORY, 1) |
		       pr_socket_set(socket, ZMQ_HANDSHAKE_IVL, HANDSHAKE_MS) |
		       pr_socket_set(socket, ZMQ_BACKLOG, BACKLOG);
	else
		bad |= pr_socket_set(socket, ZMQ_IMMEDIATE, 1) |
		       pr_socket_set(socket, ZMQ_RECONNECT_IVL, RECONNECT_MS) |
		       pr_socket_set(socket, ZMQ_RECONNECT_IVL_MAX, RECONNECT_MAX_MS);
	if (tcp) /* a dead machine sends no FIN */
		bad |= pr_socket_set(socket, ZMQ_HEARTBEAT_IVL, HEARTBEAT_MS) |
		       pr_socket_set(socket, ZMQ_HEARTBEAT_TIMEOUT, HEARTBEAT_TIMEOUT_MS) |
		       pr_socket_set(socket, ZMQ_IPV6, 1);
	return bad ? -1 : 0;
}

static int
set_keys(void *socket, bool server, const char *endpoint, const char *dir,
	struct pr_error *err)
{
	char other[PR_KEY_TEXT] = "";
	struct pr_key_pair pair;

	if (pr_keys_load_pair(dir, &pair, err) < 0)
		return -1;
	if (!server && pr_keys_load_server(dir, endpoint, other, err) < 0) {
		pr_keys_wipe(&pair);
		return -1;
	}
	int bad = zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, pair.secret, PR_KEY_TEXT);
	if (server)
		bad |= pr_socket_set(socket, ZMQ_CURVE_SERVER, 1);
	else
		bad |= zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, other, PR_KEY_TEXT) |
		       zmq_setsockopt(
			       socket, ZMQ_CURVE_PUBLICKEY, pair.public, PR_KEY_TEXT);
	pr_keys_wipe(&pair);
	return bad ? pr_error_set(err, "keys of %s: ZeroMQ refuses them", dir) : 0;
}

void *
pr_rpc_socket(void *ctx, bool server, const char *endpoint, const char *keys,
	struct pr_error *err)
{
	if (pr_rpc_check_endpoint(endpoint, err) < 0)
		return NULL;
	void *socket = zmq_socket(ctx, server ? ZMQ_ROUTER : ZMQ_DEALER);
	if (!socket || set_limits(socket, server, !ipc_path(endpoint)) < 0)
		pr_error_set(err, "cannot make a ZeroMQ socket: %s", zmq_strerror(errno));
	else if (!keys || set_keys(socket, server, endpoint, keys, err) == 0)
		return socket;
	if (socket)
		zmq_close(socket);
	return NULL;
}

void
pr_socket_drop_rest(void *socket)
{
	zmq_msg_t rest;

	for (bool more = true; more; zmq_msg_close(&rest)) {
		zmq_msg_init(&rest);
		more = zmq_msg_recv(&rest, socket, ZMQ_DONTWAIT) >= 0 &&
		       zmq_msg_more(&rest);
	}
}

/* First frame: event u16, value u32, in the machine's order; then the address. */
static bool
read_event(void *monitor, uint16_t *event, uint32_t *value)
{
	zmq_msg_t msg;

	*event = 0;
	*value = 0;
	zmq_msg_init(&msg);
	bool got = zmq_msg_recv(&msg, monitor, ZMQ_DONTWAIT) >= 0;
	if (zmq_msg_size(&msg) >= sizeof(*event) + sizeof(*value)) {
		memcpy(event, zmq_msg_data(&msg), sizeof(*event));
		memcpy(value, zmq_msg_data(&msg) + sizeof(*event), sizeof(*value));
	}
	if (zmq_msg_more(&msg))
		pr_socket_drop_rest(monitor);
	zmq_msg_close(&msg);
	return got;
}

int
pr_rpc_bind(void *ctx, void *socket, const char *endpoint, bool own, struct pr_error *err)
{
	void *monitor = zmq_socket(ctx, ZMQ_PAIR);
	uint16_t event;
	uint32_t fd;
	int listener = -1;

	pr_connections_lock();
	if (!monitor ||
		zmq_socket_monitor(socket, MONITOR_ENDPOINT, ZMQ_EVENT_LISTENING) < 0 ||
		zmq_connect(monitor, MONITOR_ENDPOINT) < 0 ||
		zmq_bind(socket, endpoint) < 0)
		pr_error_set(err, "cannot listen on %s: %s", endpoint,
			zmq_strerror(zmq_errno()));
	else if (!read_event(monitor, &event, &fd) || !pr_connections_guard(fd, own))
		pr_error_set(err, "cannot guard the connections to %s", endpoint);
	else
		listener = fd;
	pr_connections_unlock();
	zmq_socket_monitor(socket, NULL, 0);
	if (monitor)
		zmq_close(monitor);
	return listener;
}

static void
free_buffer(void *data, PR_UNUSED void *hint)
{
	free(data);
}

int
pr_rpc_send_buffer(void *socket, uint8_t *buf, size_t len)
{
	zmq_msg_t msg;

	if (zmq_msg_init_data(&msg, buf, len, free_buffer, NULL) < 0) {
		free(buf);
		return -1;
	}
	if (zmq_msg_send(&msg, socket, ZMQ_DONTWAIT) >= 0)
		return 0;
	int saved = errno;
	zmq_msg_close(&msg);
	errno = saved;
	return -1;
}

/* ---- in libevent ---- */

/*
 * Limits of one batch of messages; between batches the loop serves other events, such as
 * signals.
 */
#define ZEVENT_BATCH 32
#define ZEVENT_NS (10 * PR_NS_PER_MS)

struct pr_zevent {
	void *socket;
	struct pr_zevent_calls calls;
	struct event *fd_event;
	bool want_write;
	bool receiving; /* on_wake looks at the events when it is through: each look is some system calls */
	/* a timer of 0: event_active would starve the loop's other events */
	struct event *again;
};

int
pr_socket_get(void *socket, int option)
{
	int value = 0;
	size_t len = sizeof(value);

	return zmq_getsockopt(socket, option, &value, &len) < 0 ? 0 : value;
}

static void
run_again(struct pr_zevent *z)
{
	const struct timeval at_once = {0, 0};

	event_add(z->again, &at_once);
}

static void
on_wake(PR_UNUSED evutil_socket_t fd, PR_UNUSED short what, void *arg)
{
	struct pr_zevent *z = arg;
	int64_t until = pr_now_mono() + ZEVENT_NS;

	z->receiving = true;
	for (int i = 0; i < ZEVENT_BATCH && z->calls.receive(z->calls.arg); i++)
		if (pr_now_mono() >= until)
			break;
	z->receiving = false;
	if (z->want_write && pr_socket_get(z->socket, ZMQ_EVENTS) & ZMQ_POLLOUT) {
		z->want_write = false;
		z->calls.writable(z->calls.arg);
	}
	pr_zevent_check(z);
}

void
pr_zevent_check(struct pr_zevent *z)
{
	int events = z->receiving ? 0 : pr_socket_get(z->socket, ZMQ_EVENTS);

	if (events & ZMQ_POLLIN || (events & ZMQ_POLLOUT && z->want_write))
		run_again(z);
}

void
pr_zevent_want_write(struct pr_zevent *z)
{
	z->want_write = true;
	pr_zevent_check(z);
}

struct pr_zevent *
pr_zevent_create(struct event_base *base, void *socket, const struct pr_zevent_calls *calls,
	struct pr_error *err)
{
	struct pr_zevent *z = calloc(1, sizeof(*z));
	int fd = -1;
	size_t len = sizeof(fd);

	if (!z)
		return pr_error_null(err, "no memory");
	z->socket = socket;
	z->calls = *calls;
	if (zmq_getsockopt(socket, ZMQ_FD, &fd, &len) == 0) {
		z->fd_event = event_new(base, fd, EV_READ | EV_PERSIST, on_wake, z);
		z->again = evtimer_new(base, on_wake, z);
	}
	if (!z->fd_event || !z->again || event_add(z->fd_event, NULL) < 0) {
		pr_error_set(err, "cannot watch a ZeroMQ socket");
		pr_zevent_destroy(&z);
		return NULL;
	}
	run_again(z); /* the first edge may have passed before we looked */
	return z;
}

void
pr_zevent_destroy(struct pr_zevent **zevent)
{
	struct pr_zevent *z = PR_TAKE(zevent);

	if (!z)
		return;
	if (z->fd_event)
		event_free(z->fd_event);
	if (z->again)
		event_free(z->again);
	free(z);
}

/* ---- connections of a client ---- */

#define MONITOR_EVENTS                                                                     \
	(ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED |                          \
		ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |    \
		ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL)
/*
 * A server with another key than the one we have cannot read our greeting, and closes the
 * connection without an error. A server that just ends does the same; so only several in a
 * row count.
 */
#define BROKEN_MAX 3

struct pr_monitor *
pr_monitor_open(void *ctx, void *socket, const char *endpoint, const char *keys,
	struct pr_error *err)
{
	struct pr_monitor *m = calloc(1, sizeof(*m));

	if (!m)
		return pr_error_null(err, "no memory for a connection");
	*m = (struct pr_monitor){.monitored = socket, .endpoint = endpoint, .dir = keys};
	if (zmq_socket_monitor(socket, MONITOR_ENDPOINT, MONITOR_EVENTS) == 0)
		m->socket = zmq_socket(ctx, ZMQ_PAIR);
	if (m->socket && pr_socket_set(m->socket, ZMQ_LINGER, 0) == 0 &&
		zmq_connect(m->socket, MONITOR_ENDPOINT) == 0)
		return m;
	pr_error_set(err, "cannot watch a connection: %s", zmq_strerror(zmq_errno()));
	pr_monitor_close(&m);
	return NULL;
}

void
pr_monitor_close(struct pr_monitor **monitor)
{
	struct pr_monitor *m = PR_TAKE(monitor);

	if (!m)
		return;
	zmq_socket_monitor(m->monitored, NULL, 0);
	if (m->socket)
		zmq_close(m->socket);
	free(m);
}

static void
refused(struct pr_monitor *m, uint16_t event)
{
	const char *dir = m->dir ? m->dir : "";

	if (event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH)
		pr_error_set(&m->refusal,
			"%s does not admit our key: enrol %s/public there (packrack keys "
			"enroll)",
			m->endpoint, dir);
	else if (!m->dir)
		pr_error_set(&m->refusal,
			"%s requires a key, and no key directory was found: give --key-dir "
			"DIR or set PACKRACK_KEY (create one with 'packrack keys "
			"generate' and have it enrolled)",
			m->endpoint);
	else if (event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL)
		pr_error_set(&m->refusal,
			"%s does not use keys, but %s has one: check the endpoint, or "
			"connect without a key by --key-dir " PR_KEYS_NONE,
			m->endpoint, dir);
	else
		pr_error_set(&m->refusal,
			"the key of %s is not the server-key in %s/rack, or it uses none: "
			"check the endpoint; if its key was replaced, ask for a new bundle "
			"(packrack-keys(7))",
			m->endpoint, dir);
}

bool
pr_monitor_read(struct pr_monitor *m, bool *news, enum pr_rpc_state *state)
{
	uint16_t event;
	uint32_t value;

	if (!read_event(m->socket, &event, &value))
		return false;
	bool broken = event == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL;
	*news = event & MONITOR_EVENTS && (!broken || ++m->broken >= BROKEN_MAX);
	if (event & MONITOR_EVENTS && !broken && event != ZMQ_EVENT_DISCONNECTED)
		m->broken = 0;
	if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) {
		*state = PR_RPC_CONNECTED;
	} else if (event == ZMQ_EVENT_DISCONNECTED) {
		*state = PR_RPC_DISCONNECTED;
	} else if (*news) {
		refused(m, event);
		*state = PR_RPC_REFUSED;
	}
	return true;
}
