/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/options_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "proto/base/clock.h"

static void *
field(const struct pr_option *option, void *values)
{
	return (char *)values + option->offset;
}

static int
set_flag(const struct pr_option *option, void *values, const char *text,
	struct pr_error *err)
{
	static const char *const yes[] = {"yes", "true", "on", "1"};
	static const char *const no[] = {"no", "false", "off", "0"};
	bool *out = field(option, values);

	if (!text) {
		*out = true;
		return 0;
	}
	for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
		if (strcasecmp(text, yes[i]) == 0 || strcasecmp(text, no[i]) == 0) {
			*out = strcasecmp(text, yes[i]) == 0;
			return 0;
		}
	return pr_error_set(err, "'%s' is neither yes nor no", text);
}

static int
set_string(const struct pr_option *option, void *values, const char *text,
	struct pr_error *err)
{
	char **out = field(option, values);
	char *copy = strdup(text);

	if (!copy)
		return pr_error_set(err, "no memory");
	free(*out);
	*out = copy;
	return 0;
}

static int
set_enum(const struct pr_option *option, void *values, const char *text,
	struct pr_error *err)
{
	char known[256] = "";
	size_t used = 0;

	for (int i = 0; option->choices[i]; i++) {
		if (strcmp(option->choices[i], text) == 0) {
			*(int *)field(option, values) = i;
			return 0;
		}
		if (used < sizeof known)
			used += (size_t)snprintf(known + used, sizeof known - used, "%s%s",
				i ? ", " : "", option->choices[i]);
	}
	return pr_error_set(err, "'%s' is not one of: %s", text, known);
}

/* Decimal, or 0x and hexadecimal; strtoull alone would take signs and blanks. */
static int
parse_uint(const char *text, uint64_t *out)
{
	bool hex = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
	const char *digits = hex ? text + 2 : text;
	char *end;

	if (!*digits || strspn(digits, hex ? "0123456789abcdefABCDEF" : "0123456789") !=
				strlen(digits))
		return -1;
	errno = 0;
	*out = strtoull(digits, &end, hex ? 16 : 10);
	return errno ? -1 : 0;
}

static const struct unit {
	uint64_t worth;
	const char *name;
} sizes[] = {{1ull << 40, "T"}, {1 << 30, "G"}, {1 << 20, "M"}, {1 << 10, "K"}, {1, ""}},
  durations[] = {{86400ull * PR_NS_PER_S, "d"}, {3600ull * PR_NS_PER_S, "h"},
	  {60ull * PR_NS_PER_S, "m"}, {PR_NS_PER_S, "s"}, {PR_NS_PER_MS, "ms"},
	  {1000, "us"}, {1, "ns"}},
  plain[] = {{1, ""}};

/* In the largest unit that divides it, as a user would write it. */
static const char *
show(enum pr_option_kind kind, uint64_t value, char *buf, size_t size)
{
	const struct unit *unit = kind == PR_OPT_SIZE       ? sizes
				  : kind == PR_OPT_DURATION ? durations
							    : plain;

	while (value && value % unit->worth)
		unit++;
	snprintf(buf, size, "%llu%s", (unsigned long long)(value / unit->worth),
		value ? unit->name : "");
	return buf;
}

void
pr_option_show(const struct pr_option *option, const void *values, char *buf, size_t size)
{
	const char *at = (const char *)values + option->offset;
	const char *text = NULL;
	uint64_t number = 0;
	int choice;

	buf[0] = '\0';
	switch (option->kind) {
	case PR_OPT_STRING:
		memcpy(&text, at, sizeof text);
		break;
	case PR_OPT_ENUM:
		memcpy(&choice, at, sizeof choice);
		text = option->choices[choice];
		break;
	case PR_OPT_UINT:
	case PR_OPT_SIZE:
	case PR_OPT_DURATION:
		memcpy(&number, at, sizeof number);
		break;
	case PR_OPT_FLAG:
	case PR_OPT_LIST:
	case PR_OPT_TIME:
		break;
	}
	if (text)
		snprintf(buf, size, "%s", text);
	else if (number)
		show(option->kind, number, buf, size);
}

static int
check_range(const struct pr_option *option, uint64_t value, const char *text,
	struct pr_error *err)
{
	char min[32], max[32];

	if (value >= option->min && (option->max == 0 || value <= option->max))
		return 0;
	show(option->kind, option->min, min, sizeof min);
	if (option->max == 0)
		return pr_error_set(err, "%s is too small: give at least %s", text, min);
	return pr_error_set(err, "%s is out of range: give %s to %s", text, min,
		show(option->kind, option->max, max, sizeof max));
}

static int
set_number(const struct pr_option *option, void *values, const char *text,
	struct pr_error *err)
{
	uint64_t number;
	int64_t ns;

	if (option->kind == PR_OPT_UINT && parse_uint(text, &number) < 0)
		return pr_error_set(err, "'%s' is not a whole number", text);
	if (option->kind == PR_OPT_SIZE && pr_parse_size(text, &number) < 0)
		return pr_error_set(err, "'%s' is not a size (like 64K, 1M or 2GiB)", text);
	if (option->kind == PR_OPT_DURATION) {
		if (pr_parse_duration(text, &ns) < 0)
			return pr_error_set(
				err, "'%s' is not a duration (like 50ms, 2s or 1h)", text);
		number = (uint64_t)ns;
	}
	if (check_range(option, number, text, err) < 0)
		return -1;
	/* uint64_t or int64_t: the same size and, in range, the same bits */
	memcpy(field(option, values), &number, sizeof number);
	return 0;
}

static int
set_value(const struct pr_option *option, void *values, const char *text,
	struct pr_error *err)
{
	switch (option->kind) {
	case PR_OPT_FLAG:
		return set_flag(option, values, text, err);
	case PR_OPT_STRING:
		return set_string(option, values, text, err);
	case PR_OPT_LIST:
		return pr_string_list_add(field(option, values), text, strlen(text), err);
	case PR_OPT_TIME:
		return pr_time_parse(text, pr_now_real(), field(option, values), err);
	case PR_OPT_ENUM:
		return set_enum(option, values, text, err);
	case PR_OPT_UINT:
	case PR_OPT_SIZE:
	case PR_OPT_DURATION:
		break;
	}
	return set_number(option, values, text, err);
}

int
pr_option_set(const struct pr_option *option, void *values, const char *text,
	struct pr_error *err)
{
	if (set_value(option, values, text, err) < 0)
		return -1;
	if (option->set_offset)
		*(bool *)((char *)values + option->set_offset) = true;
	return 0;
}

int
pr_option_assign(const struct pr_option_values *to, const struct pr_option *option,
	const char *text, enum pr_option_source source, struct pr_error *err)
{
	unsigned char *from = &to->sources[option - to->program->options];

	if (option->kind == PR_OPT_LIST && *from != source)
		pr_string_list_clear(field(option, to->values));
	*from = (unsigned char)source;
	return pr_option_set(option, to->values, text, err);
}

void
pr_options_free(const struct pr_cmdline *program, void *values)
{
	for (size_t i = 0; i < program->option_count; i++) {
		const struct pr_option *option = &program->options[i];

		if (option->kind == PR_OPT_LIST)
			pr_string_list_clear(field(option, values));
		if (option->kind == PR_OPT_STRING) {
			free(*(char **)field(option, values));
			*(char **)field(option, values) = NULL;
		}
	}
}
