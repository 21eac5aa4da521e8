/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_ANSWER_END_H
#define PRI_INDEXER_ANSWER_END_H

#include "indexer/query/query.h"
#include "proto/base/error.h"
#include "proto/rpc/packrack.pb-c.h"

/* The End of an answer: figures, losses, what is evicted, ledgers. */
struct pri_answer_end;
/* At most so many losses are listed; neighbours are put together beyond. */
#define PRI_ANSWER_LOSSES_MAX 20000

/*
 * When the query is made: the ledgers are those of that time, as the packets are. Later ones declare
 * packets that were stored since, which the answer then would seem to lack.
 */
struct pri_answer_end *pri_answer_end_create(
	struct pri_volume *view, struct pri_query *query, struct pr_error *err);
/* The rest, when all has been searched; once. */
int pri_answer_end_fill(struct pri_answer_end *end, struct pri_volume *view,
	struct pri_query *query, struct pr_error *err);
void pri_answer_end_destroy(struct pri_answer_end **end);
const Packrack__End *pri_answer_end_message(const struct pri_answer_end *end);

/* facts must have a mark; texts are borrowed. */
void pri_answer_ledger(Packrack__Ledger *out, const struct pri_series_ledger *facts);

#endif
