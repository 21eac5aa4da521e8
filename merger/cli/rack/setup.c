/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/rack/setup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const setup_verdicts[] = {"ok", "change", "cannot say"};

static struct setup_finding nowhere; /* where findings go when there is no memory */

struct setup_finding *
setup_add(struct setup *s, const char *topic, const char *where, enum setup_verdict verdict,
	const char *fmt, ...)
{
	struct setup_finding *grown = reallocarray(s->list, s->count + 1, sizeof *grown);
	struct setup_finding *f = grown ? &grown[s->count] : &nowhere;
	va_list ap;

	if (grown) {
		s->list = grown;
		s->count++;
	}
	s->failed |= !grown;
	*f = (struct setup_finding){.topic = topic, .verdict = verdict};
	snprintf(f->where, sizeof f->where, "%s", where);
	va_start(ap, fmt);
	vsnprintf(f->text, sizeof f->text, fmt, ap);
	va_end(ap);
	return f;
}

void
setup_add_file(struct setup *s, const char *topic, const char *path, const char *old,
	const char *value, const char *why)
{
	struct setup_finding *f =
		setup_add(s, topic, path, SETUP_CHANGE, "is %s: %s", old, why);

	snprintf(f->mend, sizeof f->mend, "echo %s > %s", value, path);
	snprintf(f->undo, sizeof f->undo, "echo %s > %s", old, path);
	f->fix = SETUP_FIX_FILE;
	snprintf(f->path, sizeof f->path, "%s", path);
	snprintf(f->value, sizeof f->value, "%s", value);
}

bool
setup_read(const struct setup *s, const char *path, char *out, size_t size)
{
	char whole[512];
	int fd, saved = errno;
	ssize_t n;

	if ((size_t)snprintf(whole, sizeof whole, "%s%s", s->root, path) >= sizeof whole)
		return false;
	fd = open(whole, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	n = fd < 0 ? -1 : read(fd, out, size - 1);
	if (fd >= 0)
		close(fd);
	errno = saved;
	if (n < 0)
		return false;
	out[n] = '\0';
	out[strcspn(out, "\n")] = '\0';
	/* it goes to the terminal: a copy of a machine may hold anything */
	for (char *c = out; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	return true;
}

bool
setup_read_number(const struct setup *s, const char *path, long long *out)
{
	char text[64], *end;

	if (!setup_read(s, path, text, sizeof text))
		return false;
	errno = 0;
	*out = strtoll(text, &end, 0);
	return end != text && errno == 0;
}
