/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Fills *err with the text, and ": " and the rest if there is one. */
static int
fill(struct pr_error *err, const char *rest, const char *fmt, va_list ap)
{
	int saved = errno;

	if (err) {
		vsnprintf(err->text, sizeof err->text, fmt, ap);
		size_t used = strlen(err->text);
		snprintf(err->text + used, sizeof err->text - used, "%s%s",
			rest ? ": " : "", rest ? rest : "");
	}
	errno = saved;
	return -1;
}

int
pr_error_set(struct pr_error *err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fill(err, NULL, fmt, ap);
	va_end(ap);
	return -1;
}

int
pr_error_errno(struct pr_error *err, const char *fmt, ...)
{
	int saved = errno;
	char reason[128];
	va_list ap;

	va_start(ap, fmt);
	/* GNU strerror_r: returns the text, which need not be in the buffer */
	fill(err, strerror_r(saved, reason, sizeof reason), fmt, ap);
	va_end(ap);
	errno = saved;
	return -1;
}

int
pr_error_prefix(struct pr_error *err, const char *fmt, ...)
{
	const struct pr_error rest = err ? *err : (struct pr_error){""};
	va_list ap;

	va_start(ap, fmt);
	fill(err, rest.text, fmt, ap);
	va_end(ap);
	return -1;
}

void
pr_close(int fd)
{
	int saved = errno;

	if (fd >= 0)
		close(fd);
	errno = saved;
}
