/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_INDEXER_INDEX_BOOK_H
#define PR_INDEXER_INDEX_BOOK_H

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
struct pr_index_ref {
	struct sfs_handle handle;
	uint64_t first_sequence, check;
	uint32_t segments;
	bool proven; /* its check was compared, and is right */
};

#define PR_INDEX_LEVELS 3

/* Of one level; sorted, without overlap. */
struct pr_index_list {
	struct pr_index_ref *items;
	size_t count, room;
};

struct pr_index_stream {
	uint16_t link;
	struct pr_index_list level[PR_INDEX_LEVELS];
	uint64_t *proofs; /* of sequences from base on; 0: not known */
	size_t proof_count, proof_room;
	uint64_t base;
};

struct pr_index_book {
	struct pr_index_stream **streams;
	size_t count;
};

void pr_index_book_free(struct pr_index_book *book);
/* NULL: none yet. */
struct pr_index_stream *pr_index_book_find(const struct pr_index_book *book, uint16_t link);
int pr_index_book_take(struct pr_index_book *book, const struct pr_directory_index *entry,
	const struct sfs_handle *handle, struct pr_error *err);
/* A segment that is listed. */
int pr_index_book_proof(struct pr_index_book *book, uint16_t link, uint64_t sequence,
	uint64_t proof, struct pr_error *err);
/* Forgets what is about sequences before this one. */
void pr_index_book_expire(struct pr_index_book *book, uint16_t link, uint64_t sequence);

/* 0: not known. */
uint64_t pr_index_proof(const struct pr_index_stream *s, uint64_t sequence);
/* Over the proofs that are known; false: one of them is not. */
bool pr_index_check(const struct pr_index_stream *s, uint64_t first, uint32_t segments,
	uint64_t *check);
/* The record of this level (1 to 3) that speaks of the sequence, or NULL. Valid until the next take. */
struct pr_index_ref *pr_index_find(
	const struct pr_index_stream *s, unsigned level, uint64_t sequence);
/* The first sequence at or behind this one of which no record of the level speaks truly. */
uint64_t pr_index_uncovered(
	const struct pr_index_stream *s, unsigned level, uint64_t sequence);
/* Is it about the segments that are there, as far as is known? */
bool pr_index_true(const struct pr_index_stream *s, struct pr_index_ref *ref);
/*
 * Where the records of level 1 begin that lie right before `end`, follow each other and are in no group:
 * what an indexer that was killed had not finished. end: there are fewer than `least` of them.
 */
uint64_t pr_index_ungrouped(const struct pr_index_stream *s, uint64_t end, size_t least);

#endif
