/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/console/series.h"

#include <stdio.h>
#include <string.h>

/* Programs name their counters in one order, so the place is nearly always the hint. */
static int
name_find(const struct series_names *n, const char *name, unsigned hint)
{
	if (hint < n->count && !strcmp(n->name[hint], name))
		return (int)hint;
	for (unsigned i = 0; i < n->count; i++)
		if (!strcmp(n->name[i], name))
			return (int)i;
	return -1;
}

static int
name_add(struct series_names *n, const char *name, unsigned hint)
{
	int at = name_find(n, name, hint);

	if (at >= 0 || n->count == SERIES_VALUES || strlen(name) >= sizeof(n->name[0]))
		return at;
	snprintf(n->name[n->count], sizeof(n->name[0]), "%s", name);
	return (int)n->count++;
}

static const uint64_t *
sample(const struct series *s, unsigned back)
{
	return s->values[(s->count - 1 - back) % SERIES_WINDOW];
}

static int64_t
sampled_at(const struct series *s, unsigned back)
{
	return s->times[(s->count - 1 - back) % SERIES_WINDOW];
}

static void
spark_push(struct series *s, int lead)
{
	double seconds = (double)(sampled_at(s, 0) - sampled_at(s, 1)) / 1e9;
	uint64_t grown = sample(s, 0)[lead] - sample(s, 1)[lead];

	if (s->spark_count == SERIES_SPARK)
		memmove(s->spark, s->spark + 1, sizeof(s->spark) - sizeof(s->spark[0]));
	else
		s->spark_count++;
	s->spark[s->spark_count - 1] = (uint64_t)((double)grown / seconds + 0.5);
}

void
series_push(struct series *s, struct series_names *names, int64_t time,
	Packrack__Value *const *values, size_t count, const char *lead)
{
	uint64_t *to;
	int at;

	if (s->count && time <= sampled_at(s, 0))
		return;
	to = s->values[s->count % SERIES_WINDOW];
	memset(to, 0, sizeof(s->values[0]));
	for (size_t i = 0; i < count; i++)
		if ((at = name_add(names, values[i]->name, (unsigned)i)) >= 0)
			to[at] = values[i]->number;
	s->times[s->count % SERIES_WINDOW] = time;
	s->count++;
	at = name_find(names, lead, 0);
	if (s->count < 2 || at < 0)
		return;
	if (sample(s, 0)[at] < sample(s, 1)[at]) {
		memmove(s->values[0], to, sizeof(s->values[0]));
		s->times[0] = time;
		s->count = 1;
	} else {
		spark_push(s, at);
	}
}

bool
series_has(const struct series *s, const struct series_names *n, const char *name)
{
	return s->count && name_find(n, name, 0) >= 0;
}

uint64_t
series_now(const struct series *s, const struct series_names *n, const char *name)
{
	int at = name_find(n, name, 0);

	return s->count && at >= 0 ? sample(s, 0)[at] : 0;
}

uint64_t
series_instant(const struct series *s, const struct series_names *n, const char *name)
{
	int at = name_find(n, name, 0);

	if (s->count < 2 || at < 0 || sample(s, 0)[at] < sample(s, 1)[at])
		return 0;
	return sample(s, 0)[at] - sample(s, 1)[at];
}

double
series_rate(const struct series *s, const struct series_names *n, const char *name)
{
	int at = name_find(n, name, 0);
	unsigned back = s->count < SERIES_WINDOW ? s->count : SERIES_WINDOW;

	if (back < 2 || at < 0 || sample(s, 0)[at] < sample(s, back - 1)[at])
		return 0;
	return (double)(sample(s, 0)[at] - sample(s, back - 1)[at]) * 1e9 /
	       (double)(sampled_at(s, 0) - sampled_at(s, back - 1));
}
