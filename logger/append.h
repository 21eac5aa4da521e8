/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRL_LOGGER_APPEND_H
#define PRL_LOGGER_APPEND_H

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
struct prl_append;

#define PRL_STRAY_LINK 0xffff
#define PRL_LINK_BY_NAME                                                                   \
	(-1) /* as number of a link: that of its name, or the next free one */
#define PRL_SEGMENT_AGE_DEFAULT (100 * PR_NS_PER_MS)

struct prl_append_options {
	/* ns; a segment is sealed when so old, or at about PR_SEGMENT_TARGET, or both at less: see append.c */
	int64_t segment_age;
	int64_t far_ticks; /* ns, they are so far apart: each seals what is worth a segment; 0: near */
	bool unhurried; /* nobody asks for what was just stored: its directory may be later */
};

struct prl_append_counters {
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
struct prl_append *prl_append_create(
	struct sfs *sfs, const struct prl_append_options *options, struct pr_error *err);
void prl_append_destroy(struct prl_append **append); /* call prl_append_flush first */

/* In order of seq per (epoch, link); all of one link. Copies. Returns how many are lost, and declared so. */
size_t prl_append_packets(struct prl_append *a, const struct pr_packet *p, size_t count);
/* -1: lost */
static inline int
prl_append_packet(struct prl_append *a, const struct pr_packet *p)
{
	return prl_append_packets(a, p, 1) ? -1 : 0;
}
/* p: time, data, lengths; the rest is filled in. */
int prl_append_stray(struct prl_append *a, const struct pr_packet *p);

void prl_append_loss(struct prl_append *a, const struct pr_loss *loss);
void prl_append_link(struct prl_append *a, const struct pr_ledger_link *link);
/* port->speed is not 0 */
void prl_append_port(struct prl_append *a, uint64_t epoch, const struct pr_port *port);
/* The same of a link that another node has heard: a reset does not tell it again. */
void prl_append_moved_link(struct prl_append *a, const struct pr_ledger_link *link);
void prl_append_boot(struct prl_append *a, const struct pr_ledger_boot *boot);
void prl_append_deleted(struct prl_append *a, const struct pr_ledger_deleted *deleted);
/* Kept, and written when it says something new, or each second. */
void prl_append_mark(struct prl_append *a, const struct pr_ledger_mark *mark);

/* 0: stored; 1: not now, the volume is not writing; -1: it can never be, err says why. */
int prl_append_index(
	struct prl_append *a, const struct pr_index_record *index, struct pr_error *err);

/* Every 10 ms or o.far_ticks (now: monotonic): seals what is old, tries again, lets the volume work. */
void prl_append_tick(struct prl_append *a, int64_t now);
/* Seals everything and makes it durable. */
int prl_append_flush(struct prl_append *a, struct pr_error *err);
/* Deletes all that is stored (RESET). */
int prl_append_reset(struct prl_append *a, struct pr_error *err);

/* Why the volume refuses, or NULL. */
const char *prl_append_suspended(const struct prl_append *a);
const struct prl_append_counters *prl_append_counters(const struct prl_append *a);

#endif
