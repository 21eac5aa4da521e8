/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/volume/volume.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct wish {
	char name[SFS_NAME_MAX + 1];
	uint32_t bits;
};

static int
parse_wish(const char *text, struct wish *out)
{
	const char *at = strrchr(text, '=');
	size_t len = at ? (size_t)(at - text) : 0;
	unsigned long long bits;
	char *end;

	if (len == 0 || len >= sizeof(out->name) || at[1] < '0' || at[1] > '9')
		return -1;
	errno = 0;
	bits = strtoull(at + 1, &end, 0);
	if (*end || errno || bits > UINT32_MAX)
		return -1;
	memcpy(out->name, text, len);
	out->name[len] = 0;
	out->bits = (uint32_t)bits;
	return 0;
}

int
volume_permission_check(const struct pr_string_list *list, struct pr_error *err)
{
	struct wish w;

	for (size_t i = 0; i < list->count; i++)
		if (parse_wish(list->items[i], &w) < 0)
			return pr_error_set(err,
				"--permission %s: give NAME=BITS, as in packets.0=0x3",
				list->items[i]);
	return 0;
}

int
volume_permissions(const struct volume_paths *paths, const struct pr_string_list *list,
	struct pr_error *err)
{
	struct sfs_open_options writing = {.writer = true};
	struct sfs *sfs;
	struct wish w;
	int rc = 0;

	if (list->count == 0)
		return 0;
	sfs = sfs_open(paths->path, paths->count, &writing, err);
	if (!sfs)
		return -1;
	for (size_t i = 0; rc == 0 && i < list->count; i++)
		rc = parse_wish(list->items[i], &w) < 0
			     ? -1
			     : sfs_permission_set(sfs, w.name, w.bits, err);
	sfs_close(&sfs);
	return rc;
}
