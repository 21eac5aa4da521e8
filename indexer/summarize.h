/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_INDEXER_SUMMARIZE_H
#define PR_INDEXER_SUMMARIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "indexer/hashset.h"
#include "indexer/held.h"
#include "indexer/sketch.h"
#include "proto/wire/segment.h"
#include "proto/wire/summary.h"

/*
 * Gathers a record of level 3 (proto/wire/summary.h) over consecutive segments of one (epoch, link):
 * the keys of level 2, and the seqs that they hold. Pure. Zeroed is empty.
 */
#define PR_SUMMARIZE_TIME_NS INT64_C(10000000000) /* true time that one speaks of, about */
#define PR_SUMMARIZE_SEGMENTS 65536
/* Bytes of seqs held; a flow spread over 20 nodes takes 2.5 a packet. */
#define PR_SUMMARIZE_RUNS_MAX (256 * 1024)

struct pr_summarizer {
	struct pr_summary_span span; /* segments 0: none yet */
	uint64_t check; /* pr_level2_check over the segments */
	struct pr_hashset keys;
	struct pr_stretch stretch;
	struct pr_held_list held;
};

void pr_summarizer_free(struct pr_summarizer *z);
/* The next segment, which follows those before it, and is of their line. -1: no memory. */
int pr_summarizer_segment(struct pr_summarizer *z, uint64_t sequence, uint64_t proof,
	const struct pr_segment_header *h, const struct pr_sketch *sketch);
/* Hashes of the keys of segments that it has. */
int pr_summarizer_keys(struct pr_summarizer *z, const struct pr_hashset *wide);
/* It speaks of enough. record_max: bytes of a record that the volume takes. */
bool pr_summarizer_due(const struct pr_summarizer *z, size_t record_max);
/* -1: no memory. Then pr_summarizer_write to that many bytes; it is empty after. */
int pr_summarizer_size(struct pr_summarizer *z, size_t *size);
size_t pr_summarizer_write(struct pr_summarizer *z, size_t record_max, uint8_t *out);

#endif
