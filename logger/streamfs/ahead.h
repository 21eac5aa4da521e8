/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SFS_AHEAD_H
#define SFS_AHEAD_H

#include "logger/streamfs/internal.h"

/*
 * Read-ahead (Hyperion, section 7.3, misses it): the blocks behind the one that a cursor is in are read
 * while the caller is busy with its records, at most SFS_AHEAD_BYTES of them. Nothing that was read ahead
 * is believed before the cursor has proved it, as it does with what it reads itself.
 * Not before a walk has passed a whole block, and not while the volume's writer is behind.
 */
#define SFS_AHEAD_BYTES (4 * 1024 * 1024)
#define SFS_AHEAD_BLOCKS 16

struct sfs_ahead;
/* NULL: there is no memory, or no way to read without waiting; the cursor goes on by itself. */
struct sfs_ahead *sfs_ahead_create(struct sfs *sfs);
/* Waits for what is under way. */
void sfs_ahead_destroy(struct sfs_ahead **ahead);
/* The cursor is in the block that this is the entry of: starts reading those behind it. */
void sfs_ahead_start(struct sfs_ahead *ahead, const struct sfs_entry *e);
/* Gives the block's bytes in exchange for *buf, when they were read ahead; waits for a read under way. */
bool sfs_ahead_take(
	struct sfs_ahead *ahead, uint32_t block, const struct sfs_entry *e, uint8_t **buf);

#endif
