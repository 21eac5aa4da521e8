/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SFS_TABLE_H
#define SFS_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "logger/streamfs/format.h"
#include "logger/streamfs/layout.h"

/*
 * What is in each block, and each stream's chain of blocks, oldest to newest. A pure structure:
 * no I/O. Whoever changes an entry or a stream is told through the two calls, to publish it.
 */
#define SFS_NONE UINT32_MAX

enum sfs_block_state {
	SFS_FREE =
		0, /* never used, evicted or dropped; generation says when it was last used */
	SFS_RESERVED, /* in the frontier's window */
	SFS_OPEN, /* being filled */
	SFS_SEALED,
	SFS_MAP,
	SFS_LOST, /* on a device that is missing: the frontier passes it by */
};
#define SFS_ENTRY_MAPPED_OPEN 1u /* its interval's map says "open" */
#define SFS_ENTRY_UNSURE 2u /* recovery: records, end and times not known yet */
#define SFS_ENTRY_CUT 4u /* some of its records were deleted: holes.c */

struct sfs_entry {
	uint64_t generation, first_sequence, ordinal;
	int64_t min_time, max_time;
	uint32_t records, end; /* end of the last record */
	uint32_t prev, next; /* of the stream; SFS_NONE */
	uint16_t stream;
	uint8_t state, flags;
	uint32_t slot; /* in shared memory; SFS_NONE */
};

struct sfs_stream {
	char name[SFS_NAME_MAX + 1];
	uint32_t id, permission;
	uint64_t guarantee;
	int64_t created;
	uint32_t oldest, newest; /* SFS_NONE: holds nothing */
	uint64_t blocks, bytes;
	uint64_t first_sequence, last_sequence,
		durable_sequence; /* first = last + 1: holds nothing */
	uint64_t oldest_generation, next_ordinal;
	int64_t evicted_until;
	uint64_t flags; /* SFS_STREAM_KEPT */
};

struct sfs_table {
	uint64_t blocks;
	uint32_t block_size, interval;
	struct sfs_order order; /* in which the frontier goes */
	struct sfs_entry *entry;
	struct sfs_stream *stream; /* SFS_STREAMS_MAX */
	uint32_t streams;
	uint64_t used; /* blocks that hold records */
	void (*entry_changed)(void *arg, uint32_t block);
	void (*stream_changed)(void *arg, uint32_t stream);
	void *arg;
};

int sfs_table_init(struct sfs_table *t, uint64_t blocks, uint32_t block_size,
	uint32_t interval, struct pr_error *err);
void sfs_table_free(struct sfs_table *t);
/* Are there records in it, or soon? */
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
/* The stream's newest block from now on. */
void sfs_table_begin(
	struct sfs_table *t, uint32_t stream, uint32_t block, uint64_t generation);
void sfs_table_seal(struct sfs_table *t, uint32_t block);
/* A record was appended to the stream's newest block. */
void sfs_table_record(struct sfs_table *t, uint32_t block, uint32_t end, int64_t min_time,
	int64_t max_time);
/* Recycles a block: it and all older ones of its stream are gone. */
void sfs_table_evict(struct sfs_table *t, uint32_t block);
/*
 * A block of any kind goes with its device. Of a stream it leaves a gap: older and younger ones stay.
 * Returns how many records went with it.
 */
uint64_t sfs_table_lose(struct sfs_table *t, uint32_t block);
/*
 * May the block go without touching its stream's guarantee? That many bytes of whole blocks stay,
 * rounded up; the newest block, which may have just begun, does not count for it.
 */
bool sfs_table_surplus(const struct sfs_table *t, uint32_t block);
static inline uint64_t
sfs_table_blocks_for(const struct sfs_table *t, uint64_t bytes)
{
	return bytes / t->block_size + (bytes % t->block_size != 0);
}
/* Recovery: puts a block behind the stream's newest, with what its entry says. */
void sfs_table_link(struct sfs_table *t, uint32_t block);
void sfs_table_notify(struct sfs_table *t, uint32_t block);
void sfs_table_notify_stream(struct sfs_table *t, uint32_t stream);
void sfs_stream_from_root(const struct sfs_stream_entry *in, struct sfs_stream *out);
void sfs_stream_to_root(const struct sfs_stream *in, const struct sfs_entry *head,
	struct sfs_stream_entry *out);

#endif
