/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "logger/streamfs/internal.h"

/*
 * Growing a volume, by room on its devices and by more devices. Blocks keep their numbers and places;
 * what is new becomes stripe sets of its own, and the order of the frontier is another: new devices get
 * a part in each tier, so that from the next block on all of them work. As the maps of the old order say
 * nothing of what is written in the new one, they are all written anew, then the root. A crash before
 * that root leaves the old volume: the new maps are of generations that its root knows not, so that
 * headers are asked instead.
 */
struct plan {
	struct sfs_root root; /* as it will be */
	uint64_t rows[SFS_DEVICES_MAX]; /* that each device could have */
	uint64_t used[SFS_DEVICES_MAX]; /* that it has in the sets so far */
	uint16_t old; /* devices there were */
};

static int
too_often(struct pr_error *err)
{
	return pr_error_set(err,
		"the volume has been grown too often: its root has no room for more than "
		"%u stripe sets",
		SFS_SETS_MAX);
}

static int
add_set(struct plan *p, uint32_t devices, uint64_t rows, uint16_t tier,
	struct pr_error *err)
{
	struct sfs_root *r = &p->root;
	struct sfs_set *last = &r->set[r->set_count - 1];
	uint64_t blocks = rows * (uint64_t)__builtin_popcount(devices);
	for (uint16_t d = 0; d < r->device_count; d++)
		if (devices & (1u << d))
			p->used[d] += rows;
	r->blocks += blocks;
	if (last->devices == devices && last->tier == tier) {
		last->blocks += blocks;
		return 0;
	}
	if (r->set_count == SFS_SETS_MAX)
		return too_often(err);
	r->set[r->set_count++] = (struct sfs_set){
		.blocks = blocks, .devices = (uint16_t)devices, .tier = tier};
	return 0;
}

/* Devices [from, to) that have room left, and the least of it. */
static uint32_t
with_room(const struct plan *p, uint16_t from, uint16_t to, uint64_t *least)
{
	uint32_t devices = 0;
	*least = UINT64_MAX;
	for (uint16_t d = from; d < to; d++) {
		uint64_t room = p->rows[d] > p->used[d] ? p->rows[d] - p->used[d] : 0;
		if (room == 0)
			continue;
		devices |= 1u << d;
		*least = room < *least ? room : *least;
	}
	return devices;
}

static uint16_t
last_tier(const struct sfs_root *r)
{
	uint16_t tier = 0;
	for (uint32_t i = 0; i < r->set_count; i++)
		tier = r->set[i].tier > tier ? r->set[i].tier : tier;
	return tier;
}

/* New room on the devices that there were: behind all else, unless the last set just gets longer. */
static int
plan_room(struct plan *p, struct pr_error *err)
{
	uint64_t least;
	uint32_t devices;
	while ((devices = with_room(p, 0, p->old, &least)) != 0) {
		const struct sfs_set *last = &p->root.set[p->root.set_count - 1];
		uint16_t tier = last->devices == devices
					? last->tier
					: (uint16_t)(last_tier(&p->root) + 1);
		if (tier >= SFS_SETS_MAX)
			return too_often(err);
		if (add_set(p, devices, least, tier, err) < 0)
			return -1;
	}
	return 0;
}

/* New devices take part in each tier by its share of the volume. */
static int
plan_devices(struct plan *p, struct pr_error *err)
{
	uint64_t least, tier_blocks[SFS_SETS_MAX] = {0}, all = p->root.blocks;
	uint16_t last = last_tier(&p->root);
	uint32_t devices;
	for (uint32_t i = 0; i < p->root.set_count; i++)
		tier_blocks[p->root.set[i].tier] += p->root.set[i].blocks;
	while ((devices = with_room(p, p->old, p->root.device_count, &least)) != 0) {
		uint64_t left = least;
		for (uint16_t t = 0; t <= last; t++) {
			uint64_t rows = t == last ? left : least * tier_blocks[t] / all;
			left -= rows;
			if (rows > 0 && add_set(p, devices, rows, t, err) < 0)
				return -1;
		}
	}
	return 0;
}

static int
make_plan(const struct sfs *sfs, const struct sfs_disk *added, uint16_t count,
	struct plan *p, struct pr_error *err)
{
	*p = (struct plan){.root = sfs->root, .old = sfs->disks};
	struct sfs_root *r = &p->root;
	if (sfs->disks + count > SFS_DEVICES_MAX)
		return pr_error_set(
			err, "a volume has at most %d devices", SFS_DEVICES_MAX);
	r->device_count = (uint16_t)(sfs->disks + count);
	for (uint16_t d = 0; d < r->device_count; d++) {
		const struct sfs_disk *disk =
			d < p->old ? &sfs->disk[d] : &added[d - p->old];
		p->used[d] = d < p->old ? sfs->layout.rows[d] : 0;
		if (disk->size > r->data_start)
			p->rows[d] = (disk->size - r->data_start) / r->block_size;
		if (d < p->old)
			continue;
		if (p->rows[d] == 0)
			return pr_error_set(err, "%s: no room for a block of %u KiB",
				disk->path, r->block_size / 1024);
		r->device[d] = (struct sfs_device){0};
		if (getrandom(r->device[d].uuid, 16, 0) != 16)
			return pr_error_errno(err, "cannot get random bytes");
	}
	if (plan_room(p, err) < 0 || plan_devices(p, err) < 0)
		return -1;
	for (uint16_t d = 0; d < r->device_count; d++)
		r->device[d].blocks = p->used[d];
	if (r->blocks == sfs->root.blocks)
		return pr_error_set(err, "nothing has become larger: give --size, --add, "
					 "or a larger device");
	if (r->blocks > SFS_BLOCKS_MAX)
		return pr_error_set(err, "too many blocks");
	return 0;
}

/* The table, the disks and what depends on their number; nothing on the devices yet. */
static int
widen(struct sfs *sfs, const struct plan *p, const struct sfs_disk *added,
	struct pr_error *err)
{
	uint64_t blocks = p->root.blocks;
	struct sfs_table *t = &sfs->table;
	struct sfs_entry *entry = realloc(t->entry, blocks * sizeof(*entry));
	if (entry)
		t->entry = entry;
	struct sfs_disk *disk = calloc(p->root.device_count, sizeof(*disk));
	uint8_t *roots = sfs_buffer((size_t)p->root.device_count * SFS_ROOT_BYTES);
	if (!entry || !disk || !roots) {
		free(disk);
		free(roots);
		return pr_error_set(
			err, "no memory for %llu blocks", (unsigned long long)blocks);
	}
	for (uint64_t b = t->blocks; b < blocks; b++)
		t->entry[b] = (struct sfs_entry){
			.prev = SFS_NONE, .next = SFS_NONE, .slot = SFS_NONE};
	for (uint16_t d = 0; d < p->root.device_count; d++) {
		disk[d] = d < p->old ? sfs->disk[d] : added[d - p->old];
		if (disk[d].fd >= 0)
			disk[d].arg = &disk[d];
	}
	free(sfs->disk);
	free(sfs->w->root_buf);
	sfs->disk = disk;
	sfs->w->root_buf = roots;
	sfs->disks = p->root.device_count;
	t->blocks = blocks;
	t->entry_changed = NULL; /* shared memory has no room for them; it goes with us */
	return 0;
}

/* The frontier goes on at the block that it would have come by next, in the new order. */
static int
turn_frontier(struct sfs *sfs, const struct plan *p, struct pr_error *err)
{
	struct sfs_frontier *f = &sfs->w->frontier;
	struct sfs_table *t = &sfs->table;
	uint32_t next = sfs_order_block(&t->order, sfs_frontier_position(f));
	uint64_t generation = f->next_generation + f->ready + f->pending;
	for (uint64_t b = 0; b < t->blocks; b++)
		if (t->entry[b].state == SFS_RESERVED)
			t->entry[b].state = SFS_FREE;
	sfs->root = p->root;
	sfs->root.generation_limit = generation - 1;
	sfs_layout_make(&sfs->layout, &sfs->root);
	if (sfs_order_make(&t->order, &sfs->layout, sfs->root.blocks,
		    sfs->root.map_interval, sfs->root.zone_region, err) < 0)
		return -1;
	sfs_frontier_free(f);
	return sfs_frontier_init(f, sfs->root.blocks, sfs->shm.slots,
		sfs_order_position(&t->order, next), generation, sfs->root.blocks, err);
}

static int
write_maps(struct sfs *sfs, struct pr_error *err)
{
	struct sfs_writer *w = sfs->w;
	uint32_t interval = sfs->root.map_interval;
	for (uint64_t map = interval - 1; map < sfs->root.blocks; map += interval) {
		struct sfs_disk *disk;
		uint64_t offset;
		size_t len = sfs_map_build(
			sfs, (uint32_t)map, w->frontier.next_generation++, w->map_buf);
		sfs_locate(sfs, map, &disk, &offset);
		if (!disk->lost && sfs_disk_write(disk, w->map_buf, len, offset) < 0)
			return pr_error_errno(
				err, "%s: cannot write a block map", disk->path);
	}
	return sfs_sync_disks(sfs, err);
}

/* First on the new devices: a root that speaks of them must not be there before they have one. */
static int
write_new_roots(struct sfs *sfs, uint16_t old, struct pr_error *err)
{
	size_t len = sfs_root_prepare(sfs, SFS_ROOT_CLEAN);
	for (uint16_t d = old; d < sfs->disks; d++) {
		sfs->root_copy[d] = 0;
		if (sfs_disk_write(&sfs->disk[d],
			    sfs->w->root_buf + (size_t)d * SFS_ROOT_BYTES, len, 0) < 0)
			return pr_error_errno(
				err, "%s: cannot write the root", sfs->disk[d].path);
	}
	return sfs_sync_disks(sfs, err);
}

int
sfs_grow_open(struct sfs *sfs, const struct sfs_disk *added, uint16_t count,
	uint64_t *new_blocks, struct pr_error *err)
{
	struct plan *p = malloc(sizeof(*p));
	uint64_t before = sfs->root.blocks;
	int rc = p ? 0 : pr_error_set(err, "no memory to grow the volume");
	if (rc == 0 && (sfs_flush(sfs, err) != SFS_OK ||
			       make_plan(sfs, added, count, p, err) < 0 ||
			       widen(sfs, p, added, err) < 0))
		rc = -1;
	if (rc == 0 && (turn_frontier(sfs, p, err) < 0 || write_maps(sfs, err) < 0 ||
			       write_new_roots(sfs, p->old, err) < 0 ||
			       sfs_root_store(sfs, SFS_ROOT_CLEAN, err) < 0))
		rc = -1;
	if (rc == 0)
		*new_blocks = sfs->root.blocks - before;
	free(p);
	return rc;
}

/* ---- files and block devices ---- */

/* What a new file gets when nothing is said: as much as the largest of those there. */
static uint64_t
usual_size(const struct sfs *sfs)
{
	uint64_t size = 0;
	for (uint16_t d = 0; d < sfs->disks; d++)
		size = sfs->disk[d].size > size ? sfs->disk[d].size : size;
	return size;
}

static int
enlarge(struct sfs *sfs, uint64_t each, struct pr_error *err)
{
	for (uint16_t d = 0; d < sfs->disks; d++) {
		struct sfs_disk *disk = &sfs->disk[d];
		if (disk->lost)
			continue;
		if (each > 0 && each < disk->size && sfs_disk_is_file(disk))
			return pr_error_set(err,
				"%s has %llu MiB already: a volume does not shrink",
				disk->path, (unsigned long long)(disk->size >> 20));
		if (each > 0 && sfs_disk_is_file(disk) &&
			sfs_size_file(disk->path, each, err) < 0)
			return -1;
		if (sfs_disk_measure(disk, err) < 0)
			return -1;
	}
	return 0;
}

static int
open_added(const struct sfs_grow_options *o, uint64_t each, struct sfs_disk *added,
	size_t *opened, struct pr_error *err)
{
	for (; *opened < o->add_count; (*opened)++) {
		const char *path = o->add[*opened];
		if (sfs_check_file(path, o->force, err) < 0 ||
			sfs_size_new(path, each, err) < 0 ||
			sfs_disk_open(&added[*opened], path, true, true, err) < 0)
			return -1;
	}
	return 0;
}

int
sfs_grow(const char *const *paths, size_t count, const struct sfs_grow_options *o,
	uint64_t *new_blocks, struct pr_error *err)
{
	struct sfs_open_options writing = {.writer = true};
	struct sfs_disk added[SFS_DEVICES_MAX] = {0};
	size_t opened = 0;
	if (o->add_count > SFS_DEVICES_MAX)
		return pr_error_set(
			err, "a volume has at most %d devices", SFS_DEVICES_MAX);
	struct sfs *sfs = sfs_open(paths, count, &writing, err);
	if (!sfs)
		return -1;
	uint64_t each = o->size / (sfs->disks + o->add_count);
	int rc = enlarge(sfs, each, err);
	if (rc == 0)
		rc = open_added(o, each ? each : usual_size(sfs), added, &opened, err);
	uint16_t before = sfs->disks;
	if (rc == 0)
		rc = sfs_grow_open(sfs, added, (uint16_t)o->add_count, new_blocks, err);
	/* what the volume has taken is closed with it */
	for (size_t i = 0; i < opened && sfs->disks == before; i++)
		sfs_disk_close(&added[i]);
	if (rc == 0)
		sfs_close(&sfs);
	else
		sfs_give_up(&sfs);
	return rc;
}
