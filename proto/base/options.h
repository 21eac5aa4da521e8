/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "proto/base/array.h"
#include "proto/base/text.h"

/*
 * One table gives a program its flags, its keys in /etc/packrack/packrack.conf (INI, read with
 * inih), its --help and its checks. The flag --snaplen is the key `snaplen` in the program's
 * section. Order of precedence: defaults, file, flags. A list given by flags replaces the list of
 * the file, and that one replaces the default.
 *
 * The file has a section for each program. Sections `link NAME`, `class NAME` and `watch
 * NAME` are accepted, and left to other programs. But the option `class`, a list, of a program that has one also gets
 * the keys of sections `class NAME`: an item for each NAME, the text "NAME\nkey = value\nkey = value". Lines may be indented, `#` and `;` begin
 * comments, a line has at most 64 KiB.
 *
 * A table is written with the macros below, one row an option:
 *
 *	#define PR_VALUES struct tool_args
 *	static const struct pr_option options[] = {
 *		PR_OPT_STRING(out, "out", 'o', "FILE", "write to this file", .required = true),
 *		PR_OPT_SIZE(memory, "memory", 0, "SIZE", 1 << 20, 0, "for the table", .def = "32M"),
 *	};
 */
enum pr_option_kind {
	PR_KIND_FLAG, /* bool */
	PR_KIND_STRING, /* char *, allocated, or NULL */
	PR_KIND_LIST, /* struct pr_string_list: each use adds an item; commas do not split */
	PR_KIND_UINT, /* uint64_t, see pr_parse_count, or 0x... */
	PR_KIND_SIZE, /* uint64_t bytes, see pr_parse_size */
	PR_KIND_DURATION, /* int64_t ns, see pr_parse_duration */
	PR_KIND_TIME, /* int64_t ns since 1970 UTC, see pr_time_parse */
	PR_KIND_ENUM, /* int: index into choices */
};

struct pr_option {
	const char *name; /* without dashes */
	char letter; /* 0: none */
	enum pr_option_kind kind;
	size_t offset; /* in the values struct */
	const char *arg; /* name of the value in the help: "IFACE"; NULL for flags */
	uint64_t min, max; /* UINT, SIZE, DURATION; max 0: no upper bound */
	const char *const *choices; /* ENUM, NULL-terminated */
	const char *help; /* one line; [required], [repeatable], [default: X] are added */

	/* what a row may add behind its help */
	const char *def; /* default, as a user would write it */
	/* default that is not in the table, in words: "the host's name" */
	const char *def_note;
	bool required;
	uint64_t unit; /* SIZE: bytes that a number without a unit counts, if not one */
	const char *aliases[2]; /* older names, not in the help; one character: a letter */
};

/* member: of PR_VALUES. letter: 0 for none. The last argument is the help, and what a row may add. */
#define PR_OPT_FLAG(member, name, letter, ...)                                             \
	PR_OPTION(FLAG, bool, member, name, letter, NULL, 0, 0, NULL, __VA_ARGS__)
#define PR_OPT_STRING(member, name, letter, arg, ...)                                      \
	PR_OPTION(STRING, char *, member, name, letter, arg, 0, 0, NULL, __VA_ARGS__)
#define PR_OPT_LIST(member, name, letter, arg, ...)                                        \
	PR_OPTION(LIST, struct pr_string_list, member, name, letter, arg, 0, 0, NULL,      \
		__VA_ARGS__)
#define PR_OPT_UINT(member, name, letter, arg, min, max, ...)                              \
	PR_OPTION(UINT, uint64_t, member, name, letter, arg, min, max, NULL, __VA_ARGS__)
#define PR_OPT_SIZE(member, name, letter, arg, min, max, ...)                              \
	PR_OPTION(SIZE, uint64_t, member, name, letter, arg, min, max, NULL, __VA_ARGS__)
#define PR_OPT_DURATION(member, name, letter, arg, min, max, ...)                          \
	PR_OPTION(DURATION, int64_t, member, name, letter, arg, min, max, NULL, __VA_ARGS__)
#define PR_OPT_TIME(member, name, letter, arg, ...)                                        \
	PR_OPTION(TIME, int64_t, member, name, letter, arg, 0, 0, NULL, __VA_ARGS__)
#define PR_OPT_ENUM(member, name, letter, arg, choices, ...)                               \
	PR_OPTION(ENUM, int, member, name, letter, arg, 0, 0, choices, __VA_ARGS__)

#define PR_OPTION(kind, type, member, name, letter, arg, min, max, choices, ...)           \
	{                                                                                  \
		name, letter, PR_KIND_##kind, PR_OPTION_AT(type, member), arg, min, max,   \
			choices, .help = __VA_ARGS__                                       \
	}
/* The member's offset; a member of another type does not compile. */
#define PR_OPTION_AT(type, member)                                                         \
	(offsetof(PR_VALUES, member) + 0 * sizeof(&((PR_VALUES *)0)->member == (type *)0))

struct pr_cmdline {
	const char *name; /* "packrack-logger", or "packrack query" */
	const char *section; /* of the INI file; NULL: none is read */
	const char *summary; /* one line */
	const char *usage; /* "[options] FILTER..." */
	const struct pr_option *options;
	size_t option_count;
	const char *footer; /* examples, exit statuses; or NULL */
	bool stop_at_operand; /* the words behind the first operand are not for this program */
};
#define PR_OPTIONS(table) .options = table, .option_count = PR_COUNT(table)

/*
 * Parses argv into values. On entry, values has the defaults of options that have none in
 * the table (zeroed: no default). --help, --version and --config FILE need no row; without
 * --config the default file is
 * read if it exists. Flags may follow operands unless stop_at_operand; "--" always ends them.
 * argv is put in order, flags first, and *operand is the index of the first operand; operand
 * NULL: operands are refused. Returns 0; 1 when help or version was printed (exit 0); -1 on bad
 * usage or configuration (exit 2). Free values with pr_options_free in all cases. Not thread-safe
 * (getopt_long).
 */
int pr_options_parse(const struct pr_cmdline *program, void *values, int argc, char **argv,
	int *operand, struct pr_error *err);
#define PR_CONFIG_DEFAULT "/etc/packrack/packrack.conf"

/*
 * Assigns options from a text: `key = value`, in lines, or in parts that `;` ends. program->section is what an error calls the
 * place of the keys. Free values with pr_options_free in all cases.
 */
int pr_options_text(const struct pr_cmdline *program, void *values, const char *text,
	struct pr_error *err);

/*
 * Makes candidate *best (first NULL) if it is nearer to a mistyped word. Farther than half of the word is
 * another word.
 */
void pr_options_nearest(const char *word, const char *candidate, const char **best);

/* Frees the strings and lists in values. */
void pr_options_free(const struct pr_cmdline *program, void *values);
