/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_WIRE_LEDGER_H
#define PR_WIRE_LEDGER_H

#include "proto/base/cursor.h"
#include "proto/wire/frame.h"

/*
 * Small facts that a logger keeps in its volume, stream "ledger": records whose body is a run of
 * entries: type u8, version u8 (1), length u16, payload (little-endian, field by field). Readers
 * skip types, and versions of types, that they do not know. Names as in frame.h. Payloads:
 *
 *   MARK       epoch u64, said until i64, stopping bool, then a MARK's line for a link as in frame.h
 *   LOSS       epoch u64, first seq u64, last seq u64 (not below first), count u64, first time i64,
 *              last time i64, link u16, reason u8, second bool
 *   BOOT       time i64, nonce u32, name
 *   LINK       epoch u64, link u16, link type u16, snap length u32, name
 *   DELETED    at i64, until i64, records u64, bytes u64, link u16, phase u8, by name, moved
 *              to name
 *   PORT       epoch u64, link u16, speed u64 (not 0)
 */
enum pr_ledger_type {
	PR_LEDGER_MARK =
		1, /* one link of a MARK, with epoch and said_until; the latest counts */
	PR_LEDGER_LOSS = 2,
	PR_LEDGER_BOOT = 3, /* the logger started: time, nonce, node name */
	PR_LEDGER_LINK = 4, /* (epoch, link) has this name, link type, snap length */
	/* 5 and 6: reserved, never reuse */
	PR_LEDGER_DELETED = 7, /* somebody had a link's oldest packets deleted */
	PR_LEDGER_PORT = 8, /* speed of the interface of (epoch, link) */
};

enum pr_loss_reason {
	PR_LOSS_SWITCH = 1, /* logged, and the frame never came (or came damaged) */
	PR_LOSS_LOG_GONE = 2, /* the log is gone: seqs first..last hold count of them */
	PR_LOSS_NODE_KERNEL = 3,
	PR_LOSS_WRITE = 4, /* the volume refused it */
	PR_LOSS_NODE_STOP = 5, /* the node stopped before it was stored */
};
const char *pr_loss_reason_name(unsigned reason);

/*
 * count packets of (epoch, link) with seqs in first..last are missing at this node. count less than
 * the node's packets in the range: one (or count) of them, identical frames leave no choice.
 */
struct pr_loss {
	uint64_t epoch, first_seq, last_seq, count;
	int64_t first_time, last_time; /* otime of the ends */
	uint16_t link;
	uint8_t reason; /* enum pr_loss_reason */
	uint8_t second; /* it was a second copy */
};

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
	PR_DELETION_BEGINS, /* since, until: as far as it may go */
	PR_DELETION_STEP, /* until: packets up to there are gone, by this and by what was recycled before */
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
	char moved_to[PR_NAME_MAX +
		      1]; /* a node, volume or file that has them; "": nobody has */
};

struct pr_ledger_link {
	uint64_t epoch;
	uint16_t link, linktype;
	uint32_t snaplen;
	char name[PR_NAME_MAX + 1];
};

/* Only where it is known: a card may not say, and a trace file has none. */
struct pr_ledger_port {
	uint64_t epoch;
	uint16_t link;
	uint64_t speed; /* bits/s */
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
	} u;
};

/* false: no room for it (then nothing is written), an unknown type, or what readers would refuse. */
bool pr_ledger_store(struct pr_writer *w, const struct pr_ledger_entry *e);
#define PR_LEDGER_ENTRY_MAX 256 /* no entry is longer */
/*
 * A dispatcher whose last MARK is older is gone. Until then packets that a node has not stored yet may still
 * come: MARKs come every 100 ms, and a node waits for a packet's timestamp at most for the match timeout of 2 s.
 */
#define PR_LEDGER_ALIVE_NS INT64_C(4000000000)
/* 1 an entry (unknown types have been skipped), 0 at the end, -1 corrupt (and from then on). */
int pr_ledger_load(struct pr_cursor *c, struct pr_ledger_entry *out);

#endif
