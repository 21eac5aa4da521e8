/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRL_LOGGER_JOURNAL_H
#define PRL_LOGGER_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "logger/streamfs/streamfs.h"
#include "proto/wire/directory.h"
#include "proto/wire/ledger.h"

/*
 * A stream of small entries, gathered and written as one record at a time: the ledger's (proto/wire/ledger.h),
 * or those of a directory. One thread.
 */
struct prl_journal;

/* share: of the volume's bytes that is guaranteed to the stream, as a divisor. */
struct prl_journal *prl_journal_create(
	struct sfs *sfs, const char *stream, unsigned share, struct pr_error *err);
void prl_journal_destroy(struct prl_journal **journal); /* writes nothing */

/* min and max: times that the entry is about. -1: it could not be kept (no room, volume refuses). */
int prl_journal_add(struct prl_journal *j, const struct pr_ledger_entry *e, int64_t min,
	int64_t max, struct pr_error *err);
/* Appends what is gathered; on failure it is kept for the next try. */
int prl_journal_write(struct prl_journal *j, struct pr_error *err);

/*
 * Writes a directory (proto/wire/directory.h): streams "segments" and "summaries". What is not written yet
 * is found by reading the segments themselves, so it may be late, and entries share a record. One thread.
 */
struct prl_directory_journal;

/* share: as of prl_journal_create; lazy_directory: nobody asks for what was just stored */
struct prl_directory_journal *prl_directory_journal_create(struct sfs *sfs,
	const char *stream, unsigned share, bool lazy_directory, struct pr_error *err);
void prl_directory_journal_destroy(
	struct prl_directory_journal **journal); /* writes nothing */

/* e: but for its handle. min and max: times that it is about. -1: it could not be kept. */
int prl_directory_journal_add(struct prl_directory_journal *j, struct pr_directory_entry *e,
	const struct sfs_handle *handle, int64_t min, int64_t max, struct pr_error *err);
/* Appends what is gathered, when its oldest is late (now: monotonic; INT64_MAX: in any case). */
int prl_directory_journal_write(
	struct prl_directory_journal *j, int64_t now, struct pr_error *err);

/*
 * Records of the index, made by the indexer (the logger knows nothing of what is in them), into stream
 * "index.N" of the volume. Its storage guarantee is in proportion to that of "packets.N", of which it
 * speaks: so the two age together. One thread.
 */
struct prl_indexes;

/* segments, summaries: where it is said where those of levels 1 and 2, and 3, lie. All stay the caller's. */
struct prl_indexes *prl_indexes_create(struct sfs *sfs,
	struct prl_directory_journal *segments, struct prl_directory_journal *summaries,
	struct pr_error *err);
void prl_indexes_destroy(struct prl_indexes **indexes);

/* Is it about segments that are there, and of a size that the volume takes? 0, or -1 and why not. */
int prl_indexes_check(
	struct prl_indexes *x, const struct pr_index_record *index, struct pr_error *err);
/* Of one that was checked. -1: the volume refuses. */
int prl_indexes_append(
	struct prl_indexes *x, const struct pr_index_record *index, struct pr_error *err);

#endif
