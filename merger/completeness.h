/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRM_MERGER_COMPLETENESS_H
#define PRM_MERGER_COMPLETENESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/error.h"
#include "proto/rpc/packrack.pb-c.h"

/*
 * What an answer says of itself: which packets should be there, which are missing, and why.
 *
 * Every node tells the seqs it holds, stretch by stretch (Held), and how far it has told all
 * (frontier). Their union has holes; a hole is judged once no node can name it any more, that is
 * when all frontiers are past it, and the stretches behind it are forgotten. So memory holds what
 * lies between the slowest node and the fastest, never the whole answer. Holes at the ends of the
 * time range are bounded by edges (seqs held just outside), and by what the dispatcher declared
 * (Ledger). At the end each hole is explained: lost (Loss), evicted, pending, or by what is known
 * of nodes that did not answer. A packet with two copies is missing only if no node holds either.
 *
 * A pure core: no I/O, no clock. One thread. Input is hostile: what makes no sense is refused with
 * -1 and err (the caller then fails the node), what comes too late is ignored.
 */
struct prm_completeness;

#define PRM_COMPLETENESS_LIST_MAX 10000 /* ranges listed; all are counted */
#define PRM_COMPLETENESS_GAPS_MAX                                                          \
	200000 /* holes kept until the end; the surplus is only counted */
#define PRM_COMPLETENESS_LOSSES_MAX 500000 /* loss entries kept of all nodes */
#define PRM_COMPLETENESS_SERIES_MAX 65536 /* pairs of epoch and link */
/*
 * A dispatcher that said something within this time is alive: what a node has not settled yet may
 * still come. MARKs come every 100 ms, a node settles within its hold time of 2 s.
 */
#define PRM_COMPLETENESS_ALIVE_NS INT64_C(4000000000)

struct prm_completeness_options {
	int64_t since, until; /* as asked, both ends included */
	int64_t now; /* real time */
	const char *link; /* name or number asked for; NULL or "": all */
	bool part; /* only some nodes are asked: what none of them knows of lies elsewhere */
	size_t sweep_bytes; /* judge when stretches take more than this; 0: 1 MiB */
};

struct prm_completeness *prm_completeness_create(
	const struct prm_completeness_options *options, struct pr_error *err);
void prm_completeness_destroy(struct prm_completeness **c);

/* Registers a node; returns its index, or -1 without memory. name is copied. */
int prm_completeness_node(
	struct prm_completeness *c, const char *name, struct pr_error *err);

const char *prm_completeness_name(const struct prm_completeness *c, int node);

/* On what ground it was asked, or left out (then what its summaries say is told instead); copied. */
void prm_completeness_set_reason(
	struct prm_completeness *c, int node, const char *why, bool left_out);

/* What a Batch says. -1 when it makes no sense or memory is short. */
int prm_completeness_batch(struct prm_completeness *c, int node,
	const Packrack__Batch *batch, struct pr_error *err);
/* What is told as held may lie outside the time range, too: of some only about when they were is known. */
void prm_completeness_bounds_only(struct prm_completeness *c);
/* The node has answered to its end: losses, evictions, ledgers. */
int prm_completeness_end(struct prm_completeness *c, int node, const Packrack__End *end,
	struct pr_error *err);
/* The node did not answer, or not to its end; why is copied, the first one stays. */
void prm_completeness_failed(struct prm_completeness *c, int node, const char *why);

/*
 * The answer was cut on purpose (limit, cancel) at a packet of this otime: what comes after is not
 * judged, nodes that have not ended count as answered.
 */
void prm_completeness_truncate(struct prm_completeness *c, int64_t otime);

/* Bytes that stretches take, and whether this node is the one that all wait for: for throttling. */
size_t prm_completeness_bytes(const struct prm_completeness *c);
bool prm_completeness_is_slowest(const struct prm_completeness *c, int node);

/* Seqs that more than one node holds (so far judged): counts by node cannot just be summed then. */
uint64_t prm_completeness_duplicates(const struct prm_completeness *c);

/*
 * Judges the rest and explains. Call once. *out is the caller's, to be freed by
 * packrack__completeness__free_unpacked(out, NULL).
 */
int prm_completeness_finish(
	struct prm_completeness *c, Packrack__Completeness **out, struct pr_error *err);

/* Reasons in Completeness.missing besides the loss reasons that nodes give. */
#define PRM_MISSING_NO_ANSWER "no_answer" /* a node that may have it did not answer */
#define PRM_MISSING_CORRUPT "corrupt" /* a node found records that it cannot read */
#define PRM_MISSING_DROPPED                                                                \
	"dispatcher" /* the dispatcher had no node for it or could not send */
#define PRM_MISSING_UNDELIVERED "undelivered" /* declared by a dispatcher that is gone */
#define PRM_MISSING_UNKNOWN "not_stored" /* declared, and no node knows of it */

#endif
