/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_BASE_OPTIONS_INTERNAL_H
#define PR_BASE_OPTIONS_INTERNAL_H

/* What the files behind options.h share. */

#include "proto/base/options.h"

enum pr_option_source { PR_FROM_DEFAULT, PR_FROM_FILE, PR_FROM_FLAG };

struct pr_option_values {
	const struct pr_cmdline *program;
	void *values;
	unsigned char *sources; /* enum pr_option_source for each option */
};

/* A list from a higher source starts afresh. text may be NULL for a flag: true. */
int pr_option_assign(const struct pr_option_values *to, const struct pr_option *option,
	const char *text, enum pr_option_source source, struct pr_error *err);

/* NULL: none of that name. */
const struct pr_option *pr_option_find(const struct pr_cmdline *program, const char *name);

/* path NULL: the default file, which need not be there. */
int pr_options_read_file(
	const struct pr_option_values *to, const char *path, struct pr_error *err);

/* The value as a user would write it; "" for none (0, no text, false, lists, times). */
void pr_option_show(
	const struct pr_option *option, const void *values, char *buf, size_t size);

/* builtins: options that are not in the program's table. values: as yet the defaults. */
void pr_options_help(const struct pr_cmdline *program, const void *values,
	const struct pr_option *builtins, size_t builtin_count);

/* Looks for the known word nearest to a mistaken one. */
struct pr_nearest {
	const char *word;
	const char *best; /* NULL: none is near enough to be meant */
	size_t distance;
};

void pr_nearest_try(struct pr_nearest *nearest, const char *candidate);

#endif
