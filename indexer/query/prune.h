/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "indexer/filter/plan.h"
#include "indexer/index/level1.h"
#include "indexer/query/volume.h"
#include "proto/rpc/packrack.pb-c.h"

/*
 * Finds the segments that a query need not read. Evaluates the filter's plan in the index:
 * level 2 first, then level 1. Each record is read when the query reaches its segments, and
 * only the pages with the keys in question. A segment is read if it has no index, or if its
 * index record cannot be read or is about another segment. One thread, the volume's.
 */

enum pri_prune_verdict {
	PRI_PRUNE_READ, /* it may match, or that is not known */
	PRI_PRUNE_LEVEL2, /* level 2 excludes a match */
	PRI_PRUNE_LEVEL1,
	PRI_PRUNE_LINKTYPE, /* there is no program for its link type */
	PRI_PRUNE_TIME, /* the filter's own times exclude it */
};

/*
 * Creates a prune that uses the plans of the programs. stats: index_reads, index_bytes and
 * index_damaged are counted there.
 */
struct pri_prune *pri_prune_create(struct pri_volume *volume, struct pr_bpf_set *programs,
	Packrack__End *stats, struct pr_error *err);
/*
 * 1: it may be asked. 0: another thread is still making the plans, as those of long filters
 * take long; waits for a millisecond before it says so. -1: no memory.
 */
int pri_prune_ready(struct pri_prune *prune, struct pr_error *err);
/* Of the programs, in their order; once it is ready. */
const struct pri_plans *pri_prune_plans(const struct pri_prune *prune);
/* Empties *programs if the other thread uses them still. */
void pri_prune_destroy(struct pri_prune **prune);

/*
 * Decides whether the segment must be read. Sets *did_io if parts of the index were read
 * from disk, or if it took long otherwise. If the segment need not be read, *held has its seqs relative to its first seq,
 * valid until the next call. link: number N of the stream "packets.N" with the entry.
 */
enum pri_prune_verdict pri_prune_ask(struct pri_prune *prune, uint16_t link,
	const struct pri_segment_entry *entry, struct pri_held_walk *held, bool *did_io);

/*
 * Gets what level 1 has on a segment, and in *record the whole record; valid until the next
 * call. NULL: nothing is known.
 */
const struct pri_level1_segment *pri_prune_segment(struct pri_prune *prune, uint16_t link,
	const struct pri_segment_entry *entry, const struct pri_level1 **record,
	bool *did_io);
