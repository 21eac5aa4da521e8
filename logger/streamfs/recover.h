/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SFS_RECOVER_H
#define SFS_RECOVER_H

#include "logger/streamfs/internal.h"

/* What recovery knows while it works: recover_load.c reads maps and headers, recover.c makes chains. */
struct sfs_late {
	uint64_t map_generation;
	bool stable; /* the map, and so all that was sealed before it, was on the device at the root */
	struct sfs_map_entry entry;
};
struct sfs_recovery {
	struct sfs *sfs;
	struct sfs_stream_entry *streams; /* of the root */
	uint8_t *buf; /* a block */
	uint64_t newest_generation, newest_block;
	struct sfs_late *late;
	size_t late_count, late_room;
	bool listed; /* the root's list says what no map does */
	uint32_t *open; /* blocks that their maps say are open */
	size_t open_count, open_room;
};
int sfs_recover_load(struct sfs_recovery *r, struct pr_error *err);

#endif
