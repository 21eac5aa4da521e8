/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_SUMMARIZE_H
#define PRI_INDEXER_SUMMARIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "indexer/index/hashset.h"
#include "indexer/index/range_builder.h"
#include "indexer/index/segment_keys.h"
#include "proto/wire/segment.h"
#include "proto/wire/summary.h"

/*
 * Gathers a record of level 3 (proto/wire/summary.h) over consecutive segments of one (epoch, link):
 * the keys of level 2, and the seqs that they hold. Pure. Zeroed is empty.
 */
#define PRI_SUMMARIZE_TIME_NS INT64_C(10000000000) /* true time that one speaks of, about */
#define PRI_SUMMARIZE_SEGMENTS 65536
/* Bytes of seqs held; a flow spread over 20 nodes takes 2.5 a packet. */
#define PRI_SUMMARIZE_RUNS_MAX (256 * 1024)

struct pri_summarizer {
	struct pr_summary_span span; /* segments 0: none yet */
	uint64_t check; /* pri_segments_digest_add over the segments */
	struct pri_hashset keys;
	struct pri_range_builder stretch;
	struct pri_range_list held;
};

void pri_summarizer_free(struct pri_summarizer *z);
/* The next segment, which follows those before it, and is of their line. -1: no memory. */
int pri_summarizer_segment(struct pri_summarizer *z, uint64_t sequence, uint64_t proof,
	const struct pr_segment_header *h, const struct pri_segment_keys *sketch);
/* Hashes of the keys of segments that it has. */
int pri_summarizer_keys(struct pri_summarizer *z, const struct pri_hashset *wide);
/* It speaks of enough. record_max: bytes of a record that the volume takes. */
bool pri_summarizer_due(const struct pri_summarizer *z, size_t record_max);
/* -1: no memory. Then pri_summarizer_write to that many bytes; it is empty after. */
int pri_summarizer_size(struct pri_summarizer *z, size_t *size);
size_t pri_summarizer_write(struct pri_summarizer *z, size_t record_max, uint8_t *out);

#endif
