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
