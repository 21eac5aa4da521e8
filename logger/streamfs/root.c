/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>
#include <xxhash.h>

#include "logger/streamfs/internal.h"

/* ---- what a repair has noted ---- */

static bool
still_held(const struct sfs *sfs, const struct sfs_map_entry *r)
{
	const struct sfs_table *t = &sfs->table;
	if (r->flags & SFS_REPAIR_WIPE)
		return true;
	bool known = r->block < t->blocks && r->generation != 0;
	if (r->stream >= t->streams)
		return false;
	if (r->flags & SFS_REPAIR_KEPT || r->records == 0)
		return known && t->entry[r->block].generation == r->generation &&
		       t->entry[r->block].state != SFS_FREE;
	return r->first_sequence + r->records > t->stream[r->stream].first_sequence;
}

/*
 * Writer: drops notes on records that are overwritten, and gives root the rest, with the
 * holes.
 */
static void
prune_repairs(struct sfs *sfs, struct sfs_root *root)
{
	uint32_t kept = 0;
	for (uint32_t i = 0; i < sfs->repairs; i++)
		if (still_held(sfs, &sfs->repair[i]))
			sfs->repair[kept++] = sfs->repair[i];
	sfs->repairs = kept;
	sfs_holes_prune(sfs);
	memcpy(sfs->w->root_notes, sfs->repair, kept * sizeof(*sfs->repair));
	memcpy(sfs->w->root_notes + kept, sfs->hole, sfs->holes * sizeof(*sfs->hole));
	root->repair_count = kept + sfs->holes;
	root->repairs = sfs->w->root_notes;
}

const struct sfs_map_entry *
sfs_repair_of(const struct sfs *sfs, uint64_t block, uint32_t flag)
{
	for (uint32_t i = 0; i < sfs->repairs; i++)
		if ((sfs->repair[i].flags & flag) && sfs->repair[i].block == block)
			return &sfs->repair[i];
	return NULL;
}

bool
sfs_repairs_cover(const struct sfs *sfs, uint32_t stream, uint64_t first, uint64_t last)
{
	for (uint32_t i = 0; i < sfs->repairs; i++) {
		const struct sfs_map_entry *r = &sfs->repair[i];
		if ((r->flags & SFS_REPAIR_GONE) && r->stream == stream &&
			r->first_sequence <= first && r->records > 0 &&
			last - r->first_sequence < r->records)
			return true;
	}
	return false;
}

bool
sfs_repairs_cover_at(const struct sfs *sfs, uint64_t block, uint64_t generation,
	uint32_t from, uint32_t to)
{
	for (uint32_t i = 0; i < sfs->repairs; i++) {
		const struct sfs_map_entry *r = &sfs->repair[i];
		if ((r->flags & SFS_REPAIR_GONE) && r->block == block &&
			r->generation == generation && generation != 0 &&
			r->block_number <= from && r->end >= to)
			return true;
	}
	return false;
}

/* ---- the list of a clean close ---- */

static void
put(struct sfs *sfs, uint32_t room, uint32_t block)
{
	const struct sfs_entry *e = &sfs->table.entry[block];
	if (!sfs_entry_holds(e))
		return;
	if (sfs->listed_count < room)
		sfs->listed[sfs->listed_count] = sfs_map_entry_make(e, block, 0);
	sfs->listed_count++;
}

/* Lists a block that its map has as open, with no later map that has its end. */
static void
put_open(struct sfs *sfs, const struct sfs_root *root, uint32_t room, uint32_t block)
{
	if ((sfs->table.entry[block].flags & SFS_ENTRY_MAPPED_OPEN) &&
		sfs_map_knows_all(sfs, root, block))
		put(sfs, room, block);
}

/*
 * Writer: fills the root's list if its flags have SFS_ROOT_LISTED; without room clears the
 * flag. A map is written when the frontier reaches the end of its interval, so the interval
 * where a writer stops has no map yet. After a clean close the root's list replaces it;
 * else opening would read up to 255 headers.
 */
static void
make_list(struct sfs *sfs, struct sfs_root *root)
{
	const struct sfs_writer *w = sfs->w;
	const struct sfs_table *t = &sfs->table;
	root->listed = sfs->listed;
	root->listed_count = sfs->listed_count = 0;
	if (!(root->flags & SFS_ROOT_LISTED))
		return;
	uint32_t room = (SFS_ROOT_BYTES - sfs_root_length(root)) / SFS_MAP_ENTRY;
	for (uint64_t b = 0; b < t->blocks; b++)
		if (b % t->interval == 0 && sfs_map_knows_all(sfs, root, b))
			b += t->interval - 1;
		else
			put(sfs, room, b);
	for (uint32_t i = 0; i < w->sealed_after_map_count; i++)
		put_open(sfs, root, room, w->sealed_after_map[i]);
	for (uint32_t i = 0; i < t->streams; i++)
		if (t->stream[i].newest != SFS_NONE)
			put_open(sfs, root, room, t->stream[i].newest);
	if (sfs->listed_count > room)
		root->flags &= ~SFS_ROOT_LISTED;
	else
		root->listed_count = sfs->listed_count;
}

/* ---- loading and storing ---- */

struct found {
	bool any;
	uint8_t copy;
	struct sfs_root root;
	uint8_t *bytes, *spare; /* SFS_ROOT_BYTES each: the root; room to read another */
};

/* Reads a copy up to the length in its header; without a valid root only the header. */
static int
read_copy(struct sfs_disk *disk, uint8_t copy, uint8_t *buf)
{
	uint64_t offset = copy ? SFS_ROOT_BYTES : 0;
	if (sfs_disk_read(disk, buf, SFS_ROOT_HEADER, offset) < 0)
		return -1;
	size_t length = sfs_sector_up(sfs_root_peek(buf).length);
	if (length <= SFS_ROOT_HEADER || length > SFS_ROOT_BYTES)
		return 0;
	return sfs_disk_read(disk, buf + SFS_ROOT_HEADER, length - SFS_ROOT_HEADER,
		offset + SFS_ROOT_HEADER);
}

/*
 * Finds the better of a disk's two copies as they are now. 0, or -1 with the first copy's
 * error. *seen: a hash of both. streams: room to decode.
 */
static int
load_copies(struct sfs_disk *disk, struct sfs_stream *streams, struct found *best,
	uint64_t *seen, struct pr_error *err)
{
	struct pr_error first = {0}, why = {0};
	best->any = false;
	*seen = 0;
	for (uint8_t copy = 0; copy < 2; copy++) {
		struct sfs_root root = {0};
		uint8_t *bytes = best->spare;
		int rc;
		if (read_copy(disk, copy, bytes) < 0)
			rc = pr_error_errno(&why, "cannot read the root");
		else {
			rc = sfs_root_decode(bytes, &root, streams, &why);
			*seen = XXH3_64bits_withSeed(bytes, SFS_ROOT_HEADER, *seen);
		}
		if (rc < 0 && !first.text[0])
			first = why;
		if (rc < 0 || (best->any && root.generation < best->root.generation))
			continue;
		best->any = true;
		best->copy = copy;
		best->root = root;
		best->spare = best->bytes;
		best->bytes = bytes;
	}
	return best->any ? 0 : pr_error_set(err, "%s: %s", disk->path, first.text);
}

/*
 * A slow reader may find both copies of a live writer half written, one after the other. So
 * it reads again while they change; a damaged copy does not change.
 */
#ifndef ROOT_STILL /* the fuzzed build has no writer to wait for */
#define ROOT_STILL (20 * PR_NS_PER_MS)
#endif
#define ROOT_WAIT PR_NS_PER_S

static int
load_disk(struct sfs_disk *disk, struct sfs_stream *streams, struct found *best,
	struct pr_error *err)
{
	int64_t begin = pr_now_mono(), since = begin, now = begin;
	uint64_t seen, before = 0;
	while (load_copies(disk, streams, best, &seen, err) < 0) {
		now = pr_now_mono();
		since = seen == before ? since : now;
		before = seen;
		if (now - since >= ROOT_STILL || now - begin >= ROOT_WAIT)
			return -1;
		poll(NULL, 0, 1);
	}
	return 0;
}

/*
 * Identity of a disk, by its root; any false: it has no root, and disk->why has the reason.
 */
struct claim {
	bool any;
	uint8_t copy; /* the newer of its two */
	uint16_t index;
	uint8_t uuid[16];
	bool placed; /* the disk is where the root has it */
};

/*
 * Each disk's best root; the newest of all becomes the volume's. A disk that has none is missing.
 */
static int
claim_all(struct sfs *sfs, struct claim *claims, struct found *found, uint8_t *newest,
	struct sfs_stream *streams, struct pr_error *err)
{
	const struct sfs_disk *first = NULL;
	for (uint16_t i = 0; i < sfs->disks; i++) {
		struct sfs_disk *disk = &sfs->disk[i];
		if (disk->missing)
			continue;
		if (load_disk(disk, streams, found, err) < 0) {
			PR_PRINT(disk->why, "%.290s", err->text);
			continue;
		}
		if (first && memcmp(found->root.uuid, sfs->root.uuid, 16) != 0)
			return pr_error_set(err, "%s: of another volume than %s",
				disk->path, first->path);
		uint16_t index = found->root.device_index;
		claims[i] =
			(struct claim){.any = true, .copy = found->copy, .index = index};
		memcpy(claims[i].uuid, found->root.device[index].uuid, 16);
		if (first && found->root.generation <= sfs->root.generation)
			continue;
		first = first ? first : disk;
		sfs->root = found->root;
		memcpy(newest, found->bytes, found->root.length);
	}
	return first ? 0 : pr_error_set(err, "%s", sfs->disk[0].why);
}

/* Loads the tables behind the header of the volume's root. */
static int
load_tables(struct sfs *sfs, const uint8_t *bytes, struct sfs_stream *streams,
	struct pr_error *err)
{
	struct sfs_root *root = &sfs->root;
	if (sfs_root_decode(bytes, root, streams, err) < 0)
		return -1;
	sfs_root_notes(bytes, root, sfs->repair, sfs->listed, sfs->redo);
	sfs->listed_count = root->listed_count;
	sfs->redos = root->redo_count;
	sfs_holes_load(sfs, sfs->repair, root->repair_count);
	sfs->repairs = sfs->wipes = 0;
	for (uint32_t i = 0; i < root->repair_count; i++) {
		const struct sfs_map_entry e = sfs->repair[i];
		if (e.flags & SFS_REPAIR_HOLE)
			continue;
		sfs->repair[sfs->repairs++] = e;
		sfs->wipes += (e.flags & SFS_REPAIR_WIPE) != 0;
	}
	sfs_layout_make(&sfs->layout, root);
	return 0;
}

/* Sorts the disk in at its index; ignores a disk that is no longer part of the volume. */
static int
place_disk(struct sfs *sfs, struct sfs_disk *sorted, const struct sfs_disk *disk,
	struct claim *claim, struct pr_error *err)
{
	const struct sfs_root *root = &sfs->root;
	const struct sfs_device *device = &root->device[claim->index];
	if (!claim->any || claim->index >= root->device_count ||
		device->flags & SFS_DEVICE_LOST ||
		memcmp(claim->uuid, device->uuid, 16) != 0)
		return 0;
	uint64_t need =
		root->data_start + sfs->layout.rows[claim->index] * root->block_size;
	if (disk->size < need)
		return pr_error_set(err,
			"%s: the volume needs %" PRIu64
			" bytes, but the device has only %" PRIu64,
			disk->path, need, disk->size);
	if (sorted[claim->index].ops)
		return pr_error_set(err, "%s: given twice", disk->path);
	sorted[claim->index] = *disk;
	sfs->root_copy[claim->index] = claim->copy;
	claim->placed = true;
	return 0;
}

/*
 * Counts missing devices. A disk without a root of this volume is accepted only in place of
 * a missing device.
 */
static int
count_missing(struct sfs *sfs, struct sfs_disk *sorted, const struct claim *claims,
	struct pr_error *err)
{
	const char *why = "not named";
	uint16_t gone = 0, rootless = 0;
	for (uint16_t i = 0; i < sfs->disks; i++) {
		if (claims[i].any || sfs->disk[i].lost)
			continue;
		why = sfs->disk[i].why;
		rootless++;
	}
	sfs->missing = sfs->lost = 0;
	for (uint16_t i = 0; i < sfs->root.device_count; i++) {
		if (sorted[i].ops)
			continue;
		bool before = sfs->root.device[i].flags & SFS_DEVICE_LOST;
		sfs_disk_missing(&sorted[i], "", before ? "left out of the volume" : why);
		sorted[i].lost = before || sfs->degraded;
		sfs->lost += sorted[i].lost;
		sfs->missing += !sorted[i].lost;
		gone += !before;
	}
	return rootless > gone ? pr_error_set(err, "%s", why) : 0;
}

/*
 * Puts the disks into the root's order, with a stand-in for each missing one, and closes
 * the others.
 */
static int
reorder(struct sfs *sfs, const struct sfs_disk *sorted, const struct claim *claims,
	struct pr_error *err)
{
	uint16_t count = sfs->root.device_count;
	struct sfs_disk *disk = calloc(count, sizeof(*disk));
	if (!disk)
		return pr_error_set(err, "no memory for the devices");
	for (uint16_t i = 0; i < sfs->disks; i++)
		if (!claims[i].placed)
			sfs_disk_close(&sfs->disk[i]);
	memcpy(disk, sorted, count * sizeof(*disk));
	free(sfs->disk);
	sfs->disk = disk;
	sfs->disks = count;
	return 0;
}

int
sfs_root_load(struct sfs *sfs, struct sfs_stream *streams, struct pr_error *err)
{
	struct sfs_disk sorted[SFS_DEVICES_MAX] = {0};
	struct claim claims[SFS_DEVICES_MAX] = {0};
	uint8_t *buf = sfs_read_buffer(3 * SFS_ROOT_BYTES);
	if (!buf)
		return pr_error_set(err, "no memory for the root");
	struct found found = {.bytes = buf, .spare = buf + SFS_ROOT_BYTES};
	uint8_t *newest = buf + 2 * SFS_ROOT_BYTES;
	int rc = claim_all(sfs, claims, &found, newest, streams, err);
	if (rc == 0)
		rc = load_tables(sfs, newest, streams, err);
	for (uint16_t i = 0; rc == 0 && i < sfs->disks; i++)
		rc = place_disk(sfs, sorted, &sfs->disk[i], &claims[i], err);
	if (rc == 0)
		rc = count_missing(sfs, sorted, claims, err);
	if (rc == 0)
		rc = reorder(sfs, sorted, claims, err);
	free(buf);
	return rc;
}

bool
sfs_root_unchanged(struct sfs *sfs)
{
	_Alignas(4096) uint8_t buf[SFS_ROOT_HEADER];
	bool same = false;
	for (uint16_t i = 0; i < sfs->disks; i++) {
		if (sfs->disk[i].missing)
			continue;
		for (int copy = 0; copy < 2; copy++) {
			if (sfs_disk_read(&sfs->disk[i], buf, sizeof(buf),
				    copy ? SFS_ROOT_BYTES : 0) < 0)
				return false;
			const struct sfs_root peek = sfs_root_peek(buf);
			if (memcmp(peek.uuid, sfs->root.uuid, 16) != 0 ||
				peek.generation > sfs->root.generation)
				return false;
			same |= peek.generation == sfs->root.generation;
		}
	}
	return same;
}

size_t
sfs_root_prepare(struct sfs *sfs, uint32_t flags)
{
	struct sfs_writer *w = sfs->w;
	struct sfs_root root = sfs->root;
	size_t len = 0;
	root.generation++;
	root.frontier = w->frontier.stable;
	PR_COPY(&root, &w->frontier, window, high_water);
	root.generation_limit = sfs_frontier_limit(&w->frontier);
	root.flags = flags;
	root.stream_count = sfs->table.streams;
	prune_repairs(sfs, &root);
	root.redo_count = sfs->redos;
	root.redos = sfs->redo;
	make_list(sfs, &root);
	for (uint32_t i = 0; i < root.stream_count; i++) {
		struct sfs_stream *s = &w->root_streams[i];
		*s = sfs->table.stream[i];
		s->head = sfs_table_head(&sfs->table, s->newest);
		/*
		 * records up to the targets are on the devices, or were lost with a device
		 */
		if (w->root_has_loss && w->tail[i].target > s->durable_sequence)
			s->durable_sequence = w->tail[i].target;
	}
	for (uint16_t i = 0; i < sfs->disks; i++) {
		uint8_t *copy = w->root_buf + i * SFS_ROOT_BYTES;
		root.device_index = i;
		len = sfs_root_encode(&root, w->root_streams, copy);
		if (w->root_full)
			memset(copy + len, 0, SFS_ROOT_BYTES - len);
	}
	return w->root_full ? SFS_ROOT_BYTES : len;
}

/*
 * After a crash the newest copy of one disk may lie where the other disks have their older
 * copy. So each disk keeps its own newest copy until the next root is durable on all disks.
 */
uint64_t
sfs_root_offset(const struct sfs *sfs, uint16_t disk)
{
	return sfs->root_copy[disk] ? 0 : SFS_ROOT_BYTES;
}

void
sfs_root_done(struct sfs *sfs)
{
	struct sfs_writer *w = sfs->w;
	sfs->root.generation++;
	for (uint16_t i = 0; i < sfs->disks; i++)
		sfs->root_copy[i] ^= 1;
	w->root_full -= w->root_full > 0;
	if (sfs->redos > 0)
		w->root_full = 2;
}

int
sfs_sync_disks(struct sfs *sfs, struct pr_error *err)
{
	for (uint16_t i = 0; i < sfs->disks; i++) {
		struct sfs_disk *disk = &sfs->disk[i];
		if (!disk->missing && sfs_disk_sync(disk) < 0 &&
			!sfs_disk_drop_failed(sfs, disk, errno))
			return pr_error_errno(err, "%s: cannot sync", disk->path);
	}
	return 0;
}

int
sfs_root_store(struct sfs *sfs, uint32_t flags, struct pr_error *err)
{
	uint32_t pending = sfs->w->frontier.pending;
	size_t len = sfs_root_prepare(sfs, flags);
	for (uint16_t i = 0; i < sfs->disks; i++) {
		struct sfs_disk *disk = &sfs->disk[i];
		if (!disk->missing &&
			sfs_disk_write(disk, sfs->w->root_buf + i * SFS_ROOT_BYTES, len,
				sfs_root_offset(sfs, i)) < 0 &&
			!sfs_disk_drop_failed(sfs, disk, errno))
			return pr_error_errno(err, "%s: cannot write the root", disk->path);
	}
	if (sfs_sync_disks(sfs, err) < 0)
		return -1;
	sfs_root_done(sfs);
	sfs_frontier_release_pending(&sfs->w->frontier, pending);
	return 0;
}
