/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/query/time_tokens.h"
#include "proto/base/clock.h"

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

void
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
