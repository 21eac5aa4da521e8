/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/volume/volume.h"

struct check_args {
	bool json, keyvalue, repair, force;
};

#define PR_VALUES struct check_args
static const struct pr_option options[] = {
	CLI_FORM_OPTIONS(),
	PR_OPT_FLAG(repair, "repair", 0, "drop what is bad, and only that"),
	PR_OPT_FLAG(force, "force", 0,
		"with --repair: also where the newest root is lost, and blocks with it"),
};
static const struct pr_cmdline program = VOLUME_PROGRAM("check",
	"Reads all of a volume, and names each fault. Exit status 1 if any is left.",
	"PATH[,PATH]", options);

static void
on_fault(void *arg, const struct sfs_fault *f)
{
	struct render *r = arg;

	render_object(r, NULL);
	render_string(r, "fault", sfs_fault_text(f->kind));
	if (f->device) {
		render_string(r, "device", f->device);
		render_uint(r, "position", f->position);
	}
	if (f->block != SFS_NO_BLOCK) {
		render_uint(r, "block", f->block);
		render_uint(r, "offset", f->offset);
	}
	if (f->stream)
		render_string(r, "stream", f->stream);
	if (f->first) {
		render_uint(r, "first_record", f->first);
		render_uint(r, "last_record", f->last);
	}
	render_string(r, "why", f->why);
	render_close(r);
}

/* Faults that are left, or -1. */
static int64_t
check(const struct volume_paths *paths, struct render *r, struct pr_error *err)
{
	struct sfs *sfs = volume_open(paths, 0, err);
	uint64_t records = 0;
	int64_t faults = -1;

	render_list(r, "faults");
	if (sfs)
		volume_warn_degraded(&program, sfs);
	if (sfs)
		faults = sfs_check(sfs, on_fault, r, &records, err);
	render_close(r);
	if (sfs)
		sfs_close(&sfs);
	if (faults < 0)
		return -1;
	render_uint(r, "records", records);
	render_uint(r, "fault_count", (uint64_t)faults);
	return faults;
}

static int64_t
repair(const struct volume_paths *paths, bool force, struct render *r, struct pr_error *err)
{
	const struct sfs_repair_options how = {.force = force};
	struct sfs_repair_result out;
	int rc;

	render_list(r, "faults");
	rc = sfs_repair(paths->path, paths->count, &how, on_fault, r, &out, err);
	render_close(r);
	if (rc < 0)
		return -1;
	render_uint(r, "records", out.records);
	render_uint(r, "fault_count", out.faults);
	render_uint(r, "dropped_records", out.dropped_records);
	render_uint(r, "maps_written", out.maps);
	render_uint(r, "roots_written", out.roots);
	render_uint(r, "faults_left", out.left);
	return (int64_t)out.left;
}

int
volume_check(int argc, char **argv)
{
	struct check_args a = {0};
	struct volume_paths paths;
	struct pr_error err;
	struct render *r;
	int status = volume_parse(&program, &a, argc, argv, 0, &paths, NULL);
	int64_t faults = -1;

	if (status >= 0)
		return status;
	if (a.force && !a.repair) {
		volume_paths_free(&paths);
		pr_error_set(&err, "--force is for --repair: a check changes nothing");
		return cli_fail(program.name, CLI_USAGE, &err);
	}
	r = render_begin(stdout, volume_form(a.json, a.keyvalue));
	if (r) {
		render_string(r, "path", paths.text);
		faults = a.repair ? repair(&paths, a.force, r, &err)
				  : check(&paths, r, &err);
	} else {
		pr_error_set(&err, "no memory");
	}
	if (r && faults < 0 && (a.json || a.keyvalue))
		render_string(r, "error", err.text);
	volume_paths_free(&paths);
	status = volume_finish(&program, &r, faults < 0 ? -1 : 0, &err);
	return status == CLI_OK && faults > 0 ? CLI_FAILED : status;
}
