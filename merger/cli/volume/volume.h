/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_CLI_VOLUME_H
#define PR_CLI_VOLUME_H

#include "logger/streamfs/streamfs.h"
#include "merger/cli/cli.h"
#include "merger/cli/render.h"

/* What the commands of `packrack volume` share, a file each. */
/*
 * Parses options and the operands: the volume, and behind it `more` others, that start at *rest
 * (may be NULL). -1: go on, and free the paths at the end; else the status to exit with.
 */
int volume_parse(const struct pr_cmdline *program, void *values, int argc, char **argv,
	int more, struct volume_paths *paths, int *rest);

struct sfs *volume_open(
	const struct volume_paths *paths, uint32_t permission_mask, struct pr_error *err);
enum render_form volume_form(bool json, bool keyvalue);
/* Ends the rendering, if any; the exit status that goes with result (< 0: err is printed). */
int volume_finish(const struct pr_cmdline *program, struct render **r, int result,
	struct pr_error *err);

#define VOLUME_PROGRAM(what, text, operands, opts)                                         \
	{                                                                                  \
		.name = "packrack volume " what, .summary = text,                          \
		.usage = "[options] " operands, PR_OPTIONS(opts),                          \
	}

/* NAME=BITS each; the second sets them: no other program may write the volume. 0 or -1. */
int volume_permission_check(const struct pr_string_list *list, struct pr_error *err);
int volume_permissions(const struct volume_paths *paths, const struct pr_string_list *list,
	struct pr_error *err);
/* NAME=SIZE each; the second sets them, through the writer if one lives. 0 or -1. */
int volume_guarantee_check(const struct pr_string_list *list, struct pr_error *err);
int volume_guarantees(const struct volume_paths *paths, const struct pr_string_list *list,
	struct pr_error *err);

/* A list of the devices and their states; and a line on stderr if one is missing. */
void volume_render_devices(struct render *r, struct sfs *sfs);
void volume_warn_degraded(const struct pr_cmdline *program, struct sfs *sfs);

int volume_create(int argc, char **argv);
int volume_show(int argc, char **argv);
int volume_streams(int argc, char **argv);
int volume_check(int argc, char **argv);
int volume_dump(int argc, char **argv);
int volume_records(int argc, char **argv);
int volume_grow(int argc, char **argv);
int volume_index(int argc, char **argv);

#endif
