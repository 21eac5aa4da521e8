/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/filter/filter_spread.h"

#include <stdio.h>
#include <stdlib.h>

#include "indexer/filter/filter_words.h"

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
