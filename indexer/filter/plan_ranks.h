/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_PLAN_RANKS_H
#define PRI_INDEXER_PLAN_RANKS_H

#include "indexer/index/key_rank.h"
#include "indexer/filter/plan.h"

/*
 * In what order an index that is read key by key should be asked: how many keys of each rank are worth
 * asking for, those that are one but for the side once. 0: none is; such keys are to be taken as there.
 * scratch: plan->count bytes.
 */
void pri_plan_ranks(const struct pri_plan *plan, size_t keys[PRI_RANKS], uint8_t *scratch);

/* Of so few ports that they are asked for one by one: how many; else 0. */
#define PRI_RANGE_PORTS 16
unsigned pri_plan_range_ports(const struct pri_plan_range *range);
/* That of them, below what there are. */
struct pri_key pri_plan_range_port(const struct pri_plan_range *range, unsigned index);

#endif
