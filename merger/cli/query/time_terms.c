/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/query/time_terms.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "merger/cli/query/time_tokens.h"
#include "proto/base/clock.h"

struct taking {
	const char *text;
	struct time_tokens tokens;
	bool *gone; /* one for each token: it is said by the time range */
};

/*
 * `and` and `or` bind alike, from left to right: a term is one of a conjunction with all else if `and`
 * is what joins it, and no `or` of the top comes behind it.
 */
static bool
joined_by_and(const struct time_tokens *s, size_t term)
{
	int depth = 0;

	if (term > 0 && s->items[term - 1].kind != TOKEN_AND)
		return false;
	for (size_t i = 0; i < s->count; i++) {
		int kind = s->items[i].kind;

		depth += (kind == TOKEN_OPEN) - (kind == TOKEN_CLOSE);
		if (i == term && depth != 0)
			return false;
		if (i > term && depth == 0 && kind == TOKEN_OR)
			return false;
	}
	return term + 1 == s->count || s->items[term + 1].kind == TOKEN_AND;
}

/* With the `and` before it, or behind it where that is another's. */
static void
take_out(struct taking *t, size_t term, int64_t *since, int64_t *until)
{
	const struct time_token *token = &t->tokens.items[term];

	if (token->after && token->time > *since)
		*since = token->time;
	if (!token->after && token->time < *until)
		*until = token->time;
	t->gone[term] = true;
	if (term > 0 && !t->gone[term - 1])
		t->gone[term - 1] = true;
	else if (term + 1 < t->tokens.count)
		t->gone[term + 1] = true;
}

static void
print_token(FILE *to, const struct taking *t, const struct time_token *token)
{
	uint64_t size = (uint64_t)token->time;

	if (token->kind != TOKEN_TIME) {
		fwrite(t->text + token->at, 1, token->len, to);
		return;
	}
	if (token->time < 0)
		size = 0 - size;
	fprintf(to, "%s @%s%" PRIu64 ".%09" PRIu64, token->after ? "after" : "before",
		token->time < 0 ? "-" : "", size / (uint64_t)PR_NS_PER_S,
		size % (uint64_t)PR_NS_PER_S);
}

/* What is left, with its spaces. */
static char *
left_over(const struct taking *t)
{
	char *text = NULL;
	size_t size, at = 0;
	FILE *to = open_memstream(&text, &size);
	bool any = false;

	if (!to)
		return NULL;
	for (size_t i = 0; i < t->tokens.count; i++) {
		const struct time_token *token = &t->tokens.items[i];

		fwrite(t->text + at, 1, token->at - at, to);
		at = token->at + token->len;
		if (t->gone[i])
			continue;
		print_token(to, t, token);
		any = true;
	}
	if (fclose(to) != 0) {
		free(text);
		return NULL;
	}
	if (!any)
		text[0] = 0;
	return text;
}

char *
time_terms_take(const char *filter, int64_t now, int64_t *since, int64_t *until,
	struct pr_error *err)
{
	struct taking t = {.text = filter};
	char *text = NULL;

	if (time_tokens_scan(filter, now, &t.tokens, err) == 0) {
		t.gone = calloc(t.tokens.count + 1, sizeof(*t.gone));
		if (t.gone)
			time_hull_narrow(&t.tokens, since, until);
		for (size_t i = 0; t.gone && i < t.tokens.count; i++)
			if (t.tokens.items[i].kind == TOKEN_TIME &&
				joined_by_and(&t.tokens, i))
				take_out(&t, i, since, until);
		text = t.gone ? left_over(&t) : NULL;
		if (!text)
			pr_error_set(err, "no memory for the filter");
	}
	free(t.gone);
	free(t.tokens.items);
	return text;
}
