/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/cli.h"
#include "merger/cli/render.h"
#include "logger/streamfs/streamfs.h"

#include <inttypes.h>
#include <stdio.h>

#include "proto/base/clock.h"

struct volume_args {
	uint64_t size, block_size;
	bool force, json, keyvalue;
};

#define AT(field) offsetof(struct volume_args, field)

static const struct pr_option create_options[] = {
	{.name = "size",
		.letter = 's',
		.kind = PR_OPT_SIZE,
		.offset = AT(size),
		.arg = "SIZE",
		.help = "in bytes: 64M, 10G ... (0: the device, or the file as it is)"},
	{.name = "block-size",
		.kind = PR_OPT_SIZE,
		.offset = AT(block_size),
		.arg = "SIZE",
		.help = "a power of two (0: 1M)",
		.max = SFS_BLOCK_MAX},
	{.name = "force",
		.letter = 'f',
		.kind = PR_OPT_FLAG,
		.offset = AT(force),
		.help = "overwrite a volume that is there"},
};

static const struct pr_option show_options[] = {
	{.name = "json", .kind = PR_OPT_FLAG, .offset = AT(json), .help = "print JSON"},
	{.name = "keyvalue",
		.kind = PR_OPT_FLAG,
		.offset = AT(keyvalue),
		.help = "print lines of key=value"},
};

#define PROGRAM(what, text, opts)                                                          \
	{                                                                                  \
		.name = "packrack volume " what, .summary = text,                          \
		.usage = "[options] PATH", .options = opts,                                \
		.option_count = sizeof(opts) / sizeof(opts[0]),                            \
	}

static const struct pr_program create_program =
	PROGRAM("create", "Makes a volume in a file or on a block device.", create_options);
static const struct pr_program show_program =
	PROGRAM("show", "Shows what a volume is, and how full.", show_options);
static const struct pr_program streams_program =
	PROGRAM("streams", "Lists a volume's streams.", show_options);
static const struct pr_program check_program = PROGRAM("check",
	"Reads all of a volume, and names each fault. Exit status 1 if any.", show_options);

static enum render_form
form_of(const struct volume_args *a)
{
	return a->json ? RENDER_JSON : a->keyvalue ? RENDER_KEYVALUE : RENDER_TEXT;
}

/* One path, no less and no more. -1: go on. */
static int
parse(const struct pr_program *p, struct volume_args *a, int argc, char **argv,
	const char **path)
{
	struct pr_error err;
	int operand, status = cli_parse(p, a, argc, argv, &operand);

	if (status >= 0)
		return status;
	if (operand + 1 != argc) {
		pr_error_set(&err, "name one volume: %s PATH", p->name);
		return cli_fail(p->name, CLI_USAGE, &err);
	}
	*path = argv[operand];
	return -1;
}

static int
volume_create(int argc, char **argv)
{
	struct volume_args a = {0};
	struct sfs_create_options o;
	struct pr_error err;
	const char *path = NULL;
	int status = parse(&create_program, &a, argc, argv, &path);

	if (status >= 0)
		return status;
	if (a.block_size &&
		(a.block_size < SFS_BLOCK_MIN || a.block_size & (a.block_size - 1))) {
		pr_error_set(&err, "--block-size must be a power of two from 64K to 16M");
		return cli_fail(create_program.name, CLI_USAGE, &err);
	}
	o = (struct sfs_create_options){
		.size = a.size, .block_size = (uint32_t)a.block_size, .force = a.force};
	if (sfs_create(&path, 1, &o, &err) < 0)
		return cli_fail(create_program.name, CLI_FAILED, &err);
	return CLI_OK;
}

static struct sfs *
open_reader(const char *path, struct pr_error *err)
{
	struct sfs_open_options o = {.writer = false};

	return sfs_open(&path, 1, &o, err);
}

static int
finish(const struct pr_program *p, struct render **r, int result, struct pr_error *err)
{
	if (*r && render_end(r) < 0 && result == 0)
		result = pr_error_set(err, "cannot print");
	return result < 0 ? cli_fail(p->name, CLI_FAILED, err) : CLI_OK;
}

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

static int
volume_show(int argc, char **argv)
{
	struct volume_args a = {0};
	struct sfs_volume_info info;
	struct pr_error err;
	struct render *r = NULL;
	const char *path = NULL;
	int result = -1, status = parse(&show_program, &a, argc, argv, &path);
	struct sfs *sfs;

	if (status >= 0)
		return status;
	sfs = open_reader(path, &err);
	if (sfs && sfs_info(sfs, &info, &err) == 0) {
		r = render_begin(stdout, form_of(&a));
		result = r ? 0 : pr_error_set(&err, "no memory");
	}
	if (r)
		render_volume(r, path, &info);
	if (sfs)
		sfs_close(&sfs);
	return finish(&show_program, &r, result, &err);
}

static void
render_stream(struct render *r, const struct sfs_stream_info *s)
{
	render_object(r, NULL);
	render_string(r, "name", s->name);
	render_uint(r, "id", s->id);
	render_uint(r, "guarantee", s->guarantee);
	render_uint(r, "blocks", s->blocks);
	render_uint(r, "bytes", s->bytes);
	render_uint(r, "first_sequence", s->first_sequence);
	render_uint(r, "last_sequence", s->last_sequence);
	render_uint(r, "recycled_records", s->recycled_records);
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
			s.last_sequence ? s.last_sequence - s.first_sequence + 1 : 0,
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
volume_streams(int argc, char **argv)
{
	struct volume_args a = {0};
	struct pr_error err;
	struct render *r = NULL;
	const char *path = NULL;
	int result = -1, status = parse(&streams_program, &a, argc, argv, &path);
	struct sfs *sfs;

	if (status >= 0)
		return status;
	sfs = open_reader(path, &err);
	if (sfs && form_of(&a) == RENDER_TEXT) {
		result = print_streams(sfs, &err);
	} else if (sfs) {
		r = render_begin(stdout, form_of(&a));
		result = r ? render_streams(r, sfs, &err) : pr_error_set(&err, "no memory");
	}
	if (sfs)
		sfs_close(&sfs);
	return finish(&streams_program, &r, result, &err);
}

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

static int
volume_check(int argc, char **argv)
{
	struct volume_args a = {0};
	struct pr_error err;
	struct render *r = NULL;
	const char *path = NULL;
	int status = parse(&check_program, &a, argc, argv, &path);
	int64_t faults = -1;
	uint64_t records = 0;
	struct sfs *sfs;

	if (status >= 0)
		return status;
	sfs = open_reader(path, &err);
	if (sfs) {
		r = render_begin(stdout, form_of(&a));
		if (!r)
			pr_error_set(&err, "no memory");
	}
	if (r) {
		render_string(r, "path", path);
		render_list(r, "faults");
		faults = sfs_check(sfs, on_fault, r, &records, &err);
		render_close(r);
		render_uint(r, "records", records);
		render_uint(r, "fault_count", faults > 0 ? (uint64_t)faults : 0);
	}
	if (sfs)
		sfs_close(&sfs);
	status = finish(&check_program, &r, faults < 0 ? -1 : 0, &err);
	return status == CLI_OK && faults > 0 ? CLI_FAILED : status;
}

int
cmd_volume(int argc, char **argv)
{
	static const struct cli_command commands[] = {
		{"create", volume_create, "make a volume"},
		{"show", volume_show, "what it is, and how full"},
		{"streams", volume_streams, "what lies in it"},
		{"check", volume_check, "read all of it and name each fault"},
	};

	return cli_dispatch("packrack volume", "Looks after volumes.", commands,
		sizeof(commands) / sizeof(commands[0]), argc, argv);
}
