/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/volume/volume.h"
#include "logger/import.h"
#include "proto/port/trace.h"

#include <sys/stat.h>
#include <unistd.h>

struct import_args {
	char *volume, *name;
	uint64_t create, link;
	bool overwrite, json, keyvalue;
	struct pr_string_list composite;
	struct pri_composites composites;
};

#define PR_VALUES struct import_args

static const struct pr_option options[] = {
	PR_OPT_STRING(volume, "volume", 0, "VOLUME", "store the packets in this volume"),
	PR_OPT_SIZE(create, "create", 0, "SIZE", 0, 0,
		"make the volume, of this size, if there is none"),
	PR_OPT_FLAG(overwrite, "overwrite", 0,
		"when the volume is full, overwrite its oldest packets"),
	PR_OPT_STRING(name, "link-name", 0, "NAME", "name of the link",
		.def_note = "the base name of the file", .aliases = {"name"}),
	PR_OPT_UINT(link, "link-number", 0, "N", 0, PR_STREAM_CLASSES - 1,
		"number of the link", .def_note = "the next free one", .aliases = {"link"}),
	PR_OPT_LIST(composite, "composite", 0, "KEYS",
		"also index combinations of fields, such as src+dport"),
	CLI_FORM_OPTIONS()};

struct import {
	const struct import_args *args;
	const char *path;
	struct progress progress;
	struct render *render; /* NULL: for people */
	bool told; /* that the file was imported before */
	bool stored; /* something was */
	struct volume_paths paths;
	bool made[VOLUME_DEVICES_MAX]; /* files of the volume, by this command */
};

/* ---- what is said of each file ---- */

static void
tell_earlier(struct import *im, const struct pr_ledger_import *e)
{
	char time[PR_TIME_TEXT];

	if (im->told || !e->packets)
		return;
	im->told = true;
	progress_end(&im->progress);
	fprintf(stderr,
		"packrack import: %s: was imported before, as %s at %s (link %u, %" PRIu64
		" packets): they are now in the volume again\n",
		im->path, e->name,
		pr_time_format((int64_t)(e->epoch >> 32) * PR_NS_PER_S, time, sizeof(time)),
		e->link, e->packets);
}

static bool
on_progress(void *arg, const struct prl_import_stats *s)
{
	struct import *im = arg;

	tell_earlier(im, &s->earlier);
	if (progress_due(&im->progress))
		progress_show(&im->progress, &(struct progress_state){im->path, "packets",
						     s->packets, s->offset, s->size});
	return !cli_interrupted;
}

static void
show(struct import *im, const struct prl_import_stats *s)
{
	struct render *r = im->render;

	progress_end(&im->progress);
	tell_earlier(im, &s->earlier);
	if (s->secrets)
		fprintf(stderr, "packrack import: " PRL_SECRETS_LEFT_OUT "\n", im->path,
			s->secrets);
	if (!r) {
		printf("%s: %" PRIu64 " packets, link %u\n", im->path, s->stored, s->link);
		return;
	}
	render_object(r, NULL);
	render_string(r, "file", im->path);
	render_epoch(r, "epoch", s->epoch);
	RENDER_UINTS(r, {"link", s->link}, {"linktype", s->linktype},
		{"snaplen", s->snaplen}, {"packets", s->packets}, {"bytes", s->bytes},
		{"stored", s->stored}, {"secrets_left_out", s->secrets});
	if (s->packets) {
		render_time(r, "first_time", s->first_time);
		render_time(r, "last_time", s->last_time);
	}
	if (s->earlier.packets) {
		render_object(r, "earlier");
		render_epoch(r, "epoch", s->earlier.epoch);
		RENDER_UINTS(r, {"link", s->earlier.link}, {"packets", s->earlier.packets});
		render_string(r, "file", s->earlier.name);
		render_close(r);
	}
	render_close(r);
}

static int
import_files(struct import *im, struct sfs *sfs, int count, char **files)
{
	struct inline_index index = {
		.path = im->args->volume, .composites = im->args->composites};
	struct prl_import_options o = {.name = im->args->name,
		.link = im->args->link,
		.keep = !im->args->overwrite,
		.beside = inline_index_step,
		.beside_arg = &index};
	struct pr_error err;
	bool all = true;

	for (int i = 0; i < count && !cli_interrupted; i++) {
		struct prl_import_stats stats = {0};

		im->path = files[i];
		im->told = false;
		progress_begin(&im->progress);
		int result =
			prl_import_file(sfs, files[i], &o, on_progress, im, &stats, &err);
		if (result == 0 || stats.packets)
			show(im, &stats);
		progress_end(&im->progress);
		if (result < 0)
			cli_fail("packrack import", CLI_FAILED, &err);
		if (o.link_from <= stats.link)
			o.link_from = stats.link + 1;
		all &= result == 0;
		im->stored |= result == 0 || stats.packets > 0;
	}
	inline_index_close(&index);
	if (cli_interrupted)
		fprintf(stderr, "packrack import: interrupted: the packets read so far are "
				"stored\n");
	return cli_interrupted || (im->stored && !all) ? CLI_PARTIAL
	       : all                                   ? CLI_OK
						       : CLI_FAILED;
}

/* ---- before and after ---- */

/* Before anything is made or stored: can all files be read? Pipes are not looked into. */
static int
check_files(int count, char **files, struct pr_error *err)
{
	struct stat st;

	for (int i = 0; i < count; i++) {
		if (!strcmp(files[i], "-"))
			continue;
		if (stat(files[i], &st) < 0 || access(files[i], R_OK) < 0)
			return pr_error_errno(err, "%s", files[i]);
		if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
			continue;
		struct pr_trace *trace = pr_trace_open(files[i], err);
		if (!trace)
			return -1;
		pr_trace_close(&trace);
	}
	return 0;
}

/* The volume; made if need be, and noted in im->made. */
static struct sfs *
open_volume(struct import *im, struct pr_error *err)
{
	const struct import_args *a = im->args;
	const struct volume_paths *paths = &im->paths;
	struct sfs_create_options create = {.size = a->create};
	struct sfs_open_options o = {
		.writer = true, .flush_interval = PR_NS_PER_S, .keep = !a->overwrite};

	if (volume_paths_parse(a->volume, &im->paths, err) < 0)
		return NULL;
	if (a->create && access(paths->path[0], F_OK) < 0) {
		for (size_t i = 0; i < paths->count; i++)
			im->made[i] = access(paths->path[i], F_OK) < 0;
		if (sfs_create(paths->path, paths->count, &create, err) < 0) {
			memset(im->made, 0, sizeof(im->made));
			return NULL;
		}
	}
	return sfs_open(paths->path, paths->count, &o, err);
}

static int
import_all(const struct import_args *a, int count, char **files, struct pr_error *err)
{
	struct import im = {.args = a};
	int status = CLI_FAILED;

	cli_catch_signals();
	struct sfs *sfs =
		check_files(count, files, err) == 0 ? open_volume(&im, err) : NULL;
	if (sfs) {
		im.render = cli_render(a->json, a->keyvalue, "files");
		status = import_files(&im, sfs, count, files);
		if (im.render && render_end(&im.render) < 0)
			status = CLI_FAILED;
	}
	sfs_close(&sfs);
	for (size_t i = 0; !im.stored && i < im.paths.count; i++)
		if (im.made[i])
			unlink(im.paths.path[i]);
	volume_paths_free(&im.paths);
	return status;
}

static int
run(const struct cli_call *call, struct pr_error *err)
{
	struct import_args *a = call->values;

	if (!call->count)
		pr_error_set(err, "no file given: packrack import FILE... --volume VOLUME");
	else if (!a->volume)
		pr_error_set(err, "no volume given: use --volume VOLUME");
	else if (pri_composites_parse(&a->composite, &a->composites, err) < 0)
		pr_error_prefix(err, "--composite");
	return err->text[0] ? CLI_USAGE : import_all(a, call->count, call->operands, err);
}

const struct cli_command import_command = {"import", "store trace files in a volume",
	.summary = "Stores trace files (pcap, pcapng; also .gz, .zst) in a volume; - is "
		   "standard input.",
	.usage = "FILE... --volume VOLUME [options]", PR_OPTIONS(options),
	.footer = "The readable part of a damaged file is stored; the exit status is then "
		  "3.\n"
		  "Without --overwrite, an import that does not fit ends when the volume "
		  "is full,\n"
		  "also with exit status 3.\n" CLI_STATUSES,
	.operands = -1, .call = run,
	.values = &(struct import_args){.link = PRL_LINK_BY_NAME}};
