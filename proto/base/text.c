/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/text.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- characters ---- */

/* Bytes of the character at s (RFC 3629: no overlong forms, no surrogates); 0: there is none. */
static size_t
utf8_length(const char *s)
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

size_t
pr_text_plain(const char *s)
{
	const unsigned char *b = (const unsigned char *)s;
	size_t n = utf8_length(s);
	unsigned c = n == 1   ? b[0]
		     : n == 2 ? (b[0] & 0x1fu) << 6 | (b[1] & 0x3f)
		     : n == 3 ? (b[0] & 0xfu) << 12 | (b[1] & 0x3fu) << 6 | (b[2] & 0x3f)
			      : 0xffff;

	return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x61c || c == 0x200e ||
			       c == 0x200f || (c >= 0x2028 && c <= 0x202e) ||
			       (c >= 0x2066 && c <= 0x2069) || c == 0xfeff
		       ? 0
		       : n;
}

void
pr_text_clean(char *s, const char *keep)
{
	for (size_t n; *s; s += n ? n : 1) {
		n = pr_text_plain(s);
		if (n == 0 && !strchr(keep, *s))
			*s = '?';
	}
}

char *
pr_text_trim(char *s)
{
	char *end = s + strlen(s);

	while (isspace((unsigned char)*s))
		s++;
	while (end > s && isspace((unsigned char)end[-1]))
		*--end = '\0';
	return s;
}

/* ---- lists ---- */

int
pr_string_list_add(
	struct pr_string_list *list, const char *text, size_t len, struct pr_error *err)
{
	char *copy = strndup(text, len), **items = NULL;

	if (copy)
		items = reallocarray(list->items, list->count + 1, sizeof(*items));
	if (!items) {
		free(copy);
		return pr_error_set(err, "no memory");
	}
	items[list->count++] = copy;
	list->items = items;
	return 0;
}

int
pr_string_list_split(struct pr_string_list *list, const struct pr_string_list *from,
	struct pr_error *err)
{
	for (size_t i = 0; i < from->count; i++)
		for (const char *at = from->items[i]; *at;) {
			size_t len = strcspn(at, ",");

			if (len && pr_string_list_add(list, at, len, err) < 0)
				return -1;
			at += len + (at[len] == ',');
		}
	return 0;
}

void
pr_string_list_clear(struct pr_string_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->items[i]);
	free(list->items);
	*list = (struct pr_string_list){0};
}

/* ---- a text put together ---- */

void
pr_text_put(struct pr_text *o, const char *text, size_t len)
{
	o->full |= o->len + len > o->room;
	if (o->full)
		return;
	memcpy(o->at + o->len, text, len);
	o->len += len;
}

void
pr_text_puts(struct pr_text *o, const char *text)
{
	pr_text_put(o, text, strlen(text));
}

void
pr_text_put_escaped(struct pr_text *o, const char *s)
{
	while (*s && !o->full) {
		size_t n = pr_text_plain(s);

		if (*s == '"' || *s == '\\')
			pr_text_put(o, (const char[]){'\\', *s}, 2);
		else if (n == 0)
			pr_text_put(o, "?", 1);
		else
			pr_text_put(o, s, n);
		s += n ? n : 1;
	}
}

void
pr_text_put_quoted(struct pr_text *o, const char *s)
{
	pr_text_puts(o, "\"");
	if (o->full)
		return;
	o->room -= 1; /* for the quote that ends it */
	pr_text_put_escaped(o, s);
	o->room += 1;
	o->at[o->len++] = '"';
}
