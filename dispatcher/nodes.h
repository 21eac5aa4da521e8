/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "proto/base/counter.h"
#include "proto/wire/frame.h"

/*
 * The node table (CLog section 3.3): which nodes have announced themselves, which are
 * alive, and how many bytes were sent to each and are not acknowledged. The second part is
 * the spread, which chooses the node for a packet. No I/O; time is an argument, monotonic
 * ns. Used by the send thread only.
 */
#define PRD_NODES_MAX 256
#define PRD_NODE_SILENCE (2 * PR_NS_PER_S)
#define PRD_WINDOW_POINTS 256
#define PRD_WINDOW_DEFAULT (1 << 20) /* for a node that announces no buffer size */
/* Bytes that a node's buffer needs for each frame besides the frame's own. */
#define PRD_FRAME_COST 128
/* Old nonces remembered of a node: an announcement with one of them is a replay. */
#define PRD_RETIRED_MAX 8

enum prd_node_phase {
	PRD_NODE_ACTIVE,
	PRD_NODE_GONE, /* silent; comes back by ANN, or by STATUS with the same nonce */
	PRD_NODE_QUIT, /* has sent QUIT; comes back by ANN */
	PRD_NODE_DISCONNECTED, /* told to leave; comes back after a `reconnect` */
};
const char *prd_node_phase_name(enum prd_node_phase phase);

/* What a node has been sent and has not acknowledged. */
struct prd_window {
	uint64_t sent_cost, acked_cost;
	uint64_t placed_cost; /* in a batch that has not gone out yet */
	uint64_t size; /* announced by the node, or PRD_WINDOW_DEFAULT */
	uint64_t acknowledged; /* frames of lower ordinal are stored or given up */
	uint64_t next_point_cost;
	struct {
		uint64_t ordinal, cost; /* cost: of all frames of lower ordinal */
	} points[PRD_WINDOW_POINTS];
	uint32_t first, count;
};

struct prd_node_log; /* timestamp_logs.h: one per link */

struct prd_node {
	uint16_t number;
	uint8_t mac[PR_MAC_LEN];
	enum prd_node_phase phase;
	struct pr_ann ann;
	uint32_t nonce;
	uint32_t retired[PRD_RETIRED_MAX];
	unsigned retired_at;
	int64_t last_heard; /* monotonic ns */
	struct pr_status status;
	struct pr_replay replay[PR_FRAME_TYPES];
	uint64_t numbers[PR_FRAME_TYPES]; /* last number given to a frame for this node */
	uint64_t marks; /* rounds of MARKs sent to it */
	uint16_t generation; /* of the links' observations, as last sent */
	uint16_t repeats; /* left of it */
	uint64_t controls_received; /* good frames, since it was admitted first */
	uint32_t mtu; /* the smaller of the node's and the rack interface's */

	uint64_t next_ordinal;
	struct prd_window window;
	struct prd_node_log *logs; /* owned by timestamp_logs.c */
	uint64_t primaries, seconds, bytes_sent; /* since it was admitted */
	uint64_t resend_asked, resend_answered, gone_answered, logs_sent;
	int64_t resend_budget;
	uint64_t lost_unacknowledged; /* frames not acknowledged when it went silent */

	/* the command that is sent again until the node's STATUS acknowledges it */
	uint8_t command_type; /* enum pr_frame_type; 0: nothing */
	uint64_t command;
	uint32_t command_seconds;
	uint64_t command_request; /* the manager's, 0 none */
	int64_t command_next, command_deadline;

	/* the spread; lru_prev NULL: not in its queue */
	struct prd_node *lru_next, *lru_prev;
	int64_t weight, credit;
};

/* An announcement that was acknowledged and is not confirmed yet. */
struct prd_announced {
	uint8_t mac[PR_MAC_LEN];
	uint32_t nonce; /* 0: none */
	uint64_t number, frames; /* of the last frame; how many there were */
	int64_t heard;
	struct pr_ann ann;
};

struct prd_nodes {
	struct prd_node *list[PRD_NODES_MAX]; /* by number */
	unsigned count;
	uint32_t mtu; /* of the rack interface */
	uint32_t own_nonce; /* STATUS, QUIT and RESEND must name it */
	uint64_t epoch;
	uint64_t change_count; /* changes with the set of usable nodes */
	uint64_t refused_stale, refused_replay, refused_full, refused_unconfirmed;
	struct prd_announced announced[PRD_NODES_MAX];
};

void prd_nodes_init(
	struct prd_nodes *nodes, uint64_t epoch, uint32_t own_nonce, uint32_t mtu);
void prd_nodes_free(struct prd_nodes *nodes); /* logs must have been freed before */

struct prd_node *prd_nodes_by_name(const struct prd_nodes *nodes, const char *name);
unsigned prd_nodes_active(const struct prd_nodes *nodes);

enum prd_ann_result {
	PRD_ANN_KNOWN, /* active already: acknowledge again */
	PRD_ANN_NEW, /* first sight */
	PRD_ANN_RESTART, /* same MAC, new nonce: ordinals and log numbers start afresh */
	PRD_ANN_BACK, /* was gone or had quit, same nonce: goes on */
	PRD_ANN_PENDING, /* acknowledge; a STATUS will confirm it */
	PRD_ANN_REFUSED, /* replayed, disconnected, bad MAC or no room: do not answer */
};
/*
 * An announcement. A new nonce is not believed at once, because the frame may have been recorded
 * earlier and sent again. It is acknowledged with our nonce, and the node is admitted by a STATUS
 * that names our nonce.
 */
enum prd_ann_result prd_nodes_ann(struct prd_nodes *nodes, const uint8_t mac[PR_MAC_LEN],
	const struct pr_frame_header *header, const struct pr_ann *ann, int64_t now,
	struct prd_node **out);

/*
 * Checks a STATUS, QUIT or RESEND: known MAC, present nonces and epoch, new number. It may admit the sender,
 * or bring it back. NULL: refuse the frame.
 * *admitted: PRD_ANN_NEW or PRD_ANN_RESTART (announcement confirmed), PRD_ANN_BACK (was gone), or PRD_ANN_KNOWN.
 */
struct prd_node *prd_nodes_accept_frame(struct prd_nodes *nodes,
	const struct pr_frame *frame, int64_t now, enum prd_ann_result *admitted);
void prd_node_status(
	struct prd_nodes *nodes, struct prd_node *node, const struct pr_status *s);

/* Takes a node out of the spread. */
void prd_node_leave(
	struct prd_nodes *nodes, struct prd_node *node, enum prd_node_phase phase);
/* Forgets announcements that nobody has confirmed for PRD_NODE_SILENCE. */
void prd_nodes_expire_announced(struct prd_nodes *nodes, int64_t now);
/*
 * Marks the next node silent for `silence` ns as gone, and returns it; NULL: there is none.
 */
struct prd_node *prd_nodes_next_silent(
	struct prd_nodes *nodes, int64_t now, int64_t silence);

/* True if the node may get data: it is active, and can write. */
static inline bool
prd_node_usable(const struct prd_node *node)
{
	return node->phase == PRD_NODE_ACTIVE && node->status.state != PR_NODE_SUSPENDED;
}

/* Accounts for a data frame of len bytes that was sent; returns its ordinal. */
uint64_t prd_node_sent(struct prd_node *node, size_t len);
/* True if a frame of len bytes fits into what is free of the buffer that the node announced. */
bool prd_node_has_room(const struct prd_node *node, size_t len);
/* What is free of it, with PRD_FRAME_COST for each frame. */
uint64_t prd_node_room(const struct prd_node *node);

/*
 * Which node gets a packet:
 *   round-robin  the node that has waited longest (CLog's least-recently-used queue)
 *   weighted     in proportion to announced write rate and free space, evenly in time
 *   flow         all packets of a connection to one node; when a node goes, only its flows move
 */
enum prd_spread_mode { PRD_SPREAD_ROUND_ROBIN, PRD_SPREAD_WEIGHTED, PRD_SPREAD_FLOW };
extern const char *const prd_spread_names[]; /* NULL-terminated, for the option */

#define PRD_FLOW_BUCKETS 4096

struct prd_spread {
	enum prd_spread_mode mode;
	bool strict; /* wait rather than send more than a node's announced buffer holds */
	struct prd_nodes *nodes;
	uint64_t change_count; /* of nodes, at the last rebuild */
	struct prd_node *queue; /* of usable nodes, by lru_next */
	unsigned usable;
	int64_t total_weight;
	uint16_t top[PRD_FLOW_BUCKETS][2]; /* node numbers, best and second best */
};

void prd_spread_init(struct prd_spread *spread, enum prd_spread_mode mode, bool strict,
	struct prd_nodes *nodes);

enum prd_spread_result {
	PRD_SPREAD_OK,
	PRD_SPREAD_NONE, /* no usable node */
	PRD_SPREAD_FULL, /* strict: the buffers of all usable nodes are full */
};

/* Changes the mode for the next packets. Packets sent before stay on their nodes. */
void prd_spread_change(struct prd_spread *spread, enum prd_spread_mode mode);

/*
 * Chooses out[0], and for copies = 2 another node as out[1] (NULL when there is only one).
 * data, len: the packet as captured.
 */
enum prd_spread_result prd_spread_pick(struct prd_spread *spread, unsigned copies,
	const uint8_t *data, size_t len, struct prd_node *out[2]);

/* Recomputes the weights from the nodes' write rates and free space; call once a second. */
void prd_spread_weigh(struct prd_spread *spread);
