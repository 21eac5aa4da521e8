/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRM_MERGER_ROUTE_H
#define PRM_MERGER_ROUTE_H

#include "merger/completeness.h"

#include "merger/summaries.h"

/*
 * Whether a query must be sent to a node. It is left out only if all that it has told is fresh and whole,
 * the time range is settled there, and each summary that touches the range is here and excludes a match;
 * then its summaries also say which seqs it holds, so that the answer's completeness speaks for it too.
 * True times decide, not the order's. Pure.
 *
 * An answer thus speaks for what nodes had stored when they last told, a few tens of milliseconds ago.
 */
#define PRM_ROUTE_WHY_MAX 120

/* Summaries of which another merger, whose duty they are, says that they exclude a match; one item per node. */
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

/* true: it can be left out. why: the reason, either way. */
bool prm_route_decide(
	struct prm_route *route, const char *node, char why[PRM_ROUTE_WHY_MAX]);
/*
 * What must be asked of other mergers before the node can be judged: calls for each summary that the range
 * touches, that is not here, and whose time is this. At most max; returns how many.
 */
size_t prm_route_lacks(struct prm_route *route, const char *node, size_t max,
	void (*call)(void *arg, int64_t time, uint64_t boot, uint64_t number), void *arg);
/* For another merger: does this summary exclude a match, and need nobody ask its node what it holds? */
bool prm_route_excludes(struct prm_route *route, uint64_t boot, uint64_t number);
/* Tells the completeness what the node, which was left out, would have told. */
int prm_route_tell(struct prm_route *route, const char *node, struct prm_completeness *c,
	int index, struct pr_error *err);

#endif
