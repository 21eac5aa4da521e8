/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "logger/streamfs/internal.h"

struct sfs_map_entry
sfs_map_entry_make(const struct sfs_entry *e, uint32_t block, uint32_t flags)
{
	return (struct sfs_map_entry){
		.stream = e->stream,
		.flags = flags,
		.block = block,
		.generation = e->generation,
		.first_sequence = e->first_sequence,
		.ordinal = e->ordinal,
		.records = e->records,
		.end = e->end,
		.min_time = e->min_time,
		.max_time = e->max_time,
	};
}

struct sfs_map_entry
sfs_map_entry_of(const struct sfs *sfs, uint32_t block)
{
	const struct sfs_entry *e = &sfs->table.entry[block];
	return sfs_map_entry_make(e, block, e->state == SFS_OPEN ? SFS_MAP_OPEN : 0);
}

static void
put_entry(const struct sfs *sfs, uint32_t block, uint8_t *to)
{
	struct sfs_map_entry m = sfs_map_entry_of(sfs, block);
	sfs_map_entry_encode(&m, to);
}

/* The map of the interval that ends at block; returns its bytes, whole sectors. A repair has no late ones. */
size_t
sfs_map_build(struct sfs *sfs, uint32_t block, uint64_t generation, uint8_t *buf)
{
	struct sfs_writer *w = sfs->w;
	struct sfs_block_header h = {
		.kind = SFS_KIND_MAP, .block = block, .generation = generation};
	uint8_t *p = buf + SFS_BLOCK_HEADER;
	for (uint32_t b = block - (sfs->table.interval - 1); b < block; b++) {
		struct sfs_entry *e = &sfs->table.entry[b];
		if (!sfs_entry_holds(e))
			continue;
		put_entry(sfs, b, p + (size_t)h.entries++ * SFS_MAP_ENTRY);
		if (e->state == SFS_OPEN)
			e->flags |= SFS_ENTRY_MAPPED_OPEN;
	}
	for (uint32_t i = 0; w && i < w->late_count; i++)
		if (sfs->table.entry[w->late[i]].state == SFS_SEALED)
			put_entry(sfs, w->late[i],
				p + (size_t)(h.entries + h.late++) * SFS_MAP_ENTRY);
	if (w)
		w->late_count = 0;
	size_t body = (size_t)(h.entries + h.late) * SFS_MAP_ENTRY;
	size_t whole = sfs_sector_up(SFS_BLOCK_HEADER + body);
	sfs_hash(&sfs->key, p, body, h.body_hash);
	memset(p + body, 0, whole - SFS_BLOCK_HEADER - body);
	sfs_block_encode(&sfs->key, &h, buf);
	return whole;
}

int
sfs_map_write(struct sfs *sfs, uint32_t block, uint64_t generation, struct pr_error *err)
{
	struct sfs_writer *w = sfs->w;
	struct sfs_entry *e = &sfs->table.entry[block];
	while (w->map_flying)
		if (!sfs_pump(sfs, true) && w->queue.flying == 0)
			return pr_error_set(err, "the block map waits: %s", w->error.text);
	size_t len = sfs_map_build(sfs, block, generation, w->map_buf);
	if (!sfs_map_submit(sfs, block, len))
		return pr_error_set(err, "the block map waits: %s", w->error.text);
	*e = (struct sfs_entry){.generation = generation,
		.state = SFS_MAP,
		.prev = SFS_NONE,
		.next = SFS_NONE,
		.slot = SFS_NONE};
	sfs_table_notify(&sfs->table, block);
	return 0;
}

bool
sfs_map_read(struct sfs *sfs, uint64_t pos, uint8_t *buf, struct sfs_block_header *h)
{
	uint32_t size = sfs->root.block_size, have = SFS_MAP_FIRST;
	uint8_t hash[16];
	if (sfs_read_block(sfs, pos, 0, have, buf) < 0 ||
		!sfs_block_decode(&sfs->key, buf, pos, h) || h->kind != SFS_KIND_MAP ||
		h->generation > sfs->root.generation_limit ||
		h->entries >= sfs->root.map_interval ||
		h->late > (size - SFS_BLOCK_HEADER) / SFS_MAP_ENTRY - SFS_MAP_INTERVAL)
		return false;
	uint32_t body = (h->entries + h->late) * SFS_MAP_ENTRY;
	uint32_t need = (uint32_t)sfs_sector_up(SFS_BLOCK_HEADER + body);
	if (need > have && sfs_read_block(sfs, pos, have, need, buf + have) < 0)
		return false;
	sfs_hash(&sfs->key, buf + SFS_BLOCK_HEADER, body, hash);
	return memcmp(hash, h->body_hash, 16) == 0;
}
