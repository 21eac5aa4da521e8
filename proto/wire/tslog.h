/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "proto/wire/frame.h"

/*
 * A timestamp log (CLog section 3.2, with loss and parts of its future work). The body of a
 * TSLOG:
 *
 * All big-endian.
 *
 *   link u16, flags u16 (bit 0: INTERLEAVED, bit 1: CLASSES, bit 2: WHOLE), log number u64 (from 1, per node and link),
 *   first seq u64, first ordinal u64, base time i64, count u16, MAC pairs u8, pairs * 12 (dst, src)
 *   then count entries:
 *     lead u8: bit 7 EXT follows; bit 6: the MAC pair is the second last used one, else the last used one; bits 0..5
 *              seq step from the entry before (from first seq - 1 at the start); 0: varint follows
 *     [ext u8] enum pr_entry_flag
 *     [varint seq step]
 *     [varint ordinal step - 1, when INTERLEAVED]  (else each entry's ordinal is one more)
 *     varint zig-zag time step, ns, from the entry before (from base time at the start)
 *     fingerprint u32
 *     [class u8, when CLASSES]
 *     [pair u8] [varint caplen] [varint len] [Ethertype u16] [varint time-to-otime] [runt: u8 n, n bytes]
 *
 * The ordinal numbers the data frames sent to one node, over all links, from 0: frames come in that
 * order, so a node with several links knows which frame to expect next.
 * Without PR_ENTRY_CAPLEN the captured length is that of the frame as sent; without PR_ENTRY_LEN the
 * original length is the captured one; of a runt, the captured length is n. At the start of a log the
 * last pair used is 0, the one before 1. Runts neither name nor change the pair: their MACs, if any,
 * are in their bytes. The first entry's seq step is 1; readers refuse another, steps of 0, a varint
 * for a step that the lead can hold, pairs that are not in the table, and bytes left over.
 * About 8.8 bytes an entry on a gateway's mix; every log stands alone.
 */
enum pr_entry_flag {
	/* second copy: counts only while the primary's node is gone */
	PR_ENTRY_SECOND = 1 << 0,
	PR_ENTRY_PAIR = 1 << 1, /* MAC pair by number */
	PR_ENTRY_CAPLEN = 1 << 2,
	PR_ENTRY_LEN = 1 << 3,
	/* escaped: the original Ethertype, at pr_ethertype_offset */
	PR_ENTRY_ETHERTYPE = 1 << 4,
	PR_ENTRY_OTIME = 1 << 5, /* otime > time, by so many ns */
	PR_ENTRY_RUNT = 1 << 6, /* captured bytes below 14, whole, in the log itself */
	PR_ENTRY_CUT = 1 << 7, /* truncated by the dispatcher to the rack interface's MTU */
};

enum { PR_TSLOG_PAIRS_MAX = 32, PR_TSLOG_ENTRIES_MAX = 8192 };
enum pr_tslog_flag {
	PR_TSLOG_INTERLEAVED = 1,
	PR_TSLOG_CLASSES = 2, /* older nodes refuse such a log */
	PR_TSLOG_WHOLE =
		4, /* fingerprints are of the second kind (fingerprint.h); older nodes refuse it */
};

struct pr_entry {
	uint64_t seq, ordinal;
	int64_t time, otime;
	uint32_t fingerprint;
	uint32_t caplen; /* 0 with no CAPLEN flag: as sent */
	uint32_t len; /* valid with CAPLEN or LEN flag; else equals the captured length */
	uint16_t ethertype;
	/*
	 * enum pr_entry_flag, without PAIR. The builder uses the caller's flags, except
	 * OTIME, which it sets itself where otime > time (an earlier otime counts as
	 * equal). A reader always fills otime.
	 */
	uint8_t flags;
	uint8_t runt_len;
	uint8_t class; /* number of the connection's class, see PR_FRAME_CLASS; 0: none */
	uint8_t macs[12]; /* dst, src as captured */
	uint8_t runt[13];
};

struct pr_tslog_header {
	uint16_t link, flags;
	uint64_t number, first_seq, first_ordinal;
	int64_t base_time;
	uint16_t count;
	uint8_t pairs;
};

/* Builds the body of one log entry by entry. Plain memory, no allocation. */
struct pr_tslog_builder {
	struct pr_writer entries;
	uint8_t *buf;
	size_t room; /* for the whole body */
	struct pr_tslog_header header;
	uint8_t macs[PR_TSLOG_PAIRS_MAX][12];
	uint8_t last_pair, other_pair;
	uint64_t last_seq, last_ordinal;
	int64_t last_time;
};

/* room: most bytes of the body, MTU less PR_FRAME_HEADER and PR_FRAME_TAG; at least 256. */
void pr_tslog_begin(struct pr_tslog_builder *b, uint16_t link, uint16_t flags,
	uint64_t number, void *buf, size_t room);
/*
 * false: full (bytes, entries or MAC pairs), finish it and begin another. seqs and ordinals must grow,
 * ordinals without INTERLEAVED by one. An empty log refuses only what no log can hold: seq 0,
 * ordinal UINT64_MAX, a runt_len over 13.
 */
bool pr_tslog_add(struct pr_tslog_builder *b, const struct pr_entry *e);
/* Returns the body's length; body starts at *body (inside buf). 0: no entries. */
size_t pr_tslog_finish(struct pr_tslog_builder *b, const uint8_t **body);

/*
 * Reading: open checks the header, next gives entries; -1 on a bad body (the reader then stops).
 * An entry given before a -1 is not to be trusted either: take a log whole or not at all.
 */
struct pr_tslog_reader {
	struct pr_cursor c;
	struct pr_tslog_header header;
	const uint8_t *macs;
	uint16_t left;
	uint8_t last_pair, other_pair;
	uint64_t last_seq, last_ordinal;
	int64_t last_time;
};
int pr_tslog_open(struct pr_tslog_reader *r, const void *body, size_t len);
/* 1, 0 at the end, -1 */
int pr_tslog_next(struct pr_tslog_reader *r, struct pr_entry *out);
