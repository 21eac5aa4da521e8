/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_FILTER_H
#define PRI_INDEXER_FILTER_H

#include <stddef.h>
#include <stdint.h>

#include "indexer/filter/bpf.h"
#include "proto/base/error.h"

/*
 * Compiles filters in pcap-filter syntax, where the user sits: names are resolved here. The only part of the
 * indexer that uses libpcap. Not for the capture path: to compile a filter may take seconds.
 */

/*
 * linktype as in pcap files. An empty text, or one of blanks: a
 * program that matches everything. NULL and err: what libpcap says of the text. Terms `after @SECONDS`
 * and `before @SECONDS` may stand in it anywhere.
 */
struct pri_bpf *pri_filter_compile(
	uint16_t linktype, const char *text, struct pr_error *err);

/*
 * For several link types: out gets those that the text makes sense for (`wlan addr1` does on one
 * and not on Ethernet). -1 and libpcap's word on the first when it makes sense for none; -1 also when it
 * makes sense for one of them, and is too long for it: its packets would be missing from the answer.
 */
int pri_filter_compile_all(const uint16_t *linktypes, size_t count, const char *text,
	struct pri_bpf_set *out, struct pr_error *err);

/* 0: the text makes sense for one of the link types. -1: err has libpcap's word on the first. */
int pri_filter_check(
	const uint16_t *linktypes, size_t count, const char *text, struct pr_error *err);

/* "EN10MB" or "147". buf of at least PRI_LINKTYPE_TEXT bytes; returns buf. */
#define PRI_LINKTYPE_TEXT 64
char *pri_linktype_name(uint16_t linktype, char *buf, size_t size);

/*
 * A list of watched addresses makes a filter of hundreds of terms, `host a or host b or ...`, over which
 * libpcap takes time that grows with the square of their number (500: 20 s). Such a filter accepts what
 * any part of it accepts. Parts are cut only where nothing of the grammar reaches across: at an `or` of
 * the outermost level, all of whose operators are `or`, before a term with qualifiers of its own, and
 * never in a filter with a word that shifts the offsets of all that follows it (vlan, mpls, ...). A list
 * under qualifiers that are said once, `host (a or b or ...)`, is spread for it. Pure.
 */
#define PRI_FILTER_PART 16 /* terms in a part, at most */
#define PRI_FILTER_SPLIT_MIN 48 /* with fewer terms a filter stays whole */

/* The parts, one string behind the other, and how many; the caller's, free(). NULL: it stays whole, or no memory. */
char *pri_filter_split(const char *text, size_t *count);

/*
 * A filter that is only a list of numbers (addresses, networks, ports) under qualifiers that are said once,
 * `src host (a or b or ...)` or `tcp port 80 or 443`, with them said before each, as pcap-filter(7)
 * takes them: the most recent ones hold. Then it can be cut. The caller's, free();
 * NULL: it is no such list, or no memory. Pure.
 */
char *pri_filter_spread(const char *text);

#endif
