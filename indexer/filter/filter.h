/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "proto/wire/bpf.h"

/*
 * Compiles filters in pcap-filter syntax on the user's machine, so names are resolved
 * there. The only part of the indexer that uses libpcap. Not for the capture path:
 * compiling a filter may take seconds.
 */

/*
 * Compiles a filter. linktype: as in pcap files. An empty or blank text gives a program
 * that matches everything. NULL: err has libpcap's message. The text may have terms `after
 * @SECONDS` and `before @SECONDS` anywhere.
 */
struct pr_bpf *pri_filter_compile(
	uint16_t linktype, const char *text, struct pr_error *err);

/*
 * Link types where none is known: Ethernet, 802.11 with radiotap, Linux cooked, raw IP, PPP, 802.11, ATM,
 * loopback, and link types that some filters need: `on eth0` pflog, `vpi 0` SunATM, `fisu`
 * MTP2, `ifindex 1` Linux cooked v2; OpenBSD's loopback.
 */
enum { PRI_LINKTYPES = 13 };
extern const uint16_t pri_linktypes[PRI_LINKTYPES];

/*
 * Compiles a filter for several link types. tagged: packets whose rest matches behind one or two VLAN tags match too,
 * where the link type has VLANs. out gets programs for those for which the text
 * is valid (`wlan addr1` is not valid for Ethernet). -1 with libpcap's message for the
 * first type: valid for none. -1 also if the text is valid for a type but too long to
 * compile for it: packets of that type would be missing from the answer.
 */
int pri_filter_compile_all(const uint16_t *linktypes, size_t count, const char *text,
	bool tagged, struct pr_bpf_set *out, struct pr_error *err);

/*
 * 0: the text is valid for at least one of the link types. -1: err has libpcap's message
 * for the first, and which word it does not take; so has err of pri_filter_compile_all.
 */
int pri_filter_check(
	const uint16_t *linktypes, size_t count, const char *text, struct pr_error *err);

/*
 * A list of watched addresses is a filter of hundreds of terms, `host a or host b or ...`.
 * The time that libpcap takes grows with the square of their number (500: 20 s). Such a
 * filter accepts what any of its parts accepts, so it is cut into parts. A cut is made only
 * where no grammar rule reaches across it: at an `or` of the outermost level, if all
 * operators of that level are `or`, and before a term with its own qualifiers. A filter
 * with a word that shifts the offsets of all that follows (vlan, mpls, ...) is never cut. A
 * list after shared qualifiers, `host (a or b or ...)`, is first expanded
 * (pri_filter_spread). No I/O.
 */
#define PRI_FILTER_PART 16 /* terms in a part, at most */
#define PRI_FILTER_SPLIT_MIN 48 /* with fewer terms a filter stays whole */

/*
 * Returns the parts, one string after the other, and their number; the caller frees them.
 * NULL: the filter is not cut, or no memory.
 */
char *pri_filter_split(const char *text, size_t *count);

/*
 * Expands a filter that is only a list of numbers (addresses, networks, ports) after shared
 * qualifiers, such as `src host (a or b or ...)` or `tcp port 80 or 443`: writes the
 * qualifiers before each number. This is what pcap-filter(7) defines: the most recent
 * qualifiers apply. The result can be cut. The caller frees it. NULL: not such a list, or
 * no memory. No I/O.
 */
char *pri_filter_spread(const char *text);
