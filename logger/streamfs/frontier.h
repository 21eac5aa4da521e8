/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SFS_FRONTIER_H
#define SFS_FRONTIER_H

#include "logger/streamfs/table.h"

/*
 * The one write frontier: takes the blocks in the table's order, wraps, overwrites what is surplus, skips what
 * a guarantee protects (Hyperion, section 4.2). Evicting runs a batch of blocks ahead of writing: a
 * root that says which blocks are gone is made durable before any of them is written over, so that a
 * crash never finds a live block half overwritten. Pure: no I/O.
 */
struct sfs_frontier {
	uint32_t *ring; /* positions cleared, in order: ready ones, then pending ones */
	uint32_t room, head, ready, pending;
	uint32_t batch;
	uint64_t clear; /* the position to look at next */
	uint64_t stable; /* recovery looks from here on */
	uint64_t window; /* positions from stable to clear */
	uint64_t high_water, next_generation;
};
/* May a block be taken now? (No write to it is under way; an open one can be given up.) */
typedef bool (*sfs_may_clear)(void *arg, uint32_t block);

/* buffered: blocks that may be waiting in memory to be written. */
int sfs_frontier_init(struct sfs_frontier *f, uint64_t blocks, uint32_t buffered,
	uint64_t position, uint64_t next_generation, uint64_t high_water,
	struct pr_error *err);
void sfs_frontier_free(struct sfs_frontier *f);
/* Clears up to a batch into the pending ones; false: there is nothing that may be recycled. */
bool sfs_frontier_clear(
	struct sfs_frontier *f, struct sfs_table *t, sfs_may_clear may_clear, void *arg);
/* The root is durable: pending ones may be written. */
void sfs_frontier_ready(struct sfs_frontier *f, uint32_t count);
/* Next block to write, SFS_NONE: none ready. */
uint32_t sfs_frontier_take(
	struct sfs_frontier *f, const struct sfs_table *t, uint64_t *generation);
/* All blocks before it have been taken. */
uint64_t sfs_frontier_position(const struct sfs_frontier *f);
/* Everything before position is on the device. */
void sfs_frontier_stable(
	struct sfs_frontier *f, const struct sfs_table *t, uint64_t position);
uint64_t sfs_frontier_limit(const struct sfs_frontier *f);

#endif
