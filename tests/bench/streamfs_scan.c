/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sequential reads by record size (Hyperion, figure 11): several streams are written interleaved, then
 * one is read from its beginning to its end, a record at a time.
 *   streamfs_scan write volume|files PATH STREAMS RECORD BYTES
 *   streamfs_scan read  volume|files PATH STREAMS RECORD      prints bytes a second
 * BYTES are of the stream that is read; RECORD is a record with its header.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "logger/streamfs/streamfs.h"
#include "proto/base/clock.h"

#define STREAMS_MAX 32
#define HEADER 104

struct scan {
	bool volume;
	const char *path;
	int streams;
	size_t record;
	uint8_t *body;
};

static void
die(const char *what, const char *why)
{
	fprintf(stderr, "streamfs_scan: %s: %s\n", what, why);
	exit(1);
}

static struct sfs *
volume_open(const struct scan *s, bool writer)
{
	struct pr_error err = {0};
	struct sfs_open_options o = {.writer = writer};
	struct sfs *sfs = sfs_open(&s->path, 1, &o, &err);
	if (!sfs)
		die(s->path, err.text);
	return sfs;
}

static void
write_volume(const struct scan *s, uint64_t bytes)
{
	struct pr_error err = {0};
	struct sfs *sfs = volume_open(s, true);
	int id[STREAMS_MAX];
	char name[16];
	for (int i = 0; i < s->streams; i++) {
		snprintf(name, sizeof(name), "s%d", i);
		id[i] = sfs_stream_open(sfs, name, 0, 0, &err);
	}
	for (uint64_t done = 0; done < bytes; done += s->record) {
		for (int i = 0; i < s->streams; i++)
			if (sfs_append(sfs, id[i], 1, 1, s->body, s->record - HEADER, NULL,
				    &err) != SFS_OK)
				die("append", err.text);
		if (done % (16 * s->record) == 0)
			sfs_tick(sfs, pr_now_mono(), &err);
	}
	sfs_close(&sfs);
}

/* Without the opening, as mounting is not in the file systems' time either. */
static uint64_t
read_volume(const struct scan *s, int64_t *begin)
{
	struct pr_error err = {0};
	struct sfs *sfs = volume_open(s, false);
	*begin = pr_now_mono();
	struct sfs_cursor *c = sfs_cursor_open(sfs, sfs_stream_find(sfs, "s0"), NULL, &err);
	struct sfs_record record;
	uint64_t bytes = 0;
	int rc = 1;
	while (c && (rc = sfs_cursor_next(c, &record, &err)) == 1)
		bytes += record.length;
	if (!c || rc < 0)
		die("read", err.text);
	sfs_cursor_close(&c);
	sfs_close(&sfs);
	return bytes;
}

static int
file_open(const struct scan *s, int i, int flags)
{
	char name[300];
	snprintf(name, sizeof(name), "%s/s%d", s->path, i);
	int fd = open(name, flags, 0600);
	if (fd < 0)
		die(name, strerror(errno));
	return fd;
}

static void
write_files(const struct scan *s, uint64_t bytes)
{
	int fd[STREAMS_MAX];
	for (int i = 0; i < s->streams; i++)
		fd[i] = file_open(s, i, O_WRONLY | O_CREAT | O_TRUNC);
	for (uint64_t done = 0; done < bytes; done += s->record)
		for (int i = 0; i < s->streams; i++)
			if (write(fd[i], s->body, s->record) != (ssize_t)s->record)
				die("write", strerror(errno));
	for (int i = 0; i < s->streams; i++)
		if (fsync(fd[i]) < 0 || close(fd[i]) < 0)
			die("fsync", strerror(errno));
}

static uint64_t
read_files(const struct scan *s, int64_t *begin)
{
	*begin = pr_now_mono();
	int fd = file_open(s, 0, O_RDONLY);
	uint64_t bytes = 0;
	ssize_t n;
	while ((n = read(fd, s->body, s->record)) > 0)
		bytes += (uint64_t)n;
	if (n < 0)
		die("read", strerror(errno));
	close(fd);
	return bytes;
}

int
main(int argc, char **argv)
{
	bool writing = argc == 7 && strcmp(argv[1], "write") == 0;
	if (!writing && (argc != 6 || strcmp(argv[1], "read") != 0))
		die("usage", "write|read volume|files PATH STREAMS RECORD [BYTES]");
	struct scan s = {.volume = strcmp(argv[2], "volume") == 0,
		.path = argv[3],
		.streams = atoi(argv[4]),
		.record = strtoull(argv[5], NULL, 0)};
	if (s.streams < 1 || s.streams > STREAMS_MAX || s.record <= HEADER)
		die("usage", "1 to 32 streams, records longer than a header");
	s.body = malloc(s.record);
	if (!s.body)
		die("memory", strerror(errno));
	/* nothing on the way may take it for zeros */
	for (size_t i = 0; i < s.record; i++)
		s.body[i] = (uint8_t)(i * 2654435761u >> 13);
	if (writing) {
		(s.volume ? write_volume : write_files)(&s, strtoull(argv[6], NULL, 0));
		return 0;
	}
	int64_t begin = 0;
	uint64_t bytes = (s.volume ? read_volume : read_files)(&s, &begin);
	printf("%.0f\n", (double)bytes / ((double)(pr_now_mono() - begin) / 1e9));
	return 0;
}
