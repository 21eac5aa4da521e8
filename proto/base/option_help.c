/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/options_internal.h"

#include <stdio.h>
#include <string.h>

enum { HELP_WIDTH = 80, FLAGS_WIDTH = 28 };

/* Words from text, in lines that begin at column `indent`; the first is there already. */
static void
print_wrapped(const char *text, int indent)
{
	int at = indent;

	while (*text) {
		int len = (int)strcspn(text, " ");

		if (at > indent && at + 1 + len > HELP_WIDTH) {
			printf("\n%*s", indent, "");
			at = indent;
		}
		at += printf("%s%.*s", at > indent ? " " : "", len, text);
		text += len;
		text += strspn(text, " ");
	}
	putchar('\n');
}

static void
print_option(const struct pr_option *option, const void *values)
{
	char flags[128], value[256] = "", help[1024];
	int used;

	/* what the program will use, so that the text cannot say otherwise */
	if (values && option->help[strlen(option->help) - 1] != ')')
		pr_option_show(option, values, value, sizeof value);

	used = option->letter ? snprintf(flags, sizeof flags, "  -%c, ", option->letter)
			      : snprintf(flags, sizeof flags, "      ");
	used += snprintf(flags + used, sizeof flags - (size_t)used, "--%s%s%s",
		option->name, option->arg ? " " : "", option->arg ? option->arg : "");
	if (used > FLAGS_WIDTH)
		printf("%s\n%*s", flags, FLAGS_WIDTH + 2, "");
	else
		printf("%-*s", FLAGS_WIDTH + 2, flags);
	snprintf(help, sizeof help, "%s%s%s%s", option->help, *value ? " (default " : "",
		value, *value ? ")" : "");
	print_wrapped(help, FLAGS_WIDTH + 2);
}

void
pr_options_help(const struct pr_cmdline *program, const void *values,
	const struct pr_option *builtins, size_t builtin_count)
{
	printf("usage: %s %s\n\n%s\n\noptions:\n", program->name,
		program->usage ? program->usage : "[options]", program->summary);
	for (size_t i = 0; i < program->option_count; i++)
		print_option(&program->options[i], values);
	for (size_t i = 0; i < builtin_count; i++)
		print_option(&builtins[i], NULL);
	if (program->section)
		printf("\nEach option is also a key of section [%s] in %s.\n",
			program->section, PR_CONFIG_DEFAULT);
	if (program->footer)
		printf("\n%s%s", program->footer,
			program->footer[strlen(program->footer) - 1] == '\n' ? "" : "\n");
}

enum { WORD_MAX = 64 };

/* Levenshtein's distance, one row at a time. */
static size_t
distance(const char *a, const char *b)
{
	size_t row[WORD_MAX + 1], alen = strlen(a), blen = strlen(b);

	for (size_t j = 0; j <= blen; j++)
		row[j] = j;
	for (size_t i = 1; i <= alen; i++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= blen; j++) {
			size_t best = diagonal + (a[i - 1] != b[j - 1]);

			diagonal = row[j];
			if (row[j] + 1 < best)
				best = row[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			row[j] = best;
		}
	}
	return row[blen];
}

void
pr_nearest_try(struct pr_nearest *nearest, const char *candidate)
{
	size_t len = strlen(nearest->word), other = strlen(candidate), d;

	if (len > WORD_MAX || other > WORD_MAX)
		return;
	d = distance(nearest->word, candidate);
	/* farther than half of the word is another word */
	if (2 * d > (len > other ? len : other))
		return;
	if (!nearest->best || d < nearest->distance) {
		nearest->best = candidate;
		nearest->distance = d;
	}
}
