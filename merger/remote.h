/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRM_MERGER_REMOTE_H
#define PRM_MERGER_REMOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/error.h"
#include "proto/rpc/rpc.h"
#include "proto/wire/source.h"

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
struct prm_remote;

#define PRM_WATERMARK 0x4000 /* in struct pr_packet's flags */
#define PRM_REMOTE_WINDOW 4 /* batches under way or waiting */

struct prm_remote *prm_remote_create(struct pr_error *err);
void prm_remote_destroy(struct prm_remote **remote);

/*
 * The answer comes in rounds (Query.follow): order is kept within a batch, but a later batch may begin
 * before the end of the one before it, where a clock was set back. Call before the first batch.
 */
void prm_remote_allow_rounds(struct prm_remote *remote);

/*
 * The source over it; to be destroyed (by the merge that owns it) before the remote is. One only.
 */
struct pr_source *prm_remote_source(struct prm_remote *remote, struct pr_error *err);

/*
 * Takes a batch in a callback of rpc, whose message is kept as long as its packets wait. rpc NULL: only counts the
 * batch, whose packets go elsewhere. -1: over credit, after the end, or no memory; the source then ends with what
 * came before.
 */
int prm_remote_batch(struct prm_remote *remote, struct pr_rpc *rpc,
	const Packrack__Batch *batch, struct pr_error *err);
/* Nothing more will come; what was put in is still given. */
void prm_remote_end(struct prm_remote *remote);
/* Nothing more will come and nothing more is given. why is copied; the first one stays. */
void prm_remote_fail(struct prm_remote *remote, const char *why);

bool prm_remote_ended(const struct prm_remote *remote);
const char *prm_remote_error(const struct prm_remote *remote); /* NULL: none */

/*
 * Batches to ask for now, so that at most window are under way or waiting; they are counted as asked for. 0: fewer
 * than least, or the source has ended.
 */
uint32_t prm_remote_take_credit(struct prm_remote *remote, uint32_t window, uint32_t least);
uint32_t prm_remote_owed(const struct prm_remote *remote); /* asked for, not yet come */
bool prm_remote_empty(const struct prm_remote *remote); /* no batch is waiting */
size_t prm_remote_bytes(const struct prm_remote *remote); /* that batches take */

#endif
