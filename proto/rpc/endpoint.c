/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/rpc/socket.h"

#define PATH_LIMIT (sizeof(((struct sockaddr_un *)0)->sun_path) - 1)

const char *
pr_rpc_ipc_path(const char *endpoint)
{
	return strncmp(endpoint, "ipc://", 6) ? NULL : endpoint + 6;
}

static int
check_tcp(const char *endpoint, struct pr_error *err)
{
	const char *host = endpoint + 6, *colon = strrchr(host, ':');

	if (!colon || colon == host || !colon[1])
		return pr_error_set(err,
			"endpoint %s: a port is missing, as in tcp://host:7400", endpoint);
	return 0;
}

int
pr_rpc_check_endpoint(const char *endpoint, struct pr_error *err)
{
	const char *path = pr_rpc_ipc_path(endpoint);

	if (!strncmp(endpoint, "tcp://", 6))
		return check_tcp(endpoint, err);
	if (!path)
		return pr_error_set(
			err, "endpoint %s: give ipc://PATH or tcp://HOST:PORT", endpoint);
	if (!*path || *path == '@' || *path == '*')
		return pr_error_set(
			err, "endpoint %s: ipc:// wants the path of a socket", endpoint);
	if (strlen(path) > PATH_LIMIT)
		return pr_error_set(err,
			"endpoint %s: its path has %zu bytes, a socket's at most %zu; "
			"use a shorter directory",
			endpoint, strlen(path), (size_t)PATH_LIMIT);
	return 0;
}

/* 0: somebody listens. -1 and errno otherwise. */
static int
try_connect(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), rc, saved;

	if (fd < 0)
		return -1;
	memcpy(address.sun_path, path, strlen(path));
	rc = connect(fd, (struct sockaddr *)&address, sizeof(address));
	if (rc < 0 && errno == EAGAIN) /* its backlog is full: it lives */
		rc = 0;
	saved = errno;
	close(fd);
	errno = saved;
	return rc;
}

int
pr_rpc_reachable(const char *endpoint, struct pr_error *err)
{
	const char *path = pr_rpc_ipc_path(endpoint);

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
	const char *path = pr_rpc_ipc_path(endpoint);
	struct stat st;

	if (!path || lstat(path, &st) < 0)
		return 0;
	if (!S_ISSOCK(st.st_mode))
		return pr_error_set(
			err, "%s is there and is no socket: give another path", path);
	if (try_connect(path) == 0)
		return pr_error_set(err, "another program listens on %s already", path);
	if (errno != ECONNREFUSED)
		return pr_error_errno(err, "%s", path);
	if (unlink(path) < 0 && errno != ENOENT)
		return pr_error_errno(err, "cannot remove the stale socket %s", path);
	return 0;
}
