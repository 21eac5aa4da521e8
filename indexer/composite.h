/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_INDEXER_COMPOSITE_H
#define PR_INDEXER_COMPOSITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "indexer/keys.h"
#include "proto/base/error.h"
#include "proto/base/options.h"

/*
 * Composite keys as configured: "src+dport" is a key of a packet's source address together with its
 * destination port, so that a segment which has both, but not in one packet, is left out. A composite
 * is known by the mask of its parts. Records of level 1 say which they have, so that those
 * of before a change stay good; level 2 has none. Pure.
 *
 * The planner does not know what records have: of all parts that a filter fixes it makes one key of kind
 * PARTS, of which whoever asks a record takes the composites that the record has.
 */
enum pr_part {
	PR_PART_SRC = 1 << 0,
	PR_PART_DST = 1 << 1,
	PR_PART_SPORT = 1 << 2,
	PR_PART_DPORT = 1 << 3,
	PR_PART_PROTO = 1 << 4,
	PR_PART_VLAN = 1 << 5,
};
#define PR_PARTS 6
#define PR_COMPOSITES_MAX 4

/* Masks; 0: no more. As bytes in records of level 1. */
struct pr_composites {
	uint8_t masks[PR_COMPOSITES_MAX];
};

/* "src+dport", in any order, each part once, two at least. */
int pr_composite_parse(const char *text, uint8_t *mask, struct pr_error *err);
/* Of options: at most PR_COMPOSITES_MAX, separated by commas or in several items. */
int pr_composites_parse(
	const struct pr_string_list *list, struct pr_composites *out, struct pr_error *err);

/* A key of kind PARTS of those keys that are there (parts[i] is for bit i; or NULL). */
struct pr_key pr_key_parts(const struct pr_key *const parts[PR_PARTS]);
/* And that the port of a side (0: source, 1: destination) may as well be one of so many above it. */
void pr_key_parts_range(struct pr_key *parts, unsigned side, uint8_t more);
bool pr_key_parts_ranged(const struct pr_key *parts);
/* The composite of these parts; false: the key of kind PARTS has not all of them. */
bool pr_key_composite(const struct pr_key *parts, uint8_t mask, struct pr_key *out);

/* How many ports the parts leave to a side: 1, more if it is a range; 0: it may be any, or none. */
unsigned pr_key_parts_ports(const struct pr_key *parts, unsigned side);
/*
 * The SERVICE and SOCKET keys, and SPORT or DPORT with the protocol, that a packet with these parts has if the
 * port of this side is this one of them. Returns how many.
 */
#define PR_PORT_KEYS_MAX 3
size_t pr_key_port_keys(const struct pr_key *parts, unsigned side, unsigned which,
	struct pr_key out[PR_PORT_KEYS_MAX]);

#define PR_COMPOSITE_KEYS (2 * PR_KEYS_DEPTH) /* of one packet: protocols times tags */
size_t pr_composite_keys(
	const struct pr_fields *fields, uint8_t mask, struct pr_key out[PR_COMPOSITE_KEYS]);

#endif
