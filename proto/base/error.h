/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Errors that travel: a library fills the text and returns -1; only a main prints it. One
 * clear line: what went wrong, where, how to fix it. No trailing newline. All functions
 * keep errno.
 */
struct pr_error {
	char text[512];
};

/* Fills *err (which may be NULL) and returns -1, so that callers can `return pr_error_set(...)`. */
int pr_error_set(struct pr_error *err, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Same, for callers that return something else: pr_error_as(RESULT, err, ...); or a pointer. */
#define pr_error_as(result, ...) (pr_error_set(__VA_ARGS__), (result))
#define pr_error_null(...) pr_error_as(NULL, __VA_ARGS__)

/* Same, with ": " and strerror(errno) appended. */
int pr_error_errno(struct pr_error *err, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Puts "PREFIX: " before a text that is already there; returns -1. */
int pr_error_prefix(struct pr_error *err, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Closes a file descriptor, unless it is negative. */
void pr_close(int fd);

/* A parameter that a callback does not need. */
#define PR_UNUSED __attribute__((unused))

/* The pointer at `at`, which is NULL from now on: x_destroy(struct x **x) begins so. */
#define PR_TAKE(at)                                                                        \
	({                                                                                 \
		__typeof__(*(at)) taken_ = *(at);                                          \
		*(at) = NULL;                                                              \
		taken_;                                                                    \
	})
