/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/volume/volume.h"

#include <inttypes.h>

#include "proto/base/clock.h"

struct records_args {
	uint64_t permission, limit;
	bool json, keyvalue;
};

#define PR_VALUES struct records_args
static const struct pr_option options[] = {
	PR_OPT_UINT(permission, "permission", 0, "BITS", 0, UINT32_MAX,
		"only records whose permission bits are all among these (0: any)"),
	PR_OPT_UINT(limit, "limit", 'c', "N", 0, 0,
		"at most so many records, from the oldest on (0: all)"),
	CLI_FORM_OPTIONS(),
};
static const struct pr_cmdline program = VOLUME_PROGRAM("records",
	"Lists the records of a stream, with the handles that name them.",
	"PATH[,PATH] STREAM", options);

static void
print_one(struct render *r, const struct sfs_record *record)
{
	char handle[SFS_HANDLE_TEXT], from[PR_TIME_TEXT];

	sfs_handle_text(&record->handle, handle);
	if (!r) {
		printf("%s %10" PRIu64 " %8zu %s\n", handle, record->sequence,
			record->length,
			pr_time_format(record->min_time, from, sizeof(from)));
		return;
	}
	render_object(r, NULL);
	render_string(r, "handle", handle);
	render_uint(r, "sequence", record->sequence);
	render_uint(r, "length", record->length);
	render_uint(r, "permission", record->permission);
	render_time(r, "min_time", record->min_time);
	render_time(r, "max_time", record->max_time);
	render_close(r);
}

/* Records that could not be given, or -1. What is denied is not counted: it is not for this reader. */
static int64_t
list(struct sfs *sfs, int stream, uint64_t limit, struct render *r, struct pr_error *err)
{
	struct sfs_cursor *cursor = sfs_cursor_open(sfs, stream, NULL, err);
	struct sfs_record record;
	int64_t bad = 0;
	int rc;

	if (!cursor)
		return -1;
	for (uint64_t n = 0; (rc = sfs_cursor_next(cursor, &record, err)) != 0;) {
		if (rc == 1)
			print_one(r, &record);
		else if (rc == SFS_ERROR)
			break;
		else if (rc == SFS_CORRUPT)
			bad++;
		if (rc == 1 && ++n == limit)
			break;
	}
	sfs_cursor_close(&cursor);
	return rc == SFS_ERROR ? -1 : bad;
}

static int
list_stream(struct sfs *sfs, const char *name, const struct records_args *a,
	struct render **r, struct pr_error *err)
{
	enum render_form form = volume_form(a->json, a->keyvalue);
	int stream = sfs_stream_find(sfs, name);
	int64_t bad;

	if (stream < 0)
		return pr_error_set(err, "no stream '%.100s' in the volume", name);
	if (form != RENDER_TEXT && !(*r = render_begin(stdout, form)))
		return pr_error_set(err, "no memory");
	if (*r)
		render_list(*r, "records");
	bad = list(sfs, stream, a->limit, *r, err);
	if (*r)
		render_close(*r);
	if (bad > 0)
		return pr_error_prefix(
			err, "damaged in %lld places, at last", (long long)bad);
	return bad < 0 ? -1 : 0;
}

int
volume_records(int argc, char **argv)
{
	struct records_args a = {0};
	struct volume_paths paths;
	struct pr_error err;
	struct render *r = NULL;
	int rest, result = -1,
		  status = volume_parse(&program, &a, argc, argv, 1, &paths, &rest);
	struct sfs *sfs;

	if (status >= 0)
		return status;
	sfs = volume_open(&paths, (uint32_t)a.permission, &err);
	if (sfs) {
		result = list_stream(sfs, argv[rest], &a, &r, &err);
		sfs_close(&sfs);
	}
	volume_paths_free(&paths);
	return volume_finish(&program, &r, result, &err);
}
