/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/volume/volume.h"

#include <inttypes.h>

struct grow_args {
	uint64_t size;
	struct pr_string_list add;
	bool force, json, keyvalue;
};
#define PR_VALUES struct grow_args

static const struct pr_option options[] = {
	PR_OPT_SIZE(size, "size", 's', "SIZE", 0, 0,
		"of all its files together (0: as they are)"),
	PR_OPT_LIST(add, "add", 0, "PATH", "take in this device, or file"),
	PR_OPT_FLAG(force, "force", 'f', "though what is added holds a volume"),
	CLI_FORM_OPTIONS(),
};
static const struct pr_cmdline program = VOLUME_PROGRAM("grow",
	"Makes a volume larger; nobody may write it meanwhile.", "PATH[,PATH]", options);

static void
show(struct render *r, const struct volume_paths *paths, const struct grow_args *a,
	uint64_t blocks)
{
	if (!a->json && !a->keyvalue) {
		printf("%s: %" PRIu64 " blocks more", paths->text, blocks);
		if (a->add.count)
			printf("; from now on the volume is %s", paths->text);
		for (size_t i = 0; i < a->add.count; i++)
			printf(",%s", a->add.items[i]);
		printf("\n");
		return;
	}
	render_string(r, "path", paths->text);
	render_uint(r, "new_blocks", blocks);
}

int
volume_grow(int argc, char **argv)
{
	struct grow_args a = {0};
	struct volume_paths paths;
	struct pr_error err;
	struct render *r = NULL;
	uint64_t blocks = 0;
	int status = volume_parse(&program, &a, argc, argv, 0, &paths, NULL);

	if (status < 0) {
		struct sfs_grow_options o = {
			.size = a.size,
			.add = (const char *const *)a.add.items,
			.add_count = a.add.count,
			.force = a.force,
		};
		int result = sfs_grow(paths.path, paths.count, &o, &blocks, &err);

		if (result == 0 && (a.json || a.keyvalue)) {
			r = render_begin(stdout, volume_form(a.json, a.keyvalue));
			result = r ? 0 : pr_error_set(&err, "no memory");
		}
		if (result == 0)
			show(r, &paths, &a, blocks);
		status = volume_finish(&program, &r, result, &err);
	}
	pr_options_free(&program, &a);
	volume_paths_free(&paths);
	return status;
}
