/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_COMPOSITE_H
#define PRI_INDEXER_COMPOSITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "indexer/index/index_key.h"
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
enum pri_part {
	PRI_PART_SRC = 1 << 0,
	PRI_PART_DST = 1 << 1,
	PRI_PART_SPORT = 1 << 2,
	PRI_PART_DPORT = 1 << 3,
	PRI_PART_PROTO = 1 << 4,
	PRI_PART_VLAN = 1 << 5,
};
#define PRI_PARTS 6
#define PRI_COMPOSITES_MAX 4

/* Masks; 0: no more. As bytes in records of level 1. */
struct pri_composites {
	uint8_t masks[PRI_COMPOSITES_MAX];
};

/* "src+dport", in any order, each part once, two at least. */
int pri_composite_parse(const char *text, uint8_t *mask, struct pr_error *err);
/* Of options: at most PRI_COMPOSITES_MAX, separated by commas or in several items. */
int pri_composites_parse(const struct pr_string_list *list, struct pri_composites *out,
	struct pr_error *err);

/* A key of kind PARTS of those keys that are there (parts[i] is for bit i; or NULL). */
struct pri_key pri_key_parts(const struct pri_key *const parts[PRI_PARTS]);
/* And that the port of a side (0: source, 1: destination) may as well be one of so many above it. */
void pri_key_parts_range(struct pri_key *parts, unsigned side, uint8_t more);
bool pri_key_parts_ranged(const struct pri_key *parts);
/* The composite of these parts; false: the key of kind PARTS has not all of them. */
bool pri_key_composite(const struct pri_key *parts, uint8_t mask, struct pri_key *out);

/* How many ports the parts leave to a side: 1, more if it is a range; 0: it may be any, or none. */
unsigned pri_key_parts_ports(const struct pri_key *parts, unsigned side);
/*
 * The SERVICE and SOCKET keys, and SPORT or DPORT with the protocol, that a packet with these parts has if the
 * port of this side is this one of them. Returns how many.
 */
#define PRI_PORT_KEYS_MAX 3
size_t pri_key_port_keys(const struct pri_key *parts, unsigned side, unsigned which,
	struct pri_key out[PRI_PORT_KEYS_MAX]);

#define PRI_COMPOSITE_KEYS (2 * PRI_KEYS_DEPTH) /* of one packet: protocols times tags */
size_t pri_composite_keys(const struct pri_packet_fields *fields, uint8_t mask,
	struct pri_key out[PRI_COMPOSITE_KEYS]);

#endif
