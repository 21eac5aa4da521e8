/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "logger/streamfs/streamfs.h"

/*
 * Signatures contain hashes of keys (pri_key_hash), never the keys.
 *
 * A record of level 1 stores for each key the set of its segments that have the key
 * (level1.h). A key that most segments have is stored once, and absent keys are recognised
 * with few errors for all segments together. The page of a key is chosen by its home. SRC
 * and DST of one address share a home, and so do SPORT and DPORT, and the MACs: a look-up
 * of either side reads one page.
 *
 * Level 2 is a Bloom filter (Hyperion, section 5.1) of about ten bits a key, bit-sliced. It
 * consists of pages of PRI_SLICES_PAGE bytes, each with as many slices (the same bit of
 * each column) as fit. A key tests PRI_SLICES_PROBES slices in each of PRI_SLICES_PAGES
 * pages. That is two reads instead of six, with about the same false positives as six bits
 * at any place.
 */
#define PRI_SIGNATURE_BITS_A_KEY 10

/*
 * The hash that level 1 stores for a key. Its upper bits are the home, from the hash of the
 * key without direction (pri_key_either).
 */
#define PRI_SIGNATURE_HOME 48 /* lowest bit of the home */
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

enum { PRI_SLICES_PAGE = 4096, PRI_SLICES_PAGES = 2, PRI_SLICES_PROBES = 3 };

/*
 * The slices of a key. In its i-th page the first slice is pri_reduce(at, slices); at grows
 * by step for each next one.
 */
struct pri_slice_walk {
	uint32_t page, at, step;
};

/*
 * The hash was used by level 1 already. It is mixed again, so that errors of the two levels
 * are independent.
 */
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
		/* not the bits of the page number: all keys of a page would step alike */
		.step = (uint32_t)(x * UINT64_C(0x9e3779b97f4a7c15) >> 32) | 1};
}

/*
 * The second level of the index (Hyperion, section 5.1): signatures of groups of segments,
 * bit-sliced; each group is a column. A look-up reads the head, and for each key two pages
 * of 4 KiB, which cover up to PRI_LEVEL2_COLUMNS_MAX columns (16 segments each: 0.9 GB of
 * data). A column has the keys of one record of level 1, both directions as one key
 * (pri_key_either), and without configured composites. One record of stream "index.N".
 * Little-endian:
 *
 *   0 magic u32 "PIX2"    4 version u16 (4)     6 link u16        8 first sequence u64
 *  16 segments u32       20 columns u16        22 stride u16     24 pages u32
 *  28 reserved u32 = 0   32 check u64 of bytes 0..31 and of the table
 *  40 the table: for each column its check u64 (pri_segments_digest_add),
 *     segments u32, reserved u32 = 0
 *
 * Zeros follow up to `lead`, then the pages. A page: its check u64, seeded with the head's
 * check and the page's number, 8 reserved bytes, then as many slices of `stride` bytes as
 * fit. Slice i has bit i of each column's signature, from the least significant bit of the
 * first byte on.
 *
 * lead is chosen so that each page is exactly one sector of the volume. The head has the
 * rest of the sector in which the record's body begins. Records of this kind begin at a
 * sector (sfs_reserve), except long ones, which usually begin a block.
 */
#define PRI_LEVEL2_MAGIC 0x32584950u
enum { PRI_LEVEL2_VERSION = 4, PRI_LEVEL2_COLUMNS_MAX = 224 };
#define PRI_LEVEL2_COLUMNS_MIN 4 /* with fewer, slices of whole bytes waste too much */
#define PRI_LEVEL2_HEAD_MAX (40 + 16 * PRI_LEVEL2_COLUMNS_MAX) /* with the longest table */
#define PRI_LEVEL2_VECTOR (PRI_LEVEL2_COLUMNS_MAX / 8) /* bytes: one bit for each column */

/*
 * Digest of the segments of a column: call it for (sequence, proof) of each in turn; check
 * begins as 0.
 */
uint64_t pri_segments_digest_add(uint64_t check, uint64_t sequence, uint64_t proof);

struct pri_level2_column {
	uint64_t check;
	uint32_t segments;
};

/* A copy of the record's head, checked; it points to nothing in the record. */
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
/* The offset of a page in the body. */
static inline size_t
pri_level2_page_at(const struct pri_level2 *l, uint32_t page)
{
	return l->lead + (size_t)page * PRI_SLICES_PAGE;
}
bool pri_level2_page_valid(const struct pri_level2 *l, uint32_t page, const uint8_t *bytes);
/*
 * vector: PRI_LEVEL2_VECTOR bytes. Clears the columns whose bit is not set in all of the
 * key's slices of this page.
 */
void pri_level2_apply(const struct pri_level2 *l, struct pri_slice_walk walk,
	const uint8_t *page, uint8_t *vector);

/* ---- writing ---- */

/* Zeroed is empty. */
struct pri_level2_writer {
	uint64_t *hashes; /* the columns' hashes, one column after the other */
	size_t count, room;
	size_t ends[PRI_LEVEL2_COLUMNS_MAX];
	struct pri_level2_column column[PRI_LEVEL2_COLUMNS_MAX];
	double squares; /* sum of the squares of the columns' counts of hashes */
	uint64_t first_sequence;
	uint32_t segments;
	unsigned columns;
};
void pri_level2_begin(struct pri_level2_writer *w); /* empty again */
void pri_level2_free(struct pri_level2_writer *w);
/*
 * 1: added; 0: the record would be longer than max, or has all its columns; -1: no memory.
 */
int pri_level2_add(struct pri_level2_writer *w, uint64_t first_sequence,
	const struct pri_level2_column *column, const uint64_t *hashes, size_t count,
	size_t max);
size_t pri_level2_size(const struct pri_level2_writer *w);
/* Writes the record to out: pri_level2_size bytes. */
void pri_level2_finish(const struct pri_level2_writer *w, uint16_t link, uint8_t *out);
