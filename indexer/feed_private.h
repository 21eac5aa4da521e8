/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_FEED_PRIVATE_H
#define PRI_INDEXER_FEED_PRIVATE_H

#include "indexer/index_follower.h"

/*
 * Inside of the feed, for its files: feed.c (streams and when they rest), feed_advance.c (they are followed and
 * indexed), feed_spans.c (of what there is no summary).
 */
#define OPEN_MAX (PRI_FOLLOWER_SPANS - 2)

struct stream {
	struct pri_index_follower *feed;
	uint32_t id;
	uint16_t link;
	struct pri_builder *builder;
	struct sfs_cursor *cursor;
	uint64_t next; /* sequence; what comes before it is indexed or lost */
	uint64_t last; /* of the stream, as of the last step */
	struct sfs_record waiting; /* length 0: none. Its body is the cursor's */
	int64_t added; /* monotonic: last time that something was */
	int64_t settled; /* the same, or that the batch was finished since */
	uint64_t lost;
	uint64_t first; /* sequence that is not recycled yet, as of the last step */
	struct pr_summary_span open[OPEN_MAX]; /* without summary in the index */
	size_t open_count;
	uint64_t unknown; /* and others, up to this sequence, of unknown times; 0: none */
};

struct pri_index_follower {
	struct pri_volume *view;
	pri_index_sink sink;
	void *arg;
	struct stream **streams;
	size_t count;
	struct pri_composites composites;
	uint64_t restarts;
};

/* ---- feed_advance.c ---- */

/* 1: a segment was indexed; 0: none is there, or the sink is full; -1. */
int pri_follower_advance(struct stream *s, int64_t deadline, struct pr_error *err);

/* ---- feed_spans.c ---- */

/* This one has no summary in the index yet. */
void pri_follower_add_unsummarized(struct stream *s, const struct pr_summary_span *span);
/* Sequences from..to have none, and will not get one. */
void pri_follower_mark_gap(struct stream *s, uint64_t from, uint64_t to);
/* All that an earlier run left without, before the sequence next. */
void pri_follower_mark_old_gaps(struct stream *s);
/* Forgets what is recycled. */
void pri_follower_expire(struct stream *s);

#endif
