/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_INDEXER_KEY_RANK_H
#define PR_INDEXER_KEY_RANK_H

#include "indexer/composite.h"
#include "proto/wire/cursor.h"

/* Who pays for each key that is asked for asks first for those that few segments have. */
enum pr_key_rank {
	PR_RANK_PAIRS,
	PR_RANK_PARTS, /* addresses with ports */
	PR_RANK_ADDRESSES,
	PR_RANK_PORTS, /* prefixes, rarer types */
	PR_RANK_TYPES, /* that as good as all traffic has */
	PR_RANKS,
};

static inline bool
pr_key_is_common(const struct pr_key *key)
{
	uint16_t type;

	if (key->kind == PR_KEY_PROTO)
		return key->bytes[0] == 6 || key->bytes[0] == 17;
	type = pr_get_be16(key->bytes);
	return type == 0x0800 || type == 0x86dd || type == 0x0806 || type == 0x8035;
}

static inline enum pr_key_rank
pr_key_rank(const struct pr_key *key)
{
	switch (key->kind) {
	case PR_KEY_PAIR:
		return PR_RANK_PAIRS;
	case PR_KEY_PARTS: /* a range is many keys; without an address they are of ports */
		return pr_key_parts_ranged(key) || !key->bytes[1] ? PR_RANK_PORTS
								  : PR_RANK_PARTS;
	case PR_KEY_SRC:
	case PR_KEY_DST:
	case PR_KEY_MAC_SRC:
	case PR_KEY_MAC_DST:
		return PR_RANK_ADDRESSES;
	case PR_KEY_ETHERTYPE:
	case PR_KEY_PROTO:
		return pr_key_is_common(key) ? PR_RANK_TYPES : PR_RANK_PORTS;
	default:
		return PR_RANK_PORTS;
	}
}

#endif
