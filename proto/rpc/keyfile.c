/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/rpc/keyfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define KEYFILE_MAX (1024 * 1024)

static int
check_mode(const char *path, bool private, const struct stat *st, struct pr_error *err)
{
	if (!S_ISREG(st->st_mode))
		return pr_error_set(err, "key file %s: not a regular file", path);
	if (private && st->st_mode & 077)
		return pr_error_set(err,
			"key file %s: others may read it (mode %03o); chmod 600 it and, if "
			"they may have, make a new key",
			path, (unsigned)(st->st_mode & 0777));
	if (st->st_mode & 022)
		return pr_error_set(err,
			"key file %s: others may change it (mode %03o); chmod 644 it", path,
			(unsigned)(st->st_mode & 0777));
	if (st->st_uid != geteuid() && st->st_uid != 0)
		return pr_error_set(err,
			"key file %s: belongs to user %u, not to us or root", path,
			(unsigned)st->st_uid);
	if (st->st_size > KEYFILE_MAX)
		return pr_error_set(err, "key file %s: longer than 1 MiB", path);
	return 0;
}

static char *
read_all(int fd, size_t size)
{
	char *text = malloc(size + 1);
	size_t used = 0;
	ssize_t n = 0;

	if (!text)
		return NULL;
	while (used < size && (n = read(fd, text + used, size - used)) > 0)
		used += (size_t)n;
	text[used] = 0;
	if (n < 0) {
		free(text);
		return NULL;
	}
	return text;
}

char *
pr_keyfile_read(const char *path, bool private, struct stat *st, struct pr_error *err)
{
	struct stat own;
	char *text = NULL;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (!st)
		st = &own;
	if (fd < 0 || fstat(fd, st) < 0)
		pr_error_errno(err, "key file %s", path);
	else if (check_mode(path, private, st, err) == 0) {
		text = read_all(fd, (size_t)st->st_size);
		if (!text)
			pr_error_errno(err, "key file %s", path);
	}
	if (fd >= 0)
		close(fd);
	return text;
}
