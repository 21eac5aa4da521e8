/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/netdev_tc.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>

/* Late, so that filters of others go first; its own, so that ours can be found and taken away. */
#define PRIO "49152"
/* return TC_ACT_SHOT, as a direct action */
#define DROP "1,6 0 0 2,"

/* posix_spawn's environment and nothing else: the daemon's own may hold anything. */
static char *const tc_env[] = {(char *)"PATH=/usr/sbin:/sbin:/usr/bin:/bin", NULL};

static int
spawn_tc(const char *const argv[], pid_t *pid)
{
	static const char *const paths[] = {
		"/usr/sbin/tc", "/sbin/tc", "/usr/bin/tc", "/bin/tc"};
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none;
	int rc = ENOENT;

	sigemptyset(&none);
	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
	for (int fd = 0; fd <= 2; fd++)
		posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
	for (unsigned i = 0; rc == ENOENT && i < sizeof paths / sizeof paths[0]; i++)
		rc = posix_spawn(pid, paths[i], &actions, &attr,
			(char *const *)(uintptr_t)argv, tc_env);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&actions);
	return rc;
}

/* Exit status of tc, or -1 when it could not be run. */
static int
run_tc(const char *const argv[])
{
	pid_t pid;
	int status = 0, rc = spawn_tc(argv, &pid);

	if (rc != 0) {
		errno = rc;
		return -1;
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static int
filter_delete(const char *name)
{
	const char *const argv[] = {
		"tc", "filter", "del", "dev", name, "ingress", "prio", PRIO, NULL};

	return run_tc(argv);
}

int
pr_tc_drop(struct pr_netdev *dev, struct pr_error *err)
{
	const char *const qdisc[] = {
		"tc", "qdisc", "add", "dev", dev->name, "clsact", NULL};
	const char *const filter[] = {"tc", "filter", "add", "dev", dev->name, "ingress",
		"protocol", "all", "prio", PRIO, "bpf", "da", "bytecode", DROP, NULL};
	int rc = run_tc(qdisc);

	if (rc < 0)
		return pr_error_errno(err, "cannot run tc (install iproute2): the kernel "
					   "takes part in traffic");
	dev->added_clsact =
		rc == 0; /* else there is one already, or the filter will fail */
	filter_delete(dev->name); /* what a killed run has left */
	if (run_tc(filter) != 0)
		return pr_error_set(err,
			"tc cannot drop what comes in (root, and cls_bpf in the kernel?): "
			"the kernel takes part in traffic");
	dev->added_filter = true;
	return 0;
}

void
pr_tc_undo(struct pr_netdev *dev)
{
	const char *const qdisc[] = {
		"tc", "qdisc", "del", "dev", dev->name, "clsact", NULL};

	if (dev->added_filter)
		filter_delete(dev->name);
	if (dev->added_clsact)
		run_tc(qdisc);
	dev->added_filter = dev->added_clsact = false;
}
