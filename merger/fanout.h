/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRM_MERGER_FANOUT_H
#define PRM_MERGER_FANOUT_H

#include "merger/registry.h"
#include "merger/route.h"

/*
 * One query on its way: asked of the nodes, their answers merged in the total order and sent on to
 * the client as it gives credit. A client that is slow slows the nodes (their credit comes from what
 * the merge has used up), so memory stays bounded. A node that dies, falls silent or talks nonsense
 * is left out from there on, and the completeness at the end says so.
 *
 * One thread. Times are monotonic ns.
 */
struct prm_fanout;

#define PRM_FANOUT_SILENT_NS                                                               \
	INT64_C(10000000000) /* not heard from a node that owes a batch */
#define PRM_FANOUT_STUCK_NS INT64_C(120000000000) /* alive, and yet no batch */
#define PRM_FANOUT_BATCH (512 * 1024) /* bytes of a batch to the client, about */
#define PRM_FANOUT_QUEUED_MAX                                                              \
	(64 * 1024 * 1024) /* bytes of batches that wait to be merged */
#define PRM_FANOUT_STRETCHES_MAX                                                           \
	(32 * 1024 * 1024) /* bytes of what nodes told that they hold */

struct prm_fanout_state {
	bool done;
	/* done, and this client was not told, as its queue is full or it is gone; its query's id */
	const struct prm_peer_ref *untold;
	uint64_t id;
	uint64_t number; /* as in the options */
	uint64_t matched; /* packets so far */
	uint64_t asked, left_out; /* nodes, by the first round of asking */
};

struct prm_fanout_options {
	struct prm_peer_ref client;
	uint64_t id; /* the client's */
	uint64_t number; /* the merger's, for whoever looks on; never used twice */
	const Packrack__Query *query;
	const struct prm_registry *registry;
	const struct prm_summaries *summaries; /* NULL: all nodes are asked */
	const struct prm_exclusions
		*exclusions; /* of other mergers, for prm_fanout_create only; or NULL */
	uint64_t *next_id; /* of what is asked of nodes; never used twice */
	int64_t mono, real;
	int64_t silent_ns; /* 0: PRM_FANOUT_SILENT_NS */
	/*
	 * Set: the client is in this process (client is empty then). Takes what would be sent to it; -1:
	 * it wants no more. Must not call the fan-out. After End or Failure nothing comes.
	 */
	int (*deliver)(void *arg, const Packrack__Envelope *env);
	void *deliver_arg;
};

/* With Query.follow: between the beginnings of two rounds of asking, at least. */
#define PRM_FANOUT_FOLLOW_NS INT64_C(200000000)

/* Asks the nodes. NULL: err is for the client. */
struct prm_fanout *prm_fanout_create(
	const struct prm_fanout_options *options, struct pr_error *err);
/* Cancels what nodes are still at. why: a Failure for the client of a query that goes on; NULL: none. */
void prm_fanout_destroy(struct prm_fanout **f, const char *why);

/* Is it of this query? Then it has been dealt with. */
bool prm_fanout_on_message(struct prm_fanout *f, const struct prm_peer_ref *from,
	const Packrack__Envelope *env, int64_t mono);
/* Is it the client, and the id that of its query, or of a node whose batches it merges? */
bool prm_fanout_is_client(
	const struct prm_fanout *f, const struct prm_peer_ref *from, uint64_t id);
void prm_fanout_credit(struct prm_fanout *f, uint64_t id, uint32_t batches);
/*
 * Ways to end. The client cancels: it gets End, cancelled unless the query follows; with the id of a node whose
 * batches it merges, that node is dropped. Somebody else cancels: the client gets End, cancelled. A node is lost:
 * the answer goes on, and is incomplete.
 */
void prm_fanout_cancel_by_client(struct prm_fanout *f, uint64_t id);
void prm_fanout_cancel_by_other(struct prm_fanout *f);
void prm_fanout_on_node_lost(
	struct prm_fanout *f, const struct prm_peer_ref *node, const char *why);
/* A few times a second: deadlines, and sends what has waited for more. */
void prm_fanout_tick(struct prm_fanout *f, int64_t mono);
/* Valid while f is. */
const struct prm_fanout_state *prm_fanout_state(const struct prm_fanout *f);
/* What it costs so far. Texts are borrowed, valid while f is. */
Packrack__RunningQuery *prm_fanout_report(struct prm_fanout *f);

#endif
