/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_KEY_HASH_H
#define PRI_INDEXER_KEY_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Compiled in place: of a kind and a length that are constants a few multiplications are left. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "indexer/index/index_key.h"

#define PRI_IN_PLACE static inline __attribute__((always_inline))

/*
 * pri_key_hash of the key of this kind with these bytes. The kind and the length are a part of it, so that
 * equal bytes of other kinds are other keys.
 */
PRI_IN_PLACE uint64_t
pri_key_hash_bytes(enum pri_key_kind kind, const void *bytes, size_t len)
{
	return XXH3_64bits_withSeed(bytes, len, (uint64_t)kind << 8 | len);
}

#endif
