/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_MERGER_FANOUT_INTERNAL_H
#define PR_MERGER_FANOUT_INTERNAL_H

#include "merger/completeness.h"
#include "merger/fanout.h"
#include "merger/remote.h"
#include "proto/rpc/tally.h"
#include "proto/wire/segment.h"

/* fanout.c deals with nodes, fanout_answer.c with the client. */

/* One node's part. */
struct leg {
	struct pr_address address;
	uint64_t id;
	struct pr_remote *remote; /* NULL: it was not asked */
	int index; /* in the completeness */
	bool settled; /* the completeness knows how it ended */
	int64_t heard,
		moved; /* last sign of life; last batch, or when one was first owed */
};

struct pr_fanout {
	struct pr_fanout_options options; /* query is ours */
	struct leg *legs;
	size_t leg_count;
	struct pr_completeness *completeness;
	struct pr_source *merge;
	struct pr_segment_builder builder;
	uint8_t *buf;
	size_t room;
	struct pr_packet
		kept; /* did not fit into the last batch; its data is the merge's still */
	bool has_kept, sealed; /* sealed: buf is a batch that waits for credit */
	size_t sealed_len;
	uint32_t credit;
	uint64_t limit, matched, bytes; /* bytes: of packets, from nodes */
	bool count_only; /* as asked: nothing goes to the client but the End */
	bool count_at_node; /* nodes count; no packets come */
	bool limited; /* the limit was reached */
	bool done, merged; /* merged: the merge is at its end */
	Packrack__End sums; /* of the nodes' */
	struct pr_tally *tally; /* of the nodes', when asked for */
	struct pr_tally_part part;
	size_t tally_at; /* how much the client has been given */
	int64_t mono;
};

/* Merges and sends as far as nodes and credit let it. flush: also a batch that is not full. */
void pr_fanout_pump(struct pr_fanout *f, bool flush);
/* Ends the answer here. */
void pr_fanout_finish(struct pr_fanout *f, bool cancelled);
/* Asks all over again, for the packets themselves. -1: err. */
int pr_fanout_recount(struct pr_fanout *f, struct pr_error *err);
/* Gives up; the client is told why. */
void pr_fanout_failure(struct pr_fanout *f, const char *text, bool bad_request);
/* Passes on what remotes found wrong, and asks for more where there is room. */
void pr_fanout_grant(struct pr_fanout *f);
void pr_fanout_cancel_legs(struct pr_fanout *f);

#endif
