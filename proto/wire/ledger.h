/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "proto/wire/frame.h"

/*
 * Small facts that a logger keeps in its volume, stream "ledger": records whose body is a run of
 * entries: type u8, version u8 (1; 2 of a LOSS with bits), length u16, payload (little-endian, field by field). Readers
 * skip types, and versions of types, that they do not know. Names as in frame.h. Payloads:
 *
 *   MARK       epoch u64, said until i64, stopping bool, then a MARK's line for a link as in frame.h
 *   LOSS       epoch u64, first seq u64, last seq u64 (not below first), count u64, first time i64,
 *              last time i64, link u16, reason u8, second bool; in version 2 then bits u64
 *   BOOT       time i64, nonce u32, name
 *   LINK       epoch u64, link u16, link type u16, snap length u32, name
 *   DELETED    at i64, since i64, until i64, records u64, bytes u64, link u16, phase u8,
 *              by name, moved to name
 *   PORT       epoch u64, link u16, speed u64 (not 0)
 *   IMPORT     epoch u64, link u16, size u64, packets u64, fingerprint u64, file name
 *   UNOBSERVED epoch u64, link u16, then a time of the link as in frame.h; of one (reason, since) the latest counts
 *   DURABLE    epoch u64, seq u64, link u16
 *   CLASS      number u8, guarantee u16, keep i64, name, version 2: memory u16: as in frame.h; the latest counts
 */
enum pr_ledger_type {
	/* one link of a MARK, with epoch and said_until; the latest counts */
	PR_LEDGER_MARK = 1,
	PR_LEDGER_LOSS = 2,
	PR_LEDGER_BOOT = 3, /* the logger started: time, nonce, node name */
	PR_LEDGER_LINK = 4, /* (epoch, link) has this name, link type, snap length */
	/* 5 and 6: reserved, never reuse */
	PR_LEDGER_DELETED = 7, /* packets of a link were deleted by order */
	PR_LEDGER_PORT = 8, /* speed of the interface of (epoch, link) */
	PR_LEDGER_IMPORT = 10, /* (epoch, link) was imported from this trace file */
	PR_LEDGER_UNOBSERVED = 9, /* a time at which (epoch, link) was not observed */
	PR_LEDGER_CLASS = 12, /* how the streams of a class are kept */
	PR_LEDGER_DURABLE = 11, /* what came of (epoch, link) up to seq survives a kill */
};

enum pr_loss_reason {
	PR_LOSS_SWITCH = 1, /* logged, and the frame never came (or came damaged) */
	PR_LOSS_LOG_GONE = 2, /* the log is gone: `count` of the seqs first..last */
	PR_LOSS_NODE_KERNEL = 3,
	PR_LOSS_WRITE = 4, /* the volume refused it */
	PR_LOSS_NODE_STOP = 5, /* the node stopped before it was stored */
	/* Not in the ledger; answers have them: */
	PR_LOSS_DISPATCHER = 6, /* it had no node, or could not send; as MARKs tell */
	PR_LOSS_UNREADABLE = 7, /* in a segment that is damaged */
	/* in a segment that is gone: its logger was killed before it was durable, or a repair has dropped it */
	PR_LOSS_UNSAVED = 8,
};
const char *pr_loss_reason_name(unsigned reason);

/*
 * `count` packets of (epoch, link) with seqs in first..last are missing at this node. Where
 * these are fewer than the range has, bits names them (bit 0: first_seq; at most 64 seqs). Without
 * bits it is not known which are missing: their frames are identical, or their log is gone.
 */
struct pr_loss {
	uint64_t epoch, first_seq, last_seq, count;
	uint64_t bits; /* 0: none */
	int64_t first_time, last_time; /* otime of the ends */
	uint16_t link;
	uint8_t reason; /* enum pr_loss_reason */
	uint8_t second; /* it was a second copy */
};

/* Of one seq. */
struct pr_loss pr_loss_of(uint64_t epoch, uint16_t link, uint64_t seq, int64_t otime,
	enum pr_loss_reason reason, bool second);
/* Widens l by a later loss of the same kind that follows it, or of one seq soon after, if l names each seq. */
bool pr_loss_join(struct pr_loss *l, const struct pr_loss *next);

struct pr_ledger_mark {
	uint64_t epoch;
	int64_t said_until;
	uint8_t stopping;
	struct pr_mark_link link;
};

struct pr_ledger_boot {
	int64_t time;
	uint32_t nonce;
	char name[PR_NAME_MAX + 1];
};

/*
 * A step of a deletion from stream "packets.LINK" (or "strays", link 65535). Entries of one deletion have the
 * same stream and `at`. BEGINS is durable before anything is deleted, STEP has the time reached, OVER ends it.
 */
enum pr_deletion_phase {
	PR_DELETION_BEGINS, /* since, until: the range that it may delete */
	PR_DELETION_STEP, /* until: packets up to there are deleted or overwritten */
	PR_DELETION_OVER,
};
struct pr_ledger_deleted {
	int64_t at; /* when it was ordered */
	int64_t since; /* PR_TIME_MIN: from the oldest on */
	int64_t until;
	uint64_t records, bytes; /* by this step */
	uint16_t link;
	uint8_t phase;
	char by[PR_NAME_MAX + 1];
	/* a node, volume or file that has them; "": nobody has */
	char moved_to[PR_NAME_MAX + 1];
};

struct pr_ledger_link {
	uint64_t epoch;
	uint16_t link, linktype;
	uint32_t snaplen;
	char name[PR_NAME_MAX + 1];
};

/*
 * The link's interface: its speed, and from where its timestamps come; again when the clock's state changes, or it
 * is set. A trace file has none.
 */
struct pr_ledger_port {
	uint64_t epoch;
	uint16_t link;
	uint64_t speed; /* bits/s; 0 unknown: not every card reports it */
	struct pr_clock clock; /* older versions have none */
};

/* What of a trace file was read; finds it again when it is imported a second time. */
struct pr_ledger_import {
	uint64_t epoch;
	uint16_t link;
	uint64_t size; /* of the file; 0: not known, a pipe */
	uint64_t packets;
	uint64_t fingerprint; /* of these packets: times, lengths and bytes */
	char name[PR_NAME_MAX + 1]; /* of the file, without folders */
};

/* Volumes of older versions have none: epochs without BEGIN or FILE. */
struct pr_ledger_unobserved {
	uint64_t epoch;
	uint16_t link;
	struct pr_unobserved time;
};

/* Said once all that a MARK with this last seq declares is on the disk. Older versions say nothing. */
struct pr_ledger_durable {
	uint64_t epoch, seq;
	uint16_t link;
};

struct pr_ledger_entry {
	uint8_t type;
	union {
		struct pr_ledger_mark mark;
		struct pr_loss loss;
		struct pr_ledger_boot boot;
		struct pr_ledger_link link;
		struct pr_ledger_deleted deleted;
		struct pr_ledger_port port;
		struct pr_ledger_import import;
		struct pr_ledger_unobserved unobserved;
		struct pr_ledger_durable durable;
		struct pr_class class;
	} u;
};

/* false: no room for it (then nothing is written), an unknown type, or what readers would refuse. */
bool pr_ledger_store(struct pr_writer *w, const struct pr_ledger_entry *e);
#define PR_LEDGER_ENTRY_MAX 256 /* no entry is longer */
/*
 * A dispatcher whose last MARK is older is gone. Until then nodes may still store packets:
 * MARKs come every 100 ms, and a node waits for a timestamp log for the match timeout (2 s
 * by default).
 */
#define PR_LEDGER_ALIVE_NS INT64_C(4000000000)
/*
 * 1: an entry (unknown types are skipped); 0: the end; -1: corrupt, also at each later
 * call.
 */
int pr_ledger_load(struct pr_cursor *c, struct pr_ledger_entry *out);
