/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRM_MERGER_FANOUT_INTERNAL_H
#define PRM_MERGER_FANOUT_INTERNAL_H

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
	struct prm_address address;
	uint64_t id;
	struct prm_remote *remote; /* NULL: it was not asked */
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

struct prm_fanout {
	struct prm_fanout_options options; /* query is ours */
	struct leg *legs;
	size_t leg_count;
	struct prm_completeness *completeness;
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
void prm_fanout_pump(struct prm_fanout *f, bool flush);
/* Ends the answer here. */
void prm_fanout_finish(struct prm_fanout *f, bool cancelled);
/* Asks all over again, for the packets themselves. -1: err. */
int prm_fanout_recount(struct prm_fanout *f, struct pr_error *err);
/* Asks all nodes for the completeness, when the answer itself has been given. -1: err. */
int prm_fanout_recheck(struct prm_fanout *f, struct pr_error *err);
/* Gives up; the client is told why. */
void prm_fanout_failure(struct prm_fanout *f, const char *text, bool bad_request);
/* Passes on what remotes found wrong, and asks for more where there is room. */
void prm_fanout_grant(struct prm_fanout *f);
void prm_fanout_cancel_legs(struct prm_fanout *f);
/* To the leg's node. -1: it could not be sent. */
int prm_fanout_send(const struct leg *leg, Packrack__Envelope *env);
/* The node is left out from here on, and the completeness says why. */
void prm_fanout_fail(struct prm_fanout *f, struct leg *leg, const char *why);
/* It was asked, and has not ended. */
bool prm_fanout_live(const struct leg *leg);
/* Sends the query to all nodes that may match; f has no legs yet. -1: err. */
int prm_fanout_ask_all(struct prm_fanout *f, bool count_at_node, struct pr_error *err);
/* Asks all nodes anew, as the query now is; figures are added to. -1: err. */
int prm_fanout_ask_again(struct prm_fanout *f, struct pr_error *err);

/* fanout_follow.c: the first round's time range is set. */
void prm_fanout_follow_begin(struct prm_fanout *f);
/* A round has ended; its completeness is taken over into the total. true: another one will follow. */
bool prm_fanout_follow_round(struct prm_fanout *f);
/* Between rounds: begins the next when it is time. */
void prm_fanout_follow_tick(struct prm_fanout *f);
/* Adds what was before to the last round's (sums.completeness), for the End. */
void prm_fanout_follow_sum(struct prm_fanout *f);
void prm_fanout_follow_free(struct prm_fanout *f);

#endif
