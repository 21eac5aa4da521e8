/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_INDEXER_KEY_RANK_H
#define PR_INDEXER_KEY_RANK_H

#include "indexer/keys.h"

/* Who pays for each key that is asked for asks first for those that few segments have. */
enum pr_key_rank {
	PR_RANK_PAIRS,
	PR_RANK_ADDRESSES,
	PR_RANK_PORTS, /* and prefixes */
	PR_RANK_TYPES,
	PR_RANKS,
};

static inline enum pr_key_rank
pr_key_rank(const struct pr_key *key)
{
	switch (key->kind) {
	case PR_KEY_PAIR:
	case PR_KEY_PARTS:
		return PR_RANK_PAIRS;
	case PR_KEY_SRC:
	case PR_KEY_DST:
	case PR_KEY_MAC_SRC:
	case PR_KEY_MAC_DST:
		return PR_RANK_ADDRESSES;
	case PR_KEY_ETHERTYPE:
	case PR_KEY_PROTO:
		return PR_RANK_TYPES;
	default:
		return PR_RANK_PORTS;
	}
}

#endif
