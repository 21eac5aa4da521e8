/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "proto/base/error.h"

/* snprintf into the whole of an array; a pointer does not compile. */
#define PR_PRINT(array, ...)                                                               \
	snprintf(array, sizeof(array) + 0 * (&(array) == (char(*)[sizeof(array)])0),       \
		__VA_ARGS__)

/* The ending of a word behind this number. */
static inline const char *
pr_plural(uint64_t count)
{
	return count == 1 ? "" : "s";
}

/* A list of strings, each in memory of its own; zeroed is empty. */
struct pr_string_list {
	char **items;
	size_t count;
};

/* Adds the first len bytes of text. -1: no memory. */
int pr_string_list_add(
	struct pr_string_list *list, const char *text, size_t len, struct pr_error *err);
/* Splits each item of `from` at its commas, and adds the parts that are not empty. */
int pr_string_list_split(struct pr_string_list *list, const struct pr_string_list *from,
	struct pr_error *err);
void pr_string_list_clear(struct pr_string_list *list);

/* A text that is put together in memory of a fixed size; it need not end with NUL. */
struct pr_text {
	char *at;
	size_t len, room;
	bool full; /* something did not fit; nothing more is added, so no gap */
};

void pr_text_put(struct pr_text *o, const char *text, size_t len);
void pr_text_puts(struct pr_text *o, const char *text);
/*
 * Bytes of the character at s if names and texts of others may have it: it can be shown on a
 * terminal and written to a log. 0: it is not UTF-8, a control character (C0, C1), or one
 * that changes the direction of the text around it.
 */
size_t pr_text_plain(const char *s);
/* Replaces by "?" what is not plain, but for the control characters in keep. */
void pr_text_clean(char *s, const char *keep);
/* The text without the blanks at its ends; those behind it are overwritten. */
char *pr_text_trim(char *s);
/*
 * Adds s as the inside of a string of JSON or Prometheus. What is not plain becomes "?". Allocates no memory: there may be none just when an error
 * is logged.
 */
void pr_text_put_escaped(struct pr_text *o, const char *s);
/* The same in quotes; what does not fit is left out, but not the quotes. */
void pr_text_put_quoted(struct pr_text *o, const char *s);
