/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/time_terms.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/clock.h"

/* A word of the filter, a parenthesis, or an operator. */
struct token {
	size_t at, len;
	enum { WORD, AND, OR, NOT, OPEN, CLOSE } kind;
};

struct scan {
	char *text;
	struct token *tokens;
	size_t count;
	int64_t now, *since, *until;
};

/* ---- tokens ---- */

static bool
is_space(char c)
{
	return c && strchr(" \t\n\r\v\f", c);
}

/* A word ends at a space, parenthesis, && or ||, but not within [], where these are arithmetic. */
static size_t
word_len(const char *at)
{
	size_t n = 0;
	int depth = 0;

	for (; at[n]; n++) {
		if (depth == 0 && (is_space(at[n]) || strchr("()", at[n])))
			break;
		if (depth == 0 && (!strncmp(at + n, "&&", 2) || !strncmp(at + n, "||", 2)))
			break;
		depth += (at[n] == '[') - (at[n] == ']');
	}
	return n;
}

static struct token
token_at(const char *text, size_t at)
{
	const char *p = text + at;
	struct token t = {.at = at, .len = 1, .kind = WORD};

	if (*p == '(')
		t.kind = OPEN;
	else if (*p == ')')
		t.kind = CLOSE;
	else if (*p == '!' && p[1] != '=')
		t.kind = NOT;
	else if (!strncmp(p, "&&", 2) || !strncmp(p, "||", 2)) {
		t.kind = *p == '&' ? AND : OR;
		t.len = 2;
	} else {
		t.len = word_len(p);
	}
	if (t.kind == WORD && t.len == 3 && !strncmp(p, "and", 3))
		t.kind = AND;
	if (t.kind == WORD && t.len == 2 && !strncmp(p, "or", 2))
		t.kind = OR;
	if (t.kind == WORD && t.len == 3 && !strncmp(p, "not", 3))
		t.kind = NOT;
	return t;
}

static int
tokenize(struct scan *s, struct pr_error *err)
{
	size_t len = strlen(s->text);

	s->tokens = calloc(len + 1, sizeof(*s->tokens));
	if (!s->tokens)
		return pr_error_set(err, "no memory for the filter");
	for (size_t at = 0; at < len;) {
		if (is_space(s->text[at])) {
			at++;
			continue;
		}
		s->tokens[s->count] = token_at(s->text, at);
		at += s->tokens[s->count++].len;
	}
	return 0;
}

/* ---- terms ---- */

static bool
is_word(const struct scan *s, size_t i, const char *word)
{
	const struct token *t = &s->tokens[i];

	return t->kind == WORD && t->len == strlen(word) &&
	       !strncmp(s->text + t->at, word, t->len);
}

/* Only where a term begins: behind `host` or `port` it is somebody's name. */
static bool
begins_term(const struct scan *s, size_t i)
{
	return (i == 0 ||
		       (s->tokens[i - 1].kind != WORD && s->tokens[i - 1].kind != CLOSE)) &&
	       (is_word(s, i, "after") || is_word(s, i, "before"));
}

static size_t
term_end(const struct scan *s, size_t i)
{
	while (i < s->count && s->tokens[i].kind == WORD)
		i++;
	return i;
}

static void
blank(struct scan *s, size_t first, size_t end)
{
	for (size_t i = first; i < end; i++)
		memset(s->text + s->tokens[i].at, ' ', s->tokens[i].len);
}

/*
 * `and` and `or` bind alike, from left to right: a term is one of a conjunction with all else if `and`
 * is what joins it, and no `or` of the top comes behind it.
 */
static bool
joined_by_and(const struct scan *s, size_t first, size_t end)
{
	int depth = 0;

	if (first > 0 && s->tokens[first - 1].kind != AND)
		return false;
	for (size_t i = 0; i < s->count; i++) {
		depth += (s->tokens[i].kind == OPEN) - (s->tokens[i].kind == CLOSE);
		if (i == first && depth != 0)
			return false;
		if (i >= end && depth == 0 && s->tokens[i].kind == OR)
			return false;
	}
	return end == s->count || s->tokens[end].kind == AND;
}

static int
narrow(struct scan *s, size_t first, size_t end, struct pr_error *err)
{
	const struct token *last = &s->tokens[end - 1];
	bool after = is_word(s, first, "after");
	size_t from = s->tokens[first].at + s->tokens[first].len;
	char *text = strndup(s->text + from, last->at + last->len - from);
	int64_t time;
	int rc = text ? 0 : pr_error_set(err, "no memory for the filter");

	if (rc == 0 && end == first + 1)
		rc = pr_error_set(err,
			"%s what time? 'after 3h ago', 'before "
			"2026-11-21T00:40:00Z'",
			after ? "after" : "before");
	if (rc == 0 &&
		pr_time_parse(text + strspn(text, " \t\n\r\v\f"), s->now, &time, err) < 0)
		rc = pr_error_prefix(err, "%s in the filter", after ? "after" : "before");
	if (rc == 0 && after && time > *s->since)
		*s->since = time;
	if (rc == 0 && !after && time < *s->until)
		*s->until = time;
	free(text);
	return rc;
}

static int
take_term(struct scan *s, size_t first, size_t *end, struct pr_error *err)
{
	*end = term_end(s, first);
	if (!joined_by_and(s, first, *end))
		return pr_error_set(err,
			"'%.*s' can only be joined to the whole filter by 'and', outside "
			"of "
			"parentheses: --since and --until say the same",
			(int)s->tokens[first].len, s->text + s->tokens[first].at);
	return narrow(s, first, *end, err);
}

/* Takes all first: what is found out of one term must not hide the others. */
static int
take_all(struct scan *s, struct pr_error *err)
{
	size_t end;

	for (size_t i = 0; i < s->count; i++)
		if (begins_term(s, i) && take_term(s, i, &end, err) < 0)
			return -1;
	for (size_t i = 0; i < s->count; i++) {
		if (!begins_term(s, i))
			continue;
		end = term_end(s, i);
		if (i > 0 && s->text[s->tokens[i - 1].at] != ' ')
			blank(s, i - 1, end);
		else
			blank(s, i, end < s->count ? end + 1 : end);
	}
	return 0;
}

static void
clear_if_empty(char *text)
{
	size_t at = 0;

	while (is_space(text[at]))
		at++;
	if (!text[at])
		text[0] = 0;
}

int
time_terms_take(
	char *filter, int64_t now, int64_t *since, int64_t *until, struct pr_error *err)
{
	struct scan s = {.text = filter, .now = now, .since = since, .until = until};
	int rc = tokenize(&s, err);

	if (rc == 0)
		rc = take_all(&s, err);
	free(s.tokens);
	if (rc == 0)
		clear_if_empty(filter);
	return rc;
}
