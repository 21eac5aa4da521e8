/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "proto/rpc/tally.h"
#include "proto/wire/source.h"

/*
 * The keys by which packets are counted for `rate` and `top`: something that packets have
 * in common, as a key in a tally. Keys are made of the fields that the index has
 * (index_key.h), so a group counts what its filter matches. Exception: addresses and ports
 * are also found after tags and labels. The numbers are in messages: never reuse one. No
 * I/O.
 */
enum pri_tally_key {
	PRI_TALLY_KEY_NONE,
	PRI_TALLY_KEY_TIME = 1, /* number of the interval (time / step), 8 bytes */
	PRI_TALLY_KEY_SRC = 2, /* addresses: 4 or 16 */
	PRI_TALLY_KEY_DST = 3,
	PRI_TALLY_KEY_HOST = 4, /* either address: up to two keys a packet */
	PRI_TALLY_KEY_PORT = 5, /* either */
	PRI_TALLY_KEY_SPORT = 6,
	PRI_TALLY_KEY_DPORT = 7,
	PRI_TALLY_KEY_PAIR = 8, /* of addresses, without direction */
	PRI_TALLY_KEY_FLOW = 9, /* protocol, addresses and ports, without direction */
	PRI_TALLY_KEY_PROTO = 10, /* of IP */
	PRI_TALLY_KEY_ETHERTYPE = 11, /* the innermost; 802.3: none */
	PRI_TALLY_KEY_VLAN = 12, /* the outermost tag */
	PRI_TALLY_KEY_MAC = 13, /* either */
	PRI_TALLY_KEY_LINK = 14, /* number */
};
#define PRI_TALLY_KEYS 15
#define PRI_TALLY_KEY_TIME_LEN 8

/*
 * The group's name: "src", "dst", ... NULL: no such group, or TIME, which has no name for
 * users.
 */
const char *pri_tally_key_name(enum pri_tally_key group);
int pri_tally_key_find(const char *name); /* -1: there is none */

/* Creates the tally for this spec. NULL: err, the spec is not valid. */
struct pr_tally *pri_tally_key_tally(const Packrack__TallySpec *spec, struct pr_error *err);
/* Counts a packet, or all packets of a sum beyond a cutoff (proto/wire/beyond.h). */
int pri_tally_key_count(struct pr_tally *tally, enum pri_tally_key group, int64_t step,
	const struct pr_packet *p, struct pr_error *err);

/* Intervals as keys; rounded down, also before 1970. */
int64_t pri_tally_key_interval(int64_t time, int64_t step);
void pri_tally_key_interval_key(int64_t interval, uint8_t out[PRI_TALLY_KEY_TIME_LEN]);
int64_t pri_tally_key_interval_of(const struct pr_tally_item *item);

/*
 * Prints a key for people, or as a filter that selects its packets ("host 192.0.2.1"; LINK:
 * "link 3", TIME: a number). False: not a key of this group; it is printed as bytes. buf
 * has PRI_TALLY_KEY_TEXT bytes.
 */
#define PRI_TALLY_KEY_TEXT 512
bool pri_tally_key_text(
	enum pri_tally_key group, const struct pr_tally_item *item, bool filter, char *buf);
/* "tcp"; NULL: of no common name. */
const char *pri_protocol_name(unsigned protocol);
