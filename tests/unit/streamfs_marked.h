/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "logger/streamfs/internal.h"
#include "tests/unit/streamfs_file.h"
#include "tests/unit/streamfs_volume.h"

/* A small volume whose records say all over which they are, so that the file can be searched for them. */
#define RECORD 30000 /* two of them to a block */

static inline void
setup(void)
{
	make_volume(
		&(struct sfs_create_options){.size = 6 << 20, .block_size = SFS_BLOCK_MIN});
}

/* Record n has times n * 10 to n * 10 + 5, and says its number all over. */
static inline struct sfs_handle
append(struct sfs *sfs, int stream, unsigned n)
{
	static char body[RECORD];
	struct sfs_handle h;

	for (size_t i = 0; i < RECORD; i += 20)
		snprintf(body + i, 20, "<%d.record.%06u>", stream, n);
	ck_assert_msg(sfs_append(sfs, stream, n * 10, n * 10 + 5, body, RECORD, &h, &err) ==
			      SFS_OK,
		"%s", err.text);
	return h;
}

/* Is it anywhere in the file? */
static inline bool
on_disk(int stream, unsigned n)
{
	static char file[6 << 20];
	char text[32];
	int fd = open(path, O_RDONLY), len;

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(read(fd, file, sizeof(file)), (ssize_t)sizeof(file));
	close(fd);
	len = snprintf(text, sizeof(text), "<%d.record.%06u>", stream, n);
	return memmem(file, sizeof(file), text, (size_t)len) != NULL;
}

static inline int
read_one(struct sfs *sfs, const struct sfs_handle *h)
{
	return sfs_read(sfs, h, NULL, 0, NULL, NULL, &err);
}

/* A device that refuses all writes but so many; negative: takes them. */
static int writes_left = -1;
static ssize_t (*true_write)(void *arg, const void *buf, size_t len, uint64_t offset);

static inline ssize_t
failing_write(void *arg, const void *buf, size_t len, uint64_t offset)
{
	if (writes_left == 0) {
		errno = EIO;
		return -1;
	}
	writes_left -= writes_left > 0;
	return true_write(arg, buf, len, offset);
}

/* The volume, for writing, on such a device. */
static inline struct sfs *
open_refusing(void)
{
	struct sfs_open_options o = {
		.writer = true, .shm_bytes = 1 << 20, .no_direct = true};
	static struct sfs_disk_ops ops;
	struct sfs_disk disk;

	ck_assert_int_eq(sfs_disk_open(&disk, path, true, false, &err), 0);
	ops = *disk.ops;
	true_write = ops.write;
	ops.write = failing_write;
	disk.ops = &ops;
	struct sfs *w = sfs_open_disks(&disk, 1, &o, &err);
	ck_assert_msg(w != NULL, "%s", err.text);
	return w;
}
