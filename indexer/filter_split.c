/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/filter_split.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

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

/* The next word, or parenthesis; len 0: the end. Others of the grammar's signs make words of their own. */
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

/* Nothing but names, addresses, numbers: what holds operators may hold an `or` as well. */
static bool
plain(const struct word *w)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789.:/_-";

	return is(w, "(") || is(w, ")") || strspn(w->at, allowed) >= w->len;
}

static bool
shifts(const struct word *w)
{
	static const char *const list[] = {
		"vlan", "mpls", "pppoed", "pppoes", "geneve", "vxlan"};

	return among(w, list, sizeof(list) / sizeof(*list));
}

/* A term that begins with one of these takes no qualifier from the one before. */
static bool
begins_term(const char *at)
{
	static const char *const list[] = {"host", "net", "port", "portrange", "src", "dst",
		"ip", "ip6", "arp", "rarp", "tcp", "udp", "sctp", "icmp", "icmp6", "ether"};
	struct word w;

	do
		w = next_word(&at);
	while (is(&w, "(") || is(&w, "not"));
	return among(&w, list, sizeof(list) / sizeof(*list));
}

/* How many `or`s it may be cut at; 0 also when at none. With cut: where each begins and ends. */
static size_t
find_cuts(const char *text, struct word *cuts)
{
	const char *at = text;
	size_t count = 0;
	int depth = 0;

	for (struct word w = next_word(&at); w.len; w = next_word(&at)) {
		if (!plain(&w) || shifts(&w))
			return 0;
		depth += is(&w, "(") - is(&w, ")");
		if (depth < 0 || (depth == 0 && is(&w, "and")))
			return 0;
		if (depth > 0 || !is(&w, "or") || !begins_term(at))
			continue;
		if (cuts)
			cuts[count] = w;
		count++;
	}
	return depth == 0 ? count : 0;
}

size_t
pr_filter_split(const char *text, char ***parts)
{
	size_t count = find_cuts(text, NULL), made = 0, len = strlen(text) + 1;
	struct word *cuts;
	char **list, *copy;

	if (count < PR_FILTER_SPLIT_MIN)
		return 0;
	cuts = calloc(count, sizeof(*cuts));
	list = malloc((count / PR_FILTER_PART + 1) * sizeof(*list) + len);
	if (!cuts || !list) {
		free(cuts);
		free(list);
		return 0;
	}
	find_cuts(text, cuts);
	copy = memcpy(list + count / PR_FILTER_PART + 1, text, len);
	list[made++] = copy;
	for (size_t i = PR_FILTER_PART - 1; i < count; i += PR_FILTER_PART) {
		copy[cuts[i].at - text] = 0;
		list[made++] = copy + (cuts[i].at - text) + cuts[i].len;
	}
	free(cuts);
	*parts = list;
	return made;
}
