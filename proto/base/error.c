/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int
pr_error_set(struct pr_error *err, const char *fmt, ...)
{
	int saved = errno;

	if (err) {
		va_list ap;

		va_start(ap, fmt);
		vsnprintf(err->text, sizeof err->text, fmt, ap);
		va_end(ap);
	}
	errno = saved;
	return -1;
}

int
pr_error_errno(struct pr_error *err, const char *fmt, ...)
{
	int saved = errno;

	if (err) {
		char reason[128];
		size_t used;
		va_list ap;

		va_start(ap, fmt);
		vsnprintf(err->text, sizeof err->text, fmt, ap);
		va_end(ap);
		used = strlen(err->text);
		/* GNU strerror_r: returns the text, which need not be in the buffer */
		snprintf(err->text + used, sizeof err->text - used, ": %s",
			strerror_r(saved, reason, sizeof reason));
	}
	errno = saved;
	return -1;
}

int
pr_error_prefix(struct pr_error *err, const char *fmt, ...)
{
	int saved = errno;

	if (err) {
		char rest[sizeof err->text];
		size_t used;
		va_list ap;

		memcpy(rest, err->text, sizeof rest);
		va_start(ap, fmt);
		vsnprintf(err->text, sizeof err->text, fmt, ap);
		va_end(ap);
		used = strlen(err->text);
		snprintf(err->text + used, sizeof err->text - used, ": %s", rest);
	}
	errno = saved;
	return -1;
}
