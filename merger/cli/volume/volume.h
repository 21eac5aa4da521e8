/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_CLI_VOLUME_VOLUME_H
#define PR_CLI_VOLUME_VOLUME_H

#include "logger/volume_writer.h"
#include "logger/streamfs/streamfs.h"
#include "merger/cli/cli.h"

/* A volume of this machine, opened to store packets. Close it in any case. */
struct volume_writer {
	struct sfs *sfs;
	struct prl_volume_writer *append;
};
/* lazy_directory: the directory may be written late (prl_writer_options). -1: err. */
int volume_writer_open(struct volume_writer *out, const struct volume_paths *paths,
	bool lazy_directory, struct pr_error *err);
void volume_writer_close(struct volume_writer *w);

#endif
