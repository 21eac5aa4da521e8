/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/trace/pace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/units.h"

static int
parse_rate(const char *text, struct pace *out)
{
	struct pr_rate rate;

	if (pr_parse_rate(text, &rate) < 0)
		return -1;
	out->kind = rate.packets ? PACE_PPS : PACE_BPS;
	out->rate = rate.per_second;
	return out->rate >= 0.001 ? 0 : -1;
}

static int
parse_scale(const char *text, struct pace *out)
{
	char *end;

	out->kind = PACE_RECORDED;
	out->scale = strtod(text, &end);
	return end != text && !*end && isfinite(out->scale) && out->scale >= 1e-6 &&
			       out->scale <= 1e9
		       ? 0
		       : -1;
}

int
pace_parse(const char *text, struct pace *out, struct pr_error *err)
{
	*out = (struct pace){.kind = PACE_RECORDED, .scale = 1};
	if (!strcmp(text, "recorded"))
		return 0;
	if (!strcmp(text, "max")) {
		out->kind = PACE_MAX;
		return 0;
	}
	if ((text[0] == 'x' ? parse_scale(text + 1, out) : parse_rate(text, out)) == 0)
		return 0;
	return pr_error_set(err,
		"'%.60s' is not a pace: give recorded, x2, x0.5, 5kpps, 100Mbit or max",
		text);
}

static int64_t
rounded(double ns)
{
	return ns < 9e18 ? (int64_t)ns : INT64_MAX;
}

static int64_t
recorded(struct pace *p, int64_t time)
{
	int64_t since;

	if (!p->packets)
		p->first = p->latest = time;
	if (time > p->latest)
		p->latest = time;
	if (__builtin_sub_overflow(p->latest, p->first, &since))
		since = INT64_MAX;
	return p->scale == 1 ? since : rounded((double)since / p->scale);
}

int64_t
pace_due(struct pace *p, int64_t time, uint32_t bytes)
{
	int64_t due = 0;

	if (p->kind == PACE_RECORDED)
		due = recorded(p, time);
	else if (p->kind == PACE_PPS)
		due = rounded((double)p->packets * 1e9 / p->rate);
	else if (p->kind == PACE_BPS)
		due = rounded((double)p->bytes * 8e9 / p->rate);
	p->packets++;
	p->bytes += bytes;
	return due;
}
