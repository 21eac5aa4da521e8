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

/* op(x, y, member) for each of up to eight members, with commas between. */
#define PR_EACH(op, x, y, ...)                                                             \
	PR_NINTH(__VA_ARGS__, PR_EACH8, PR_EACH7, PR_EACH6, PR_EACH5, PR_EACH4, PR_EACH3,  \
		PR_EACH2, PR_EACH1, 0)                                                     \
	(op, x, y, __VA_ARGS__)
#define PR_NINTH(a, b, c, d, e, f, g, h, ninth, ...) ninth
#define PR_EACH1(op, x, y, a) op(x, y, a)
#define PR_EACH2(op, x, y, a, ...) op(x, y, a), PR_EACH1(op, x, y, __VA_ARGS__)
#define PR_EACH3(op, x, y, a, ...) op(x, y, a), PR_EACH2(op, x, y, __VA_ARGS__)
#define PR_EACH4(op, x, y, a, ...) op(x, y, a), PR_EACH3(op, x, y, __VA_ARGS__)
#define PR_EACH5(op, x, y, a, ...) op(x, y, a), PR_EACH4(op, x, y, __VA_ARGS__)
#define PR_EACH6(op, x, y, a, ...) op(x, y, a), PR_EACH5(op, x, y, __VA_ARGS__)
#define PR_EACH7(op, x, y, a, ...) op(x, y, a), PR_EACH6(op, x, y, __VA_ARGS__)
#define PR_EACH8(op, x, y, a, ...) op(x, y, a), PR_EACH7(op, x, y, __VA_ARGS__)

/* Members that two structs have by the same names: PR_COPY(to, from, first, last) sets those of to. */
#define PR_COPY(to, from, ...) PR_EACH(PR_COPY_ONE, to, from, __VA_ARGS__)
#define PR_COPY_ONE(to, from, member) ((to)->member = (from)->member)
/* Adds those of from to those of to. */
#define PR_ADD(to, from, ...) PR_EACH(PR_ADD_ONE, to, from, __VA_ARGS__)
#define PR_ADD_ONE(to, from, member) ((to)->member += (from)->member)
/* Frees what members of a struct point to: PR_FREE(list, names, items). */
#define PR_FREE(of, ...) PR_EACH(PR_FREE_ONE, of, of, __VA_ARGS__)
#define PR_FREE_ONE(of, same, member) free((of)->member)

/* The smaller, the larger of two; each may be computed twice. */
#define PR_MIN(a, b) ((a) < (b) ? (a) : (b))
#define PR_MAX(a, b) ((a) > (b) ? (a) : (b))
