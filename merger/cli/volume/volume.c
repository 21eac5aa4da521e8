/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/volume/volume.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>

#include "indexer/index_follower.h"
#include "merger/cli/query/ask.h"
#include "proto/base/units.h"

/*
 * packrack volume: each command has its options, and a function that gets the volume's paths. What they
 * have in common is at the end.
 */

struct volume_call {
	/* options */
	uint64_t size, block_size, utilization, permission, limit;
	struct pr_string_list add, guarantees, permissions;
	int64_t since, until;
	int zones;
	bool force, repair, raw, json, keyvalue;
	/* the rest */
	const char *name; /* "packrack volume show" */
	const char *volume; /* as given */
	struct volume_paths paths;
	const char *operand; /* behind the volume; or NULL */
	enum render_form form;
	struct progress progress; /* of a check, with the volume's sizes */
	struct sfs_volume_info info;
	struct render *r; /* ended by the caller; NULL: nothing is rendered */
};
#define PR_VALUES struct volume_call

static struct sfs *
open_volume(const struct volume_call *c, struct pr_error *err)
{
	struct sfs_open_options o = {.permission_mask = c->permission};
	struct sfs *sfs = sfs_open(c->paths.path, c->paths.count, &o, err);
	char text[400];

	if (sfs && sfs_degraded(sfs, text, sizeof(text)))
		fprintf(stderr, "%s: %s\n", c->name, text);
	if (sfs && sfs_losses(sfs, text, sizeof(text)))
		fprintf(stderr, "%s: %s\n", c->name, text);
	return sfs;
}

/* For people: the head of a table. */
static void
begin_list(struct volume_call *c, const char *name, const char *head)
{
	c->r = cli_render(c->json, c->keyvalue, name);
	if (!c->r)
		fputs(head, stdout);
}

/* ---- create, grow ---- */

static const char *const zones[] = {"auto", "on", "off", NULL};

static const struct pr_option create_options[] = {
	PR_OPT_SIZE(size, "size", 's', "SIZE", 0, 0,
		"bytes: 64M, 10G ... (0: whole device, or present size of the file)"),
	PR_OPT_SIZE(block_size, "block-size", 0, "SIZE", 0, SFS_BLOCK_MAX,
		"a power of two (0: 1M)"),
	PR_OPT_UINT(utilization, "utilization", 0, "PERCENT", 10, 95,
		"upper limit for the sum of all guarantees, in percent of the volume",
		.def = "90"),
	PR_OPT_ENUM(zones, "zones", 0, "WHEN", zones,
		"alternate between the tracks of a hard disk: auto, on or off"),
	PR_OPT_FLAG(force, "force", 'f', "overwrite an existing volume")};

static int
volume_create(void *values, struct pr_error *err)
{
	struct volume_call *c = values;
	struct sfs_create_options o = {0};

	PR_COPY(&o, c, size, block_size, utilization, force, zones);
	if (c->block_size &&
		(c->block_size < SFS_BLOCK_MIN || c->block_size & (c->block_size - 1)))
		return pr_error_as(CLI_USAGE, err,
			"--block-size must be a power of two from 64K to 16M");
	return sfs_create(c->paths.path, c->paths.count, &o, err);
}

static const struct pr_option grow_options[] = {
	PR_OPT_SIZE(size, "size", 's', "SIZE", 0, 0,
		"size of all its files together (0: their present size)"),
	PR_OPT_LIST(add, "add", 0, "PATH", "add this device, or file"),
	PR_OPT_FLAG(force, "force", 'f',
		"add the device even if it already holds a volume; that volume is "
		"destroyed"),
	CLI_FORM_OPTIONS()};

static int
volume_grow(void *values, struct pr_error *err)
{
	struct volume_call *c = values;
	struct sfs_grow_options o = {.size = c->size,
		.add = (const char *const *)c->add.items,
		.add_count = c->add.count,
		.force = c->force};
	uint64_t blocks = 0;

	if (sfs_grow(c->paths.path, c->paths.count, &o, &blocks, err) < 0)
		return -1;
	if (c->form == RENDER_TEXT) {
		printf("%s: %" PRIu64 " blocks more", c->volume, blocks);
		if (c->add.count)
			printf("; from now on the volume is %s", c->volume);
		for (size_t i = 0; i < c->add.count; i++)
			printf(",%s", c->add.items[i]);
		printf("\n");
		return 0;
	}
	c->r = render_begin(stdout, c->form);
	render_string(c->r, "path", c->volume);
	render_uint(c->r, "new_blocks", blocks);
	return 0;
}

/* ---- show ---- */

static const struct pr_option form_options[] = {CLI_FORM_OPTIONS()};

static void
render_volume(const struct volume_call *c, struct sfs *sfs, const struct sfs_volume_info *v)
{
	static const char *const states[] = {"there", "missing", "lost"};
	struct render *r = c->r;
	struct sfs_device_info d;

	render_string(r, "path", c->volume);
	render_list(r, "devices");
	for (size_t i = 0; i < c->paths.count; i++)
		render_string(r, NULL, c->paths.path[i]);
	render_close(r);
	render_string(r, "uuid", v->uuid);
	RENDER_UINTS(r, {"version", v->version}, {"bytes", v->bytes},
		{"block_size", v->block_size}, {"blocks", v->blocks},
		{"blocks_used", v->blocks_used}, {"utilization", v->utilization},
		{"guaranteed_blocks", v->guaranteed_blocks},
		{"guarantee_most", v->guarantee_most}, {"generation", v->generation},
		{"streams", v->stream_count});
	render_bool(r, "zones", v->zones);
	render_bool(r, "writer_alive", v->writer_alive);
	RENDER_UINTS(r, {"recovered_records", v->recovered_records},
		{"lost_tail_bytes", v->lost_tail_bytes}, {"repairs", v->repairs},
		{"deletions", v->deletions});
	if (v->wiping)
		render_uint(r, "wiping", v->wiping);
	render_list(r, "device_list");
	for (size_t i = 0; sfs_device_info(sfs, i, &d, NULL) == 0; i++) {
		render_object(r, NULL);
		render_string(r, "path", d.path);
		render_string(r, "state", states[d.state]);
		if (d.state != SFS_DEVICE_IS_THERE)
			render_string(r, "why", d.why);
		RENDER_UINTS(r, {"blocks", d.blocks}, {"lost_records", d.lost_records});
		render_close(r);
	}
	render_close(r);
}

/* A length of time: ns in JSON, days and hours for people. */
static void
render_span(const struct volume_call *c, const char *name, int64_t ns)
{
	char text[40];
	uint64_t s = ns / PR_NS_PER_S;

	if (c->form == RENDER_JSON) {
		render_uint(c->r, name, ns);
		return;
	}
	if (s >= 86400)
		PR_PRINT(text, "%" PRIu64 "d %" PRIu64 "h", s / 86400, s % 86400 / 3600);
	else if (s >= 3600)
		PR_PRINT(text, "%" PRIu64 "h %" PRIu64 "m", s / 3600, s % 3600 / 60);
	else
		PR_PRINT(text, "%" PRIu64 "s", s);
	render_string(c->r, name, text);
}

static void
render_stream(const struct volume_call *c, const struct sfs_stream_info *s, int64_t now)
{
	struct render *r = c->r;

	render_object(r, NULL);
	render_string(r, "name", s->name);
	RENDER_UINTS(r, {"bytes", s->bytes}, {"blocks", s->blocks},
		{"guarantee", s->guarantee}, {"permission", s->permission});
	if (s->last_sequence && s->min_time <= s->max_time) {
		render_time(r, "oldest", s->min_time);
		render_time(r, "newest", s->max_time);
		if (s->min_time < now && s->min_time > 0)
			render_span(c, "oldest_age", now - s->min_time);
		if (s->max_time < now && s->max_time > 0)
			render_span(c, "newest_age", now - s->max_time);
	}
	render_close(r);
}

static int
volume_show(void *values, struct pr_error *err)
{
	struct volume_call *c = values;
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
	render_volume(c, sfs, &v);
	/* what is not known of the forecast is left out */
	render_object(c->r, "forecast");
	render_uint(c->r, "capacity", f.capacity);
	render_bool(c->r, "wrapped", f.wrapped);
	if (f.rate)
		render_uint(c->r, "bytes_per_second", f.rate);
	if (f.recent_rate)
		render_uint(c->r, "recent_bytes_per_second", f.recent_rate);
	if (f.kept != INT64_MAX)
		render_span(c, "kept", f.kept);
	if (!f.wrapped && f.until_full != INT64_MAX)
		render_span(c, "until_full", f.until_full);
	render_close(c->r);
	render_list(c->r, "stream_list");
	for (size_t i = 0; i < v.stream_count; i++)
		if (sfs_stream_info(sfs, i, &s, err) == 0)
			render_stream(c, &s, now);
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
	CLI_FORM_OPTIONS()};

/* One NAME=VALUE of an option. */
struct setting {
	char name[SFS_NAME_MAX + 1];
	uint64_t value;
};

static int
parse_setting(const char *text, bool size, struct setting *out, struct pr_error *err)
{
	const char *at = strrchr(text, '=');
	size_t len = at ? at - text : 0;
	bool good = len && len < sizeof(out->name) && at[1] >= '0' && at[1] <= '9';
	char *end;

	if (good) {
		memcpy(out->name, text, len);
		out->name[len] = 0;
	}
	if (good && size) {
		good = pr_parse_size(at + 1, &out->value) == 0;
	} else if (good) {
		errno = 0;
		out->value = strtoull(at + 1, &end, 0);
		good = !*end && !errno && out->value <= UINT32_MAX;
	}
	return good ? 0
		    : pr_error_set(err,
			      size ? "--guarantee %s: give NAME=SIZE, as in packets.0=10G"
				   : "--permission %s: give NAME=BITS, as in packets.0=0x3",
			      text);
}

static int
set_all(const struct volume_call *c, const struct pr_string_list *list, bool size,
	struct pr_error *err)
{
	struct sfs_open_options how = {.writer = !size, .keep = true};
	struct sfs_volume_info info;
	struct setting s;
	int rc = 0;

	if (list->count == 0)
		return 0;
	struct sfs *sfs = sfs_open(c->paths.path, c->paths.count, &how, err);
	/* a guarantee is set by the volume's writer, if one lives: a reader hands it to that one */
	if (sfs && size && sfs_info(sfs, &info, err) == 0 && !info.writer_alive) {
		sfs_close(&sfs);
		how.writer = true;
		sfs = sfs_open(c->paths.path, c->paths.count, &how, err);
	}
	if (!sfs)
		return -1;
	for (size_t i = 0; rc == 0 && i < list->count; i++) {
		parse_setting(list->items[i], size, &s, NULL);
		rc = size ? sfs_guarantee_set(sfs, s.name, s.value, err)
			  : sfs_permission_set(sfs, s.name, s.value, err);
	}
	sfs_close(&sfs);
	return rc;
}

static void
show_stream(struct render *r, const struct sfs_stream_info *s)
{
	char from[PR_TIME_TEXT], to[PR_TIME_TEXT];

	if (!r) {
		printf("%-20s %10" PRIu64 " %14" PRIu64 " %10" PRIu64 "  %s%s%s\n", s->name,
			s->last_sequence ? s->last_sequence - s->first_sequence + 1 -
						   s->deleted_records
					 : 0,
			s->bytes, s->recycled_records,
			s->last_sequence ? pr_time_local(s->min_time, from, sizeof(from))
					 : "none",
			s->last_sequence ? " to " : "",
			s->last_sequence ? pr_time_local(s->max_time, to, sizeof(to)) : "");
		return;
	}
	render_object(r, NULL);
	render_string(r, "name", s->name);
	RENDER_UINTS(r, {"id", s->id}, {"guarantee", s->guarantee},
		{"permission", s->permission}, {"blocks", s->blocks}, {"bytes", s->bytes},
		{"first_sequence", s->first_sequence}, {"last_sequence", s->last_sequence},
		{"recycled_records", s->recycled_records},
		{"deleted_records", s->deleted_records},
		{"deleted_bytes", s->deleted_bytes});
	if (s->last_sequence) {
		render_time(r, "min_time", s->min_time);
		render_time(r, "max_time", s->max_time);
	}
	if (s->evicted_until != INT64_MIN)
		render_time(r, "evicted_until", s->evicted_until);
	render_close(r);
}

static int
volume_streams(void *values, struct pr_error *err)
{
	struct volume_call *c = values;
	struct sfs_volume_info volume;
	struct sfs_stream_info s;
	struct setting unused;
	int rc = -1;

	for (size_t i = 0; i < c->guarantees.count; i++)
		if (parse_setting(c->guarantees.items[i], true, &unused, err) < 0)
			return CLI_USAGE;
	for (size_t i = 0; i < c->permissions.count; i++)
		if (parse_setting(c->permissions.items[i], false, &unused, err) < 0)
			return CLI_USAGE;
	if (set_all(c, &c->guarantees, true, err) < 0 ||
		set_all(c, &c->permissions, false, err) < 0)
		return -1;
	struct sfs *sfs = open_volume(c, err);
	if (sfs && (rc = sfs_info(sfs, &volume, err)) == 0) {
		begin_list(c, "streams",
			"stream                  records          bytes overwritten  "
			"times\n");
		for (size_t i = 0; rc == 0 && i < volume.stream_count; i++)
			if ((rc = sfs_stream_info(sfs, i, &s, err)) == 0)
				show_stream(c->r, &s);
	}
	sfs_close(&sfs);
	return rc;
}

/* ---- records ---- */

#define PERMISSION_OPTION                                                                  \
	PR_OPT_UINT(permission, "permission", 0, "BITS", 0, UINT32_MAX,                    \
		"only records whose permission bits are all among these (0: any)")

static const struct pr_option records_options[] = {PERMISSION_OPTION, CLI_TIME_OPTIONS(),
	PR_OPT_UINT(limit, "limit", 'c', "N", 0, 0,
		"at most N records, from the oldest on (0: all)"),
	PR_OPT_FLAG(raw, "raw", 0,
		"write each as a line with its number, times (ns) and length, and its "
		"body; 0 0 0 0 is what cannot be read"),
	CLI_FORM_OPTIONS()};

static void
show_record(struct render *r, const struct sfs_record *record)
{
	char handle[SFS_HANDLE_TEXT], from[PR_TIME_TEXT];

	sfs_handle_text(&record->handle, handle);
	if (!r) {
		printf("%s %10" PRIu64 " %8zu %s\n", handle, record->sequence,
			record->length,
			pr_time_local(record->min_time, from, sizeof(from)));
		return;
	}
	render_object(r, NULL);
	render_string(r, "handle", handle);
	RENDER_UINTS(r, {"sequence", record->sequence}, {"length", record->length},
		{"permission", record->permission});
	render_time(r, "min_time", record->min_time);
	render_time(r, "max_time", record->max_time);
	render_close(r);
}

static void
write_record(const struct sfs_record *r)
{
	printf("%" PRIu64 " %" PRId64 " %" PRId64 " %zu\n", r->sequence, r->min_time,
		r->max_time, r->length);
	fwrite(r->body, 1, r->length, stdout);
}

/* Fails if any could not be read, but for --raw, which says it. Records that are denied are not counted. */
static int
volume_records(void *values, struct pr_error *err)
{
	struct volume_call *c = values;
	struct sfs *sfs = open_volume(c, err);
	int stream = sfs ? sfs_stream_find(sfs, c->operand) : -1, rc = SFS_ERROR;
	struct sfs_cursor *cursor = NULL;
	struct sfs_record record;
	long long shown = 0, bad = 0;

	if (sfs && stream < 0)
		pr_error_set(err, "no stream '%.100s' in the volume", c->operand);
	if (stream >= 0 && !c->raw)
		begin_list(c, "records", "");
	if (stream >= 0)
		cursor = sfs_cursor_open(sfs, stream, NULL, err);
	while (cursor && (rc = sfs_cursor_next(cursor, &record, err)) != 0 &&
		rc != SFS_ERROR) {
		bad += rc == SFS_CORRUPT && !c->raw;
		if (rc != 1 && c->raw)
			puts("0 0 0 0");
		if (rc != 1 || record.max_time < c->since || record.min_time > c->until)
			continue;
		if (c->raw)
			write_record(&record);
		else
			show_record(c->r, &record);
		if (++shown == (long long)c->limit)
			break;
	}
	if (rc != SFS_ERROR && bad)
		pr_error_prefix(err, "damaged in %lld places, the last", bad);
	sfs_cursor_close(&cursor);
	sfs_close(&sfs);
	return rc == SFS_ERROR || bad ? -1 : 0;
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
	struct render *r = c->r = render_begin(stdout, c->form);

	render_string(r, "handle", sfs_handle_text(&record->handle, text));
	if (sfs_stream_info(sfs, record->stream, &s, NULL) == 0)
		render_string(r, "stream", s.name);
	RENDER_UINTS(r, {"permission", record->permission}, {"sequence", record->sequence},
		{"block", record->handle.block}, {"generation", record->handle.generation},
		{"offset", record->handle.offset}, {"length", record->length});
	render_time(r, "min_time", record->min_time);
	render_time(r, "max_time", record->max_time);
	if (c->form == RENDER_TEXT)
		print_hex(record->body, record->length);
}

static int
volume_dump(void *values, struct pr_error *err)
{
	struct volume_call *c = values;
	struct sfs_handle handle;
	struct sfs_record record;
	int rc = -1;

	if (!sfs_handle_parse(c->operand, &handle))
		return pr_error_as(CLI_USAGE, err,
			"%.100s: not a handle: 80 hexadecimal digits, as `packrack volume "
			"records` prints them",
			c->operand);
	struct sfs *sfs = open_volume(c, err);
	if (sfs) {
		rc = sfs_read(sfs, &handle, NULL, 0, NULL, &record, err);
		if (rc != SFS_OK)
			rc = pr_error_prefix(err, "%s",
				rc == SFS_EXPIRED ? "expired" : sfs_result_text(rc));
		else if (!c->raw)
			print_record(c, sfs, &record);
		else if (fwrite(record.body, 1, record.length, stdout) != record.length)
			rc = pr_error_set(err, "cannot write the record");
	}
	sfs_close(&sfs);
	return rc;
}

/* ---- check ---- */

static const struct pr_option check_options[] = {CLI_FORM_OPTIONS(),
	PR_OPT_FLAG(repair, "repair", 0, "remove what is damaged, and only that"),
	PR_OPT_FLAG(force, "force", 'f',
		"with --repair: even if the newest root, and so newer blocks, are lost")};

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
	if (f->block != SFS_NO_BLOCK)
		RENDER_UINTS(r, {"block", f->block}, {"offset", f->offset});
	if (f->stream)
		render_string(r, "stream", f->stream);
	if (f->first)
		RENDER_UINTS(r, {"first_record", f->first}, {"last_record", f->last});
	render_string(r, "why", f->why);
	render_close(r);
}

static void
on_block(void *arg, uint64_t blocks)
{
	struct volume_call *c = arg;

	if (progress_due(&c->progress))
		progress_show(&c->progress,
			&(struct progress_state){c->volume, "MiB",
				blocks * c->info.block_size >> 20, blocks, c->info.blocks});
}

static int
volume_check(void *values, struct pr_error *err)
{
	struct volume_call *c = values;
	const struct sfs_repair_options how = {.force = c->force};
	struct sfs_repair_result out = {0};
	int64_t left = -1;

	if (c->force && !c->repair)
		return pr_error_as(
			CLI_USAGE, err, "--force is for --repair: a check changes nothing");
	c->r = render_begin(stdout, c->form);
	render_string(c->r, "path", c->volume);
	struct sfs *sfs = !c->repair ? open_volume(c, err) : NULL;
	render_list(c->r, "faults");
	progress_begin(&c->progress);
	if (sfs && sfs_info(sfs, &c->info, NULL) == SFS_OK)
		sfs_on_progress(sfs, on_block, c);
	if (sfs)
		left = out.faults = sfs_check(sfs, on_fault, c->r, &out.records, err);
	else if (c->repair && sfs_repair(c->paths.path, c->paths.count, &how, on_fault,
				      c->r, &out, err) == 0)
		left = out.left;
	progress_end(&c->progress);
	render_close(c->r);
	sfs_close(&sfs);
	if (left >= 0)
		RENDER_UINTS(c->r, {"records", out.records}, {"fault_count", out.faults});
	else if (c->form != RENDER_TEXT)
		render_string(c->r, "error", err->text);
	if (left >= 0 && c->repair)
		RENDER_UINTS(c->r, {"dropped_records", out.dropped_records},
			{"maps_written", out.maps}, {"roots_written", out.roots},
			{"faults_left", out.left});
	return left < 0 ? -1 : left ? CLI_PARTIAL : CLI_OK;
}

/* ---- index ---- */

static int
add_index_record(void *arg, const struct pr_index_record *r)
{
	struct inline_index *b = arg;
	int rc = prl_writer_index(b->append, r, &b->error);

	b->refused |= rc > 0;
	return rc;
}

/*
 * A volume that takes nothing more (its data's writer says why) has no index either. Groups are
 * finished at the end: the next import begins new ones.
 */
int
inline_index_step(
	void *arg, struct prl_volume_writer *append, bool end, struct pr_error *err)
{
	struct inline_index *b = arg;
	int rc;

	b->append = append;
	if (!b->feed) {
		b->view = ask_volume_open(
			b->path, PRI_VOLUME_CACHED | PRI_VOLUME_SUMMARIES, err);
		if (!b->view || pri_volume_refresh(b->view, true, INT64_MAX, err) < 0)
			return -1;
		b->feed = pri_follower_create(
			b->view, &b->composites, add_index_record, b, err);
		if (!b->feed)
			return -1;
	}
	do
		rc = pri_follower_step(b->feed, INT64_MAX, err);
	while (rc > 0);
	if (rc == 0 && end)
		rc = pri_follower_finish(b->feed, true, err);
	return rc < 0 ? -1 : 0;
}

void
inline_index_close(struct inline_index *b)
{
	pri_follower_destroy(&b->feed);
	pri_volume_close(&b->view);
}

static int
volume_index(void *values, struct pr_error *err)
{
	struct volume_call *c = values;
	struct inline_index index = {.path = c->volume};
	struct pri_follower_stats f = {0};
	struct volume_writer writer;
	int rc = volume_writer_open(&writer, c->volume, true, true, err);

	if (rc == 0)
		rc = inline_index_step(&index, writer.append, true, err);
	if (rc == 0 && index.refused)
		rc = pr_error_set(err, "%s: %s", c->volume, index.error.text);
	if (rc == 0) {
		pri_follower_stats(index.feed, &f);
		rc = prl_writer_flush(writer.append, err);
	}
	inline_index_close(&index);
	volume_writer_close(&writer);
	if (rc < 0)
		return -1;
	if (c->form == RENDER_TEXT) {
		printf("%s: %" PRIu64 " segments indexed, %" PRIu64 " bytes of index\n",
			c->volume, f.segments, f.index_bytes);
		return 0;
	}
	c->r = render_begin(stdout, c->form);
	render_string(c->r, "path", c->volume);
	RENDER_UINTS(c->r, {"segments", f.segments}, {"packets", f.packets},
		{"index_bytes", f.index_bytes}, {"damaged_segments", f.damaged});
	return 0;
}

/* ---- what they have in common ---- */

int
volume_writer_open(struct volume_writer *out, const char *volume, bool lazy_directory,
	bool keep, struct pr_error *err)
{
	struct sfs_open_options writing = {.writer = true, .keep = keep};
	struct prl_writer_options o = {.lazy_directory = lazy_directory};
	struct volume_paths paths;

	*out = (struct volume_writer){0};
	if (volume_paths_parse(volume, &paths, err) == 0)
		out->sfs = sfs_open(paths.path, paths.count, &writing, err);
	volume_paths_free(&paths);
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

static int
run(const struct cli_call *call, struct pr_error *err)
{
	struct volume_call *c = call->values;
	int rc = CLI_USAGE;

	c->name = call->program;
	c->form = cli_form(c->json, c->keyvalue);
	c->operand = call->count > 1 ? call->operands[1] : NULL;
	c->volume = call->operands[0];
	if (volume_paths_parse(c->volume, &c->paths, err) == 0)
		rc = call->command->task(c, err);
	if (c->r && render_end(&c->r) < 0 && rc == 0)
		rc = pr_error_set(err, "cannot print");
	if (rc == 0 && fflush(stdout) != 0)
		rc = pr_error_errno(err, "cannot print");
	volume_paths_free(&c->paths);
	return rc < 0 ? CLI_FAILED : rc;
}

#define FOOTER "VOLUME is PATH[,PATH...], the devices of one volume."

static const struct cli_command commands[] = {
	{"create", "make a volume",
		"Makes a volume in a file or on a block device, or striped over several.",
		"[options] VOLUME", FOOTER, CLI_OPTIONS(create_options), 1, run,
		.task = volume_create},
	{"show", "what a volume is, and how full",
		"Shows what a volume is, how full, and how long it keeps new data.",
		"[options] VOLUME", FOOTER, CLI_OPTIONS(form_options), 1, run,
		.task = volume_show},
	{"streams", "list the streams of a volume",
		"Lists a volume's streams; sets their guarantees and permissions.",
		"[options] VOLUME", FOOTER, CLI_OPTIONS(streams_options), 1, run,
		.task = volume_streams},
	{"records", "list the records of a stream",
		"Lists the records of a stream, with their handles.",
		"[options] VOLUME STREAM", FOOTER, CLI_OPTIONS(records_options), 2, run,
		.task = volume_records},
	{"dump", "show one record, named by its handle",
		"Shows the record of a handle: header and bytes.",
		"[options] VOLUME HANDLE", FOOTER, CLI_OPTIONS(dump_options), 2, run,
		.task = volume_dump},
	{"check", "read all of it, name each fault, repair",
		"Reads all of a volume, and names each fault.", "[options] VOLUME", FOOTER,
		CLI_OPTIONS(check_options), 1, run, .task = volume_check},
	{"index", "index what has no index yet",
		"Indexes the segments of a volume that have no index yet.",
		"[options] VOLUME", FOOTER, CLI_OPTIONS(form_options), 1, run,
		.task = volume_index},
	{"grow", "make it larger, on its devices or more of them",
		"Makes a volume larger. No program may be writing it.", "[options] VOLUME",
		FOOTER, CLI_OPTIONS(grow_options), 1, run, .task = volume_grow}};

const struct cli_command volume_command = {"volume", "create, show, check volumes",
	"Creates, shows, checks and grows volumes.", CLI_LIST(commands),
	.values = &(struct volume_call){.since = PR_TIME_MIN, .until = PR_TIME_MAX}};
