/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "proto/rpc/packrack.pb-c.h"
#include "proto/wire/source.h"

/*
 * The completeness of an answer: which packets there should be, which are missing, and why.
 *
 * Every node reports the seqs that it holds as ranges (Held), and a watermark: all that it holds before this time
 * is reported. The union of the ranges has gaps. A gap is judged when the watermarks of all nodes are past it, and
 * the ranges before it are freed. So memory holds what lies between the slowest node and the fastest, never the
 * whole answer. Gaps at the ends of the time range are bounded by edges (seqs held just outside), and by what the
 * dispatcher declared (Ledger). At the end each gap gets a reason: lost (Loss), evicted, pending, or a node that did
 * not answer. A packet with two copies is missing only if no node holds either.
 *
 * No I/O; time is an argument. One thread. Input is not trusted: a report that contradicts itself is refused with
 * -1 and err (the caller then fails the node); one that comes too late is ignored.
 */

#define PRM_COMPLETENESS_LIST_MAX 10000 /* entries listed; the rest goes into classes */
#define PRM_COMPLETENESS_CLASSES_MAX 1000
/* kept until the end; beyond, the gaps of a minute become one */
#define PRM_COMPLETENESS_GAPS_MAX 100000
#define PRM_COMPLETENESS_LOSSES_MAX 500000 /* loss entries kept of all nodes */
#define PRM_COMPLETENESS_SERIES_MAX 65536 /* pairs of epoch and link */

struct prm_completeness_options {
	/* as asked, both ends included; INT64_MIN: from the oldest packet on; INT64_MAX: to `now` */
	int64_t since, until;
	int64_t now; /* real time of the query */
	const char *link; /* name or number asked for; NULL or "": all */
	bool settled; /* the nodes were asked to wait for what live dispatchers have sent: what is not confirmed then, will not be */
	bool partial_scope; /* only some nodes are asked: packets that none of them reports lie elsewhere */
	/* judge gaps when the ranges take more bytes than this; 0: 1 MiB */
	size_t sweep_bytes;
};

struct prm_completeness *prm_completeness_create(
	const struct prm_completeness_options *options, struct pr_error *err);
void prm_completeness_destroy(struct prm_completeness **c);

/* Is it the link of this number, as in the options? A name says nothing; "" is any. */
bool prm_link_is(const char *wanted, uint32_t link);

/* Registers a node; returns its index, or -1 without memory. name is copied. */
int prm_completeness_node(
	struct prm_completeness *c, const char *name, struct pr_error *err);

/*
 * What the answer says of the node: its name; an error if it failed. Set `accounted` if it did not answer, and others,
 * which did, have the ledgers of all links that it recorded: an answer without a gap is then complete without it.
 */
Packrack__NodeAnswer *prm_completeness_answer(const struct prm_completeness *c, int node);

/*
 * Sets why the node was asked, or not asked (then its summaries are reported instead). why
 * is copied.
 */
void prm_completeness_set_reason(
	struct prm_completeness *c, int node, const char *why, bool left_out);

/* Takes the ranges and the watermark of a batch. -1: they contradict themselves, or no memory. */
int prm_completeness_batch(struct prm_completeness *c, int node,
	const Packrack__Batch *batch, struct pr_error *err);
/*
 * Call when a node's ranges are taken from summaries. A summary knows the times of a range's first and last packet
 * only, so packets outside the time range may be counted as held. The answer then says "at most" (held_at_most).
 */
void prm_completeness_bounds_only(struct prm_completeness *c);
/* The node has sent its End. Takes the losses, evictions and ledgers in it. */
int prm_completeness_end(struct prm_completeness *c, int node, const Packrack__End *end,
	struct pr_error *err);
/*
 * The node did not answer, or not completely. why is copied; later calls do not replace it.
 */
void prm_completeness_failed(struct prm_completeness *c, int node, const char *why);

/*
 * The answer ends at this packet, because of its limit or because it was cancelled; NULL: at what the nodes have given.
 * Later packets are not judged, and nodes without End count as answered.
 */
void prm_completeness_truncate(struct prm_completeness *c, const struct pr_packet *last);

/*
 * Bytes that the ranges take; and: true if all other nodes wait for this one. Used to
 * decide on credit.
 */
size_t prm_completeness_bytes(const struct prm_completeness *c);
bool prm_completeness_is_slowest(const struct prm_completeness *c, int node);

/* Seqs judged so far that more than one node holds. If there are any, counts of nodes do not add up. */
uint64_t prm_completeness_duplicates(const struct prm_completeness *c);

/*
 * Judges the remaining gaps and gives each a reason. Call once. The caller frees *out with
 * packrack__completeness__free_unpacked(out, NULL).
 */
int prm_completeness_finish(
	struct prm_completeness *c, Packrack__Completeness **out, struct pr_error *err);

/*
 * The list of missing packets, in bounded memory. Ranges at equal distances are one entry ("every third seq"); what does
 * not fit goes into classes. Counts of all entries and classes add up to missing_packets, their ranges to
 * missing_ranges.
 */

/* Lists l, which has count and ranges; its strings are copied. -1: no memory. */
int prm_losses_add(Packrack__Completeness *out, const Packrack__Loss *l);
/* Moves the last entries into classes, until the list has at most `max`. */
void prm_losses_shorten(Packrack__Completeness *out, size_t max);
/* Sorts the list by time. */
void prm_losses_sort(Packrack__Completeness *out);

/*
 * Adds a gap of an epoch series, whose cause is not known yet; by seq, and without overlap. all: the gaps of all series;
 * above PRM_COMPLETENESS_GAPS_MAX those of a minute become one (ranges > 1, no step). -1: no memory.
 */
int prm_gaps_add(
	Packrack__Loss ***gaps, size_t *count, const Packrack__Loss *gap, size_t all);

/* Reasons in Completeness.unobserved: a link was not observed at this time, or not for certain. */
#define PRM_UNOBSERVED_BEFORE "before" /* its first capture began later */
/* a user had stopped the capture, or the dispatcher was ended */
#define PRM_UNOBSERVED_STOPPED "stopped"
#define PRM_UNOBSERVED_NO_CARRIER "no_carrier"
#define PRM_UNOBSERVED_GONE "gone" /* nothing was heard of the dispatcher */
#define PRM_UNOBSERVED_UNKNOWN "unknown" /* not confirmed yet */
#define PRM_UNOBSERVED_FILE "file" /* outside of the trace file */
/* no link has the name or number that was asked for */
#define PRM_UNOBSERVED_NO_LINK "no_link"
#define PRM_UNOBSERVED_MAX 1000 /* listed; neighbours of one link beyond are put together */

/* Reasons in Completeness.missing besides the loss reasons that nodes give. */
#define PRM_MISSING_NO_ANSWER "no_answer" /* a node that may have it did not answer */
#define PRM_MISSING_CORRUPT "corrupt" /* a node found records that it cannot read */
#define PRM_MISSING_ONE_OF "one_of" /* of several causes, which `node` lists */
#define PRM_MISSING_DROPPED "dispatcher" /* the dispatcher had no node, or could not send */
/* announced by a dispatcher that has ended, not stored */
#define PRM_MISSING_UNDELIVERED "undelivered"
/* announced by the dispatcher, on no node that was asked */
#define PRM_MISSING_UNKNOWN "not_stored"
