/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/volume/volume.h"
#include "proto/base/units.h"

#include <string.h>

struct wish {
	char name[SFS_NAME_MAX + 1];
	uint64_t size;
};

int
volume_guarantee_check(const struct pr_string_list *list, struct pr_error *err)
{
	struct wish w;

	for (size_t i = 0; i < list->count; i++) {
		const char *at = strrchr(list->items[i], '=');
		size_t len = at ? (size_t)(at - list->items[i]) : 0;

		if (len == 0 || len >= sizeof(w.name) || pr_parse_size(at + 1, &w.size) < 0)
			return pr_error_set(err,
				"--guarantee %s: give NAME=SIZE, as in packets.0=10G",
				list->items[i]);
	}
	return 0;
}

/* While a writer lives it must do it: the volume has one writer. */
static struct sfs *
open_for(const struct volume_paths *paths, struct pr_error *err)
{
	struct sfs_open_options writing = {.writer = true};
	struct sfs_volume_info info;
	struct sfs *sfs = volume_open(paths, 0, err);

	if (!sfs || sfs_info(sfs, &info, err) < 0 || info.writer_alive)
		return sfs;
	sfs_close(&sfs);
	return sfs_open(paths->path, paths->count, &writing, err);
}

int
volume_guarantees(const struct volume_paths *paths, const struct pr_string_list *list,
	struct pr_error *err)
{
	struct sfs *sfs;
	int rc = 0;

	if (list->count == 0)
		return 0;
	sfs = open_for(paths, err);
	if (!sfs)
		return -1;
	for (size_t i = 0; rc == 0 && i < list->count; i++) {
		const char *at = strrchr(list->items[i], '=');
		struct wish w = {0};

		memcpy(w.name, list->items[i], (size_t)(at - list->items[i]));
		pr_parse_size(at + 1, &w.size);
		rc = sfs_guarantee_set(sfs, w.name, w.size, err);
	}
	sfs_close(&sfs);
	return rc;
}
