/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "logger/streamfs/internal.h"

/* Reading in two steps: what is to be read is found out by one thread, and read by any. */

/* What a plan's room is. */
struct plan {
	struct sfs_key key;
	struct sfs_handle handle;
	uint64_t first_sequence; /* of its block */
	uint64_t offset; /* on the device, of the sector where the record begins */
	uint32_t permission_mask;
	int fd;
};
_Static_assert(sizeof(struct plan) <= sizeof(struct sfs_plan), "a plan fits");

int
sfs_read_plan(struct sfs *sfs, const struct sfs_handle *handle, struct sfs_plan *out)
{
	struct plan *p = (struct plan *)out;
	struct sfs_disk *disk;
	struct sfs_entry e;
	uint64_t offset;

	if ((!sfs->live && !sfs->table_valid) || handle->length > sfs->root.block_size ||
		sfs_find_block(sfs, handle, &e, NULL) != SFS_OK ||
		(sfs->shm.header && e.slot != SFS_NONE) || (e.flags & SFS_ENTRY_CUT))
		return 0;
	sfs_locate(sfs, handle->block, &disk, &offset);
	if (disk->fd < 0 || disk->missing)
		return 0;
	sfs_give_way(sfs);
	*p = (struct plan){.key = sfs->key,
		.handle = *handle,
		.first_sequence = e.first_sequence,
		.offset = offset + handle->offset / SFS_SECTOR * SFS_SECTOR,
		.permission_mask = sfs->permission_mask,
		.fd = disk->fd};
	return 1;
}

static int
read_all(int fd, uint8_t *at, size_t len, uint64_t offset)
{
	for (size_t done = 0; done < len;) {
		ssize_t n = pread(fd, at + done, len - done, (off_t)(offset + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		done += (size_t)n;
	}
	return 0;
}

int
sfs_read_planned(
	const struct sfs_plan *plan, void *room, size_t size, struct sfs_record *out)
{
	const struct plan *p = (const struct plan *)plan;
	const struct sfs_handle *h = &p->handle;
	struct sfs_record_header r;
	struct sfs_handle found;
	uint8_t *at = (uint8_t *)room + h->offset % SFS_SECTOR;

	if (sfs_read_room(h) > size)
		return SFS_TOO_BIG;
	if (read_all(p->fd, room, sfs_read_room(h), p->offset) < 0)
		return SFS_ERROR;
	const struct sfs_place place = sfs_handle_place(h, p->first_sequence);
	if (sfs_record_decode(&p->key, &place, at, sfs_handle_span(h), &r) !=
		SFS_RECORD_GOOD)
		return SFS_CORRUPT;
	sfs_handle_make(&p->key, &r, &found);
	if (memcmp(&found, h, sizeof(found)) != 0)
		return SFS_CORRUPT;
	if (p->permission_mask && (r.permission & ~p->permission_mask))
		return SFS_DENIED;
	*out = (struct sfs_record){.handle = *h,
		.stream = r.stream,
		.permission = r.permission,
		.min_time = r.min_time,
		.max_time = r.max_time,
		.sequence = r.sequence,
		.length = r.length,
		.body = at + r.size};
	return SFS_OK;
}
