/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_PLAN_WORDS_H
#define PRI_INDEXER_PLAN_WORDS_H

#include <stdbool.h>
#include <stdio.h>

#include "indexer/filter/plan.h"

/* Leaves of a plan in words; both: it is of one side, and the same of the other side is an alternative. */
void pri_plan_print_key(FILE *to, const struct pri_key *key, bool both);
void pri_plan_print_range(FILE *to, const struct pri_plan_range *range, bool both);

#endif
