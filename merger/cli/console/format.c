/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/console/format.h"

#include <stdio.h>
#include <time.h>

#include "proto/base/clock.h"

static char *
scaled(char *buf, double n, double step, const char *const *units)
{
	int i = 0;

	while (n >= step * 0.9995 && units[i + 1]) {
		n /= step;
		i++;
	}
	snprintf(buf, FORMAT_TEXT, "%.*f %s", i ? 1 : 0, n, units[i]);
	return buf;
}

char *
format_bytes(char *buf, double bytes)
{
	static const char *const units[] = {
		"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB", NULL};

	return scaled(buf, bytes, 1024, units);
}

char *
format_bits(char *buf, double bytes_per_s)
{
	static const char *const units[] = {
		"bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s", NULL};

	return scaled(buf, bytes_per_s * 8, 1000, units);
}

char *
format_count(char *buf, double count)
{
	static const char *const units[] = {"k", "M", "G", "T", "P", "E", NULL};

	if (count >= 9999.5)
		return scaled(buf, count / 1000, 1000, units);
	snprintf(buf, FORMAT_TEXT, "%.0f", count);
	return buf;
}

char *
format_left(char *buf, double seconds)
{
	if (seconds < 0)
		snprintf(buf, FORMAT_TEXT, "-");
	else if (seconds < 3600)
		snprintf(buf, FORMAT_TEXT, "%.0f min", seconds / 60);
	else if (seconds < 4 * 86400)
		snprintf(buf, FORMAT_TEXT, "%d:%02d", (int)(seconds / 3600),
			(int)(seconds / 60) % 60);
	else if (seconds < 36500 * 86400.0)
		snprintf(buf, FORMAT_TEXT, "%.0f d", seconds / 86400);
	else
		snprintf(buf, FORMAT_TEXT, "> 100 years");
	return buf;
}

char *
format_clock(char *buf, int64_t time)
{
	time_t seconds = (time_t)(time / PR_NS_PER_S);
	struct tm tm;

	if (!localtime_r(&seconds, &tm) || !strftime(buf, FORMAT_TEXT, "%H:%M:%S", &tm))
		snprintf(buf, FORMAT_TEXT, "-");
	return buf;
}
