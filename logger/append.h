/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_LOGGER_APPEND_H
#define PR_LOGGER_APPEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "logger/indexes.h"
#include "logger/streamfs/streamfs.h"
#include "proto/base/counter.h"
#include "proto/wire/ledger.h"
#include "proto/wire/source.h"

/*
 * The writer of a volume: packets go into one segment per (epoch, link), stream "packets.N"; facts into
 * "ledger"; where segments lie into "segments"; frames that were never matched into "strays". One thread.
 *
 * When the volume refuses a segment the writer is suspended: the segment is kept and tried again every
 * 100 ms, and what comes meanwhile is lost, counted and declared in the ledger (PR_LOSS_WRITE).
 */
struct pr_append;

#define PR_STRAY_LINK 0xffff
#define PR_SEGMENT_AGE_DEFAULT (100 * PR_NS_PER_MS)

struct pr_append_options {
	/* ns; a segment is sealed when so old, or at about PR_SEGMENT_TARGET, or both at less: see append.c */
	int64_t segment_age;
	int64_t far_ticks; /* ns, they are so far apart: each seals what is worth a segment; 0: near */
	bool unhurried; /* nobody asks for what was just stored: its directory may be later */
};

struct pr_append_counters {
	pr_counter packets_stored, bytes_stored; /* sealed or in a segment being built */
	pr_counter packets_durable;
	pr_counter segments_stored;
	pr_counter strays_stored;
	pr_counter
		lost_write; /* packets that came while suspended, or are too long for a block */
	pr_counter write_errors;
	pr_counter ledger_refused; /* entries */
	pr_counter index_records, index_bytes; /* stored */
};

/* sfs stays the caller's and must be a writer's. */
struct pr_append *pr_append_create(
	struct sfs *sfs, const struct pr_append_options *options, struct pr_error *err);
void pr_append_destroy(struct pr_append **append); /* call pr_append_flush first */

/* In order of seq per (epoch, link); all of one link. Copies. Returns how many are lost, and declared so. */
size_t pr_append_packets(struct pr_append *a, const struct pr_packet *p, size_t count);
/* -1: lost */
static inline int
pr_append_packet(struct pr_append *a, const struct pr_packet *p)
{
	return pr_append_packets(a, p, 1) ? -1 : 0;
}
/* p: time, data, lengths; the rest is filled in. */
int pr_append_stray(struct pr_append *a, const struct pr_packet *p);

void pr_append_loss(struct pr_append *a, const struct pr_loss *loss);
void pr_append_link(struct pr_append *a, const struct pr_ledger_link *link);
/* port->speed is not 0 */
void pr_append_port(struct pr_append *a, uint64_t epoch, const struct pr_port *port);
/* The same of a link that another node has heard: a reset does not tell it again. */
void pr_append_moved_link(struct pr_append *a, const struct pr_ledger_link *link);
void pr_append_boot(struct pr_append *a, const struct pr_ledger_boot *boot);
void pr_append_deleted(struct pr_append *a, const struct pr_ledger_deleted *deleted);
/* Kept, and written when it says something new, or each second. */
void pr_append_mark(struct pr_append *a, const struct pr_ledger_mark *mark);

/* 0: stored; 1: not now, the volume is not writing; -1: it can never be, err says why. */
int pr_append_index(
	struct pr_append *a, const struct pr_index_body *index, struct pr_error *err);

/* Every 10 ms or o.far_ticks (now: monotonic): seals what is old, tries again, lets the volume work. */
void pr_append_tick(struct pr_append *a, int64_t now);
/* Seals everything and makes it durable. */
int pr_append_flush(struct pr_append *a, struct pr_error *err);
/* Deletes all that is stored (RESET). */
int pr_append_reset(struct pr_append *a, struct pr_error *err);

/* Why the volume refuses, or NULL. */
const char *pr_append_suspended(const struct pr_append *a);
const struct pr_append_counters *pr_append_counters(const struct pr_append *a);

#endif
