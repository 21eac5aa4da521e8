/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_PLAN_FINISH_H
#define PRI_INDEXER_PLAN_FINISH_H

#include "indexer/filter/plan_term.h"

/*
 * The plan that a formula is: what it is made of, numbered anew, and nothing nested to the left deeper
 * than a walk over it may go (there it "may match"). NULL: no memory. Within the planner only.
 */
struct pri_plan *pri_plan_finish(const struct pri_terms *terms, uint32_t term);

#endif
