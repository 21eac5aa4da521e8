/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_CLI_RATE_TEXT_H
#define PR_CLI_RATE_TEXT_H

#include "merger/cli/query/counted.h"
#include "merger/cli/query/rate_series.h"

/* What `packrack rate` says: the steps with any packets, or with a limit the busy stretches. */
struct rate_text {
	const struct counted *counted; /* its tally sorted */
	int64_t step, at_least;
	bool limited;
	struct rate_limit limit;
};

/* For people, on standard output. */
void rate_print(const struct rate_text *t);
void rate_render(struct render *r, const struct rate_text *t);

#endif
