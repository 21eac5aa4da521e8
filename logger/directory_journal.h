/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRL_LOGGER_DIRECTORY_JOURNAL_H
#define PRL_LOGGER_DIRECTORY_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "logger/streamfs/streamfs.h"
#include "proto/wire/directory.h"

/*
 * Writes a directory (proto/wire/directory.h): streams "segments" and "summaries". What is not written yet
 * is found by reading the segments themselves, so it may be late, and entries share a record. One thread.
 */
struct prl_directory_journal;

/* share: as of prl_journal_create; unhurried: nobody asks for what was just stored */
struct prl_directory_journal *prl_directory_journal_create(struct sfs *sfs,
	const char *stream, unsigned share, bool unhurried, struct pr_error *err);
void prl_directory_journal_destroy(
	struct prl_directory_journal **journal); /* writes nothing */

/* e: but for its handle. min and max: times that it is about. -1: it could not be kept. */
int prl_directory_journal_add(struct prl_directory_journal *j, struct pr_directory_entry *e,
	const struct sfs_handle *handle, int64_t min, int64_t max, struct pr_error *err);
/* Appends what is gathered, when its oldest is late (now: monotonic; INT64_MAX: in any case). */
int prl_directory_journal_write(
	struct prl_directory_journal *j, int64_t now, struct pr_error *err);

#endif
