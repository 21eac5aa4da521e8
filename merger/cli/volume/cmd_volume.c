/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/volume/volume.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int
volume_parse(const struct pr_cmdline *p, void *values, int argc, char **argv, int more,
	struct volume_paths *paths, int *rest)
{
	struct pr_error err;
	int operand, status = cli_parse(p, values, argc, argv, &operand);

	*paths = (struct volume_paths){0};
	if (status >= 0)
		return status;
	if (operand + 1 + more != argc) {
		pr_error_set(&err, "name one volume: %s %s", p->name,
			p->usage + strlen("[options] "));
		return cli_fail(p->name, CLI_USAGE, &err);
	}
	if (rest)
		*rest = operand + 1;
	if (volume_paths_parse(argv[operand], paths, &err) == 0)
		return -1;
	volume_paths_free(paths);
	return cli_fail(p->name, CLI_USAGE, &err);
}

struct sfs *
volume_open(
	const struct volume_paths *paths, uint32_t permission_mask, struct pr_error *err)
{
	struct sfs_open_options o = {.permission_mask = permission_mask};

	return sfs_open(paths->path, paths->count, &o, err);
}

enum render_form
volume_form(bool json, bool keyvalue)
{
	return json ? RENDER_JSON : keyvalue ? RENDER_KEYVALUE : RENDER_TEXT;
}

int
volume_finish(
	const struct pr_cmdline *p, struct render **r, int result, struct pr_error *err)
{
	if (*r && render_end(r) < 0 && result == 0)
		result = pr_error_set(err, "cannot print");
	return result < 0 ? cli_fail(p->name, CLI_FAILED, err) : CLI_OK;
}

int
cmd_volume(int argc, char **argv)
{
	static const struct cli_command commands[] = {
		{"create", volume_create, "make a volume"},
		{"show", volume_show, "what it is, and how full"},
		{"streams", volume_streams, "what lies in it"},
		{"records", volume_records, "the records of a stream"},
		{"dump", volume_dump, "one record, named by its handle"},
		{"check", volume_check, "read all of it and name each fault"},
		{"index", volume_index, "make the index of what has none"},
		{"grow", volume_grow, "make it larger, on its devices or more of them"},
	};

	return cli_dispatch("packrack volume", "Looks after volumes.", commands,
		sizeof(commands) / sizeof(commands[0]), argc, argv);
}
