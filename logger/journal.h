/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRL_LOGGER_JOURNAL_H
#define PRL_LOGGER_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "logger/streamfs/streamfs.h"
#include "proto/wire/directory.h"
#include "proto/wire/ledger.h"

/*
 * A stream of small entries, gathered and written as one record at a time: the ledger's (proto/wire/ledger.h),
 * or those of a directory (proto/wire/directory.h): streams "segments" and "summaries". One thread.
 */
struct prl_journal;

/* share: of the volume's bytes that is guaranteed to the stream, as a divisor. free(3) ends it, and writes nothing. */
struct prl_journal *prl_journal_create(
	struct sfs *sfs, const char *stream, unsigned share, struct pr_error *err);

/* min and max: times that the entry is about. -1: it could not be kept (no room, volume refuses). */
int prl_journal_add(struct prl_journal *j, const struct pr_ledger_entry *e, int64_t min,
	int64_t max, struct pr_error *err);
/* The same of a directory. e: but for its handle. */
int prl_journal_add_place(struct prl_journal *j, struct pr_directory_entry *e,
	const struct sfs_handle *handle, int64_t min, int64_t max, struct pr_error *err);
/* Appends what is gathered; on failure it is kept for the next try. */
int prl_journal_write(struct prl_journal *j, struct pr_error *err);
/*
 * The same of a directory, when its oldest is late (now: monotonic; INT64_MAX: in any case). What is not
 * written yet is found by reading the segments themselves, so it may be late, and entries share a record.
 * lazy: nobody asks for what was just stored.
 */
int prl_journal_write_late(
	struct prl_journal *j, bool lazy, int64_t now, struct pr_error *err);

/*
 * Records of the index, made by the indexer (the logger knows nothing of what is in them), into stream
 * "index.N" of the volume. Its storage guarantee is in proportion to that of "packets.N", of which it
 * speaks: so the two age together.
 */

/* Is it about segments that are there, and of a size that the volume takes? 0, or -1 and why not. */
int prl_index_check(
	struct sfs *sfs, const struct pr_index_record *index, struct pr_error *err);
/* Stream "index.N", or -1: the volume refuses. */
int prl_index_stream(struct sfs *sfs, uint16_t link, struct pr_error *err);
/* Of one that was checked. -1: the volume refuses. */
int prl_index_append(struct sfs *sfs, int stream, const struct pr_index_record *index,
	struct sfs_handle *handle, struct pr_error *err);

#endif
