/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRL_LOGGER_JOURNAL_H
#define PRL_LOGGER_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "logger/streamfs/streamfs.h"
#include "proto/wire/ledger.h"

/*
 * A stream of small entries, gathered and written as one record at a time: the ledger's (proto/wire/ledger.h),
 * or those of a directory (directory_journal.h). One thread.
 */
struct prl_journal;

/* share: of the volume's bytes that is guaranteed to the stream, as a divisor. */
struct prl_journal *prl_journal_create(
	struct sfs *sfs, const char *stream, unsigned share, struct pr_error *err);
void prl_journal_destroy(struct prl_journal **journal); /* writes nothing */

/* min and max: times that the entry is about. -1: it could not be kept (no room, volume refuses). */
int prl_journal_add(struct prl_journal *j, const struct pr_ledger_entry *e, int64_t min,
	int64_t max, struct pr_error *err);
/*
 * For entries of another form: where to write the next one, of at most that many bytes; a record that has
 * no such room left is written first. NULL: it could not be. Then prl_journal_added, with its times.
 */
struct pr_writer *prl_journal_room(
	struct prl_journal *j, size_t most, struct pr_error *err);
void prl_journal_added(struct prl_journal *j, int64_t min, int64_t max);
/* Appends what is gathered; on failure it is kept for the next try. */
int prl_journal_write(struct prl_journal *j, struct pr_error *err);

#endif
