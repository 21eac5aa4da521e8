/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/volume_paths.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int
volume_paths_parse(const char *text, struct volume_paths *out, struct pr_error *err)
{
	char *at, *word;

	*out = (struct volume_paths){.text = strdup(text), .split = strdup(text)};
	if (!out->text || !out->split)
		return pr_error_set(err, "no memory");
	out->path[0] = out->split;
	out->count = 1;
	if (access(text, F_OK) == 0)
		return 0;
	at = out->split;
	for (out->count = 0; (word = strsep(&at, ",")); out->count++) {
		if (!word[0])
			return pr_error_set(err, "%s: a device without a name", text);
		if (out->count == VOLUME_DEVICES_MAX)
			return pr_error_set(err, "%s: a volume has at most %d devices",
				text, VOLUME_DEVICES_MAX);
		out->path[out->count] = word;
	}
	return 0;
}

void
volume_paths_free(struct volume_paths *paths)
{
	free(paths->text);
	free(paths->split);
	*paths = (struct volume_paths){0};
}
