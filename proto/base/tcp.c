/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/tcp.h"

#include <event2/util.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/text.h"

#define BACKLOG 64

#define LOCAL "127.0.0.1"

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

/* alone: the host of PORT alone. */
static int
resolve(const char *text, const char *alone, union address *out, int *len,
	struct pr_error *err)
{
	const char *colon = strrchr(text, ':'), *port = colon ? colon + 1 : text;
	char host[INET6_ADDRSTRLEN + 2];

	PR_PRINT(host, "%.*s", (int)(port - text - (colon != NULL)), text);
	if (!*host || !strcmp(host, "localhost"))
		PR_PRINT(host, "%s", *host ? LOCAL : alone);
	*len = sizeof(*out);
	/* an IPv6 address stands in brackets */
	if ((size_t)(port - text) > sizeof(host) || !*port ||
		port[strspn(port, "0123456789")] || strlen(port) > 5 ||
		atol(port) > UINT16_MAX ||
		(*host == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":")) !=
			strlen(host) ||
		evutil_parse_sockaddr_port(host, &out->any, len) < 0)
		return pr_error_set(err,
			"'%.100s' is not an address: give PORT, 127.0.0.1:PORT or "
			"[::1]:PORT",
			text);
	*(out->any.sa_family == AF_INET ? &out->v4.sin_port : &out->v6.sin6_port) =
		htons(atol(port));
	return 0;
}

int
pr_tcp_check(const char *text, bool *loopback, struct pr_error *err)
{
	union address address;
	int len;

	if (resolve(text, LOCAL, &address, &len, err) < 0)
		return -1;
	*loopback = address.any.sa_family == AF_INET
			    ? ntohl(address.v4.sin_addr.s_addr) >> 24 == 127
			    : IN6_IS_ADDR_LOOPBACK(&address.v6.sin6_addr);
	return 0;
}

int
pr_listen(const char *text, int type, bool any, struct pr_error *err)
{
	const int on = 1, only_six = any && *text == '[';
	union address address;
	int len;

	if (resolve(text, any ? "[::]" : LOCAL, &address, &len, err) < 0)
		return -1;
	int fd = socket(address.any.sa_family, type | SOCK_CLOEXEC, 0);
	if (fd >= 0 && any && address.any.sa_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only_six, sizeof(only_six));
	if (fd >= 0 && type == SOCK_STREAM)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (fd >= 0 && bind(fd, &address.any, len) == 0 &&
		(type != SOCK_STREAM || listen(fd, BACKLOG) == 0))
		return fd;
	pr_error_errno(err, "cannot listen on %s", text);
	pr_close(fd);
	return -1;
}

struct evconnlistener *
pr_tcp_serve(struct event_base *base, const char *text, evconnlistener_cb call, void *arg,
	struct pr_error *err)
{
	struct evconnlistener *listener = NULL;
	int fd = pr_listen(text, SOCK_STREAM, false, err);

	if (fd >= 0 && evutil_make_socket_nonblocking(fd) == 0)
		listener = evconnlistener_new(base, call, arg,
			LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, 0, fd);
	if (fd >= 0 && !listener) {
		pr_error_set(err, "no memory to listen on %s", text);
		pr_close(fd);
	}
	return listener;
}

char *
pr_tcp_name(int fd, bool peer, char buf[PR_TCP_TEXT])
{
	struct sockaddr_storage address;
	socklen_t len = sizeof(address);
	char host[INET6_ADDRSTRLEN], port[8];
	int got = peer ? getpeername(fd, (struct sockaddr *)&address, &len)
		       : getsockname(fd, (struct sockaddr *)&address, &len);

	if (got < 0 || getnameinfo((struct sockaddr *)&address, len, host, sizeof(host),
			       port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) != 0)
		snprintf(buf, PR_TCP_TEXT, "?");
	else
		snprintf(buf, PR_TCP_TEXT, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host,
			port);
	return buf;
}
