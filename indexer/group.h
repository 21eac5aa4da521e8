/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_INDEXER_GROUP_H
#define PR_INDEXER_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/error.h"
#include "proto/rpc/tally.h"
#include "proto/wire/source.h"

/*
 * By what packets are counted for `rate` and `top`: what a packet has in common with others, as a key in
 * a tally. Taken from the fields that the index knows (keys.h), so that what is counted for a group is
 * what its filter matches, but for tags and labels, behind which addresses and ports are looked for as well.
 * Numbers stand in messages: never reuse one. Pure.
 */
enum pr_group {
	PR_GROUP_NONE = 0,
	PR_GROUP_TIME = 1, /* which multiple of step it is in, 8 bytes */
	PR_GROUP_SRC = 2, /* addresses: 4 or 16 */
	PR_GROUP_DST = 3,
	PR_GROUP_HOST =
		4, /* either: up to two keys a packet; those below that say so, too */
	PR_GROUP_PORT = 5, /* either */
	PR_GROUP_SPORT = 6,
	PR_GROUP_DPORT = 7,
	PR_GROUP_PAIR = 8, /* of addresses, without direction */
	PR_GROUP_FLOW = 9, /* protocol, addresses and ports, without direction */
	PR_GROUP_PROTO = 10, /* of IP */
	PR_GROUP_ETHERTYPE = 11, /* the innermost; 802.3: none */
	PR_GROUP_VLAN = 12, /* the outermost tag */
	PR_GROUP_MAC = 13, /* either */
	PR_GROUP_LINK = 14, /* number */
};
#define PR_GROUPS 15
#define PR_GROUP_TIME_LEN 8

/* "src", "dst", ...; NULL: no such group, or TIME, which people do not name. */
const char *pr_group_name(enum pr_group group);
int pr_group_find(const char *name); /* -1: there is none */

/* Does it make sense? -1 err. */
int pr_group_check(const Packrack__TallySpec *spec, struct pr_error *err);
/* The tally for it; NULL err. */
struct pr_tally *pr_group_tally(const Packrack__TallySpec *spec, struct pr_error *err);
/* Counts a packet. */
int pr_group_count(struct pr_tally *tally, enum pr_group group, int64_t step,
	const struct pr_packet *p, struct pr_error *err);

/* Intervals as keys; rounded down, also before 1970. */
int64_t pr_group_interval(int64_t time, int64_t step);
void pr_group_interval_key(int64_t interval, uint8_t out[PR_GROUP_TIME_LEN]);
int64_t pr_group_interval_of(const struct pr_tally_item *item);

/*
 * A key as a filter that chooses its packets ("host 192.0.2.1"; LINK: "link 3", TIME: a number), and for
 * people to read. False: it is no key of this group; then as bytes. buf of PR_GROUP_TEXT.
 */
#define PR_GROUP_TEXT 512
bool pr_group_filter(enum pr_group group, const struct pr_tally_item *item, char *buf);
bool pr_group_text(enum pr_group group, const struct pr_tally_item *item, char *buf);

#endif
