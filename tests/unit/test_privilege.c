/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <linux/sched.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/base/array.h"
#include "proto/base/privilege.h"
#include "proto/port/parent.h"

/* A parent in a process of its own, and this process in the place of a daemon that was taken over. */
static struct {
	char dir[64], mine[96], readable[96], later[96], other[96];
	int fd;
	pid_t pid;
} t;

static void
put(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

	ck_assert_int_eq(write(fd, path, strlen(path)), (ssize_t)strlen(path));
	close(fd);
}

static void
start_parent(bool interface)
{
	static struct pr_grants g;
	int ends[2];

	PR_PRINT(t.dir, "/tmp/packrack-privilege.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(t.dir));
	PR_PRINT(t.mine, "%s/volume", t.dir);
	PR_PRINT(t.readable, "%s/trace", t.dir);
	PR_PRINT(t.later, "%s/later", t.dir);
	PR_PRINT(t.other, "%s/other", t.dir);
	put(t.mine);
	put(t.readable);
	put(t.other);
	g = (struct pr_grants){0};
	pr_grant(&g, PR_GRANT_WRITE, t.mine);
	pr_grant(&g, PR_GRANT_READ, t.readable);
	pr_grant(&g, PR_GRANT_READ, t.later);
	if (interface)
		pr_grant(&g, PR_GRANT_INTERFACE, "prnone0");
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	t.pid = fork();
	if (t.pid == 0) {
		close(ends[0]);
		pr_parent_serve(ends[1], &g);
		_exit(7);
	}
	close(ends[1]);
	t.fd = ends[0];
	pr_privilege_parent = t.fd;
	/* it answers, so it is set up */
	ck_assert_int_eq(pr_privilege_ask(PR_REQUEST_OPEN, "", 0, 0, -1, NULL), -1);
}

/* It ends when the daemon does, by itself. */
static void
end_parent(void)
{
	char command[128];
	int status;

	pr_privilege_parent = -1;
	close(t.fd);
	ck_assert_int_eq(waitpid(t.pid, &status, 0), t.pid);
	ck_assert(WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), 7);
	PR_PRINT(command, "rm -rf -- '%s'", t.dir);
	ck_assert_int_eq(system(command), 0);
}

static int
ask(enum pr_request kind, const char *name, uint32_t a, uint32_t b, int fd)
{
	return pr_privilege_ask(kind, name, a, b, fd, NULL);
}

/* Asks for a path, closes what comes; 0, or the error. */
static int
opening(const char *path, int flags)
{
	int fd = ask(PR_REQUEST_OPEN, path, (uint32_t)flags, 0, -1);
	int error = fd < 0 ? errno : 0;

	if (fd > 0)
		close(fd);
	return error;
}

START_TEST(opens_what_the_command_line_names)
{
	char text[128] = "";
	int fd;

	start_parent(false);
	fd = ask(PR_REQUEST_OPEN, t.readable, O_RDONLY, 0, -1);
	ck_assert_int_gt(fd, 0);
	ck_assert_int_gt(read(fd, text, sizeof text - 1), 0);
	ck_assert_str_eq(text, t.readable);
	ck_assert_int_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
	close(fd);
	ck_assert_int_eq(opening(t.mine, O_RDWR | O_NOCTTY | O_NONBLOCK), 0);
	ck_assert_int_eq(opening(t.later, O_RDONLY), ENOENT);
	put(t.later);
	ck_assert_int_eq(opening(t.later, O_RDONLY), 0);
	end_parent();
}
END_TEST

START_TEST(opens_nothing_else)
{
	char path[128];

	start_parent(false);
	ck_assert_int_eq(opening(t.other, O_RDONLY), EACCES);
	ck_assert_int_eq(opening("/etc/passwd", O_RDONLY), EACCES);
	ck_assert_int_eq(opening("", O_RDONLY), EACCES);
	PR_PRINT(path, "%s/../trace", t.readable);
	ck_assert_int_eq(opening(path, O_RDONLY), EACCES);
	PR_PRINT(path, "%s/", t.mine);
	ck_assert_int_eq(opening(path, O_RDONLY), EACCES);
	ck_assert_int_eq(opening(t.dir, O_RDONLY | O_DIRECTORY), EACCES);
	end_parent();
}
END_TEST

START_TEST(opens_in_no_other_way)
{
	static const int refused[] = {O_RDWR, O_WRONLY, O_RDONLY | O_CREAT,
		O_RDONLY | O_TRUNC, O_ACCMODE, O_RDONLY | O_TMPFILE, O_RDONLY | O_ASYNC,
		-1};
	struct stat st;

	start_parent(false);
	for (size_t i = 0; i < PR_COUNT(refused); i++)
		ck_assert_int_eq(opening(t.readable, refused[i]), EACCES);
	ck_assert_int_eq(opening(t.mine, O_RDWR | O_TRUNC), EACCES);
	ck_assert_int_eq(opening(t.mine, O_WRONLY), EACCES);
	ck_assert_int_eq(opening(t.later, O_RDWR | O_CREAT), EACCES);
	ck_assert_int_lt(stat(t.later, &st), 0);
	ck_assert_int_eq(stat(t.mine, &st), 0);
	ck_assert_int_eq(st.st_size, (off_t)strlen(t.mine));
	end_parent();
}
END_TEST

/* A folder of the daemon's own user: it puts there what it wants. */
START_TEST(follows_no_link)
{
	char moved[160];

	start_parent(false);
	ck_assert_int_eq(unlink(t.mine), 0);
	ck_assert_int_eq(symlink(t.other, t.mine), 0);
	ck_assert_int_eq(opening(t.mine, O_RDWR), ELOOP);
	ck_assert_int_eq(unlink(t.mine), 0);
	ck_assert_int_eq(link(t.other, t.mine), 0);
	ck_assert_int_eq(opening(t.mine, O_RDWR), EACCES);
	ck_assert_int_eq(unlink(t.mine), 0);
	ck_assert_int_eq(mkdir(t.mine, 0700), 0);
	ck_assert_int_eq(opening(t.mine, O_RDONLY), EACCES);
	/* the folder itself is moved away, and another put there */
	PR_PRINT(moved, "%s.moved", t.dir);
	ck_assert_int_eq(rename(t.dir, moved), 0);
	ck_assert_int_eq(symlink(moved, t.dir), 0);
	ck_assert_int_eq(opening(t.readable, O_RDONLY), ELOOP);
	ck_assert_int_eq(unlink(t.dir), 0);
	ck_assert_int_eq(rename(moved, t.dir), 0);
	ck_assert_int_eq(opening(t.readable, O_RDONLY), 0);
	end_parent();
}
END_TEST

START_TEST(interfaces_and_sockets)
{
	static const char *const names[] = {
		"lo", "", "prnone", "prnone00", "../lo", "prnone0 "};
	int udp, packet;

	start_parent(_i == 1);
	for (size_t i = 0; i < PR_COUNT(names); i++)
		for (enum pr_request kind = PR_REQUEST_PREPARE; kind <= PR_REQUEST_BLINK;
			kind++) {
			ck_assert_int_eq(ask(kind, names[i], 1, 0, -1), -1);
			ck_assert_int_eq(errno, EACCES);
		}
	/* only packet and AF_XDP sockets, and only where an interface is named */
	for (uint32_t domain = 0; domain < 60; domain++)
		for (uint32_t type = 0; type < 8; type++) {
			if (_i && type != SOCK_STREAM &&
				(domain == AF_PACKET || domain == AF_XDP))
				continue;
			ck_assert_int_eq(
				ask(PR_REQUEST_SOCKET, NULL, domain, type, -1), -1);
			ck_assert_int_eq(errno, EACCES);
		}
	/* nothing to bind, no socket, a socket of another kind, an interface that was not named */
	udp = socket(AF_INET, SOCK_DGRAM, 0);
	ck_assert_int_eq(ask(PR_REQUEST_BIND, NULL, 1, 3, -1), -1);
	ck_assert_int_eq(errno, EACCES);
	ck_assert_int_eq(ask(PR_REQUEST_BIND, NULL, if_nametoindex("lo"), 3, udp), -1);
	ck_assert_int_eq(errno, EACCES);
	ck_assert_int_eq(ask(PR_REQUEST_BIND, NULL, 0, 3, udp), -1);
	ck_assert_int_eq(errno, EACCES);
	ck_assert_int_eq(ask(PR_REQUEST_BIND, NULL, 1, 3, t.fd), -1);
	ck_assert_int_eq(errno, EACCES);
	close(udp);
	/* a packet socket, where this test may have one, to no interface but the one that is named */
	packet = ask(PR_REQUEST_SOCKET, NULL, AF_PACKET, SOCK_RAW, -1);
	for (uint32_t index = 0; packet > 0 && index < 3; index++) {
		ck_assert_int_eq(ask(PR_REQUEST_BIND, NULL, index, 3, packet), -1);
		ck_assert_int_eq(errno, EACCES);
	}
	if (packet > 0)
		close(packet);
	end_parent();
}
END_TEST

static unsigned
count_descriptors(void)
{
	char path[64];
	unsigned n = 0;
	DIR *dir;

	PR_PRINT(path, "/proc/%d/fd", (int)t.pid);
	dir = opendir(path);
	ck_assert_ptr_nonnull(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* It closes what it has sent after the answer is here: given time to. */
static bool
keeps(unsigned descriptors)
{
	for (int tries = 0; tries < 500; tries++) {
		if (count_descriptors() == descriptors)
			return true;
		poll(NULL, 0, 10);
	}
	return false;
}

/* Sends bytes as they are, with `fds` copies of a descriptor; returns the error of the answer. */
static int
raw(const void *bytes, size_t len, unsigned fds)
{
	char room[CMSG_SPACE(16 * sizeof(int))] = {0};
	struct pr_request_answer answer;
	struct iovec io = {(void *)(uintptr_t)bytes, len};
	struct msghdr msg = {.msg_iov = &io, .msg_iovlen = 1};
	struct cmsghdr *c;

	if (fds) {
		msg.msg_control = room;
		msg.msg_controllen = CMSG_SPACE(fds * sizeof(int));
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(fds * sizeof(int));
		for (unsigned i = 0; i < fds; i++)
			memcpy(CMSG_DATA(c) + i * sizeof(int), &t.fd, sizeof(int));
	}
	ck_assert_int_eq(sendmsg(t.fd, &msg, 0), (ssize_t)len);
	ck_assert_int_eq(recv(t.fd, &answer, sizeof answer, 0), sizeof answer);
	return answer.error;
}

START_TEST(malformed)
{
	struct pr_request_message m = {.kind = PR_REQUEST_OPEN, .a = O_RDONLY};
	size_t fixed = offsetof(struct pr_request_message, name), name;
	char longer[sizeof m + 64];
	unsigned before;

	start_parent(true);
	before = count_descriptors();
	name = strlen(t.readable);
	memcpy(m.name, t.readable, name);
	ck_assert_int_eq(raw(&m, fixed + name + 1, 0), 0);
	for (size_t len = 1; len < fixed + name + 1; len++)
		ck_assert_int_eq(raw(&m, len, len % 3), EINVAL);
	ck_assert_int_eq(raw(&m, fixed + name + 2, 0), EINVAL); /* NUL and more */
	memset(longer, 'x', sizeof longer);
	memcpy(longer, &m, fixed);
	ck_assert_int_eq(raw(longer, sizeof longer, 1), EINVAL);
	ck_assert_int_eq(
		raw(&m, fixed + name + 1, 2), EINVAL); /* more descriptors than one */
	ck_assert_int_eq(raw(&m, fixed + name + 1, 16), EINVAL);
	for (unsigned i = 0; i < 40; i++) {
		m.kind = i < 8 ? (uint32_t)PR_REQUESTS + i : UINT32_MAX - i;
		ck_assert_int_eq(raw(&m, fixed + name + 1, i % 2), EINVAL);
	}
	ck_assert(keeps(before));
	end_parent();
}
END_TEST

/* It answers each, keeps no descriptor, opens nothing that was not named, and lives. */
START_TEST(random_requests)
{
	uint32_t words[64];
	unsigned before, allowed = 0;

	start_parent(true);
	before = count_descriptors();
	srand(15);
	for (unsigned i = 0; i < 20000; i++) {
		size_t len = 1 + (size_t)rand() % sizeof words;

		for (size_t k = 0; k < PR_COUNT(words); k++)
			words[k] = rand() % 3 ? (uint32_t)rand() : (uint32_t)rand() % 20;
		words[0] = (uint32_t)rand() % 7;
		/* a packet socket may be had, but bound to nothing */
		allowed += raw(words, len, (unsigned)rand() % 3) == 0;
	}
	ck_assert_uint_lt(allowed, 100);
	ck_assert_int_eq(opening(t.readable, O_RDONLY), 0);
	ck_assert(keeps(before));
	end_parent();
}
END_TEST

/* ---- the sandbox ---- */

enum { OK = 0, SET_UP = 100 };

/* What a daemon's process may do; its exit status says what it could and must not, or could not and must. */
static int
in_sandbox(const char *dir)
{
	struct pr_sandbox s = {.program = PR_SANDBOX_MERGER};
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	char path[96], *const argv[] = {(char *)"true", NULL};
	struct pr_error err;
	int fd, udp;

	if (geteuid() == 0 && chown(dir, 65534, 65534) < 0)
		return SET_UP;
	s.user = geteuid() == 0 ? "nobody" : NULL;
	pr_sandbox_write(&s, dir);
	if (pr_sandbox_enter(&s, &err) < 0)
		return SET_UP + 1;
	if (geteuid() == 0 || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
		return 1;
	if (setuid(0) == 0 || setgid(0) == 0)
		return 2;
	if (execv("/bin/true", argv) == 0 || errno != EPERM)
		return 3;
	if (fork() >= 0)
		return 4;
	if (socket(AF_PACKET, SOCK_RAW, 0) >= 0 || errno != EPERM)
		return 5;
	if (open("/tmp/packrack-privilege-no", O_CREAT | O_RDWR, 0600) >= 0 ||
		(errno != EACCES && errno != EPERM))
		return 6;
	if (open("/etc/passwd", O_RDONLY) < 0)
		return 7;
	PR_PRINT(path, "%s/file", dir);
	fd = open(path, O_CREAT | O_RDWR, 0600);
	if (fd < 0 || write(fd, "x", 1) != 1 || unlink(path) < 0)
		return 8;
	PR_PRINT(at.sun_path, "%s/socket", dir);
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	if (bind(fd, (struct sockaddr *)&at, sizeof at) < 0)
		return 9;
	udp = socket(AF_INET, SOCK_DGRAM, 0);
	at.sun_path[strlen(at.sun_path) - 1]++;
	if (pr_sandbox_seal(&err) < 0 || udp < 0)
		return 10;
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	if (bind(fd, (struct sockaddr *)&at, sizeof at) == 0 || errno != EPERM)
		return 11;
	if (kill(getppid(), 0) == 0)
		return 12;
	return OK;
}

/* Sanitizers need system calls that are forbidden here. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

START_TEST(gives_up)
{
	char dir[] = "/tmp/packrack-sandbox.XXXXXX", command[80];
	int status;
	pid_t pid;

	ck_assert_ptr_nonnull(mkdtemp(dir));
	pid = fork();
	if (pid == 0)
		_exit(in_sandbox(dir));
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	PR_PRINT(command, "rm -rf -- '%s'", dir);
	ck_assert_int_eq(system(command), 0);
	ck_assert(WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), OK);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("privilege");
	TCase *tc = tcase_create("requests");
	SRunner *sr;
	int failed;

	tcase_add_test(tc, opens_what_the_command_line_names);
	tcase_add_test(tc, opens_nothing_else);
	tcase_add_test(tc, opens_in_no_other_way);
	tcase_add_test(tc, follows_no_link);
	tcase_add_loop_test(tc, interfaces_and_sockets, 0, 2);
	tcase_add_test(tc, malformed);
	tcase_add_test(tc, random_requests);
	if (!SANITIZED)
		tcase_add_test(tc, gives_up);
	suite_add_tcase(s, tc);
	sr = srunner_create(s);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed != 0;
}
