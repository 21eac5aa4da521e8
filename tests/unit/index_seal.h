/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <xxhash.h>

#include "indexer/index/level1.h"
#include "indexer/index/level2.h"
#include "proto/base/cursor.h"

/*
 * The head of a record of the index, whose bytes somebody changed, gets the check that it then should have: so
 * what a reader makes of them is looked at, and not that check alone. false: it has no whole head.
 */
static inline bool
index_seal(uint8_t *record, size_t len)
{
	size_t at = 48, head;

	if (len < PRI_LEVEL1_HEADER)
		return false;
	head = pri_level1_head_of(record);
	if (pr_get_le32(record) == PRI_LEVEL2_MAGIC) {
		at = 32;
		head = 40 + (size_t)16 * pr_get_le16(record + 20);
	}
	if (head > len)
		return false;
	pr_put_le64(record + at, XXH3_64bits_withSeed(record + at + 8, head - at - 8,
					 XXH3_64bits(record, at)));
	return true;
}
