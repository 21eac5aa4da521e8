/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_PRUNE_READ_H
#define PRI_INDEXER_PRUNE_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "indexer/query/prune.h"
#include "indexer/query/volume.h"

/* Reading a query's index, and counting what is read. */
struct pri_prune_reader {
	struct pri_volume *view;
	struct pri_prune_stats *figures; /* the query's */
	struct sfs_handle handle; /* of the record at hand */
	bool expired; /* the last read found it so: recycled before what it is about, no fault */
};

/* In room; of a part whole sectors are read, and counted. NULL: it cannot be read. */
const uint8_t *pri_prune_read_part(struct pri_prune_reader *reader, size_t offset,
	size_t len, struct pri_read_buffer *room);
const uint8_t *pri_prune_read_whole(
	struct pri_prune_reader *reader, struct pri_read_buffer *room);

#endif
