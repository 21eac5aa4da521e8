/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/options.h"

#include <errno.h>
#include <getopt.h>
#include <ini.h>
#include <strings.h>

#include "proto/base/clock.h"
#include "proto/base/units.h"

/* Sections: values; names that were probably meant; the configuration file; argv; the help. */

enum { OPTIONS_MAX = 64, NAMES_MAX = 3 * OPTIONS_MAX, ALIASES = 2 };
enum source { FROM_DEFAULT, FROM_FILE, FROM_FLAG };

struct parser {
	const struct pr_cmdline *program;
	void *values;
	unsigned char sources[OPTIONS_MAX]; /* enum source of each option */
	struct pr_error *err;
};

enum { HELP, VERSION, CONFIG, BUILTINS };
static const struct pr_option builtins[BUILTINS] = {
	[HELP] = {.name = "help", .letter = 'h', .help = "show this and exit"},
	[VERSION] = {.name = "version", .help = "show the version and exit"},
	[CONFIG] = {.name = "config",
		.kind = PR_KIND_STRING,
		.arg = "FILE",
		.help = "read this configuration file",
		.def_note = PR_CONFIG_DEFAULT}};

static size_t
builtin_count(const struct pr_cmdline *program)
{
	return program->section ? BUILTINS : CONFIG;
}

/* ---- values ---- */

static void *
member(const struct pr_option *option, void *values)
{
	return (char *)values + option->offset;
}

static int
set_flag(bool *out, const char *text, struct pr_error *err)
{
	static const char *const words[] = {
		"no", "yes", "false", "true", "off", "on", "0", "1"};

	if (!text) {
		*out = true;
		return 0;
	}
	for (size_t i = 0; i < PR_COUNT(words); i++)
		if (strcasecmp(text, words[i]) == 0) {
			*out = i % 2;
			return 0;
		}
	return pr_error_set(err, "'%s' is neither yes nor no", text);
}

static int
set_enum(const struct pr_option *option, int *out, const char *text, struct pr_error *err)
{
	char known[256] = "";
	size_t used = 0;

	for (int i = 0; option->choices[i]; i++) {
		if (strcmp(option->choices[i], text) == 0) {
			*out = i;
			return 0;
		}
		if (used < sizeof known)
			used += snprintf(known + used, sizeof known - used, "%s%s",
				i ? ", " : "", option->choices[i]);
	}
	return pr_error_set(err, "'%s' is not one of: %s", text, known);
}

/* Decimal, also with a unit, or 0x and hexadecimal; strtoull alone would take signs and blanks. */
static int
parse_uint(const char *text, uint64_t *out)
{
	const char *digits = text + 2;

	if (strncasecmp(text, "0x", 2) != 0)
		return pr_parse_count(text, out);
	if (!*digits || digits[strspn(digits, "0123456789abcdefABCDEF")])
		return -1;
	errno = 0;
	*out = strtoull(digits, NULL, 16);
	return errno ? -1 : 0;
}

static const char *
number_text(enum pr_option_kind kind, uint64_t value, char *buf, size_t size)
{
	if (kind == PR_KIND_SIZE)
		return pr_format_size(value, buf, size);
	if (kind == PR_KIND_DURATION)
		return pr_format_duration(value, buf, size);
	snprintf(buf, size, "%llu", (unsigned long long)value);
	return buf;
}

static int
set_number(const struct pr_option *option, uint64_t *out, const char *text,
	struct pr_error *err)
{
	uint64_t number = 0;
	char min[32], max[32];

	if (option->kind == PR_KIND_UINT && parse_uint(text, &number) < 0)
		return pr_error_set(
			err, "'%s' is not a whole number (like 500, 10k or 2M)", text);
	if (option->kind == PR_KIND_SIZE && pr_parse_size(text, &number) < 0)
		return pr_error_set(err, "'%s' is not a size (like 64K, 1M or 2GiB)", text);
	if (option->unit && !text[strspn(text, "0123456789")] &&
		__builtin_mul_overflow(number, option->unit, &number))
		return pr_error_set(err, "%s is too large", text);
	if (option->kind == PR_KIND_DURATION &&
		pr_parse_duration(text, (int64_t *)&number) < 0)
		return pr_error_set(
			err, "'%s' is not a duration (like 50ms, 2s or 1h)", text);
	number_text(option->kind, option->min, min, sizeof min);
	if (option->max && (number < option->min || number > option->max))
		return pr_error_set(err, "%s is out of range: give %s to %s", text, min,
			number_text(option->kind, option->max, max, sizeof max));
	if (number < option->min)
		return pr_error_set(err, "%s is too small: give at least %s", text, min);
	*out = number;
	return 0;
}

/* text NULL: a flag without a value, which is true. A list from a higher source starts afresh. */
static int
assign(struct parser *p, const struct pr_option *option, const char *text,
	enum source source)
{
	unsigned char *from = &p->sources[option - p->program->options];
	void *out = member(option, p->values);

	if (option->kind == PR_KIND_LIST && *from != source)
		pr_string_list_clear(out);
	*from = source;
	switch (option->kind) {
	case PR_KIND_FLAG:
		return set_flag(out, text, p->err);
	case PR_KIND_STRING:
		free(*(char **)out);
		*(char **)out = strdup(text);
		return *(char **)out ? 0 : pr_error_set(p->err, "no memory");
	case PR_KIND_LIST:
		return pr_string_list_add(out, text, strlen(text), p->err);
	case PR_KIND_TIME:
		return pr_time_parse(text, pr_now_real(), out, p->err);
	case PR_KIND_ENUM:
		return set_enum(option, out, text, p->err);
	case PR_KIND_UINT:
	case PR_KIND_SIZE:
	case PR_KIND_DURATION: /* int64_t, and in range: the same bits */
		break;
	}
	return set_number(option, out, text, p->err);
}

void
pr_options_free(const struct pr_cmdline *program, void *values)
{
	for (size_t i = 0; i < program->option_count; i++) {
		const struct pr_option *option = &program->options[i];

		if (option->kind == PR_KIND_LIST)
			pr_string_list_clear(member(option, values));
		if (option->kind == PR_KIND_STRING) {
			free(*(char **)member(option, values));
			*(char **)member(option, values) = NULL;
		}
	}
}

/* ---- names that were probably meant ---- */

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
			best = PR_MIN(best, row[j] + 1);
			row[j] = PR_MIN(best, row[j - 1] + 1);
		}
	}
	return row[blen];
}

void
pr_options_nearest(const char *word, const char *candidate, const char **best)
{
	size_t len = strlen(word), other = strlen(candidate), d;

	if (len > WORD_MAX || other > WORD_MAX)
		return;
	d = distance(word, candidate);
	if (2 * d <= PR_MAX(len, other) && (!*best || d < distance(word, *best)))
		*best = candidate;
}

static const char *
nearest_option(const struct pr_cmdline *program, const char *word, size_t builtin)
{
	const char *best = NULL;

	for (size_t i = 0; i < program->option_count; i++)
		pr_options_nearest(word, program->options[i].name, &best);
	for (size_t i = 0; i < builtin; i++)
		pr_options_nearest(word, builtins[i].name, &best);
	return best;
}

/* ---- the configuration file ---- */

enum { LINE_MAX_BYTES = 64 << 10 };

struct reading {
	struct parser *to;
	FILE *file;
	const char *path;
	unsigned line;
	bool failed;
};

#define CLASS "class"
enum { NAMED = 3 }; /* the first of them: [link NAME] */
static const char *const sections[] = {
	"link", CLASS, "watch", "dispatcher", "logger", "indexer", "merger", "packrack"};

#define FAIL_AT(r, ...)                                                                    \
	((r)->failed = true, pr_error_set((r)->to->err, __VA_ARGS__),                      \
		pr_error_prefix((r)->to->err, "%s:%u", (r)->path, (r)->line))

/* inih's reader, as fgets: counts lines, and refuses what inih would silently cut in two. */
static char *
read_line(char *str, int capacity, void *arg)
{
	struct reading *r = arg;
	int used = 0, c;

	r->line++;
	while ((c = getc(r->file)) != EOF) {
		if (c == '\0' || used == capacity - 1) {
			FAIL_AT(r,
				c ? "the line is longer than %d bytes" : "not a text file",
				LINE_MAX_BYTES);
			return NULL;
		}
		str[used++] = c;
		if (c == '\n')
			break;
	}
	str[used] = '\0';
	return used ? str : NULL;
}

/* A section that is not this program's must be another's, or one with a name. */
static int
check_section(struct reading *r, const char *section, const char *key)
{
	const char *best = NULL;

	if (!*section)
		return FAIL_AT(r, "key '%s' stands before any [section]", key);
	for (size_t i = 0; i < PR_COUNT(sections); i++) {
		size_t len = strlen(sections[i]);
		bool same = strcmp(section, sections[i]) == 0;

		if (i < NAMED && same)
			return FAIL_AT(r, "section [%s] needs a name: [%s NAME]", section,
				section);
		if (same || (i < NAMED && strncmp(section, sections[i], len) == 0 &&
				    section[len] == ' '))
			return 0;
		pr_options_nearest(section, sections[i], &best);
	}
	if (best)
		return FAIL_AT(
			r, "unknown section [%s]; did you mean [%s]?", section, best);
	return FAIL_AT(r,
		"unknown section [%s]; sections are dispatcher, logger, indexer, merger, "
		"packrack, link NAME, class NAME, watch NAME",
		section);
}

/* By its name or an alias; NULL: none. */
static const struct pr_option *
find_option(const struct pr_cmdline *program, const char *name)
{
	for (size_t i = 0; i < program->option_count; i++) {
		const struct pr_option *option = &program->options[i];

		if (strcmp(option->name, name) == 0)
			return option;
		for (int j = 0; j < ALIASES && option->aliases[j]; j++)
			if (strcmp(option->aliases[j], name) == 0)
				return option;
	}
	return NULL;
}

static int
set_key(struct parser *p, const char *name, const char *value)
{
	const struct pr_cmdline *program = p->program;
	const struct pr_option *option = find_option(program, name);

	if (option)
		return assign(p, option, value, FROM_FILE) == 0
			       ? 0
			       : pr_error_prefix(p->err, "%s", name);
	const char *best = nearest_option(program, name, 0);
	if (best)
		return pr_error_set(p->err, "unknown key '%s' in [%s]; did you mean '%s'?",
			name, program->section, best);
	return pr_error_set(p->err, "unknown key '%s' in [%s]; '%s --help' lists them",
		name, program->section, program->name);
}

/* A key of section [class CLASS] goes into the list `class`, into the item of this section. */
static int
add_class_key(struct parser *p, const char *class, const char *name, const char *value)
{
	const struct pr_option *option = find_option(p->program, CLASS);
	size_t len = strlen(class);
	char *longer;

	if (!option || option->kind != PR_KIND_LIST)
		return 0;
	struct pr_string_list *list = member(option, p->values);
	size_t at = 0;
	if (p->sources[option - p->program->options] == FROM_FILE)
		while (at < list->count && (strncmp(list->items[at], class, len) != 0 ||
						   list->items[at][len] != '\n'))
			at++;
	else
		at = list->count;
	if (at == list->count) {
		if (assign(p, option, class, FROM_FILE) < 0)
			return -1;
		at = list->count - 1;
	}
	if (asprintf(&longer, "%s\n%s = %s", list->items[at], name, value) < 0)
		return pr_error_set(p->err, "no memory");
	free(list->items[at]);
	list->items[at] = longer;
	return 0;
}

/* inih's handler: 0 ends the reading. */
static int
on_key(void *arg, const char *section, const char *name, const char *value)
{
	struct reading *r = arg;
	int result;

	if (strcmp(section, r->to->program->section) == 0)
		result = set_key(r->to, name, value);
	else if (check_section(r, section, name) < 0)
		return 0;
	else if (strncmp(section, CLASS " ", strlen(CLASS " ")) == 0)
		result = add_class_key(r->to, section + strlen(CLASS " "), name, value);
	else
		return 1;
	if (result < 0) {
		r->failed = true;
		pr_error_prefix(r->to->err, "%s:%u", r->path, r->line);
	}
	return result == 0;
}

int
pr_options_text(const struct pr_cmdline *program, void *values, const char *text,
	struct pr_error *err)
{
	struct parser p = {.program = program, .values = values, .err = err};
	char *copy = strdup(text), *rest = copy, *part;
	int result = copy ? 0 : pr_error_set(err, "no memory");

	while (result == 0 && (part = strsep(&rest, "\n;"))) {
		char *value = part, *name = pr_text_trim(strsep(&value, "="));

		if (value)
			result = set_key(&p, name, pr_text_trim(value));
		else if (*name)
			result = pr_error_set(err, "'%s' is not 'key = value'", name);
	}
	free(copy);
	return result;
}

/* path NULL: the default file, which need not exist. */
static int
read_file(struct parser *p, const char *path)
{
	struct reading r = {.to = p, .path = path ? path : PR_CONFIG_DEFAULT};

	r.file = fopen(r.path, "re");
	if (!r.file) {
		if (!path && (errno == ENOENT || errno == ENOTDIR))
			return 0;
		return pr_error_errno(p->err, "cannot open config file %s", r.path);
	}
	/* Debian's inih is set at run time; its own limit of 200 bytes would cut filters in two */
	ini_use_stack = false;
	ini_allow_realloc = false;
	ini_allow_multiline = false;
	ini_stop_on_first_error = true;
	ini_initial_alloc = ini_max_line = LINE_MAX_BYTES;
	int result = ini_parse_stream(read_line, &r, on_key, &r);
	if (r.failed)
		result = -1;
	else if (ferror(r.file))
		result = pr_error_errno(p->err, "cannot read %s", r.path);
	else if (result < 0)
		pr_error_set(p->err, "no memory to read %s", r.path);
	else if (result > 0)
		result = FAIL_AT(&r, "neither '[section]' nor 'name = value'");
	fclose(r.file);
	return result;
}

/* ---- argv ---- */

/* The table as getopt_long(3) wants it. val of a long name: LONG + its index. */
enum { LONG = 256 };
struct names {
	struct option list[NAMES_MAX + BUILTINS + 1];
	const struct pr_option *options[NAMES_MAX + BUILTINS];
	int count;
	const struct pr_option *by_letter[LONG];
	char letters[2 * NAMES_MAX + 8]; /* + or nothing, ":", then "a" or "a:" each */
};

static void
add_name(struct names *n, const struct pr_option *option, const char *name)
{
	n->list[n->count] = (struct option){.name = name,
		.has_arg = option >= builtins && option < builtins + CONFIG ? no_argument
			   : option->kind == PR_KIND_FLAG ? optional_argument
							  : required_argument,
		.val = LONG + n->count};
	n->options[n->count++] = option;
}

static void
add_letter(struct names *n, const struct pr_option *option, char letter)
{
	size_t len = strlen(n->letters);

	n->by_letter[(unsigned char)letter] = option;
	snprintf(n->letters + len, sizeof n->letters - len, "%c%s", letter,
		option->kind == PR_KIND_FLAG ? "" : ":");
}

static void
add_option(struct names *n, const struct pr_option *option)
{
	add_name(n, option, option->name);
	if (option->letter)
		add_letter(n, option, option->letter);
	for (int i = 0; i < ALIASES && option->aliases[i]; i++)
		if (option->aliases[i][1])
			add_name(n, option, option->aliases[i]);
		else
			add_letter(n, option, option->aliases[i][0]);
}

static void
collect_names(const struct pr_cmdline *program, struct names *n)
{
	*n = (struct names){.letters = ":"};
	if (program->stop_at_operand)
		memcpy(n->letters, "+:", sizeof "+:");
	for (size_t i = 0; i < program->option_count; i++)
		add_option(n, &program->options[i]);
	for (size_t i = 0; i < builtin_count(program); i++)
		add_option(n, &builtins[i]);
}

/*
 * Error text for a wrong option. c: from getopt_long, which accepts a unique prefix of a
 * name.
 */
static int
bad_option(const struct parser *p, const struct names *n, int c, const char *word)
{
	const char *program = p->program->name;
	char name[WORD_MAX + 1];

	if (c == ':') {
		const struct pr_option *option =
			optopt < LONG ? n->by_letter[optopt] : n->options[optopt - LONG];
		char letter[] = {'-', optopt, 0};
		const char *dashes = optopt < LONG ? "" : "--",
			   *flag = optopt < LONG ? letter : n->list[optopt - LONG].name;

		return pr_error_set(p->err, "%s%s needs a value: %s%s %s", dashes, flag,
			dashes, flag, option->arg);
	}
	if (optopt && optopt < LONG)
		return pr_error_set(p->err,
			"unknown option -%c; '%s --help' lists the options", optopt,
			program);
	if (optopt)
		return pr_error_set(
			p->err, "--%s takes no value", n->list[optopt - LONG].name);
	snprintf(name, sizeof name, "%.*s", (int)strcspn(word + 2, "="), word + 2);
	const char *best = nearest_option(p->program, name, builtin_count(p->program));
	if (best)
		return pr_error_set(
			p->err, "unknown option --%s; did you mean --%s?", name, best);
	return pr_error_set(p->err, "unknown option --%s; '%s --help' lists the options",
		name, program);
}

static void print_help(const struct pr_cmdline *program, void *values);

/*
 * All options of argv; operands start at optind then. config: only looks, for bad usage and for the built-in
 * options. 1: one of these was printed. config NULL: assigns them.
 */
static int
walk(struct parser *p, const struct names *n, int argc, char **argv, const char **config)
{
	int c;

	optind = 0; /* starts getopt_long afresh */
	opterr = 0;
	while ((c = getopt_long(argc, argv, n->letters, n->list, NULL)) != -1) {

		if (c == '?' || c == ':')
			return bad_option(p, n, c, argv[optind - 1]);
		const struct pr_option *option =
			c < LONG ? n->by_letter[c] : n->options[c - LONG];
		if (option == &builtins[CONFIG]) {
			if (config)
				*config = optarg;
		} else if (option == &builtins[VERSION]) {
			printf("%s %s\n", p->program->name, PACKRACK_VERSION);
			return 1;
		} else if (option == &builtins[HELP]) {
			print_help(p->program, p->values);
			return 1;
		} else if (!config && assign(p, option, optarg, FROM_FLAG) < 0) {
			return c < LONG ? pr_error_prefix(p->err, "-%c", c)
					: pr_error_prefix(
						  p->err, "--%s", n->list[c - LONG].name);
		}
	}
	return 0;
}

int
pr_options_parse(const struct pr_cmdline *program, void *values, int argc, char **argv,
	int *operand, struct pr_error *err)
{
	struct pr_error scrap = {""};
	struct parser p = {.program = program, .values = values, .err = err ? err : &scrap};
	const struct pr_option *o = program->options;
	const char *config = NULL;
	struct names names;

	if (program->option_count > OPTIONS_MAX)
		return pr_error_set(err, "too many options");
	for (size_t i = 0; i < program->option_count; i++)
		if (o[i].def && assign(&p, &o[i], o[i].def, FROM_DEFAULT) < 0)
			return pr_error_prefix(err, "default of --%s", o[i].name);
	collect_names(program, &names);
	int result = walk(&p, &names, argc, argv, &config);
	if (result != 0)
		return result;
	if ((program->section && read_file(&p, config) < 0) ||
		walk(&p, &names, argc, argv, NULL) < 0)
		return -1;
	if (!operand && optind < argc)
		return pr_error_set(err,
			"unexpected '%s': only options are taken; see '%s --help'",
			argv[optind], program->name);
	if (operand)
		*operand = optind;
	for (size_t i = 0; i < program->option_count; i++)
		if (o[i].required && p.sources[i] == FROM_DEFAULT)
			return pr_error_set(err, "--%s %s is missing: %s", o[i].name,
				o[i].arg, o[i].help);
	return 0;
}

/* ---- the help ---- */

enum { HELP_WIDTH = 80, FLAGS_WIDTH = 28 };

/* The value that the program uses if the option is not given; "": nothing to show. */
static const char *
default_text(const struct pr_option *option, void *values, char *buf, size_t size)
{
	uint64_t number;

	if (option->def_note || option->def)
		return option->def_note ? option->def_note : option->def;
	switch (option->kind) {
	case PR_KIND_STRING:
		return *(char **)member(option, values) ? *(char **)member(option, values)
							: "";
	case PR_KIND_ENUM:
		return option->choices[*(int *)member(option, values)];
	case PR_KIND_UINT:
	case PR_KIND_SIZE:
	case PR_KIND_DURATION:
		memcpy(&number, member(option, values), sizeof number);
		return number ? number_text(option->kind, number, buf, size) : "";
	case PR_KIND_FLAG:
	case PR_KIND_LIST:
	case PR_KIND_TIME:
		break;
	}
	return "";
}

static void
print_option(const struct pr_option *option, void *values)
{
	char flags[128], number[32], help[1024];
	const char *value = default_text(option, values, number, sizeof number);
	const int begin = FLAGS_WIDTH + 2;
	int at = begin;

	int used = option->letter ? snprintf(flags, sizeof flags, "  -%c, ", option->letter)
				  : snprintf(flags, sizeof flags, "      ");
	used += snprintf(flags + used, sizeof flags - used, "--%s%s%s", option->name,
		option->arg ? " " : "", option->arg ? option->arg : "");
	if (used > FLAGS_WIDTH)
		printf("%s\n%*s", flags, begin, "");
	else
		printf("%-*s", begin, flags);
	snprintf(help, sizeof help, "%s%s%s%s%s%s", option->help,
		option->required ? " [required]" : "",
		option->kind == PR_KIND_LIST ? " [repeatable]" : "",
		*value ? " [default: " : "", value, *value ? "]" : "");
	/* Words, in lines that begin behind the flags. */
	for (const char *word = help; *word; word += strspn(word, " ")) {
		int len = strcspn(word, " ");

		if (at > begin && at + 1 + len > HELP_WIDTH) {
			printf("\n%*s", begin, "");
			at = begin;
		}
		at += printf("%s%.*s", at > begin ? " " : "", len, word);
		word += len;
	}
	putchar('\n');
}

static void
print_help(const struct pr_cmdline *program, void *values)
{
	printf("usage: %s %s\n\n%s\n\noptions:\n", program->name,
		program->usage ? program->usage : "[options]", program->summary);
	for (size_t i = 0; i < program->option_count; i++)
		print_option(&program->options[i], values);
	for (size_t i = 0; i < builtin_count(program); i++)
		print_option(&builtins[i], &(char *){NULL});
	if (program->section)
		printf("\nEach option is also a key of section [%s] in %s.\n",
			program->section, PR_CONFIG_DEFAULT);
	if (program->footer)
		printf("\n%s%s", program->footer,
			program->footer[strlen(program->footer) - 1] == '\n' ? "" : "\n");
}
