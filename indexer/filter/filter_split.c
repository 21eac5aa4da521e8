/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "indexer/filter/filter.h"
#include "proto/base/array.h"

/* Splits a filter's text into words, before libpcap parses it. */
struct word {
	const char *at;
	size_t len;
};

static bool
is(const struct word *w, const char *text)
{
	return w->len == strlen(text) && !memcmp(w->at, text, w->len);
}

static bool
among(const struct word *w, const char *const *list, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (is(w, list[i]))
			return true;
	return false;
}

/*
 * Returns the next word or parenthesis; len 0: the end. Other signs of the grammar are
 * words of their own.
 */
static struct word
next_word(const char **at)
{
	struct word w;

	*at += strspn(*at, " \t\r\n");
	w.at = *at;
	w.len = strcspn(*at, " \t\r\n()");
	if (w.len == 0 && **at)
		w.len = 1;
	*at += w.len;
	return w;
}

/*
 * A term that begins with one of these words takes no qualifier from the term before it.
 * The first QUALIFIERS of them may stand before a list.
 */
static const char *const beginnings[] = {"src", "dst", "host", "net", "port", "ip", "ip6",
	"arp", "rarp", "tcp", "udp", "sctp", "ether", "portrange", "icmp", "icmp6"};
#define BEGINNINGS PR_COUNT(beginnings)
#define QUALIFIERS (BEGINNINGS - 3)

/* ---- a list under qualifiers that are said once ---- */

#define HEAD_MAX 4 /* "ip src host" and one more */

struct spread {
	const char *at; /* of the text */
	struct word now;
	struct word head[HEAD_MAX];
	size_t heads, items;
	FILE *out;
};

static bool
take(struct spread *s, const char *word)
{
	if (!is(&s->now, word))
		return false;
	s->now = next_word(&s->at);
	return true;
}

/*
 * True for an address, a network or a port as numbers: not a name or a word of the grammar.
 */
static bool
item(struct spread *s)
{
	const struct word *w = &s->now;

	if (!s->heads || !w->len || strspn(w->at, "0123456789abcdefABCDEF.:/") < w->len ||
		((w->at[0] < '0' || w->at[0] > '9') && !memchr(w->at, ':', w->len)))
		return false;
	fputs(s->items++ ? " or " : "", s->out);
	for (size_t i = 0; i < s->heads; i++)
		fprintf(s->out, "%.*s ", (int)s->head[i].len, s->head[i].at);
	fprintf(s->out, "%.*s", (int)w->len, w->at);
	s->now = next_word(&s->at);
	return true;
}

/* [qualifiers] number, or qualifiers ( number or number ... ) */
static bool
term(struct spread *s)
{
	if (among(&s->now, beginnings, QUALIFIERS))
		s->heads = 0;
	for (; among(&s->now, beginnings, QUALIFIERS); s->now = next_word(&s->at)) {
		if (s->heads == HEAD_MAX)
			return false;
		s->head[s->heads++] = s->now;
	}
	if (!take(s, "("))
		return item(s);
	do {
		if (!item(s))
			return false;
	} while (take(s, "or"));
	return take(s, ")");
}

char *
pri_filter_spread(const char *text)
{
	struct spread s = {.at = text};
	char *made = NULL;
	size_t size = 0;
	bool good;

	s.out = open_memstream(&made, &size);
	if (!s.out)
		return NULL;
	s.now = next_word(&s.at);
	do
		good = term(&s);
	while (good && take(&s, "or"));
	good = good && s.now.len == 0;
	if (fclose(s.out) != 0 || !good) {
		free(made);
		return NULL;
	}
	return made;
}

/* ---- cutting ---- */

static bool
begins_term(const char *at)
{
	struct word w;

	do
		w = next_word(&at);
	while (is(&w, "(") || is(&w, "not"));
	return among(&w, beginnings, BEGINNINGS);
}

static char *
cut(const char *text, size_t *count)
{
	static const char *const shifting[] = {
		"vlan", "mpls", "pppoed", "pppoes", "geneve", "vxlan"};
	/*
	 * names, addresses and numbers only: a term with operators may contain an `or`; in parentheses it may,
	 * and so have a time (filter.c)
	 */
	static const char within[] =
		"[]=abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
		"0123456789.:/_-";
	char *copy = strdup(text);
	const char *at = text;
	size_t cuts = 0;
	int depth = 0;
	bool good = copy != NULL;

	for (struct word w = next_word(&at); good && w.len; w = next_word(&at)) {
		int nested = is(&w, "(") - is(&w, ")");

		depth += nested;
		good = (nested || strspn(w.at, within + (depth > 0 ? 0 : 3)) >= w.len) &&
		       depth >= 0 && (depth > 0 || !is(&w, "and")) &&
		       !among(&w, shifting, PR_COUNT(shifting));
		if (depth == 0 && is(&w, "or") && begins_term(at) &&
			++cuts % PRI_FILTER_PART == 0)
			memcpy(copy + (w.at - text), "\0 ", 2);
	}
	*count = cuts / PRI_FILTER_PART + 1;
	if (good && depth == 0 && cuts >= PRI_FILTER_SPLIT_MIN)
		return copy;
	free(copy);
	return NULL;
}

char *
pri_filter_split(const char *text, size_t *count)
{
	char *parts = cut(text, count), *spread = parts ? NULL : pri_filter_spread(text);

	if (spread)
		parts = cut(spread, count);
	free(spread);
	return parts;
}
