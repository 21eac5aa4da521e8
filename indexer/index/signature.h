/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_SIGNATURE_H
#define PRI_INDEXER_SIGNATURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What signatures are made of: hashes of keys (pri_key_hash), never the keys.
 *
 * Level 1 knows of each key of some segments which of them have it (level1.h): a key that most of them have
 * is there once, and whether a key is there at all is told with few errors for all of them. In which page is
 * told by the key's home, which SRC and DST of one address share, as do SPORT and DPORT, and the MACs: who
 * asks for either side reads one page.
 *
 * Level 2 is a Bloom filter (Hyperion, section 5.1) of about ten bits a key, bit-sliced: it lies in pages of
 * PRI_SLICES_PAGE bytes, each with as many slices (the same bit of each column) as it has room for. A key
 * tests PRI_SLICES_PAGES pages with PRI_SLICES_PROBES slices in each: two reads instead of six, for about
 * the same false positives as six bits at will.
 */
#define PRI_SIGNATURE_BITS_A_KEY 10

/* What level 1 knows of a key: its hash, and from the hash of pri_key_either of it, its home. */
#define PRI_SIGNATURE_HOME 48 /* its bits are from there on */
static inline uint64_t
pri_signature_hash(uint64_t hash, uint64_t either)
{
	return (hash & UINT64_C(0xffffffffffff)) | (either & ~UINT64_C(0xffffffffffff));
}

/* x of 32 bits to 0..n-1, evenly, without a division (Lemire). */
static inline uint32_t
pri_reduce(uint32_t x, uint32_t n)
{
	return (uint32_t)((uint64_t)x * n >> 32);
}

#define PRI_SLICES_PAGE 4096
#define PRI_SLICES_PAGES 2
#define PRI_SLICES_PROBES 3

/* Which slices of which pages a key tests. */
struct pri_slices {
	uint32_t page[PRI_SLICES_PAGES];
	uint16_t slice[PRI_SLICES_PAGES][PRI_SLICES_PROBES]; /* within the page */
};
void pri_slices_of(
	uint64_t hash, uint32_t pages, uint16_t slices_a_page, struct pri_slices *out);

/* The same one after the other: of its i-th page the first slice is at pri_reduce(at, slices), each next one a step on. */
struct pri_slice_walk {
	uint32_t page, at, step;
};

/* Of a hash that went through level 1 already: stirred, so that errors of the two do not go together. */
static inline struct pri_slice_walk
pri_slice_walk_begin(uint64_t hash, unsigned i, uint32_t pages)
{
	uint64_t x = hash + i * UINT64_C(0x9e3779b97f4a7c15);

	x ^= x >> 32;
	x *= UINT64_C(0x9fb21c651e98df25); /* as in XXH3's avalanche for short keys */
	x ^= x >> 28;
	x *= UINT64_C(0xd6e8feb86659fd93);
	x ^= x >> 32;
	return (struct pri_slice_walk){.page = pri_reduce((uint32_t)x, pages),
		.at = (uint32_t)(x >> 32),
		/* not from the bits that choose the page: there all keys would step alike */
		.step = (uint32_t)(x * UINT64_C(0x9e3779b97f4a7c15) >> 32) | 1};
}

#endif
