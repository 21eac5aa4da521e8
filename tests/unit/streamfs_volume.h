/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "logger/streamfs/internal.h"

/* Creates a volume with the default utilization and without zones. */
static inline int
sfs_create_disks(struct sfs_disk *disks, size_t count, uint32_t block_size,
	uint32_t interval, struct pr_error *why)
{
	const struct sfs_create_shape shape = {
		.block_size = block_size,
		.interval = interval,
		.utilization = SFS_UTILIZATION,
	};
	return sfs_create_shaped(disks, count, &shape, why);
}

/* Closes as a kill would: nothing is flushed, the shared memory stays. */
static inline void
sfs_close_as_killed(struct sfs **sfs)
{
	sfs_dispose(sfs, false);
}
