/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/landlock.h>
#include <pwd.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proto/base/array.h"
#include "proto/base/log.h"
#include "proto/base/runtime_dir.h"
#include "proto/base/thread.h"

enum { FILES_MAX = 65536, NOBODY = 65534 };

/* ---- capabilities ---- */

static struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};

bool
pr_sandbox_privileged(void)
{
	struct __user_cap_data_struct data[2] = {{0}};

	syscall(SYS_capget, &head, data);
	return data[0].effective || data[1].effective;
}

/* Only root may do this; for others no_new_privs makes the bounding set useless. */
static void
shrink_bounds(uint64_t caps)
{
	for (unsigned cap = 0; cap < 64; cap++)
		if (!(caps & PR_CAP(cap)))
			prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
}

int
pr_sandbox_keep(uint64_t caps, struct pr_error *err)
{
	struct __user_cap_data_struct data[2] = {{0}};

	shrink_bounds(caps);
	if (caps == 0)
		prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	syscall(SYS_capget, &head, data);
	for (unsigned i = 0; i < 2; i++) {
		data[i].permitted &= caps >> 32 * i;
		data[i].effective = data[i].permitted;
		data[i].inheritable &= data[i].permitted;
	}
	if (syscall(SYS_capset, &head, data) < 0 ||
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return pr_error_errno(err, "cannot give up capabilities");
	return 0;
}

/* ---- the user ---- */

/* What the daemon does later without being root: locked memory, priority to capture, many peers. */
static void
raise_limits(bool captures)
{
	static const struct rlimit memory = {RLIM_INFINITY, RLIM_INFINITY},
				   nice = {20 - PR_NICE_CAPTURE, 20 - PR_NICE_CAPTURE};
	struct rlimit files;

	setrlimit(RLIMIT_MEMLOCK, &memory);
	/* a container's root may not raise it, but may have priority: then all threads, as by the units */
	if (setrlimit(RLIMIT_NICE, &nice) < 0 && captures)
		pr_priority_thread(PR_NICE_STORE);
	if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_max < FILES_MAX) {
		files.rlim_max = FILES_MAX;
		setrlimit(RLIMIT_NOFILE, &files);
	}
}

static bool told_user; /* or there is nothing to tell */

/* Groups go as well: membership of the group disk would open every disk. */
static int
become(const char *user, bool captures, struct pr_error *err)
{
	const struct passwd *p = getpwnam(user ? user : PR_SANDBOX_USER);
	uid_t uid = p ? p->pw_uid : NOBODY;
	gid_t gid = p ? p->pw_gid : NOBODY;

	if (!p && user)
		return pr_error_set(err, "--user %s: no such user", user);
	told_user = p;
	raise_limits(captures);
	if (uid != 0) /* what fails here fails again where it is needed */
		pr_runtime_give(uid, gid, NULL);
	unsetenv("XDG_RUNTIME_DIR"); /* of root's session */
	shrink_bounds(0);
	prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0); /* until the caller drops them */
	if (setgroups(1, &gid) < 0 || setresgid(gid, gid, gid) < 0 ||
		setresuid(uid, uid, uid) < 0)
		return pr_error_errno(err, "cannot become user %u", uid);
	return 0;
}

/* ---- files: Landlock ---- */

#ifndef LANDLOCK_ACCESS_FS_TRUNCATE
#define LANDLOCK_ACCESS_FS_TRUNCATE (1ULL << 14)
#endif
#define LANDLOCK_FILE_WRITES (LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_TRUNCATE)
#define LANDLOCK_WRITES                                                                    \
	(LANDLOCK_FILE_WRITES | LANDLOCK_ACCESS_FS_REMOVE_DIR |                            \
		LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR |             \
		LANDLOCK_ACCESS_FS_MAKE_SYM | LANDLOCK_ACCESS_FS_MAKE_REG |                \
		LANDLOCK_ACCESS_FS_MAKE_SOCK)
/* Version 1's: everything up to MAKE_SYM, but reading. */
#define LANDLOCK_ALL                                                                       \
	(((LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1) &                                        \
		~(uint64_t)(LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR))

void
pr_sandbox_write(struct pr_sandbox *s, const char *path)
{
	const char *file = strncmp(path, "ipc://", 6) ? NULL : path + 6, *slash;
	size_t len = strlen(path);

	if (file) {
		slash = strrchr(file, '/');
		path = slash ? file : "./";
		len = slash ? slash - file + 1 : 2;
	}
	pr_string_list_add(&s->writes, path, len, NULL);
}

static int
landlock_rule(int set, const char *path, uint64_t access)
{
	struct landlock_path_beneath_attr rule = {access, open(path, O_PATH | O_CLOEXEC)};
	struct stat st;

	if (rule.parent_fd < 0 || fstat(rule.parent_fd, &st) < 0)
		return 0; /* it is not there */
	if (!S_ISDIR(st.st_mode))
		rule.allowed_access &= LANDLOCK_FILE_WRITES;
	int rc = syscall(SYS_landlock_add_rule, set, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
	close(rule.parent_fd);
	return rc;
}

/* Writes only where it is told to, and executes nothing. */
static int
restrict_files(struct pr_sandbox *s, struct pr_error *err)
{
	static const char *const always[] = {"/dev/shm", "/dev/null", "/run/packrack"};
	int version = syscall(
		SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	struct landlock_ruleset_attr attr = {
		.handled_access_fs =
			LANDLOCK_ALL | (version < 3 ? 0 : LANDLOCK_ACCESS_FS_TRUNCATE)};
	int rc = 0;

	if (version < 1) {
		pr_log_info("this kernel has no Landlock: files are protected by their "
			    "modes only");
		return 0;
	}
	int set = syscall(SYS_landlock_create_ruleset, &attr, sizeof attr, 0);
	for (size_t i = 0; i < PR_COUNT(always); i++)
		rc |= landlock_rule(
			set, always[i], LANDLOCK_WRITES & attr.handled_access_fs);
	for (size_t i = 0; i < s->writes.count; i++)
		rc |= landlock_rule(
			set, s->writes.items[i], LANDLOCK_WRITES & attr.handled_access_fs);
	if (set < 0 || rc < 0 || syscall(SYS_landlock_restrict_self, set, 0) < 0)
		rc = pr_error_errno(err, "cannot use Landlock");
	close(set);
	return rc;
}

/* ---- system calls: seccomp ---- */

#define ALL                                                                                \
	(PR_SANDBOX_DISPATCHER | PR_SANDBOX_LOGGER | PR_SANDBOX_INDEXER | PR_SANDBOX_MERGER)
#define LOCKS (PR_SANDBOX_DISPATCHER | PR_SANDBOX_LOGGER)
#define VOLUME (PR_SANDBOX_LOGGER | PR_SANDBOX_INDEXER)

/*
 * All other calls are refused with EPERM, and are logged where the kernel audits. They do not kill: a call that
 * a new libc makes must not end a recording. clone3 is answered by ENOSYS, as its flags cannot be seen; libc
 * then takes clone, which may make threads only.
 */
static const struct {
	unsigned programs;
	const char *calls;
} allowed[] = {
	{ALL, "read write readv writev pread64 pwrite64 preadv pwritev lseek close dup "
	      "dup2 dup3 "
	      "fcntl fcntl64 pipe2 eventfd2 ftruncate fallocate fsync fdatasync flock"},
	{ALL, "open openat stat lstat fstat newfstatat statx access faccessat faccessat2 "
	      "readlink readlinkat getcwd getdents64 statfs fstatfs unlink unlinkat rename "
	      "renameat renameat2 symlink symlinkat mkdir mkdirat rmdir chmod fchmod "
	      "fchmodat umask"},
	{ALL, "mmap munmap mprotect mremap madvise mlock mlock2 munlock mincore brk "
	      "memfd_create membarrier clone3 getcpu"},
	{ALL, "futex futex_time64 set_robust_list rseq exit exit_group restart_syscall "
	      "sched_yield sched_getaffinity sched_setaffinity sched_getparam "
	      "sched_getscheduler sched_setscheduler getpriority setpriority ioprio_set "
	      "prctl wait4 waitid"},
	{ALL, "rt_sigaction rt_sigprocmask rt_sigreturn rt_sigtimedwait sigaltstack tgkill "
	      "getpid "
	      "gettid getppid getuid geteuid getgid getegid getresuid getresgid getgroups "
	      "getrlimit setrlimit prlimit64 getrusage times sysinfo uname getrandom"},
	{ALL, "clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time "
	      "timerfd_create timerfd_settime timerfd_gettime getitimer setitimer alarm"},
	{ALL, "capget capset seccomp epoll_create1 epoll_create epoll_ctl epoll_wait "
	      "epoll_pwait epoll_pwait2 poll ppoll select pselect6 signalfd4"},
	{ALL, "socketpair bind listen connect accept accept4 sendto sendmsg sendmmsg "
	      "recvfrom "
	      "recvmsg recvmmsg getsockopt setsockopt getsockname getpeername shutdown"},
	/* to look at the clock: to set it takes a capability */
	{LOCKS, "adjtimex clock_adjtime clock_adjtime64"},
	{VOLUME, "io_uring_setup io_uring_enter io_uring_register fadvise64"}};
static const int families[] = {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK};

static int
allow_names(scmp_filter_ctx filter, const char *calls)
{
	char name[32];
	int used;

	for (; sscanf(calls, " %31s%n", name, &used) == 1; calls += used) {
		int number = seccomp_syscall_resolve_name(name);

		/* negative: of other machines */
		if (number >= 0 && seccomp_rule_add(filter, SCMP_ACT_ALLOW, number, 0) < 0)
			return -1;
	}
	return 0;
}

/* Calls of which only some uses are allowed. */
static int
allow_some(scmp_filter_ctx filter)
{
	int rc = 0;

	rc |= seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
		SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD));
	/* a terminal's input must not be typed into */
	rc |= seccomp_rule_add(
		filter, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 1, SCMP_A1(SCMP_CMP_NE, TIOCSTI));
	for (size_t i = 0; i < PR_COUNT(families); i++)
		rc |= seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1,
			SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)families[i]));
	return rc;
}

static int
load(scmp_filter_ctx filter, int rc, struct pr_error *err)
{
	if (rc == 0 && filter)
		rc = seccomp_load(filter);
	if (filter)
		seccomp_release(filter);
	if (rc == 0 && filter)
		return 0;
	errno = rc < 0 ? -rc : ENOMEM;
	return pr_error_errno(err, "cannot restrict system calls (seccomp)");
}

/* Refuses one call, in all threads, and allows all others. */
static int
refuse(int call, int error, struct pr_error *err)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
	int rc = 0;

	if (filter) {
		rc |= seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
		rc |= seccomp_rule_add(filter, SCMP_ACT_ERRNO(error), call, 0);
	}
	return load(filter, rc, err);
}

static int
restrict_calls(enum pr_sandbox_program program, struct pr_error *err)
{
	int rc = 0;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	return 0; /* sanitizers make calls of their own */
#endif
	/* a filter of its own, as what this one refuses is not logged */
	if (refuse(SCMP_SYS(clone3), ENOSYS, err) < 0)
		return -1;
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	for (size_t i = 0; filter && i < PR_COUNT(allowed); i++)
		if (allowed[i].programs & program)
			rc |= allow_names(filter, allowed[i].calls);
	if (filter) {
		rc |= allow_some(filter);
		rc |= seccomp_attr_set(filter, SCMP_FLTATR_CTL_LOG, 1);
		rc |= seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	}
	return load(filter, rc, err);
}

int
pr_sandbox_locked(struct pr_error *err)
{
	return pr_sandbox_keep(0, err);
}

int
pr_sandbox_seal(struct pr_error *err)
{
	if (!told_user && geteuid() == NOBODY)
		pr_log_warning("no user " PR_SANDBOX_USER
			       ": running as nobody; 'adduser --system " PR_SANDBOX_USER
			       "' makes one, or give --user");
	told_user = true;
	return refuse(SCMP_SYS(bind), EPERM, err);
}

/* ---- all of it ---- */

int
pr_sandbox_enter(struct pr_sandbox *s, struct pr_error *err)
{
	int rc = geteuid() == 0 ? become(s->user, s->program & LOCKS, err) : 0;

	if (rc == 0)
		rc = pr_sandbox_keep(s->program & LOCKS ? PR_CAP(CAP_IPC_LOCK) : 0, err);
	if (rc == 0)
		rc = restrict_files(s, err);
	pr_string_list_clear(&s->writes);
	return rc < 0 ? rc : restrict_calls(s->program, err);
}
