/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRL_LOGGER_NODE_PRIVATE_H
#define PRL_LOGGER_NODE_PRIVATE_H

#include "logger/node.h"

/*
 * Inside of a rack's node, for its files: node.c (sessions, frames and time), node_control.c (what control
 * frames do), node_say.c (what it sends).
 */
enum phase {
	PHASE_ANNOUNCING, /* perhaps with a session that goes on */
	PHASE_FOLLOWING,
	PHASE_AWAY, /* told to disconnect */
	PHASE_LEAVING,
};

struct prl_node {
	struct prl_node_config c;
	enum phase phase;
	uint32_t nonce;
	uint64_t numbers[PR_FRAME_TYPES];
	struct pr_replay replay[PR_FRAME_TYPES];

	struct prl_session *session;
	uint8_t peer[PR_MAC_LEN]; /* of the session */
	uint32_t peer_nonce;
	uint64_t base_stored, base_bytes, base_durable; /* when the session began */
	uint64_t session_frames, session_bytes;
	struct prl_session_stats past; /* sessions that are over */

	/* Data that came while nobody had acknowledged us: the acknowledgement may be what was lost. */
	struct prl_capture_record **backlog;
	size_t backlog_count;
	int64_t backlog_since;

	int64_t announced, marked, reported, left;
	uint64_t reported_cost;
	uint64_t stop_command; /* a STOP that is not carried out yet */
	bool stop_asked, stopped;
	uint64_t command;
	uint8_t command_type, command_result;
	struct prl_node_stats stats;
};

/* ---- node.c ---- */

/* Does the frame belong to the session that we have? */
bool prl_node_of_session(const struct prl_node *n, const struct pr_frame *f);
/* Follows the sender, with a new session if it is not ours already. */
void prl_node_follow(struct prl_node *n, const struct pr_frame *f, int64_t now);
void prl_node_session_end(struct prl_node *n);
/* What came while nobody had acknowledged us is not expected any more. */
void prl_node_backlog_drop(struct prl_node *n);

/* ---- node_control.c ---- */

void prl_node_control(
	struct prl_node *n, const struct prl_capture_record *rec, int64_t now);

/* ---- node_say.c ---- */

/* The header is filled in; dst: of PR_MAC_LEN bytes. */
void prl_node_send(
	struct prl_node *n, struct pr_frame *f, uint8_t type, const uint8_t *dst);
void prl_node_announce(struct prl_node *n, int64_t now);
/* If we are to follow a dispatcher at all. */
void prl_node_start_announcing(struct prl_node *n, int64_t now);
void prl_node_send_status(struct prl_node *n, int64_t now);

#endif
