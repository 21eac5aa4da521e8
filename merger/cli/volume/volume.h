/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "indexer/index/index_key.h"
#include "logger/volume_writer.h"
#include "merger/cli/cli.h"

/*
 * A volume of this machine (PATH[,PATH]), opened to store packets, or to delete some. Close it in any case.
 */
struct volume_writer {
	struct sfs *sfs;
	struct prl_volume_writer *append;
};
/*
 * lazy_directory: the directory may be written late (prl_writer_options). keep: overwrites
 * nothing. -1: err.
 */
int volume_writer_open(struct volume_writer *out, const char *volume, bool lazy_directory,
	bool keep, struct pr_error *err);
void volume_writer_close(struct volume_writer *w);

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
	bool refused; /* the volume did not take a record */
};

/* As prl_import_options.beside; arg: a struct inline_index. */
int inline_index_step(
	void *arg, struct prl_volume_writer *append, bool end, struct pr_error *err);
/* Before the volume is closed. */
void inline_index_close(struct inline_index *b);
