/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "logger/streamfs/streamfs.h"
#include "proto/base/text.h"
#include "proto/wire/directory.h"
#include "proto/wire/ledger.h"

/*
 * A stream of small entries, gathered and written as one record at a time: the ledger's (proto/wire/ledger.h),
 * or those of a directory (proto/wire/directory.h): streams "segments" and "summaries". One thread.
 */

/*
 * share: divisor; 1/share of the volume's bytes is guaranteed to the stream. Release it
 * with free(3), which writes nothing.
 */
struct prl_journal *prl_journal_create(
	struct sfs *sfs, const char *stream, unsigned share, struct pr_error *err);

/*
 * min and max: time range of the entry. -1: it could not be stored (no room, volume
 * refuses).
 */
int prl_journal_add(struct prl_journal *j, const struct pr_ledger_entry *e, int64_t min,
	int64_t max, struct pr_error *err);
/* The same for a directory. e: complete except for its handle. */
int prl_journal_add_place(struct prl_journal *j, struct pr_directory_entry *e,
	const struct sfs_handle *handle, int64_t min, int64_t max, struct pr_error *err);
/* Appends what is gathered; on failure it is kept for the next try. */
int prl_journal_write(struct prl_journal *j, struct pr_error *err);
/*
 * The same for a directory, if its oldest entry has waited long enough (now: monotonic;
 * INT64_MAX: in any case). Entries may wait, so that several share a record: readers find
 * what is not written yet by reading the segments themselves. lazy: entries may wait
 * longer, because nobody queries what was just stored.
 */
int prl_journal_write_late(
	struct prl_journal *j, bool lazy, int64_t now, struct pr_error *err);

/*
 * Records of the index, made by the indexer, for stream "index.N" of the volume. The logger
 * does not look into them.
 */

/*
 * Checks that the record is about existing segments, and fits the volume. 0, or -1 and err.
 */
int prl_index_check(
	struct sfs *sfs, const struct pr_index_record *index, struct pr_error *err);
/* Stream "packets.N", or -1. */
int prl_data_stream(struct sfs *sfs, uint16_t link);
