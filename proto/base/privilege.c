/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/privilege.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <linux/if_xdp.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

int pr_privilege_parent = -1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of one request and its answer */

ssize_t
pr_privilege_pass(int socket, bool out, void *bytes, size_t len, int *fd)
{
	char room[CMSG_SPACE(sizeof *fd)] __attribute__((aligned(8))) = {0};
	struct iovec io = {bytes, len};
	struct msghdr msg = {
		&(struct sockaddr){0}, 0, &io, 1, room, CMSG_LEN(sizeof *fd), 0};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	ssize_t n;

	*c = (struct cmsghdr){CMSG_LEN(sizeof *fd), SOL_SOCKET, SCM_RIGHTS};
	memcpy(CMSG_DATA(c), fd, sizeof *fd);
	if (out && *fd < 0)
		msg.msg_controllen = 0;
	do
		n = out ? sendmsg(socket, &msg, MSG_NOSIGNAL)
			: recvmsg(socket, &msg, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (out)
		return n;
	*fd = -1;
	if (n > 0 && CMSG_FIRSTHDR(&msg))
		memcpy(fd, CMSG_DATA(c), sizeof *fd);
	return n > 0 && msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC) ? 1 : n;
}

int
pr_privilege_ask(enum pr_request kind, const char *name, uint32_t a, uint32_t b, int fd,
	struct pr_error *err)
{
	struct pr_request_message m = {.kind = kind, .a = a, .b = b};
	struct pr_request_answer answer;
	size_t len = name ? strlen(name) : 0;

	if (pr_privilege_parent < 0)
		return -2;
	errno = ENAMETOOLONG;
	if (len >= sizeof m.name)
		return pr_error_errno(err, "%.100s", name);
	if (name)
		memcpy(m.name, name, len);
	len += offsetof(struct pr_request_message, name) + 1;
	pthread_mutex_lock(&lock);
	bool done = pr_privilege_pass(pr_privilege_parent, true, &m, len, &fd) > 0 &&
		    pr_privilege_pass(pr_privilege_parent, false, &answer, sizeof answer,
			    &fd) == sizeof answer;
	pthread_mutex_unlock(&lock);
	if (!done)
		answer = (struct pr_request_answer){EPIPE, {"packrack-parent has ended"}};
	errno = answer.error;
	if (answer.error == 0)
		return fd < 0 ? 0 : fd;
	return answer.why.text[0] ? pr_error_set(err, "%.500s", answer.why.text)
				  : pr_error_errno(err, "%s", m.name);
}

int
pr_privilege_open(const char *path, int flags)
{
	int fd = open(path, flags), rc;

	if (fd >= 0 || (errno != EACCES && errno != EPERM))
		return fd;
	rc = pr_privilege_ask(PR_REQUEST_OPEN, path, flags, 0, -1, NULL);
	if (rc == -2)
		errno = EACCES;
	return rc < 0 ? -1 : rc;
}

int
pr_privilege_stat(const char *path, struct stat *st)
{
	if (stat(path, st) == 0)
		return 0;
	if (errno != EACCES || pr_privilege_parent < 0)
		return -1;
	int fd = pr_privilege_open(path, O_PATH | O_CLOEXEC);
	if (fd < 0)
		return -1;
	int rc = fstat(fd, st);
	pr_close(fd);
	return rc;
}

/* ---- what libraries call ---- */

int
socket(int domain, int type, int protocol)
{
	/* Protocol 0: until it is bound, nothing comes in. */
	if (pr_privilege_parent >= 0 && (domain == AF_PACKET || domain == AF_XDP))
		return pr_privilege_ask(PR_REQUEST_SOCKET, NULL, domain, type, -1, NULL);
	return syscall(SYS_socket, domain, type, protocol);
}

int
bind(int fd, const struct sockaddr *address, socklen_t len)
{
	struct sockaddr_ll ll = {0};
	struct sockaddr_xdp xdp = {0};

	memcpy(&ll, address, len < sizeof ll ? len : sizeof ll);
	memcpy(&xdp, address, len < sizeof xdp ? len : sizeof xdp);
	if (pr_privilege_parent >= 0 && ll.sll_family == AF_PACKET)
		return pr_privilege_ask(
			PR_REQUEST_BIND, NULL, ll.sll_ifindex, ll.sll_protocol, fd, NULL);
	if (pr_privilege_parent >= 0 && xdp.sxdp_family == AF_XDP)
		return pr_privilege_ask(
			PR_REQUEST_BIND, NULL, xdp.sxdp_ifindex, 0, fd, NULL);
	return syscall(SYS_bind, fd, address, len);
}
