/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SFS_LAYOUT_H
#define SFS_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "logger/streamfs/format.h"

/*
 * Where blocks lie, and in which order the frontier takes them. Pure. Two mappings that do not know of
 * each other: block -> (device, row on it) never changes while a block lives, as handles hold block
 * numbers; position -> block is made anew whenever the volume is opened, and changes as it grows.
 */
struct sfs_stripe {
	uint64_t first, blocks, rows; /* rows: blocks on each of its devices */
	uint16_t count, tier;
	uint8_t device[SFS_DEVICES_MAX];
	uint64_t base[SFS_DEVICES_MAX]; /* the set's first row on each */
};
struct sfs_layout {
	uint32_t sets;
	struct sfs_stripe set[SFS_SETS_MAX];
	uint64_t rows[SFS_DEVICES_MAX]; /* of each device, all sets together */
};
void sfs_layout_make(struct sfs_layout *l, const struct sfs_root *root);
void sfs_layout_place(
	const struct sfs_layout *l, uint64_t block, uint16_t *device, uint64_t *row);

/*
 * The order of one lap: tier after tier; the sets of a tier side by side in proportion to their
 * size, so that devices that were added later work along with the first; in each set row after row,
 * or region after region (zones); and each block map right behind the last block of its interval,
 * whatever the order of these, so that it knows them all.
 */
struct sfs_order {
	uint64_t blocks;
	uint32_t *block_at, *position_of; /* NULL: a block's position is its number */
};
int sfs_order_make(struct sfs_order *o, const struct sfs_layout *l, uint64_t blocks,
	uint32_t interval, uint32_t zone_region, struct pr_error *err);
void sfs_order_free(struct sfs_order *o);
static inline uint32_t
sfs_order_block(const struct sfs_order *o, uint64_t position)
{
	return o->block_at ? o->block_at[position] : (uint32_t)position;
}
static inline uint64_t
sfs_order_position(const struct sfs_order *o, uint64_t block)
{
	return o->position_of ? o->position_of[block] : block;
}
/* How far the frontier, at a position, has to go until it comes by the block. */
static inline uint64_t
sfs_order_ahead(const struct sfs_order *o, uint64_t block, uint64_t position)
{
	return (sfs_order_position(o, block) + o->blocks - position) % o->blocks;
}

/*
 * Zones (Hyperion, section 4.5): row i of a lap over a disk of which the first rows are faster than
 * the last. The rows are three zones R, S and T of n regions each, taken R1 S1 Tn R2 S2 Tn-1 ... Rn Sn
 * T1: the mean of three places on the disk, close to constant. What does not fill three regions lies
 * between S and T and comes last.
 */
uint64_t sfs_zone_row(uint64_t i, uint64_t rows, uint32_t region);
/* Rows of a region: 64 MiB (the paper's: one more seek a second), less on a small disk. */
uint32_t sfs_zone_region(uint64_t rows, uint32_t block_size);

#endif
