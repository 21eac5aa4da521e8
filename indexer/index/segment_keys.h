/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_SEGMENT_KEYS_H
#define PRI_INDEXER_SEGMENT_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "indexer/index/segment_tables.h"
#include "indexer/index/index_key.h"
#include "indexer/index/level1.h"
#include "proto/base/error.h"
#include "proto/wire/segment.h"

/*
 * What one segment holds, gathered from its packets. Keys cost most, and packets of one flow have the
 * same ones: so keys are made of each kind of packet once, and of each address and port. Memory is kept
 * from segment to segment. Pure, one thread.
 */
struct pri_segment_keys {
	struct pri_composites composites; /* to be made; the caller's to set */
	/* what is found */
	struct pr_segment_header header;
	struct pri_level1_segment item; /* not keyed: its link type has no keys */
	struct pri_hashset keys; /* pri_key_signature of all, but for what octets have */
	struct pri_hashset wide; /* of pri_key_either of all but FLOW: for level 2 */
	uint8_t *series, *held; /* encoded */
	size_t series_room, held_room;
	/* at work */
	struct pri_header_layouts layouts;
	struct pri_hosts hosts;
	/* four bits each: as destination, as source; the same of TCP */
	uint64_t seen_ports[65536 / 16];
	uint8_t seen_protocols[256 / 8];
	struct pri_segment_keys_bucket {
		uint64_t packets, bytes;
	} buckets[PRI_LEVEL1_BUCKETS];
	uint64_t *seqs; /* relative to the first */
	size_t seq_count, seq_room;
};

/* Zeroed is ready. */
void pri_segment_keys_free(struct pri_segment_keys *keys);

/*
 * Takes in a segment (proto/wire/segment.h), forgetting the one before. 0; 1: it is damaged and cannot
 * be indexed; -1: no memory. Of the body each byte is looked at once, so that it may lie in shared memory: if
 * it was overwritten meanwhile, what is found is of no use.
 */
int pri_segment_keys_take(
	struct pri_segment_keys *keys, const void *body, size_t len, struct pr_error *err);

#endif
