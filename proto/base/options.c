/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/options_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HELP, VERSION, CONFIG, BUILTINS };
static const struct pr_option builtins[BUILTINS] = {
	[HELP] = {.name = "help", .letter = 'h', .help = "show this and exit"},
	[VERSION] = {.name = "version", .help = "show the version and exit"},
	[CONFIG] = {.name = "config",
		.kind = PR_OPT_STRING,
		.arg = "FILE",
		.help = "read this configuration file (default " PR_CONFIG_DEFAULT ")"},
};

/* A walk over argv that gives one option or operand a step. */
struct walk {
	const struct pr_cmdline *program;
	int argc;
	char **argv;
	int at;
	const char *letters; /* what is left of -abc */
	bool ended; /* by "--", or by an operand */

	const struct pr_option *option; /* what the last step found; NULL: an operand */
	const char *value;
	char flag[72]; /* as the user wrote it, for messages */
};

static size_t
builtin_count(const struct pr_cmdline *program)
{
	return program->section ? BUILTINS : CONFIG;
}

const struct pr_option *
pr_option_find(const struct pr_cmdline *program, const char *name)
{
	for (size_t i = 0; i < program->option_count; i++)
		if (strcmp(program->options[i].name, name) == 0)
			return &program->options[i];
	return NULL;
}

static const struct pr_option *
find_long(const struct pr_cmdline *program, const char *name)
{
	const struct pr_option *option = pr_option_find(program, name);

	for (size_t i = 0; !option && i < builtin_count(program); i++)
		if (strcmp(builtins[i].name, name) == 0)
			option = &builtins[i];
	return option;
}

static const struct pr_option *
find_letter(const struct pr_cmdline *program, char letter)
{
	for (size_t i = 0; i < program->option_count; i++)
		if (program->options[i].letter == letter)
			return &program->options[i];
	return letter == builtins[HELP].letter ? &builtins[HELP] : NULL;
}

static int
unknown_option(const struct pr_cmdline *program, const char *name, struct pr_error *err)
{
	struct pr_nearest nearest = {.word = name};

	for (size_t i = 0; i < program->option_count; i++)
		pr_nearest_try(&nearest, program->options[i].name);
	for (size_t i = 0; i < builtin_count(program); i++)
		pr_nearest_try(&nearest, builtins[i].name);
	if (nearest.best)
		return pr_error_set(
			err, "unknown option --%s; did you mean --%s?", name, nearest.best);
	return pr_error_set(err, "unknown option --%s; '%s --help' lists the options", name,
		program->name);
}

/* The value is what is attached, or the next word. */
static int
take_value(struct walk *walk, const char *attached, struct pr_error *err)
{
	walk->value = attached;
	if (attached || walk->option->kind == PR_OPT_FLAG)
		return 1;
	if (walk->at == walk->argc)
		return pr_error_set(err, "%s needs a value: %s %s", walk->flag, walk->flag,
			walk->option->arg ? walk->option->arg : "VALUE");
	walk->value = walk->argv[walk->at++];
	return 1;
}

static int
step_letter(struct walk *walk, struct pr_error *err)
{
	char letter = *walk->letters++;
	const char *rest = walk->letters;

	snprintf(walk->flag, sizeof walk->flag, "-%c", letter);
	walk->option = find_letter(walk->program, letter);
	if (!walk->option)
		return pr_error_set(err,
			"unknown option -%c; '%s --help' lists the options", letter,
			walk->program->name);
	if (walk->option->kind == PR_OPT_FLAG)
		return take_value(walk, NULL, err);
	walk->letters = "";
	return take_value(walk, *rest ? rest : NULL, err);
}

static int
step_long(struct walk *walk, const char *word, struct pr_error *err)
{
	size_t len = strcspn(word, "=");
	char name[64];

	snprintf(name, sizeof name, "%.*s", (int)len, word);
	snprintf(walk->flag, sizeof walk->flag, "--%s", name);
	walk->option = find_long(walk->program, name);
	if (!walk->option)
		return unknown_option(walk->program, name, err);
	return take_value(walk, word[len] ? word + len + 1 : NULL, err);
}

/* 1: option and value, or an operand, are set; 0: the end; -1: bad usage. */
static int
walk_step(struct walk *walk, struct pr_error *err)
{
	const char *word;

	if (*walk->letters)
		return step_letter(walk, err);
	if (walk->at == walk->argc)
		return 0;
	word = walk->argv[walk->at++];
	if (!walk->ended && strcmp(word, "--") == 0) {
		walk->ended = true;
		return walk_step(walk, err);
	}
	if (walk->ended || word[0] != '-' || !word[1]) {
		walk->ended |= walk->program->stop_at_operand;
		walk->option = NULL;
		return 1;
	}
	if (word[1] == '-')
		return step_long(walk, word + 2, err);
	walk->letters = word + 1;
	return step_letter(walk, err);
}

/* The first walk only looks: at the built-in options, and for bad usage. */
static int
look_for_builtins(
	struct walk walk, const void *values, const char **config, struct pr_error *err)
{
	int result;

	while ((result = walk_step(&walk, err)) > 0) {
		if (walk.option == &builtins[CONFIG])
			*config = walk.value;
		if (walk.option == &builtins[VERSION]) {
			printf("%s %s\n", walk.program->name, PACKRACK_VERSION);
			return 1;
		}
		if (walk.option == &builtins[HELP]) {
			pr_options_help(walk.program, values, builtins,
				builtin_count(walk.program));
			return 1;
		}
	}
	return result;
}

static bool
is_builtin(const struct pr_option *option)
{
	return option >= builtins && option < builtins + BUILTINS;
}

/* The second walk sets values and copies operands; the flags before them stay in order. */
static int
apply_flags(struct walk walk, const struct pr_option_values *to, int *operand,
	char **operands, struct pr_error *err)
{
	int result, flags = 1, count = 0, from = walk.at;

	for (; (result = walk_step(&walk, err)) > 0; from = walk.at) {
		if (!walk.option) {
			operands[count++] = walk.argv[walk.at - 1];
			continue;
		}
		if (!is_builtin(walk.option) && pr_option_assign(to, walk.option,
							walk.value, PR_FROM_FLAG, err) < 0)
			return pr_error_prefix(err, "%s", walk.flag);
		for (; from < walk.at; from++)
			walk.argv[flags++] = walk.argv[from];
	}
	if (result < 0)
		return -1;
	*operand = walk.argc - count;
	while (flags < *operand)
		walk.argv[flags++] = "--";
	memcpy(walk.argv + *operand, operands, (size_t)count * sizeof *operands);
	return 0;
}

static int
parse_into(const struct pr_option_values *to, int argc, char **argv, int *operand,
	char **operands, struct pr_error *err)
{
	const struct pr_cmdline *program = to->program;
	struct walk walk = {
		.program = program, .argc = argc, .argv = argv, .at = 1, .letters = ""};
	const char *config = NULL;
	int result = look_for_builtins(walk, to->values, &config, err);

	if (result != 0)
		return result;
	if (program->section && pr_options_read_file(to, config, err) < 0)
		return -1;
	return apply_flags(walk, to, operand, operands, err);
}

int
pr_options_parse(const struct pr_cmdline *program, void *values, int argc, char **argv,
	int *operand, struct pr_error *err)
{
	unsigned char *sources = calloc(program->option_count + 1, 1);
	char **operands = calloc((size_t)argc + 1, sizeof *operands);
	struct pr_option_values to = {program, values, sources};
	int result;

	if (!sources || !operands)
		result = pr_error_set(err, "no memory");
	else
		result = parse_into(&to, argc, argv, operand, operands, err);
	free(sources);
	free(operands);
	return result;
}
