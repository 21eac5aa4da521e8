/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRM_MERGER_REMOTE_H
#define PRM_MERGER_REMOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/error.h"
#include "proto/rpc/packrack.pb-c.h"
#include "proto/wire/source.h"

/*
 * A node (or a merger) that answers a query over the network, as a source. Batches are put in as
 * they arrive; what they hold is not trusted: form, order and credit are checked, and the first
 * fault ends the source (prm_remote_error says why). It never gives PR_SOURCE_ERROR, so that one
 * node's fault does not end an answer that others can still give.
 *
 * When a node told by its frontier that nothing earlier will come, but has no packet at hand, the
 * source gives a packet of flag PRM_WATERMARK (no data) at that otime, so that a merge can go on
 * with others' packets; who reads the merge drops it.
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
 * Puts a batch in: its packets, which must be from malloc, are taken out of it. -1: over credit, after the end, or no memory; the source then ends with
 * what was put in before.
 */
int prm_remote_batch(
	struct prm_remote *remote, Packrack__Batch *batch, struct pr_error *err);
/* Nothing more will come; what was put in is still given. */
void prm_remote_end(struct prm_remote *remote);
/* Nothing more will come and nothing more is given. why is copied; the first one stays. */
void prm_remote_fail(struct prm_remote *remote, const char *why);

bool prm_remote_ended(const struct prm_remote *remote);
const char *prm_remote_error(const struct prm_remote *remote); /* NULL: none */

/*
 * Batches that may be asked for now so that at most window are under way or waiting; notes them as
 * asked for. 0 after the end.
 */
uint32_t prm_remote_take_credit(struct prm_remote *remote, uint32_t window);
uint32_t prm_remote_owed(const struct prm_remote *remote); /* asked for, not yet come */
bool prm_remote_empty(const struct prm_remote *remote); /* no batch is waiting */
size_t prm_remote_bytes(const struct prm_remote *remote); /* that batches take */

#endif
