/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_FILTER_SPREAD_H
#define PRI_INDEXER_FILTER_SPREAD_H

/*
 * A filter that is only a list of numbers (addresses, networks, ports) under qualifiers that are said once,
 * `src host (a or b or ...)` or `tcp port 80 or 443`, with them said before each, as pcap-filter(7)
 * takes them: the most recent ones hold. Then it can be cut (filter_split.h). The caller's, free();
 * NULL: it is no such list, or no memory. Pure.
 */
char *pri_filter_spread(const char *text);

#endif
