/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "indexer/index/segment_keys.h"
#include "proto/wire/summary.h"

/*
 * Collects the seqs that a node holds, while a query walks over them in order. They are
 * kept as ranges of at most PRI_RANGE_SPAN seqs, with one bit for each seq if the range has
 * holes. A hole of more than PRI_RANGE_HOLE ends a range. No I/O.
 */
enum { PRI_RANGE_SPAN = 65536, PRI_RANGE_HOLE = 4096 };

struct pri_range_list {
	struct pr_summary_run *items; /* their bits from malloc */
	size_t count;
	size_t bytes; /* of bits, over all */
};
void pri_range_list_free(struct pri_range_list *list); /* also empties it for further use */

/*
 * The range of one (epoch, link) that still grows. Zeroed except epoch and link: there is
 * none.
 */
struct pri_range_builder {
	uint64_t epoch;
	uint16_t link;
	uint64_t first, last; /* last 0: none */
	uint64_t held;
	int64_t first_otime, last_otime;
	uint8_t bits[PRI_RANGE_SPAN / 8];
};

/*
 * Adds all seqs first..last, whose otimes lie between the two given. Seqs must grow; one
 * that does not (a second copy) is ignored. A range that ends is moved to list. -1: no
 * memory.
 */
int pri_range_builder_add_range(struct pri_range_builder *stretch, uint64_t first,
	uint64_t last, int64_t first_otime, int64_t last_otime, struct pri_range_list *list,
	struct pr_error *err);
static inline int
pri_range_builder_add(struct pri_range_builder *stretch, uint64_t seq, int64_t otime,
	struct pri_range_list *list, struct pr_error *err)
{
	/* the usual case, for each packet of a query: the next one, of a stretch without holes */
	if (stretch->last && seq == stretch->last + 1 &&
		stretch->held == seq - stretch->first && stretch->held < PRI_RANGE_SPAN) {
		stretch->held++;
		stretch->last = seq;
		stretch->last_otime = otime;
		return 0;
	}
	return pri_range_builder_add_range(stretch, seq, seq, otime, otime, list, err);
}
/* Ends the range, if there is one, and moves it to list. */
int pri_range_builder_end(struct pri_range_builder *stretch, struct pri_range_list *list,
	struct pr_error *err);

/*
 * Gathers a record of level 3 (proto/wire/summary.h) over consecutive segments of one (epoch, link):
 * the keys of level 2, and the seqs that they hold. Pure. Zeroed is empty.
 */
/* packet time that one summary covers, about */
#define PRI_SUMMARIZE_TIME_NS INT64_C(10000000000)
#define PRI_SUMMARIZE_SEGMENTS 65536
/* Bytes of seqs held; a flow spread over 20 nodes takes 2.5 a packet. */
#define PRI_SUMMARIZE_RUNS_MAX (256 * 1024)

struct pri_summarizer {
	struct pr_summary_span span; /* segments 0: none yet */
	uint64_t check; /* pri_segments_digest_add over the segments */
	struct pri_hashset keys; /* the caller adds the segments' keys */
	struct pri_range_builder stretch;
	struct pri_range_list held;
};

void pri_summarizer_free(struct pri_summarizer *z);
/*
 * Adds the next segment, which must follow the previous ones and be of the same epoch and
 * link. -1: no memory.
 */
int pri_summarizer_segment(struct pri_summarizer *z, uint64_t sequence, uint64_t proof,
	const struct pr_segment_header *h, const struct pri_segment_keys *sketch);
/*
 * True if the summary covers enough and should be written. record_max: bytes of a record
 * that the volume takes.
 */
bool pri_summarizer_due(const struct pri_summarizer *z, size_t record_max);
/*
 * Computes the bytes of the summary. -1: no memory. Then call pri_summarizer_write with
 * that much memory; it empties the summarizer.
 */
int pri_summarizer_size(struct pri_summarizer *z, size_t *size);
size_t pri_summarizer_write(struct pri_summarizer *z, size_t record_max, uint8_t *out);
