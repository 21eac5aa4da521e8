/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "logger/streamfs/disk.h"

/* ---- how much a device takes at once ---- */

#define LEAST (64u << 10)
#define MOST (1u << 20)
#define UNKNOWN (128u << 10)
#define PAGE 4096

/* A limit of a device's request queue; a partition has its disk's. 0: not known. */
static unsigned long
queue_limit(dev_t dev, const char *name)
{
	char path[120];
	unsigned long value = 0;
	for (int up = 0; up < 2; up++) {
		PR_PRINT(path, "/sys/dev/block/%u:%u/%squeue/%s", major(dev), minor(dev),
			up ? "../" : "", name);
		FILE *f = fopen(path, "re");
		if (!f)
			continue;
		if (fscanf(f, "%lu", &value) != 1)
			value = 0;
		fclose(f);
		return value;
	}
	return 0;
}

/* ---- files and block devices ---- */

/* The argument of the ops: for files and block devices the disk itself. */
static void *
arg_of(struct sfs_disk *disk)
{
	return disk->fd >= 0 ? disk : disk->arg;
}

static ssize_t
fd_read(void *arg, void *buf, size_t len, uint64_t offset)
{
	return pread(((struct sfs_disk *)arg)->fd, buf, len, offset);
}

static ssize_t
fd_write(void *arg, const void *buf, size_t len, uint64_t offset)
{
	return pwrite(((struct sfs_disk *)arg)->fd, buf, len, offset);
}

static int
fd_sync(void *arg)
{
	return fdatasync(((struct sfs_disk *)arg)->fd);
}

static void
fd_close(void *arg)
{
	close(((struct sfs_disk *)arg)->fd);
}

static const struct sfs_disk_ops fd_ops = {
	.read = fd_read, .write = fd_write, .sync = fd_sync, .close = fd_close};

static const struct sfs_disk_ops none_ops = {0}; /* a missing disk is asked for nothing */

void
sfs_disk_missing(struct sfs_disk *disk, const char *path, const char *why)
{
	*disk = (struct sfs_disk){.ops = &none_ops, .fd = -1, .missing = true};
	PR_PRINT(disk->path, "%s", path);
	PR_PRINT(disk->why, "%s", why);
}

/*
 * Measures the size; for a block device opened with O_DIRECT also the sector that the
 * medium writes whole. piece is the longest request that the device (for a file, the device
 * below it) takes undivided, a power of two from 64 KiB to 1 MiB. The limits are its
 * request size and its number of segments, as pages need not be contiguous.
 */
int
sfs_disk_measure(struct sfs_disk *disk, struct pr_error *err)
{
	struct stat st;
	unsigned sector = 0;
	if (disk->fd < 0)
		return 0;
	if (fstat(disk->fd, &st) < 0)
		return pr_error_errno(err, "%s", disk->path);
	bool block = S_ISBLK(st.st_mode);
	if (!block && !S_ISREG(st.st_mode))
		return pr_error_set(
			err, "%s: neither a file nor a block device", disk->path);
	disk->size = st.st_size;
	if (block && ioctl(disk->fd, BLKGETSIZE64, &disk->size) < 0)
		return pr_error_errno(err, "%s: cannot tell the device's size", disk->path);
	dev_t dev = block ? st.st_rdev : st.st_dev;
	uint64_t most = queue_limit(dev, "max_sectors_kb") * 1024;
	uint64_t pages = queue_limit(dev, "max_segments") * PAGE;
	most = PR_MIN(pages, most);
	disk->piece = most > 0 ? LEAST : UNKNOWN;
	while (disk->piece < MOST && disk->piece * 2 <= most)
		disk->piece *= 2;
	if (block && disk->direct && ioctl(disk->fd, BLKPBSZGET, &sector) == 0 &&
		(sector == 512 || sector == 1024 || sector == 2048))
		disk->sector = sector;
	return 0;
}

static int
plain_open(const char *path, int flags)
{
	return open(path, flags);
}

int (*sfs_open_file)(const char *path, int flags) = plain_open;

int
sfs_disk_open(struct sfs_disk *disk, const char *path, bool write, bool direct,
	struct pr_error *err)
{
	int flags = (write ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
	*disk = (struct sfs_disk){.fd = -1};
	PR_PRINT(disk->path, "%s", path);
	if (direct)
		disk->fd = sfs_open_file(path, flags | O_DIRECT);
	disk->direct = disk->fd >= 0;
	if (disk->fd < 0)
		disk->fd = sfs_open_file(path, flags);
	if (disk->fd < 0)
		return pr_error_errno(err, "cannot open volume %s", path);
	if (sfs_disk_measure(disk, err) < 0) {
		close(disk->fd);
		disk->fd = -1;
		return -1;
	}
	disk->ops = &fd_ops;
	return 0;
}

bool
sfs_disk_is_file(const struct sfs_disk *disk)
{
	struct stat st;
	return disk->fd >= 0 && fstat(disk->fd, &st) == 0 && S_ISREG(st.st_mode);
}

void
sfs_disk_close(struct sfs_disk *disk)
{
	if (disk->ops && disk->ops->close)
		disk->ops->close(arg_of(disk));
	disk->ops = NULL;
	disk->fd = -1;
}

/* Whole reads (to) or writes (from); -1: errno. */
static int
transfer(struct sfs_disk *disk, uint8_t *to, const uint8_t *from, size_t len,
	uint64_t offset)
{
	if (disk->missing) {
		errno = ENODEV;
		return -1;
	}
	void *arg = arg_of(disk);
	for (size_t done = 0; done < len;) {
		ssize_t n =
			to ? disk->ops->read(arg, to + done, len - done, offset + done)
			   : disk->ops->write(arg, from + done, len - done, offset + done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			errno = n < 0 ? errno : EIO;
			return -1;
		}
		done += n;
	}
	return 0;
}

int
sfs_disk_sync(struct sfs_disk *disk)
{
	return disk->ops->sync(arg_of(disk));
}

int
sfs_disk_read(struct sfs_disk *disk, void *buf, size_t len, uint64_t offset)
{
	return transfer(disk, buf, NULL, len, offset);
}

int
sfs_disk_write(struct sfs_disk *disk, const void *buf, size_t len, uint64_t offset)
{
	return transfer(disk, NULL, buf, len, offset);
}
