/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/query/time_tokens.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/clock.h"

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

static struct time_token
token_at(const char *text, size_t at)
{
	const char *p = text + at;
	struct time_token t = {.at = at, .len = 1, .kind = TOKEN_WORD};

	if (*p == '(')
		t.kind = TOKEN_OPEN;
	else if (*p == ')')
		t.kind = TOKEN_CLOSE;
	else if (*p == '!' && p[1] != '=')
		t.kind = TOKEN_NOT;
	else if (!strncmp(p, "&&", 2) || !strncmp(p, "||", 2)) {
		t.kind = *p == '&' ? TOKEN_AND : TOKEN_OR;
		t.len = 2;
	} else {
		t.len = word_len(p);
	}
	if (t.kind == TOKEN_WORD && t.len == 3 && !strncmp(p, "and", 3))
		t.kind = TOKEN_AND;
	if (t.kind == TOKEN_WORD && t.len == 2 && !strncmp(p, "or", 2))
		t.kind = TOKEN_OR;
	if (t.kind == TOKEN_WORD && t.len == 3 && !strncmp(p, "not", 3))
		t.kind = TOKEN_NOT;
	return t;
}

/* ---- terms ---- */

static bool
is_word(const char *text, const struct time_token *t, const char *word)
{
	return t->kind == TOKEN_WORD && t->len == strlen(word) &&
	       !strncmp(text + t->at, word, t->len);
}

/* Only where a term begins: behind `host` or `port` it is somebody's name. */
static bool
begins_term(const char *text, const struct time_tokens *s, size_t i)
{
	int before = i ? (int)s->items[i - 1].kind : TOKEN_AND;

	return before != TOKEN_WORD && before != TOKEN_CLOSE && before != TOKEN_TIME &&
	       (is_word(text, &s->items[i], "after") ||
		       is_word(text, &s->items[i], "before"));
}

/* All words from token t on are its time. */
static int
take_time(const char *text, struct time_token *t, const struct time_token *last,
	int64_t now, struct pr_error *err)
{
	size_t from = t->at + t->len;
	char *time = strndup(text + from, last->at + last->len - from);
	int rc = time ? 0 : pr_error_set(err, "no memory for the filter");

	t->after = text[t->at] == 'a';
	if (rc == 0 && last == t)
		rc = pr_error_set(err,
			"%s what time? 'after 3h ago', 'before "
			"2026-11-21T00:40:00Z'",
			t->after ? "after" : "before");
	if (rc == 0 &&
		pr_time_parse(time + strspn(time, " \t\n\r\v\f"), now, &t->time, err) < 0)
		rc = pr_error_prefix(
			err, "%s in the filter", t->after ? "after" : "before");
	free(time);
	t->kind = TOKEN_TIME;
	t->len = last->at + last->len - t->at;
	return rc;
}

static int
take_terms(const char *text, int64_t now, struct time_tokens *s, struct pr_error *err)
{
	size_t kept = 0, end;

	for (size_t i = 0; i < s->count; i = end) {
		struct time_token t = s->items[i];
		struct time_token *last = &s->items[i];

		end = i + 1;
		if (t.kind == TOKEN_WORD && begins_term(text, s, i)) {
			while (end < s->count && s->items[end].kind == TOKEN_WORD)
				last = &s->items[end++];
			if (take_time(text, &s->items[i], last, now, err) < 0)
				return -1;
			t = s->items[i];
		}
		s->items[kept++] = t;
	}
	s->count = kept;
	return 0;
}

int
time_tokens_scan(
	const char *text, int64_t now, struct time_tokens *out, struct pr_error *err)
{
	size_t len = strlen(text);

	*out = (struct time_tokens){.items = calloc(len + 1, sizeof(*out->items))};
	if (!out->items)
		return pr_error_set(err, "no memory for the filter");
	for (size_t at = 0; at < len;) {
		if (is_space(text[at])) {
			at++;
			continue;
		}
		out->items[out->count] = token_at(text, at);
		at += out->items[out->count++].len;
	}
	return take_terms(text, now, out, err);
}
