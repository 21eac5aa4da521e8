/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "logger/streamfs/format.h"

/* ---- layout and order ---- */

/*
 * Where blocks lie, and in which order the frontier takes them. Pure. There are two
 * independent mappings: block -> (device, row on it) never changes while a block lives, as
 * handles hold block numbers; position -> block is computed whenever the volume is opened,
 * and changes when the volume grows.
 */
struct sfs_stripe {
	uint64_t first, blocks, rows; /* rows: blocks on each of its devices */
	uint16_t count, tier;
	uint8_t device[SFS_DEVICES_MAX];
	uint64_t base[SFS_DEVICES_MAX]; /* the set's first row on each device */
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
 * The order of one lap: tier after tier; the sets of a tier side by side in proportion to
 * their size, so that devices that were added later work along with the first; in each set
 * row after row, or region after region (zones); and each block map right behind the block
 * of its interval that comes last in this order, so that the map can list them all.
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
	return o->block_at ? o->block_at[position] : position;
}
static inline uint64_t
sfs_order_position(const struct sfs_order *o, uint64_t block)
{
	return o->position_of ? o->position_of[block] : block;
}
/* Number of positions from `position` until the frontier reaches the block. */
static inline uint64_t
sfs_order_ahead(const struct sfs_order *o, uint64_t block, uint64_t position)
{
	return (sfs_order_position(o, block) + o->blocks - position) % o->blocks;
}

/*
 * Zones (Hyperion, section 4.5): row i of a lap over a disk of which the first rows are
 * faster than the last. The rows form three zones R, S and T of n regions each, in the
 * order R1 S1 Tn R2 S2 Tn-1 ... Rn Sn T1. The mean speed of three such regions is close to
 * constant. Rows left over lie between S and T and come last.
 */
uint64_t sfs_zone_row(uint64_t i, uint64_t rows, uint32_t region);
/* Rows of a region: 64 MiB (the paper's: one more seek a second), less on a small disk. */
uint32_t sfs_zone_region(uint64_t rows, uint32_t block_size);

/* ---- table ---- */

/*
 * What is in each block, and each stream's chain of blocks, oldest to newest. No I/O. Whoever changes
 * an entry or a stream calls sfs_table_notify or sfs_table_notify_stream, to publish it.
 */
#define SFS_NONE UINT32_MAX

enum sfs_block_state {
	/* never used, evicted or dropped; generation says when it was last used */
	SFS_FREE = 0,
	SFS_RESERVED, /* in the frontier's window */
	SFS_OPEN, /* being filled */
	SFS_SEALED,
	SFS_MAP,
	SFS_LOST, /* on a missing device: the frontier skips it */
};
#define SFS_ENTRY_MAPPED_OPEN 1u /* its interval's map says "open" */
#define SFS_ENTRY_UNSURE 2u /* recovery: records, end and times not known yet */
#define SFS_ENTRY_CUT 4u /* some of its records were deleted: holes.c */

struct sfs_entry {
	uint64_t generation, first_sequence, block_number;
	int64_t min_time, max_time;
	uint32_t records, end; /* end of the last record */
	uint32_t prev, next; /* of the stream; SFS_NONE */
	uint16_t stream;
	uint8_t state, flags;
	uint32_t slot; /* in shared memory; SFS_NONE */
};

/* Of an entry that is in no chain, and in no slot. */
#define SFS_ALONE .prev = SFS_NONE, .next = SFS_NONE, .slot = SFS_NONE

struct sfs_shm;
struct sfs_table {
	uint64_t blocks;
	uint32_t block_size, interval;
	struct sfs_order order; /* order in which the frontier takes the blocks */
	struct sfs_entry *entry;
	struct sfs_stream *stream; /* SFS_STREAMS_MAX */
	uint32_t streams;
	uint64_t used; /* blocks that hold records */
	const struct sfs_shm *shm; /* where changes are published; NULL: nowhere */
};

int sfs_table_init(struct sfs_table *t, uint64_t blocks, uint32_t block_size,
	uint32_t interval, struct pr_error *err);
void sfs_table_free(struct sfs_table *t);
/* The sequence behind its last record's. */
static inline uint64_t
sfs_entry_end(const struct sfs_entry *e)
{
	return e->first_sequence + e->records;
}
/* True if the block has records, or will have soon. */
static inline bool
sfs_entry_holds(const struct sfs_entry *e)
{
	return e->state == SFS_OPEN || e->state == SFS_SEALED;
}
static inline bool
sfs_table_is_map(const struct sfs_table *t, uint64_t block)
{
	return block % t->interval == t->interval - 1;
}
/* Block number of the interval's map; it may lie beyond the volume's end. */
static inline uint64_t
sfs_table_map_of(const struct sfs_table *t, uint64_t block)
{
	return block - block % t->interval + t->interval - 1;
}
/* End of the block as it is now; for block SFS_NONE: zeros. */
struct sfs_head sfs_table_head(const struct sfs_table *t, uint32_t block);
/* Makes the block the stream's newest. */
void sfs_table_begin(
	struct sfs_table *t, uint32_t stream, uint32_t block, uint64_t generation);
void sfs_table_seal(struct sfs_table *t, uint32_t block);
/* Accounts for a record appended to the stream's newest block. */
void sfs_table_record(struct sfs_table *t, uint32_t block, uint32_t end, int64_t min_time,
	int64_t max_time);
/* Evicts a block and all older ones of its stream. */
void sfs_table_evict(struct sfs_table *t, uint32_t block);
/*
 * Removes a block of any kind: its device is lost. In a stream it leaves a gap; older and
 * younger blocks stay. Returns how many records were lost.
 */
uint64_t sfs_table_lose(struct sfs_table *t, uint32_t block);
static inline uint64_t
sfs_table_blocks_for(const struct sfs_table *t, uint64_t bytes)
{
	return bytes / t->block_size + (bytes % t->block_size != 0);
}
/*
 * Recovery: appends a block to the stream, with the values in its entry except
 * block_number, which is made anew.
 */
void sfs_table_link(struct sfs_table *t, uint32_t block);
void sfs_table_notify(struct sfs_table *t, uint32_t block);
void sfs_table_notify_stream(struct sfs_table *t, uint32_t stream);

/* ---- frontier ---- */

/*
 * The one write frontier: takes the blocks in the table's order, wraps, overwrites blocks
 * that no guarantee needs, skips those that one protects (Hyperion, section 4.2). Evicting
 * runs a batch of blocks ahead of writing: before any block of a batch is overwritten, a
 * root that lists the batch as gone is made durable. So a crash never leaves a live block
 * half overwritten. Pure: no I/O.
 */
struct sfs_frontier {
	uint32_t *ring; /* cleared positions, in order: first the ready, then the pending */
	uint32_t room, head, ready, pending;
	uint32_t batch;
	bool keep; /* blocks that hold records are passed over */
	uint64_t clear; /* the position to look at next */
	uint64_t stable; /* recovery looks from here on */
	uint64_t window; /* positions from stable to clear */
	uint64_t high_water, next_generation;
};
/*
 * Releases a block for reuse and returns true. If that is not possible now, returns false
 * and changes nothing (sfs_block_release).
 */
typedef bool (*sfs_release_block_fn)(void *arg, uint32_t block);

/* buffered: blocks that may be waiting in memory to be written. */
int sfs_frontier_init(struct sfs_frontier *f, uint64_t blocks, uint32_t buffered,
	uint64_t position, uint64_t next_generation, uint64_t high_water,
	struct pr_error *err);
void sfs_frontier_free(struct sfs_frontier *f);
/* Clears up to a batch into the pending ones; none: there is nothing that may be recycled. */
void sfs_frontier_clear(struct sfs_frontier *f, struct sfs_table *t,
	sfs_release_block_fn release, void *arg);
/* Call when the root is durable: the oldest `count` pending positions become ready. */
void sfs_frontier_release_pending(struct sfs_frontier *f, uint32_t count);
/* Next block to write, SFS_NONE: none ready. */
uint32_t sfs_frontier_take(
	struct sfs_frontier *f, const struct sfs_table *t, uint64_t *generation);
/* The position before which all blocks have been taken. */
uint64_t sfs_frontier_position(const struct sfs_frontier *f);
/* Call when everything before the position is on the device. */
void sfs_frontier_set_durable(
	struct sfs_frontier *f, const struct sfs_table *t, uint64_t position);
uint64_t sfs_frontier_limit(const struct sfs_frontier *f);
