/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/volume/volume.h"
#include "logger/import.h"
#include "proto/base/clock.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

struct import_args {
	char *volume, *name;
	uint64_t create, link;
	bool json, keyvalue;
	struct pr_string_list composite;
	struct pri_composites composites;
};

#define PR_VALUES struct import_args

static const struct pr_option options[] = {
	PR_OPT_STRING(volume, "volume", 0, "VOLUME", "store the packets in this volume"),
	PR_OPT_SIZE(create, "create", 0, "SIZE", 0, 0,
		"make the volume, of this size, if there is none"),
	PR_OPT_STRING(name, "link-name", 0, "NAME", "name of the link",
		.def_note = "the base name of the file", .aliases = {"name"}),
	PR_OPT_UINT(link, "link-number", 0, "N", 0, 65533, "number of the link",
		.def_note = "the next free one", .aliases = {"link"}),
	PR_OPT_LIST(composite, "composite", 0, "KEYS",
		"also index combinations of fields, such as src+dport"),
	CLI_FORM_OPTIONS(),
};

static const struct pr_cmdline program = {.name = "packrack import",
	.summary = "Stores trace files (pcap, pcapng; also .gz, .zst) in a volume; - is "
		   "standard input.",
	.usage = "FILE... --volume VOLUME [options]",
	PR_OPTIONS(options),
	.footer = "The readable part of a damaged file is stored; the exit status is then "
		  "3.\n" CLI_STATUSES};

static volatile sig_atomic_t interrupted;

static void
on_signal(int number)
{
	(void)number;
	interrupted = 1;
}

struct import {
	const struct import_args *args;
	const char *path;
	struct progress progress;
	struct render *render; /* NULL: for people */
};

static bool
on_progress(void *arg, const struct prl_import_stats *s)
{
	struct import *im = arg;

	if (progress_due(&im->progress))
		progress_show(&im->progress,
			s->size ? "%s: %" PRIu64 " packets, %" PRIu64 " %%"
				: "%s: %" PRIu64 " packets",
			im->path, s->packets, s->size ? s->offset * 100 / s->size : 0);
	return !interrupted;
}

static void
show(struct import *im, const struct prl_import_stats *s)
{
	struct render *r = im->render;

	progress_end(&im->progress);
	if (s->secrets)
		fprintf(stderr, "%s: " PRL_SECRETS_LEFT_OUT "\n", program.name, im->path,
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
	render_close(r);
}

static int
import_files(struct import *im, struct sfs *sfs, int count, char **files)
{
	struct inline_index index = {
		.path = im->args->volume, .composites = im->args->composites};
	struct prl_import_options o = {.name = im->args->name,
		.link = im->args->link,
		.beside = inline_index_step,
		.beside_arg = &index};
	struct pr_error err;
	bool some = false, all = true; /* packets were stored */

	for (int i = 0; i < count && !interrupted; i++) {
		struct prl_import_stats stats = {0};
		int result;

		im->path = files[i];
		progress_begin(&im->progress);
		result = prl_import_file(sfs, files[i], &o, on_progress, im, &stats, &err);
		if (result == 0 || stats.packets)
			show(im, &stats);
		progress_end(&im->progress);
		if (result < 0)
			cli_fail(program.name, CLI_FAILED, &err);
		all &= result == 0;
		some |= result == 0 || stats.packets > 0;
	}
	inline_index_close(&index);
	if (interrupted)
		fprintf(stderr, "%s: interrupted: the packets read so far are stored\n",
			program.name);
	return interrupted || (some && !all) ? CLI_PARTIAL : all ? CLI_OK : CLI_FAILED;
}

static int
import_all(const struct import_args *a, int count, char **files, struct pr_error *err)
{
	struct sfs_create_options create = {.size = a->create};
	struct sfs_open_options o = {.writer = true, .flush_interval = PR_NS_PER_S};
	struct volume_paths paths;
	struct import im = {.args = a};
	struct sfs *sfs = NULL;
	int status;

	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	if (volume_paths_parse(a->volume, &paths, err) == 0 &&
		(!a->create || access(paths.path[0], F_OK) == 0 ||
			sfs_create(paths.path, paths.count, &create, err) == 0))
		sfs = sfs_open(paths.path, paths.count, &o, err);
	volume_paths_free(&paths);
	if (!sfs)
		return CLI_FAILED;
	im.render = cli_render(a->json, a->keyvalue, "files");
	status = import_files(&im, sfs, count, files);
	if (im.render && render_end(&im.render) < 0)
		status = CLI_FAILED;
	sfs_close(&sfs);
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

int
cmd_import(int argc, char **argv)
{
	struct import_args a = {.link = PRL_LINK_BY_NAME};

	return cli_run(&program, &a, -1, argc, argv, run);
}
