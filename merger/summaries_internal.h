/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_MERGER_SUMMARIES_INTERNAL_H
#define PR_MERGER_SUMMARIES_INTERNAL_H

#include "merger/summaries.h"

/* summaries.c lists what nodes told of; summaries_bodies.c asks for them, keeps them and lets them go. */

struct pr_summaries {
	struct pr_cover **covers;
	size_t count;
	const struct pr_duty *duty;
	uint64_t memory;
	int64_t floor; /* what is not newer was evicted: not asked for again */
	struct pr_clusters *clusters;
	struct pr_summaries_figures figures;
};

/* NULL: it has told nothing. */
struct pr_cover *pr_summaries_cover(const struct pr_summaries *s, const char *node);
/* NULL: it is not listed. */
struct pr_holding *pr_summaries_number(const struct pr_cover *c, uint64_t number);
/* Its body, if it is here. */
void pr_summaries_drop(struct pr_summaries *s, struct pr_cover *c, struct pr_holding *h);
/* The bodies of which others have had the duty for a while. */
void pr_summaries_give_back(struct pr_summaries *s, struct pr_cover *c, int64_t mono);

#endif
