/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRM_MERGER_CLUSTERS_H
#define PRM_MERGER_CLUSTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "merger/lookups.h"
#include "proto/wire/summary.h"

/*
 * The third level of the index (Hyperion, section 7.4): what the nodes of a cluster sent for an interval of
 * time (merger/duty.h), as one. To put their signatures together by OR would fill it: so they are
 * bit-sliced, as level 2 is, and one test says of PRM_CLUSTERS_COLUMNS summaries at a time which of them may
 * match; when the slices' AND is empty, none. Those of one size and link type share a block. Pure.
 */
struct prm_clusters;

#define PRM_CLUSTERS_COLUMNS 8

/* Where a summary lies. block 0: nowhere, it must be tested by itself. */
struct prm_clusters_place {
	uint32_t block;
	uint8_t column;
};

/* memory: bytes of blocks; what has no room is not taken in. NULL: no memory. */
struct prm_clusters *prm_clusters_create(uint64_t memory);
void prm_clusters_destroy(struct prm_clusters **clusters);

/*
 * Takes in a summary whose last packet is of this time, of packets of this link type (as lookups.h has it).
 * cluster "": belongs to none.
 */
struct prm_clusters_place prm_clusters_add(struct prm_clusters *clusters,
	const char *cluster, int64_t time, uint32_t linktype,
	const struct pr_summary *summary);
/* It is not asked for any more; an empty block goes. */
void prm_clusters_remove(struct prm_clusters *clusters, struct prm_clusters_place place);

/* What one query was told, while nothing is added or removed; zeroed is ready. */
struct prm_clusters_asked {
	struct prm_clusters_said {
		bool asked;
		uint8_t may; /* a bit a column */
	} * said; /* by block */
	size_t room;
	uint64_t tested, excluded; /* blocks; those of which no summary may match */
};
void prm_clusters_asked_free(struct prm_clusters_asked *asked);
/* Is a match in the summary excluded? false also when nothing is known. */
bool prm_clusters_exclude(const struct prm_clusters *clusters,
	struct prm_clusters_place place, struct prm_lookups *lookups,
	struct prm_clusters_asked *asked);

uint64_t prm_clusters_bytes(const struct prm_clusters *clusters);
size_t prm_clusters_count(const struct prm_clusters *clusters); /* of blocks */

#endif
