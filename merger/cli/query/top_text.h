/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_CLI_TOP_TEXT_H
#define PR_CLI_TOP_TEXT_H

#include "merger/cli/query/counted.h"

/*
 * What `packrack top` says of a tally that was cut to the best (pr_tally_cut). Counts are bounds where
 * the index gave them: at least, and at most.
 */

/* For people, on standard output. */
void top_print(const struct counted *c);
void top_render(struct render *r, const struct counted *c);

#endif
