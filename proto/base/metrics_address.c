/* SPDX-License-Identifier: Apache-2.0 */
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "proto/base/metrics_internal.h"

static int
split(const char *address, char host[64], const char **port)
{
	const char *colon = strrchr(address, ':');
	size_t len = colon ? (size_t)(colon - address) : 0;

	*port = colon ? colon + 1 : address;
	if (colon && len >= 2 && address[0] == '[' && address[len - 1] == ']') {
		address++;
		len -= 2;
	} else if (memchr(address, ':', len)) {
		return -1; /* an IPv6 address without its brackets */
	}
	if (len >= 64)
		return -1;
	snprintf(host, 64, "%.*s", (int)len, address);
	if (len == 0 || strcmp(host, "localhost") == 0)
		snprintf(host, 64, "127.0.0.1");
	return **port && strspn(*port, "0123456789") == strlen(*port) ? 0 : -1;
}

int
pr_metrics_resolve(const char *address, struct sockaddr_storage *out, socklen_t *len,
	struct pr_error *err)
{
	struct addrinfo hints = {
		.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
	struct addrinfo *found;
	const char *port;
	char host[64];
	unsigned number;

	if (split(address, host, &port) < 0 || sscanf(port, "%5u", &number) != 1 ||
		strlen(port) > 5 || number > 65535 ||
		getaddrinfo(host, port, &hints, &found) != 0)
		return pr_error_set(err,
			"%s: give ADDRESS:PORT with a numeric address, as in "
			"127.0.0.1:9471, or a port alone",
			address);
	memcpy(out, found->ai_addr, found->ai_addrlen);
	*len = found->ai_addrlen;
	freeaddrinfo(found);
	return 0;
}

bool
pr_metrics_loopback(const struct sockaddr_storage *address)
{
	const struct sockaddr_in *v4 = (const void *)address;
	const struct sockaddr_in6 *v6 = (const void *)address;

	return address->ss_family == AF_INET ? ntohl(v4->sin_addr.s_addr) >> 24 == 127
					     : IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

const char *
pr_metrics_address_text(const struct sockaddr_storage *address, char *text, size_t size)
{
	char host[64] = "?", port[8] = "?";
	bool v6 = address->ss_family == AF_INET6;

	getnameinfo((const void *)address, sizeof *address, host, sizeof host, port,
		sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
	snprintf(text, size, "%s%s%s:%s", v6 ? "[" : "", host, v6 ? "]" : "", port);
	return text;
}

int
pr_metrics_check_address(const char *address, struct pr_error *err)
{
	struct sockaddr_storage room;
	socklen_t len;

	return pr_metrics_resolve(address, &room, &len, err) < 0
		       ? pr_error_prefix(err, "--metrics")
		       : 0;
}
