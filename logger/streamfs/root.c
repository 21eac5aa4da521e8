/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "logger/streamfs/internal.h"

struct found {
	bool any;
	uint8_t copy;
	struct sfs_root root;
	struct sfs_stream_entry *streams;
	struct sfs_map_entry *repairs;
};

/* The better of a disk's two copies. 0, or -1 with the first copy's fault. */
static int
load_disk(struct sfs_disk *disk, uint8_t *buf, struct found *best, struct pr_error *err)
{
	struct sfs_stream_entry *streams = calloc(SFS_STREAMS_MAX, sizeof(*streams));
	struct pr_error first = {0}, why = {0};
	if (!streams)
		return pr_error_set(err, "no memory for the root");
	best->any = false;
	for (uint8_t copy = 0; copy < 2; copy++) {
		struct sfs_root root = {0};
		uint64_t offset = copy ? SFS_ROOT_BYTES : 0;
		int rc;
		if (sfs_disk_read(disk, buf, SFS_ROOT_BYTES, offset) < 0)
			rc = pr_error_errno(&why, "cannot read the root");
		else
			rc = sfs_root_decode(buf, &root, streams, &why);
		if (rc < 0 && !first.text[0])
			first = why;
		if (rc < 0 || (best->any && root.generation < best->root.generation))
			continue;
		best->any = true;
		best->copy = copy;
		best->root = root;
		memcpy(best->streams, streams, root.stream_count * sizeof(*streams));
		sfs_root_repairs(buf, &root, best->repairs);
	}
	free(streams);
	return best->any ? 0 : pr_error_set(err, "%s: %s", disk->path, first.text);
}

static int
place_disk(struct sfs *sfs, struct sfs_disk *sorted, uint16_t i, const struct found *found,
	struct pr_error *err)
{
	const struct sfs_root *root = &found->root;
	struct sfs_disk *disk = &sfs->disk[i];
	uint64_t need =
		root->data_start + root->blocks / root->device_count * root->block_size;
	if (root->device_count != sfs->disks)
		return pr_error_set(err,
			"%s: the volume has %u devices, %u given: name them all",
			disk->path, root->device_count, sfs->disks);
	if (disk->size < need)
		return pr_error_set(err,
			"%s: the volume needs %llu bytes, but the device has only %llu",
			disk->path, (unsigned long long)need,
			(unsigned long long)disk->size);
	if (sorted[root->device_index].ops)
		return pr_error_set(err, "%s: given twice", disk->path);
	sorted[root->device_index] = *disk;
	sfs->root_copy[root->device_index] = found->copy;
	return 0;
}

static int
load_all(struct sfs *sfs, struct sfs_disk *sorted, uint8_t *buf, struct found *found,
	struct sfs_stream_entry *streams, struct pr_error *err)
{
	for (uint16_t i = 0; i < sfs->disks; i++) {
		if (load_disk(&sfs->disk[i], buf, found, err) < 0)
			return -1;
		if (i > 0 && memcmp(found->root.uuid, sfs->root.uuid, 16) != 0)
			return pr_error_set(err, "%s: of another volume than %s",
				sfs->disk[i].path, sfs->disk[0].path);
		if (place_disk(sfs, sorted, i, found, err) < 0)
			return -1;
		if (i > 0 && found->root.generation <= sfs->root.generation)
			continue;
		sfs->root = found->root;
		memcpy(streams, found->streams,
			found->root.stream_count * sizeof(*streams));
		if (sfs_repairs_take(sfs, found->repairs, found->root.repair_count, err) <
			0)
			return -1;
	}
	return 0;
}

static void
reorder(struct sfs *sfs, const struct sfs_disk *sorted)
{
	for (uint16_t i = 0; i < sfs->disks; i++) {
		bool own = sfs->disk[i].fd >= 0; /* then arg is the struct itself */
		sfs->disk[i] = sorted[i];
		if (own)
			sfs->disk[i].arg = &sfs->disk[i];
	}
}

int
sfs_root_load(struct sfs *sfs, struct sfs_stream_entry *streams, struct pr_error *err)
{
	struct sfs_disk sorted[SFS_DEVICES_MAX] = {0};
	uint8_t *buf = sfs_buffer(SFS_ROOT_BYTES);
	struct found found = {.streams = calloc(SFS_STREAMS_MAX, sizeof(*streams)),
		.repairs = calloc(SFS_REPAIRS_MAX, sizeof(*found.repairs))};
	int rc;
	if (!buf || !found.streams || !found.repairs)
		rc = pr_error_set(err, "no memory for the root");
	else
		rc = load_all(sfs, sorted, buf, &found, streams, err);
	if (rc == 0)
		reorder(sfs, sorted);
	free(buf);
	free(found.streams);
	free(found.repairs);
	return rc;
}

size_t
sfs_root_prepare(struct sfs *sfs, uint32_t flags)
{
	struct sfs_writer *w = sfs->w;
	struct sfs_root root = sfs->root;
	size_t len = 0;
	root.generation++;
	root.frontier = w->frontier.stable;
	root.window = w->frontier.window;
	root.high_water = w->frontier.high_water;
	root.generation_limit = sfs_frontier_limit(&w->frontier);
	root.flags = flags;
	root.stream_count = sfs->table.streams;
	sfs_repairs_prune(sfs, &root);
	for (uint32_t i = 0; i < root.stream_count; i++) {
		const struct sfs_stream *s = &sfs->table.stream[i];
		sfs_stream_to_root(s,
			s->newest == SFS_NONE ? NULL : &sfs->table.entry[s->newest],
			&w->root_streams[i]);
	}
	for (uint16_t i = 0; i < sfs->disks; i++) {
		root.device_index = i;
		len = sfs_root_encode(
			&root, w->root_streams, w->root_buf + (size_t)i * SFS_ROOT_BYTES);
	}
	return len;
}

/*
 * A disk that a crash left behind the others has its newest copy where they have their older one: each
 * keeps its own newest until the next root is durable on all.
 */
uint64_t
sfs_root_offset(const struct sfs *sfs, uint16_t disk)
{
	return sfs->root_copy[disk] ? 0 : SFS_ROOT_BYTES;
}

void
sfs_root_done(struct sfs *sfs)
{
	sfs->root.generation++;
	for (uint16_t i = 0; i < sfs->disks; i++)
		sfs->root_copy[i] ^= 1;
}

int
sfs_sync_disks(struct sfs *sfs, struct pr_error *err)
{
	for (uint16_t i = 0; i < sfs->disks; i++)
		if (sfs->disk[i].ops->sync(sfs->disk[i].arg) < 0)
			return pr_error_errno(err, "%s: cannot sync", sfs->disk[i].path);
	return 0;
}

int
sfs_root_store(struct sfs *sfs, uint32_t flags, struct pr_error *err)
{
	uint32_t pending = sfs->w->frontier.pending;
	size_t len = sfs_root_prepare(sfs, flags);
	for (uint16_t i = 0; i < sfs->disks; i++)
		if (sfs_disk_write(&sfs->disk[i],
			    sfs->w->root_buf + (size_t)i * SFS_ROOT_BYTES, len,
			    sfs_root_offset(sfs, i)) < 0)
			return pr_error_errno(
				err, "%s: cannot write the root", sfs->disk[i].path);
	if (sfs_sync_disks(sfs, err) < 0)
		return -1;
	sfs_root_done(sfs);
	sfs_frontier_ready(&sfs->w->frontier, pending);
	return 0;
}
