/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_INDEXER_ANSWER_END_H
#define PR_INDEXER_ANSWER_END_H

#include "indexer/query.h"
#include "proto/base/error.h"
#include "proto/rpc/packrack.pb-c.h"

/* The End of an answer: figures, losses, what is evicted, ledgers. */
struct pr_answer_end;
/* At most so many losses are listed; neighbours are put together beyond. */
#define PR_ANSWER_LOSSES_MAX 20000

/*
 * When the query is made: the ledgers are those of that time, as the packets are. Later ones declare
 * packets that were stored since, which the answer then would seem to lack.
 */
struct pr_answer_end *pr_answer_end_create(
	struct pr_view *view, struct pr_query *query, struct pr_error *err);
/* The rest, when all has been searched; once. */
int pr_answer_end_fill(struct pr_answer_end *end, struct pr_view *view,
	struct pr_query *query, struct pr_error *err);
void pr_answer_end_destroy(struct pr_answer_end **end);
const Packrack__End *pr_answer_end_message(const struct pr_answer_end *end);

/* facts must have a mark; texts are borrowed. */
void pr_answer_ledger(Packrack__Ledger *out, const struct pr_facts *facts);

#endif
