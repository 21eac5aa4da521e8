/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "proto/base/log_line.h"

static const char *log_program = "packrack";
static enum pr_log_level log_level = PR_LOG_INFO;
static enum pr_log_format log_format = PR_LOG_AUTO;
static bool log_journal;

const char *const pr_log_formats[] = {"auto", "text", "json", NULL};

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

void
pr_log_set_format(enum pr_log_format format)
{
	log_format = format;
}

static void
say(const struct pr_log_line *line)
{
	char bytes[PR_LOG_LINE_MAX];
	size_t len = pr_log_line_put(bytes, line, log_format, log_journal);

	/* one write a line, so that threads' lines do not mix; a lost line has nowhere to go */
	if (write(STDERR_FILENO, bytes, len) < 0)
		return;
}

void
pr_log_at(enum pr_log_level level, const char *file, const struct pr_log_field *fields,
	const char *fmt, ...)
{
	int saved = errno;
	char text[1024];
	struct pr_log_line line = {.time = pr_now_real(),
		.level = level,
		.program = log_program,
		.file = file,
		.text = text,
		.fields = fields};
	va_list ap;

	if (level > log_level)
		return;
	errno = saved; /* for %m */
	va_start(ap, fmt);
	if (vsnprintf(text, sizeof text, fmt, ap) < 0)
		text[0] = '\0';
	va_end(ap);
	say(&line);
	errno = saved;
}

void
pr_log_last(const char *program, const char *text)
{
	struct pr_log_line line = {.time = pr_now_real(),
		.level = PR_LOG_ERROR,
		.program = program,
		.file = "main",
		.text = text};

	if (log_format == PR_LOG_AUTO && !log_journal)
		fprintf(stderr, "%s: %s\n", program, text);
	else
		say(&line);
}
