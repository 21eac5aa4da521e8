/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_CLI_INLINE_INDEX_H
#define PR_CLI_INLINE_INDEX_H

#include <stdbool.h>

#include "indexer/index/index_key.h"
#include "logger/volume_writer.h"
#include "proto/base/error.h"

/*
 * The index of a volume that this process writes, made at the same time, as the indexer
 * does for a logger. Set path and composites, zero the rest. Writer's thread.
 */
struct inline_index {
	const char *path;
	struct pri_composites composites;
	struct pri_volume *view;
	struct pri_index_follower *feed;
	struct prl_volume_writer *append;
	struct pr_error error; /* of an append that failed */
};

/* As prl_import_options.beside; arg: a struct inline_index. */
int inline_index_step(
	void *arg, struct prl_volume_writer *append, bool end, struct pr_error *err);
/* Before the volume is closed. */
void inline_index_close(struct inline_index *b);

#endif
