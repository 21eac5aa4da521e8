/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_INDEX_BOOK_H
#define PRI_INDEXER_INDEX_BOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "logger/streamfs/streamfs.h"
#include "proto/base/error.h"
#include "proto/wire/directory.h"

/*
 * Which segments have an index, and where it lies, in memory: 8 bytes a segment and 72 for each batch
 * of them. After a crash of the logger a segment's number may be given again to another one, for which
 * the index of the old one would be a lie: so each segment's proof is known here as well, and whoever uses
 * a record compares. Pure. One thread.
 */
struct pri_index_ref {
	struct sfs_handle handle;
	uint64_t first_sequence, check;
	uint32_t segments;
	bool proven; /* its check was compared, and is right */
};

#define PRI_INDEX_LEVELS 3

/* Of one level; sorted, without overlap. */
struct pri_index_list {
	struct pri_index_ref *items;
	size_t count, room;
};

struct pri_index_stream {
	uint16_t link;
	struct pri_index_list level[PRI_INDEX_LEVELS];
	uint64_t *proofs; /* of sequences from base on; 0: not known */
	size_t proof_count, proof_room;
	uint64_t base;
};

struct pri_index_map {
	struct pri_index_stream **streams;
	size_t count;
};

void pri_index_map_free(struct pri_index_map *book);
/* NULL: none yet. */
struct pri_index_stream *pri_index_map_find(
	const struct pri_index_map *book, uint16_t link);
int pri_index_map_take(struct pri_index_map *book, const struct pr_directory_index *entry,
	const struct sfs_handle *handle, struct pr_error *err);
/* A segment that is listed. */
int pri_index_map_proof(struct pri_index_map *book, uint16_t link, uint64_t sequence,
	uint64_t proof, struct pr_error *err);
/* Forgets what is about sequences before this one. */
void pri_index_map_expire(struct pri_index_map *book, uint16_t link, uint64_t sequence);

/* 0: not known. */
uint64_t pri_index_proof(const struct pri_index_stream *s, uint64_t sequence);
/* Over the proofs that are known; false: one of them is not. */
bool pri_index_check(const struct pri_index_stream *s, uint64_t first, uint32_t segments,
	uint64_t *check);
/* The record of this level (1 to 3) that speaks of the sequence, or NULL. Valid until the next take. */
struct pri_index_ref *pri_index_find(
	const struct pri_index_stream *s, unsigned level, uint64_t sequence);
/* The first sequence at or behind this one of which no record of the level speaks truly. */
uint64_t pri_index_uncovered(
	const struct pri_index_stream *s, unsigned level, uint64_t sequence);
/* Is it about the segments that are there, as far as is known? */
bool pri_index_ref_usable(const struct pri_index_stream *s, struct pri_index_ref *ref);
/*
 * Where the records of level 1 begin that lie right before `end`, follow each other and are in no group:
 * what an indexer that was killed had not finished. end: there are fewer than `least` of them.
 */
uint64_t pri_index_ungrouped(const struct pri_index_stream *s, uint64_t end, size_t least);

#endif
