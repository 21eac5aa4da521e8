/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/text.h"

#include <stdlib.h>
#include <string.h>

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
		size_t n = pr_utf8_length(s);

		if (*s == '"' || *s == '\\')
			pr_text_put(o, (const char[]){'\\', *s}, 2);
		else if (n == 0 || (unsigned char)*s < ' ' || *s == 0x7f)
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
