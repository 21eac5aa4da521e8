/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_BASE_STRING_LIST_H
#define PR_BASE_STRING_LIST_H

#include <stddef.h>

#include "proto/base/error.h"

/* Strings of their own memory; zeroed is empty. */
struct pr_string_list {
	char **items;
	size_t count;
};

/* Adds the first len bytes of text. -1: no memory. */
int pr_string_list_add(
	struct pr_string_list *list, const char *text, size_t len, struct pr_error *err);
/* Adds what stands between the commas of each item of `from`; nothing between two is no item. */
int pr_string_list_split(struct pr_string_list *list, const struct pr_string_list *from,
	struct pr_error *err);
void pr_string_list_clear(struct pr_string_list *list);

#endif
