/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_CLI_VOLUME_PATHS_H
#define PR_CLI_VOLUME_PATHS_H

#include <stddef.h>

#include "proto/base/error.h"

#define VOLUME_DEVICES_MAX 16

/* The volume's devices, as one argument names them: PATH[,PATH]. */
struct volume_paths {
	char *text; /* as given */
	char *split; /* what path points into */
	const char *path[VOLUME_DEVICES_MAX];
	size_t count;
};
/* A file of that very name is one device, whatever commas it has. 0 or -1; free whatever came. */
int volume_paths_parse(const char *text, struct volume_paths *out, struct pr_error *err);
void volume_paths_free(struct volume_paths *paths);

#endif
