/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/volume/volume.h"

#include <inttypes.h>

#include "indexer/index_follower.h"
#include "logger/append.h"
#include "merger/cli/volume/index_beside.h"

struct index_args {
	bool json, keyvalue;
};
#define PR_VALUES struct index_args

static const struct pr_option options[] = {
	CLI_FORM_OPTIONS(),
};
static const struct pr_cmdline program = VOLUME_PROGRAM("index",
	"Makes the index of what has none yet; nobody may write the volume meanwhile.",
	"PATH[,PATH]", options);

/* What an indexer beside a logger would have done. */
static int
build(const struct volume_paths *paths, struct pri_follower_stats *figures,
	struct pr_error *err)
{
	struct index_beside beside = {.path = paths->text};
	struct sfs_open_options writing = {.writer = true};
	struct prl_append_options o = {.unhurried = true};
	struct sfs *sfs = sfs_open(paths->path, paths->count, &writing, err);
	struct prl_append *append = sfs ? prl_append_create(sfs, &o, err) : NULL;
	int rc = append ? index_beside(&beside, append, true, err) : -1;

	if (rc == 0) {
		pri_follower_stats(beside.feed, figures);
		rc = prl_append_flush(append, err);
	}
	index_beside_close(&beside);
	prl_append_destroy(&append);
	sfs_close(&sfs);
	return rc;
}

static void
show(struct render *r, const struct volume_paths *paths, const struct pri_follower_stats *f)
{
	uint64_t bytes = f->built.level1_bytes + f->built.level2_bytes;

	if (!r) {
		printf("%s: %" PRIu64 " segments indexed, %" PRIu64 " bytes of index\n",
			paths->text, f->built.segments, bytes);
		return;
	}
	render_string(r, "path", paths->text);
	render_uint(r, "segments", f->built.segments);
	render_uint(r, "packets", f->built.packets);
	render_uint(r, "index_bytes", bytes);
	render_uint(r, "damaged_segments", f->built.damaged);
}

int
volume_index(int argc, char **argv)
{
	struct pri_follower_stats figures = {0};
	struct index_args a = {0};
	struct volume_paths paths;
	struct pr_error err;
	struct render *r = NULL;
	int status = volume_parse(&program, &a, argc, argv, 0, &paths, NULL);

	if (status < 0) {
		int result = build(&paths, &figures, &err);

		if (result == 0 && (a.json || a.keyvalue)) {
			r = render_begin(stdout, volume_form(a.json, a.keyvalue));
			result = r ? 0 : pr_error_set(&err, "no memory");
		}
		if (result == 0)
			show(r, &paths, &figures);
		status = volume_finish(&program, &r, result, &err);
	}
	pr_options_free(&program, &a);
	volume_paths_free(&paths);
	return status;
}
