/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRM_MERGER_REMOTE_H
#define PRM_MERGER_REMOTE_H

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
	struct pr_source
		source; /* first; a merge it is added to must end before the remote */
	bool ended; /* no more comes: set it when the answer has ended; what is here is still given */
	/*
	 * Set it before the first batch: the answer comes in rounds (Query.follow). Order is kept within a
	 * batch, but a later batch may begin before the end of the one before it, where a clock was set back.
	 */
	bool rounds;
	/* To be read only. */
	char *error; /* NULL: none; else nothing more is given */
	uint32_t owed,
		waiting; /* batches asked for that have not come; that wait to be merged */
	size_t bytes; /* of packets that wait */
	/* remote.c's */
	struct prm_waiting_batch *head, *tail;
	struct pr_segment_reader reader;
	bool reading; /* reader walks through head */
	int64_t watermark, passed; /* of the node; what of it was given as a packet */
	bool any; /* last is set */
	struct pr_packet last;
};

struct prm_remote *prm_remote_create(struct pr_error *err);
void prm_remote_destroy(struct prm_remote **remote);

/*
 * Takes a batch in a callback of rpc, whose message is kept as long as its packets wait. rpc NULL: only counts the
 * batch, whose packets go elsewhere. -1: over credit, after the end, or no memory; the source then ends with what
 * came before.
 */
int prm_remote_batch(struct prm_remote *remote, struct pr_rpc *rpc,
	const Packrack__Batch *batch, struct pr_error *err);
/*
 * Batches to ask for now, so that at most window are under way or waiting; they are counted as asked for. 0: fewer
 * than least, or the source has ended.
 */
uint32_t prm_remote_take_credit(struct prm_remote *remote, uint32_t window, uint32_t least);

#endif
