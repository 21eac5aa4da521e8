/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/query/ask.h"

#include <stdio.h>
#include <string.h>

void
ask_warn_link(const struct query_args *a, Packrack__LinkInfo *const *links, size_t count)
{
	char number[16];

	if (!a->link || a->follow)
		return;
	for (size_t i = 0; i < count; i++) {
		snprintf(number, sizeof(number), "%u", links[i]->link);
		if (!strcmp(a->link, links[i]->name) || !strcmp(a->link, number))
			return;
	}
	fprintf(stderr, "packrack: no link is called %s, so far\n", a->link);
}
