/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "proto/base/text.h"

/* ---- a line as bytes ---- */

#define END_ROOM 8 /* for what closes a line that was cut */

static const char *const level_names[] = {"error", "warning", "info", "debug"};
static const int level_priorities[] = {LOG_ERR, LOG_WARNING, LOG_INFO, LOG_DEBUG};

/* Names and texts come from other machines: a line break or an escape in one must not forge a line. */
static void
put_plain(struct pr_text *o, const char *s)
{
	for (size_t n; *s && !o->full; s += n ? n : 1) {
		n = pr_text_plain(s);
		pr_text_put(o, n ? s : "?", n ? n : 1);
	}
}

static void
put_member(struct pr_text *o, const char *name, const char *text)
{
	pr_text_puts(o, o->at[o->len - 1] == '{' ? "\"" : ",\"");
	pr_text_put_escaped(o, name);
	pr_text_puts(o, "\":");
	pr_text_put_quoted(o, text);
}

static void
json_line(struct pr_text *o, const struct pr_log_line *l, const char *where)
{
	char time[PR_TIME_TEXT];

	pr_text_puts(o, "{");
	put_member(o, "time", pr_time_format(l->time, time, sizeof time));
	put_member(o, "level", level_names[l->level]);
	put_member(o, "program", l->program);
	put_member(o, "where", where);
	put_member(o, "what", l->text);
	for (const struct pr_log_field *f = l->fields; f && f->name && !o->full; f++) {
		size_t before = o->len;

		put_member(o, f->name, f->text);
		if (o->full) /* a field is whole or not there */
			o->len = before;
	}
	o->room += END_ROOM;
	o->full = false;
	pr_text_puts(o, "}");
}

size_t
pr_log_line_put(char out[PR_LOG_LINE_MAX], const struct pr_log_line *line,
	enum pr_log_format format, int journal)
{
	struct pr_text o = {.at = out, .room = PR_LOG_LINE_MAX - END_ROOM - 1};
	const char *level = level_names[line->level];
	char head[256], time[PR_TIME_TEXT], where[128];
	size_t len = strlen(line->file);

	/* the source file's path without its ".c" */
	if (len > 2 && strcmp(line->file + len - 2, ".c") == 0)
		len -= 2;
	snprintf(where, sizeof where, "%.*s", (int)len, line->file);
	if (journal) {
		snprintf(head, sizeof head, "<%d>", level_priorities[line->level]);
		pr_text_puts(&o, head);
	}
	if (format == PR_LOG_JSON) {
		json_line(&o, line, where);
	} else if (format == PR_LOG_TEXT) {
		snprintf(head, sizeof head,
			"%s %s %s %s: ", pr_time_format(line->time, time, sizeof time),
			level, line->program, where);
		pr_text_puts(&o, head);
		put_plain(&o, line->text);
		for (const struct pr_log_field *f = line->fields; f && f->name; f++) {
			/* quoted where a blank or a quote would end it */
			bool quote = !*f->text || strpbrk(f->text, " \t\"=\\") != NULL;

			pr_text_puts(&o, " ");
			pr_text_puts(&o, f->name);
			pr_text_puts(&o, quote ? "=\"" : "=");
			pr_text_put_escaped(&o, f->text);
			pr_text_puts(&o, quote ? "\"" : "");
		}
	} else {
		snprintf(head, sizeof head, "%s: %s: ", line->program, level);
		pr_text_puts(&o, journal ? "" : head);
		put_plain(&o, line->text);
	}
	out[o.len++] = '\n';
	return o.len;
}

/* ---- writing it ---- */

static const char *log_program = "packrack";
static enum pr_log_level log_level = PR_LOG_INFO;
static enum pr_log_format log_format = PR_LOG_AUTO;
static bool log_journal;

const char *const pr_log_formats[] = {"auto", "text", "json", NULL};

void
pr_log_open(const char *program, enum pr_log_level level, enum pr_log_format format)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long dev, ino;
	struct stat st;

	log_program = program;
	log_level = level;
	log_format = format;
	/*
	 * Children inherit the variable even if their stderr is elsewhere: so compares
	 * device and inode.
	 */
	log_journal = stream && sscanf(stream, "%llu:%llu", &dev, &ino) == 2 &&
		      fstat(STDERR_FILENO, &st) == 0 && st.st_dev == (dev_t)dev &&
		      st.st_ino == (ino_t)ino;
}

static void
say(const struct pr_log_line *line)
{
	char bytes[PR_LOG_LINE_MAX];
	size_t len = pr_log_line_put(bytes, line, log_format, log_journal);

	/*
	 * one write a line, so that threads' lines do not mix; an error cannot be reported
	 */
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
