/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_INDEXER_PRUNE_READ_H
#define PR_INDEXER_PRUNE_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "indexer/prune.h"
#include "indexer/view.h"

/* Reading a query's index, and counting what is read. */
struct pr_prune_reader {
	struct pr_view *view;
	struct pr_prune_figures *figures; /* the query's */
	struct sfs_handle handle; /* of the record at hand */
	bool expired; /* the last read found it so: recycled before what it is about, no fault */
};

/* In room; of a part whole sectors are read, and counted. NULL: it cannot be read. */
const uint8_t *pr_prune_read_part(struct pr_prune_reader *reader, size_t offset, size_t len,
	struct pr_view_buffer *room);
const uint8_t *pr_prune_read_whole(
	struct pr_prune_reader *reader, struct pr_view_buffer *room);

#endif
