/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "indexer/index/index_key.h"
#include "indexer/index/level2.h"
#include "proto/rpc/tally.h"

/*
 * The first level of the index: what each of up to 64 consecutive segments of a stream
 * holds. A record of stream "index.N". A look-up of keys reads the head and the pages in
 * which the keys lie; all other uses read the whole record. Little-endian; the head, a
 * header of 56 bytes:
 *
 *    0 magic u32 "PIX1"    4 version u16 (5)      6 link u16        8 first sequence u64
 *   16 segments u16       18 tops u16            20 tops at u32    24 packets short u32
 *   28 composites: up to 4 masks of their parts u8 (index_key.h), then 0   32 bytes short u64
 *   40 pages u16          42 low bits u16        44 hash bits u16      46 reserved u16 = 0
 *   48 check u64 of bytes 0..47 and of the rest of the head
 * for each segment an item of 96 bytes:
 *    0 proof u64: of the segment's handle, so that it is this segment and no later one of its number
 *    8 data at u32        12 keyed u8 (0: no keys are known of it, all may match)
 *   13 reserved, 3 zeros (up to October 2026 13 was 1 with keys of kind 23)
 *   16 series bytes u16   18 series width u8     19 held form u8    20 held bytes u32
 *   24 least, most length u32 each               32 least, most source and destination port, u16 each
 *   40 port intervals, 192 bits                  64 first octets of IPv4 addresses, 256 bits
 * and the lengths of the pages, and of a reserved one behind them, u16 each. Then the
 * pages: a key lies in page (home * pages >> 16); home is the upper 16 bits of
 * pri_key_signature. A page: check u64, seeded with the head's and the page's number, keys
 * u16, and a bit stream (from the least significant bit of the first byte on) of its keys
 * in order. For each key:
 *   its value: the upper `hash bits` of the 32 bits from bit 16 of the hash on, scaled to
 *   0..(keys << low bits) - 1. Stored is the difference from the value before: its upper
 *   part as that many bits 1 and a 0, then the low bits. An absent key is taken for a
 *   present one with a chance of 1 in 2^low bits;
 *   its segments: 0 and the number of one; or 1, 0 and the numbers of the first and the
 *   last of a range; or 1, 1 and a bit for each. A number has as many bits as the highest
 *   one needs.
 * Then the reserved page: check u64 as of page number `pages`; up to October 2026 it also
 * had data that is not read any more.
 * Behind them, at `data at`, each segment's series and held seqs, one after the other. At `tops at`
 * the heavy hitters of them all: length u8 (4 or 16), 3 zeros, packets u32, bytes u64, address; each
 * may have up to `packets short` and `bytes short` more, and so may addresses that are not there.
 *
 * Series: for each interval of 2^width seconds that has any packets, from that of the segment's least
 * time on: intervals since the one before, packets, bytes (original lengths), as varints (7 bits a
 * byte, least first). Held: 0 all seqs of the segment; 1 runs: step, how often, varints, from the first
 * seq on; 2 a bit each from the first seq on.
 */
#define PRI_LEVEL1_MAGIC 0x31584950u
enum { PRI_LEVEL1_VERSION = 5, PRI_LEVEL1_HEADER = 56, PRI_LEVEL1_ITEM = 96 };
#define PRI_LEVEL1_SEGMENTS_MAX 64 /* bits of a word */
enum { PRI_LEVEL1_PAGES_MAX = 4095, PRI_LEVEL1_LOW_MAX = 14, PRI_LEVEL1_TOPS_MAX = 16 };
#define PRI_LEVEL1_BUCKETS 64 /* of a series, at most */
#define PRI_LEVEL1_HITTERS 512 /* addresses that are counted, to find the tops among them */
enum { PRI_LEVEL1_PORTS = 24, PRI_LEVEL1_OCTETS = 32 };

enum pri_held_form { PRI_HELD_ALL, PRI_HELD_RUNS, PRI_HELD_BITS };

/* The interval of a port: 16 wide up to 1023, 512 wide above. */
static inline unsigned
pri_port_interval(uint16_t port)
{
	return port < 1024 ? port / 16u : 64u + (port - 1024u) / 512u;
}

struct pri_level1_segment {
	uint64_t proof;
	uint32_t len_min, len_max;
	uint16_t sport_min, sport_max, dport_min, dport_max; /* least above most: none */
	uint8_t ports[PRI_LEVEL1_PORTS], octets[PRI_LEVEL1_OCTETS];
	uint8_t keyed, series_width, held_form;
	uint16_t series_len;
	uint32_t held_len, data_at;
	/* of a record that was opened; the pointers are into it */
	uint16_t index;
	const uint8_t *composites; /* masks, PRI_COMPOSITES_MAX of them */
	const uint8_t *series, *held; /* of a whole record, else empty */
};

struct pri_level1_top {
	uint8_t len; /* 4 or 16 */
	uint8_t address[16];
	uint32_t packets;
	uint64_t bytes;
};

/* An opened record. It was checked, so reading from it cannot fail. */
struct pri_level1 {
	const uint8_t *body;
	size_t len; /* of the head, or of all */
	uint64_t first_sequence, check;
	uint16_t link, segments, tops;
	uint16_t pages, low_bits, hash_bits;
	uint32_t packets_short;
	uint64_t bytes_short;
	uint32_t tops_at;
	bool whole;
};
/* Bytes of the head of a record of so many segments and pages. */
static inline size_t
pri_level1_head(size_t segments, size_t pages)
{
	return PRI_LEVEL1_HEADER + segments * PRI_LEVEL1_ITEM + 2 * (pages + 1);
}
/* Bytes of the head of the record with this header, of PRI_LEVEL1_HEADER bytes. */
size_t pri_level1_head_of(const void *header);
/*
 * body is the caller's and must outlive *out: a record of `total` bytes, or at least its
 * head. The pages of a whole record are not checked here: StreamFS has verified all of it.
 */
int pri_level1_open(struct pri_level1 *out, const void *body, size_t len, size_t total,
	struct pr_error *err);
void pri_level1_get(
	const struct pri_level1 *l, unsigned index, struct pri_level1_segment *out);
/*
 * pri_level1_page_of: the page in which a key with this pri_key_signature lies, if it is
 * there. pri_level1_page_at: where a page lies (l->pages: the reserved one).
 */
uint32_t pri_level1_page_of(const struct pri_level1 *l, uint64_t signature);
size_t pri_level1_page_at(const struct pri_level1 *l, uint32_t page, size_t *len);
bool pri_level1_page_valid(
	const struct pri_level1 *l, uint32_t page, const uint8_t *bytes, size_t len);
/*
 * A bit for each segment that has the key, by the page's bytes; 0 for segments that are not
 * keyed.
 */
uint64_t pri_level1_find(
	const struct pri_level1 *l, uint64_t signature, const uint8_t *page, size_t len);
/*
 * True if the items, not the pages, know the key: an IPv4 NET of 8 bits. *has is then the
 * result.
 */
bool pri_level1_item_has(
	const struct pri_level1_segment *s, const struct pri_key *key, bool *has);
/* Of a whole record: the largest first, by bytes; out has room for PRI_LEVEL1_TOPS_MAX. Returns how many. */
size_t pri_level1_tops(const struct pri_level1 *l, struct pri_level1_top *out);

/*
 * True if a packet of the segment can have this number within [least, most]. Always true
 * for PRI_NUMBER_TIME, which the catalog knows.
 */
bool pri_level1_has_range(const struct pri_level1_segment *s, enum pri_number number,
	int64_t least, int64_t most);

/* The seqs of a segment in order, relative to its first; for seqs up to span. */
struct pri_held_walk {
	const uint8_t *at, *end;
	uint64_t next, span, step, repeat;
	uint8_t form;
};
void pri_held_walk_begin(
	struct pri_held_walk *walk, const struct pri_level1_segment *s, uint64_t span);
bool pri_held_walk_next(struct pri_held_walk *walk, uint64_t *seq);

/* One interval of the series after the other; *at starts as 0. */
struct pri_series_bucket {
	uint64_t interval; /* since that of the least time; unit 2^width s */
	uint64_t packets, bytes;
};
bool pri_level1_series(
	const struct pri_level1_segment *s, size_t *at, struct pri_series_bucket *bucket);

/* ---- writing ---- */

struct pri_segment_keys;
struct pri_level1_writer {
	/* their data counted from its beginning */
	struct pri_level1_segment items[PRI_LEVEL1_SEGMENTS_MAX];
	uint8_t *data; /* series and held seqs */
	size_t used, room;
	/* of the keys of all segments, one after the other, and as much to sort */
	uint64_t *hashes;
	size_t count, hash_room;
	size_t ends[PRI_LEVEL1_SEGMENTS_MAX];
	size_t max; /* of the record */
	uint64_t first_sequence;
	unsigned segments;
	struct pri_composites composites; /* of the segments' keys */
};

void pri_level1_begin(struct pri_level1_writer *w);
void pri_level1_free(struct pri_level1_writer *w);
/*
 * Adds the next segment; sequence: any for the first, else one more than the last. 1:
 * added; 0: the record would be longer than max bytes, finish it first (a segment alone is
 * always taken, with fewer bits a key); -1: no memory.
 */
int pri_level1_add(struct pri_level1_writer *w, uint64_t sequence, uint64_t proof,
	const struct pri_segment_keys *sketch, size_t max);
/* Bytes of the record as it stands, with all the tops there may be. */
size_t pri_level1_size(const struct pri_level1_writer *w);
/* Writes it to out, of pri_level1_size bytes at least; returns its length. What was added is used up, hitters are cut. */
size_t pri_level1_finish(
	struct pri_level1_writer *w, uint16_t link, struct pr_tally *hitters, uint8_t *out);
