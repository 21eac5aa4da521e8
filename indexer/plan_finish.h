/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_INDEXER_PLAN_FINISH_H
#define PR_INDEXER_PLAN_FINISH_H

#include "indexer/plan_term.h"

/*
 * The plan that a formula is: what it is made of, numbered anew, and nothing nested to the left deeper
 * than a walk over it may go (there it "may match"). NULL: no memory. Within the planner only.
 */
struct pr_plan *pr_plan_finish(const struct pr_terms *terms, uint32_t term);

#endif
