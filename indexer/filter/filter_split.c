/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "indexer/filter/filter.h"

/* The words of a filter, for who looks at its text before libpcap does. */
struct pri_word {
	const char *at;
	size_t len;
};

static inline bool
pri_word_is(const struct pri_word *w, const char *text)
{
	return w->len == strlen(text) && !memcmp(w->at, text, w->len);
}

static inline bool
pri_word_among(const struct pri_word *w, const char *const *list, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (pri_word_is(w, list[i]))
			return true;
	return false;
}

/* The next word, or parenthesis; len 0: the end. Others of the grammar's signs make words of their own. */
static inline struct pri_word
pri_word_next(const char **at)
{
	struct pri_word w;

	*at += strspn(*at, " \t\r\n");
	w.at = *at;
	w.len = strcspn(*at, " \t\r\n()");
	if (w.len == 0 && **at)
		w.len = 1;
	*at += w.len;
	return w;
}

/* ---- a list under qualifiers that are said once ---- */

#define QUALIFIERS 4 /* "ip src host" and one more */

static bool
qualifier(const struct pri_word *w)
{
	static const char *const list[] = {"src", "dst", "host", "net", "port", "ip", "ip6",
		"arp", "rarp", "tcp", "udp", "sctp", "ether"};

	return pri_word_among(w, list, sizeof(list) / sizeof(*list));
}

/* An address of any kind, a network, a port: no name, and nothing that is a word of the grammar. */
static bool
number(const struct pri_word *w)
{
	return w->len > 0 && strspn(w->at, "0123456789abcdefABCDEF.:/") >= w->len &&
	       ((w->at[0] >= '0' && w->at[0] <= '9') || memchr(w->at, ':', w->len));
}

struct spread {
	const char *at; /* of the text */
	struct pri_word now;
	struct pri_word head[QUALIFIERS];
	size_t heads, items;
	FILE *out;
};

static bool
take(struct spread *s, const char *word)
{
	if (!pri_word_is(&s->now, word))
		return false;
	s->now = pri_word_next(&s->at);
	return true;
}

static bool
item(struct spread *s)
{
	if (!number(&s->now) || !s->heads)
		return false;
	fputs(s->items++ ? " or " : "", s->out);
	for (size_t i = 0; i < s->heads; i++)
		fprintf(s->out, "%.*s ", (int)s->head[i].len, s->head[i].at);
	fprintf(s->out, "%.*s", (int)s->now.len, s->now.at);
	s->now = pri_word_next(&s->at);
	return true;
}

/* [qualifiers] number, or qualifiers ( number or number ... ) */
static bool
term(struct spread *s)
{
	if (qualifier(&s->now))
		s->heads = 0;
	for (; qualifier(&s->now); s->now = pri_word_next(&s->at)) {
		if (s->heads == QUALIFIERS)
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
	s.now = pri_word_next(&s.at);
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

/* Nothing but names, addresses, numbers: what holds operators may hold an `or` as well. */
static bool
plain(const struct pri_word *w)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789.:/_-";

	return pri_word_is(w, "(") || pri_word_is(w, ")") ||
	       strspn(w->at, allowed) >= w->len;
}

static bool
shifts(const struct pri_word *w)
{
	static const char *const list[] = {
		"vlan", "mpls", "pppoed", "pppoes", "geneve", "vxlan"};

	return pri_word_among(w, list, sizeof(list) / sizeof(*list));
}

/* A term that begins with one of these takes no qualifier from the one before. */
static bool
begins_term(const char *at)
{
	static const char *const list[] = {"host", "net", "port", "portrange", "src", "dst",
		"ip", "ip6", "arp", "rarp", "tcp", "udp", "sctp", "icmp", "icmp6", "ether"};
	struct pri_word w;

	do
		w = pri_word_next(&at);
	while (pri_word_is(&w, "(") || pri_word_is(&w, "not"));
	return pri_word_among(&w, list, sizeof(list) / sizeof(*list));
}

/* How many `or`s it may be cut at; 0 also when at none. With cut: where each begins and ends. */
static size_t
find_cuts(const char *text, struct pri_word *cuts)
{
	const char *at = text;
	size_t count = 0;
	int depth = 0;

	for (struct pri_word w = pri_word_next(&at); w.len; w = pri_word_next(&at)) {
		if (!plain(&w) || shifts(&w))
			return 0;
		depth += pri_word_is(&w, "(") - pri_word_is(&w, ")");
		if (depth < 0 || (depth == 0 && pri_word_is(&w, "and")))
			return 0;
		if (depth > 0 || !pri_word_is(&w, "or") || !begins_term(at))
			continue;
		if (cuts)
			cuts[count] = w;
		count++;
	}
	return depth == 0 ? count : 0;
}

static size_t
cut(const char *text, char ***parts)
{
	size_t count = find_cuts(text, NULL), made = 0, len = strlen(text) + 1;
	struct pri_word *cuts;
	char **list, *copy;

	if (count < PRI_FILTER_SPLIT_MIN)
		return 0;
	cuts = calloc(count, sizeof(*cuts));
	list = malloc((count / PRI_FILTER_PART + 1) * sizeof(*list) + len);
	if (!cuts || !list) {
		free(cuts);
		free(list);
		return 0;
	}
	find_cuts(text, cuts);
	copy = memcpy(list + count / PRI_FILTER_PART + 1, text, len);
	list[made++] = copy;
	for (size_t i = PRI_FILTER_PART - 1; i < count; i += PRI_FILTER_PART) {
		copy[cuts[i].at - text] = 0;
		list[made++] = copy + (cuts[i].at - text) + cuts[i].len;
	}
	free(cuts);
	*parts = list;
	return made;
}

size_t
pri_filter_split(const char *text, char ***parts)
{
	size_t count = cut(text, parts);
	char *spread = count ? NULL : pri_filter_spread(text);

	if (spread)
		count = cut(spread, parts);
	free(spread);
	return count;
}
