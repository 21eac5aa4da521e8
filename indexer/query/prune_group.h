/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_PRUNE_GROUP_H
#define PRI_INDEXER_PRUNE_GROUP_H

#include <stdbool.h>
#include <stdint.h>

#include "indexer/filter/plan.h"
#include "indexer/query/prune.h"
#include "indexer/query/volume.h"

/* Level 2 for a query, of one stream: the group that it is at, and the pages of it that were asked for. */
struct pri_prune_group;

/* figures: the query's. NULL: no memory. */
struct pri_prune_group *pri_prune_group_create(
	struct pri_volume *view, uint16_t link, struct pri_prune_stats *figures);
void pri_prune_group_destroy(struct pri_prune_group **group);

/* false: the segment of this sequence cannot match. scratch: plan->count bytes. */
bool pri_prune_group_may(struct pri_prune_group *group,
	const struct pri_index_stream *known, const struct pri_plan *plan,
	uint64_t sequence, uint8_t *scratch, bool *worked);

#endif
