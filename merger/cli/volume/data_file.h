/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_CLI_DATA_FILE_H
#define PR_CLI_DATA_FILE_H

#include <stdint.h>

#include "merger/trace_writer.h"
#include "proto/base/error.h"

/* A trace file that packets are moved into. */

/* What is in the file, read anew: how many packets, and their hash. */
int data_file_read(const char *path, char hash[PRM_TRACE_HASH_TEXT], uint64_t *packets,
	struct pr_error *err);
/* On the disk, and by its name: only then may the packets go elsewhere. There must be nothing at path yet. */
int data_file_keep(const char *part, const char *path, struct pr_error *err);

#endif
