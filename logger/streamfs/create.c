/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "logger/streamfs/internal.h"

/* ---- is a device faster at its beginning than at its end? ---- */

/*
 * Measures this, because the kernel's rotational flag is wrong in virtual machines. Reads
 * from the first and the last GiB in turn, so that other load affects both; the median
 * ratio of the rounds counts.
 */
#define GIB (UINT64_C(1) << 30)
#define ROUNDS 7
#define PIECE (1u << 20)
#define PIECES 16 /* 16 MiB a round: a seek is a twentieth of its time */

/* Time in ns to read PIECES from offset on; -1: cannot be read. */
static int64_t
time_read(struct sfs_disk *disk, uint64_t offset, uint8_t *buf, int64_t (*now)(void))
{
	int64_t begin = now();
	for (uint64_t i = 0; i < PIECES; i++)
		if (sfs_disk_read(disk, buf, PIECE, offset + i * PIECE) < 0)
			return -1;
	return now() - begin;
}

static int
by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

double
sfs_zones_measure(struct sfs_disk *disk, int64_t (*now)(void))
{
	double ratio[ROUNDS];
	uint64_t end = disk->size & ~(uint64_t)(PIECE - 1);
	uint8_t *buf = sfs_buffer(PIECE);
	int n = 0;
	if (disk->size < 4 * GIB || !buf) {
		free(buf);
		return 1;
	}
	/* each round reads elsewhere in the GiB: not from a cache below us */
	for (; n < ROUNDS; n++) {
		uint64_t at = n * (GIB / ROUNDS & ~(uint64_t)(PIECE - 1));
		int64_t first = time_read(disk, at, buf, now);
		int64_t last = time_read(disk, end - GIB + at, buf, now);
		if (first <= 0 || last <= 0)
			break;
		ratio[n] = (double)last / (double)first;
	}
	free(buf);
	if (n < ROUNDS)
		return 1;
	qsort(ratio, ROUNDS, sizeof(*ratio), by_value);
	return ratio[ROUNDS / 2];
}

/* ---- create ---- */

uint8_t *
sfs_buffer(size_t size)
{
	uint8_t *p = sfs_read_buffer(size);
	return p ? memset(p, 0, size) : NULL;
}

uint8_t *
sfs_read_buffer(size_t size)
{
	return aligned_alloc(SFS_SECTOR, size);
}

/* The stripe sets that a volume has, or will have. */
struct plan {
	struct sfs_root root; /* as it will be */
	uint64_t rows[SFS_DEVICES_MAX]; /* that each device could have */
	uint64_t used[SFS_DEVICES_MAX]; /* that it has in the sets so far */
	uint16_t old; /* devices before growing */
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
	struct sfs_set *last = r->set_count ? &r->set[r->set_count - 1] : NULL;
	uint64_t blocks = rows * __builtin_popcount(devices);
	for (uint16_t d = 0; d < r->device_count; d++)
		if (devices & (1u << d))
			p->used[d] += rows;
	r->blocks += blocks;
	if (last && last->devices == devices && last->tier == tier) {
		last->blocks += blocks;
		return 0;
	}
	if (r->set_count == SFS_SETS_MAX)
		return too_often(err);
	r->set[r->set_count++] =
		(struct sfs_set){.blocks = blocks, .devices = devices, .tier = tier};
	return 0;
}

/*
 * Bit set of the devices in [from, to) with room for at least `worth` more rows. *least:
 * the smallest such room.
 */
static uint32_t
with_room(const struct plan *p, uint16_t from, uint16_t to, uint64_t worth, uint64_t *least)
{
	uint32_t devices = 0;
	*least = UINT64_MAX;
	for (uint16_t d = from; d < to; d++) {
		uint64_t room = p->rows[d] > p->used[d] ? p->rows[d] - p->used[d] : 0;
		if (room < worth)
			continue;
		devices |= 1u << d;
		*least = room < *least ? room : *least;
	}
	return devices;
}

/*
 * Room left over on only some devices is not worth a set if it is less than this part of a
 * full device's rows.
 */
#define LEAST_SET_PART 16

static int
geometry(struct sfs_root *root, const struct sfs_disk *disks, uint16_t count,
	uint32_t block_size, struct pr_error *err)
{
	uint64_t start = (2 * SFS_ROOT_BYTES + (uint64_t)block_size - 1) &
			 ~(uint64_t)(block_size - 1);
	struct plan p = {.root = *root};
	uint64_t smallest = UINT64_MAX, worth = 1, least;
	uint32_t devices, need = (SFS_BLOCKS_MIN + count - 1u) / count;
	for (uint16_t i = 0; i < count; i++) {
		p.rows[i] =
			disks[i].size < start ? 0 : (disks[i].size - start) / block_size;
		if (p.rows[i] < need)
			return pr_error_set(err,
				"%s: %" PRIu64 " bytes are too few for a volume: at least "
				"%" PRIu64 " with blocks of %u KiB",
				disks[i].path, disks[i].size, start + need * block_size,
				block_size / 1024);
		smallest = p.rows[i] < smallest ? p.rows[i] : smallest;
	}
	for (; (devices = with_room(&p, 0, count, worth, &least)) != 0;
		worth = smallest / LEAST_SET_PART + 1)
		if (add_set(&p, devices, least, p.root.set_count, err) < 0)
			return -1;
	if (p.root.blocks > SFS_BLOCKS_MAX)
		return pr_error_set(err, "%s: too many blocks: give a larger block size",
			disks[0].path);
	for (uint16_t i = 0; i < count; i++)
		p.root.device[i].blocks = p.used[i];
	*root = p.root;
	root->block_size = block_size;
	root->data_start = start;
	return 0;
}

static int
fresh_root(struct sfs_root *root, struct pr_error *err)
{
	bool good =
		getrandom(root->uuid, 16, 0) == 16 && getrandom(root->secret, 32, 0) == 32;
	for (uint16_t i = 0; good && i < root->device_count; i++)
		good = getrandom(root->device[i].uuid, 16, 0) == 16;
	if (!good)
		return pr_error_errno(err, "cannot get random bytes");
	root->uuid[6] = (root->uuid[6] & 0x0f) | 0x40; /* RFC 4122: random */
	root->uuid[8] = (root->uuid[8] & 0x3f) | 0x80;
	root->created = pr_now_real();
	root->flags = SFS_ROOT_CLEAN;
	return 0;
}

int
sfs_create_shaped(struct sfs_disk *disks, size_t count,
	const struct sfs_create_shape *shape, struct pr_error *err)
{
	struct sfs_root root = {.device_count = count,
		.map_interval = shape->interval,
		.utilization = shape->utilization};
	uint8_t *buf = sfs_buffer(SFS_ROOT_BYTES);
	int rc = buf ? 0 : pr_error_set(err, "no memory");
	if (rc == 0)
		rc = geometry(&root, disks, count, shape->block_size, err);
	if (rc == 0 && shape->zones)
		root.zone_region =
			sfs_zone_region(root.set[0].blocks / count, shape->block_size);
	if (rc == 0)
		rc = fresh_root(&root, err);
	for (uint16_t i = 0; rc == 0 && i < count; i++) {
		for (uint64_t copy = 0; rc == 0 && copy < 2; copy++) {
			root.device_index = i;
			root.generation = copy ? 1 : 2;
			size_t len = sfs_root_encode(&root, NULL, buf);
			if (sfs_disk_write(&disks[i], buf, len, copy * SFS_ROOT_BYTES) < 0)
				rc = pr_error_errno(
					err, "cannot write the root to %s", disks[i].path);
		}
		if (rc == 0 && sfs_disk_sync(&disks[i]) < 0)
			rc = pr_error_errno(err, "cannot sync %s", disks[i].path);
	}
	free(buf);
	return rc;
}

/*
 * A file that the user root creates in another user's folder, such as the daemons', belongs
 * to that user.
 */
static int
give_to_folder(int fd, const char *path)
{
	const char *slash = strrchr(path, '/');
	struct stat folder;
	char name[4096];

	if (geteuid() != 0)
		return 0;
	PR_PRINT(name, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
	if (stat(name, &folder) < 0 || folder.st_uid == 0)
		return 0;
	return fchown(fd, folder.st_uid, folder.st_gid);
}

/* Files that a call has made or enlarged so far; it undoes that if it fails. */
struct sized_files {
	size_t count;
	struct {
		const char *path;
		off_t before; /* its size; -1: there was no such file */
	} file[2 * SFS_DEVICES_MAX];
};

static void
undo_sizes(const struct sized_files *sized, struct pr_error *err)
{
	struct stat st;
	for (size_t i = sized->count; i-- > 0;) {
		const char *path = sized->file[i].path;
		off_t before = sized->file[i].before;
		if (before < 0)
			unlink(path);
		else if (stat(path, &st) == 0 && st.st_size > before &&
			 truncate(path, before) < 0)
			pr_error_prefix(err, "%s stays larger than it was", path);
	}
}

/* Refuses more than the file system has room for, or than the device has. */
static int
check_room(int fd, const char *path, const struct stat *st, uint64_t size,
	struct pr_error *err)
{
	bool file = S_ISREG(st->st_mode);
	uint64_t most = file ? (uint64_t)st->st_blocks * 512 : 0;
	struct statvfs fs;
	if (file && (fstatvfs(fd, &fs) < 0 || fs.f_blocks == 0))
		return 0; /* a file system that does not tell */
	if (file)
		most += (uint64_t)fs.f_bavail * fs.f_frsize;
	else if (S_ISBLK(st->st_mode))
		most = lseek(fd, 0, SEEK_END);
	else
		return 0; /* opening it as a device says what is wrong */
	if (size <= most)
		return 0;
	return pr_error_set(err,
		"volume %s: %" PRIu64 " MiB were asked for, but %s only %" PRIu64
		" MiB: give a smaller size",
		path, size >> 20, file ? "its file system has room for" : "the device has",
		most >> 20);
}

/*
 * Creates a file of that size; 0: leaves an existing file as it is. Its blocks are reserved
 * now if the file system can do that: a recorder must not find the disk full later. Else
 * the file is sparse.
 */
static int
size_file(const char *path, uint64_t size, struct sized_files *sized, struct pr_error *err)
{
	const int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
	struct stat st;
	int fd = open(path, flags | O_EXCL, 0600), rc = 0;
	bool made = fd >= 0;
	if (!made && errno == EEXIST)
		fd = open(path, flags, 0600);
	if (fd < 0)
		return pr_error_errno(err, "cannot create volume %s", path);
	if ((made && give_to_folder(fd, path) < 0) || fstat(fd, &st) < 0)
		rc = pr_error_errno(err, "cannot create volume %s", path);
	sized->file[sized->count].path = path;
	sized->file[sized->count].before = made ? -1 : rc == 0 ? st.st_size : INT64_MAX;
	sized->count++;
	if (rc == 0)
		rc = check_room(fd, path, &st, size, err);
	if (rc == 0 && S_ISREG(st.st_mode) && size > 0) {
		if ((uint64_t)st.st_size > size)
			rc = ftruncate(fd, size);
		if (rc == 0 && fallocate(fd, 0, 0, size) < 0)
			rc = errno == EOPNOTSUPP ? ftruncate(fd, size) : -1;
		if (rc < 0)
			pr_error_errno(err, "cannot allocate %" PRIu64 " MiB for volume %s",
				size >> 20, path);
	}
	close(fd);
	return rc;
}

/*
 * Before anything is changed: refuses a volume in use, and, without force, a volume of any
 * version, even a damaged one.
 */
static int
check_file(const char *path, bool force, struct pr_error *err)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	char head[8] = {0};
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), rc = 0;
	if (fd < 0)
		return 0; /* does not exist yet, or creating it will fail and report why */
	bool volume = false;
	for (int copy = 0; copy < 2; copy++)
		volume |= pread(fd, head, 8, copy * (off_t)SFS_ROOT_BYTES) == 8 &&
			  memcmp(head, "SFSroot\n", 8) == 0;
	if (fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK)
		rc = pr_error_set(err,
			"%s is being written by a running program: stop it first", path);
	else if (volume && !force)
		rc = pr_error_set(err,
			"%s already holds a volume: give --force to lose what is in it",
			path);
	close(fd);
	return rc;
}

static int
check_options(const char *const *paths, size_t count, const struct sfs_create_shape *shape,
	bool force, struct pr_error *err)
{
	uint32_t block_size = shape->block_size;
	if (count < 1 || count > SFS_DEVICES_MAX)
		return pr_error_set(err, "a volume has 1 to %d devices", SFS_DEVICES_MAX);
	if (block_size < SFS_BLOCK_MIN || block_size > SFS_BLOCK_MAX ||
		(block_size & (block_size - 1)) != 0)
		return pr_error_set(err,
			"block size %u: must be a power of two from %d KiB to %d MiB",
			block_size, SFS_BLOCK_MIN / 1024, SFS_BLOCK_MAX >> 20);
	if (shape->utilization < SFS_UTILIZATION_MIN ||
		shape->utilization > SFS_UTILIZATION_MAX)
		return pr_error_set(err,
			"utilization of %u %%: from %d to %d %% of a volume may be "
			"guaranteed",
			shape->utilization / 10, SFS_UTILIZATION_MIN / 10,
			SFS_UTILIZATION_MAX / 10);
	for (size_t i = 0; i < count; i++)
		if (check_file(paths[i], force, err) < 0)
			return -1;
	return 0;
}

int
sfs_create(const char *const *paths, size_t count, const struct sfs_create_options *options,
	struct pr_error *err)
{
	struct sfs_disk disks[SFS_DEVICES_MAX] = {0};
	struct sfs_create_shape shape = {
		.block_size = options->block_size ? options->block_size : SFS_BLOCK_DEFAULT,
		.interval = SFS_MAP_INTERVAL,
		.utilization =
			options->utilization ? options->utilization * 10 : SFS_UTILIZATION,
		.zones = options->zones == SFS_ZONES_ON};
	struct sized_files sized = {0};
	size_t opened = 0;
	int rc = check_options(paths, count, &shape, options->force, err);
	while (rc == 0 && opened < count) {
		rc = size_file(paths[opened], options->size / count, &sized, err);
		if (rc == 0)
			rc = sfs_disk_open(&disks[opened], paths[opened], true, true, err);
		opened += rc == 0;
	}
	/* files cannot be measured: their blocks may lie anywhere, or not exist yet */
	for (size_t i = 0; rc == 0 && options->zones == SFS_ZONES_AUTO && i < count; i++) {
		if (sfs_disk_is_file(&disks[i]) || !disks[i].direct || shape.zones)
			continue;
		double ratio = sfs_zones_measure(&disks[i], pr_now_mono);
		shape.zones = ratio > SFS_ZONES_DIFFER || ratio < 1 / SFS_ZONES_DIFFER;
	}
	if (rc == 0)
		rc = sfs_create_shaped(disks, count, &shape, err);
	for (size_t i = 0; i < opened; i++)
		sfs_disk_close(&disks[i]);
	if (rc < 0)
		undo_sizes(&sized, err);
	return rc;
}

/* ---- grow ---- */

/*
 * Growing a volume, by room on its devices and by more devices. Blocks keep their numbers
 * and places. New room becomes new stripe sets, and the frontier gets a new order: new
 * devices get a part in each tier, so that all devices work from the next block on. The
 * maps were made for the old order, so all maps are written again, then the root. A crash
 * before that root leaves the old volume: the new maps have generations above its limit, so
 * recovery reads block headers instead.
 */
static uint16_t
last_tier(const struct sfs_root *r)
{
	uint16_t tier = 0;
	for (uint32_t i = 0; i < r->set_count; i++)
		tier = r->set[i].tier > tier ? r->set[i].tier : tier;
	return tier;
}

/*
 * New room on the old devices comes behind everything else, except if the last set just
 * gets longer.
 */
static int
plan_room(struct plan *p, struct pr_error *err)
{
	uint64_t least;
	uint32_t devices;
	while ((devices = with_room(p, 0, p->old, 1, &least)) != 0) {
		const struct sfs_set *last = &p->root.set[p->root.set_count - 1];
		uint16_t tier =
			last->devices == devices ? last->tier : last_tier(&p->root) + 1;
		if (tier >= SFS_SETS_MAX)
			return too_often(err);
		if (add_set(p, devices, least, tier, err) < 0)
			return -1;
	}
	return 0;
}

/* New devices get a part in each tier, in proportion to the tier's share of the volume. */
static int
plan_devices(struct plan *p, struct pr_error *err)
{
	uint64_t least, tier_blocks[SFS_SETS_MAX] = {0}, all = p->root.blocks;
	uint16_t last = last_tier(&p->root);
	uint32_t devices;
	for (uint32_t i = 0; i < p->root.set_count; i++)
		tier_blocks[p->root.set[i].tier] += p->root.set[i].blocks;
	while ((devices = with_room(p, p->old, p->root.device_count, 1, &least)) != 0) {
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
	r->device_count = sfs->disks + count;
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
	return r->blocks > SFS_BLOCKS_MAX ? pr_error_set(err, "too many blocks") : 0;
}

/*
 * Enlarges the table and the list of disks in memory; changes nothing on the devices yet.
 */
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
	uint8_t *roots = sfs_buffer(p->root.device_count * SFS_ROOT_BYTES);
	if (!entry || !disk || !roots) {
		free(disk);
		free(roots);
		return pr_error_set(err, "no memory for %" PRIu64 " blocks", blocks);
	}
	for (uint64_t b = t->blocks; b < blocks; b++)
		t->entry[b] = (struct sfs_entry){SFS_ALONE};
	for (uint16_t d = 0; d < p->root.device_count; d++)
		disk[d] = d < p->old ? sfs->disk[d] : added[d - p->old];
	free(sfs->disk);
	free(sfs->w->root_buf);
	sfs->disk = disk;
	sfs->w->root_buf = roots;
	sfs->disks = p->root.device_count;
	t->blocks = blocks;
	t->shm = NULL; /* no room there for the new blocks; unlinked at the end */
	return 0;
}

/* The frontier continues in the new order, at the block that would have been next. */
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
		size_t len =
			sfs_map_build(sfs, map, w->frontier.next_generation++, w->map_buf);
		if (sfs_write_block(sfs, map, 0, w->map_buf, len, err) < 0)
			return -1;
	}
	return sfs_sync_disks(sfs, err);
}

/*
 * Writes the new devices first: no old device may have a root that lists them before they
 * have a root.
 */
static int
write_new_roots(struct sfs *sfs, uint16_t old, struct pr_error *err)
{
	size_t len = sfs_root_prepare(sfs, SFS_ROOT_CLEAN);
	for (uint16_t d = old; d < sfs->disks; d++) {
		sfs->root_copy[d] = 0;
		if (sfs_disk_write(&sfs->disk[d], sfs->w->root_buf + d * SFS_ROOT_BYTES,
			    len, 0) < 0)
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

/*
 * Enlarges files to `each` bytes (0: not), and measures all devices and files. *largest:
 * the largest size.
 */
static int
enlarge(struct sfs *sfs, uint64_t each, uint64_t *largest, struct sized_files *sized,
	struct pr_error *err)
{
	*largest = 0;
	for (uint16_t d = 0; d < sfs->disks; d++) {
		struct sfs_disk *disk = &sfs->disk[d];
		if (disk->lost)
			continue;
		if (each > 0 && sfs_disk_is_file(disk)) {
			if (each < disk->size)
				return pr_error_set(err,
					"%s has %" PRIu64
					" MiB already: a volume does not shrink",
					disk->path, disk->size >> 20);
			if (size_file(disk->path, each, sized, err) < 0)
				return -1;
		}
		if (sfs_disk_measure(disk, err) < 0)
			return -1;
		*largest = disk->size > *largest ? disk->size : *largest;
	}
	return 0;
}

int
sfs_grow(const char *const *paths, size_t count, const struct sfs_grow_options *o,
	uint64_t *new_blocks, struct pr_error *err)
{
	const struct sfs_open_options writing = {.writer = true};
	struct sfs_disk added[SFS_DEVICES_MAX] = {0};
	struct sized_files sized = {0};
	uint64_t largest;
	size_t opened = 0;
	if (o->add_count > SFS_DEVICES_MAX)
		return pr_error_set(
			err, "a volume has at most %d devices", SFS_DEVICES_MAX);
	struct sfs *sfs = sfs_open(paths, count, &writing, err);
	if (!sfs)
		return -1;
	uint16_t before = sfs->disks;
	const uint64_t blocks = sfs->root.blocks;
	uint64_t each = o->size / (before + o->add_count);
	int rc = enlarge(sfs, each, &largest, &sized, err);
	for (; rc == 0 && opened < o->add_count; opened += rc == 0) {
		const char *path = o->add[opened];
		struct stat st;
		rc = check_file(path, o->force, err);
		/*
		 * size 0: a new file gets the size of the largest one, old files keep
		 * theirs
		 */
		if (rc == 0 &&
			(stat(path, &st) < 0 || (S_ISREG(st.st_mode) && st.st_size == 0)))
			rc = size_file(path, each ? each : largest, &sized, err);
		if (rc == 0)
			rc = sfs_disk_open(&added[opened], path, true, true, err);
	}
	if (rc == 0)
		rc = sfs_grow_open(sfs, added, o->add_count, new_blocks, err);
	/* devices that the volume has taken over are closed with it */
	for (size_t i = 0; i < opened && sfs->disks == before; i++)
		sfs_disk_close(&added[i]);
	/* once the root may name the new room, it stays */
	if (rc < 0 && sfs->root.blocks == blocks)
		undo_sizes(&sized, err);
	if (rc == 0)
		sfs_close(&sfs);
	else
		sfs_dispose(&sfs, true);
	return rc;
}
