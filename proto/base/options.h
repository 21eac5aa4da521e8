/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_BASE_OPTIONS_H
#define PR_BASE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/error.h"
#include "proto/base/string_list.h"

/*
 * One table gives a program its flags, its keys in /etc/packrack/packrack.conf (INI, read with
 * inih), its --help and its checks. The flag --ring-size is the key `ring-size` in the program's
 * section. Order of precedence: defaults (what the caller put into values), file, flags; a list
 * given by flags takes the place of the file's, and the file's that of the default.
 *
 * The file has a section for each program and `link NAME`, `class NAME`, `watch NAME` for others
 * to read. Lines start anywhere, `#` and `;` begin comments, a line has at most 64 KiB.
 */
enum pr_option_kind {
	PR_OPT_FLAG, /* bool */
	PR_OPT_STRING, /* char *, allocated, or NULL */
	PR_OPT_LIST, /* struct pr_string_list; repeats add; commas do NOT split */
	PR_OPT_UINT, /* uint64_t, min..max */
	PR_OPT_SIZE, /* uint64_t bytes: 64K, 1M, 2GiB ... (powers of 1024) */
	PR_OPT_DURATION, /* int64_t ns: 50ms, 2s, 1m, 1h, 1d; a bare number is seconds */
	PR_OPT_TIME, /* int64_t ns since 1970: pr_time_parse */
	PR_OPT_ENUM, /* int: index into choices */
};

struct pr_option {
	const char *name; /* without dashes */
	char letter; /* or 0 */
	enum pr_option_kind kind;
	size_t offset; /* in the values struct */
	const char *arg; /* shown in help: "IFACE"; NULL for flags */
	/* one line; "(default ...)" is added from the values, unless the line ends in ')' itself */
	const char *help;
	uint64_t min, max; /* UINT, SIZE, DURATION; max 0: no upper bound */
	const char *const *choices; /* ENUM, NULL-terminated */
	size_t set_offset; /* of a bool set when the option was given, or 0 */
};

struct pr_cmdline {
	const char *name; /* "packrack-logger", or "packrack query" */
	const char *section; /* of the INI file; NULL: none is read */
	const char *summary; /* one line */
	const char *usage; /* "[options] FILTER..." */
	const struct pr_option *options;
	size_t option_count;
	const char *footer; /* examples, exit statuses; or NULL */
	bool stop_at_operand; /* what follows the first operand is not for this program */
};

/*
 * Parses; --help, --version and --config FILE come by themselves (without --config the default
 * file is read if it is there). Flags may also follow operands unless stop_at_operand ("--" always
 * ends them): argv is put in order, flags first, and *operand is the index of the first operand.
 * Free values with pr_options_free whatever the outcome. Returns 0; 1 when help or version was printed (exit 0); -1 on bad usage or config (exit 2).
 */
int pr_options_parse(const struct pr_cmdline *program, void *values, int argc, char **argv,
	int *operand, struct pr_error *err);
#define PR_CONFIG_DEFAULT "/etc/packrack/packrack.conf"

/* Sets one option from text, as a flag would; the place (flag, or file and line) goes into err. */
int pr_option_set(const struct pr_option *option, void *values, const char *text,
	struct pr_error *err);

/* Frees the strings and lists in values. */
void pr_options_free(const struct pr_cmdline *program, void *values);

int pr_parse_size(const char *text, uint64_t *out); /* 0 or -1 */
int pr_parse_duration(const char *text, int64_t *out); /* ns; 0 or -1 */

#endif
