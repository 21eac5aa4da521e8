/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRL_LOGGER_INDEXES_H
#define PRL_LOGGER_INDEXES_H

#include <stddef.h>
#include <stdint.h>

#include "logger/directory_journal.h"
#include "logger/streamfs/streamfs.h"
#include "proto/wire/directory.h"

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
