/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_BASE_LOG_LINE_H
#define PR_BASE_LOG_LINE_H

#include <stddef.h>
#include <stdint.h>

#include "proto/base/log.h"

/* A log line as bytes: no I/O, no clock, so that tests see what comes out. */
struct pr_log_line {
	int64_t time; /* ns since 1970 UTC */
	enum pr_log_level level;
	const char *program, *file, *text;
	const struct pr_log_field *fields; /* or NULL */
};

/* One write of so much is never mixed with another's, on a pipe as well. */
#define PR_LOG_LINE_MAX 4096

/* Its length, newline and all. What does not fit is cut, and the line still ends as it should. */
size_t pr_log_line_put(char out[PR_LOG_LINE_MAX], const struct pr_log_line *line,
	enum pr_log_format format, int journal);

#endif
