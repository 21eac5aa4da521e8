/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "indexer/index/segment_tables.h"
#include "proto/wire/segment.h"

/*
 * The contents of one segment for the index, collected from its packets. Making keys costs
 * most, and packets of one flow have equal keys. So keys are made once for each header
 * layout, address and port. Memory is kept from segment to segment. No I/O. One thread.
 */
struct pri_segment_keys {
	struct pri_composites composites; /* composites to make; set by the caller */
	/* what is found */
	struct pr_segment_header header;
	struct pri_level1_segment item; /* not keyed: its link type has no keys */
	/* pri_key_signature of all keys, except those that octets cover */
	struct pri_hashset keys;
	/* hashes of pri_key_either of all keys except FLOW: for level 2 */
	struct pri_hashset wide;
	uint8_t *series, *held; /* encoded */
	size_t series_room, held_room;
	/* at work */
	struct pri_header_layouts layouts;
	struct pri_hosts hosts;
	/*
	 * four bits for each port: seen as destination, as source; and the same two of TCP
	 */
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
 * Reads a segment (proto/wire/segment.h); replaces the previous one. 0: done; 1: it is
 * damaged and cannot be indexed; -1: no memory. Each byte of the body is read once only, so
 * the body may be in shared memory. If it was overwritten during the call, the result must
 * not be used.
 */
int pri_segment_keys_take(
	struct pri_segment_keys *keys, const void *body, size_t len, struct pr_error *err);
