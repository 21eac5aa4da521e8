/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_DISPATCHER_NODES_H
#define PR_DISPATCHER_NODES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/counter.h"
#include "proto/base/error.h"
#include "proto/wire/frame.h"

/*
 * The node table (CLog section 3.3): who announced itself, who is alive, how much each holds
 * that it has not yet acknowledged. A pure core: no I/O, time (monotonic ns) is an argument.
 * Used by the send thread only.
 */
#define PRD_NODES_MAX 256
#define PRD_NODE_SILENCE (2 * PR_NS_PER_S)
#define PRD_WINDOW_POINTS 256
#define PRD_WINDOW_DEFAULT (1 << 20) /* for a node that announces no buffer size */
/* A node's ring spends about this on each frame besides its bytes. */
#define PRD_FRAME_COST 128
/* Nonces that a node has given up; an old announcement cannot bring them back. */
#define PRD_RETIRED_MAX 8

enum prd_node_phase {
	PRD_NODE_ACTIVE,
	PRD_NODE_GONE, /* silent; comes back by ANN, or by STATUS with the same nonce */
	PRD_NODE_QUIT, /* said so; comes back by ANN */
	PRD_NODE_DISCONNECTED, /* told to leave; comes back after a `reconnect` */
};
const char *prd_node_phase_name(enum prd_node_phase phase);

/* What a node has been sent and has not acknowledged; see prd_window_sent. */
struct prd_window {
	uint64_t sent_cost, acked_cost;
	uint64_t placed_cost; /* in a batch that has not gone out yet */
	uint64_t size; /* announced by the node, or PRD_WINDOW_DEFAULT */
	uint64_t settled;
	uint64_t next_point_cost;
	struct {
		uint64_t ordinal, cost; /* all frames of lower ordinal cost so much */
	} points[PRD_WINDOW_POINTS];
	uint32_t first, count;
};

struct prd_node_log; /* logs.h: one per link */

struct prd_node {
	uint16_t number;
	uint8_t mac[PR_MAC_LEN];
	enum prd_node_phase phase;
	struct pr_ann ann;
	uint32_t nonce;
	uint32_t pending_nonce; /* announced while nonce was alive; waits for a STATUS */
	struct pr_ann pending_ann;
	uint32_t retired[PRD_RETIRED_MAX];
	unsigned retired_at;
	int64_t heard; /* monotonic ns */
	struct pr_status status;
	struct pr_replay replay[PR_FRAME_TYPES];
	uint64_t numbers[PR_FRAME_TYPES]; /* last number given to a frame for this node */
	uint64_t marks; /* rounds of MARKs sent to it */
	uint64_t controls_received; /* good frames, since it was admitted first */
	uint32_t mtu; /* the smaller of the node's and the o-port's */

	uint64_t next_ordinal;
	struct prd_window window;
	struct prd_node_log *logs; /* owned by logs.c */
	uint64_t primaries, seconds, bytes_sent; /* since it was admitted */
	uint64_t resend_asked, resend_answered, gone_answered, logs_sent;
	int64_t resend_budget;
	uint64_t lost_unacknowledged; /* frames it had not settled when it went silent */

	/* what it is told to do until it says that it did */
	uint8_t command_type; /* enum pr_frame_type; 0: nothing */
	uint64_t command;
	uint32_t command_seconds;
	uint64_t command_request; /* the manager's, 0 none */
	int64_t command_next, command_deadline;

	/* spread.c */
	struct prd_node *lru_next, *lru_prev;
	int64_t weight, credit;
};

struct prd_nodes {
	struct prd_node *list[PRD_NODES_MAX]; /* by number */
	unsigned count;
	uint32_t mtu; /* of the o-port */
	uint32_t own_nonce; /* STATUS, QUIT and RESEND must name it */
	uint64_t epoch;
	uint64_t generation; /* moves whenever the set of active nodes does */
	uint64_t refused_stale, refused_replay, refused_full;
};

void prd_nodes_init(
	struct prd_nodes *nodes, uint64_t epoch, uint32_t own_nonce, uint32_t mtu);
void prd_nodes_free(struct prd_nodes *nodes); /* logs must have been freed before */

struct prd_node *prd_nodes_by_mac(
	const struct prd_nodes *nodes, const uint8_t mac[PR_MAC_LEN]);
struct prd_node *prd_nodes_by_name(const struct prd_nodes *nodes, const char *name);
unsigned prd_nodes_active(const struct prd_nodes *nodes);

enum prd_ann_result {
	PRD_ANN_KNOWN, /* active already: acknowledge again */
	PRD_ANN_NEW, /* first sight */
	PRD_ANN_RESTART, /* same MAC, new nonce: ordinals and log numbers start afresh */
	PRD_ANN_BACK, /* was gone or had quit, same nonce: goes on */
	PRD_ANN_PENDING, /* acknowledge; its STATUS will admit it */
	PRD_ANN_REFUSED, /* replayed, disconnected, bad MAC or no room: do not answer */
};
/*
 * An announcement. A new nonce for a MAC whose node is alive is not believed at once (it may be a
 * replayed frame): the node is acknowledged, and admitted by a STATUS that names our nonce.
 */
enum prd_ann_result prd_nodes_ann(struct prd_nodes *nodes, const uint8_t mac[PR_MAC_LEN],
	const struct pr_frame_header *header, const struct pr_ann *ann, int64_t now,
	struct prd_node **out);

/*
 * Checks a STATUS, QUIT or RESEND: known MAC, present nonces and epoch, fresh number. NULL: refuse.
 * *admitted: PRD_ANN_RESTART (pending nonce proven), PRD_ANN_BACK (was gone), or PRD_ANN_KNOWN.
 */
struct prd_node *prd_nodes_hear(struct prd_nodes *nodes, const struct pr_frame *frame,
	int64_t now, enum prd_ann_result *admitted);
void prd_node_status(
	struct prd_nodes *nodes, struct prd_node *node, const struct pr_status *s);

/* Takes a node out of the spread. */
void prd_node_leave(
	struct prd_nodes *nodes, struct prd_node *node, enum prd_node_phase phase);
/* Marks a node that was silent for so long as gone and returns it; NULL when there is none. */
struct prd_node *prd_nodes_expire(struct prd_nodes *nodes, int64_t now, int64_t silence);

/* May get data: active, and able to store it. */
static inline bool
prd_node_usable(const struct prd_node *node)
{
	return node->phase == PRD_NODE_ACTIVE && node->status.state != PR_NODE_SUSPENDED;
}

/* A data frame of len bytes has gone out; gives its ordinal. */
uint64_t prd_node_sent(struct prd_node *node, size_t len);
/* Would a frame of len bytes keep within the buffer that the node announced? */
bool prd_node_room(const struct prd_node *node, size_t len);

#endif
