/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/filter/filter_time.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "indexer/filter/bpf.h"
#include "proto/base/clock.h"

static bool
is_space(char c)
{
	return c && strchr(" \t\n\r\v\f", c);
}

static bool
begins_word(const char *text, const char *at)
{
	return at == text || is_space(at[-1]) || strchr("(!&|", at[-1]);
}

/* The length of a term at at, 0: there is none. *number: where its @ is. */
static size_t
term_len(const char *text, const char *at, const char **number)
{
	size_t n = !strncmp(at, "after", 5) ? 5 : !strncmp(at, "before", 6) ? 6 : 0;

	if (!n || !begins_word(text, at) || !is_space(at[n]))
		return 0;
	while (is_space(at[n]))
		n++;
	*number = at + n;
	return at[n] == '@' ? n + 1 + strspn(at + n + 1, "-.0123456789") : 0;
}

static int
take_time(const char *at, const char *number, size_t len, struct pri_times *out,
	struct pr_error *err)
{
	struct pri_bpf_time *t, *items;
	char text[64];

	if (out->count == PRI_TIMES_MAX)
		return pr_error_set(err, "filter of more than %d times: that is too many",
			PRI_TIMES_MAX);
	if (len >= sizeof(text))
		return pr_error_set(err, "filter: '%.60s' is no time", number);
	items = realloc(out->items, (out->count + 1) * sizeof(*items));
	if (!items)
		return pr_error_set(err, "no memory for the filter");
	out->items = items;
	t = &items[out->count++];
	t->after = *at == 'a';
	memcpy(text, number, len);
	text[len] = 0;
	return pr_time_parse(text, 0, &t->time, err) < 0 ? pr_error_prefix(err, "filter")
							 : 0;
}

static int
print_all(FILE *to, const char *text, struct pri_times *out, struct pr_error *err)
{
	const char *number;

	for (const char *at = text; *at;) {
		size_t len = term_len(text, at, &number);

		if (!len) {
			fputc(*at++, to);
			continue;
		}
		fprintf(to, "link[%" PRIu32 ":4] = 1",
			PRI_TIMES_AT + PRI_TIMES_APART * (uint32_t)out->count);
		if (take_time(at, number, len - (size_t)(number - at), out, err) < 0)
			return -1;
		at += len;
	}
	return 0;
}

char *
pri_filter_take_times(const char *text, struct pri_times *out, struct pr_error *err)
{
	char *words = NULL;
	size_t size;
	FILE *to = open_memstream(&words, &size);
	int rc;

	if (!to) {
		pr_error_set(err, "no memory for the filter");
		return NULL;
	}
	rc = print_all(to, text, out, err);
	if (fclose(to) != 0 && rc == 0)
		rc = pr_error_set(err, "no memory for the filter");
	if (rc == 0)
		return words;
	free(words);
	return NULL;
}
