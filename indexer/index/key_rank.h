/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_KEY_RANK_H
#define PRI_INDEXER_KEY_RANK_H

#include "indexer/index/composite.h"
#include "proto/wire/cursor.h"

/* Who pays for each key that is asked for asks first for those that few segments have. */
enum pri_key_rank {
	PRI_RANK_PAIRS,
	PRI_RANK_PARTS, /* addresses with ports */
	PRI_RANK_ADDRESSES,
	PRI_RANK_PORTS, /* prefixes, rarer types */
	PRI_RANK_TYPES, /* that as good as all traffic has */
	PRI_RANKS,
};

static inline bool
pri_key_is_common(const struct pri_key *key)
{
	uint16_t type;

	if (key->kind == PRI_KEY_PROTO)
		return key->bytes[0] == 6 || key->bytes[0] == 17;
	type = pr_get_be16(key->bytes);
	return type == 0x0800 || type == 0x86dd || type == 0x0806 || type == 0x8035;
}

static inline enum pri_key_rank
pri_key_rank(const struct pri_key *key)
{
	switch (key->kind) {
	case PRI_KEY_PAIR:
		return PRI_RANK_PAIRS;
	case PRI_KEY_PARTS: /* a range is many keys; without an address they are of ports */
		return pri_key_parts_ranged(key) || !key->bytes[1] ? PRI_RANK_PORTS
								   : PRI_RANK_PARTS;
	case PRI_KEY_SRC:
	case PRI_KEY_DST:
	case PRI_KEY_MAC_SRC:
	case PRI_KEY_MAC_DST:
		return PRI_RANK_ADDRESSES;
	case PRI_KEY_ETHERTYPE:
	case PRI_KEY_PROTO:
		return pri_key_is_common(key) ? PRI_RANK_TYPES : PRI_RANK_PORTS;
	default:
		return PRI_RANK_PORTS;
	}
}

#endif
