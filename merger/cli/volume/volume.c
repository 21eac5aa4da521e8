/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/volume/volume.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "indexer/index_follower.h"
#include "merger/cli/volume/inline_index.h"
#include "proto/base/clock.h"
#include "proto/base/units.h"

/*
 * packrack volume: each command has its options, and a function that gets the volume's paths. What they
 * have in common is at the end.
 */

struct volume_args {
	uint64_t size, block_size, utilization, permission, limit;
	struct pr_string_list add, guarantees, permissions;
	int zones;
	bool force, repair, raw, json, keyvalue;
};
#define PR_VALUES struct volume_args

struct volume_call {
	const struct pr_cmdline *program;
	struct volume_args args;
	struct volume_paths paths;
	const char *operand; /* behind the volume; or NULL */
	enum render_form form;
	struct render *r; /* ended by the caller; NULL: nothing is rendered */
};

static struct sfs *
open_volume(const struct volume_call *c, struct pr_error *err)
{
	struct sfs_open_options o = {.permission_mask = (uint32_t)c->args.permission};
	struct sfs *sfs = sfs_open(c->paths.path, c->paths.count, &o, err);
	char text[400];

	if (sfs && sfs_degraded(sfs, text, sizeof(text)))
		fprintf(stderr, "%s: %s\n", c->program->name, text);
	if (sfs && sfs_losses(sfs, text, sizeof(text)))
		fprintf(stderr, "%s: %s\n", c->program->name, text);
	return sfs;
}

/* ---- create, grow ---- */

static const char *const zones[] = {"auto", "on", "off", NULL};

static const struct pr_option create_options[] = {
	PR_OPT_SIZE(size, "size", 's', "SIZE", 0, 0,
		"bytes: 64M, 10G ... (0: the device, or the file as it is)"),
	PR_OPT_SIZE(block_size, "block-size", 0, "SIZE", 0, SFS_BLOCK_MAX,
		"a power of two (0: 1M)"),
	PR_OPT_UINT(utilization, "utilization", 0, "PERCENT", 10, 95,
		"upper limit for the sum of all guarantees, in percent of the volume",
		.def = "90"),
	PR_OPT_ENUM(zones, "zones", 0, "WHEN", zones,
		"alternate between the tracks of a hard disk: auto, on or off"),
	PR_OPT_FLAG(force, "force", 'f', "overwrite an existing volume"),
};

static int
volume_create(struct volume_call *c, struct pr_error *err)
{
	const struct volume_args *a = &c->args;
	struct sfs_create_options o = {
		.size = a->size,
		.block_size = (uint32_t)a->block_size,
		.utilization = (uint32_t)a->utilization,
		.force = a->force,
		.zones = (enum sfs_zones)a->zones,
	};

	if (a->block_size &&
		(a->block_size < SFS_BLOCK_MIN || a->block_size & (a->block_size - 1))) {
		pr_error_set(err, "--block-size must be a power of two from 64K to 16M");
		return CLI_USAGE;
	}
	return sfs_create(c->paths.path, c->paths.count, &o, err);
}

static const struct pr_option grow_options[] = {
	PR_OPT_SIZE(size, "size", 's', "SIZE", 0, 0,
		"size of all its files together (0: as they are)"),
	PR_OPT_LIST(add, "add", 0, "PATH", "add this device, or file"),
	PR_OPT_FLAG(force, "force", 'f',
		"add the device even if it already holds a volume; that volume is "
		"destroyed"),
	CLI_FORM_OPTIONS(),
};

static int
volume_grow(struct volume_call *c, struct pr_error *err)
{
	const struct pr_string_list *add = &c->args.add;
	struct sfs_grow_options o = {
		.size = c->args.size,
		.add = (const char *const *)add->items,
		.add_count = add->count,
		.force = c->args.force,
	};
	uint64_t blocks = 0;

	if (sfs_grow(c->paths.path, c->paths.count, &o, &blocks, err) < 0)
		return -1;
	if (c->form == RENDER_TEXT) {
		printf("%s: %" PRIu64 " blocks more", c->paths.text, blocks);
		if (add->count)
			printf("; from now on the volume is %s", c->paths.text);
		for (size_t i = 0; i < add->count; i++)
			printf(",%s", add->items[i]);
		printf("\n");
		return 0;
	}
	c->r = render_begin(stdout, c->form);
	render_string(c->r, "path", c->paths.text);
	render_uint(c->r, "new_blocks", blocks);
	return 0;
}

/* ---- show ---- */

static const struct pr_option form_options[] = {CLI_FORM_OPTIONS()};

static void
render_devices(struct render *r, struct sfs *sfs)
{
	static const char *const states[] = {"there", "missing", "lost"};
	struct sfs_device_info d;
	struct pr_error err;

	render_list(r, "device_list");
	for (size_t i = 0; sfs_device_info(sfs, i, &d, &err) == 0; i++) {
		render_object(r, NULL);
		render_string(r, "path", d.path);
		render_string(r, "state", states[d.state]);
		if (d.state != SFS_DEVICE_IS_THERE)
			render_string(r, "why", d.why);
		render_uint(r, "blocks", d.blocks);
		render_uint(r, "lost_records", d.lost_records);
		render_close(r);
	}
	render_close(r);
}

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
render_show_stream(struct render *r, enum render_form form, const struct sfs_stream_info *s,
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
volume_show(struct volume_call *c, struct pr_error *err)
{
	int64_t now = pr_now_real();
	struct sfs *sfs = open_volume(c, err);
	struct sfs_volume_info v;
	struct sfs_stream_info s;
	struct sfs_forecast f;

	if (!sfs || sfs_info(sfs, &v, err) < 0 || sfs_forecast(sfs, now, &f, err) < 0) {
		sfs_close(&sfs);
		return -1;
	}
	c->r = render_begin(stdout, c->form);
	render_volume(c->r, &c->paths, &v);
	render_devices(c->r, sfs);
	render_forecast(c->r, c->form, &f);
	render_list(c->r, "stream_list");
	for (size_t i = 0; i < v.stream_count; i++)
		if (sfs_stream_info(sfs, i, &s, err) == 0)
			render_show_stream(c->r, c->form, &s, now);
	render_close(c->r);
	sfs_close(&sfs);
	return 0;
}

/* ---- streams ---- */

static const struct pr_option streams_options[] = {
	PR_OPT_LIST(guarantees, "guarantee", 0, "NAME=SIZE",
		"first set the stream's guarantee: its newest bytes that are never "
		"overwritten"),
	PR_OPT_LIST(permissions, "permission", 0, "NAME=BITS",
		"first set the permission bits of the stream's new records"),
	CLI_FORM_OPTIONS(),
};

/* One NAME=VALUE of an option. */
struct setting {
	char name[SFS_NAME_MAX + 1];
	uint64_t value;
};

static int
parse_setting(const char *text, bool size, struct setting *out)
{
	const char *at = strrchr(text, '=');
	size_t len = at ? (size_t)(at - text) : 0;
	char *end;

	if (len == 0 || len >= sizeof(out->name) || at[1] < '0' || at[1] > '9')
		return -1;
	memcpy(out->name, text, len);
	out->name[len] = 0;
	if (size)
		return pr_parse_size(at + 1, &out->value);
	errno = 0;
	out->value = strtoull(at + 1, &end, 0);
	return *end || errno || out->value > UINT32_MAX ? -1 : 0;
}

static int
check_settings(const struct volume_args *a, struct pr_error *err)
{
	struct setting s;

	for (size_t i = 0; i < a->guarantees.count; i++)
		if (parse_setting(a->guarantees.items[i], true, &s) < 0)
			return pr_error_set(err,
				"--guarantee %s: give NAME=SIZE, as in packets.0=10G",
				a->guarantees.items[i]);
	for (size_t i = 0; i < a->permissions.count; i++)
		if (parse_setting(a->permissions.items[i], false, &s) < 0)
			return pr_error_set(err,
				"--permission %s: give NAME=BITS, as in packets.0=0x3",
				a->permissions.items[i]);
	return 0;
}

/*
 * Opened for writing. A guarantee is set by the volume's writer, if one lives: then opened for reading,
 * which hands it to that one.
 */
static struct sfs *
open_to_set(const struct volume_call *c, bool size, struct pr_error *err)
{
	struct sfs_open_options reading = {.writer = false}, writing = {.writer = true};
	struct sfs_volume_info info;
	struct sfs *sfs;

	if (size) {
		sfs = sfs_open(c->paths.path, c->paths.count, &reading, err);
		if (!sfs || sfs_info(sfs, &info, err) < 0 || info.writer_alive)
			return sfs;
		sfs_close(&sfs);
	}
	return sfs_open(c->paths.path, c->paths.count, &writing, err);
}

static int
set_all(const struct volume_call *c, const struct pr_string_list *list, bool size,
	struct pr_error *err)
{
	struct setting s;
	struct sfs *sfs;
	int rc = 0;

	if (list->count == 0)
		return 0;
	sfs = open_to_set(c, size, err);
	if (!sfs)
		return -1;
	for (size_t i = 0; rc == 0 && i < list->count; i++) {
		parse_setting(list->items[i], size, &s);
		rc = size ? sfs_guarantee_set(sfs, s.name, s.value, err)
			  : sfs_permission_set(sfs, s.name, (uint32_t)s.value, err);
	}
	sfs_close(&sfs);
	return rc;
}

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

/* One line for people. */
static void
print_stream(const struct sfs_stream_info *s)
{
	char from[PR_TIME_TEXT], to[PR_TIME_TEXT];

	printf("%-20s %10" PRIu64 " %14" PRIu64 " %10" PRIu64 "  ", s->name,
		s->last_sequence
			? s->last_sequence - s->first_sequence + 1 - s->deleted_records
			: 0,
		s->bytes, s->recycled_records);
	if (s->last_sequence)
		printf("%s to %s\n", pr_time_format(s->min_time, from, sizeof(from)),
			pr_time_format(s->max_time, to, sizeof(to)));
	else
		printf("none\n");
}

static int
list_streams(struct volume_call *c, struct sfs *sfs, struct pr_error *err)
{
	struct sfs_volume_info volume;
	struct sfs_stream_info s;

	if (sfs_info(sfs, &volume, err) < 0)
		return -1;
	if (c->form == RENDER_TEXT) {
		printf("%-20s %10s %14s %10s  %s\n", "stream", "records", "bytes",
			"overwritten", "times");
	} else {
		c->r = render_begin(stdout, c->form);
		render_list(c->r, "streams");
	}
	for (size_t i = 0; i < volume.stream_count; i++) {
		if (sfs_stream_info(sfs, i, &s, err) < 0)
			return -1;
		if (c->r)
			render_stream(c->r, &s);
		else
			print_stream(&s);
	}
	return 0;
}

static int
volume_streams(struct volume_call *c, struct pr_error *err)
{
	struct sfs *sfs;
	int rc = -1;

	if (check_settings(&c->args, err) < 0)
		return CLI_USAGE;
	if (set_all(c, &c->args.guarantees, true, err) < 0 ||
		set_all(c, &c->args.permissions, false, err) < 0)
		return -1;
	sfs = open_volume(c, err);
	if (sfs)
		rc = list_streams(c, sfs, err);
	sfs_close(&sfs);
	return rc;
}

/* ---- records ---- */

#define PERMISSION_OPTION                                                                  \
	PR_OPT_UINT(permission, "permission", 0, "BITS", 0, UINT32_MAX,                    \
		"only records whose permission bits are all among these (0: any)")

static const struct pr_option records_options[] = {
	PERMISSION_OPTION,
	PR_OPT_UINT(limit, "limit", 'c', "N", 0, 0,
		"at most N records, from the oldest on (0: all)"),
	CLI_FORM_OPTIONS(),
};

static void
show_record(struct render *r, const struct sfs_record *record)
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

/* Number of records that could not be read, or -1. Records that are denied are not counted. */
static int64_t
list_records(struct volume_call *c, struct sfs *sfs, int stream, struct pr_error *err)
{
	struct sfs_cursor *cursor = sfs_cursor_open(sfs, stream, NULL, err);
	struct sfs_record record;
	int64_t bad = 0;
	int rc;

	if (!cursor)
		return -1;
	for (uint64_t n = 0; (rc = sfs_cursor_next(cursor, &record, err)) != 0;) {
		if (rc == 1)
			show_record(c->r, &record);
		else if (rc == SFS_ERROR)
			break;
		else if (rc == SFS_CORRUPT)
			bad++;
		if (rc == 1 && ++n == c->args.limit)
			break;
	}
	sfs_cursor_close(&cursor);
	return rc == SFS_ERROR ? -1 : bad;
}

static int
volume_records(struct volume_call *c, struct pr_error *err)
{
	struct sfs *sfs = open_volume(c, err);
	int stream = sfs ? sfs_stream_find(sfs, c->operand) : -1;
	int64_t bad = -1;

	if (sfs && stream < 0)
		pr_error_set(err, "no stream '%.100s' in the volume", c->operand);
	if (stream >= 0 && c->form != RENDER_TEXT) {
		c->r = render_begin(stdout, c->form);
		render_list(c->r, "records");
	}
	if (stream >= 0)
		bad = list_records(c, sfs, stream, err);
	if (bad > 0)
		pr_error_prefix(err, "damaged in %lld places, at last", (long long)bad);
	sfs_close(&sfs);
	return bad ? -1 : 0;
}

/* ---- dump ---- */

static const struct pr_option dump_options[] = {
	PR_OPT_FLAG(raw, "raw", 0, "write only the record's body to standard output"),
	PERMISSION_OPTION,
	CLI_FORM_OPTIONS(),
};

static void
print_hex(const uint8_t *bytes, size_t length)
{
	for (size_t at = 0; at < length; at += 16) {
		size_t n = length - at < 16 ? length - at : 16;

		printf("%08zx ", at);
		for (size_t i = 0; i < 16; i++)
			if (i < n)
				printf(i == 8 ? "  %02x" : " %02x", bytes[at + i]);
			else
				printf(i == 8 ? "    " : "   ");
		printf("  |");
		for (size_t i = 0; i < n; i++)
			putchar(isprint(bytes[at + i]) ? bytes[at + i] : '.');
		printf("|\n");
	}
}

static void
print_record(struct volume_call *c, struct sfs *sfs, const struct sfs_record *record)
{
	char text[SFS_HANDLE_TEXT];
	struct sfs_stream_info s;
	struct render *r = render_begin(stdout, c->form);

	render_string(r, "handle", sfs_handle_text(&record->handle, text));
	if (sfs_stream_info(sfs, record->stream, &s, NULL) == 0)
		render_string(r, "stream", s.name);
	render_uint(r, "permission", record->permission);
	render_uint(r, "sequence", record->sequence);
	render_uint(r, "block", record->handle.block);
	render_uint(r, "generation", record->handle.generation);
	render_uint(r, "offset", record->handle.offset);
	render_uint(r, "length", record->length);
	render_time(r, "min_time", record->min_time);
	render_time(r, "max_time", record->max_time);
	c->r = r;
	if (c->form == RENDER_TEXT)
		print_hex(record->body, record->length);
}

static int
dump(struct volume_call *c, struct sfs *sfs, const struct sfs_handle *handle,
	struct pr_error *err)
{
	struct sfs_record record;
	int rc = sfs_read(sfs, handle, NULL, 0, NULL, &record, err);

	if (rc != SFS_OK)
		return pr_error_prefix(
			err, "%s", rc == SFS_EXPIRED ? "expired" : sfs_result_text(rc));
	if (!c->args.raw)
		print_record(c, sfs, &record);
	else if (fwrite(record.body, 1, record.length, stdout) != record.length)
		return pr_error_set(err, "cannot write the record");
	return 0;
}

static int
volume_dump(struct volume_call *c, struct pr_error *err)
{
	struct sfs_handle handle;
	struct sfs *sfs;
	int rc = -1;

	if (!sfs_handle_parse(c->operand, &handle)) {
		pr_error_set(err,
			"%.100s: not a handle: 80 hexadecimal digits, as `packrack volume "
			"records` prints them",
			c->operand);
		return CLI_USAGE;
	}
	sfs = open_volume(c, err);
	if (sfs)
		rc = dump(c, sfs, &handle, err);
	sfs_close(&sfs);
	return rc;
}

/* ---- check ---- */

static const struct pr_option check_options[] = {
	CLI_FORM_OPTIONS(),
	PR_OPT_FLAG(repair, "repair", 0, "remove what is damaged, and only that"),
	PR_OPT_FLAG(force, "force", 'f',
		"with --repair: also if the newest root is lost, and blocks with it"),
};

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
check(struct volume_call *c, struct pr_error *err)
{
	struct sfs *sfs = open_volume(c, err);
	uint64_t records = 0;
	int64_t faults = -1;

	render_list(c->r, "faults");
	if (sfs)
		faults = sfs_check(sfs, on_fault, c->r, &records, err);
	render_close(c->r);
	sfs_close(&sfs);
	if (faults < 0)
		return -1;
	render_uint(c->r, "records", records);
	render_uint(c->r, "fault_count", (uint64_t)faults);
	return faults;
}

static int64_t
repair(struct volume_call *c, struct pr_error *err)
{
	const struct sfs_repair_options how = {.force = c->args.force};
	struct sfs_repair_result out;
	int rc;

	render_list(c->r, "faults");
	rc = sfs_repair(c->paths.path, c->paths.count, &how, on_fault, c->r, &out, err);
	render_close(c->r);
	if (rc < 0)
		return -1;
	render_uint(c->r, "records", out.records);
	render_uint(c->r, "fault_count", out.faults);
	render_uint(c->r, "dropped_records", out.dropped_records);
	render_uint(c->r, "maps_written", out.maps);
	render_uint(c->r, "roots_written", out.roots);
	render_uint(c->r, "faults_left", out.left);
	return (int64_t)out.left;
}

static int
volume_check(struct volume_call *c, struct pr_error *err)
{
	int64_t faults;

	if (c->args.force && !c->args.repair) {
		pr_error_set(err, "--force is for --repair: a check changes nothing");
		return CLI_USAGE;
	}
	c->r = render_begin(stdout, c->form);
	render_string(c->r, "path", c->paths.text);
	faults = c->args.repair ? repair(c, err) : check(c, err);
	if (faults < 0 && c->form != RENDER_TEXT)
		render_string(c->r, "error", err->text);
	return faults < 0 ? -1 : faults ? CLI_PARTIAL : CLI_OK;
}

/* ---- index ---- */

static int
make_index(const struct volume_paths *paths, struct pri_follower_stats *figures,
	struct pr_error *err)
{
	struct inline_index index = {.path = paths->text};
	struct volume_writer writer;
	int rc = volume_writer_open(&writer, paths, true, err);

	if (rc == 0)
		rc = inline_index_step(&index, writer.append, true, err);
	if (rc == 0) {
		pri_follower_stats(index.feed, figures);
		rc = prl_writer_flush(writer.append, err);
	}
	inline_index_close(&index);
	volume_writer_close(&writer);
	return rc;
}

static int
volume_index(struct volume_call *c, struct pr_error *err)
{
	struct pri_follower_stats f = {0};
	uint64_t bytes;

	if (make_index(&c->paths, &f, err) < 0)
		return -1;
	bytes = f.built.level1_bytes + f.built.level2_bytes;
	if (c->form == RENDER_TEXT) {
		printf("%s: %" PRIu64 " segments indexed, %" PRIu64 " bytes of index\n",
			c->paths.text, f.built.segments, bytes);
		return 0;
	}
	c->r = render_begin(stdout, c->form);
	render_string(c->r, "path", c->paths.text);
	render_uint(c->r, "segments", f.built.segments);
	render_uint(c->r, "packets", f.built.packets);
	render_uint(c->r, "index_bytes", bytes);
	render_uint(c->r, "damaged_segments", f.built.damaged);
	return 0;
}

/* ---- what they have in common ---- */

int
volume_writer_open(struct volume_writer *out, const struct volume_paths *paths,
	bool lazy_directory, struct pr_error *err)
{
	struct sfs_open_options writing = {.writer = true};
	struct prl_writer_options o = {.lazy_directory = lazy_directory};

	*out = (struct volume_writer){
		.sfs = sfs_open(paths->path, paths->count, &writing, err)};
	if (out->sfs)
		out->append = prl_writer_create(out->sfs, &o, err);
	return out->append ? 0 : -1;
}

void
volume_writer_close(struct volume_writer *w)
{
	prl_writer_destroy(&w->append);
	sfs_close(&w->sfs);
}

static const struct command {
	const char *name, *summary, *usage;
	const struct pr_option *options;
	size_t option_count;
	int (*run)(
		struct volume_call *c, struct pr_error *err); /* 0, -1, or an exit status */
} commands[] = {
#define OPTIONS(table) table, sizeof(table) / sizeof(*(table))
	{"create",
		"Makes a volume in a file or on a block device, or striped over several.",
		"VOLUME", OPTIONS(create_options), volume_create},
	{"show", "Shows what a volume is, how full, and how long it keeps new data.",
		"VOLUME", OPTIONS(form_options), volume_show},
	{"streams", "Lists a volume's streams; sets their guarantees and permissions.",
		"VOLUME", OPTIONS(streams_options), volume_streams},
	{"records", "Lists the records of a stream, with their handles.", "VOLUME STREAM",
		OPTIONS(records_options), volume_records},
	{"dump", "Shows the record of a handle: header and bytes.", "VOLUME HANDLE",
		OPTIONS(dump_options), volume_dump},
	{"check", "Reads all of a volume, and names each fault.", "VOLUME",
		OPTIONS(check_options), volume_check},
	{"index", "Indexes the segments of a volume that have no index yet.", "VOLUME",
		OPTIONS(form_options), volume_index},
	{"grow", "Makes a volume larger. No program may be writing it.", "VOLUME",
		OPTIONS(grow_options), volume_grow},
};

static int
run_on_paths(struct volume_call *c, const struct command *command, const char *volume)
{
	struct pr_error err = {""};
	int rc = CLI_USAGE;

	if (volume_paths_parse(volume, &c->paths, &err) == 0)
		rc = command->run(c, &err);
	if (c->r && render_end(&c->r) < 0 && rc == 0)
		rc = pr_error_set(&err, "cannot print");
	if (rc == 0 && fflush(stdout) != 0)
		rc = pr_error_errno(&err, "cannot print");
	volume_paths_free(&c->paths);
	rc = rc < 0 ? CLI_FAILED : rc;
	return rc == CLI_FAILED || rc == CLI_USAGE ? cli_fail(c->program->name, rc, &err)
						   : rc;
}

/* argv[0] names the command. */
static int
run_command(int argc, char **argv)
{
	const struct command *command = commands;
	char name[40], usage[40];
	int operand, status, operands;

	while (strcmp(command->name, argv[0]) != 0)
		command++;
	snprintf(name, sizeof(name), "packrack volume %s", command->name);
	snprintf(usage, sizeof(usage), "[options] %s", command->usage);
	const struct pr_cmdline program = {.name = name,
		.summary = command->summary,
		.usage = usage,
		.options = command->options,
		.option_count = command->option_count,
		.footer = "VOLUME is PATH[,PATH...], the devices of one volume."};
	struct volume_call c = {.program = &program};

	operands = 1 + (strchr(command->usage, ' ') != NULL);
	status = cli_parse(&program, &c.args, argc, argv, &operand);
	c.form = cli_form(c.args.json, c.args.keyvalue);
	if (status < 0 && argc - operand != operands)
		status = cli_usage(name, "usage: %s %s", name, usage);
	else if (status < 0) {
		c.operand = operands > 1 ? argv[operand + 1] : NULL;
		status = run_on_paths(&c, command, argv[operand]);
	}
	pr_options_free(&program, &c.args);
	return status;
}

int
cmd_volume(int argc, char **argv)
{
	static const struct cli_command list[] = {
		{"create", run_command, "make a volume"},
		{"show", run_command, "what a volume is, and how full"},
		{"streams", run_command, "list the streams of a volume"},
		{"records", run_command, "list the records of a stream"},
		{"dump", run_command, "show one record, named by its handle"},
		{"check", run_command, "read all of it, name each fault, repair"},
		{"index", run_command, "index what has no index yet"},
		{"grow", run_command, "make it larger, on its devices or more of them"},
	};

	return cli_dispatch("packrack volume", "Creates, shows, checks and grows volumes.",
		list, sizeof(list) / sizeof(list[0]), argc, argv);
}
