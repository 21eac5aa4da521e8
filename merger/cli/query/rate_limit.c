/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/query/rate_limit.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/clock.h"

static const struct {
	const char *name;
	bool packets;
	unsigned bits;
} units[] = {{"bit", false, 1}, {"bit/s", false, 1}, {"bps", false, 1}, {"B", false, 8},
	{"B/s", false, 8}, {"pps", true, 1}, {"p/s", true, 1}};

static double
prefix(const char **at)
{
	static const struct {
		char letter;
		double factor;
	} known[] = {{'k', 1e3}, {'K', 1e3}, {'M', 1e6}, {'G', 1e9}, {'T', 1e12}};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (**at == known[i].letter) {
			++*at;
			return known[i].factor;
		}
	return 1;
}

static int
refuse(const char *text, struct pr_error *err)
{
	return pr_error_set(err,
		"'%s' is no rate: a number and bit, B or pps, as in 100Mbit, 12.5MB, 5kpps",
		text);
}

int
rate_limit_parse(const char *text, struct rate_limit *out, struct pr_error *err)
{
	char *end;
	const char *at;
	double value;

	if (*text < '0' || *text > '9')
		return refuse(text, err);
	value = strtod(text, &end);
	at = end;
	value *= prefix(&at);
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (!strcmp(at, units[i].name)) {
			value *= units[i].bits;
			if (!(value >= 0 && value < 1e18))
				return refuse(text, err);
			out->packets = units[i].packets;
			out->per_second = (uint64_t)(value + 0.5);
			return 0;
		}
	return refuse(text, err);
}

bool
rate_limit_exceeded(
	const struct rate_limit *limit, uint64_t packets, uint64_t bytes, int64_t ns)
{
	unsigned __int128 count = limit->packets ? packets : (unsigned __int128)bytes * 8;

	return count * (uint64_t)PR_NS_PER_S >
	       (unsigned __int128)limit->per_second * (uint64_t)ns;
}
