/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_DISPATCHER_SEND_H
#define PR_DISPATCHER_SEND_H

#include <stdbool.h>
#include <stdint.h>

#include "dispatcher/inputs.h"
#include "dispatcher/nodes.h"
#include "dispatcher/options.h"
#include "proto/base/error.h"
#include "proto/base/ring.h"
#include "proto/port/control.h"

/*
 * The send thread: takes packets from the cyclic buffers, numbers them, spreads them over the
 * nodes, sends frames, logs and ledger, and speaks with the nodes. It owns the node table; others
 * talk to it through two rings, and look at a copy of the table.
 */
enum prd_state {
	PRD_STATE_WAITING, /* for nodes */
	PRD_STATE_CAPTURING,
	PRD_STATE_DRAINING, /* capture is over; what was captured goes out */
	PRD_STATE_STOPPING, /* nodes have been told STOP */
	PRD_STATE_STOPPED,
};
extern const char *const prd_state_names[]; /* ends with NULL */

/* To the send thread. */
enum prd_event_kind {
	PRD_EVENT_FRAME,
	PRD_EVENT_START,
	PRD_EVENT_STOP,
	PRD_EVENT_NODE,
	PRD_EVENT_SPREAD
};

struct prd_event {
	enum prd_event_kind kind;
	uint64_t request; /* given back in the answer */
	union {
		struct pr_frame frame; /* decoded and checked; from a node */
		struct {
			char name[PR_NAME_MAX + 1];
			uint8_t type; /* the mode to SPREAD by; or PR_FRAME_IDENTIFY, RESET, DISCONNECT, RECONNECT */
			uint32_t seconds;
		} node;
	} u;
};

/* From the send thread. */
enum prd_reply_kind {
	PRD_REPLY_DONE, /* of an event with a request */
	PRD_REPLY_STOPPED, /* all nodes have acknowledged, or are silent */
	PRD_REPLY_FAILED, /* it cannot go on; text says why */
};

struct prd_reply {
	enum prd_reply_kind kind;
	uint64_t request;
	bool ok; /* STOPPED: all that was sent is stored */
	char text[256];
};

/* The node table as others see it, some 100 ms old. */
struct prd_node_view {
	char name[PR_NAME_MAX + 1];
	uint8_t mac[PR_MAC_LEN];
	uint16_t number;
	enum prd_node_phase phase;
	int64_t heard; /* monotonic ns */
	struct pr_status status;
	uint64_t frames_sent, bytes_sent, primaries, seconds, unacknowledged,
		lost_unacknowledged;
	uint64_t logs_sent, resend_asked, resend_answered, gone_answered, buffer_size;
	uint64_t controls_sent, controls_received;
};

struct prd_view {
	enum prd_state state;
	unsigned spread_mode; /* enum prd_spread_mode */
	unsigned node_count;
	struct prd_node_view nodes[PRD_NODES_MAX];
	uint64_t refused_stale, refused_replay, refused_full, log_memory_used;
	struct pr_transmit_counters sent;
};

struct prd_sender_config {
	const struct prd_options *options;
	struct prd_inputs *inputs;
	struct pr_transmit *transmit;
	struct pr_control *control;
	uint8_t mac[PR_MAC_LEN];
	uint32_t mtu; /* of the o-port */
	uint64_t epoch;
	uint32_t nonce;
	struct pr_ring *events; /* struct prd_event; consumed by the send thread */
	struct pr_ring *replies; /* struct prd_reply; produced by the send thread */
};

struct prd_sender;
struct prd_sender *prd_sender_create(
	const struct prd_sender_config *config, struct pr_error *err);
int prd_sender_start_thread(struct prd_sender *sender, struct pr_error *err);
void prd_sender_destroy(struct prd_sender **sender); /* ends the thread */

/* From one thread only, the loop's. Neither waits for the other. */
void prd_sender_view(struct prd_sender *sender, struct prd_view *out);

#endif
