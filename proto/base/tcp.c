/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/tcp.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 16

struct place {
	char host[INET6_ADDRSTRLEN];
	char port[8];
};

/* Splits text into host and port; false: it does not have the form of an address. */
static bool
split(const char *text, struct place *out)
{
	const char *colon = strrchr(text, ':'), *host = text;
	size_t len;

	*out = (struct place){.host = "127.0.0.1"};
	if (snprintf(out->port, sizeof(out->port), "%s", colon ? colon + 1 : text) >=
			(int)sizeof(out->port) ||
		!out->port[0] || out->port[strspn(out->port, "0123456789")])
		return false;
	len = colon ? colon - text : 0;
	if (len == 9 && strncmp(text, "localhost", len) == 0)
		len = 0;
	if (len > 2 && host[0] == '[' && host[len - 1] == ']') {
		host++;
		len -= 2;
	} else if (memchr(host, ':', len)) {
		return false; /* an IPv6 address stands in brackets */
	}
	if (len >= sizeof(out->host))
		return false;
	if (len) {
		memcpy(out->host, host, len);
		out->host[len] = '\0';
	}
	return true;
}

static struct addrinfo *
resolve(const char *text, struct pr_error *err)
{
	static const struct addrinfo hints = {
		.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
		.ai_socktype = SOCK_STREAM};
	struct addrinfo *list;
	struct place place;

	if (split(text, &place) && atol(place.port) <= 65535 &&
		getaddrinfo(place.host, place.port, &hints, &list) == 0)
		return list;
	pr_error_set(err,
		"'%.100s' is not an address: give PORT, 127.0.0.1:PORT or [::1]:PORT",
		text);
	return NULL;
}

int
pr_tcp_check(const char *text, bool *loopback, struct pr_error *err)
{
	struct addrinfo *list = resolve(text, err);
	const struct sockaddr_in *v4;
	const struct sockaddr_in6 *v6;

	if (!list)
		return -1;
	v4 = (const struct sockaddr_in *)list->ai_addr;
	v6 = (const struct sockaddr_in6 *)list->ai_addr;
	*loopback = list->ai_family == AF_INET ? ntohl(v4->sin_addr.s_addr) >> 24 == 127
					       : IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
	freeaddrinfo(list);
	return 0;
}

int
pr_tcp_listen(const char *text, struct pr_error *err)
{
	struct addrinfo *list = resolve(text, err);
	const int on = 1;
	int fd;

	if (!list)
		return -1;
	fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (fd < 0 || bind(fd, list->ai_addr, list->ai_addrlen) < 0 ||
		listen(fd, BACKLOG) < 0) {
		pr_error_errno(err, "cannot listen on %s", text);
		if (fd >= 0)
			close(fd);
		fd = -1;
	}
	freeaddrinfo(list);
	return fd;
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
