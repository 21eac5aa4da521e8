/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/volume/volume.h"

struct create_args {
	uint64_t size, block_size, utilization;
	bool force;
	int zones;
};
#define AT(field) offsetof(struct create_args, field)

static const char *const zones[] = {"auto", "on", "off", NULL};

static const struct pr_option create_options[] = {
	{.name = "size",
		.letter = 's',
		.kind = PR_OPT_SIZE,
		.offset = AT(size),
		.arg = "SIZE",
		.help = "in bytes: 64M, 10G ... (0: the device, or the file as it is)"},
	{.name = "block-size",
		.kind = PR_OPT_SIZE,
		.offset = AT(block_size),
		.arg = "SIZE",
		.help = "a power of two (0: 1M)",
		.max = SFS_BLOCK_MAX},
	{.name = "utilization",
		.kind = PR_OPT_UINT,
		.offset = AT(utilization),
		.arg = "PERCENT",
		.help = "most of the volume that streams may be guaranteed",
		.min = 10,
		.max = 95},
	{.name = "zones",
		.kind = PR_OPT_ENUM,
		.offset = AT(zones),
		.arg = "WHEN",
		.help = "spread writing over a spinning disk's zones: auto, on or off",
		.choices = zones},
	{.name = "force",
		.letter = 'f',
		.kind = PR_OPT_FLAG,
		.offset = AT(force),
		.help = "overwrite a volume that is there"},
};

static const struct pr_cmdline program = VOLUME_PROGRAM("create",
	"Makes a volume in a file or on a block device, or striped over several.",
	"PATH[,PATH]", create_options);

int
volume_create(int argc, char **argv)
{
	struct create_args a = {.utilization = 90};
	struct sfs_create_options o;
	struct volume_paths paths;
	struct pr_error err;
	int result = -1, status = volume_parse(&program, &a, argc, argv, 0, &paths, NULL);

	if (status >= 0)
		return status;
	o = (struct sfs_create_options){
		.size = a.size,
		.block_size = (uint32_t)a.block_size,
		.utilization = (uint32_t)a.utilization,
		.force = a.force,
		.zones = (enum sfs_zones)a.zones,
	};
	if (a.block_size &&
		(a.block_size < SFS_BLOCK_MIN || a.block_size & (a.block_size - 1))) {
		pr_error_set(&err, "--block-size must be a power of two from 64K to 16M");
		status = CLI_USAGE;
	} else {
		result = sfs_create(paths.path, paths.count, &o, &err);
		status = CLI_FAILED;
	}
	volume_paths_free(&paths);
	return result < 0 ? cli_fail(program.name, status, &err) : CLI_OK;
}
