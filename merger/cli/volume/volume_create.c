/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/volume/volume.h"

struct create_args {
	uint64_t size, block_size, utilization;
	bool force;
	int zones;
};
#define PR_VALUES struct create_args

static const char *const zones[] = {"auto", "on", "off", NULL};

static const struct pr_option create_options[] = {
	PR_OPT_SIZE(size, "size", 's', "SIZE", 0, 0,
		"in bytes: 64M, 10G ... (0: the device, or the file as it is)"),
	PR_OPT_SIZE(block_size, "block-size", 0, "SIZE", 0, SFS_BLOCK_MAX,
		"a power of two (0: 1M)"),
	PR_OPT_UINT(utilization, "utilization", 0, "PERCENT", 10, 95,
		"most of the volume that streams may be guaranteed", .def = "90"),
	PR_OPT_ENUM(zones, "zones", 0, "WHEN", zones,
		"spread writing over a spinning disk's zones: auto, on or off"),
	PR_OPT_FLAG(force, "force", 'f', "overwrite a volume that is there"),
};

static const struct pr_cmdline program = VOLUME_PROGRAM("create",
	"Makes a volume in a file or on a block device, or striped over several.",
	"PATH[,PATH]", create_options);

int
volume_create(int argc, char **argv)
{
	struct create_args a = {0};
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
