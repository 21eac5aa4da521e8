/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "merger/handout.h"
#include "merger/manifest.h"
#include "merger/registry.h"
#include "merger/route.h"

/*
 * A running query. It is sent to the nodes; their answers are merged in the total order and
 * sent to the client as it gives credit. A slow client slows the nodes, since they get
 * credit only for what the merge has used; so memory stays bounded. A node that is lost,
 * does not respond or sends invalid data is dropped, and the completeness report at the end
 * lists it.
 */

/* A node that owes a batch is dropped after this long without a message. */
#define PRM_FANOUT_SILENT_NS INT64_C(10000000000)
/*
 * dropped after this long without progress (packets, or a later watermark), though it sends
 * messages
 */
#define PRM_FANOUT_STUCK_NS INT64_C(120000000000)
/* how long a client whose queue is full may take to read the end of its answer */
#define PRM_FANOUT_TELL_NS INT64_C(60000000000)
#define PRM_FANOUT_BATCH (512 * 1024) /* bytes of a batch to the client, about */
/* bytes of batches that wait to be merged */
#define PRM_FANOUT_QUEUED_MAX (64 * 1024 * 1024)
/* Bytes of coverage that nodes reported. */
#define PRM_FANOUT_STRETCHES_MAX (32 * 1024 * 1024)

struct prm_fanout_state {
	bool done, cancelled;
	bool complete; /* done, and nothing is missing */
	/* done, and the client's queue has no room for the End or Failure yet */
	bool untold;
	uint64_t number; /* as in the options */
	const struct pr_rpc_peer *client; /* NULL: this process */
	uint64_t matched; /* packets so far */
	uint64_t asked, left_out; /* nodes, by the first round of asking */
};

struct prm_fanout_options {
	struct prm_peer_ref client;
	uint64_t id; /* the client's */
	uint64_t number; /* the merger's number, shown in the status; never used twice */
	const Packrack__Query *query;
	const struct prm_registry *registry;
	const struct prm_summaries *summaries; /* NULL: all nodes are asked */
	/* of other mergers, for prm_fanout_create only; or NULL */
	const struct prm_exclusions *exclusions;
	uint64_t *next_id; /* id of the next request to a node; never used twice */
	int64_t mono, real;
	int64_t silent_ns; /* 0: PRM_FANOUT_SILENT_NS */
	const struct prm_signer *signer; /* borrowed; of a query with a manifest */
	struct prm_gate *
		gate; /* taken over if it begins; or NULL: the client may have all (handout.h) */
	/*
	 * If set, the client is in this process, and `client` is empty. The function takes
	 * what would be sent; it returns -1 if the client wants no more. It must not call
	 * the fan-out. Nothing follows an End or Failure.
	 */
	int (*deliver)(void *arg, const Packrack__Envelope *env);
	void *deliver_arg;
};

/* With Query.follow: shortest time between the starts of two rounds of requests. A merger looks every 100 ms, so there are ten a second at most. */
#define PRM_FANOUT_FOLLOW_NS INT64_C(50000000)
/* Later rounds end so long ago: the ledger confirms a packet after some 150 ms, and a round waits for what is not confirmed yet. */
#define PRM_FANOUT_CONFIRM_NS INT64_C(100000000)
/* Packets of so long ago are stored, and confirmed by a MARK, in a rack that keeps up. */
#define PRM_FANOUT_SETTLED_NS INT64_C(500000000)

/* Sends the query to the nodes. NULL: not started, and err is for the client. */
struct prm_fanout *prm_fanout_create(
	const struct prm_fanout_options *options, struct pr_error *err);
/*
 * Cancels what nodes still work on, and frees the query. why: sent as Failure to the client
 * if the query still runs; NULL: nothing is sent.
 */
void prm_fanout_destroy(struct prm_fanout **f, const char *why);

/* Handles a node's message. True: it belonged to this query. */
bool prm_fanout_on_message(struct prm_fanout *f, const struct prm_peer_ref *from,
	const Packrack__Envelope *env, int64_t mono);
/*
 * True if `from` is the client, and id is that of its query, or of a node whose batches the
 * client merges.
 */
bool prm_fanout_is_client(
	const struct prm_fanout *f, const struct prm_peer_ref *from, uint64_t id);
void prm_fanout_credit(struct prm_fanout *f, uint64_t id, uint32_t batches);
/*
 * Ways to end:
 *   The client cancels: it gets End, marked cancelled unless the query follows. With the id
 *   of a node whose batches it merges, only that node is dropped.
 *   Another client cancels: the client gets End, marked cancelled.
 *   A node is lost: the answer continues, and is incomplete.
 */
void prm_fanout_cancel_by_client(struct prm_fanout *f, uint64_t id);
void prm_fanout_cancel_by_other(struct prm_fanout *f);
void prm_fanout_on_node_lost(
	struct prm_fanout *f, const struct prm_peer_ref *node, const char *why);
/*
 * Call a few times a second: checks deadlines, and sends packets that have waited for a
 * fuller batch.
 */
void prm_fanout_tick(struct prm_fanout *f, int64_t mono);
/* As it is asked; valid while f is. */
const Packrack__Query *prm_fanout_query(const struct prm_fanout *f);
/* Valid while f is. */
const struct prm_fanout_state *prm_fanout_state(const struct prm_fanout *f);
/* What it costs so far. Texts are borrowed, valid while f is. */
Packrack__RunningQuery *prm_fanout_report(struct prm_fanout *f);
