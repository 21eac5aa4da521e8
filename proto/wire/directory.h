/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "proto/base/cursor.h"

/*
 * Locations of segments and of index records, so that a volume can be opened without reading the data: records
 * of streams "segments" and, of level 3, "summaries". A record is a version u8 (1) and delta-encoded entries:
 * each holds its differences to the previous entry of the same kind in the record (zeros before the first),
 * about 25 bytes for a segment. Numbers are varints (cursor.h), steps are zig-zag varints. An entry:
 *
 *   a segment  0x00 and flags: 0x02 these follow: epoch u64, link, link type
 *                              0x04 first seq: step from the one behind the last of the entry before
 *                              0x08 seqs less than the last one's, as packets are not all of them
 *                              0x10 otimes: steps of the first from the least time, of the last from the
 *                                   most; else they are the same
 *              packets, least time: step from the most of the entry before, most time less the least
 *   an index   0x01 and level << 1, and 0x08: a link follows
 *              first sequence: step from behind the segments of the entry before, segments,
 *              check u64: digest of the segments
 *   both       length u8 and bytes of the record's handle, whose form is the store's
 *
 * Readers know nothing of a record of another version.
 */
#define PR_DIRECTORY_VERSION 1
#define PR_DIRECTORY_ENTRY_MAX 160 /* no entry is longer */
#define PR_DIRECTORY_HANDLE_MAX 48

enum pr_directory_kind { PR_DIRECTORY_SEGMENT, PR_DIRECTORY_INDEX };

struct pr_directory_segment {
	uint64_t epoch, first_seq, last_seq;
	int64_t min_time, max_time, first_otime, last_otime;
	uint32_t count; /* not 0 */
	uint16_t link, linktype;
};

/*
 * A record of stream "index.LINK", of segments of stream "packets.LINK". Levels: 1 and 2 of
 * indexer/index/level1.h and level2.h, 3: summary.h.
 */
struct pr_directory_index {
	uint64_t first_sequence; /* of the first segment, in its stream */
	uint64_t check; /* digest of the segments: pri_segments_digest_add over all */
	uint32_t segments; /* not 0 */
	uint16_t link;
	uint8_t level;
};

/* A record of the index with its body, as the indexer makes it, sends it, and the logger stores it. */
struct pr_index_record {
	uint16_t link, level; /* 1, 2 or 3 */
	uint64_t first_sequence, check; /* as in the directory */
	uint32_t segments;
	int64_t min_time, max_time;
	const void *body;
	size_t len;
};

struct pr_directory_entry {
	enum pr_directory_kind kind;
	union {
		struct pr_directory_segment segment;
		struct pr_directory_index index;
	} u;
	uint8_t handle_len;
	uint8_t handle[PR_DIRECTORY_HANDLE_MAX];
};

/* What came before in the record. */
struct pr_directory_coder {
	struct pr_directory_segment segment;
	struct pr_directory_index index;
};

/* Begins a record. false: no room. */
bool pr_directory_begin(struct pr_directory_coder *coder, struct pr_writer *w);
/* false: no room for it, or what readers would refuse; then nothing is written. */
bool pr_directory_store(struct pr_directory_coder *coder, struct pr_writer *w,
	const struct pr_directory_entry *e);
/* false: of a version that this program does not know, or empty. */
bool pr_directory_open(struct pr_directory_coder *coder, struct pr_cursor *c);
/* 1: an entry; 0: the end; -1: corrupt, also at each later call. */
int pr_directory_load(struct pr_directory_coder *coder, struct pr_cursor *c,
	struct pr_directory_entry *out);
