/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "proto/base/cursor.h"
#include "proto/wire/source.h"

/*
 * A segment: a batch of packets of one (epoch, link), in order. The body of one StreamFS record and
 * of an answer's batches alike. Little-endian, 64-byte header:
 *
 *    0 magic u32 "PSEG"   4 version u16 (1)   6 linktype u16
 *    8 epoch u64         16 link u16         18 flags u16      20 count u32
 *   24 first seq u64     32 min time i64     40 max time i64
 *   48 first otime i64   56 last otime i64
 * then count packets, each 24 bytes and its data, padded to 8 bytes:
 *    0 time i64           8 seq - first seq u32   12 caplen u32   16 len u32
 *   20 flags u16 (enum pr_packet_flag; bit 15: an i64 otime follows the 24 bytes)
 *   22 reserved u16 = 0
 * An answer's batch (flags bit 0, MIXED) holds packets of several links and epochs in the total
 * order: each packet's 24 bytes (and otime) are followed by epoch u64, seq u64, link u16, linktype u16,
 * u32 0. Its link type, link, epoch, first seq, and its packets' seq - first seq, are 0.
 *
 * In a segment of one link seqs grow from packet to packet, the first being first seq. Padding is
 * zeros; count is not 0; a body has exactly the bytes of its packets. Times need not grow.
 */
#define PR_SEGMENT_MAGIC 0x47455350u
enum { PR_SEGMENT_VERSION = 1, PR_SEGMENT_HEADER = 64, PR_SEGMENT_PACKET = 24 };
#define PR_SEGMENT_MIXED 1
#define PR_SEGMENT_TARGET (256 * 1024) /* seal at about this size */
enum { PR_SEGMENT_OTIME = 0x8000, PR_SEGMENT_OTIME_LEN = 8, PR_SEGMENT_MIXED_LEN = 24 };

struct pr_segment_header {
	uint16_t linktype, link, flags;
	uint64_t epoch, first_seq;
	uint32_t count;
	int64_t min_time, max_time, first_otime, last_otime;
};

struct pr_segment_builder {
	uint8_t *buf;
	size_t room, used; /* used includes the header */
	uint64_t last_seq;
	struct pr_segment_header header;
};

/* buf is the caller's; at least PR_SEGMENT_HEADER + 64. linktype, link, epoch unused when MIXED. */
void pr_segment_begin(struct pr_segment_builder *b, void *buf, size_t room, uint16_t flags);
/*
 * false: no room, or (not MIXED) another link, link type or epoch, or a seq that is not above the last
 * one or out of u32 reach: seal, begin anew. p->flags of 0x8000 is refused always.
 */
bool pr_segment_add(struct pr_segment_builder *b, const struct pr_packet *p);
/* Writes the header; returns the total length, 0 if empty. */
size_t pr_segment_seal(struct pr_segment_builder *b);
/* Bytes that a packet of caplen takes at most: with its otime, in a MIXED one. */
static inline size_t
pr_segment_cost(uint32_t caplen)
{
	return PR_SEGMENT_PACKET + PR_SEGMENT_OTIME_LEN + PR_SEGMENT_MIXED_LEN +
	       (((size_t)caplen + 7) & ~(size_t)7);
}

struct pr_segment_reader {
	struct pr_cursor c;
	struct pr_segment_header header;
	uint32_t left;
	uint64_t last_seq;
};
int pr_segment_open(
	struct pr_segment_reader *r, const void *body, size_t len, struct pr_error *err);
/*
 * 1 a packet; 0 at the end; -1 corrupt, also at each later call. Safe on shared memory: out->data lies inside
 * body even if another process changes body during the call; only the content may then be garbage.
 */
int pr_segment_next(
	struct pr_segment_reader *r, struct pr_packet *out, struct pr_error *err);
/* Header alone (64 bytes suffice). */
int pr_segment_peek(
	const void *body, size_t len, struct pr_segment_header *out, struct pr_error *err);
