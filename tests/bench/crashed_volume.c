/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crashed_volume make PATH GIB STREAMS: a sparse volume whose every block was written, by the production
 * writer, and a writer that dies in mid-work. Of the blocks before the last SHARP only headers and maps
 * are kept (bodies would be the whole size); the last ones are whole, partly flushed, and the root is not clean.
 * crashed_volume open PATH reader|writer: how long sfs_open takes; the volume is left as crashed as before.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "logger/streamfs/internal.h"
#include "proto/base/clock.h"
#include "tests/unit/streamfs_queue.h"
#include "tests/unit/streamfs_volume.h"

#define BLOCK SFS_BLOCK_DEFAULT
/* blocks: more than the frontier's window, and a second of recording */
#define SHARP 800

struct thin {
	int fd;
	bool whole; /* bodies too */
	uint64_t data_start;
};

static ssize_t
thin_read(void *arg, void *buf, size_t len, uint64_t offset)
{
	const struct thin *t = arg;
	return pread(t->fd, buf, len, (off_t)offset);
}

/* Roots, maps and the first sector of a block reach the file; other bytes only when it is to be whole. */
static ssize_t
thin_write(void *arg, const void *buf, size_t len, uint64_t offset)
{
	const struct thin *t = arg;
	size_t keep = len;
	if (!t->whole && offset >= t->data_start && len > BLOCK / 8)
		keep = (offset - t->data_start) % BLOCK == 0 ? SFS_SECTOR : 0;
	if (keep > 0 && pwrite(t->fd, buf, keep, (off_t)offset) != (ssize_t)keep)
		return -1;
	return (ssize_t)len;
}

static int
thin_sync(void *arg)
{
	const struct thin *t = arg;
	return t->whole ? fdatasync(t->fd) : 0;
}

static const struct sfs_disk_ops thin_ops = {.read = thin_read,
	.write = thin_write,
	.sync = thin_sync,
	.open_queue = inline_open};

static int
die(const char *what, const struct pr_error *err)
{
	fprintf(stderr, "crashed_volume: %s: %s\n", what,
		err ? err->text : strerror(errno));
	exit(1);
}

static uint64_t
random_next(uint64_t *s)
{
	*s ^= *s << 13;
	*s ^= *s >> 7;
	*s ^= *s << 17;
	return *s;
}

/* A block a record: what lies in the buffer is its body. */
static void
fill_thin(struct sfs *sfs, int streams, uint64_t blocks, uint64_t *rng)
{
	struct pr_error err;
	for (uint64_t i = 0; i < blocks; i++) {
		int s = (int)(random_next(rng) % (uint64_t)streams);
		size_t len = sfs_record_max(sfs);
		if (!sfs_reserve(sfs, s, len, &err) ||
			sfs_commit(sfs, s, (int64_t)i, (int64_t)i, len, NULL, &err) !=
				SFS_OK)
			die("append", &err);
		/* the time of a recorder of 1 GB/s */
		if (sfs_tick(sfs, (int64_t)i * 1000000, &err) != SFS_OK)
			die("tick", &err);
	}
}

static void
fill_whole(struct sfs *sfs, int streams, uint64_t blocks, uint64_t *rng)
{
	struct pr_error err;
	enum { RECORD = 65000 }; /* 16 a block */
	uint8_t *body = calloc(1, RECORD);
	for (uint64_t n = 0; body && n < blocks * BLOCK / RECORD; n++) {
		int s = (int)(random_next(rng) % (uint64_t)streams);
		int64_t now = ((int64_t)1 << 40) + (int64_t)n * RECORD;
		for (size_t i = 0; i + 8 <= RECORD; i += 512) {
			uint64_t x = random_next(rng);
			memcpy(body + i, &x, 8); /* no hole when it is copied */
		}
		if (sfs_append(sfs, s, now, now, body, RECORD, NULL, &err) != SFS_OK ||
			sfs_tick(sfs, now, &err) != SFS_OK)
			die("append", &err);
	}
}

static void
open_streams(struct sfs *sfs, int streams)
{
	struct pr_error err;
	char name[32];
	for (int i = 0; i < streams; i++) {
		snprintf(name, sizeof(name), "packets.%d", i);
		uint64_t guarantee = i % 4 ? 0 : sfs->root.blocks / 100 * BLOCK;
		if (sfs_stream_open(sfs, name, guarantee, 0, &err) != i)
			die(name, &err);
	}
}

static void
make(const char *path, uint64_t gib, int streams)
{
	struct thin t = {.fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)};
	struct sfs_disk disk = {.ops = &thin_ops, .arg = &t, .fd = -1, .size = gib << 30};
	struct sfs_open_options o = {.writer = true};
	struct pr_error err;
	uint64_t rng = 88172645463325252u; /* xorshift64 (Marsaglia, 2003) */
	snprintf(disk.path, sizeof(disk.path), "%s", path);
	if (t.fd < 0 || ftruncate(t.fd, (off_t)disk.size) < 0)
		die(path, NULL);
	t.data_start = BLOCK;
	if (sfs_create_disks(&disk, 1, BLOCK, SFS_MAP_INTERVAL, &err) < 0)
		die("create", &err);
	struct sfs *sfs = sfs_open_disks(&disk, 1, &o, &err);
	if (!sfs || sfs->root.data_start != t.data_start)
		die("open", &err);
	open_streams(sfs, streams);
	/* a lap and a third: the frontier stands in the midst of old blocks */
	fill_thin(sfs, streams, sfs->root.blocks + sfs->root.blocks / 3, &rng);
	t.whole = true;
	fill_whole(sfs, streams, SHARP, &rng);
	kill(getpid(), SIGKILL);
}

static void
measure(const char *path, bool writer)
{
	struct sfs_open_options o = {.writer = writer};
	struct sfs_volume_info info;
	struct pr_error err;
	int64_t before = pr_now_mono();
	struct sfs *sfs = sfs_open(&path, 1, &o, &err);
	int64_t after = pr_now_mono();
	if (!sfs || sfs_info(sfs, &info, &err) != SFS_OK)
		die("open", &err);
	printf("{\"seconds\": %.6f, \"blocks\": %lu, \"blocks_used\": %lu, \"streams\": "
	       "%zu, "
	       "\"recovered_records\": %lu, \"lost_tail_bytes\": %lu}\n",
		(double)(after - before) / 1e9, (unsigned long)info.blocks,
		(unsigned long)info.blocks_used, info.stream_count,
		(unsigned long)info.recovered_records, (unsigned long)info.lost_tail_bytes);
	fflush(stdout);
	if (!writer)
		sfs_close(&sfs);
	else
		sfs_shm_close(&sfs->shm, true); /* and no clean root */
	_exit(0);
}

int
main(int argc, char **argv)
{
	if (argc == 5 && strcmp(argv[1], "make") == 0)
		make(argv[2], strtoull(argv[3], NULL, 0), atoi(argv[4]));
	else if (argc == 4 && strcmp(argv[1], "open") == 0)
		measure(argv[2], strcmp(argv[3], "writer") == 0);
	fprintf(stderr,
		"usage: crashed_volume make PATH GIB STREAMS | open PATH reader|writer\n");
	return 2;
}
