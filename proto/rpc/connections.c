/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/rpc/connections.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "proto/base/log.h"

/* AF_UNIX: a user; AF_UNSPEC: an enrolled key; otherwise an address */
struct peer {
	int family;
	uint8_t id[16];
};

struct connection {
	int listener; /* -1: nothing that is known here; its own descriptor: it listens */
	bool silent; /* it has sent no message */
	bool own; /* it listens for our own user and root only */
	struct peer peer;
	uint64_t cookie; /* the kernel's number of this socket, never used again */
	int64_t accepted, heard; /* monotonic ns; heard: its last message, or accepted */
};

/* a flood must not cost a look at all for each connection */
#define CHECK_NS (20 * PR_NS_PER_MS)

static struct {
	pthread_mutex_t mutex;
	struct connection *items; /* by descriptor */
	int count; /* of items */
	unsigned max, peer_max;
	int spare; /* closed when descriptors run out, to accept and close a connection */
	/* monotonic ns: the last line in the log, the last check of all */
	int64_t said, checked;
	struct figures {
		uint64_t open, refused, replaced; /* open: filled in when asked for */
	} figures;
} all = {.mutex = PTHREAD_MUTEX_INITIALIZER, .spare = -1};

static struct peer
peer_of(int fd)
{
	struct sockaddr_storage address = {0};
	const uint8_t *v4 = (uint8_t *)&((struct sockaddr_in *)&address)->sin_addr;
	const struct in6_addr *v6 = &((struct sockaddr_in6 *)&address)->sin6_addr;
	socklen_t len = sizeof(address), ucred_len = sizeof(struct ucred);
	struct ucred ucred = {.uid = (uid_t)-1};
	struct peer peer = {.family = AF_UNIX};

	getpeername(fd, (struct sockaddr *)&address, &len);
	getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &ucred, &ucred_len);
	memcpy(peer.id, &ucred.uid, sizeof(ucred.uid));
	if (address.ss_family == AF_INET6 && !IN6_IS_ADDR_V4MAPPED(v6)) {
		peer = (struct peer){.family = AF_INET6};
		memcpy(peer.id, v6, 8);
	} else if (address.ss_family == AF_INET6 || address.ss_family == AF_INET) {
		peer = (struct peer){.family = AF_INET};
		memcpy(peer.id, address.ss_family == AF_INET ? v4 : v6->s6_addr + 12, 4);
	}
	return peer;
}

static uint64_t
cookie_of(int fd)
{
	uint64_t cookie = 0;
	socklen_t len = sizeof(cookie);

	getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &len);
	return cookie;
}

/* False: no memory. */
static bool
add(int fd, struct connection c)
{
	int want = fd + 64;

	if (fd >= all.count) {
		void *grown = realloc(all.items, want * sizeof(*all.items));

		if (!grown)
			return false;
		all.items = grown;
		while (all.count < want)
			all.items[all.count++] = (struct connection){.listener = -1};
	}
	all.items[fd] = c;
	return true;
}

/* ---- limits ---- */

/* How many connections there are, and which may be replaced (0: none). */
struct survey {
	unsigned all, silent, peer;
	int idle, idle_silent, idle_of_peer;
};

/* Takes fd in place of *best if it was idle for more of its life, or for as much and longer. */
static void
take_idler(int *best, int fd, int64_t now)
{
	const struct connection *a = &all.items[*best], *b = &all.items[fd];
	double more = b->silent - (double)a->silent;

	if (*best && !a->silent && !b->silent)
		more = (now - b->heard) * (double)(now - a->accepted) -
		       (now - a->heard) * (double)(now - b->accepted);
	if (!*best || more > 0 || (more >= 0 && b->accepted < a->accepted))
		*best = fd;
}

/*
 * libzmq closes connections without a word. check: first looks which of them are still there. Only
 * connections of the same listener are replaced: no other thread than its own closes these.
 */
static struct survey
look_at_all(int listener, const struct peer *peer, bool check)
{
	struct survey s = {0};
	int64_t now = pr_now_mono();

	for (int fd = 0; fd < all.count; fd++) {
		struct connection *c = &all.items[fd];
		bool of_peer = !memcmp(peer, &c->peer, sizeof(*peer));

		if (check && c->listener >= 0 && cookie_of(fd) != c->cookie)
			c->listener = -1;
		if (c->listener < 0 || c->listener == fd)
			continue;
		s.all++;
		s.silent += c->silent;
		s.peer += of_peer;
		if (c->listener != listener || c->peer.family == AF_UNSPEC)
			continue;
		take_idler(&s.idle, fd, now);
		if (c->silent)
			take_idler(&s.idle_silent, fd, now);
		if (of_peer)
			take_idler(&s.idle_of_peer, fd, now);
	}
	return s;
}

static bool
above(const struct survey *s)
{
	return s->peer >= all.peer_max || s->silent >= all.max / 2 || s->all >= all.max;
}

static void
peer_text(const struct peer *peer, char text[PR_CONNECTIONS_WHO])
{
	uint32_t uid;

	memcpy(&uid, peer->id, sizeof(uid));
	if (peer->family == AF_UNIX)
		snprintf(text, PR_CONNECTIONS_WHO, "user %u", uid);
	else if (!peer->family ||
		 !inet_ntop(peer->family, peer->id, text, PR_CONNECTIONS_WHO))
		strcpy(text, "an enrolled key");
}

/* The end of a connection: libzmq reads it in its own turn, and closes the descriptor. */
static void
hang_up(int fd, const struct peer *why, const struct survey *s)
{
	char text[PR_CONNECTIONS_WHO];
	int64_t now = pr_now_mono();

	shutdown(fd, SHUT_RDWR);
	if (all.said && now - all.said < 60 * PR_NS_PER_S)
		return;
	all.said = now;
	peer_text(why, text);
	pr_log_warning(
		"too many connections: %u in all, %u that are silent, %u of %s, which "
		"connects again: idle connections are closed, new ones refused",
		s->all, s->silent, s->peer, text);
}

static bool
own_user(const struct peer *peer)
{
	const uid_t us = geteuid(), root = 0;

	return !memcmp(peer->id, &us, sizeof(us)) || !memcmp(peer->id, &root, sizeof(root));
}

/* Closes another connection where this is one too many. False: closes this one. */
static bool
admit(int listener, int fd)
{
	struct connection c = {.listener = listener,
		.silent = true,
		.peer = peer_of(fd),
		.cookie = cookie_of(fd),
		.accepted = pr_now_mono()};
	struct survey s = look_at_all(listener, &c.peer, false);

	if (all.items[listener].own && !own_user(&c.peer))
		goto refuse;
	if (above(&s) && c.accepted - all.checked > CHECK_NS) {
		all.checked = c.accepted;
		s = look_at_all(listener, &c.peer, true);
	}
	if (above(&s)) {
		int victim = s.peer >= all.peer_max ? s.idle_of_peer
			     : s.all < all.max      ? s.idle_silent
						    : s.idle;
		if (!victim || cookie_of(victim) == all.items[victim].cookie) {
			hang_up(victim ? victim : fd, &c.peer, &s);
			all.figures.replaced += victim > 0;
		}
		if (!victim)
			goto refuse;
		all.items[victim].listener = -1;
	}
	c.heard = c.accepted;
	if (add(fd, c))
		return true;
refuse:
	close(fd);
	all.figures.refused++;
	return false;
}

/* ---- in place of the C library's calls, also for libzmq ---- */

int
accept4(int listener, struct sockaddr *address, socklen_t *len, int flags)
{
	int fd = syscall(SYS_accept4, listener, address, len, flags), saved = errno;

	pr_connections_lock();
	if (listener < 0 || listener >= all.count ||
		all.items[listener].listener != listener) {
		; /* not libzmq's */
	} else if (fd >= 0 && !admit(listener, fd)) {
		fd = -1;
		saved = ECONNABORTED;
	} else if (fd < 0 && (saved == EMFILE || saved == ENFILE) && all.spare >= 0) {
		/* the connection would wait, and wake libzmq for ever */
		close(all.spare);
		close(syscall(SYS_accept4, listener, NULL, NULL, SOCK_CLOEXEC));
		all.spare = eventfd(0, EFD_CLOEXEC);
		all.figures.refused++;
		saved = EAGAIN;
	}
	pr_connections_unlock();
	errno = saved;
	return fd;
}

int
accept(int listener, struct sockaddr *address, socklen_t *len)
{
	return accept4(listener, address, len, 0);
}

/* ---- for the program ---- */

void
pr_connections_lock(void)
{
	struct rlimit limit;

	pthread_mutex_lock(&all.mutex);
	if (all.max || getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	all.max = limit.rlim_cur / 2 < PR_CONNECTIONS_MAX ? (unsigned)limit.rlim_cur / 2
							  : PR_CONNECTIONS_MAX;
	all.peer_max = all.max / 4 < PR_CONNECTIONS_PEER_MAX ? all.max / 4
							     : PR_CONNECTIONS_PEER_MAX;
	all.spare = eventfd(0, EFD_CLOEXEC);
}

void
pr_connections_unlock(void)
{
	pthread_mutex_unlock(&all.mutex);
}

bool
pr_connections_guard(int listener, bool own)
{
	return add(listener,
		(struct connection){
			.listener = listener, .own = own, .cookie = cookie_of(listener)});
}

void
pr_connections_unguard(int listener)
{
	pr_connections_lock();
	for (int fd = 0; fd < all.count; fd++)
		if (all.items[fd].listener == listener)
			all.items[fd].listener = -1;
	pr_connections_unlock();
}

void
pr_connections_heard(int fd, const uint8_t *key, char who[PR_CONNECTIONS_WHO])
{
	pr_connections_lock();
	struct connection *c = fd >= 0 && fd < all.count ? &all.items[fd] : NULL;
	if (c && c->listener >= 0) {
		c->heard = pr_now_mono();
		if (c->silent && key) {
			c->peer = (struct peer){.family = AF_UNSPEC};
			memcpy(c->peer.id, key, sizeof(c->peer.id));
			struct survey s = look_at_all(c->listener, &c->peer, true);
			if (s.peer > all.peer_max && c->listener >= 0) {
				hang_up(fd, &c->peer, &s);
				all.figures.refused++;
			}
		}
		c->silent = false;
		peer_text(&c->peer, who);
	}
	pr_connections_unlock();
}

#define PR_COUNTED struct figures
struct pr_counter_table
pr_connections_figures(void)
{
	static const struct pr_counter_row rows[PR_CONNECTIONS_ROWS] = {
		PR_GAUGE_OF(open, "connections", "Connections of peers to the program."),
		PR_COUNTER_OF(refused, "connections_refused",
			"Connections refused, as there were too many of them or of their "
			"peer."),
		PR_COUNTER_OF(replaced, "connections_replaced",
			"Idle connections closed in favour of new ones, as there were too "
			"many.")};

	pr_connections_lock();
	all.figures.open = look_at_all(-1, &(struct peer){0}, true).all;
	pr_connections_unlock();
	return PR_COUNTER_TABLE(rows, &all.figures);
}
