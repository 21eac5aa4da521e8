/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/volume/volume.h"

#include <inttypes.h>

#include "proto/base/clock.h"

struct streams_args {
	struct pr_string_list guarantees, permissions;
	bool json, keyvalue;
};

#define PR_VALUES struct streams_args
static const struct pr_option options[] = {
	PR_OPT_LIST(guarantees, "guarantee", 0, "NAME=SIZE",
		"first set what is kept of a stream"),
	PR_OPT_LIST(permissions, "permission", 0, "NAME=BITS",
		"first set what its records ask of a reader"),
	CLI_FORM_OPTIONS(),
};
static const struct pr_cmdline program = VOLUME_PROGRAM("streams",
	"Lists a volume's streams; sets their guarantees and permissions.", "PATH[,PATH]",
	options);

static void
render_stream(struct render *r, const struct sfs_stream_info *s)
{
	render_object(r, NULL);
	render_string(r, "name", s->name);
	render_uint(r, "id", s->id);
	render_uint(r, "guarantee", s->guarantee);
	render_uint(r, "permission", s->permission);
	render_uint(r, "blocks", s->blocks);
	render_uint(r, "bytes", s->bytes);
	render_uint(r, "first_sequence", s->first_sequence);
	render_uint(r, "last_sequence", s->last_sequence);
	render_uint(r, "recycled_records", s->recycled_records);
	render_uint(r, "deleted_records", s->deleted_records);
	render_uint(r, "deleted_bytes", s->deleted_bytes);
	if (s->last_sequence) {
		render_time(r, "min_time", s->min_time);
		render_time(r, "max_time", s->max_time);
	}
	if (s->evicted_until != INT64_MIN)
		render_time(r, "evicted_until", s->evicted_until);
	render_close(r);
}

static int
render_streams(struct render *r, struct sfs *sfs, struct pr_error *err)
{
	struct sfs_volume_info volume;
	struct sfs_stream_info stream;

	if (sfs_info(sfs, &volume, err) < 0)
		return -1;
	render_list(r, "streams");
	for (size_t i = 0; i < volume.stream_count; i++) {
		if (sfs_stream_info(sfs, i, &stream, err) < 0)
			return -1;
		render_stream(r, &stream);
	}
	render_close(r);
	return 0;
}

/* A line a stream, for people. */
static int
print_streams(struct sfs *sfs, struct pr_error *err)
{
	struct sfs_volume_info volume;
	struct sfs_stream_info s;
	char from[PR_TIME_TEXT], to[PR_TIME_TEXT];

	if (sfs_info(sfs, &volume, err) < 0)
		return -1;
	printf("%-20s %10s %14s %10s  %s\n", "stream", "records", "bytes", "evicted",
		"times");
	for (size_t i = 0; i < volume.stream_count; i++) {
		if (sfs_stream_info(sfs, i, &s, err) < 0)
			return -1;
		printf("%-20s %10" PRIu64 " %14" PRIu64 " %10" PRIu64 "  ", s.name,
			s.last_sequence
				? s.last_sequence - s.first_sequence + 1 - s.deleted_records
				: 0,
			s.bytes, s.recycled_records);
		if (s.last_sequence)
			printf("%s to %s\n", pr_time_format(s.min_time, from, sizeof(from)),
				pr_time_format(s.max_time, to, sizeof(to)));
		else
			printf("none\n");
	}
	return 0;
}

static int
list_streams(const struct volume_paths *paths, enum render_form form, struct render **r,
	struct pr_error *err)
{
	int result = -1;
	struct sfs *sfs = volume_open(paths, 0, err);

	if (!sfs)
		return -1;
	volume_warn_degraded(&program, sfs);
	if (form == RENDER_TEXT) {
		result = print_streams(sfs, err);
	} else {
		*r = render_begin(stdout, form);
		result = *r ? render_streams(*r, sfs, err) : pr_error_set(err, "no memory");
	}
	sfs_close(&sfs);
	return result;
}

int
volume_streams(int argc, char **argv)
{
	struct streams_args a = {0};
	struct volume_paths paths;
	struct pr_error err;
	struct render *r = NULL;
	int status = volume_parse(&program, &a, argc, argv, 0, &paths, NULL);

	if (status < 0 && (volume_guarantee_check(&a.guarantees, &err) < 0 ||
				  volume_permission_check(&a.permissions, &err) < 0)) {
		status = cli_fail(program.name, CLI_USAGE, &err);
	} else if (status < 0) {
		int result = volume_guarantees(&paths, &a.guarantees, &err);

		if (result == 0)
			result = volume_permissions(&paths, &a.permissions, &err);
		if (result == 0)
			result = list_streams(
				&paths, volume_form(a.json, a.keyvalue), &r, &err);
		status = volume_finish(&program, &r, result, &err);
	}
	pr_options_free(&program, &a);
	volume_paths_free(&paths);
	return status;
}
