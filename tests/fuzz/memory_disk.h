/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <string.h>

#include "tests/unit/streamfs_queue.h"

/*
 * A device in memory: requests are done at once, without threads and system calls, which took most of a run.
 * Pages that were written are noted, so that only these are restored for the next run.
 */
enum { DISK_PAGE = 4096, DISK_PAGES = 8192 };

static struct memory_disk {
	uint8_t *bytes;
	size_t size; /* what lies behind it cannot be read */
	bool touched[DISK_PAGES];
} disk;

static inline void
disk_touch(size_t at, size_t len)
{
	for (size_t page = at / DISK_PAGE; len && page <= (at + len - 1) / DISK_PAGE;
		page++)
		if (page < DISK_PAGES)
			disk.touched[page] = true;
}

static inline ssize_t
disk_read(void *arg, void *buf, size_t len, uint64_t offset)
{
	(void)arg;
	if (offset > disk.size || len > disk.size - offset)
		return 0;
	memcpy(buf, disk.bytes + offset, len);
	return (ssize_t)len;
}

static inline ssize_t
disk_write(void *arg, const void *buf, size_t len, uint64_t offset)
{
	(void)arg;
	if (offset > disk.size || len > disk.size - offset)
		return 0;
	disk_touch(offset, len);
	memcpy(disk.bytes + offset, buf, len);
	return (ssize_t)len;
}

static inline int
disk_sync(void *arg)
{
	(void)arg;
	return 0;
}

static inline struct sfs_disk
disk_make(void)
{
	static const struct sfs_disk_ops ops = {.read = disk_read,
		.write = disk_write,
		.sync = disk_sync,
		.open_queue = inline_open};

	return (struct sfs_disk){
		.ops = &ops, .size = disk.size, .fd = -1, .path = "memory"};
}

/* The first size bytes are as in pristine again. */
static inline void
disk_restore(const uint8_t *pristine, size_t size)
{
	for (size_t i = 0; i * DISK_PAGE < size && i < DISK_PAGES; i++)
		if (disk.touched[i])
			memcpy(disk.bytes + i * DISK_PAGE, pristine + i * DISK_PAGE,
				DISK_PAGE);
	memset(disk.touched, 0, sizeof disk.touched);
	disk.size = size;
}
