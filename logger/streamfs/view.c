/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "logger/streamfs/internal.h"

void
sfs_locate(const struct sfs *sfs, uint64_t block, struct sfs_disk **disk, uint64_t *offset)
{
	uint16_t device;
	uint64_t row;
	sfs_layout_place(&sfs->layout, block, &device, &row);
	*disk = &sfs->disk[device];
	*offset = sfs->root.data_start + row * sfs->root.block_size;
}

int
sfs_read_block(struct sfs *sfs, uint64_t block, uint32_t from, uint32_t to, uint8_t *buf)
{
	struct sfs_disk *disk;
	uint64_t offset;
	sfs_locate(sfs, block, &disk, &offset);
	if (sfs_disk_read(disk, buf, to - from, offset + from) < 0)
		return -1;
	sfs_redo_over(sfs, block, from, to, buf);
	return 0;
}

bool
sfs_read_header(struct sfs *sfs, uint64_t block, struct sfs_block_header *out)
{
	_Alignas(4096) uint8_t buf[SFS_SECTOR];
	return sfs_read_block(sfs, block, 0, SFS_SECTOR, buf) == 0 &&
	       sfs_block_decode(&sfs->key, buf, block, out);
}

static bool
identity_of_record(const struct sfs *sfs, const uint8_t *sector, uint64_t block,
	struct sfs_block_header *out)
{
	struct sfs_record_header r;
	if (!sfs_record_identify(&sfs->key, block, SFS_BLOCK_HEADER,
		    sector + SFS_BLOCK_HEADER, SFS_SECTOR - SFS_BLOCK_HEADER, &r) ||
		r.index != 0)
		return false;
	*out = (struct sfs_block_header){.kind = SFS_KIND_DATA,
		.stream = r.stream,
		.permission = r.permission,
		.block = block,
		.generation = r.generation,
		.first_sequence = r.sequence};
	return true;
}

/*
 * A record's header lies in the same 512 bytes as the block's: no torn write parts the two, so a
 * good record behind a bad block header means damage, and the record says what the block is.
 */
bool
sfs_read_identity(struct sfs *sfs, uint64_t block, struct sfs_block_header *out)
{
	_Alignas(4096) uint8_t buf[SFS_SECTOR] = {0};
	bool readable = sfs_read_block(sfs, block, 0, SFS_SECTOR, buf) == 0;
	const struct sfs_map_entry *kept;
	if (readable && (sfs_block_decode(&sfs->key, buf, block, out) ||
				identity_of_record(sfs, buf, block, out)))
		return true;
	kept = sfs_repairs_kept(sfs, block);
	if (!kept)
		return false;
	*out = (struct sfs_block_header){.kind = SFS_KIND_DATA,
		.stream = kept->stream,
		.block = block,
		.generation = kept->generation,
		.ordinal = kept->ordinal,
		.first_sequence = kept->first_sequence};
	return true;
}

/* What comes from another process is kept in range, so that nobody else needs to look. */
static bool
plausible(const struct sfs *sfs, const struct sfs_entry *e)
{
	return e->end <= sfs->root.block_size && e->stream < SFS_STREAMS_MAX &&
	       (e->next == SFS_NONE || e->next < sfs->root.blocks) &&
	       (e->prev == SFS_NONE || e->prev < sfs->root.blocks) &&
	       e->first_sequence != 0;
}

bool
sfs_view_entry(struct sfs *sfs, uint64_t block, struct sfs_entry *out)
{
	if (block >= sfs->root.blocks)
		return false;
	if (sfs->w && sfs->w->losing && !sfs_block_there(sfs, block))
		return false;
	if (!sfs->live) {
		*out = sfs->table.entry[block];
	} else if (!sfs_seq_read(sfs->shm.entry[block].word, out, SFS_ENTRY_WORDS) ||
		   ((out->state == SFS_OPEN || out->state == SFS_SEALED) &&
			   !plausible(sfs, out))) {
		return false;
	}
	return out->state == SFS_OPEN || out->state == SFS_SEALED;
}

uint32_t
sfs_view_streams(struct sfs *sfs)
{
	if (!sfs->live)
		return sfs->table.streams;
	uint32_t n = atomic_load_explicit(&sfs->shm.header->streams, memory_order_acquire);
	return n > SFS_STREAMS_MAX ? SFS_STREAMS_MAX : n;
}

bool
sfs_view_stream(struct sfs *sfs, uint32_t id, struct sfs_stream *out)
{
	if (id >= sfs_view_streams(sfs))
		return false;
	if (!sfs->live) {
		*out = sfs->table.stream[id];
		return true;
	}
	if (!sfs_seq_read(sfs->shm.stream[id].word, out, SFS_STREAM_WORDS))
		return false;
	out->name[SFS_NAME_MAX] = 0;
	return out->id == id &&
	       (out->oldest == SFS_NONE || out->oldest < sfs->root.blocks) &&
	       (out->newest == SFS_NONE || out->newest < sfs->root.blocks);
}

uint64_t
sfs_view_next_generation(struct sfs *sfs)
{
	if (sfs->w)
		return sfs->w->frontier.next_generation;
	if (sfs->live)
		return atomic_load_explicit(
			&sfs->shm.header->next_generation, memory_order_acquire);
	return sfs->root.generation_limit + 1;
}

/*
 * Gives bytes [from, to) of a block at at + from % SFS_SECTOR: from the slot what is there, the rest
 * from the device in whole sectors, for which at must have room. A block leaves its slot only when it
 * has been written, and comes back only from the next sector on, so the two together have it all.
 */
int
sfs_fetch_at(struct sfs *sfs, uint64_t block, const struct sfs_entry *e, uint32_t from,
	uint32_t to, uint8_t *at, struct pr_error *err)
{
	uint32_t low = from & ~(SFS_SECTOR - 1), split = to;

	if (sfs->shm.header && e->slot != SFS_NONE) {
		split = sfs_shm_valid_from(&sfs->shm, e->slot);
		split = split < from ? from : split > to ? to : split;
		if (split < to && !sfs_shm_copy(&sfs->shm, e->slot, block, e->generation,
					  split, to, at + (split - low)))
			split = to;
	}
	if (split == from)
		return SFS_OK;
	uint32_t high = (uint32_t)sfs_sector_up(split);
	/* a split is at a sector, but for a hostile writer's */
	if (high > split && split < to)
		return pr_error_set(err, "block %llu is not whole in shared memory",
			       (unsigned long long)block),
		       SFS_ERROR;
	sfs_give_way(sfs);
	if (sfs_read_block(sfs, block, low, high, at) < 0)
		return pr_error_errno(err, "cannot read block %llu of the volume",
			(unsigned long long)block);
	return SFS_OK;
}

int
sfs_fetch(struct sfs *sfs, uint64_t block, const struct sfs_entry *e, uint32_t from,
	uint32_t to, uint8_t *buf, struct pr_error *err)
{
	return sfs_fetch_at(sfs, block, e, from, to, buf + (from & ~(SFS_SECTOR - 1)), err);
}

/*
 * The writer holds an open-file-description lock on the first device for as long as it lives, however
 * it dies; asking works across processes, and within one.
 */
bool
sfs_writer_alive(struct sfs *sfs)
{
	struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
	if (sfs->writer)
		return true;
	int fd = sfs_first_disk(sfs)->fd;
	if (fd < 0 || fcntl(fd, F_OFD_GETLK, &lock) < 0)
		return false;
	return lock.l_type == F_WRLCK;
}
