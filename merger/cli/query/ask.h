/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_CLI_QUERY_ASK_H
#define PR_CLI_QUERY_ASK_H

#include "indexer/filter/plan.h"
#include "merger/cli/query/answer_sink.h"
#include "merger/cli/query/query_args.h"
#include "proto/rpc/packrack.pb-c.h"

/* The answer without its packets. Call ask_answer_free in all cases. */
struct ask_answer {
	Packrack__End *end; /* on ASK_DONE */
	struct pri_plans plans; /* of the question, with --explain */
};
void ask_answer_free(struct ask_answer *answer);

/* Asks a merger, or volumes in this process; packets go into the sink as they come. */
enum ask_result {
	ASK_DONE,
	ASK_CLOSED, /* nobody reads our output any more */
	ASK_FAILED,
	ASK_USAGE, /* the filter does not compile, and the like */
};

/* The filter is checked first: ASK_USAGE before anything is opened. */
enum ask_result ask_query(const struct query_args *a, struct sink *sink,
	struct ask_answer *answer, struct pr_error *err);

/* The two ways of ask_query(). */
enum ask_result ask_merger(const struct query_args *a, struct sink *sink,
	struct ask_answer *answer, struct pr_error *err);
enum ask_result ask_volumes(const struct query_args *a, struct sink *sink,
	struct ask_answer *answer, struct pr_error *err);

/* The distinct link types of links; *out from malloc. Returns their number, or -1: no memory. */
int ask_linktypes(Packrack__LinkInfo *const *links, size_t count, uint16_t **out,
	struct pr_error *err);

/* Warns on stderr if --link names none of these links. */
void ask_warn_link(
	const struct query_args *a, Packrack__LinkInfo *const *links, size_t count);

#endif
