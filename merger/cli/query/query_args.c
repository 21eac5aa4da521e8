/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/query/query_args.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/clock.h"
#include "proto/base/tcp.h"

/* A word of a filter, a parenthesis, an operator, or a whole term of time. */
struct time_token {
	size_t at, len; /* in the text */
	enum {
		TOKEN_WORD,
		TOKEN_AND,
		TOKEN_OR,
		TOKEN_NOT,
		TOKEN_OPEN,
		TOKEN_CLOSE,
		TOKEN_TIME
	} kind;
	bool after; /* or before, */
	int64_t time; /* which is included */
};
struct time_tokens {
	struct time_token *items;
	size_t count;
};

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

/* -1 err: a term without a time, no memory. Free items in any case. */
static int
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

/* Both included; least above most: never. */
struct span {
	int64_t least, most;
};

/* When a part of the filter can hold, and when it can fail to. */
struct hull {
	struct span yes, no;
};

struct parser {
	const struct time_token *items;
	size_t count, at;
	unsigned depth;
	bool lost; /* this is no filter that we know */
};

#define DEPTH_MAX 100

static const struct span always = {PR_TIME_MIN, PR_TIME_MAX};

static struct span
both(struct span a, struct span b)
{
	return (struct span){
		a.least > b.least ? a.least : b.least, a.most < b.most ? a.most : b.most};
}

static struct span
either(struct span a, struct span b)
{
	if (a.least > a.most || b.least > b.most)
		return a.least > a.most ? b : a;
	return (struct span){
		a.least < b.least ? a.least : b.least, a.most > b.most ? a.most : b.most};
}

static struct hull parse(struct parser *p);

static struct hull
term(const struct time_token *t)
{
	const struct span never = {PR_TIME_MAX, PR_TIME_MIN};
	struct hull h = {.yes = always, .no = never};

	if (t->after) {
		h.yes.least = t->time;
		if (t->time > PR_TIME_MIN)
			h.no = (struct span){PR_TIME_MIN, t->time - 1};
	} else {
		h.yes.most = t->time;
		if (t->time < PR_TIME_MAX)
			h.no = (struct span){t->time + 1, PR_TIME_MAX};
	}
	return h;
}

static int
kind(const struct parser *p)
{
	return p->at < p->count ? (int)p->items[p->at].kind : -1;
}

/* What is no time: words, and what stands in parentheses between them, as in arithmetic. */
static struct hull
other(struct parser *p)
{
	int depth = 0;

	for (; kind(p) == TOKEN_WORD || kind(p) == TOKEN_OPEN ||
		(depth > 0 && kind(p) >= 0);
		p->at++)
		depth += (kind(p) == TOKEN_OPEN) - (kind(p) == TOKEN_CLOSE);
	return (struct hull){always, always};
}

static struct hull
group(struct parser *p)
{
	struct hull h;

	p->at++;
	h = parse(p);
	p->lost |= kind(p) != TOKEN_CLOSE;
	p->at++;
	return kind(p) == TOKEN_WORD ? other(p) : h;
}

static struct hull
negated(struct parser *p)
{
	struct hull h;
	bool odd = false;

	for (; kind(p) == TOKEN_NOT; p->at++)
		odd = !odd;
	if (kind(p) == TOKEN_TIME)
		h = term(&p->items[p->at++]);
	else if (kind(p) == TOKEN_OPEN)
		h = group(p);
	else
		h = other(p);
	return odd ? (struct hull){h.no, h.yes} : h;
}

/* `and` and `or` bind alike, from left to right. */
static struct hull
parse(struct parser *p)
{
	struct hull h = {always, always}, more;

	if (++p->depth > DEPTH_MAX) {
		p->lost = true;
		p->at = p->count;
		return h;
	}
	h = negated(p);
	while (kind(p) == TOKEN_AND || kind(p) == TOKEN_OR) {
		bool and = kind(p) == TOKEN_AND;

		p->at++;
		more = negated(p);
		h = and? (struct hull){both(h.yes, more.yes), either(h.no, more.no)}
		       : (struct hull){either(h.yes, more.yes), both(h.no, more.no)};
	}
	p->depth--;
	return h;
}

/*
 * When can the filter hold at all? Narrows *since and *until to that; leaves them alone where the
 * filter is none that it understands.
 */
static void
time_hull_narrow(const struct time_tokens *tokens, int64_t *since, int64_t *until)
{
	struct parser p = {.items = tokens->items, .count = tokens->count};
	struct hull h = parse(&p);

	if (p.lost || p.at != p.count)
		return;
	if (h.yes.least > *since)
		*since = h.yes.least;
	if (h.yes.most < *until)
		*until = h.yes.most;
}

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

/* ---- all options ---- */

static char *
join(int count, char **words)
{
	size_t len = 1;
	char *text;

	for (int i = 0; i < count; i++)
		len += strlen(words[i]) + 1;
	text = calloc(1, len);
	for (int i = 0; text && i < count; i++) {
		if (i)
			strcat(text, " ");
		strcat(text, words[i]);
	}
	return text;
}

int
query_args_take(struct query_args *a, int count, char **words, struct pr_error *err)
{
	char *said = join(count, words);
	bool loopback;

	if (!said)
		return pr_error_set(err, "no memory for the filter");
	a->filter = time_terms_take(said, pr_now_real(), &a->since, &a->until, err);
	free(said);
	if (!a->filter)
		return -1;
	if (a->write && !strncmp(a->write, "tcp-listen:", 11) &&
		pr_tcp_check(a->write + 11, &loopback, err) < 0)
		return -1;
	if (a->follow && a->since == PR_TIME_MIN)
		a->since = pr_now_real();
	if (a->since > a->until)
		return pr_error_set(err, "--since is later than --until");
	if (a->volumes.count && a->merger.endpoint)
		return pr_error_set(err, "--volume and --merger do not go together");
	if (a->volumes.count && a->follow)
		return pr_error_set(
			err, "--follow needs a merger: use -m in place of --volume");
	if (a->follow && a->related)
		return pr_error_set(err, "--follow and --related do not go together");
	if (a->follow && a->explain)
		return pr_error_set(err, "--follow and --explain do not go together");
	if (a->volumes.count && a->nodes.count)
		return pr_error_set(err, "--volume and --node do not go together");
	if (a->json && a->keyvalue)
		return pr_error_set(err, "--json and --keyvalue do not go together");
	return 0;
}

enum render_form
query_form(const struct query_args *a)
{
	return cli_form(a->json, a->keyvalue);
}
