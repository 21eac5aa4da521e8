/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "merger/completeness.h"

#include "merger/summaries.h"

/*
 * Decides whether a query must be sent to a node. The node is left out only if its last
 * report is recent and complete, the time range is settled there, and each summary that
 * touches the range is here and excludes a match. Then the summaries also give the seqs
 * that the node holds, so that the completeness report covers it too. Packet times decide,
 * not otimes. No I/O.
 *
 * So an answer covers what nodes had stored at their last report, some tens of milliseconds
 * ago.
 */
#define PRM_ROUTE_WHY_MAX 120

/*
 * Summaries that exclude a match, as reported by the mergers responsible for them; one item
 * for each node.
 */
struct prm_exclusions {
	Packrack__RouteItem **items; /* as in messages */
	size_t count;
};
#define PRM_EXCLUSIONS_MAX 8192 /* summaries */
void prm_exclusions_add(struct prm_exclusions *exclusions, uint64_t boot, uint64_t number);
void prm_exclusions_free(struct prm_exclusions *exclusions);

struct prm_route {
	const struct prm_summaries *summaries;
	const struct prm_exclusions *exclusions; /* NULL: none */
	const Packrack__Query *query; /* since, until, link, strays, lookups */
	struct prm_lookups lookups;
	int64_t mono;
	uint64_t asked, left_out; /* nodes, by prm_route_decide */
	uint64_t tested, excluded; /* summaries, one by one */
	struct prm_cluster_cache clusters; /* the third level, which is asked first */
};

/* query is borrowed. -1: no memory. */
int prm_route_begin(struct prm_route *route, const struct prm_summaries *summaries,
	const Packrack__Query *query, int64_t mono);
void prm_route_end(struct prm_route *route);

/* True: the node can be left out. why: the reason, in both cases. */
bool prm_route_decide(
	struct prm_route *route, const char *node, char why[PRM_ROUTE_WHY_MAX]);
/*
 * Lists what other mergers must be asked before the node can be judged: calls `call` for
 * each summary that the range touches and that is not here; `time` tells which merger has
 * it. At most max calls; returns how many.
 */
size_t prm_route_lacks(struct prm_route *route, const char *node, size_t max,
	void (*call)(void *arg, int64_t time, uint64_t boot, uint64_t number), void *arg);
/*
 * For another merger: true if this summary excludes a match, and its node need not be asked
 * which seqs it holds.
 */
bool prm_route_excludes(struct prm_route *route, uint64_t boot, uint64_t number);
/* Adds to the completeness what a node that was left out would have reported. */
int prm_route_tell(struct prm_route *route, const char *node, struct prm_completeness *c,
	int index, struct pr_error *err);
