/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/volume.h"

struct show_args {
	bool json, keyvalue;
};

static const struct pr_option options[] = {VOLUME_OUTPUT_OPTIONS(struct show_args)};
static const struct pr_program program = VOLUME_PROGRAM(
	"show", "Shows what a volume is, and how full.", "PATH[,PATH]", options);

static void
render_volume(struct render *r, const char *path, const struct sfs_volume_info *v)
{
	render_string(r, "path", path);
	render_string(r, "uuid", v->uuid);
	render_uint(r, "version", v->version);
	render_uint(r, "bytes", v->bytes);
	render_uint(r, "block_size", v->block_size);
	render_uint(r, "blocks", v->blocks);
	render_uint(r, "blocks_used", v->blocks_used);
	render_uint(r, "generation", v->generation);
	render_uint(r, "streams", v->stream_count);
	render_bool(r, "writer_alive", v->writer_alive);
	render_uint(r, "recovered_records", v->recovered_records);
	render_uint(r, "lost_tail_bytes", v->lost_tail_bytes);
}

int
volume_show(int argc, char **argv)
{
	struct show_args a = {0};
	struct sfs_volume_info info;
	struct volume_paths paths;
	struct pr_error err;
	struct render *r = NULL;
	int result = -1, status = volume_parse(&program, &a, argc, argv, 0, &paths, NULL);
	struct sfs *sfs;

	if (status >= 0)
		return status;
	sfs = volume_open(&paths, 0, &err);
	if (sfs && sfs_info(sfs, &info, &err) == 0) {
		r = render_begin(stdout, volume_form(a.json, a.keyvalue));
		result = r ? 0 : pr_error_set(&err, "no memory");
	}
	if (r)
		render_volume(r, paths.text, &info);
	if (sfs)
		sfs_close(&sfs);
	volume_paths_free(&paths);
	return volume_finish(&program, &r, result, &err);
}
