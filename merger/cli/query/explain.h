/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_CLI_EXPLAIN_H
#define PR_CLI_EXPLAIN_H

#include <stdio.h>

#include "indexer/filter/plan.h"
#include "merger/cli/render.h"
#include "proto/rpc/packrack.pb-c.h"

/*
 * What --explain says of an answer: the plan in words, for each link type there is, and what was read
 * and skipped, node by node. plans: those of the question, none if it had no filter.
 */
/* The time range that flags and filter come to. */
void explain_range(FILE *to, int64_t since, int64_t until);
void explain_text(FILE *to, const struct pri_plans *plans, const Packrack__End *end);
void explain_render(struct render *r, const struct pri_plans *plans);

#endif
