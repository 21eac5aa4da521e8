/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "logger/streamfs/io.h"

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
		snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/%squeue/%s", major(dev),
			minor(dev), up ? "../" : "", name);
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

uint32_t
sfs_disk_piece(int fd)
{
	struct stat st;
	if (fstat(fd, &st) < 0)
		return UNKNOWN;
	dev_t dev = S_ISBLK(st.st_mode) ? st.st_rdev : st.st_dev;
	uint64_t most = (uint64_t)queue_limit(dev, "max_sectors_kb") * 1024;
	uint64_t pages = (uint64_t)queue_limit(dev, "max_segments") * PAGE;
	if (most == 0 || pages == 0)
		return UNKNOWN;
	most = pages < most ? pages : most;
	uint32_t piece = LEAST;
	while (piece < MOST && piece * 2 <= most)
		piece *= 2;
	return piece;
}
