/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_INDEXER_PRUNE_GROUP_H
#define PR_INDEXER_PRUNE_GROUP_H

#include <stdbool.h>
#include <stdint.h>

#include "indexer/plan.h"
#include "indexer/prune.h"
#include "indexer/view.h"

/* Level 2 for a query, of one stream: the group that it is at, and the pages of it that were asked for. */
struct pr_prune_group;

/* figures: the query's. NULL: no memory. */
struct pr_prune_group *pr_prune_group_create(
	struct pr_view *view, uint16_t link, struct pr_prune_figures *figures);
void pr_prune_group_destroy(struct pr_prune_group **group);

/* false: the segment of this sequence cannot match. scratch: plan->count bytes. */
bool pr_prune_group_may(struct pr_prune_group *group, const struct pr_index_stream *known,
	const struct pr_plan *plan, uint64_t sequence, uint8_t *scratch, bool *worked);

#endif
