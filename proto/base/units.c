/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/units.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <strings.h>

#include "proto/base/array.h"
#include "proto/base/clock.h"

struct unit {
	const char *name;
	uint64_t factor;
};

/* Sorted by factor; the first name of a factor is the one that is printed. */
static const struct unit durations[] = {
	{"ns", 1},
	{"us", 1000},
	{"ms", PR_NS_PER_MS},
	{"s", PR_NS_PER_S},
	{"", PR_NS_PER_S},
	{"sec", PR_NS_PER_S},
	{"second", PR_NS_PER_S},
	{"m", 60 * PR_NS_PER_S},
	{"min", 60 * PR_NS_PER_S},
	{"minute", 60 * PR_NS_PER_S},
	{"h", 3600 * PR_NS_PER_S},
	{"hour", 3600 * PR_NS_PER_S},
	{"d", 86400 * PR_NS_PER_S},
	{"day", 86400 * PR_NS_PER_S},
};
static const char prefixes[] = "KMGTPE";

/* Exact up to nine digits behind the point; further digits are dropped. */
struct number {
	uint64_t whole, billionths;
};

/* strtod alone would take signs, blanks, hexadecimal numbers and "inf". *end: behind the number. */
static bool
take_number(const char *text, struct number *out, const char **end)
{
	uint64_t worth = 100000000;

	*out = (struct number){0};
	if (!isdigit((unsigned char)*text))
		return false;
	for (; isdigit((unsigned char)*text); text++)
		if (__builtin_mul_overflow(out->whole, 10, &out->whole) ||
			__builtin_add_overflow(
				out->whole, (uint64_t)(*text - '0'), &out->whole))
			return false;
	if (*text == '.') {
		if (!isdigit((unsigned char)*++text))
			return false;
		for (; isdigit((unsigned char)*text); text++, worth /= 10)
			out->billionths += (uint64_t)(*text - '0') * worth;
	}
	*end = text;
	return true;
}

/* Passes the prefix that is at *at, if there is one, of powers of base. Returns its factor. */
static uint64_t
take_prefix(const char **at, uint64_t base)
{
	const char *prefix = **at ? strchr(prefixes, toupper((unsigned char)**at)) : NULL;
	uint64_t factor = 1;

	for (const char *p = prefixes; prefix && p <= prefix; p++)
		factor *= base;
	*at += prefix != NULL;
	return factor;
}

static int
multiply(const struct number *n, uint64_t factor, uint64_t max, uint64_t *out)
{
	unsigned __int128 product = (unsigned __int128)n->whole * factor +
				    (unsigned __int128)n->billionths * factor / 1000000000;

	if (product > max)
		return -1;
	*out = product;
	return 0;
}

int
pr_parse_size(const char *text, uint64_t *out)
{
	struct number n;
	const char *at;

	if (!take_number(text, &n, &at))
		return -1;
	uint64_t factor =
		take_prefix(&at, *at && strcasecmp(at + 1, "B") == 0 ? 1000 : 1024);
	if (factor > 1 && strcasecmp(at, "iB") == 0)
		at += 2;
	return *at && strcasecmp(at, "B") != 0 ? -1 : multiply(&n, factor, UINT64_MAX, out);
}

int
pr_parse_count(const char *text, uint64_t *out)
{
	struct number n;
	const char *at;

	if (!take_number(text, &n, &at))
		return -1;
	uint64_t factor = take_prefix(&at, 1000);
	if (*at || (factor == 1 && n.billionths))
		return -1;
	return multiply(&n, factor, UINT64_MAX, out);
}

int
pr_parse_duration(const char *text, int64_t *out)
{
	struct number n;
	const char *at;
	uint64_t ns;

	if (!take_number(text, &n, &at))
		return -1;
	for (size_t i = 0; i < PR_COUNT(durations); i++) {
		size_t len = strlen(durations[i].name);

		/* "minutes" is "minute" */
		if (strcmp(durations[i].name, at) == 0 ||
			(len > 2 && strncmp(durations[i].name, at, len) == 0 &&
				strcmp(at + len, "s") == 0)) {
			if (multiply(&n, durations[i].factor, INT64_MAX, &ns) < 0)
				return -1;
			*out = ns;
			return 0;
		}
	}
	return -1;
}

int
pr_parse_rate(const char *text, struct pr_rate *out)
{
	static const struct unit units[] = {
		{"bit", 1}, {"bit/s", 1}, {"bps", 1}, {"B", 8}, {"B/s", 8}};
	const char *at;
	struct number n;

	if (!take_number(text, &n, &at))
		return -1;
	double factor =
		*at == 'k' || isupper((unsigned char)*at) ? take_prefix(&at, 1000) : 1;
	at += *at == ' ';
	out->packets = strcmp(at, "pps") == 0 || strcmp(at, "p/s") == 0;
	out->per_second = (n.whole + n.billionths / 1e9) * factor;
	if (out->packets)
		return 0;
	for (size_t i = 0; i < PR_COUNT(units); i++)
		if (strcmp(units[i].name, at) == 0) {
			out->per_second *= units[i].factor;
			return 0;
		}
	return -1;
}

int
pr_parse_percent(const char *text, double *out)
{
	struct number n;
	const char *at;

	if (!take_number(text, &n, &at) || strcmp(at, *at == '%' ? "%" : "") != 0)
		return -1;
	*out = n.whole + n.billionths / 1e9;
	return 0;
}

uint64_t
pr_number_in(const char *path, const char *format)
{
	FILE *file = fopen(path, "re");
	unsigned long long number = 0;

	if (file && fscanf(file, format, &number) != 1)
		number = 0;
	if (file)
		fclose(file);
	return number;
}

char *
pr_format_size(uint64_t bytes, char *buf, size_t size)
{
	int prefix = -1;

	while (bytes && bytes % 1024 == 0 && prefixes[prefix + 1]) {
		bytes /= 1024;
		prefix++;
	}
	snprintf(buf, size, "%llu%.*s", (unsigned long long)bytes, prefix >= 0,
		prefix >= 0 ? &prefixes[prefix] : "");
	return buf;
}

char *
pr_format_duration(int64_t ns, char *buf, size_t size)
{
	const struct unit *unit = durations;

	for (size_t i = 1; i < PR_COUNT(durations); i++)
		if (ns % (int64_t)durations[i].factor == 0 &&
			durations[i].factor > unit->factor)
			unit = &durations[i];
	snprintf(buf, size, "%lld%s", (long long)ns / (int64_t)unit->factor,
		ns ? unit->name : "");
	return buf;
}

uint8_t
pr_parse_address(const char *text, uint8_t out[16])
{
	if (inet_pton(AF_INET, text, out) == 1)
		return 4;
	return inet_pton(AF_INET6, text, out) == 1 ? 16 : 0;
}

char *
pr_format_address(const uint8_t *bytes, size_t len, char buf[PR_ADDRESS_TEXT])
{
	inet_ntop(len == 4 ? AF_INET : AF_INET6, bytes, buf, PR_ADDRESS_TEXT);
	return buf;
}
