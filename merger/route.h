/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_MERGER_ROUTE_H
#define PR_MERGER_ROUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "merger/completeness.h"
#include "merger/lookups.h"
#include "merger/summaries.h"

/*
 * Whether a query must be sent to a node. It is left out only if all that it has told is fresh and whole,
 * the time range is settled there, and each summary that touches the range is here and excludes a match;
 * then its summaries also say which seqs it holds, so that the answer's completeness speaks for it too.
 * True times decide, not the order's. Pure.
 *
 * An answer thus speaks for what nodes had stored when they last told, a few tens of milliseconds ago.
 */
#define PR_ROUTE_WHY_MAX 120

/* Summaries of which another merger, whose duty they are, says that they exclude a match. */
struct pr_verdicts {
	struct pr_verdict {
		uint64_t boot, number;
	} * items;
	size_t count, room;
};
#define PR_VERDICTS_MAX 8192
void pr_verdicts_add(struct pr_verdicts *verdicts, uint64_t boot, uint64_t number);
void pr_verdicts_free(struct pr_verdicts *verdicts);

struct pr_route {
	const struct pr_summaries *summaries;
	const struct pr_verdicts *verdicts; /* NULL: none */
	const Packrack__Query *query; /* since, until, link, strays, lookups */
	struct pr_lookups lookups;
	int64_t mono;
	uint64_t asked, left_out; /* nodes, by pr_route_decide */
	uint64_t tested, excluded; /* summaries, one by one */
	struct pr_clusters_asked clusters; /* the third level, which is asked first */
};

/* query is borrowed. -1: no memory. */
int pr_route_begin(struct pr_route *route, const struct pr_summaries *summaries,
	const Packrack__Query *query, int64_t mono);
void pr_route_end(struct pr_route *route);

/* true: it can be left out. why: the reason, either way. */
bool pr_route_decide(struct pr_route *route, const char *node, char why[PR_ROUTE_WHY_MAX]);
/*
 * What must be asked of other mergers before the node can be judged: calls for each summary that the range
 * touches, that is not here, and whose time is this. At most max; returns how many.
 */
size_t pr_route_lacks(struct pr_route *route, const char *node, size_t max,
	void (*call)(void *arg, int64_t time, uint64_t boot, uint64_t number), void *arg);
/* For another merger: does this summary exclude a match, and need nobody ask its node what it holds? */
bool pr_route_excludes(struct pr_route *route, uint64_t boot, uint64_t number);
/* Tells the completeness what the node, which was left out, would have told. */
int pr_route_tell(struct pr_route *route, const char *node, struct pr_completeness *c,
	int index, struct pr_error *err);

#endif
