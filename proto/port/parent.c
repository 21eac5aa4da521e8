/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/port/parent.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/if_packet.h>
#include <linux/if_xdp.h>
#include <linux/openat2.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/base/array.h"
#include "proto/base/log.h"
#include "proto/base/privilege.h"
#include "proto/port/netdev.h"

/* ---- what the command line names ---- */

/* A pipe that the shell has opened. */
static bool
is_open(const char *path)
{
	return !strncmp(path, "/dev/fd/", 8);
}

/* The path without symbolic links; of a file that is not there yet, its folder's. NULL: there is none. */
static char *
real_path(const char *path)
{
	const char *slash = strrchr(path, '/');
	char *folder, *whole = NULL,
		      *real = is_open(path) ? strdup(path) : realpath(path, NULL);

	if (real)
		return real;
	folder = slash ? strndup(path, (slash - path) + 1) : strdup(".");
	real = folder ? realpath(folder, NULL) : NULL;
	if (real && asprintf(&whole, "%s/%s", real, slash ? slash + 1 : path) < 0)
		whole = NULL;
	free(folder);
	free(real);
	return whole;
}

void
pr_grant(struct pr_grants *g, enum pr_grant_kind kind, const char *name)
{
	static const char *const key_files[] = {"", "secret", "public", "rack", "enrolled"};
	struct pr_grant *new = &g->list[g->count];
	char path[PATH_MAX];

	for (size_t i = 0; name && kind == PR_GRANT_KEYS && i < PR_COUNT(key_files); i++) {
		PR_PRINT(path, "%s%s%s", name, i ? "/" : "", key_files[i]);
		pr_grant(g, PR_GRANT_READ, path);
	}
	if (!name || kind == PR_GRANT_KEYS || g->count == PR_GRANTS_MAX)
		return;
	*new = (struct pr_grant){.kind = kind, .name = strdup(name)};
	if (kind == PR_GRANT_READ || kind == PR_GRANT_WRITE)
		new->real = real_path(name);
	g->count += new->name != NULL;
}

void
pr_grant_all(
	struct pr_grants *g, enum pr_grant_kind kind, const struct pr_string_list *names)
{
	for (size_t i = 0; i < names->count; i++)
		pr_grant(g, kind, names->items[i]);
}

/* ---- the parent ---- */

struct parent {
	const struct pr_grants *g;
	struct pr_netdev dev[PR_GRANTS_MAX]; /* of the grant: as prepared; index 0: not */
};

/* The grant of an interface, or of a path. NULL and EACCES: there is none. */
static const struct pr_grant *
find(const struct parent *p, bool interface, const char *name)
{
	for (const struct pr_grant *g = p->g->list; g < p->g->list + p->g->count; g++)
		if ((g->kind == PR_GRANT_INTERFACE) == interface && !strcmp(g->name, name))
			return g;
	errno = EACCES;
	return NULL;
}

/*
 * The daemon's user may own the folder of a path, and put a link to a file of root's there. So symbolic
 * links are not followed, nor is a file given that has other names.
 */
static int
open_path(const struct parent *p, const char *path, uint32_t flags)
{
	const uint32_t plain =
		O_RDWR | O_DIRECT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_PATH;
	const struct pr_grant *g = find(p, false, path);
	struct open_how how = {
		.flags = flags | O_CLOEXEC | (flags & O_PATH ? 0 : O_NOCTTY | O_NONBLOCK),
		.resolve = is_open(path) ? 0 : RESOLVE_NO_SYMLINKS};
	struct stat st;

	errno = EACCES;
	if (!g || !g->real || flags & ~plain ||
		(flags & O_RDWR && g->kind != PR_GRANT_WRITE))
		return -1;
	int fd = syscall(SYS_openat2, AT_FDCWD, g->real, &how, sizeof how);
	if (fd < 0 || flags & O_PATH)
		return fd;
	if (fstat(fd, &st) == 0 && ((S_ISREG(st.st_mode) && st.st_nlink == 1) ||
					   S_ISBLK(st.st_mode) || S_ISFIFO(st.st_mode)))
		return fd;
	close(fd);
	errno = EACCES;
	return -1;
}

static int
open_socket(const struct parent *p, uint32_t domain, uint32_t type)
{
	uint32_t kind = type & ~(SOCK_CLOEXEC | SOCK_NONBLOCK);
	bool named = false;
	int size = 8 << 20;

	for (size_t i = 0; i < p->g->count; i++)
		named = named || p->g->list[i].kind == PR_GRANT_INTERFACE;
	errno = EACCES;
	if (!named || (domain != AF_PACKET && domain != AF_XDP) ||
		(kind != SOCK_RAW && (kind != SOCK_DGRAM || domain == AF_XDP)))
		return -1;
	int fd = socket(domain, type | SOCK_CLOEXEC, 0);
	/* more than the daemon could set */
	setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size);
	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size);
	return fd;
}

static int
bind_socket(const struct parent *p, int fd, uint32_t index, uint32_t protocol)
{
	struct sockaddr_ll ll = {AF_PACKET, protocol, index, 0, 0, 0, {0}};
	struct sockaddr_xdp xdp = {AF_XDP, XDP_COPY, index, 0, 0};
	bool allowed = index == 0 && find(p, true, "any");
	socklen_t len = sizeof(int);
	int domain = -1;

	for (size_t i = 0; index && i < p->g->count; i++)
		allowed |= p->g->list[i].kind == PR_GRANT_INTERFACE &&
			   if_nametoindex(p->g->list[i].name) == index;
	if (allowed)
		getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len);
	if (domain == AF_PACKET)
		return bind(fd, (struct sockaddr *)(void *)&ll, sizeof ll);
	errno = EACCES;
	return domain == AF_XDP ? bind(fd, (struct sockaddr *)(void *)&xdp, sizeof xdp)
				: -1;
}

static int
change_interface(struct parent *p, const struct pr_request_message *m, struct pr_error *why)
{
	const struct pr_grant *g = find(p, true, m->name);
	struct pr_netdev *dev = g ? &p->dev[g - p->g->list] : NULL;

	if (!g)
		return -1;
	errno = EIO;
	if (m->kind == PR_REQUEST_BLINK)
		return pr_netdev_blink(g->name, m->a, why);
	pr_netdev_restore(dev);
	if (m->kind == PR_REQUEST_RESTORE)
		return 0;
	if (pr_netdev_open(dev, g->name, why) < 0)
		return -1;
	pr_netdev_prepare(dev);
	return 0;
}

/* fd: came with the request, or -1. Returns a descriptor to send back, 0, or -1 and errno. */
static int
handle(struct parent *p, const struct pr_request_message *m, ssize_t len, int fd,
	struct pr_error *why)
{
	size_t name = len - offsetof(struct pr_request_message, name);

	/* a name ends with the only NUL, which is the message's end */
	errno = EINVAL;
	if (len <= (ssize_t)offsetof(struct pr_request_message, name) ||
		strnlen(m->name, name) != name - 1)
		return -1;
	switch (m->kind) {
	case PR_REQUEST_SOCKET:
		return open_socket(p, m->a, m->b);
	case PR_REQUEST_BIND:
		return bind_socket(p, fd, m->a, m->b);
	case PR_REQUEST_OPEN:
		return open_path(p, m->name, m->a);
	case PR_REQUEST_PREPARE:
	case PR_REQUEST_RESTORE:
	case PR_REQUEST_BLINK:
		return change_interface(p, m, why);
	default:
		return -1;
	}
}

void
pr_parent_serve(int socket, const struct pr_grants *g)
{
	struct parent *p = calloc(1, sizeof *p);
	struct pr_request_message m;
	ssize_t len;
	int fd = -1;

	if (p)
		p->g = g;
	while (p && (len = pr_privilege_pass(socket, false, &m, sizeof m, &fd)) > 0) {
		struct pr_request_answer answer = {0};
		int result = handle(p, &m, len, fd, &answer.why);

		answer.error = result < 0 ? errno : 0;
		pr_close(fd);
		fd = result > 0 ? result : -1;
		pr_privilege_pass(socket, true, &answer, sizeof answer, &fd);
		pr_close(fd);
	}
	free(p);
}

/* ---- splitting ---- */

static pid_t parent_pid;

static void
be_parent(int fd, const struct pr_grants *g)
{
	static const int ends_daemon[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
	static const uint64_t caps[] = {
		[PR_GRANT_INTERFACE] = PR_CAP(CAP_NET_RAW) | PR_CAP(CAP_NET_ADMIN),
		[PR_GRANT_READ] = PR_CAP(CAP_DAC_READ_SEARCH),
		[PR_GRANT_WRITE] = PR_CAP(CAP_DAC_OVERRIDE) | PR_CAP(CAP_DAC_READ_SEARCH),
		[PR_GRANT_ENDPOINT] = 0};
	struct pr_error err;
	uint64_t keep = 0;

	prctl(PR_SET_NAME, "packrack-parent");
	/* A signal to the whole group is the daemon's: it still needs this process while it ends. */
	for (size_t i = 0; i < PR_COUNT(ends_daemon); i++)
		signal(ends_daemon[i], SIG_IGN);
	for (size_t i = 0; i < g->count; i++)
		keep |= caps[g->list[i].kind];
	if (pr_sandbox_keep(keep, &err) < 0)
		pr_log_error("%s", err.text);
	else
		pr_parent_serve(fd, g);
	_exit(0);
}

int
pr_privilege_drop(struct pr_grants *g, struct pr_error *err)
{
	int ends[2];

	if (pr_sandbox_privileged()) {
		if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0 ||
			(parent_pid = fork()) < 0)
			return pr_error_errno(err, "cannot start packrack-parent");
		if (parent_pid == 0) {
			close(ends[0]);
			be_parent(ends[1], g);
		}
		close(ends[1]);
		pr_privilege_parent = ends[0];
	}
	for (size_t i = 0; i < g->count; i++)
		if (g->list[i].kind == PR_GRANT_WRITE ||
			g->list[i].kind == PR_GRANT_ENDPOINT)
			pr_sandbox_write(&g->sandbox, g->list[i].name);
	while (g->count > 0) {
		free(g->list[--g->count].name);
		free(g->list[g->count].real);
	}
	return pr_sandbox_enter(&g->sandbox, err);
}

void
pr_privilege_end(void)
{
	if (pr_privilege_parent < 0)
		return;
	close(pr_privilege_parent);
	pr_privilege_parent = -1;
	while (waitpid(parent_pid, NULL, 0) < 0 && errno == EINTR)
		;
}
