/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRM_MERGER_COMPLETENESS_INTERNAL_H
#define PRM_MERGER_COMPLETENESS_INTERNAL_H

#include "merger/completeness.h"

/*
 * Shared by completeness.c (stretches that nodes hold), completeness_sweep.c (their union, and its holes),
 * completeness_end.c (what nodes say at their end), completeness_missing.c (the holes' reasons) and
 * completeness_report.c (all of it put together).
 */

/* A stretch as a node told it; bits NULL: all of first..last. */
struct piece {
	uint64_t first, last;
	int64_t first_otime, last_otime;
	uint8_t *bits;
};

/* A seq known to be held somewhere, and its otime. seq 0: none. */
struct point {
	uint64_t seq;
	int64_t otime;
};

/* One (epoch, link). */
struct line {
	uint64_t epoch;
	uint32_t link;
	struct piece *pieces; /* by first; only what is not yet judged */
	size_t count, room;
	uint64_t judged; /* all seqs up to this one are settled */
	struct point first; /* lowest held in the range */
	struct point last; /* highest among the judged whose otime is known */
	uint64_t top; /* highest held among the judged; 0: none */
	struct point below, above; /* edges: nearest held outside the range */
	struct point lost; /* highest of the losses in the range */
	uint64_t held;
	Packrack__Ledger
		*ledger; /* merged over nodes; owned by prm_completeness; NULL: none */
	uint64_t evicted_seq; /* highest seq known to be evicted at some node */
	bool evicted_hole; /* something that was evicted is nowhere else */
	bool in_scope; /* the query's link filter lets it through */
	struct {
		int64_t said_until;
		uint64_t seq; /* all up to here is stored there or known to be lost */
		bool ended;
	} * told; /* each node's own copy of the ledger */
	size_t told_count;
	uint64_t settled; /* lowest seq told by those that still hear the dispatcher */
};

struct hole {
	size_t line;
	uint64_t first, last;
	int64_t low, high; /* otime of the held neighbours; INT64_MIN, INT64_MAX: none */
};

struct loss {
	size_t line;
	uint64_t first, last, count;
	int64_t first_time, last_time;
	char *reason;
	int node;
};

struct node {
	char *name;
	char *error; /* NULL: none */
	bool ended;
	bool limited; /* it gave as much as was asked for: it knows more than it told */
	int64_t frontier;
	Packrack__NodeAnswer figures; /* its numbers, once the node has ended */
	uint64_t corrupt;
	char *why; /* it was asked or not; NULL: nothing to say */
	bool left_out;
};

struct prm_completeness {
	struct prm_completeness_options options;
	char *link;
	struct line *lines;
	size_t line_count, line_room;
	size_t *table; /* open addressing, line index + 1 */
	size_t table_size;
	struct node *nodes;
	size_t node_count;
	struct hole *holes;
	size_t hole_count, hole_room;
	uint64_t surplus_packets, surplus_ranges; /* holes beyond HOLES_MAX */
	struct loss *losses;
	size_t loss_count, loss_room;
	Packrack__Evicted **evicted;
	size_t evicted_count;
	Packrack__Ledger **ledgers;
	size_t ledger_count;
	uint64_t held, told; /* distinct, and summed over nodes */
	size_t bytes;
	bool cut, failed_memory;
	bool loose; /* some told what they hold of times beyond the range, too */
	int64_t cut_otime;
	size_t *active; /* sweep's scratch: pieces that may cover the present seq */
	size_t active_room;
};

/* Finds or creates; NULL: no memory, or too many. */
struct line *prm_completeness_line(
	struct prm_completeness *c, uint64_t epoch, uint32_t link);
/* Records a hole, or counts it when there are too many. */
void prm_completeness_hole(struct prm_completeness *c, size_t line, uint64_t first,
	uint64_t last, int64_t low, int64_t high);
/*
 * otime never falls as seq grows: what is not between the edges, as far as they are known, is not of the
 * time range. false: nothing of *first..*last is left.
 */
bool prm_completeness_clip(const struct line *line, uint64_t *first, uint64_t *last);
/* Grows an array to hold count + 1 items of size; false: no memory. */
bool prm_completeness_grow(void **items, size_t count, size_t *room, size_t size);
/* From all nodes' ledgers: has it ended, and how far is it settled. */
void prm_completeness_heard(const struct prm_completeness *c, struct line *line);
/* Settles all seqs up to upto, at which a piece of the line must end. */
void prm_completeness_sweep(struct prm_completeness *c, struct line *line, uint64_t upto);
/* Settles all of the line that lies before an otime; INT64_MAX: all. */
void prm_completeness_settle(struct prm_completeness *c, struct line *line, int64_t before);
/* How far all nodes that still talk have told all. */
int64_t prm_completeness_frontier(const struct prm_completeness *c);
/* Counts and lists all holes with their reasons. No memory: failed_memory is set. */
void prm_completeness_explain(struct prm_completeness *c, Packrack__Completeness *out);
/* A copy for a message; NULL, and failed_memory is set: no memory. */
char *prm_completeness_text(struct prm_completeness *c, const char *text);

#endif
