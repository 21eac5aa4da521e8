/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_FILTER_WORDS_H
#define PRI_INDEXER_FILTER_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

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

#endif
