/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_BASE_TEXT_H
#define PR_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/base/error.h"

/* snprintf into the whole of an array; a pointer does not compile. */
#define PR_PRINT(array, ...)                                                               \
	snprintf(array, sizeof(array) + 0 * (&(array) == (char(*)[sizeof(array)])0),       \
		__VA_ARGS__)

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
 * Adds s as the inside of a string of JSON or Prometheus. Control characters, and bytes
 * that are not UTF-8, become "?". Allocates no memory: there may be none just when an error
 * is logged.
 */
void pr_text_put_escaped(struct pr_text *o, const char *s);
/* The same in quotes; what does not fit is left out, but not the quotes. */
void pr_text_put_quoted(struct pr_text *o, const char *s);

/* Bytes of the character at s (RFC 3629: no overlong forms, no surrogates); 0: there is none. */
static inline size_t
pr_utf8_length(const char *s)
{
	const unsigned char *b = (const unsigned char *)s;
	size_t n = b[0] < 0x80   ? 1
		   : b[0] < 0xc2 ? 0
		   : b[0] < 0xe0 ? 2
		   : b[0] < 0xf0 ? 3
		   : b[0] < 0xf5 ? 4
				 : 0;

	if (b[0] == 0)
		return 0;
	for (size_t i = 1; i < n; i++)
		if ((b[i] & 0xc0) != 0x80)
			return 0;
	if ((b[0] == 0xe0 && b[1] < 0xa0) || (b[0] == 0xed && b[1] > 0x9f) ||
		(b[0] == 0xf0 && b[1] < 0x90) || (b[0] == 0xf4 && b[1] > 0x8f))
		return 0;
	return n;
}

#endif
