/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "proto/rpc/rpc.h"
#include "proto/wire/segment.h"

/*
 * A source over the answer of a node, or of a merger, to a query. Batches are put in as they arrive. They are not
 * trusted: form, order and credit are checked, and the first fault ends the source (prm_remote_error has the
 * reason). The source never returns PR_SOURCE_ERROR, so the fault of one node does not end an answer that others
 * can still give.
 *
 * When the watermark of a node has moved on but no packet of the node is here, the source returns a packet of flag
 * PRM_WATERMARK (without data) at that otime, so that a merge can go on with packets of other nodes. Whoever reads
 * the merge drops it.
 *
 * One thread. Memory: at most credit x PR_RPC_MESSAGE_MAX.
 */
#define PRM_WATERMARK 0x4000 /* in struct pr_packet's flags */
#define PRM_REMOTE_WINDOW 4 /* batches under way or waiting */

struct prm_remote {
	/* first; a merge it is added to must end before the remote */
	struct pr_source source;
	/* set when the answer has ended; packets that are here are still given */
	bool ended;
	/*
	 * Set before the first batch if the answer comes in rounds (Query.follow). Packets
	 * are in order within a batch. If a clock was set back, a later batch may begin
	 * before the end of the one before it.
	 */
	bool rounds;
	/* Set before the first batch if batches go to a client that merges them. */
	bool passes;
	/* To be read only. */
	char *error; /* NULL: none; otherwise the source has ended */
	uint32_t owed, waiting; /* batches: asked for and not arrived; to be merged */
	size_t bytes; /* of packets that wait */
	/* remote.c's */
	struct prm_waiting_batch *head, *tail;
	struct pr_segment_reader reader;
	bool reading; /* reader walks through head */
	int64_t watermark, passed; /* of the node; the last one returned as a packet */
	bool any; /* last is set */
	struct pr_packet last;
};

struct prm_remote *prm_remote_create(struct pr_error *err);
void prm_remote_destroy(struct prm_remote **remote);

/*
 * Takes a batch. Call it in a callback of rpc; the message is kept until all its packets
 * are merged. rpc NULL: only counts the batch, whose packets another party merges. -1: more
 * batches than asked for, after the end, or no memory; the source then ends after the
 * earlier batches.
 */
int prm_remote_batch(struct prm_remote *remote, struct pr_rpc *rpc,
	const Packrack__Batch *batch, struct pr_error *err);
/*
 * Sends the batches that wait to a peer of `to`. -1: as pr_rpc_send; the rest still waits,
 * and the source does not end before it has gone.
 */
int prm_remote_pass_on(
	struct prm_remote *remote, struct pr_rpc *to, const struct pr_rpc_peer *peer);
/*
 * Number of batches to ask for now, so that at most `window` are requested or waiting;
 * counts them as asked for. 0: the number is below `least`, or the source has ended.
 */
uint32_t prm_remote_take_credit(struct prm_remote *remote, uint32_t window, uint32_t least);
