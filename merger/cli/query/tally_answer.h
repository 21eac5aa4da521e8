/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_CLI_TALLY_ANSWER_H
#define PR_CLI_TALLY_ANSWER_H

#include "merger/cli/query/ask.h"

/* An answer that was counted (query_args.tally): in sink->tally, and what it says of itself. */
struct tally_answer {
	struct sink sink;
	struct ask_answer answer;
};

/*
 * Asks, and prints what came: print gets NULL for people, else where the fields go; then what the answer
 * says of itself. The command's exit status.
 */
int tally_answer_run(const struct query_args *a,
	void (*print)(void *arg, const struct tally_answer *c, struct render *r),
	void *arg);

/* May packets of [first, last] be missing? */
bool tally_answer_partial(const struct tally_answer *c, int64_t first, int64_t last);

/* 1234567 -> "1.23M"; buf of TALLY_SI_TEXT. */
#define TALLY_SI_TEXT 32
const char *tally_answer_si(double value, char *buf);

#endif
