/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
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

struct out {
	char *at;
	size_t len, room;
	bool full; /* nothing more goes in: no second half after a gap */
};

static void
put(struct out *o, const char *text, size_t len)
{
	o->full |= o->len + len > o->room;
	if (o->full)
		return;
	memcpy(o->at + o->len, text, len);
	o->len += len;
}

static void
puts_to(struct out *o, const char *text)
{
	put(o, text, strlen(text));
}

/* Names and texts come from other machines: a line break or an escape in one must not forge a line. */
static void
put_plain(struct out *o, const char *s)
{
	for (; *s && !o->full; s++)
		put(o, (unsigned char)*s < ' ' || *s == 0x7f ? "?" : s, 1);
}

/* As a JSON string's inside. Jansson would want memory, of which there may be none just when we speak. */
static void
put_json(struct out *o, const char *s)
{
	while (*s && !o->full) {
		size_t n = pr_utf8_length(s);

		if (*s == '"' || *s == '\\') {
			char pair[2] = {'\\', *s};

			put(o, pair, 2);
		} else if (n == 0 || (unsigned char)*s < ' ' || *s == 0x7f) {
			put(o, "?", 1);
		} else {
			put(o, s, n);
		}
		s += n ? n : 1;
	}
}

static void
put_member(struct out *o, const char *name, const char *text)
{
	puts_to(o, o->at[o->len - 1] == '{' ? "\"" : ",\"");
	put_json(o, name);
	puts_to(o, "\":\"");
	if (o->full)
		return;
	o->room -= 1; /* for its quote */
	put_json(o, text);
	o->room += 1;
	o->at[o->len++] = '"';
}

/* Copies the path of a source file without its ".c" to room, and returns room. */
static const char *
where(const char *file, char *room, size_t size)
{
	size_t len = strlen(file);

	if (len > 2 && strcmp(file + len - 2, ".c") == 0)
		len -= 2;
	snprintf(room, size, "%.*s", (int)len, file);
	return room;
}

static void
json_line(struct out *o, const struct pr_log_line *l)
{
	char room[128];

	put(o, "{", 1);
	put_member(o, "time", pr_time_format(l->time, room, sizeof room));
	put_member(o, "level", level_names[l->level]);
	put_member(o, "program", l->program);
	put_member(o, "where", where(l->file, room, sizeof room));
	put_member(o, "what", l->text);
	for (const struct pr_log_field *f = l->fields; f && f->name && !o->full; f++) {
		size_t before = o->len;

		put_member(o, f->name, f->text);
		if (o->full) /* a field is whole or not there */
			o->len = before;
	}
	o->room += END_ROOM;
	o->full = false;
	put(o, "}", 1);
}

/* Quoted where a blank or a quote would end it. */
static void
put_field(struct out *o, const struct pr_log_field *f)
{
	bool quote = !*f->text || strpbrk(f->text, " \t\"=\\") != NULL;

	puts_to(o, " ");
	puts_to(o, f->name);
	puts_to(o, quote ? "=\"" : "=");
	put_json(o, f->text);
	puts_to(o, quote ? "\"" : "");
}

static void
text_line(struct out *o, const struct pr_log_line *l)
{
	char room[128];

	puts_to(o, pr_time_format(l->time, room, sizeof room));
	puts_to(o, " ");
	puts_to(o, level_names[l->level]);
	puts_to(o, " ");
	puts_to(o, l->program);
	puts_to(o, " ");
	puts_to(o, where(l->file, room, sizeof room));
	puts_to(o, ": ");
	put_plain(o, l->text);
	for (const struct pr_log_field *f = l->fields; f && f->name; f++)
		put_field(o, f);
}

static void
auto_line(struct out *o, const struct pr_log_line *l, bool journal)
{
	if (!journal) {
		puts_to(o, l->program);
		puts_to(o, ": ");
		puts_to(o, level_names[l->level]);
		puts_to(o, ": ");
	}
	put_plain(o, l->text);
}

size_t
pr_log_line_put(char out[PR_LOG_LINE_MAX], const struct pr_log_line *line,
	enum pr_log_format format, int journal)
{
	struct out o = {.at = out, .room = PR_LOG_LINE_MAX - END_ROOM - 1};
	char priority[8];

	if (journal) {
		snprintf(priority, sizeof priority, "<%d>", level_priorities[line->level]);
		puts_to(&o, priority);
	}
	if (format == PR_LOG_JSON)
		json_line(&o, line);
	else if (format == PR_LOG_TEXT)
		text_line(&o, line);
	else
		auto_line(&o, line, journal);
	out[o.len++] = '\n';
	return o.len;
}

/* ---- writing it ---- */

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
