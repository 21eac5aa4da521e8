/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_FILTER_SPLIT_H
#define PRI_INDEXER_FILTER_SPLIT_H

#include <stddef.h>

/*
 * A list of watched addresses makes a filter of hundreds of terms, `host a or host b or ...`, over which
 * libpcap takes time that grows with the square of their number (500: 20 s). Such a filter accepts what
 * any part of it accepts. Parts are cut only where nothing of the grammar reaches across: at an `or` of
 * the outermost level, all of whose operators are `or`, before a term with qualifiers of its own, and
 * never in a filter with a word that shifts the offsets of all that follows it (vlan, mpls, ...). A list
 * under qualifiers that are said once, `host (a or b or ...)`, is spread for it (filter_spread.h). Pure.
 */
#define PRI_FILTER_PART 16 /* terms in a part, at most */
#define PRI_FILTER_SPLIT_MIN 48 /* with fewer terms a filter stays whole */

/*
 * 0: it stays whole. Else how many parts there are, and *parts, in one piece of memory that goes with
 * free(): the strings lie in it too. No memory: 0.
 */
size_t pri_filter_split(const char *text, char ***parts);

#endif
