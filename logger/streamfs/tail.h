/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SFS_TAIL_H
#define SFS_TAIL_H

#include "logger/streamfs/internal.h"

/* Between flush.c, which writes and syncs, and tail.c, which says what of the streams' open blocks is written. */

/* Is a request free for a write, while those that syncs and roots need stay in reserve? */
bool sfs_request_free(struct sfs *sfs);
/* One must be free. slot: the bytes are in it; SFS_NONE: a map. */
void sfs_write_submit(struct sfs *sfs, uint64_t block, uint32_t from, uint32_t to,
	const uint8_t *bytes, uint32_t slot);
/* Gives the device what the flush wants of the stream, and notes what is durable with it. */
void sfs_tail_flush(struct sfs *sfs, uint32_t stream, enum sfs_flush_kind kind);

#endif
