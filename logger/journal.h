/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_LOGGER_JOURNAL_H
#define PR_LOGGER_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "logger/streamfs/streamfs.h"
#include "proto/wire/ledger.h"

/*
 * A stream of small ledger entries (proto/wire/ledger.h), gathered and written as one record at a time.
 * Used for the streams "ledger" and "segments". One thread.
 */
struct pr_journal;

/* share: of the volume's bytes that is guaranteed to the stream, as a divisor. */
struct pr_journal *pr_journal_create(
	struct sfs *sfs, const char *stream, unsigned share, struct pr_error *err);
void pr_journal_destroy(struct pr_journal **journal); /* writes nothing */

/* min and max: times that the entry is about. -1: it could not be kept (no room, volume refuses). */
int pr_journal_add(struct pr_journal *j, const struct pr_ledger_entry *e, int64_t min,
	int64_t max, struct pr_error *err);
/* Appends what is gathered; on failure it is kept for the next try. */
int pr_journal_write(struct pr_journal *j, struct pr_error *err);

#endif
