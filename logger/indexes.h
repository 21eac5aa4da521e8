/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_LOGGER_INDEXES_H
#define PR_LOGGER_INDEXES_H

#include <stddef.h>
#include <stdint.h>

#include "logger/directory_journal.h"
#include "logger/streamfs/streamfs.h"

/*
 * Records of the index, made by the indexer (the logger knows nothing of what is in them), into stream
 * "index.N" of the volume. Its storage guarantee is in proportion to that of "packets.N", of which it
 * speaks: so the two age together. One thread.
 */
struct pr_index_body {
	uint16_t link, level; /* 1, 2 or 3 */
	uint64_t first_sequence, check; /* of stream "packets.N" */
	uint32_t segments;
	int64_t min_time, max_time;
	const void *body;
	size_t len;
};

struct pr_indexes;

/* segments, summaries: where it is said where those of levels 1 and 2, and 3, lie. All stay the caller's. */
struct pr_indexes *pr_indexes_create(struct sfs *sfs, struct pr_directory_journal *segments,
	struct pr_directory_journal *summaries, struct pr_error *err);
void pr_indexes_destroy(struct pr_indexes **indexes);

/* Is it about segments that are there, and of a size that the volume takes? 0, or -1 and why not. */
int pr_indexes_check(
	struct pr_indexes *x, const struct pr_index_body *index, struct pr_error *err);
/* Of one that was checked. -1: the volume refuses. */
int pr_indexes_append(
	struct pr_indexes *x, const struct pr_index_body *index, struct pr_error *err);

#endif
