/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_CLI_COUNTED_H
#define PR_CLI_COUNTED_H

#include "merger/cli/query/ask.h"

/* An answer that was counted (query_args.tally): in sink->tally, and what it says of itself. */
struct counted {
	struct sink sink;
	struct ask_answer answer;
};

/*
 * Asks, and prints what came: print gets NULL for people, else where the fields go; then what the answer
 * says of itself. The command's exit status.
 */
int counted_run(const struct query_args *a,
	void (*print)(void *arg, const struct counted *c, struct render *r), void *arg);

/* May packets of [first, last] be missing? */
bool counted_partial(const struct counted *c, int64_t first, int64_t last);

/* 1234567 -> "1.23M"; buf of COUNTED_TEXT. */
#define COUNTED_TEXT 32
const char *counted_si(double value, char *buf);

#endif
