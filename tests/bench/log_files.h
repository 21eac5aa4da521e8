/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * What a file system is given to do in Hyperion's experiments: each stream goes to a log file of up to
 * 64 MB at a time, and the oldest of all is deleted when there is no room for the next.
 */
#define LOG_STREAMS_MAX 32
#define LOG_READ_BYTES 4096
#define FILE_BYTES (64u << 20)
#define FILES_MAX 8192

struct log_files {
	const char *paths[8]; /* of directories; files go to them in turn */
	size_t path_count;
	uint64_t room; /* bytes of all files */
	int fd[LOG_STREAMS_MAX]; /* -1: none yet */
	uint64_t file[LOG_STREAMS_MAX], size[LOG_STREAMS_MAX];
	uint64_t files, held; /* begun so far, and of them not deleted */
	uint64_t oldest; /* of those that are not */
	uint64_t live[FILES_MAX]; /* numbers of those; finished ones in that order */
};

static inline void
log_die(const char *what, const char *why)
{
	fprintf(stderr, "log files: %s: %s\n", what, why);
	exit(1);
}

static inline void
file_name(const struct log_files *l, uint64_t n, char *to, size_t size)
{
	snprintf(to, size, "%s/log.%08lu", l->paths[n % l->path_count], (unsigned long)n);
}

static inline bool
being_written(const struct log_files *l, uint64_t file)
{
	for (uint32_t i = 0; i < LOG_STREAMS_MAX; i++)
		if (l->fd[i] >= 0 && l->file[i] == file)
			return true;
	return false;
}

/*
 * The one that was finished first. Not the one begun first: that would be a slow stream's that has just been
 * finished, and a file system never writes what is deleted from its cache.
 */
static inline void
delete_oldest(struct log_files *l)
{
	char name[300];
	uint64_t i = 0;
	while (i < l->held && being_written(l, l->live[i]))
		i++;
	if (i == l->held)
		log_die("no room", "every log file is being written");
	file_name(l, l->live[i], name, sizeof(name));
	if (unlink(name) < 0)
		log_die(name, strerror(errno));
	l->held--;
	memmove(&l->live[i], &l->live[i + 1], (l->held - i) * sizeof(l->live[0]));
	uint64_t oldest = l->files;
	for (i = 0; i < l->held; i++)
		oldest = l->live[i] < oldest ? l->live[i] : oldest;
	l->oldest = oldest;
}

/* Behind all that were finished before. */
static inline void
finish_file(struct log_files *l, uint32_t stream)
{
	uint64_t i = 0;
	close(l->fd[stream]);
	l->fd[stream] = -1;
	while (l->live[i] != l->file[stream])
		i++;
	memmove(&l->live[i], &l->live[i + 1], (l->held - i - 1) * sizeof(l->live[0]));
	l->live[l->held - 1] = l->file[stream];
}

/* The next log file of a stream; the oldest of all goes when there is no room for it. */
static inline void
file_begin(struct log_files *l, uint32_t stream)
{
	char name[300];
	uint64_t most = l->room / FILE_BYTES;
	if (l->fd[stream] >= 0)
		finish_file(l, stream);
	while (l->held >= (most < FILES_MAX ? most : FILES_MAX))
		delete_oldest(l);
	l->file[stream] = l->live[l->held++] = l->files;
	l->size[stream] = 0;
	file_name(l, l->files++, name, sizeof(name));
	l->fd[stream] =
		open(name, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
	if (l->fd[stream] < 0)
		log_die(name, strerror(errno));
}

static inline void
files_write(struct log_files *l, uint32_t stream, const uint8_t *body, uint32_t length)
{
	if (l->fd[stream] < 0 || l->size[stream] + length > FILE_BYTES)
		file_begin(l, stream);
	for (uint32_t at = 0; at < length;) {
		ssize_t n = write(l->fd[stream], body + at, length - at);
		if (n < 0)
			log_die("write", strerror(errno));
		at += (uint32_t)n;
	}
	l->size[stream] += length;
}

/* A read opens its file, as a query does that finds its way by an index. */
static inline int
files_read(const struct log_files *l, uint64_t n, uint64_t where, uint8_t *buf)
{
	char name[300];
	file_name(l, n, name, sizeof(name));
	int fd = open(name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	off_t size = lseek(fd, 0, SEEK_END);
	ssize_t got = -1;
	posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
	if (size >= LOG_READ_BYTES)
		got = pread(fd, buf, LOG_READ_BYTES,
			(off_t)(where % (uint64_t)(size / LOG_READ_BYTES) *
				LOG_READ_BYTES));
	close(fd);
	return got == LOG_READ_BYTES;
}
