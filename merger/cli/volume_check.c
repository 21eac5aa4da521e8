/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/volume.h"

struct check_args {
	bool json, keyvalue;
};

static const struct pr_option options[] = {VOLUME_OUTPUT_OPTIONS(struct check_args)};
static const struct pr_program program = VOLUME_PROGRAM("check",
	"Reads all of a volume, and names each fault. Exit status 1 if any.", "PATH[,PATH]",
	options);

static void
on_fault(void *arg, const char *stream, uint64_t block, uint32_t offset, const char *why)
{
	struct render *r = arg;

	render_object(r, NULL);
	render_string(r, "stream", stream);
	render_uint(r, "block", block);
	render_uint(r, "offset", offset);
	render_string(r, "why", why);
	render_close(r);
}

int
volume_check(int argc, char **argv)
{
	struct check_args a = {0};
	struct volume_paths paths;
	struct pr_error err;
	struct render *r = NULL;
	int status = volume_parse(&program, &a, argc, argv, 0, &paths, NULL);
	int64_t faults = -1;
	uint64_t records = 0;
	struct sfs *sfs;

	if (status >= 0)
		return status;
	sfs = volume_open(&paths, 0, &err);
	if (sfs) {
		r = render_begin(stdout, volume_form(a.json, a.keyvalue));
		if (!r)
			pr_error_set(&err, "no memory");
	}
	if (r) {
		render_string(r, "path", paths.text);
		render_list(r, "faults");
		faults = sfs_check(sfs, on_fault, r, &records, &err);
		render_close(r);
		render_uint(r, "records", records);
		render_uint(r, "fault_count", faults > 0 ? (uint64_t)faults : 0);
	}
	if (sfs)
		sfs_close(&sfs);
	volume_paths_free(&paths);
	status = volume_finish(&program, &r, faults < 0 ? -1 : 0, &err);
	return status == CLI_OK && faults > 0 ? CLI_FAILED : status;
}
