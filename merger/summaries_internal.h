/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRM_MERGER_SUMMARIES_INTERNAL_H
#define PRM_MERGER_SUMMARIES_INTERNAL_H

#include "merger/summaries.h"

/* summaries.c lists what nodes told of; summaries_bodies.c asks for them, keeps them and lets them go. */

struct prm_summaries {
	struct prm_cover **covers;
	size_t count;
	const struct prm_duty *duty;
	uint64_t memory;
	int64_t floor; /* what is not newer was evicted: not asked for again */
	struct prm_clusters *clusters;
	struct prm_summaries_figures figures;
};

/* NULL: it has told nothing. */
struct prm_cover *prm_summaries_cover(const struct prm_summaries *s, const char *node);
/* NULL: it is not listed. */
struct prm_holding *prm_summaries_number(const struct prm_cover *c, uint64_t number);
/* Its body, if it is here. */
void prm_summaries_drop(
	struct prm_summaries *s, struct prm_cover *c, struct prm_holding *h);
/* The bodies of which others have had the duty for a while. */
void prm_summaries_give_back(struct prm_summaries *s, struct prm_cover *c, int64_t mono);

#endif
