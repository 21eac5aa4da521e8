/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_DISPATCHER_SEND_PRIVATE_H
#define PR_DISPATCHER_SEND_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "dispatcher/logs.h"
#include "dispatcher/prepare.h"
#include "dispatcher/send.h"
#include "dispatcher/spread.h"

/* What send.c, batch.c, talk.c, events.c and mark.c share: the send thread's own. */

#define PRD_TICK (10 * PR_NS_PER_MS) /* ages of logs are looked at so often */
#define PRD_MARK_EVERY (100 * PR_NS_PER_MS)
#define PRD_STOP_SILENCE (5 * PR_NS_PER_S)
#define PRD_STOP_SUSPENDED (10 * PR_NS_PER_S)

/* A frame on its way; becomes an entry of a log when the o-port has taken it. */
struct prd_item {
	struct prd_node *node;
	struct prd_link *link;
	size_t len;
	struct pr_entry entry;
};

struct prd_sender {
	struct prd_sender_config config;
	struct prd_inputs *inputs;
	struct pr_transmit *transmit;
	struct pr_control *control;
	struct prd_prepare prepare;
	struct prd_nodes nodes;
	struct prd_spread spread;
	struct prd_logs logs;
	unsigned copies;
	bool strict; /* files: hold rather than lose */

	enum prd_state state;
	int64_t now; /* monotonic, of this round */
	int64_t state_since;
	int64_t ticked, marked, weighed, troubled;
	uint64_t commands; /* numbers given to commands */
	uint64_t reconnects; /* numbers of RECONNECT frames, which are also broadcast */
	uint64_t stop_request; /* who asked for it; 0 nobody */
	bool marking_stop; /* MARKs say `stopping` */
	unsigned warned_cut;

	/* batch.c */
	struct prd_item items[PR_TRANSMIT_BATCH];
	unsigned item_count;
	uint8_t heads[PR_TRANSMIT_BATCH][PR_ETHER_LEN]; /* of second copies */
	struct prd_record *held[PRD_LINKS_MAX]; /* taken from the ring, no node has room */
	bool used[PRD_LINKS_MAX]; /* rings to give back to after sending */
	bool stuck; /* every ring with packets is held */
	unsigned first_ring;
	int64_t drained_until[PRD_LINKS_MAX]; /* all stamped before it has been taken */

	pthread_t thread;
	bool started;
	_Atomic bool quit;
	/* Three copies: one is written, one is read, and one lies between; who asks never holds us up. */
	struct prd_view views[3];
	_Atomic unsigned view_between; /* its index, and PRD_VIEW_NEW until it is read */
	unsigned view_written; /* the send thread's */
	unsigned view_read; /* the reader's */
};

/* batch.c: takes a batch from the rings, sends it, logs it. How many packets were taken. */
unsigned prd_batch(struct prd_sender *s);
bool prd_batch_holds(const struct prd_sender *s); /* something taken is not yet placed */

/* talk.c: one frame to one node, numbered and bound to both nonces. */
void prd_talk(struct prd_sender *s, struct prd_node *node, enum pr_frame_type type,
	struct pr_frame *frame);
void prd_talk_ack(struct prd_sender *s, const uint8_t mac[PR_MAC_LEN], uint32_t nonce,
	uint16_t number);
void prd_talk_reconnect_all(struct prd_sender *s);
/* Makes a node do something and repeats it until its STATUS says so. */
void prd_talk_command(struct prd_sender *s, struct prd_node *node, enum pr_frame_type type,
	uint32_t seconds, uint64_t request, int64_t patience);
void prd_talk_commands_again(struct prd_sender *s);
/* The node's STATUS may be what a command waited for. */
void prd_talk_status(struct prd_sender *s, struct prd_node *node);
void prd_talk_command_end(
	struct prd_sender *s, struct prd_node *node, bool ok, const char *text);

/* events.c: what came from nodes and managers. */
void prd_events(struct prd_sender *s);
void prd_reply(struct prd_sender *s, enum prd_reply_kind kind, uint64_t request, bool ok,
	const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* send.c: what others see of the node table is as it is now. */
#define PRD_VIEW_NEW 4U
void prd_view_publish(struct prd_sender *s);

/* mark.c: the ledger to one node. */
void prd_mark(struct prd_sender *s, struct prd_node *node);

/* state.c */
void prd_state_start(struct prd_sender *s, uint64_t request);
void prd_state_stop(struct prd_sender *s, uint64_t request);
void prd_state_step(struct prd_sender *s, unsigned taken, bool at_end, bool quiet);
bool prd_state_takes(const struct prd_sender *s); /* packets are taken from the rings */
void prd_state_node_joined(struct prd_sender *s, struct prd_node *node);

#endif
