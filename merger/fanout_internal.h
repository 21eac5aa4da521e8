/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_MERGER_FANOUT_INTERNAL_H
#define PR_MERGER_FANOUT_INTERNAL_H

#include "merger/completeness.h"
#include "merger/fanout.h"
#include "merger/remote.h"
#include "merger/route.h"
#include "proto/rpc/tally.h"
#include "proto/wire/segment.h"

/*
 * fanout.c begins and ends, fanout_asked.c asks the nodes, fanout_nodes.c hears them, fanout_answer.c
 * deals with the client, fanout_follow.c with a query that goes on.
 */

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

/* Of a query that goes on: round after round, each of a time range behind the one before. */
struct follow {
	bool on, idle; /* idle: between two rounds */
	int64_t until; /* as asked */
	int64_t round_mono;
	Packrack__Completeness *total; /* of the rounds before; NULL: none was */
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
	/*
	 * An answer that is not complete is checked by asking all nodes, those too that were left out: what
	 * these hold may have grown since they last told.
	 */
	bool rechecking;
	bool broken_off; /* not by its client */
	uint64_t given; /* matched, when that began */
	uint64_t asked, left_out; /* nodes, at first */
	Packrack__End sums; /* of the nodes' */
	struct pr_tally *tally; /* of the nodes', when asked for */
	struct pr_tally_part part;
	size_t tally_at; /* how much the client has been given */
	int64_t mono, began; /* began: when options.real was */
	struct follow follow;
};

/* Merges and sends as far as nodes and credit let it. flush: also a batch that is not full. */
void pr_fanout_pump(struct pr_fanout *f, bool flush);
/* Ends the answer here. */
void pr_fanout_finish(struct pr_fanout *f, bool cancelled);
/* Asks all over again, for the packets themselves. -1: err. */
int pr_fanout_recount(struct pr_fanout *f, struct pr_error *err);
/* Asks all nodes for the completeness, when the answer itself has been given. -1: err. */
int pr_fanout_recheck(struct pr_fanout *f, struct pr_error *err);
/* Gives up; the client is told why. */
void pr_fanout_failure(struct pr_fanout *f, const char *text, bool bad_request);
/* Passes on what remotes found wrong, and asks for more where there is room. */
void pr_fanout_grant(struct pr_fanout *f);
void pr_fanout_cancel_legs(struct pr_fanout *f);
/* To the leg's node. -1: it could not be sent. */
int pr_fanout_send(const struct leg *leg, Packrack__Envelope *env);
/* The node is left out from here on, and the completeness says why. */
void pr_fanout_fail(struct pr_fanout *f, struct leg *leg, const char *why);
/* It was asked, and has not ended. */
bool pr_fanout_live(const struct leg *leg);
/* Sends the query to all nodes that may match; f has no legs yet. -1: err. */
int pr_fanout_ask_all(struct pr_fanout *f, bool count_at_node, struct pr_error *err);
/* Asks all nodes anew, as the query now is; figures are added to. -1: err. */
int pr_fanout_ask_again(struct pr_fanout *f, struct pr_error *err);

/* fanout_follow.c: the first round's time range is set. */
void pr_fanout_follow_begin(struct pr_fanout *f);
/* A round has ended; its completeness is taken over into the total. true: another one will follow. */
bool pr_fanout_follow_round(struct pr_fanout *f);
/* Between rounds: begins the next when it is time. */
void pr_fanout_follow_tick(struct pr_fanout *f);
/* Adds what was before to the last round's (sums.completeness), for the End. */
void pr_fanout_follow_sum(struct pr_fanout *f);
void pr_fanout_follow_free(struct pr_fanout *f);

#endif
