/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "proto/base/clock.h"

/*
 * A summary of a range of a node's data, for mergers (Hyperion, section 5.3: "archive locally, summarize
 * globally"). It tells which keys the packets of some consecutive segments of one (epoch, link) have, so that
 * a query is not sent to nodes that cannot answer it; and which seqs they hold, so that an answer's
 * completeness covers nodes that were not asked. A record of level 3 in stream "index.N", sent as it is.
 *
 * Little-endian; header of 112 bytes:
 *    0 magic u32 "PIX3"     4 version u16 (1)       6 link u16             8 first sequence u64
 *   16 segments u32        20 log2 of bits u8      21 flags u8            22 reserved u16 = 0
 *   24 epoch u64           32 first seq u64        40 last seq u64        48 packets u64
 *   56 first otime i64     64 last otime i64       72 min time i64        80 max time i64
 *   88 keys u32            92 runs u32             96 bytes of runs u32  100 reserved u32 = 0
 *  104 check u64: XXH3 of what follows the header, seeded with the XXH3 of bytes 0..103
 * then the signature, then runs: varints gap from the last seq before (zig-zag; seq 0 at the start),
 * span, first otime from the last one before (zig-zag; first otime at the start), last otime from
 * the first (zig-zag), bytes of bits, and these: a bit a seq, least first; 0 bytes: all are held.
 *
 * The signature is a Bloom filter of 2^n bits. A key sets PR_SUMMARY_PROBES of them, at
 * positions that are made from its hash, modulo 2^n.
 */
#define PR_SUMMARY_MAGIC 0x33584950u
enum { PR_SUMMARY_VERSION = 1, PR_SUMMARY_HEADER = 112, PR_SUMMARY_PROBES = 5 };
#define PR_SUMMARY_BITS_A_KEY 8 /* at least, and less than twice as many */
enum { PR_SUMMARY_LOG2_MIN = 6, PR_SUMMARY_LOG2_MAX = 20 };
/* of one, about */
#define PR_SUMMARY_KEYS_MAX ((1u << PR_SUMMARY_LOG2_MAX) / PR_SUMMARY_BITS_A_KEY)
#define PR_SUMMARY_NO_RUNS 1u /* flag: they would be too long; the node must be asked */

/* The range that a summary covers; both ends are included. */
struct pr_summary_span {
	uint64_t first_sequence; /* of segments, in their stream */
	uint32_t segments;
	uint16_t link;
	uint64_t epoch, first_seq, last_seq, packets;
	int64_t first_otime, last_otime, min_time, max_time; /* min, max: true times */
};

/*
 * Extends `to` over `by` and the gap between them. to->segments 0: copies `by`; epoch and link must be set.
 */
void pr_summary_span_unite(struct pr_summary_span *to, const struct pr_summary_span *by);

/* Checked as a whole; points into the record. */
struct pr_summary {
	struct pr_summary_span span;
	const uint8_t *bits; /* 2^log2 of them */
	uint8_t log2;
	uint8_t flags; /* PR_SUMMARY_NO_RUNS */
	uint16_t reserved;
	uint32_t keys, run_count, runs_len;
	const uint8_t *runs;
};

/* Its span, of the header alone: len at least PR_SUMMARY_HEADER. Does not see damage behind it. */
int pr_summary_peek(
	struct pr_summary_span *out, const void *body, size_t len, struct pr_error *err);
/* body is the caller's and must outlive it. */
int pr_summary_open(
	struct pr_summary *out, const void *body, size_t len, struct pr_error *err);

/* Parses a summary that pr_summary_open has accepted: verifies neither checksum nor runs. */
int pr_summary_open_unchecked(
	struct pr_summary *out, const void *body, size_t len, struct pr_error *err);

/*
 * True if the summary may have the key of this hash. Takes only the bits, so that Bloom
 * filters that were united can be tested, too.
 */
bool pr_summary_has(const uint8_t *bits, unsigned log2, uint64_t hash);
/*
 * The same for eight summaries at once; the result has a bit for each. slices[i] has bit i
 * of all eight.
 */
uint8_t pr_summary_slices_have(const uint8_t *slices, unsigned log2, uint64_t hash);

/*
 * A range of seqs that the node has; bits NULL: all of them. epoch and link are set in
 * memory only: a summary has them in its header.
 */
struct pr_summary_run {
	uint64_t epoch;
	uint16_t link;
	uint64_t first, last;
	int64_t first_otime, last_otime;
	const uint8_t *bits;
	size_t bits_len;
};
/* Iterates over the runs. Cannot fail on a summary that pr_summary_open has accepted. */
struct pr_summary_walk {
	const uint8_t *at, *end;
	uint64_t seq;
	int64_t otime;
};
void pr_summary_walk_begin(struct pr_summary_walk *walk, const struct pr_summary *s);
bool pr_summary_walk_next(struct pr_summary_walk *walk, struct pr_summary_run *run);

/* ---- writing ---- */

/* Upper bound of the length of a summary. */
size_t pr_summary_size(size_t keys, const struct pr_summary_run *runs, size_t count);
/*
 * Writes a summary into out, of pr_summary_size bytes; returns its length. Leaves the runs out when they take
 * more than runs_max bytes.
 */
size_t pr_summary_write(const struct pr_summary_span *span, const uint64_t *hashes,
	size_t keys, const struct pr_summary_run *runs, size_t count, size_t runs_max,
	uint8_t *out);
