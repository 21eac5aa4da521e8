/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/options_internal.h"

#include <errno.h>
#include <ini.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_MAX_BYTES = 64 << 10 };

struct reading {
	const struct pr_option_values *to;
	FILE *file;
	const char *path;
	unsigned line;
	bool failed;
	struct pr_error *err;
};

static const char *const program_sections[] = {
	"dispatcher", "logger", "indexer", "merger", "packrack"};
static const char *const named_sections[] = {"link", "class", "watch"};

static int __attribute__((format(printf, 2, 3)))
fail_at(struct reading *r, const char *fmt, ...)
{
	char text[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	r->failed = true;
	return pr_error_set(r->err, "%s:%u: %s", r->path, r->line, text);
}

/* inih's reader, as fgets: counts lines, and refuses what inih would quietly cut in two. */
static char *
read_line(char *str, int room, void *arg)
{
	struct reading *r = arg;
	int used = 0, c;

	r->line++;
	while ((c = getc(r->file)) != EOF) {
		if (c == '\0' || used == room - 1) {
			fail_at(r,
				c ? "the line is longer than %d bytes" : "not a text file",
				LINE_MAX_BYTES);
			return NULL;
		}
		str[used++] = (char)c;
		if (c == '\n')
			break;
	}
	str[used] = '\0';
	return used ? str : NULL;
}

/* [link NAME] and its like: for others to read. */
static bool
is_named_section(const char *section)
{
	for (size_t i = 0; i < sizeof named_sections / sizeof *named_sections; i++) {
		size_t len = strlen(named_sections[i]);

		if (strncmp(section, named_sections[i], len) == 0 && section[len] == ' ')
			return true;
	}
	return false;
}

static int
check_section(struct reading *r, const char *section, const char *name)
{
	struct pr_nearest nearest = {.word = section};

	if (!*section)
		return fail_at(r, "key '%s' stands before any [section]", name);
	if (is_named_section(section))
		return 0;
	for (size_t i = 0; i < sizeof program_sections / sizeof *program_sections; i++) {
		if (strcmp(section, program_sections[i]) == 0)
			return 0;
		pr_nearest_try(&nearest, program_sections[i]);
	}
	for (size_t i = 0; i < sizeof named_sections / sizeof *named_sections; i++) {
		if (strcmp(section, named_sections[i]) == 0)
			return fail_at(r, "section [%s] needs a name: [%s NAME]", section,
				section);
		pr_nearest_try(&nearest, named_sections[i]);
	}
	if (nearest.best)
		return fail_at(r, "unknown section [%s]; did you mean [%s]?", section,
			nearest.best);
	return fail_at(r,
		"unknown section [%s]; sections are dispatcher, logger, indexer, merger, "
		"packrack, link NAME, class NAME, watch NAME",
		section);
}

static int
unknown_key(struct reading *r, const char *name)
{
	const struct pr_cmdline *program = r->to->program;
	struct pr_nearest nearest = {.word = name};

	for (size_t i = 0; i < program->option_count; i++)
		pr_nearest_try(&nearest, program->options[i].name);
	if (nearest.best)
		return fail_at(r, "unknown key '%s' in [%s]; did you mean '%s'?", name,
			program->section, nearest.best);
	return fail_at(r, "unknown key '%s' in [%s]; '%s --help' lists them", name,
		program->section, program->name);
}

/* inih's handler: 0 ends the reading. */
static int
on_key(void *arg, const char *section, const char *name, const char *value)
{
	struct reading *r = arg;
	const struct pr_cmdline *program = r->to->program;
	const struct pr_option *option;

	if (strcmp(section, program->section) != 0)
		return check_section(r, section, name) == 0;
	option = pr_option_find(program, name);
	if (!option)
		return unknown_key(r, name) == 0;
	if (pr_option_assign(r->to, option, value, PR_FROM_FILE, r->err) < 0) {
		r->failed = true;
		pr_error_prefix(r->err, "%s:%u: %s", r->path, r->line, name);
		return 0;
	}
	return 1;
}

static int
read_stream(struct reading *r)
{
	int result;

	/* Debian's inih is set at run time; its own limit of 200 bytes would cut filters in two */
	ini_use_stack = false;
	ini_allow_realloc = false;
	ini_allow_multiline = false;
	ini_stop_on_first_error = true;
	ini_initial_alloc = ini_max_line = LINE_MAX_BYTES;
	result = ini_parse_stream(read_line, r, on_key, r);
	if (r->failed)
		return -1;
	if (ferror(r->file))
		return pr_error_errno(r->err, "cannot read %s", r->path);
	if (result < 0)
		return pr_error_set(r->err, "no memory to read %s", r->path);
	if (result > 0)
		return fail_at(r, "neither '[section]' nor 'name = value'");
	return 0;
}

int
pr_options_read_file(
	const struct pr_option_values *to, const char *path, struct pr_error *err)
{
	struct reading r = {.to = to, .path = path ? path : PR_CONFIG_DEFAULT, .err = err};
	struct pr_error scrap;
	int result;

	if (!err)
		r.err = &scrap;
	r.file = fopen(r.path, "re");
	if (!r.file) {
		if (!path && (errno == ENOENT || errno == ENOTDIR))
			return 0;
		return pr_error_errno(err, "cannot open config file %s", r.path);
	}
	result = read_stream(&r);
	fclose(r.file);
	return result;
}
