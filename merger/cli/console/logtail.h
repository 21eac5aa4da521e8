/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_CONSOLE_LOGTAIL_H
#define PR_CONSOLE_LOGTAIL_H

#include <stdbool.h>
#include <sys/stat.h>

/* The last lines of a log file that others write, shorten or replace. */
#define LOGTAIL_BYTES 65536

struct logtail {
	const char *path; /* borrowed */
	char text[LOGTAIL_BYTES + 2]; /* whole lines, NUL-terminated */
	char error[256]; /* "" when text is good */
	struct stat last;
};

/* Reads it again if it has changed; true: it had. */
bool logtail_read(struct logtail *t);

#endif
