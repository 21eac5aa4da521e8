/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "logger/streamfs/internal.h"
#include "proto/base/clock.h"

uint8_t *
sfs_buffer(size_t size)
{
	void *p = NULL;
	if (posix_memalign(&p, SFS_SECTOR, size) != 0)
		return NULL;
	memset(p, 0, size);
	return p;
}

uint8_t *
sfs_read_buffer(size_t size)
{
	void *p = NULL;
	return posix_memalign(&p, SFS_SECTOR, size) == 0 ? p : NULL;
}

/* A volume of whatever version, or a damaged one, is somebody's data. */
static int
refuse_existing(struct sfs_disk *disk, uint8_t *buf, struct pr_error *err)
{
	for (int copy = 0; copy < 2; copy++) {
		if (disk->size < 2 * SFS_ROOT_BYTES ||
			sfs_disk_read(disk, buf, SFS_SECTOR, copy ? SFS_ROOT_BYTES : 0) < 0)
			continue;
		if (memcmp(buf, "SFSroot\n", 8) == 0)
			return pr_error_set(err,
				"%s already holds a volume: give --force to lose what is "
				"in it",
				disk->path);
	}
	return 0;
}

/* What is left over on some devices only, and less than this part of a full one's, is not worth a set. */
#define REST_PART 16

static bool
add_set(struct sfs_root *root, const uint64_t *rows, uint64_t *used, uint64_t worth)
{
	struct sfs_set *set = &root->set[root->set_count];
	uint64_t least = UINT64_MAX, n = 0;
	*set = (struct sfs_set){.tier = (uint16_t)root->set_count};
	for (uint16_t i = 0; i < root->device_count; i++) {
		if (rows[i] - used[i] < worth)
			continue;
		set->devices |= (uint16_t)(1u << i);
		least = rows[i] - used[i] < least ? rows[i] - used[i] : least;
		n++;
	}
	if (n == 0)
		return false;
	for (uint16_t i = 0; i < root->device_count; i++)
		if (set->devices & (1u << i))
			used[i] += least;
	set->blocks = least * n;
	root->blocks += set->blocks;
	root->set_count++;
	return true;
}

static int
too_small(const struct sfs_disk *disk, uint64_t start, uint64_t blocks, uint32_t block_size,
	struct pr_error *err)
{
	return pr_error_set(err,
		"%s: %llu bytes are too few for a volume: at least %llu with blocks "
		"of %u KiB",
		disk->path, (unsigned long long)disk->size,
		(unsigned long long)(start + blocks * block_size), block_size / 1024);
}

static int
geometry(struct sfs_root *root, const struct sfs_disk *disks, size_t count,
	uint32_t block_size, struct pr_error *err)
{
	uint64_t start = (2 * SFS_ROOT_BYTES + (uint64_t)block_size - 1) &
			 ~(uint64_t)(block_size - 1);
	uint64_t rows[SFS_DEVICES_MAX], used[SFS_DEVICES_MAX] = {0}, least = UINT64_MAX;
	for (size_t i = 0; i < count; i++) {
		rows[i] = disks[i].size < start ? 0 : (disks[i].size - start) / block_size;
		if (rows[i] * count < SFS_BLOCKS_MIN)
			return too_small(&disks[i], start,
				(SFS_BLOCKS_MIN + count - 1) / count, block_size, err);
		least = rows[i] < least ? rows[i] : least;
	}
	add_set(root, rows, used, 1);
	while (add_set(root, rows, used, least / REST_PART + 1))
		;
	if (root->blocks > SFS_BLOCKS_MAX)
		return pr_error_set(err, "%s: too many blocks: give a larger block size",
			disks[0].path);
	for (size_t i = 0; i < count; i++)
		root->device[i].blocks = used[i];
	root->block_size = block_size;
	root->data_start = start;
	return 0;
}

static int
fresh_root(struct sfs_root *root, struct pr_error *err)
{
	if (getrandom(root->uuid, 16, 0) != 16 || getrandom(root->secret, 32, 0) != 32)
		return pr_error_errno(err, "cannot get random bytes");
	for (uint16_t i = 0; i < root->device_count; i++)
		if (getrandom(root->device[i].uuid, 16, 0) != 16)
			return pr_error_errno(err, "cannot get random bytes");
	root->uuid[6] = (uint8_t)((root->uuid[6] & 0x0f) | 0x40); /* RFC 4122: random */
	root->uuid[8] = (uint8_t)((root->uuid[8] & 0x3f) | 0x80);
	root->created = pr_now_real();
	root->flags = SFS_ROOT_CLEAN;
	return 0;
}

static int
write_roots(
	struct sfs_disk *disks, struct sfs_root *root, uint8_t *buf, struct pr_error *err)
{
	for (uint16_t i = 0; i < root->device_count; i++) {
		for (uint64_t copy = 0; copy < 2; copy++) {
			root->device_index = i;
			root->generation = copy ? 1 : 2;
			size_t len = sfs_root_encode(root, NULL, buf);
			if (sfs_disk_write(&disks[i], buf, len, copy * SFS_ROOT_BYTES) < 0)
				return pr_error_errno(
					err, "cannot write the root to %s", disks[i].path);
		}
		if (disks[i].ops->sync(disks[i].arg) < 0)
			return pr_error_errno(err, "cannot sync %s", disks[i].path);
	}
	return 0;
}

int
sfs_create_shaped(struct sfs_disk *disks, size_t count,
	const struct sfs_create_shape *shape, struct pr_error *err)
{
	struct sfs_root root = {.device_count = (uint16_t)count,
		.map_interval = shape->interval,
		.utilization = shape->utilization};
	uint8_t *buf = sfs_buffer(SFS_ROOT_BYTES);
	int rc = buf ? 0 : pr_error_set(err, "no memory");
	for (size_t i = 0; rc == 0 && !shape->force && i < count; i++)
		rc = refuse_existing(&disks[i], buf, err);
	if (rc == 0 && geometry(&root, disks, count, shape->block_size, err) < 0)
		rc = -1;
	if (rc == 0 && shape->zones)
		root.zone_region =
			sfs_zone_region(root.set[0].blocks / count, shape->block_size);
	if (rc == 0 &&
		(fresh_root(&root, err) < 0 || write_roots(disks, &root, buf, err) < 0))
		rc = -1;
	free(buf);
	return rc;
}

int
sfs_create_disks(struct sfs_disk *disks, size_t count, uint32_t block_size,
	uint32_t interval, bool force, struct pr_error *err)
{
	struct sfs_create_shape shape = {
		.block_size = block_size,
		.interval = interval,
		.utilization = SFS_UTILIZATION,
		.force = force,
	};
	return sfs_create_shaped(disks, count, &shape, err);
}

/* What root makes in a folder of another user, as of the daemons, is that user's. */
static int
give_to_folder(int fd, const char *path)
{
	const char *slash = strrchr(path, '/');
	struct stat folder;
	char name[4096];

	if (geteuid() != 0)
		return 0;
	snprintf(name, sizeof(name), "%.*s", slash ? (int)(slash - path) + 1 : 1,
		slash ? path : ".");
	if (stat(name, &folder) < 0 || folder.st_uid == 0)
		return 0;
	return fchown(fd, folder.st_uid, folder.st_gid);
}

static int
open_or_make(const char *path)
{
	int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK,
	    fd = open(path, flags | O_EXCL, 0600);

	if (fd < 0 && errno == EEXIST)
		return open(path, flags, 0600);
	if (fd >= 0 && give_to_folder(fd, path) < 0) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/*
 * Room is reserved now where the file system can: a recorder must not find the disk full later. Where
 * it cannot, the file is sparse.
 */
int
sfs_size_file(const char *path, uint64_t size, struct pr_error *err)
{
	struct stat st;
	int fd = open_or_make(path), rc = 0;
	if (fd < 0)
		return pr_error_errno(err, "cannot create volume %s", path);
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && size > 0) {
		if ((uint64_t)st.st_size > size)
			rc = ftruncate(fd, (off_t)size);
		if (rc == 0 && fallocate(fd, 0, 0, (off_t)size) < 0)
			rc = errno == EOPNOTSUPP ? ftruncate(fd, (off_t)size) : -1;
		if (rc < 0)
			pr_error_errno(err, "no %llu MiB for volume %s",
				(unsigned long long)(size >> 20), path);
	}
	close(fd);
	return rc;
}

int
sfs_size_new(const char *path, uint64_t size, struct pr_error *err)
{
	struct stat st;
	if (stat(path, &st) == 0 && (!S_ISREG(st.st_mode) || st.st_size > 0))
		return 0;
	return sfs_size_file(path, size, err);
}

/* What is there, before anything is touched: a volume, that may even be in use? */
int
sfs_check_file(const char *path, bool force, struct pr_error *err)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	char head[8] = {0};
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), rc = 0;
	if (fd < 0)
		return 0; /* to be made, or making it will say why not */
	bool volume = pread(fd, head, 8, 0) == 8 && memcmp(head, "SFSroot\n", 8) == 0;
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
	struct pr_error *err)
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
		if (sfs_check_file(paths[i], shape->force, err) < 0)
			return -1;
	return 0;
}

/* Of files nothing can be measured: they may lie anywhere, or nowhere yet. */
static bool
want_zones(enum sfs_zones wish, struct sfs_disk *disks, size_t count)
{
	if (wish != SFS_ZONES_AUTO)
		return wish == SFS_ZONES_ON;
	for (size_t i = 0; i < count; i++) {
		struct stat st;
		if (fstat(disks[i].fd, &st) < 0 || !S_ISBLK(st.st_mode) || !disks[i].direct)
			continue;
		double ratio = sfs_zones_measure(&disks[i], pr_now_mono);
		if (ratio > SFS_ZONES_DIFFER || ratio < 1 / SFS_ZONES_DIFFER)
			return true;
	}
	return false;
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
		.force = options->force,
	};
	size_t opened = 0;
	int rc = check_options(paths, count, &shape, err);
	while (rc == 0 && opened < count) {
		rc = sfs_size_file(paths[opened], options->size / count, err);
		if (rc == 0)
			rc = sfs_disk_open(&disks[opened], paths[opened], true, true, err);
		opened += rc == 0;
	}
	if (rc == 0)
		shape.zones = want_zones(options->zones, disks, count);
	if (rc == 0)
		rc = sfs_create_shaped(disks, count, &shape, err);
	for (size_t i = 0; i < opened; i++)
		sfs_disk_close(&disks[i]);
	return rc;
}
