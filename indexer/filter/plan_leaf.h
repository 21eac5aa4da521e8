/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_PLAN_LEAF_H
#define PRI_INDEXER_PLAN_LEAF_H

#include "indexer/filter/plan_term.h"

/*
 * One test of a program as what an index can be asked: a whole key, a prefix, a range, or TRUE, it may match.
 * Returns the term. Within the planner only.
 */
uint32_t pri_plan_leaf(struct pri_terms *t, uint32_t node);

#endif
