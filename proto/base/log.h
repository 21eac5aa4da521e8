/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * A daemon's log lines, to stderr. Thread-safe; one write a line. Text from other machines
 * cannot forge a line: control characters are replaced, and in JSON also bytes that are not
 * UTF-8.
 *   auto   "PROGRAM: level: text"
 *   text   "TIME level PROGRAM WHERE: text key=value ..."
 *   json   {"time", "level", "program", "where", "what", and the fields}, one object a line
 * Where stderr is systemd's journal, a line begins with its priority, "<6>", and auto is
 * the text alone.
 */
enum pr_log_level { PR_LOG_ERROR, PR_LOG_WARNING, PR_LOG_INFO, PR_LOG_DEBUG };
enum pr_log_format { PR_LOG_AUTO, PR_LOG_TEXT, PR_LOG_JSON };
extern const char *const pr_log_formats[]; /* their names, for an option; ends with NULL */

/* A field to search lines by, as {"node", name}. */
struct pr_log_field {
	const char *name, *text;
};
#define PR_LOG_FIELDS(...) ((const struct pr_log_field[]){__VA_ARGS__, {NULL, NULL}})

/* Call once before threads start. program is kept, not copied. */
void pr_log_open(const char *program, enum pr_log_level level, enum pr_log_format format);

/* file: the source's, for `where`. fields: ends with a NULL name; or NULL. */
void pr_log_at(enum pr_log_level level, const char *file, const struct pr_log_field *fields,
	const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* Logs the error with which a program ends: "PROGRAM: text" in format auto. */
void pr_log_last(const char *program, const char *text);

#define pr_log(level, ...) pr_log_at(level, __FILE__, NULL, __VA_ARGS__)
#define pr_log_error(...) pr_log_at(PR_LOG_ERROR, __FILE__, NULL, __VA_ARGS__)
#define pr_log_warning(...) pr_log_at(PR_LOG_WARNING, __FILE__, NULL, __VA_ARGS__)
#define pr_log_info(...) pr_log_at(PR_LOG_INFO, __FILE__, NULL, __VA_ARGS__)
#define pr_log_debug(...) pr_log_at(PR_LOG_DEBUG, __FILE__, NULL, __VA_ARGS__)

/* Of one node, or one link, or anything else: PR_LOG_FIELDS({"node", n}, {"volume", v}). */
#define pr_log_node(level, node, ...)                                                      \
	pr_log_at(level, __FILE__, PR_LOG_FIELDS({"node", node}), __VA_ARGS__)
#define pr_log_link(level, link, ...)                                                      \
	pr_log_at(level, __FILE__, PR_LOG_FIELDS({"link", link}), __VA_ARGS__)
#define pr_log_with(level, fields, ...) pr_log_at(level, __FILE__, fields, __VA_ARGS__)

/* A log line as bytes: no I/O, no clock, so that tests see what comes out. */
struct pr_log_line {
	int64_t time; /* ns since 1970 UTC */
	enum pr_log_level level;
	const char *program, *file, *text;
	const struct pr_log_field *fields; /* or NULL */
};

/* A write of up to this many bytes is never mixed with another, not even on a pipe. */
#define PR_LOG_LINE_MAX 4096

/*
 * Returns the length, with the newline. What does not fit is cut; the line still ends
 * correctly.
 */
size_t pr_log_line_put(char out[PR_LOG_LINE_MAX], const struct pr_log_line *line,
	enum pr_log_format format, int journal);
