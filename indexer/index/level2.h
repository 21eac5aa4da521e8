/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_LEVEL2_H
#define PRI_INDEXER_LEVEL2_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "logger/streamfs/streamfs.h"
#include "proto/base/error.h"

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

/*
 * The slices of a key one after the other: of its i-th page the first slice is at pri_reduce(at, slices), and each
 * next one a step on.
 */
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

/*
 * The second level of the index (Hyperion, section 5.1): signatures of groups of segments, each a
 * column, bit-sliced: what is read of it is a head, and for each key asked for two pages of 4 KiB that
 * speak of up to PRI_LEVEL2_COLUMNS_MAX columns (16 segments each: 0.9 GB of data). A column holds the
 * keys of one record of level 1, either sides in one (pri_key_either), without composites as configured.
 * One record of stream "index.N". Little-endian:
 *
 *    0 magic u32 "PIX2"    4 version u16 (4)     6 link u16        8 first sequence u64
 *   16 segments u32       20 columns u16        22 stride u16     24 pages u32
 *   28 reserved u32 = 0   32 check u64 of bytes 0..31 and of the table
 *   40 the table: for each column its check u64 (pri_segments_digest_add), segments u32, reserved u32 = 0
 * zeros up to `lead`, then the pages. A page: its check u64, seeded with the head's check and its
 * number, 8 reserved bytes, then slices of `stride` bytes, as many as fit: slice i has bit i of each
 * column's signature, from the least significant bit of the first byte on.
 * lead is such that a page is one sector of the volume, and the head another: what is left of the one in
 * which the record's body begins. Records of this kind begin at a sector (sfs_reserve), but for long ones,
 * which as a rule begin a block.
 */
#define PRI_LEVEL2_MAGIC 0x32584950u
#define PRI_LEVEL2_VERSION 4
#define PRI_LEVEL2_COLUMNS_MAX 224
#define PRI_LEVEL2_COLUMNS_MIN 4 /* fewer are not worth it: a slice is of whole bytes */
#define PRI_LEVEL2_HEAD_MAX (40 + 16 * PRI_LEVEL2_COLUMNS_MAX) /* with the longest table */
#define PRI_LEVEL2_VECTOR (PRI_LEVEL2_COLUMNS_MAX / 8) /* bytes: a bit a column */

/* Which segments: over (sequence, proof) of each in turn, from 0. */
uint64_t pri_segments_digest_add(uint64_t check, uint64_t sequence, uint64_t proof);

struct pri_level2_column {
	uint64_t check;
	uint32_t segments;
};

/* The head, checked; it holds nothing of the record. */
struct pri_level2 {
	uint64_t first_sequence, check;
	uint32_t segments, pages;
	uint16_t link, columns, stride, slices_a_page;
	uint32_t lead;
	struct pri_level2_column column[PRI_LEVEL2_COLUMNS_MAX];
};
/* head: the record's first PRI_LEVEL2_HEAD_MAX bytes, or all if it is shorter; total: its length. */
int pri_level2_open(struct pri_level2 *out, const void *head, size_t len, size_t total,
	struct pr_error *err);
/* Where in the body a page lies. */
static inline size_t
pri_level2_page_at(const struct pri_level2 *l, uint32_t page)
{
	return l->lead + (size_t)page * PRI_SLICES_PAGE;
}
bool pri_level2_page_valid(const struct pri_level2 *l, uint32_t page, const uint8_t *bytes);
/* vector: PRI_LEVEL2_VECTOR bytes; what the key's slices in its page lack is cleared. */
void pri_level2_apply(const struct pri_level2 *l, struct pri_slice_walk walk,
	const uint8_t *page, uint8_t *vector);

/* ---- writing ---- */

/* Zeroed is empty. */
struct pri_level2_writer {
	uint64_t *hashes; /* of all columns, one after the other */
	size_t count, room;
	size_t ends[PRI_LEVEL2_COLUMNS_MAX];
	struct pri_level2_column column[PRI_LEVEL2_COLUMNS_MAX];
	double squares; /* of the columns' numbers of hashes */
	uint64_t first_sequence;
	uint32_t segments;
	unsigned columns;
};
void pri_level2_begin(struct pri_level2_writer *w); /* empty again */
void pri_level2_free(struct pri_level2_writer *w);
/* 1; 0: the record would be longer than max, or has all its columns; -1: no memory. */
int pri_level2_add(struct pri_level2_writer *w, uint64_t first_sequence,
	const struct pri_level2_column *column, const uint64_t *hashes, size_t count,
	size_t max);
size_t pri_level2_size(const struct pri_level2_writer *w);
/* out: pri_level2_size bytes, which is what it writes. */
void pri_level2_finish(const struct pri_level2_writer *w, uint16_t link, uint8_t *out);

#endif
