/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/filter/filter_split.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "indexer/filter/filter_spread.h"
#include "indexer/filter/filter_words.h"

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
