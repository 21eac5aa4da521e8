/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/options.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "proto/base/clock.h"

/* Digits only (strtoull takes signs and blanks); *end is where they end. */
static bool
parse_digits(const char *text, uint64_t *out, const char **end)
{
	uint64_t n = 0;

	if (!isdigit((unsigned char)*text))
		return false;
	for (; isdigit((unsigned char)*text); text++)
		if (__builtin_mul_overflow(n, 10, &n) ||
			__builtin_add_overflow(n, (uint64_t)(*text - '0'), &n))
			return false;
	*out = n;
	*end = text;
	return true;
}

int
pr_parse_size(const char *text, uint64_t *out)
{
	static const char units[] = "KMGTPE";
	const char *at, *unit;
	uint64_t n;
	int shift = 0;

	if (!parse_digits(text, &n, &at))
		return -1;
	if (*at && (unit = strchr(units, toupper((unsigned char)*at)))) {
		shift = 10 * (int)(unit - units + 1);
		at++;
		if (strcasecmp(at, "iB") == 0)
			at += 2;
	}
	if (strcasecmp(at, "B") == 0)
		at++;
	if (*at || (shift && n > UINT64_MAX >> shift))
		return -1;
	*out = n << shift;
	return 0;
}

static const struct {
	const char *name;
	int64_t ns;
} duration_units[] = {
	{"", PR_NS_PER_S},
	{"ns", 1},
	{"us", 1000},
	{"ms", PR_NS_PER_MS},
	{"s", PR_NS_PER_S},
	{"m", 60 * PR_NS_PER_S},
	{"min", 60 * PR_NS_PER_S},
	{"h", 3600 * PR_NS_PER_S},
	{"d", 86400 * PR_NS_PER_S},
};

static int64_t
duration_unit(const char *name)
{
	for (size_t i = 0; i < sizeof duration_units / sizeof *duration_units; i++)
		if (strcmp(duration_units[i].name, name) == 0)
			return duration_units[i].ns;
	return 0;
}

/* ".25" as billionths; digits beyond the ninth are dropped. */
static bool
parse_fraction(const char **at, int64_t *out)
{
	int64_t n = 0, worth = PR_NS_PER_S / 10;

	*out = 0;
	if (**at != '.')
		return true;
	if (!isdigit((unsigned char)*++*at))
		return false;
	for (; isdigit((unsigned char)**at); (*at)++, worth /= 10)
		n += (**at - '0') * worth;
	*out = n;
	return true;
}

int
pr_parse_duration(const char *text, int64_t *out)
{
	int64_t unit, fraction, ns;
	const char *at;
	uint64_t whole;

	if (!parse_digits(text, &whole, &at) || !parse_fraction(&at, &fraction))
		return -1;
	unit = duration_unit(at);
	if (unit == 0 || __builtin_mul_overflow(whole, unit, &ns))
		return -1;
	/* in this order neither product can overflow */
	fraction = unit >= PR_NS_PER_S ? fraction * (unit / PR_NS_PER_S)
				       : fraction * unit / PR_NS_PER_S;
	if (__builtin_add_overflow(ns, fraction, &ns))
		return -1;
	*out = ns;
	return 0;
}
