/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SFS_CURSOR_H
#define SFS_CURSOR_H

#include "logger/streamfs/internal.h"

/*
 * A walk along a stream: block by block, one read (or one copy from shared memory) a block and not
 * one a record. Its place is (block, generation, offset) and the sequence that comes next.
 */
struct sfs_cursor {
	struct sfs *sfs;
	uint32_t stream;
	bool placed;
	bool seeking; /* sequence is to be looked for from offset on: before it, records are deleted */
	uint32_t block, offset;
	uint64_t generation, sequence;
	uint8_t *buf; /* of a block; [0, have) is its bytes from where they were read */
	uint32_t have_from, have;
	uint64_t have_generation;
	bool passed_block; /* walks: worth reading ahead */
	struct sfs_ahead *ahead; /* NULL: not so far, or not to be had */
};

/* Goes to the first record of a block. */
void sfs_cursor_place(struct sfs_cursor *c, uint32_t block, const struct sfs_entry *e);

#endif
