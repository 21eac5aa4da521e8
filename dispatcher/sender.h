/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "dispatcher/cutoff.h"
#include "dispatcher/inputs.h"
#include "dispatcher/timestamp_logs.h"
#include "proto/base/loop.h"
#include "proto/port/control.h"

/*
 * The send thread: takes packets from the rings (inputs.h), numbers them, spreads them over
 * the nodes, sends frames, timestamp logs and ledger, and exchanges control frames with the
 * nodes. It owns the node table. The loop's thread talks to it through two rings (events,
 * replies), and reads a copy of the table.
 *
 *   sender.c        the thread, the states of capture, events, the copy of the node table
 *   distribute.c    the packet's way
 *   rack_control.c  control frames to and from the nodes
 *   manage.c        status, metrics and commands (the loop's thread)
 *   steering.c      changes to classes and cutoff (the loop's thread)
 */
enum prd_capture_state {
	PRD_STATE_WAITING, /* for nodes */
	PRD_STATE_CAPTURING,
	PRD_STATE_DRAINING, /* capture has ended; what was captured goes out */
	PRD_STATE_STOPPING, /* nodes have been told STOP */
	PRD_STATE_STOPPED,
};
extern const char *const prd_capture_state_names[]; /* ends with NULL */

/* To the send thread. */
enum prd_event_kind {
	PRD_EVENT_FRAME,
	PRD_EVENT_START,
	PRD_EVENT_STOP,
	PRD_EVENT_NODE,
	PRD_EVENT_SPREAD,
	PRD_EVENT_RULE,
	PRD_EVENT_CLASSES
};

struct prd_event {
	enum prd_event_kind kind;
	uint64_t request; /* given back in the reply; 0: nobody waits for one */
	union {
		struct pr_frame frame; /* from a node; decoded, its tag checked */
		struct {
			char name[PR_NAME_MAX + 1];
			/* SPREAD: enum prd_spread_mode; NODE: PR_FRAME_IDENTIFY, RESET, DISCONNECT, RECONNECT */
			uint8_t type;
			uint32_t seconds;
		} node;
		struct {
			struct prd_rule rule;
			bool comes;
		} steer;
		struct prd_classes
			*classes; /* in place of those that they were made from */
	} u;
};

/* From the send thread. */
enum prd_reply_kind {
	PRD_REPLY_DONE, /* of an event with a request */
	PRD_REPLY_STOPPED, /* all nodes have acknowledged STOP, or are silent */
	PRD_REPLY_FAILED, /* the send thread cannot continue; text has the reason */
};

struct prd_reply {
	enum prd_reply_kind kind;
	uint64_t request;
	bool ok; /* STOPPED: all that was sent is stored */
	char text[256];
};

/* A copy of the node table, at most some 100 ms old. */
struct prd_node_snapshot {
	char name[PR_NAME_MAX + 1];
	uint8_t mac[PR_MAC_LEN];
	uint16_t number;
	enum prd_node_phase phase;
	int64_t last_heard; /* monotonic ns */
	struct pr_status status;
	uint64_t frames_sent, bytes_sent, primaries, seconds, unacknowledged,
		lost_unacknowledged;
	uint64_t logs_sent, resend_asked, resend_answered, gone_answered, buffer_size;
	uint64_t controls_sent, controls_received;
};

struct prd_snapshot {
	enum prd_capture_state state;
	unsigned spread_mode; /* enum prd_spread_mode */
	unsigned node_count;
	struct prd_node_snapshot nodes[PRD_NODES_MAX];
	uint64_t refused_stale, refused_replay, refused_full, refused_unconfirmed;
	uint64_t log_memory_used;
	struct pr_transmit_counters sent;
	struct prd_cutoff_figures cutoff;
	/* of the XDP path: frames taken by the rack interface; lost after they got a seq */
	uint64_t xdp_sent, xdp_redirect_failed, xdp_transmit_dropped;
};

struct prd_sender_config {
	const struct prd_options *options;
	struct prd_inputs *inputs;
	struct pr_transmit *transmit;
	struct pr_control *control;
	struct prd_cutoff *cutoff; /* or NULL */
	uint8_t mac[PR_MAC_LEN];
	uint32_t mtu; /* of the rack interface */
	uint64_t epoch;
	uint32_t nonce;
	struct pr_ring *events; /* struct prd_event; consumed by the send thread */
	struct pr_ring *replies; /* struct prd_reply; produced by the send thread */
};

struct prd_sender *prd_sender_create(
	const struct prd_sender_config *config, struct pr_error *err);
int prd_sender_start_thread(struct prd_sender *sender, struct pr_error *err);
void prd_sender_destroy(struct prd_sender **sender); /* ends the thread */
/* What the thread does again and again; waits for nothing. Returns how many packets were taken. */
unsigned prd_sender_round(struct prd_sender *sender);

/* Copies the newest snapshot. Call from one thread only, the loop's; neither thread waits. */
void prd_sender_snapshot(struct prd_sender *sender, struct prd_snapshot *out);

/* ---- rack_control.c: control frames from the nodes ---- */

/*
 * Control frames that arrive at the rack interface are checked here, in the loop's thread, and passed
 * to the send thread as events. Everything in a frame is hostile.
 */

struct prd_receiver_counters {
	pr_counter received[PR_FRAME_TYPES]; /* good ones, by type */
	pr_counter refused[PR_FRAME_RESULTS]; /* by enum pr_frame_result */
	pr_counter other_rack, not_from_node;
	pr_counter dropped; /* the ring of events was full */
};

/* o, key, events and counters are kept. events: of struct prd_event; this is its producer. */
struct prd_receiver *prd_receiver_open(struct pr_loop *loop, const struct prd_options *o,
	int ifindex, const struct pr_frame_key *key, struct pr_ring *events,
	struct prd_receiver_counters *counters, struct pr_error *err);
void prd_receiver_close(struct prd_receiver **receiver);

/* ---- manage.c ---- */

/*
 * The management socket (CLog section 3.4): status and commands over ZeroMQ, in the loop's
 * thread. Commands travel to the send thread as events; its replies come back here.
 */

/* Of the sender it uses the configuration, and puts events into its ring by the same thread as the receiver. */
struct prd_manage *prd_manage_open(struct pr_loop *loop, struct prd_sender *sender,
	const struct prd_receiver_counters *received, struct pr_error *err);
void prd_manage_close(struct prd_manage **manage);

/* Answers the command that a PRD_REPLY_DONE belongs to. */
void prd_manage_reply(struct prd_manage *manage, const struct prd_reply *reply);

/* ---- the send thread's own: what sender.c, distribute.c and rack_control.c share ---- */

#define PRD_TICK (10 * PR_NS_PER_MS) /* how often the ages of timestamp logs are checked */
#define PRD_MARK_PERIOD (100 * PR_NS_PER_MS)

/* What all frames of one run have in common. */
struct prd_prepare {
	uint8_t src[PR_MAC_LEN]; /* of the rack interface */
	uint16_t ethertype; /* the rack's; a captured frame with it is escaped */
	uint64_t epoch;
	bool whole; /* fingerprints are of the second kind */
};

/* A frame on its way; becomes an entry of a timestamp log when the rack interface has taken it. */
enum {
	PRD_BEYOND_BATCH = 16,
	PRD_WHOLE_SIZE = sizeof(struct prd_record) + PR_FAST_FRAME_MAX
};

struct prd_item {
	struct prd_node *node;
	struct prd_link *link;
	size_t len;
	bool sent; /* by the XDP program already */
	struct pr_entry entry;
};

struct prd_sender {
	struct prd_sender_config config;
	struct prd_inputs *inputs;
	struct pr_transmit *transmit;
	struct pr_control *control;
	struct prd_cutoff *cutoff; /* or NULL */
	struct prd_prepare prepare;
	struct prd_nodes nodes;
	struct prd_spread spread;
	struct prd_logs logs;
	unsigned copies;
	bool strict; /* files: wait rather than lose a packet */

	enum prd_capture_state state;
	int64_t now; /* monotonic, of this round */
	int64_t state_since;
	int64_t last_tick, last_mark, last_weigh, last_trouble;
	uint64_t commands; /* numbers given to commands */
	/* of ANN_ACK and RECONNECT frames, which may go to strangers */
	uint64_t unbound_number;
	uint64_t stop_request; /* request of the STOP event, for the reply; 0: none */
	bool marking_stop; /* MARKs carry `stopping` */
	struct pr_clock_watch clock_watch;
	struct pr_clock clock; /* as PORTs tell it */
	unsigned cut_warnings;

	/* distribute.c */
	struct prd_item items[PR_TRANSMIT_BATCH];
	unsigned item_count;
	uint8_t heads[PR_TRANSMIT_BATCH][PR_ETHER_LEN]; /* of second copies */
	int64_t last_canary; /* monotonic */
	/* frames that the XDP program left to us: PR_TRANSMIT_BATCH of PRD_WHOLE_SIZE */
	uint8_t *whole;
	struct { /* of the present schedule of the XDP program: what it was made from */
		uint64_t changes, which;
		int64_t weighed;
		unsigned mode;
		bool on;
		int64_t waits; /* since when it waits for what came before */
	} scheduled;
	/* sums of what the cutoff kept back, on their way */
	union {
		struct prd_record record;
		uint8_t bytes[sizeof(struct prd_record) + PR_BEYOND_MAX];
	} beyond[PRD_BEYOND_BATCH];
	unsigned
		first_beyond; /* where the next batch begins: with the sum that waits for a node, if beyond_waits */
	bool beyond_waits;
	bool flush_beyond; /* no packets come any more: also of seconds that are not over */
	/* taken from the ring, no node has room */
	struct prd_record *unplaced[PRD_LINKS_MAX];
	bool used[PRD_LINKS_MAX]; /* rings to release after sending */
	bool stuck; /* every ring with packets has an unplaced one */
	unsigned first_ring;
	/* ns: all packets stamped earlier have been taken */
	int64_t drained_until[PRD_LINKS_MAX];
	int64_t fast_until[PRD_LINKS_MAX]; /* by XDP: what drained_until is next */

	pthread_t thread;
	bool started;
	_Atomic bool quit;
	/* Three copies: one is written, one is read, and one lies between, so that neither side waits. */
	struct prd_snapshot snapshots[3];
	/* index of the one between; SNAPSHOT_NEW until read */
	_Atomic unsigned snapshot_between;
	unsigned snapshot_written; /* the send thread's */
	unsigned snapshot_read; /* the reader's */
};

/* Takes packets from the rings, sends them in one batch, logs them. Returns how many were taken. */
unsigned prd_tx_batch(struct prd_sender *s);
/* Gives the XDP program a new schedule, if nodes, their room or weights have changed. reads: what it has taken is being sent */
void prd_tx_schedule(struct prd_sender *s, bool reads);
bool prd_tx_batch_unplaced(const struct prd_sender *s); /* a packet taken has no node yet */

/*
 * The longest frame that an interface of this MTU takes. AF_PACKET allows four bytes more
 * if the frame has one 802.1Q tag; further tags count towards the MTU.
 */
size_t prd_frame_limit(const uint8_t *frame, size_t len, uint32_t mtu);
/*
 * Turns a captured packet, in place, into the frame for a node: MACs rewritten, our
 * Ethertype escaped, cut to mtu, padded; a runt becomes a frame of zeros. Records in e what
 * the rewriting hides, and the time and the fingerprint. The caller sets seq, otime,
 * ordinal and PR_ENTRY_SECOND. Returns the frame's length.
 */
size_t prd_prepare(const struct prd_prepare *p, struct prd_record *rec,
	const uint8_t dst[PR_MAC_LEN], uint32_t mtu, struct pr_entry *e);

/* A log line of a node; fmt goes on behind its name. */
#define prd_log_node(level, n, fmt, ...)                                                   \
	pr_log_node(level, (n)->ann.name, "node %s" fmt, (n)->ann.name, ##__VA_ARGS__)

/* Queues a frame to a node. Fills in the frame's number and both nonces. */
void prd_control_send(struct prd_sender *s, struct prd_node *node, enum pr_frame_type type,
	struct pr_frame *frame);
/* Answers an announcement. number: of the node, or the next free one. */
void prd_control_ack(struct prd_sender *s, const struct pr_frame *ann, uint16_t number);
void prd_control_reconnect_all(struct prd_sender *s);
/* Sends a command to a node, and again every 100 ms until its STATUS acknowledges it. */
void prd_control_command(struct prd_sender *s, struct prd_node *node,
	enum pr_frame_type type, uint32_t seconds, uint64_t request, int64_t patience);
void prd_control_repeat(struct prd_sender *s);
/* The node's STATUS has come: ends the command that it acknowledges, if any. */
void prd_control_status(struct prd_sender *s, struct prd_node *node);
void prd_control_command_end(
	struct prd_sender *s, struct prd_node *node, bool ok, const char *text);
/* Sends the node's open timestamp logs, then the ledger (MARK) and at times the link speeds (PORT). */
void prd_send_mark(struct prd_sender *s, struct prd_node *node);

void prd_reply(struct prd_sender *s, enum prd_reply_kind kind, uint64_t request, bool ok,
	const char *fmt, ...) __attribute__((format(printf, 5, 6)));
#define prd_done(s, request, ok, ...) prd_reply(s, PRD_REPLY_DONE, request, ok, __VA_ARGS__)
/* Publishes a snapshot of the present state for prd_sender_snapshot. */
void prd_snapshot_publish(struct prd_sender *s);
