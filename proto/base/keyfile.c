/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/keyfile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "proto/base/privilege.h"
#include "proto/base/text.h"

#define KEYFILE_MAX (1024 * 1024)

/*
 * True if the owner is us or root; for root also the owner of the directory, because root
 * manages the keys of a daemon's user.
 */
static bool
owner_good(const char *path, uid_t owner)
{
	char dir[PATH_MAX];
	const char *slash = strrchr(path, '/');
	struct stat st;

	if (owner == geteuid() || owner == 0)
		return true;
	PR_PRINT(dir, "%.*s", slash ? (int)(slash - path + 1) : 1, slash ? path : ".");
	return geteuid() == 0 && stat(dir, &st) == 0 && st.st_uid == owner &&
	       !(st.st_mode & 022);
}

static int
check_mode(const char *path, bool private, const struct stat *st, struct pr_error *err)
{
	errno = EPERM;
	if (!S_ISREG(st->st_mode))
		return pr_error_set(err, "key file %s: not a regular file", path);
	if (private && st->st_mode & 077)
		return pr_error_set(err,
			"key file %s: others may read it (mode %03o); chmod 600 it and, if "
			"they may have, make a new key",
			path, st->st_mode & 0777);
	if (st->st_mode & 022)
		return pr_error_set(err,
			"key file %s: others may change it (mode %03o); chmod 600 it", path,
			st->st_mode & 0777);
	if (!owner_good(path, st->st_uid)) {
		errno = EPERM;
		return pr_error_set(err,
			"key file %s: belongs to user %u, not to us or root", path,
			st->st_uid);
	}
	if (st->st_size > KEYFILE_MAX)
		return pr_error_set(err, "key file %s: longer than 1 MiB", path);
	return 0;
}

static char *
read_all(int fd, size_t size)
{
	char *text = sodium_init() < 0 ? NULL : sodium_malloc(size + 1);
	size_t used = 0;
	ssize_t n = 0;

	if (!text)
		return NULL;
	while (used < size && (n = read(fd, text + used, size - used)) > 0)
		used += n;
	text[used] = 0;
	if (n < 0 || strlen(text) != used) {
		errno = n < 0 ? errno : EILSEQ;
		sodium_free(text);
		return NULL;
	}
	return text;
}

char *
pr_keyfile_read(const char *path, bool private, struct stat *st, struct pr_error *err)
{
	struct stat own;
	char *text = NULL;
	int fd = pr_privilege_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (!st)
		st = &own;
	if (fd < 0 || fstat(fd, st) < 0)
		pr_error_errno(err, "key file %s", path);
	else if (check_mode(path, private, st, err) == 0) {
		if (private)
			prctl(PR_SET_DUMPABLE, 0);
		text = read_all(fd, st->st_size);
		if (!text && errno == EILSEQ)
			pr_error_set(err, "key file %s: no text: it holds NUL bytes", path);
		else if (!text)
			pr_error_errno(err, "key file %s", path);
	}
	pr_close(fd);
	return text;
}

void
pr_keyfile_free(char *text)
{
	if (text)
		sodium_free(text);
}

int
pr_keydir_check(const char *path, struct pr_error *err)
{
	struct stat st;

	if (pr_privilege_stat(path, &st) < 0)
		return pr_error_errno(err, "key directory %s", path);
	if (!S_ISDIR(st.st_mode))
		return pr_error_set(err, "key directory %s: not a directory", path);
	if (st.st_mode & 077)
		return pr_error_set(err,
			"key directory %s: open to others (mode %03o); chmod 700 it", path,
			st.st_mode & 0777);
	if (st.st_uid != geteuid() && st.st_uid != 0 && geteuid() != 0)
		return pr_error_set(err,
			"key directory %s: belongs to user %u, not to us or root", path,
			st.st_uid);
	return 0;
}
