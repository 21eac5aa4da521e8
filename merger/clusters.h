/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "proto/rpc/packrack.pb-c.h"
#include "proto/wire/summary.h"

/*
 * The look-ups of a query in the signatures of summaries, and level 3 of the index. No I/O.
 *
 * Look-ups are what the query's filter tests in an index, as the client planned it: AND and
 * OR over hashes of keys, one plan for each link type (Query.lookups; the message layer has
 * checked their form). The merger does not interpret filters or keys. If a client sends
 * wrong look-ups, its answer lacks packets, as with a wrong filter.
 */
struct prm_lookups {
	const Packrack__Query *query; /* borrowed */
	uint8_t *scratch;
	uint64_t left; /* steps left; at 0 every summary may match */
	uint64_t steps; /* taken */
};

/* A query may have 65,536 look-ups, and there may be 100,000 summaries: at 2 ns a step this is 50 ms. */
#define PRM_LOOKUPS_STEPS_MAX 25000000

/* -1: no memory. */
int prm_lookups_init(struct prm_lookups *l, const Packrack__Query *query);
void prm_lookups_free(struct prm_lookups *l);
/*
 * True if a packet in this signature (proto/wire/summary.h) may match. linktype: 1 + the
 * link type of all its packets, so that look-ups of other link types are ignored; 0: not
 * known.
 */
bool prm_lookups_may(
	struct prm_lookups *l, uint32_t linktype, const uint8_t *bits, unsigned log2);
/*
 * Level 3 of the index (Hyperion, section 7.4): the summaries of a cluster's nodes for one
 * interval of time, tested together. An OR of their signatures would have too many bits
 * set. So they are bit-sliced, as in level 2: one test shows which of PRM_CLUSTERS_COLUMNS
 * summaries may match. Summaries of one size and link type share a block.
 */

#define PRM_CLUSTERS_COLUMNS 8

/* The place of a summary in the blocks. block 0: in none; it is tested alone. */
struct prm_cluster_slot {
	uint32_t block;
	uint8_t column;
};

/*
 * memory: limit of the blocks in bytes; a summary that does not fit is not added. NULL: no
 * memory.
 */
struct prm_clusters *prm_clusters_create(uint64_t memory);
void prm_clusters_destroy(struct prm_clusters **clusters);

/*
 * Adds a summary whose packets have this link type (as in prm_lookups_may). cluster "": the
 * node belongs to none.
 */
struct prm_cluster_slot prm_clusters_add(struct prm_clusters *clusters, const char *cluster,
	int64_t interval, uint32_t linktype, const struct pr_summary *summary);
/* Takes a summary out; an empty block is freed. */
void prm_clusters_remove(struct prm_clusters *clusters, struct prm_cluster_slot slot);

/* Results of tests for one query, valid until the next add or remove. Zeroed is ready. */
struct prm_cluster_cache {
	struct prm_cluster_test {
		bool tested;
		uint8_t possible; /* a bit a column */
	} * tests; /* by block */
	size_t capacity;
	uint64_t tested, excluded; /* blocks; those in which no summary may match */
};
void prm_cluster_cache_free(struct prm_cluster_cache *cache);
/* True if no packet of the summary can match. False also if nothing is known. */
bool prm_clusters_exclude(const struct prm_clusters *clusters, struct prm_cluster_slot slot,
	struct prm_lookups *lookups, struct prm_cluster_cache *cache);

uint64_t prm_clusters_bytes(const struct prm_clusters *clusters);
size_t prm_clusters_count(const struct prm_clusters *clusters); /* of blocks */
