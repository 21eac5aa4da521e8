/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/volume/volume.h"

#include <inttypes.h>

#include "proto/base/clock.h"

struct show_args {
	bool json, keyvalue;
};

#define PR_VALUES struct show_args
static const struct pr_option options[] = {
	CLI_FORM_OPTIONS(),
};
static const struct pr_cmdline program = VOLUME_PROGRAM("show",
	"Shows what a volume is, how full, and how long it will keep what comes.",
	"PATH[,PATH]", options);

static void
render_volume(
	struct render *r, const struct volume_paths *paths, const struct sfs_volume_info *v)
{
	render_string(r, "path", paths->text);
	render_list(r, "devices");
	for (size_t i = 0; i < paths->count; i++)
		render_string(r, NULL, paths->path[i]);
	render_close(r);
	render_string(r, "uuid", v->uuid);
	render_uint(r, "version", v->version);
	render_uint(r, "bytes", v->bytes);
	render_uint(r, "block_size", v->block_size);
	render_uint(r, "blocks", v->blocks);
	render_uint(r, "blocks_used", v->blocks_used);
	render_uint(r, "utilization", v->utilization);
	render_uint(r, "guaranteed_blocks", v->guaranteed_blocks);
	render_uint(r, "guarantee_most", v->guarantee_most);
	render_uint(r, "generation", v->generation);
	render_uint(r, "streams", v->stream_count);
	render_bool(r, "zones", v->zones);
	render_bool(r, "writer_alive", v->writer_alive);
	render_uint(r, "recovered_records", v->recovered_records);
	render_uint(r, "lost_tail_bytes", v->lost_tail_bytes);
	render_uint(r, "repairs", v->repairs);
	render_uint(r, "deletions", v->deletions);
	if (v->wiping)
		render_uint(r, "wiping", v->wiping);
}

/* A length of time: ns in JSON, days and hours for people. */
static void
render_span(struct render *r, enum render_form form, const char *name, int64_t ns)
{
	char text[40];
	uint64_t s = (uint64_t)ns / PR_NS_PER_S;

	if (form == RENDER_JSON) {
		render_uint(r, name, (uint64_t)ns);
		return;
	}
	if (s >= 86400)
		snprintf(text, sizeof(text), "%" PRIu64 "d %" PRIu64 "h", s / 86400,
			s % 86400 / 3600);
	else if (s >= 3600)
		snprintf(text, sizeof(text), "%" PRIu64 "h %" PRIu64 "m", s / 3600,
			s % 3600 / 60);
	else
		snprintf(text, sizeof(text), "%" PRIu64 "s", s);
	render_string(r, name, text);
}

/* What is not known is left out. */
static void
render_forecast(struct render *r, enum render_form form, const struct sfs_forecast *f)
{
	render_object(r, "forecast");
	render_uint(r, "capacity", f->capacity);
	render_bool(r, "wrapped", f->wrapped);
	if (f->rate)
		render_uint(r, "bytes_per_second", f->rate);
	if (f->recent_rate)
		render_uint(r, "recent_bytes_per_second", f->recent_rate);
	if (f->kept != INT64_MAX)
		render_span(r, form, "kept", f->kept);
	if (!f->wrapped && f->until_full != INT64_MAX)
		render_span(r, form, "until_full", f->until_full);
	render_close(r);
}

static void
render_stream(struct render *r, enum render_form form, const struct sfs_stream_info *s,
	int64_t now)
{
	render_object(r, NULL);
	render_string(r, "name", s->name);
	render_uint(r, "bytes", s->bytes);
	render_uint(r, "blocks", s->blocks);
	render_uint(r, "guarantee", s->guarantee);
	render_uint(r, "permission", s->permission);
	if (s->last_sequence && s->min_time <= s->max_time) {
		render_time(r, "oldest", s->min_time);
		render_time(r, "newest", s->max_time);
		if (s->min_time < now && s->min_time > 0)
			render_span(r, form, "oldest_age", now - s->min_time);
		if (s->max_time < now && s->max_time > 0)
			render_span(r, form, "newest_age", now - s->max_time);
	}
	render_close(r);
}

static int
show(struct sfs *sfs, const struct volume_paths *paths, enum render_form form,
	struct render **r, struct pr_error *err)
{
	int64_t now = pr_now_real();
	struct sfs_volume_info v;
	struct sfs_stream_info s;
	struct sfs_forecast f;

	if (sfs_info(sfs, &v, err) < 0 || sfs_forecast(sfs, now, &f, err) < 0)
		return -1;
	*r = render_begin(stdout, form);
	if (!*r)
		return pr_error_set(err, "no memory");
	volume_warn_degraded(&program, sfs);
	render_volume(*r, paths, &v);
	volume_render_devices(*r, sfs);
	render_forecast(*r, form, &f);
	render_list(*r, "stream_list");
	for (size_t i = 0; i < v.stream_count; i++)
		if (sfs_stream_info(sfs, i, &s, err) == 0)
			render_stream(*r, form, &s, now);
	render_close(*r);
	return 0;
}

int
volume_show(int argc, char **argv)
{
	struct show_args a = {0};
	struct volume_paths paths;
	struct pr_error err;
	struct render *r = NULL;
	int result = -1, status = volume_parse(&program, &a, argc, argv, 0, &paths, NULL);
	struct sfs *sfs;

	if (status >= 0)
		return status;
	sfs = volume_open(&paths, 0, &err);
	if (sfs) {
		result = show(sfs, &paths, volume_form(a.json, a.keyvalue), &r, &err);
		sfs_close(&sfs);
	}
	volume_paths_free(&paths);
	return volume_finish(&program, &r, result, &err);
}
