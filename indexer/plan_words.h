/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_INDEXER_PLAN_WORDS_H
#define PR_INDEXER_PLAN_WORDS_H

#include <stdbool.h>
#include <stdio.h>

#include "indexer/plan.h"

/* Leaves of a plan in words; both: it is of one side, and the same of the other side is an alternative. */
void pr_plan_print_key(FILE *to, const struct pr_key *key, bool both);
void pr_plan_print_range(FILE *to, const struct pr_plan_range *range, bool both);

#endif
