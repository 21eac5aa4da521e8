/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "logger/volume_writer.h"
#include "logger/capture.h"
#include "logger/timestamp_match.h"

/*
 * A node's side of the protocol on the switch (proto/wire/frame.h): announces itself,
 * follows one dispatcher, reports, carries out commands. I/O only by the calls in its
 * configuration; time is an argument (monotonic). One thread.
 */

struct prl_node_config {
	uint8_t mac[PR_MAC_LEN];
	uint32_t rack;
	uint16_t ethertype;
	struct pr_frame_key *key; /* kept, not copied; alternates during a key renewal */
	struct pr_ann ann; /* what to announce; disk_free is brought up to date */
	struct prl_match_options match;
	struct prl_volume_writer *append;
	struct pr_ring *ring;

	void (*send)(void *arg, struct pr_frame *frame); /* dst, header and body are set */
	/* fingerprints' seed and kind from now on */
	void (*epoch)(void *arg, uint64_t epoch, bool whole);
	/* IDENTIFY, RESET: 0 done, -1 cannot */
	int (*identify)(void *arg, uint32_t seconds);
	int (*reset)(void *arg);
	/*
	 * fills in what the node does not know: disk, kernel drops, buffer, write rate,
	 * state
	 */
	void (*report)(void *arg, struct pr_status *status);
	void *arg;
};

struct prl_node_stats {
	uint64_t control_bad[PR_FRAME_RESULTS], control_refused;
	uint64_t frames; /* data, from our dispatcher */
	uint64_t foreign; /* data frames not from our dispatcher */
	uint64_t unexpected; /* data frames while no dispatcher has acknowledged us */
	uint64_t announced, statuses, resends;
	uint64_t epoch;
	uint64_t ordinal;
	bool connected;
};

struct prl_session_stats {
	struct prl_match_stats match;
	uint64_t stashed; /* frames copied out of the buffer */
};

struct prl_node *prl_node_create(
	const struct prl_node_config *config, struct pr_error *err);
void prl_node_destroy(struct prl_node **node); /* settles what is open */

/*
 * Takes each received frame, in order. The node may keep it in the buffer until a later
 * prl_node_run.
 */
void prl_node_receive(struct prl_node *n, struct prl_capture_record *rec, int64_t now);
/* After a batch of frames: matches them, and releases frames that are no longer needed. */
void prl_node_run(struct prl_node *n, bool full, int64_t now);
void prl_node_tick(struct prl_node *n, int64_t now);

/*
 * Leaving: the first call sends QUIT; frames on their way are still taken. true: the
 * program may end.
 */
bool prl_node_quit(struct prl_node *n, int64_t now);
/* Settles what is open: entries are lost, frames without one are strays. Then a last STATUS and QUIT. */
void prl_node_finish(struct prl_node *n, int64_t now);

uint32_t prl_node_nonce(const struct prl_node *n);
void prl_node_get_stats(const struct prl_node *n, struct prl_node_stats *out);
/* Counters of all sessions so far, added up. */
void prl_node_get_totals(const struct prl_node *n, struct prl_session_stats *out);

/*
 * Makes of a data frame and its entry the packet as it was captured: both MACs, an escaped Ethertype,
 * lengths, runts. Changes data in place; out->data points into data, or into e for a runt. len is the
 * length that the frame was sent with. Epoch, link and link type are the caller's to set.
 * false: the entry says what the frame cannot hold (more captured bytes than were sent).
 */
bool prl_restore(
	const struct pr_entry *e, uint8_t *data, uint32_t len, struct pr_packet *out);
