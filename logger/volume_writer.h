/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "logger/journal.h"
#include "proto/base/counter.h"
#include "proto/wire/source.h"

/*
 * The writer of a volume: packets go into one segment per (epoch, link), stream
 * "packets.N"; ledger entries into "ledger"; locations of segments into "segments"; frames
 * that were never matched into "strays". One thread.
 *
 * When the volume refuses a segment the writer is suspended: the segment is kept and tried
 * again every 100 ms. Packets that come in the meantime are lost, and are counted and
 * declared in the ledger (PR_LOSS_WRITE).
 */

#define PRL_STRAY_LINK 0xffff
#define PRL_LINK_BY_NAME                                                                   \
	(-1) /* as number of a link: that of its name, or the next free one */
#define PRL_SEGMENT_AGE_DEFAULT (100 * PR_NS_PER_MS)

struct prl_writer_options {
	/*
	 * A segment is sealed at about PR_SEGMENT_TARGET bytes, at this age (ns), or from a quarter full
	 * on at 40 % of this age.
	 */
	int64_t segment_age;
	int64_t tick_ns; /* tick period of a direct capture; 0: short */
	bool lazy_directory; /* the directory may be written late: nobody queries what was just stored */
};

struct prl_writer_counters {
	pr_counter packets_stored, bytes_stored; /* sealed or in a segment being built */
	pr_counter packets_durable;
	pr_counter segments_stored;
	pr_counter strays_stored;
	/* packets that came while suspended, or are too long for a block */
	pr_counter lost_write;
	pr_counter write_errors;
	pr_counter ledger_refused; /* entries */
	pr_counter index_records, index_bytes; /* stored */
};

/* sfs stays the caller's and must be a writer's. */
struct prl_volume_writer *prl_writer_create(
	struct sfs *sfs, const struct prl_writer_options *options, struct pr_error *err);
/* call prl_writer_flush first */
void prl_writer_destroy(struct prl_volume_writer **append);

/*
 * Copies and stores a packet. Call in order of seq for each (epoch, link). 0, or -1: the
 * packet was lost, which is declared in the ledger.
 */
int prl_writer_put_packet(struct prl_volume_writer *a, const struct pr_packet *p);
/* Stores a stray. p needs time, data and lengths only; the rest is filled in. */
int prl_writer_stray(struct prl_volume_writer *a, const struct pr_packet *p);

/* The entry that names a link. name: cut to PR_NAME_MAX bytes. */
struct pr_ledger_entry prl_link_entry(uint64_t epoch, uint16_t link, uint16_t linktype,
	uint32_t snaplen, const char *name);
/* Adds an entry to the ledger; not for MARKs. */
void prl_writer_tell(struct prl_volume_writer *a, const struct pr_ledger_entry *e);
/* Adds a BOOT, LINK or PORT entry of this recording, and again after a reset. */
void prl_writer_keep(struct prl_volume_writer *a, const struct pr_ledger_entry *e);
/* Adds what is new in the observation of a link to the ledger; *told becomes equal to it. */
void prl_writer_tell_observation(struct prl_volume_writer *a, uint64_t epoch,
	struct pr_observation *told, const struct pr_observation *now);
/*
 * Keeps the MARK, and writes it to the ledger when its content is new, or four times a second. The link's open
 * segment is sealed first: a reader of the ledger finds all packets that a MARK declares.
 */
void prl_writer_put_mark(struct prl_volume_writer *a, const struct pr_ledger_mark *mark);

/*
 * Stores an index record. 0: stored; 1: not now, the writer is suspended; -1: refused, see
 * err.
 */
int prl_writer_index(struct prl_volume_writer *a, const struct pr_index_record *index,
	struct pr_error *err);

/* How the packets of a class are kept, from now on. */
void prl_writer_set_class(struct prl_volume_writer *a, const struct pr_class *class);

/* Every 10 ms or o.tick_ns (now: monotonic): seals what is old, tries again, lets the volume work. */
void prl_writer_tick(struct prl_volume_writer *a, int64_t now);
/* Seals everything and makes it durable. */
int prl_writer_flush(struct prl_volume_writer *a, struct pr_error *err);
/* Deletes all that is stored (RESET). */
int prl_writer_reset(struct prl_volume_writer *a, struct pr_error *err);

/* Why the volume refuses, or NULL. */
const char *prl_writer_suspend_reason(const struct prl_volume_writer *a);
const struct prl_writer_counters *prl_writer_counters(const struct prl_volume_writer *a);

/*
 * Packets moved here from another node. They keep epoch, link, seq and times, so an answer
 * gives each packet once, wherever it is stored. One thread, the volume's writer's.
 */

/*
 * body: a MIXED segment (proto/wire/segment.h). Takes all packets (0), or none (-1 and
 * err). They are durable after prl_writer_flush. copies: into the streams for copies.
 */
int prl_writer_put_moved(struct prl_volume_writer *a, const void *body, size_t len,
	bool copies, struct pr_error *err);

/* Appends a record to a stream for what the rack knows besides packets. It is durable when this returns. */
int prl_writer_record(struct prl_volume_writer *a, const char *stream, const void *bytes,
	size_t len, struct pr_error *err);
/*
 * Holds: packets of this volume that are copied into the streams of a class of their own, hold.NAME. A hold's definition
 * goes into stream "holds"; it is durable when this returns. -1: the volume refuses it, or its guarantee.
 */
int prl_writer_hold(struct prl_volume_writer *a, const struct pr_class *class,
	const void *definition, size_t len, struct pr_error *err);
/* body: a segment, MIXED or not. Packets of links from PR_STREAM_CLASS_LINKS on are passed over: they have no such streams. */
int prl_writer_put_held(struct prl_volume_writer *a, const struct pr_class *class,
	const void *body, size_t len, struct pr_error *err);
