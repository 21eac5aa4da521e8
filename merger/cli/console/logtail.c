/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/console/logtail.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void
failed(struct logtail *t)
{
	snprintf(t->error, sizeof(t->error), "%s: %s", t->path, strerror(errno));
	t->text[0] = '\0';
	memset(&t->last, 0, sizeof(t->last));
}

/* A first line that began before what was read is left out; a NUL byte would end the text. */
static void
make_lines(struct logtail *t, size_t len, bool begun)
{
	char *first = t->text;

	for (size_t i = 0; i < len; i++)
		if (!t->text[i])
			t->text[i] = '?';
	if (len && t->text[len - 1] != '\n')
		t->text[len++] = '\n';
	t->text[len] = '\0';
	if (begun && (first = strchr(t->text, '\n')))
		memmove(t->text, first + 1, strlen(first + 1) + 1);
}

static bool
same(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_dev == b->st_dev &&
	       a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
	       a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

bool
logtail_read(struct logtail *t)
{
	/* a pipe or device by that name must not hang the console */
	int fd = open(t->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	ssize_t n;
	off_t at;

	if (fd < 0 || fstat(fd, &st) < 0) {
		failed(t);
	} else if (!S_ISREG(st.st_mode)) {
		snprintf(t->error, sizeof(t->error), "%s is no plain file", t->path);
	} else if (!same(&st, &t->last) || t->error[0]) {
		at = st.st_size > LOGTAIL_BYTES ? st.st_size - LOGTAIL_BYTES : 0;
		n = pread(fd, t->text, LOGTAIL_BYTES, at);
		if (n < 0) {
			failed(t);
		} else {
			make_lines(t, (size_t)n, at > 0);
			t->error[0] = '\0';
			t->last = st;
		}
	} else {
		close(fd);
		return false;
	}
	if (fd >= 0)
		close(fd);
	return true;
}
