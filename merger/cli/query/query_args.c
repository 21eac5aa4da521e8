/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/query/ask.h"

#include <inttypes.h>

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
	bool after; /* after or before time */
	int64_t time; /* included */
	bool gone; /* removed: the time range has it */
};
struct time_tokens {
	struct time_token *items;
	size_t count;
};

static const char spaces[] = " \t\n\r\v\f";

static bool
is_word(const char *text, const struct time_token *t, const char *word)
{
	return t->kind == TOKEN_WORD && t->len == strlen(word) &&
	       !strncmp(text + t->at, word, t->len);
}

static struct time_token
token_at(const char *text, size_t at)
{
	const char *p = text + at;
	struct time_token t = {.at = at, .len = 1, .kind = TOKEN_WORD};
	int depth = 0;

	if (*p == '(')
		t.kind = TOKEN_OPEN;
	else if (*p == ')')
		t.kind = TOKEN_CLOSE;
	else if (*p == '!' && p[1] != '=')
		t.kind = TOKEN_NOT;
	else if (!strncmp(p, "&&", 2) || !strncmp(p, "||", 2)) {
		t.kind = *p == '&' ? TOKEN_AND : TOKEN_OR;
		t.len = 2;
	}
	if (t.kind != TOKEN_WORD)
		return t;
	/* a word ends at a space, parenthesis, && or ||, but not within [], where these are arithmetic */
	for (t.len = 0; p[t.len]; t.len++) {
		const char *c = p + t.len;

		if (depth == 0 && (strchr(" \t\n\r\v\f()", *c) || !strncmp(c, "&&", 2) ||
					  !strncmp(c, "||", 2)))
			break;
		depth += (*c == '[') - (*c == ']');
	}
	if (is_word(text, &t, "and"))
		t.kind = TOKEN_AND;
	else if (is_word(text, &t, "or"))
		t.kind = TOKEN_OR;
	else if (is_word(text, &t, "not"))
		t.kind = TOKEN_NOT;
	return t;
}

/* All words from token t on are its time. */
static int
take_time(const char *text, struct time_token *t, const struct time_token *last,
	int64_t now, struct pr_error *err)
{
	size_t from = t->at + t->len, end = last->at + last->len;
	int rc = 0;

	t->after = text[t->at] == 'a';
	t->kind = TOKEN_TIME;
	t->len = end - t->at;
	const char *word = t->after ? "after" : "before";
	if (last == t)
		return pr_error_set(err,
			"%s needs a time: 'after 3h ago', 'before 2026-11-21T00:40:00Z'",
			word);
	char *time = strndup(text + from, end - from);
	if (!time)
		return pr_error_set(err, "no memory for the filter");
	if (pr_time_parse(time + strspn(time, spaces), now, &t->time, err) < 0)
		rc = pr_error_prefix(err, "%s in the filter", word);
	free(time);
	return rc;
}

/* -1: err; a term without a time, or no memory. Free items in any case. */
static int
time_tokens_scan(
	const char *text, int64_t now, struct time_tokens *out, struct pr_error *err)
{
	size_t len = strlen(text), count = 0, end;
	struct time_token *all = calloc(len + 1, sizeof(*all));

	*out = (struct time_tokens){.items = all};
	if (!all)
		return pr_error_set(err, "no memory for the filter");
	for (size_t at = strspn(text, spaces); at < len; at += strspn(text + at, spaces)) {
		all[count] = token_at(text, at);
		at += all[count++].len;
	}
	/* a term of time becomes one token */
	for (size_t i = 0; i < count; i = end) {
		struct time_token *t = &all[i], *last = t;
		int before = out->count ? all[out->count - 1].kind : TOKEN_AND;

		end = i + 1;
		/* only where a term begins: after `host` or `port` the word is a name */
		if (before != TOKEN_WORD && before != TOKEN_CLOSE && before != TOKEN_TIME &&
			(is_word(text, t, "after") || is_word(text, t, "before"))) {
			while (end < count && all[end].kind == TOKEN_WORD)
				last = &all[end++];
			if (take_time(text, t, last, now, err) < 0)
				return -1;
		}
		all[out->count++] = *t;
	}
	return 0;
}

/* A range of time, both ends included. least > most: empty. */
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
	bool lost; /* the filter has a form that we do not understand */
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
negated(struct parser *p)
{
	struct hull h;
	bool odd = false;

	for (; kind(p) == TOKEN_NOT; p->at++)
		odd = !odd;
	if (kind(p) == TOKEN_TIME) {
		h = term(&p->items[p->at++]);
	} else if (kind(p) == TOKEN_OPEN) {
		p->at++;
		h = parse(p);
		p->lost |= kind(p) != TOKEN_CLOSE;
		p->at++;
		h = kind(p) == TOKEN_WORD ? other(p) : h;
	} else {
		h = other(p);
	}
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
		bool all = p->items[p->at++].kind == TOKEN_AND;

		more = negated(p);
		h = all ? (struct hull){both(h.yes, more.yes), either(h.no, more.no)}
			: (struct hull){either(h.yes, more.yes), both(h.no, more.no)};
	}
	p->depth--;
	return h;
}

/*
 * `and` and `or` bind equally, from left to right: true if the term must hold for the whole
 * filter. It must if `and` joins it on both sides, and no `or` of the outermost level
 * follows.
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

/* What is left, with its spaces. */
static char *
left_over(const char *filter, const struct time_tokens *s)
{
	char *text = NULL;
	size_t size, at = 0;
	FILE *to = open_memstream(&text, &size);
	bool any = false;

	for (size_t i = 0; to && i < s->count; i++) {
		const struct time_token *t = &s->items[i];
		uint64_t ns = t->time;

		fwrite(filter + at, 1, t->at - at, to);
		at = t->at + t->len;
		ns = t->time < 0 ? 0 - ns : ns;
		any |= !t->gone;
		if (!t->gone && t->kind == TOKEN_TIME)
			fprintf(to, "%s @%s%" PRIu64 ".%09" PRIu64,
				t->after ? "after" : "before", t->time < 0 ? "-" : "",
				ns / PR_NS_PER_S, ns % PR_NS_PER_S);
		else if (!t->gone)
			fwrite(filter + t->at, 1, t->len, to);
	}
	if (!to || fclose(to) != 0) {
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
	struct time_tokens s;
	char *text = NULL;

	if (time_tokens_scan(filter, now, &s, err) == 0) {
		struct parser p = {.items = s.items, .count = s.count};
		struct hull h = parse(&p);

		/* the times at which the filter can hold, if we understand it */
		if (!p.lost && p.at == p.count) {
			*since = PR_MAX(*since, h.yes.least);
			*until = PR_MIN(*until, h.yes.most);
		}
		for (size_t i = 0; i < s.count; i++) {
			struct time_token *t = &s.items[i];

			if (t->kind != TOKEN_TIME || !joined_by_and(&s, i))
				continue;
			if (t->after)
				*since = PR_MAX(*since, t->time);
			else
				*until = PR_MIN(*until, t->time);
			/* with the `and` before it, or behind it where that is another's */
			t->gone = true;
			if (i > 0 && !t[-1].gone)
				t[-1].gone = true;
			else if (i + 1 < s.count)
				t[1].gone = true;
		}
		text = left_over(filter, &s);
		if (!text)
			pr_error_set(err, "no memory for the filter");
	}
	free(s.items);
	return text;
}

/* ---- all options ---- */

int
query_args_take(struct query_args *a, int count, char **words, struct pr_error *err)
{
	char *said = NULL;
	size_t size;
	FILE *f = open_memstream(&said, &size);
	bool loopback;

	for (int i = 0; f && i < count; i++)
		fprintf(f, "%s%s", i ? " " : "", words[i]);
	if (f && fclose(f) == 0)
		a->filter = time_terms_take(said, pr_now_real(), &a->since, &a->until, err);
	else
		pr_error_set(err, "no memory for the filter");
	free(said);
	if (!a->filter)
		return -1;
	if (allow_check(&a->allow, err) < 0)
		return -1;
	if (a->write && !strncmp(a->write, "tcp-listen:", 11) &&
		pr_tcp_check(a->write + 11, &loopback, err) < 0)
		return -1;
	if (a->follow && a->since == PR_TIME_MIN)
		a->since = pr_now_real();
	return CLI_CHECK(err, {a->since > a->until, "--since is later than --until"},
		{a->volumes.count && a->merger.endpoint,
			"--volume and --merger do not go together"},
		{a->volumes.count && a->follow,
			"--follow needs a merger: use -m in place of --volume"},
		{a->files.count &&
				(a->volumes.count || a->merger.endpoint || a->nodes.count ||
					a->link || a->follow || a->strays),
			"--read does not go together with --volume, --merger, --node, "
			"--link, --follow or --strays"},
		{a->follow && a->related, "--follow and --related do not go together"},
		{a->follow && (a->explain || a->estimate),
			"--follow and --explain or --estimate do not go together"},
		{a->volumes.count && a->nodes.count,
			"--volume and --node do not go together"},
		{a->json && a->keyvalue, "--json and --keyvalue do not go together"});
}
