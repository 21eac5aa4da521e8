/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/console/action.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "merger/cli/cli.h"

extern char **environ;

/* Its command line, in argv of 16. */
static void
words_of(const struct console_order *o, const char *merger, const char *key,
	const char **argv)
{
	size_t n = 0;

	argv[n++] = "packrack";
	argv[n++] = "data";
	argv[n++] = o->verb;
	argv[n++] = "--node";
	argv[n++] = o->node;
	argv[n++] = "--merger";
	argv[n++] = merger;
	if (key) {
		argv[n++] = "--key";
		argv[n++] = key;
	}
	if (!strcmp(o->verb, "delete"))
		argv[n++] = "--yes";
	if (o->text[0]) {
		argv[n++] = !strcmp(o->verb, "export") ? "--write"
			    : !strcmp(o->verb, "move") ? "--to"
						       : "--until";
		argv[n++] = o->text;
	}
	argv[n] = NULL;
}

static int
spawn(struct action *a, const char *const *argv, int out)
{
	posix_spawn_file_actions_t files;
	char *path = cli_program_beside("packrack");
	int rc = path ? posix_spawn_file_actions_init(&files) : -1;

	if (rc) {
		free(path);
		return -1;
	}
	rc = posix_spawn_file_actions_addopen(
		&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	if (rc == 0)
		rc = posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
	if (rc == 0)
		rc = posix_spawn_file_actions_adddup2(&files, out, STDERR_FILENO);
	if (rc == 0)
		rc = posix_spawn(&a->pid, path, &files, NULL,
			(char *const *)(uintptr_t)argv, environ);
	posix_spawn_file_actions_destroy(&files);
	free(path);
	errno = rc;
	return rc == 0 ? 0 : -1;
}

int
action_start(struct action *a, const struct console_order *order, const char *merger,
	const char *key, struct pr_error *err)
{
	const char *argv[16];
	int ends[2];

	if (a->pid)
		return pr_error_set(err, "the last order is still under way");
	if (pipe2(ends, O_CLOEXEC) < 0)
		return pr_error_errno(err, "%s", order->verb);
	*a = (struct action){.out = ends[0]};
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	words_of(order, merger, key, argv);
	if (spawn(a, argv, ends[1]) < 0) {
		a->pid = 0;
		pr_error_errno(err, "%s", order->verb);
		close(ends[0]);
	}
	close(ends[1]);
	return a->pid ? 0 : -1;
}

/* The first line is what matters; the rest is read so that it is not stopped. */
static void
listen_to(struct action *a)
{
	char buf[512];
	ssize_t got;

	while ((got = read(a->out, buf, sizeof(buf))) > 0)
		for (ssize_t i = 0; i < got; i++) {
			a->line |= buf[i] == '\n';
			if (!a->line && a->used + 1 < sizeof(a->text))
				a->text[a->used++] = buf[i];
		}
	a->text[a->used] = 0;
}

bool
action_ended(struct action *a, bool *ok)
{
	int status;

	if (!a->pid)
		return false;
	listen_to(a);
	if (waitpid(a->pid, &status, WNOHANG) != a->pid)
		return false;
	listen_to(a);
	close(a->out);
	a->pid = 0;
	*ok = WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 3);
	return true;
}
