/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_BASE_LOG_H
#define PR_BASE_LOG_H

/* Daemon log lines to stderr: "PROGRAM: level: text", or "<n>text" under systemd's journal. Thread-safe. */
enum pr_log_level { PR_LOG_ERROR, PR_LOG_WARNING, PR_LOG_INFO, PR_LOG_DEBUG };

/* Call once before threads start. program is kept, not copied. */
void pr_log_open(const char *program, enum pr_log_level level);

void pr_log(enum pr_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

#define pr_log_error(...) pr_log(PR_LOG_ERROR, __VA_ARGS__)
#define pr_log_warning(...) pr_log(PR_LOG_WARNING, __VA_ARGS__)
#define pr_log_info(...) pr_log(PR_LOG_INFO, __VA_ARGS__)
#define pr_log_debug(...) pr_log(PR_LOG_DEBUG, __VA_ARGS__)

#endif
