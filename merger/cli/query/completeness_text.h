/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_CLI_QUERY_COMPLETENESS_TEXT_H
#define PR_CLI_QUERY_COMPLETENESS_TEXT_H

#include <stdio.h>

#include "indexer/filter/plan.h"
#include "merger/cli/query/answer_sink.h"
#include "merger/cli/render.h"
#include "proto/rpc/packrack.pb-c.h"

/* What an answer says of itself. */

/* CLI_OK or CLI_PARTIAL. */
int report_status(const Packrack__End *end);

/* A block for people. */
void report_text(FILE *to, const Packrack__End *end, const struct sink *sink);

/* The whole of it, for JSON and key=value. */
void report_render(struct render *r, const Packrack__End *end, const struct sink *sink);

/* The block for people as a string (free), for a trace's comment; NULL: no memory. */
char *report_comment(const Packrack__End *end);

/*
 * What --explain says of an answer: the plan in words, for each link type there is, and what was read
 * and skipped, node by node. plans: those of the question, none if it had no filter.
 */
/* The time range that flags and filter come to. */
void explain_range(FILE *to, int64_t since, int64_t until);
void explain_text(FILE *to, const struct pri_plans *plans, const Packrack__End *end);
void explain_render(struct render *r, const struct pri_plans *plans);

#endif
