/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

static const char *log_program = "packrack";
static enum pr_log_level log_level = PR_LOG_INFO;
static bool log_journal;

static const char *const level_names[] = {"error", "warning", "info", "debug"};
static const int level_priorities[] = {LOG_ERR, LOG_WARNING, LOG_INFO, LOG_DEBUG};

/* The variable is inherited by children whose stderr is elsewhere: it names device and inode. */
static bool
stderr_is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long dev, ino;
	struct stat st;

	return stream && sscanf(stream, "%llu:%llu", &dev, &ino) == 2 &&
	       fstat(STDERR_FILENO, &st) == 0 && st.st_dev == (dev_t)dev &&
	       st.st_ino == (ino_t)ino;
}

void
pr_log_open(const char *program, enum pr_log_level level)
{
	log_program = program;
	log_level = level;
	log_journal = stderr_is_journal();
}

/* Names come from other machines: a line break or an escape in one must not forge a line. */
static void
hide_controls(char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
			text[i] = '?';
}

/* Room for one byte more than *used counts, for the newline. */
static void
append(char *line, size_t room, size_t *used, const char *fmt, va_list ap)
{
	int n = vsnprintf(line + *used, room - *used, fmt, ap);

	if (n < 0)
		return;
	*used += (size_t)n < room - *used ? (size_t)n : room - *used - 1;
}

static void __attribute__((format(printf, 4, 5)))
appendf(char *line, size_t room, size_t *used, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	append(line, room, used, fmt, ap);
	va_end(ap);
}

void
pr_log(enum pr_log_level level, const char *fmt, ...)
{
	int saved = errno;
	char line[1024];
	size_t used = 0;
	va_list ap;

	if (level > log_level)
		return;
	if (log_journal)
		appendf(line, sizeof line, &used, "<%d>", level_priorities[level]);
	else
		appendf(line, sizeof line, &used, "%s: %s: ", log_program,
			level_names[level]);
	errno = saved; /* for %m */
	va_start(ap, fmt);
	append(line, sizeof line, &used, fmt, ap);
	va_end(ap);
	hide_controls(line, used);
	line[used++] = '\n';
	/* one write a line, so that threads' lines do not mix; a lost line has nowhere to go */
	if (write(STDERR_FILENO, line, used) < 0)
		errno = saved;
	errno = saved;
}
