/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_CLI_TIME_TOKENS_H
#define PR_CLI_TIME_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/error.h"

/* A word of a filter, a parenthesis, an operator, or a whole term of time. Within time_terms.c only. */
struct time_token {
	size_t at, len; /* in the text */
	enum {
		TOKEN_WORD,
		TOKEN_AND,
		TOKEN_OR,
		TOKEN_NOT,
		TOKEN_OPEN,
		TOKEN_CLOSE,
		TOKEN_TIME
	} kind;
	bool after; /* or before, */
	int64_t time; /* which is included */
};

struct time_tokens {
	struct time_token *items;
	size_t count;
};

/* -1 err: a term without a time, no memory. Free items in any case. */
int time_tokens_scan(
	const char *text, int64_t now, struct time_tokens *out, struct pr_error *err);

/*
 * When can the filter hold at all? Narrows *since and *until to that; leaves them alone where the
 * filter is none that it understands.
 */
void time_hull_narrow(const struct time_tokens *tokens, int64_t *since, int64_t *until);

#endif
